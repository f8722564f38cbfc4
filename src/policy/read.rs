//! A policy from its YAML.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::capability::{Capability, CapabilitySet, DefinitionName, Grant, IdError, ToolName, vocabulary};
use crate::diagnostic::Problem;
use crate::nearest::nearest;
use crate::runtime::Tier;
use crate::yaml::{self, Fields, Node, Type, Value, absolute, boolean, list, text, whole};

use super::own_tests::{Expect, PolicyTest};
use super::{Accept, DelegateCeiling, Key, Limits, Overlay, Paths, Policy, Quota, shape};

/// The version of the format that is read.
pub const VERSION: u64 = 1;

/// The largest policy, in bytes.
pub(super) const MAX_POLICY: usize = 256 * 1024;

/// The limits where a policy states none.
const DEFAULT_LIMITS: Limits = Limits {
    depth: 2,
    agents: 32,
    concurrent: 4,
    deadline_ms: 3_600_000,
    child_deadline_ms: 600_000,
    tokens: Quota::Unlimited,
    micro_usd: Quota::Unlimited,
};

/// Variables whose names begin so change what common programs load or run.
pub const NEVER_PASSED_PREFIXES: [&str; 12] = [
    "LD_",
    "DYLD_",
    "BASH_",
    "GIT_CONFIG",
    "PYTHON",
    "PERL5",
    "RUBY",
    "NODE_",
    "JAVA_",
    "JDK_",
    "npm_",
    "DEPUTE_",
];

/// Variables that are set by us or change what common programs load or run. No policy passes them;
/// the list cannot be complete, so a name is passed only by being written out.
pub const NEVER_PASSED: [&str; 18] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "TERM",
    "ENV",
    "SHELLOPTS",
    "IFS",
    "PS4",
    "MAKEFLAGS",
    "GCONV_PATH",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_EDITOR",
    "GIT_PAGER",
    "RUSTC_WRAPPER",
];

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// The first [`Problem`]: not YAML, an unknown key with the near one named, a wrong type, a
    /// wildcard that does not exist, a malformed id.
    pub fn read(source: &[u8]) -> Result<Self, Problem> {
        Self::read_as(source, Written::Whole)
    }

    /// Reads a policy of which every part may be missing.
    pub(super) fn read_layer(source: &[u8]) -> Result<Self, Problem> {
        Self::read_as(source, Written::Layer)
    }

    fn read_as(source: &[u8], written: Written) -> Result<Self, Problem> {
        let root = root(source)?;
        let mut fields = Fields::of(&root, &shape::POLICY)?;
        yaml::version(fields.required("version")?, "policy", VERSION)?;
        let (default_runtime, default_model) =
            fields.optional("runtime").map_or(Ok((None, None)), runtime)?;
        let policy = Self {
            grant: match (written, fields.optional("grant")) {
                (_, Some(node)) => grant(node, "`grant`", Wildcards::Allowed)?,
                (Written::Layer, None) => Grant::default(),
                (Written::Whole, None) => grant(fields.required("grant")?, "`grant`", Wildcards::Allowed)?,
            },
            gates: fields
                .optional("gates")
                .map_or(Ok(CapabilitySet::empty()), |node| ids(node, "`gates`", Wildcards::Allowed))?,
            limits: fields
                .optional("limits")
                .map_or(Ok(written.limits()), |node| limits(node, written.limits()))?,
            default_runtime,
            default_model,
            tier: fields.optional("tier").map_or(Ok(Tier::K), tier)?,
            accept: fields
                .optional("accept")
                .map_or(Ok(Vec::new()), |node| each(node, "`accept`", accept))?,
            env: fields.optional("env").map_or(Ok(BTreeSet::new()), env)?,
            paths: fields.optional("paths").map_or(Ok(Paths::default()), paths)?,
            roots: fields.optional("roots").map_or(Ok(Vec::new()), |node| each(node, "`roots`", absolute))?,
            overlays: fields.optional("overlays").map_or(Ok(Vec::new()), overlays)?,
            inline: fields.optional("inline").map_or(Ok(false), |node| boolean(node, "`inline`"))?,
            subsumption_rows: fields.optional("subsumption").map_or(Ok(BTreeMap::new()), subsumption)?,
            universal_added: fields
                .optional("universal")
                .map_or(Ok(CapabilitySet::empty()), |node| ids(node, "`universal`", Wildcards::Refused))?,
            locked: fields.optional("locked").map_or(Ok(BTreeSet::new()), locked)?,
            tests: fields.optional("tests").map_or(Ok(Vec::new()), |node| each(node, "`tests`", test))?,
            lines: key_starts(&root).map(|(key, at)| (key, line(source, at))).collect(),
            key_starts: key_starts(&root).collect(),
            source: source.to_vec(),
            narrowing: None,
        };
        fields.finish()?;
        Ok(policy)
    }
}

/// The YAML of a policy.
pub(super) fn root(source: &[u8]) -> Result<Node, Problem> {
    if source.len() > MAX_POLICY {
        return Err(Problem::new(
            "too-large",
            0..0,
            format!("is {} bytes, and a policy has at most {MAX_POLICY}", source.len()),
        )
        .fix("leave out what is not used, such as overlays of definitions that are gone"));
    }
    let content = yaml::utf8(source)?;
    yaml::parse(
        content.strip_prefix('\u{feff}').unwrap_or(content),
        if content.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 },
    )
}

/// Whether a policy stands for itself, or only narrows another.
#[derive(Clone, Copy)]
enum Written {
    Whole,
    Layer,
}

impl Written {
    /// What is not stated: the default of a whole policy, no limit of its own in a layer.
    fn limits(self) -> Limits {
        match self {
            Self::Whole => DEFAULT_LIMITS,
            Self::Layer => Limits {
                depth: u32::MAX,
                agents: u32::MAX,
                concurrent: u32::MAX,
                deadline_ms: u64::MAX,
                child_deadline_ms: u64::MAX,
                ..DEFAULT_LIMITS
            },
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Wildcards {
    Allowed,
    Refused,
}

fn key_starts(root: &Node) -> impl Iterator<Item = (String, usize)> {
    let entries = if let Value::Map(entries) = &root.value { entries.as_slice() } else { &[] };
    entries.iter().map(|entry| (entry.key.clone(), entry.key_span.start))
}

fn line(source: &[u8], at: usize) -> usize {
    source.iter().take(at).filter(|b| **b == b'\n').count() + 1
}

fn each<T>(node: &Node, what: &str, read: impl Fn(&Node) -> Result<T, Problem>) -> Result<Vec<T>, Problem> {
    list(node, what)?.iter().map(read).collect()
}

fn ids(node: &Node, what: &str, wildcards: Wildcards) -> Result<CapabilitySet, Problem> {
    list(node, what)?.iter().map(|item| id(item, wildcards)).collect()
}

fn id(node: &Node, wildcards: Wildcards) -> Result<Capability, Problem> {
    let text = text(node, "a capability")?;
    let id: Capability = text.parse().map_err(|error: IdError| {
        let fix = match (&error, ToolName::parse(text)) {
            (IdError::NoNamespace, Ok(name)) => {
                format!("write `{}`", Capability::tool(vocabulary::neutral(&name))).into()
            }
            _ => error.fix(),
        };
        Problem::new("malformed-id", node.span.clone(), format!("`{text}` {error}")).fix(fix)
    })?;
    if wildcards == Wildcards::Refused && id.is_wildcard() {
        return Err(Problem::new(
            "wildcard",
            node.span.clone(),
            format!("`{id}` is a wildcard, and this list names single capabilities"),
        )
        .fix("name each capability"));
    }
    // `read_file` in a policy would match nothing and silently deny: name the neutral one.
    if let Some(name) = id.tool_name() {
        let neutral = vocabulary::neutral(name);
        if neutral != *name {
            return Err(Problem::new(
                "foreign-name",
                node.span.clone(),
                format!("`{id}` is a runtime's own name"),
            )
            .fix(format!("write `{}`", id.as_str().replacen(name.as_str(), neutral.as_str(), 1))));
        }
    }
    Ok(id)
}

/// A list stated once means both rights.
fn grant(node: &Node, what: &'static str, wildcards: Wildcards) -> Result<Grant, Problem> {
    if let Value::List(_) = &node.value {
        let both = ids(node, what, wildcards)?;
        return Ok(Grant { uses: both.clone(), delegate: both });
    }
    let mut fields = Fields::of(node, &shape::GRANT)?;
    let grant = Grant {
        uses: ids(fields.required("use")?, "`use`", wildcards)?,
        delegate: ids(fields.required("delegate")?, "`delegate`", wildcards)?,
    };
    fields.finish()?;
    Ok(grant)
}

fn limits(node: &Node, unstated: Limits) -> Result<Limits, Problem> {
    let mut fields = Fields::of(node, &shape::LIMITS)?;
    let mut limits = unstated;
    let small = |node: &Node, what: &str| {
        whole(node, what, shape::MOST).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
    };
    if let Some(node) = fields.optional("depth") {
        limits.depth = small(node, "`depth`")?;
    }
    if let Some(node) = fields.optional("agents") {
        limits.agents = small(node, "`agents`")?;
    }
    if let Some(node) = fields.optional("concurrent") {
        limits.concurrent = small(node, "`concurrent`")?;
    }
    if let Some(node) = fields.optional("deadline") {
        limits.deadline_ms = duration(node)?;
    }
    if let Some(node) = fields.optional("child_deadline") {
        limits.child_deadline_ms = duration(node)?;
    }
    if let Some(node) = fields.optional("tokens") {
        limits.tokens = quota(node, |node| whole(node, "`tokens`", shape::MOST_TOKENS))?;
    }
    if let Some(node) = fields.optional("usd") {
        limits.micro_usd = quota(node, micro_usd)?;
    }
    fields.finish()?;
    Ok(limits)
}

fn quota(node: &Node, read: impl Fn(&Node) -> Result<u64, Problem>) -> Result<Quota, Problem> {
    if node.value == Value::Null { Ok(Quota::Unlimited) } else { read(node).map(Quota::AtMost) }
}

/// `1h`, `10m`, `30s` or `500ms`.
fn duration(node: &Node) -> Result<u64, Problem> {
    let wrong = || {
        Problem::new("wrong-type", node.span.clone(), "a time is a whole number and a unit")
            .fix("write `1h`, `10m`, `30s` or `500ms`")
    };
    let (Value::Text(text) | Value::Number(text)) = &node.value else { return Err(wrong()) };
    parse_duration(text).ok_or_else(wrong)
}

/// Milliseconds of `1h`, `10m`, `30s` or `500ms`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<u64> {
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at_checked(unit)?;
    let factor = match unit {
        "h" => 3_600_000,
        "m" => 60_000,
        "s" => 1000,
        "ms" => 1,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor).filter(|ms| *ms < 1 << 50)
}

/// A time as it is written in a policy.
#[must_use]
pub fn duration_text(ms: u64) -> String {
    match (ms % 3_600_000, ms % 60_000, ms % 1000) {
        (0, ..) => format!("{}h", ms / 3_600_000),
        (_, 0, _) => format!("{}m", ms / 60_000),
        (.., 0) => format!("{}s", ms / 1000),
        _ => format!("{ms}ms"),
    }
}

fn micro_usd(node: &Node) -> Result<u64, Problem> {
    let wrong = || {
        Problem::new("wrong-type", node.span.clone(), "`usd` is an amount in dollars")
            .fix("write it like `5` or `2.50`, or `null` for no limit")
    };
    let Value::Number(text) = &node.value else { return Err(wrong()) };
    let (units, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 6 || !(units.to_owned() + fraction).bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    format!("{units}{fraction:0<6}").parse().ok().filter(|micro| *micro < 1 << 50).ok_or_else(wrong)
}

fn runtime(node: &Node) -> Result<(Option<String>, Option<String>), Problem> {
    let mut fields = Fields::of(node, &shape::RUNTIME)?;
    let optional = |node: Option<&Node>, what: &str| match node {
        None | Some(Node { value: Value::Null, .. }) => Ok(None),
        Some(node) => text(node, what).map(|text| Some(text.to_owned())),
    };
    let default = optional(fields.optional("default"), "`default`")?;
    let model = optional(fields.optional("model"), "`model`")?;
    fields.finish()?;
    Ok((default, model))
}

fn tier(node: &Node) -> Result<Tier, Problem> {
    let word = match &node.value {
        Value::Number(digits) => digits,
        Value::Text(_) | Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) => {
            text(node, "`tier`")?
        }
    };
    Tier::parse(word).ok_or_else(|| yaml::unknown_value(node, "`tier`", word, &Tier::ALL.map(Tier::as_str)))
}

fn accept(node: &Node) -> Result<Accept, Problem> {
    let mut fields = Fields::of(node, &shape::ACCEPT)?;
    let accept = Accept {
        id: id(fields.required("id")?, Wildcards::Refused)?,
        why: {
            let kind = fields.required("as")?;
            if text(kind, "`as`")? != shape::ADVISORY {
                return Err(yaml::unknown_value(kind, "`as`", text(kind, "`as`")?, &[shape::ADVISORY]));
            }
            text(fields.required("why")?, "`why`")?.to_owned()
        },
    };
    fields.finish()?;
    Ok(accept)
}

fn env(node: &Node) -> Result<BTreeSet<String>, Problem> {
    let read = |item: &Node| {
        let name = text(item, "the name of a variable")?;
        let well_formed = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !well_formed {
            return Err(Problem::new(
                "malformed-name",
                item.span.clone(),
                format!("`{name}` is no name of a variable"),
            )
            .fix("name each variable, without patterns"));
        }
        if NEVER_PASSED.contains(&name) || NEVER_PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        {
            return Err(Problem::new(
                "never-passed",
                item.span.clone(),
                format!("`{name}` changes what a child loads or runs, so it is never passed"),
            )
            .fix("remove it"));
        }
        Ok(name.to_owned())
    };
    list(node, "`env`")?.iter().map(read).collect()
}

fn paths(node: &Node) -> Result<Paths, Problem> {
    let mut fields = Fields::of(node, &shape::PATHS)?;
    let mut read =
        |key| fields.optional(key).map_or(Ok(Vec::new()), |node| each(node, "a list of paths", absolute));
    let paths =
        Paths { read: read("read")?, write: read("write")?, exec: read("exec")?, path: read("path")? };
    fields.finish()?;
    Ok(paths)
}

fn overlays(node: &Node) -> Result<Vec<Overlay>, Problem> {
    let mut overlays: Vec<Overlay> = Vec::new();
    for item in list(node, "`overlays`")? {
        let overlay = overlay(item)?;
        if overlays.iter().any(|o| o.definition == overlay.definition && o.digest == overlay.digest) {
            return Err(Problem::new(
                "duplicate-overlay",
                item.span.clone(),
                format!("`{}` has two overlays for one digest", overlay.definition),
            )
            .fix("keep one of the two"));
        }
        overlays.push(overlay);
    }
    Ok(overlays)
}

fn overlay(node: &Node) -> Result<Overlay, Problem> {
    let one = yaml::has_key(node, "allow");
    let mut fields = Fields::of(node, if one { &shape::OVERLAY_ALLOW } else { &shape::OVERLAY_RIGHTS })?;
    let name = fields.required("definition")?;
    let digest = fields.required("digest")?;
    let definition = definition_name(name, "`definition`")?;
    let written = text(digest, "`digest`")?;
    let digest = written.parse().map_err(|_| {
        Problem::new("malformed-digest", digest.span.clone(), format!("`{written}` is no digest"))
            .fix("copy it from `depute check`: `sha256:` and 64 hex digits")
    })?;
    let (uses, delegate) = if one {
        (ids(fields.required("allow")?, "`allow`", Wildcards::Refused)?, DelegateCeiling::Unstated)
    } else {
        (
            ids(fields.required("use")?, "`use`", Wildcards::Refused)?,
            match fields.optional("delegate") {
                Some(node) => DelegateCeiling::Stated(ids(node, "`delegate`", Wildcards::Allowed)?),
                None => DelegateCeiling::Unstated,
            },
        )
    };
    fields.finish()?;
    Ok(Overlay { definition, digest, uses, delegate })
}

fn definition_name(node: &Node, what: &str) -> Result<DefinitionName, Problem> {
    let name = text(node, what)?;
    DefinitionName::parse(name).map_err(|error| malformed_name(&node.span, name, &error))
}

fn malformed_name(span: &Range<usize>, name: &str, error: &IdError) -> Problem {
    Problem::new("malformed-name", span.clone(), format!("`{name}` {error}")).fix(error.fix())
}

fn subsumption(node: &Node) -> Result<BTreeMap<ToolName, BTreeSet<ToolName>>, Problem> {
    let Value::Map(entries) = &node.value else {
        return Err(yaml::wrong_type(node, "`subsumption`", Type::Map));
    };
    let tool = |text: &str, span: &Range<usize>| {
        let name = ToolName::parse(text.strip_prefix("tool:").unwrap_or(text))
            .map_err(|error| malformed_name(span, text, &error))?;
        let neutral = vocabulary::neutral(&name);
        if neutral == name {
            return Ok(name);
        }
        // A foreign name would match nothing.
        let problem = Problem::new("foreign-name", span.clone(), format!("`{text}` is a runtime's own name"));
        Err(problem.fix(format!("write `{neutral}`")))
    };
    entries
        .iter()
        .map(|entry| {
            let row = list(&entry.value, "a row of `subsumption`")?;
            let row =
                row.iter().map(|item| tool(text(item, "a tool")?, &item.span)).collect::<Result<_, _>>()?;
            Ok((tool(&entry.key, &entry.key_span)?, row))
        })
        .collect()
}

/// Keys that allow nothing by themselves, each with the reason why a lock on it would bind nothing.
const NOT_LOCKABLE: [(&str, &str); 4] = [
    ("version", "it says how the file is read"),
    ("runtime", "it is what a request gets that names none, and any request may name another"),
    ("locked", "what is locked stays so for every later policy"),
    ("tests", "they are examples and allow nothing"),
];

fn locked(node: &Node) -> Result<BTreeSet<Key>, Problem> {
    let read = |item: &Node| {
        let word = text(item, "a locked key")?;
        if let Some(key) = Key::parse(word) {
            return Ok(key);
        }
        let keys = Key::ALL.map(Key::as_str);
        if let Some((_, why)) = NOT_LOCKABLE.iter().find(|(name, _)| *name == word) {
            let message = format!("`{word}` cannot be locked: {why}");
            return Err(Problem::new("not-lockable", item.span.clone(), message).fix("remove it"));
        }
        let problem =
            Problem::new("unknown-key", item.span.clone(), format!("`{word}` is not a key of a policy"));
        Err(match nearest(word, keys) {
            Some(near) => problem.fix(format!("did you mean `{near}`?")),
            None => problem.fix(format!("the keys that can be locked are {}", keys.join(", "))),
        })
    };
    list(node, "`locked`")?.iter().map(read).collect()
}

fn test(node: &Node) -> Result<PolicyTest, Problem> {
    let mut fields = Fields::of(node, &shape::TEST)?;
    let name = text(fields.required("name")?, "`name`")?.to_owned();
    let mut request = Fields::of(fields.required("request")?, &shape::REQUEST)?;
    let texts = |node: &Node| {
        list(node, "a list of capabilities")?
            .iter()
            .map(|item| text(item, "a capability").map(str::to_owned))
            .collect::<Result<Vec<_>, _>>()
    };
    let agent = match request.optional("agent") {
        Some(node) => definition_name(node, "`agent`")?,
        None => {
            DefinitionName::parse("anyone").map_err(|error| malformed_name(&node.span, "anyone", &error))?
        }
    };
    let uses = texts(request.required("use")?)?;
    let delegate = request.optional("delegate").map(texts).transpose()?;
    let runtime =
        request.optional("runtime").map(|node| text(node, "`runtime`").map(str::to_owned)).transpose()?;
    let approved = request
        .optional("approved")
        .map_or(Ok(CapabilitySet::empty()), |node| ids(node, "`approved`", Wildcards::Refused))?;
    request.finish()?;
    let expect_node = fields.required("expect")?;
    let word = text(expect_node, "`expect`")?;
    let expect = Expect::ALL.into_iter().find(|expect| expect.as_str() == word);
    let expect = expect.ok_or_else(|| {
        yaml::unknown_value(expect_node, "`expect`", word, &Expect::ALL.map(Expect::as_str))
    })?;
    let code = fields.optional("code").map(|node| text(node, "`code`").map(str::to_owned)).transpose()?;
    fields.finish()?;
    Ok(PolicyTest { name, agent, uses, delegate, runtime, approved, expect, code, span: node.span.clone() })
}
