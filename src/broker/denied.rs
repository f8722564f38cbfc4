//! What a cage denied, and the policy line that would allow it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use depute_ledger::record;
use uuid::Uuid;

use crate::diagnostic::printable;
use crate::kernel_spec::KernelSpec;
use crate::runtime::Tier;

use super::proxy::DeniedHost;

/// How many places are named.
const MAX_PATHS: usize = 16;
/// The longest path that is named, in bytes.
const MAX_PATH: usize = 512;

/// Something that a node tried and was denied.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Denied {
    /// What kind of thing it was.
    pub what: What,
    /// Its name: a host and port, an absolute path; nothing for programs, whose names nobody can be sure
    /// of.
    pub name: Option<String>,
    /// How often. For places, in how many lines of its own output.
    pub count: u64,
    /// Why.
    pub why: String,
    /// The smallest change that would allow it.
    pub fix: String,
}

/// A kind of thing that is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A connection to a host, as the broker's proxy counted it.
    Host,
    /// The start of a program, as the guard counted it.
    Program,
    /// A place in the file system, as the node's own messages name it: the kernel tells nobody.
    Path,
}

impl Denied {
    /// The line of the ledger. What only the node itself says gets none.
    pub(super) fn record(&self, node: Uuid) -> Option<record::Denied> {
        let what = match self.what {
            What::Host => record::DeniedWhat::Host,
            What::Program => record::DeniedWhat::Program,
            What::Path => return None,
        };
        let name = self.name.clone().unwrap_or_else(|| "any".to_owned());
        Some(record::Denied { node, what, name, count: self.count, why: self.why.clone() })
    }
}

pub(super) fn hosts(denied: Vec<DeniedHost>) -> Vec<Denied> {
    let one = |DeniedHost { host, why, count }: DeniedHost| {
        let domain = host.rsplit_once(':').map_or(host.as_str(), |(domain, _)| domain);
        let fix =
            format!("the operator grants `tool:web_fetch(domain:{domain})`, and the request asks for it");
        Denied { what: What::Host, fix, name: Some(host), count, why }
    };
    denied.into_iter().map(one).collect()
}

pub(super) fn programs(count: u64) -> Option<Denied> {
    (count > 0).then(|| Denied {
        what: What::Program,
        name: None,
        count,
        why: "no granted tool starts programs".to_owned(),
        fix: "the operator grants `tool:bash`, and the request asks for it".to_owned(),
    })
}

/// Places that a node's own messages say it was denied and that the cage does deny.
pub(super) fn paths(texts: &[&[u8]], spec: &KernelSpec) -> Vec<Denied> {
    if spec.tier == Tier::Zero {
        return Vec::new();
    }
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for text in texts {
        for line in String::from_utf8_lossy(text).lines().filter(|line| tells_of_denial(line, spec.tier)) {
            for path in paths_in(line) {
                if counts.len() < MAX_PATHS || counts.contains_key(path) {
                    *counts.entry(path.to_owned()).or_default() += 1;
                }
            }
        }
    }
    counts.into_iter().filter_map(|(path, count)| place(&path, count, spec)).collect()
}

/// In a root of its own, what is denied is not there.
fn tells_of_denial(line: &str, tier: Tier) -> bool {
    let denied = ["Permission denied", "EACCES", "permission denied", "Read-only file system", "EROFS"];
    let hidden = ["No such file or directory", "ENOENT", "not found"];
    denied.iter().any(|words| line.contains(words))
        || (tier >= Tier::N && hidden.iter().any(|words| line.contains(words)))
}

/// The absolute paths that stand in a line.
fn paths_in(line: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| {
        c.is_whitespace() || matches!(c, '\'' | '"' | '`' | ':' | ',' | ';' | '(' | ')' | '<' | '>')
    };
    line.split(ends).filter(|word| {
        word.starts_with('/')
            && word.len() > 1
            && word.len() <= MAX_PATH
            && Path::new(word).components().all(|part| !matches!(part, Component::ParentDir))
    })
}

fn place(path: &str, count: u64, spec: &KernelSpec) -> Option<Denied> {
    let path = path.trim_end_matches(['/', '.']);
    // No node needs the kernel's own places.
    if ["/proc", "/sys", "/dev"].iter().any(|kernel| crate::kernel_spec::is_at_or_below(path, kernel)) {
        return None;
    }
    // A path that is not there was not denied.
    let found = Path::new(path).symlink_metadata().ok()?;
    let access = spec.access_at(path);
    let is_program = found.is_file() && found.permissions().mode() & 0o111 != 0;
    // A program that may be run stands in what it says, and is not what it says was denied.
    if access.read && (access.write || is_program && access.execute) {
        return None;
    }
    let is_inside = crate::kernel_spec::is_at_or_below(path, &spec.workspace);
    let shown = printable(path);
    let item = as_item(path);
    let fix = match (is_inside, access.read) {
        (true, false) => "the operator grants `tool:read`, and the request asks for it".to_owned(),
        (true, true) => "the operator grants `tool:write`, and the request asks for it".to_owned(),
        (false, false) => {
            let how = if is_program { "exec" } else { "read" };
            format!("the operator adds `paths: {{{how}: [{item}]}}` to the policy")
        }
        (false, true) => format!("the operator adds `paths: {{write: [{item}]}}` to the policy"),
    };
    let why = if access.read { "may be read and not written" } else { "is outside of the cage" };
    Some(Denied { what: What::Path, name: Some(shown), count, why: why.to_owned(), fix })
}

/// A path as an item of a list in YAML.
fn as_item(path: &str) -> String {
    let is_plain = path.chars().all(|c| c.is_alphanumeric() || "/._-+@~".contains(c));
    if is_plain { path.to_owned() } else { serde_json::Value::from(path).to_string() }
}
