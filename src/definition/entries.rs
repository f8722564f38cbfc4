//! The value of `allowed-tools` or `tools`: from text or a list to capabilities.

use std::ops::Range;

use crate::capability::{
    Capability, CapabilitySet, DefinitionName, IdError, Kind, ToolName, scope, vocabulary,
};
use crate::diagnostic::Problem;
use crate::yaml::{Node, Value};

/// What the value of a tools key declares. Nothing, an empty text and an empty list declare none.
///
/// # Errors
/// A [`Problem`] for another type, and for the first entry that is no capability.
pub fn declared_in(node: &Node, key: &str) -> Result<CapabilitySet, Problem> {
    let mut declared = CapabilitySet::empty();
    match &node.value {
        Value::Null => {}
        Value::Text(text) => {
            for entry in split(text, &node.span)? {
                for capability in entry_ids(entry, &node.span)? {
                    declared.insert(capability);
                }
            }
        }
        Value::List(items) => {
            for item in items {
                let Value::Text(text) = &item.value else {
                    return Err(Problem::new(
                        "wrong-type",
                        item.span.clone(),
                        format!("`{key}` holds {}, not a name", item.type_name()),
                    )
                    .fix("write the name of a tool"));
                };
                if text.trim().is_empty() {
                    let message = format!("`{key}` holds an empty name");
                    return Err(Problem::new("malformed-entry", item.span.clone(), message).fix("remove it"));
                }
                for capability in entry_ids(text.trim_matches(' '), &item.span)? {
                    declared.insert(capability);
                }
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::Map(_) => {
            // A mapping, as OpenCode has it, leaves on what it does not name.
            let fix = if matches!(node.value, Value::Map(_)) {
                format!("name each tool that is meant to be on: `{key}: Read, Grep`")
            } else {
                format!("write `{key}: Read, Grep`, or a list")
            };
            return Err(Problem::new(
                "wrong-type",
                node.span.clone(),
                format!("`{key}` is {}, not names of tools", node.type_name()),
            )
            .fix(fix));
        }
    }
    Ok(declared)
}

/// Whether an entry is a name, perhaps with a scope.
pub(super) fn is_entry(entry: &str) -> bool {
    entry_ids(entry, &(0..0)).is_ok()
}

/// Entries of a text: a comma outside parentheses makes comma the only separator, else blanks do.
fn split<'t>(text: &'t str, span: &Range<usize>) -> Result<Vec<&'t str>, Problem> {
    if !scope::is_balanced(text) {
        return Err(Problem::new("unbalanced-parentheses", span.clone(), "has unbalanced parentheses")
            .fix(IdError::Unbalanced.fix()));
    }
    let commas = scope::split_outside(text, |c| c == ',');
    let entries = if commas.len() > 1 {
        commas
    } else {
        scope::split_outside(text, |c| matches!(c, ' ' | '\t' | '\n' | '\r'))
    };
    Ok(entries
        .into_iter()
        .map(|entry| entry.trim_matches([' ', '\t', '\n', '\r']))
        .filter(|entry| !entry.is_empty())
        .collect())
}

/// What one entry names: usually one capability, two for `Agent(x)`, more for `Agent(x, y)`.
fn entry_ids(entry: &str, span: &Range<usize>) -> Result<Vec<Capability>, Problem> {
    let (head, inner) = match entry.split_once('(') {
        Some((head, rest)) => match rest.strip_suffix(')') {
            Some(inner) if scope::is_balanced(inner) => (head, Some(inner)),
            _ if scope::is_balanced(entry) => {
                return Err(no_id(entry, span, &IdError::AfterScope));
            }
            _ => return Err(no_id(entry, span, &IdError::Unbalanced)),
        },
        None => (entry, None),
    };
    if head.contains('*') || head.is_empty() {
        return Err(wildcard(entry, span));
    }
    if head.contains([' ', '\t', '\n']) {
        return Err(Problem::new("mixed-separators", span.clone(), format!("`{entry}` holds several names"))
            .fix("separate all names by commas, or write a list with one name an item"));
    }
    if head.contains(':') {
        let id: Capability = entry.parse().map_err(|error| no_id(entry, span, &error))?;
        return if id.is_wildcard() {
            Err(wildcard(entry, span))
        } else {
            renamed(id, entry, span).map(|id| vec![id])
        };
    }
    if head.starts_with("mcp__") {
        return match (vocabulary::mcp_tool(head), inner) {
            (Some(id), None) => Ok(vec![id]),
            (Some(_), Some(_)) => Err(no_id(entry, span, &IdError::ScopeNotAllowed)),
            (None, _) if head.matches("__").count() == 1 => Err(wildcard(entry, span)),
            (None, _) => Err(malformed(
                entry,
                span,
                "names no tool of an MCP server",
                "write `mcp__server__tool`, of letters, digits, `.`, `_` and `-`",
            )),
        };
    }
    let name = ToolName::parse(head).map_err(|error| no_id(entry, span, &error))?;
    match (name.as_str(), inner) {
        ("task" | "agent", Some(agents)) => {
            let mut ids = vec![Capability::tool(vocabulary::neutral(&name))];
            for agent in agents.split(',').map(str::trim) {
                if agent == "*" {
                    return Err(wildcard(entry, span));
                }
                let agent = DefinitionName::parse(agent).map_err(|error| no_id(entry, span, &error))?;
                ids.push(Kind::Agent(agent).into());
            }
            Ok(ids)
        }
        ("skill", Some("*")) => Err(wildcard(entry, span)),
        ("skill", Some(skill)) => {
            let id = format!("skill:{}", skill.trim());
            id.parse().map(|id| vec![id]).map_err(|error| no_id(entry, span, &error))
        }
        _ => {
            let id = match inner {
                Some(inner) => format!("tool:{head}({inner})"),
                None => format!("tool:{head}"),
            };
            let id = id.parse().map_err(|error: IdError| {
                if error == IdError::ScopeOfEverything {
                    wildcard(entry, span)
                } else {
                    no_id(entry, span, &error)
                }
            })?;
            renamed(id, entry, span).map(|id| vec![id])
        }
    }
}

/// The same capability under its neutral tool name. The scope is read again by the rules of that
/// tool, so that a path given to `read_file` bounds `read`.
fn renamed(id: Capability, entry: &str, span: &Range<usize>) -> Result<Capability, Problem> {
    let Kind::Tool(name, _) = id.kind() else { return Ok(id) };
    let neutral = vocabulary::neutral(name);
    if neutral == *name {
        return Ok(id);
    }
    let text = id.as_str().replacen(name.as_str(), neutral.as_str(), 1);
    text.parse().map_err(|error| no_id(entry, span, &error))
}

fn no_id(entry: &str, span: &Range<usize>, error: &IdError) -> Problem {
    malformed(entry, span, &error.to_string(), error.fix())
}

fn malformed(entry: &str, span: &Range<usize>, why: &str, fix: impl Into<String>) -> Problem {
    Problem::new("malformed-entry", span.clone(), format!("the entry `{entry}` {why}")).fix(fix)
}

fn wildcard(entry: &str, span: &Range<usize>) -> Problem {
    Problem::new(
        "wildcard",
        span.clone(),
        format!("the entry `{entry}` stands for more than it names, which is no ceiling"),
    )
    .fix("name each tool")
}
