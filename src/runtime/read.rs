//! A profile from its YAML. Unknown keys are fatal.

use std::collections::BTreeMap;

use crate::capability::{ToolName, vocabulary};
use crate::diagnostic::Problem;
use crate::yaml::{self, Fields, Node, Type, Value, absolute, boolean, list, text};

use super::{CageNeeds, Endpoint, Files, Find, Piece, Profile, Starts, Tool, shape};

/// The version of the format that is read.
pub const VERSION: u64 = 1;

/// The placeholders that argv and env may hold.
const PLACEHOLDERS: [&str; 9] =
    ["{tools}", "{id}", "{body}", "{config}", "{home}", "{tmp}", "{workspace}", "{provider}", "{model}"];

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// The first [`Problem`]: not YAML, an unknown key, a wrong type, an unknown placeholder.
    pub fn read(source: &[u8]) -> Result<Self, Problem> {
        let root = yaml::parse(yaml::utf8(source)?, 0)?;
        let mut fields = Fields::of(&root, &shape::PROFILE)?;
        yaml::version(fields.required("version")?, "profile", VERSION)?;
        let profile = Self {
            runtime: text(fields.required("runtime")?, "`runtime`")?.to_owned(),
            about: text(fields.required("about")?, "`about`")?.to_owned(),
            starts: match fields.optional("planned_only") {
                Some(node) => Starts::PlannedOnly(text(node, "`planned_only`")?.to_owned()),
                None => Starts::Yes,
            },
            find: find(fields.required("find")?)?,
            probe: texts(fields.required("probe")?, "`probe`")?,
            versions: optional_text(fields.required("versions")?, "`versions`")?,
            tools: tools(fields.required("tools")?)?,
            allowlist: text(fields.required("allowlist")?, "`allowlist`")?.to_owned(),
            argv: list(fields.required("argv")?, "`argv`")?.iter().map(piece).collect::<Result<_, _>>()?,
            env: env(fields.required("env")?)?,
            keys: texts(fields.required("keys")?, "`keys`")?,
            config_files: texts(fields.required("config_files")?, "`config_files`")?,
            body: choice(fields.required("body")?, "`body`", shape::BODY)?,
            task: choice(fields.required("task")?, "`task`", shape::TASK)?,
            model: choice(fields.required("model")?, "`model`", shape::MODEL)?,
            mcp: optional_text(fields.required("mcp")?, "`mcp`")?,
            output: choice(fields.required("output")?, "`output`", shape::OUTPUT)?,
            attestation: optional_text(fields.required("attestation")?, "`attestation`")?,
            usage: optional_text(fields.required("usage")?, "`usage`")?,
            exit: choice(fields.required("exit")?, "`exit`", shape::EXIT)?,
            cage: fields.optional("cage").map_or(Ok(CageNeeds::default()), cage)?,
            cannot: map(fields.required("cannot")?, "`cannot`")?,
            source: source.to_vec(),
        };
        fields.finish()?;
        Ok(profile)
    }
}

fn find(node: &Node) -> Result<Find, Problem> {
    let path = text(node, "`find`")?;
    Ok(match path {
        "itself" => Find::Itself,
        absolute if absolute.starts_with('/') => Find::At(absolute.to_owned()),
        name if !name.contains('/') => Find::InPath(name.to_owned()),
        _ => {
            return Err(Problem::new(
                "wrong-type",
                node.span.clone(),
                "`find` is neither `itself`, an absolute path nor a bare name",
            )
            .fix("write `itself`, an absolute path or a bare name"));
        }
    })
}

fn cage(node: &Node) -> Result<CageNeeds, Problem> {
    let mut fields = Fields::of(node, &shape::CAGE)?;
    let each = |node: Option<&Node>, what: &str| match node {
        Some(node) => list(node, what).map(<[Node]>::to_vec),
        None => Ok(Vec::new()),
    };
    let needs = CageNeeds {
        programs: fields.optional("programs").map_or(Ok(false), |node| boolean(node, "`programs`"))?,
        read: each(fields.optional("read"), "`read`")?.iter().map(absolute).collect::<Result<_, _>>()?,
        endpoints: each(fields.optional("endpoints"), "`endpoints`")?
            .iter()
            .map(endpoint)
            .collect::<Result<_, _>>()?,
    };
    fields.finish()?;
    Ok(needs)
}

fn endpoint(node: &Node) -> Result<Endpoint, Problem> {
    let written = text(node, "an endpoint")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let parsed = written.rsplit_once(':').and_then(|(host, port)| {
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let is_host = host.starts_with(|c: char| c.is_ascii_alphanumeric()) && host.chars().all(plain);
        is_host.then(|| Endpoint { host: host.to_ascii_lowercase(), port })
    });
    parsed.ok_or_else(|| {
        Problem::new("malformed-endpoint", node.span.clone(), format!("`{written}` is no host with a port"))
            .fix("write it like `api.example.com:443`")
    })
}

fn tools(node: &Node) -> Result<Vec<(ToolName, Tool)>, Problem> {
    let Value::Map(entries) = &node.value else {
        return Err(yaml::wrong_type(node, "`tools`", Type::Map));
    };
    entries
        .iter()
        .map(|entry| {
            let name = ToolName::parse(&entry.key).map_err(|error| {
                Problem::new("malformed-name", entry.key_span.clone(), format!("`{}` {error}", entry.key))
                    .fix(error.fix())
            })?;
            if name.as_str() != entry.key {
                // `Read` beside `read` would give one name two native tools.
                return Err(Problem::new(
                    "malformed-name",
                    entry.key_span.clone(),
                    format!("`{}` is not in lower case", entry.key),
                )
                .fix(format!("write `{name}`")));
            }
            let mut fields = Fields::of(&entry.value, &shape::TOOL)?;
            let native = fields.required("native")?;
            let stated = |key: &str| yaml::has_key(&entry.value, key);
            let tool = Tool {
                native: text(native, "`native`")?.to_owned(),
                scopes: fields.optional("scopes").map_or(Ok(false), |node| boolean(node, "`scopes`"))?,
                files: match fields.optional("files") {
                    Some(node) => choice(node, "`files`", shape::FILES)?,
                    None => Files::None,
                },
                runs_programs: fields
                    .optional("runs_programs")
                    .map_or(Ok(false), |node| boolean(node, "`runs_programs`"))?,
            };
            must_be_stated(&name, &tool, &entry.value, &stated)?;
            // A native name is joined by commas into one argument, where `*` or `+x` would widen.
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !tool.native.starts_with(|c: char| c.is_ascii_alphabetic()) || !tool.native.chars().all(plain)
            {
                return Err(Problem::new(
                    "malformed-name",
                    native.span.clone(),
                    format!("`{}` is no plain name of a tool", tool.native),
                )
                .fix("keep to letters, digits and `_`, with a letter first"));
            }
            fields.finish()?;
            Ok((name, tool))
        })
        .collect()
}

/// What a profile leaves out must not read as "bounded" or "runs nothing".
fn must_be_stated(
    name: &ToolName,
    tool: &Tool,
    node: &Node,
    stated: &dyn Fn(&str) -> bool,
) -> Result<(), Problem> {
    const FILE_TOOLS: [&str; 9] =
        ["read", "write", "edit", "edit-diff", "notebook_edit", "grep", "find", "glob", "ls"];
    let missing = |key: &str| {
        Problem::new(
            "missing-key",
            node.span.start..node.span.start + 1,
            format!("the tool `{name}` does not say `{key}`"),
        )
    };
    if FILE_TOOLS.contains(&name.as_str()) && !stated("files") {
        return Err(missing("files").fix("write `files: workspace` or `files: whole-disk`, as measured"));
    }
    if name.as_str() == "bash" && !tool.runs_programs {
        return Err(missing("runs_programs: true").fix("write it: a shell runs programs"));
    }
    if !vocabulary::is_neutral(name) && !stated("runs_programs") {
        return Err(missing("runs_programs")
            .fix("write `runs_programs: true`, or `false` where it cannot start any program"));
    }
    Ok(())
}

fn piece(node: &Node) -> Result<Piece, Problem> {
    if let Value::List(_) = &node.value {
        return Ok(Piece::Always(arguments(node)?));
    }
    let each = yaml::has_key(node, "each_tool");
    let mut fields = Fields::of(node, if each { &shape::EACH_TOOL } else { &shape::BY_TOOLS })?;
    let piece = if each {
        Piece::EachTool(arguments(fields.required("each_tool")?)?)
    } else {
        Piece::ByTools {
            some: arguments(fields.required("some_tools")?)?,
            none: arguments(fields.required("no_tools")?)?,
        }
    };
    fields.finish()?;
    Ok(piece)
}

fn arguments(node: &Node) -> Result<Vec<String>, Problem> {
    let arguments = texts(node, "an argument")?;
    for argument in &arguments {
        placeholders(argument, node)?;
    }
    Ok(arguments)
}

fn placeholders(argument: &str, node: &Node) -> Result<(), Problem> {
    let mut rest = argument.to_owned();
    for placeholder in PLACEHOLDERS {
        // Not by nothing: what is left and right of it must not become another one.
        rest = rest.replace(placeholder, " ");
    }
    if rest.contains(['{', '}']) {
        return Err(Problem::new(
            "unknown-placeholder",
            node.span.clone(),
            format!("`{argument}` holds an unknown placeholder"),
        )
        .fix(format!("the placeholders are {}", PLACEHOLDERS.join(", "))));
    }
    Ok(())
}

fn env(node: &Node) -> Result<BTreeMap<String, String>, Problem> {
    let env = map(node, "`env`")?;
    for (name, value) in &env {
        placeholders(value, node)?;
        // They would load into the guard too, outside of the cage.
        if name.starts_with("LD_") || name == "GLIBC_TUNABLES" {
            let message = format!("`{name}` changes what every program loads, so no profile sets it");
            return Err(Problem::new("never-set", node.span.clone(), message).fix("remove it"));
        }
    }
    Ok(env.into_iter().collect())
}

fn map(node: &Node, what: &str) -> Result<Vec<(String, String)>, Problem> {
    let Value::Map(entries) = &node.value else {
        return Err(yaml::wrong_type(node, what, Type::Map));
    };
    entries.iter().map(|entry| Ok((entry.key.clone(), text(&entry.value, what)?.to_owned()))).collect()
}

fn texts(node: &Node, what: &str) -> Result<Vec<String>, Problem> {
    list(node, what)?.iter().map(|item| text(item, what).map(str::to_owned)).collect()
}

fn optional_text(node: &Node, what: &str) -> Result<Option<String>, Problem> {
    if node.value == Value::Null { Ok(None) } else { text(node, what).map(|text| Some(text.to_owned())) }
}

fn choice<T: Copy>(node: &Node, what: &str, choices: &[(&str, T)]) -> Result<T, Problem> {
    let word = text(node, what)?;
    choices.iter().find(|(name, _)| *name == word).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        yaml::unknown_value(node, what, word, &names)
    })
}
