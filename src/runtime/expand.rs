//! From a profile and a grant to argv and env: vectors of values, never a shell string.

use std::collections::BTreeMap;

use crate::capability::{Capability, CapabilitySet, Kind};

use super::{Find, ModelForm, NODE_VARIABLE, Piece, Profile};

/// Where the directories of one node are. Absolute, made by us.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePaths {
    /// The node's private directory.
    pub private: String,
    /// The workspace it works in.
    pub workspace: String,
    /// This binary.
    pub itself: String,
}

/// The value of one environment variable of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// Set by us; holds no secret.
    Set(String),
    /// Passed from the broker's own environment at the start, because policy names it. Its value is
    /// in no plan and no record.
    Passed,
}

/// A program with its arguments and environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program: an absolute path, or a name to be found in the child's PATH.
    pub program: String,
    /// All arguments, the program's name first.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, EnvValue>,
}

/// What the executor puts in place before the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Where the instructions go.
    pub body_file: String,
    /// Directories to make, each private.
    pub directories: Vec<String>,
}

/// The system directories of every child's PATH.
const CHILD_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variables that programs are told of a proxy by.
const PROXY_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"];
/// The proxy, for programs. Every socket of theirs leads to it, so any address would do.
const PROXY: &str = "http://127.0.0.1:3128";

/// The PATH of a child: what policy adds, then the system directories.
#[must_use]
pub fn child_path(added: &[String]) -> String {
    [added, &[CHILD_PATH.to_owned()]].concat().join(":")
}

impl NodePaths {
    fn below(&self, name: &str) -> String {
        format!("{}/{name}", self.private)
    }

    /// What has to exist before the start.
    #[must_use]
    pub fn prepared(&self) -> Prepared {
        Prepared {
            body_file: self.below("body.md"),
            directories: vec![self.below("home"), self.below("tmp"), self.below("config")],
        }
    }
}

impl Profile {
    /// The program, argv and env for this grant. With `by_proxy` the child is told of the broker's proxy.
    ///
    /// # Errors
    /// In words: a model that is missing, not taken, or not in the form the runtime names models.
    pub fn launch(
        &self,
        granted: &CapabilitySet,
        model: Option<&str>,
        passed: &[String],
        extra_path: &[String],
        paths: &NodePaths,
        by_proxy: bool,
    ) -> Result<Launch, String> {
        let (provider, model) = self.model_parts(model)?;
        let tools: Vec<(&str, &Capability)> = self
            .tools
            .iter()
            .flat_map(|(name, tool)| {
                let granted = granted
                    .iter()
                    .filter(move |id| matches!(id.kind(), Kind::Tool(granted, _) if granted == name));
                granted.map(|id| (tool.native.as_str(), id))
            })
            .collect();
        let mut names: Vec<&str> = tools.iter().map(|(native, _)| *native).collect();
        names.dedup();
        let names = names.join(",");
        let [body, config, home, tmp] = ["body.md", "config", "home", "tmp"].map(|name| paths.below(name));
        let fill = |template: &str, id: &str| {
            let values = [
                ("{tools}", names.as_str()),
                ("{id}", id),
                ("{body}", body.as_str()),
                ("{config}", config.as_str()),
                ("{home}", home.as_str()),
                ("{tmp}", tmp.as_str()),
                ("{workspace}", paths.workspace.as_str()),
                ("{provider}", provider),
                ("{model}", model),
            ];
            substitute(template, &values)
        };
        let program = match &self.find {
            Find::Itself => paths.itself.clone(),
            Find::At(path) => path.clone(),
            Find::InPath(name) => name.clone(),
        };
        let mut argv = vec![program.clone()];
        for piece in &self.argv {
            match piece {
                Piece::Always(all) => argv.extend(all.iter().map(|a| fill(a, ""))),
                Piece::ByTools { none, .. } if tools.is_empty() => {
                    argv.extend(none.iter().map(|a| fill(a, "")));
                }
                Piece::ByTools { some, .. } => argv.extend(some.iter().map(|a| fill(a, ""))),
                Piece::EachTool(each) => {
                    for (_, id) in &tools {
                        argv.extend(each.iter().map(|a| fill(a, id.as_str())));
                    }
                }
            }
        }
        let mut env: BTreeMap<String, EnvValue> =
            passed.iter().map(|name| (name.clone(), EnvValue::Passed)).collect();
        for (name, value) in [
            ("PATH", child_path(extra_path)),
            (NODE_VARIABLE, "1".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TERM", "dumb".to_owned()),
            ("HOME", home.clone()),
            ("TMPDIR", tmp.clone()),
            ("XDG_CONFIG_HOME", config.clone()),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ] {
            env.insert(name.to_owned(), EnvValue::Set(value));
        }
        for (name, value) in &self.env {
            env.insert(name.clone(), EnvValue::Set(fill(value, "")));
        }
        if by_proxy {
            env.extend(PROXY_VARIABLES.map(|name| (name.to_owned(), EnvValue::Set(PROXY.to_owned()))));
            env.insert("NO_PROXY".to_owned(), EnvValue::Set(String::new()));
        }
        Ok(Launch { program, argv, env })
    }

    fn model_parts<'m>(&self, model: Option<&'m str>) -> Result<(&'m str, &'m str), String> {
        match (self.model, model) {
            (ModelForm::None, None) => Ok(("", "")),
            (ModelForm::None, Some(model)) => {
                Err(format!("the runtime `{}` takes no model, and `{model}` is asked for", self.runtime))
            }
            (ModelForm::ProviderSlashModel, None) => {
                Err(format!("the runtime `{}` needs a model, named `provider/model`", self.runtime))
            }
            (ModelForm::ProviderSlashModel, Some(model)) => {
                let plain = |part: &str| {
                    part.starts_with(|c: char| c.is_ascii_alphanumeric())
                        && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/@".contains(c))
                };
                match model.split_once('/') {
                    Some((provider, id)) if plain(provider) && plain(id) => Ok((provider, id)),
                    _ => Err(format!(
                        "the model `{model}` is not in the form `provider/model` of the runtime `{}`",
                        self.runtime
                    )),
                }
            }
        }
    }
}

/// Replaces placeholders in one pass, so that a value is never read as a template.
fn substitute(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let found = values.iter().find_map(|(name, value)| {
            after.strip_prefix(name.strip_prefix('{').unwrap_or(name)).map(|tail| (*value, tail))
        });
        match found {
            Some((value, tail)) => {
                out.push_str(value);
                rest = tail;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}
