//! The keys of a definition: which declares, which restricts, which confers nothing here.

use crate::capability::{CapabilitySet, DefinitionName, Subsumption};
use crate::diagnostic::Problem;
use crate::yaml::{self, Entry, Node, Value};

use super::entries::declared_in;
use super::{Ceiling, DefinitionKind, Finding, Undeclared};

/// The longest description that the Agent Skills format allows, in characters.
const MAX_DESCRIPTION: usize = 1024;

/// Keys that take tools away by name: subtracted exactly, or the file is refused.
const SUBTRACTING: [&str; 5] =
    ["disallowedTools", "disallowed-tools", "disallowed_tools", "excludeTools", "exclude-tools"];

/// Folded keys that restrict in a form that is not read here, so the file is refused.
const RESTRICTING: [&str; 4] = ["permission", "permissions", "deny", "sandbox"];

/// Folded keys that restrict by being true, as Cursor's `readonly`, or switch an agent off, as those of
/// OpenCode. Anything but `false` and nothing counts as true.
const RESTRICTING_SWITCH: &str = "readonly";
const OFF_SWITCHES: [&str; 2] = ["disable", "disabled"];

/// Keys that add authority in some runtime. They confer nothing here, and are reported.
const CONFERRING: [&str; 19] = [
    "permissionMode",
    "permission-mode",
    "memory",
    "skills",
    "mcpServers",
    "mcp-servers",
    "hooks",
    "context",
    "agent",
    "extensions",
    "plugins",
    "initialPrompt",
    "isolation",
    "background",
    "allowedAgents",
    "agents",
    "handoffs",
    "subagents",
    "allowed-agents",
];

pub(super) struct Read {
    pub(super) description: String,
    pub(super) ceiling: Ceiling,
    pub(super) ceiling_span: std::ops::Range<usize>,
    pub(super) removed: CapabilitySet,
    pub(super) model: Option<String>,
    pub(super) findings: Vec<Finding>,
}

pub(super) fn read(
    text: &str,
    base: usize,
    kind: DefinitionKind,
    name: &DefinitionName,
) -> Result<Read, Problem> {
    let root = yaml::parse(text, base)?;
    let Value::Map(entries) = &root.value else {
        return Err(Problem::new(
            "not-a-mapping",
            root.span.clone(),
            format!("has frontmatter that is {}, not keys and values", root.type_name()),
        )
        .fix("write `description:` and the tools as keys"));
    };
    let find = |key: &str| entries.iter().find(|entry| entry.key == key);
    let description = description(find("description"), base)?;
    let mut findings = Vec::new();
    if let Some(entry) = find("description").filter(|_| description.chars().count() > MAX_DESCRIPTION) {
        findings.push(Finding {
            rule: "long-description",
            message: format!("has a description of over {MAX_DESCRIPTION} characters"),
            span: entry.value.span.clone(),
        });
    }
    name_finding(find("name"), name, base, &mut findings);
    for entry in entries.iter().filter(|entry| CONFERRING.contains(&entry.key.as_str())) {
        findings.push(Finding {
            rule: "confers-nothing",
            message: format!("`{}` confers nothing here", entry.key),
            span: entry.key_span.clone(),
        });
    }
    let removed = removed(entries, kind)?;
    let ceiling = match find(kind.ceiling_key()) {
        Some(entry) => Ceiling::Declared(subtract(&declared_in(&entry.value, &entry.key)?, &removed, entry)?),
        None => Ceiling::Undeclared(undeclared(entries, kind, base)),
    };
    if kind == DefinitionKind::Skill
        && let (Some(entry), Ceiling::Declared(_)) = (find("tools"), &ceiling)
    {
        findings.push(Finding {
            rule: "tools-key",
            message: "`tools` is not read in a skill; `allowed-tools` is".into(),
            span: entry.key_span.clone(),
        });
    }
    let ceiling_span = find(kind.ceiling_key()).map_or(base..base, |entry| entry.value.span.clone());
    Ok(Read { description, ceiling, ceiling_span, removed, model: model(find("model"))?, findings })
}

fn description(entry: Option<&Entry>, base: usize) -> Result<String, Problem> {
    match entry.map(|entry| (&entry.value.value, entry)) {
        Some((Value::Text(text), _)) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Some((Value::Text(_) | Value::Null, entry)) => {
            Err(Problem::new("no-description", entry.key_span.clone(), "has an empty description")
                .fix("say in a sentence what it is for"))
        }
        Some((_, entry)) => Err(Problem::new(
            "no-description",
            entry.value.span.clone(),
            format!("has a description that is {}, not text", entry.value.type_name()),
        )
        .fix("quote it")),
        None => Err(Problem::new("no-description", base..base, "has no `description`")
            .fix("add `description:` with a sentence on what it is for")),
    }
}

fn model(entry: Option<&Entry>) -> Result<Option<String>, Problem> {
    match entry.map(|entry| &entry.value) {
        None => Ok(None),
        Some(Node { value: Value::Null, .. }) => Ok(None),
        Some(node) => yaml::text(node, "`model`").map(|text| Some(text.to_owned())),
    }
}

fn name_finding(entry: Option<&Entry>, name: &DefinitionName, base: usize, findings: &mut Vec<Finding>) {
    match entry {
        None => findings.push(Finding { rule: "no-name", message: "has no `name`".into(), span: base..base }),
        Some(Entry { value: Node { value: Value::Text(text), .. }, .. }) if text == name.short().as_str() => {
        }
        Some(entry) => findings.push(Finding {
            rule: "name-mismatch",
            message: format!("is known as `{name}`, by its path; the `name` key is not identity"),
            span: entry.value.span.clone(),
        }),
    }
}

/// What the restrictive keys take away.
fn removed(entries: &[Entry], kind: DefinitionKind) -> Result<CapabilitySet, Problem> {
    let mut removed = CapabilitySet::empty();
    for entry in entries {
        let key = entry.key.as_str();
        if SUBTRACTING.contains(&key) {
            removed = removed.union(&declared_in(&entry.value, key)?);
        } else if restricts(key) && entry.value.value != Value::Null
            || fold(key) == RESTRICTING_SWITCH && !is_off(entry)
        {
            return Err(unread_restriction(entry, kind));
        } else if OFF_SWITCHES.contains(&fold(key).as_str()) && !is_off(entry) {
            return Err(Problem::new(
                "switched-off",
                entry.key_span.clone(),
                format!("is switched off by its own `{key}`"),
            )
            .fix(format!("remove `{key}`, if it is meant to be used")));
        } else if let Some(inner) = nested_restriction(&entry.value) {
            return Err(unread_restriction(inner, kind));
        }
    }
    Ok(removed)
}

fn is_off(switch: &Entry) -> bool {
    matches!(switch.value.value, Value::Null | Value::Bool(false))
}

/// Whether a key restricts, or is near to one that does: a restriction that is not understood is
/// never dropped.
fn restricts(key: &str) -> bool {
    let folded = fold(key);
    let takes_away = ["disallow", "notallow", "exclud", "den", "forbid", "block", "disabl", "restrict"];
    RESTRICTING.contains(&folded.as_str())
        || (folded.contains("tool") && takes_away.iter().any(|word| folded.contains(word)))
}

fn nested_restriction(node: &Node) -> Option<&Entry> {
    match &node.value {
        Value::Map(entries) => entries.iter().find_map(|entry| {
            let here = fold(&entry.key).contains("tool")
                && restricts(&entry.key)
                && entry.value.value != Value::Null;
            if here { Some(entry) } else { nested_restriction(&entry.value) }
        }),
        Value::List(items) => items.iter().find_map(nested_restriction),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => None,
    }
}

fn unread_restriction(entry: &Entry, kind: DefinitionKind) -> Problem {
    let key = &entry.key;
    Problem::new(
        "unsupported-restriction",
        entry.key_span.clone(),
        format!("`{key}` restricts in a form that is not read here"),
    )
    .fix(format!(
        "name what is allowed in `{}` and remove `{key}`, or write it `disallowedTools`",
        kind.ceiling_key()
    ))
}

/// A key without case and punctuation.
fn fold(key: &str) -> String {
    key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// The declared ids less the removed ones, where that is exact.
fn subtract(
    declared: &CapabilitySet,
    removed: &CapabilitySet,
    entry: &Entry,
) -> Result<CapabilitySet, Problem> {
    let kept = declared.filtered(|id| !removed.iter().any(|gone| gone.names(id)));
    let table = Subsumption::builtin();
    for gone in removed {
        if let Some(id) = kept.iter().find(|id| id.touches(gone, table)) {
            return Err(Problem::new(
                "unsupported-restriction",
                entry.value.span.clone(),
                format!("`{gone}` cannot be taken away exactly while `{id}` is declared"),
            )
            .fix(format!("remove `{id}`, or drop the restriction on `{gone}`")));
        }
    }
    Ok(kept)
}

/// Names the key that was perhaps meant.
fn undeclared(entries: &[Entry], kind: DefinitionKind, base: usize) -> Undeclared {
    let key = kind.ceiling_key();
    let near = |candidate: &str| {
        let folded = fold(candidate);
        folded == "allowedtools" || folded == "tools" || folded == "allowedtool"
    };
    let near_miss = entries
        .iter()
        .find(|entry| near(&entry.key))
        .map(|entry| {
            (
                entry,
                format!(
                    "has `{}`, which does not declare the tools of {} {}",
                    entry.key,
                    article(kind),
                    kind.as_str()
                ),
            )
        })
        .or_else(|| {
            nested(entries, &near).map(|(inside, entry)| {
                (entry, format!("has `{}` inside `{inside}`, which declares nothing there", entry.key))
            })
        });
    let problem = match near_miss {
        Some((entry, message)) => Problem::new("near-miss-key", entry.key_span.clone(), message)
            .fix(format!("write `{key}` at the top level of the frontmatter")),
        None => Problem::new("undeclared", base..base, format!("declares no tools: there is no `{key}`"))
            .fix(format!("add `{key}: Read, Grep`, or `{key}: []` for none, or the operator gives it a ceiling by an overlay")),
    };
    Undeclared { problem }
}

fn article(kind: DefinitionKind) -> &'static str {
    match kind {
        DefinitionKind::Agent => "an",
        DefinitionKind::Skill | DefinitionKind::Harness => "a",
    }
}

fn nested<'n>(entries: &'n [Entry], near: &impl Fn(&str) -> bool) -> Option<(&'n str, &'n Entry)> {
    entries.iter().find_map(|outer| match &outer.value.value {
        Value::Map(inner) => inner
            .iter()
            .find(|entry| near(&entry.key))
            .map(|entry| (outer.key.as_str(), entry))
            .or_else(|| nested(inner, near)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_) => None,
    })
}
