//! What narrows a tool: the text between the parentheses of `tool:write(docs/**)`.
//!
//! A scope covers another only where containment is proven. What cannot be proven counts as not
//! covered when a grant is checked, and as not disjoint when a gate is.

use std::fmt;

use super::id::IdError;
use super::name::ToolName;

/// The longest scope, in bytes.
pub const MAX_SCOPE: usize = 400;

/// Tools whose scope is a path beneath the workspace.
const PATH_TOOLS: [&str; 7] = ["read", "write", "edit", "grep", "glob", "ls", "notebook_edit"];
/// Tools whose scope is a command.
const COMMAND_TOOLS: [&str; 1] = ["bash"];
/// Tools whose scope is a host.
const HOST_TOOLS: [&str; 2] = ["web_fetch", "web_search"];

/// Characters with which a command stops being a plain list of words.
const SHELL_META: &str = "|&;<>()$`\\\"'*?[]{}~#!%^=";

/// A parsed scope. Which kind a tool takes is fixed by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A path, or everything below a directory.
    Path(PathScope),
    /// A command, or every command that begins with these words.
    Command(CommandScope),
    /// A host, or the sub-domains of one.
    Host(HostScope),
    /// A scope that this product does not interpret: equal or nothing.
    Opaque(String),
}

/// Paths relative to the workspace of the node that holds the grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathScope {
    /// `docs/**`: all below this directory; no components mean the whole workspace.
    Below(Vec<String>),
    /// `docs/x.md`: this path.
    Exactly(Vec<String>),
    /// Any other glob: covers its equal alone.
    Glob(String),
}

/// Commands, word by word.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CommandScope {
    /// `git log:*`: every command that begins with these words.
    Prefix(Vec<String>),
    /// `git status`: these words.
    Exactly(Vec<String>),
    /// Text with shell characters in it: covers its equal alone.
    Shell(String),
}

/// Hosts, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostScope {
    /// `domain:x`: exactly this host.
    Exactly(String),
    /// `domain:*.x`: its sub-domains, not the host itself.
    Below(String),
    /// A scope in another form: covers its equal alone.
    Other(String),
}

/// How two scopes of one tool relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// All that the second allows, the first allows: proven.
    Covers,
    /// Nothing is allowed by both: proven.
    Disjoint,
    /// Neither is proven.
    Unproven,
}

impl Scope {
    /// Parses the text between the parentheses for this tool.
    ///
    /// # Errors
    /// [`IdError`] for an empty or all-covering scope, `${…}`, control or invisible characters,
    /// unbalanced parentheses, and paths that leave the workspace.
    pub fn parse(tool: &ToolName, text: &str) -> Result<Self, IdError> {
        if let Some(bad) = text.chars().find(|c| is_hidden(*c)) {
            return Err(IdError::ScopeCharacter(bad));
        }
        if text.len() > MAX_SCOPE {
            return Err(IdError::TooLong(MAX_SCOPE));
        }
        if !is_balanced(text) {
            return Err(IdError::Unbalanced);
        }
        if text.contains("${") {
            return Err(IdError::ScopeVariable);
        }
        let text = text.trim_matches(' ');
        let name = tool.as_str();
        if PATH_TOOLS.contains(&name) {
            return path(text).map(Self::Path);
        }
        if text.chars().all(|c| matches!(c, '*' | ':' | ' ')) {
            return Err(IdError::ScopeOfEverything);
        }
        if COMMAND_TOOLS.contains(&name) {
            Ok(Self::Command(command(text)))
        } else if HOST_TOOLS.contains(&name) {
            host(text).map(Self::Host)
        } else {
            Ok(Self::Opaque(text.to_owned()))
        }
    }

    /// How this scope relates to another of the same tool.
    #[must_use]
    pub fn relation(&self, other: &Self) -> Relation {
        if self == other {
            return Relation::Covers;
        }
        match (self, other) {
            (Self::Path(a), Self::Path(b)) => path_relation(a, b),
            (Self::Command(a), Self::Command(b)) => command_relation(a, b),
            (Self::Host(a), Self::Host(b)) => host_relation(a, b),
            _ => Relation::Unproven,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(PathScope::Below(parts)) if parts.is_empty() => f.write_str("**"),
            Self::Path(PathScope::Below(parts)) => write!(f, "{}/**", parts.join("/")),
            Self::Path(PathScope::Exactly(parts)) => f.write_str(&parts.join("/")),
            Self::Command(CommandScope::Prefix(words)) => write!(f, "{}:*", words.join(" ")),
            Self::Command(CommandScope::Exactly(words)) => f.write_str(&words.join(" ")),
            Self::Host(HostScope::Exactly(host)) => write!(f, "domain:{host}"),
            Self::Host(HostScope::Below(host)) => write!(f, "domain:*.{host}"),
            Self::Path(PathScope::Glob(text))
            | Self::Command(CommandScope::Shell(text))
            | Self::Host(HostScope::Other(text))
            | Self::Opaque(text) => f.write_str(text),
        }
    }
}

fn path(text: &str) -> Result<PathScope, IdError> {
    if text.is_empty() {
        return Err(IdError::ScopeOfEverything);
    }
    if text.starts_with('/') {
        return Err(IdError::PathOutside);
    }
    if text.ends_with('/') {
        return Err(IdError::PathTrailingSlash);
    }
    if let Some(bad) = text.chars().find(|c| matches!(c, '\\' | '$' | '(' | ')' | '!')) {
        return Err(IdError::ScopeCharacter(bad));
    }
    let mut parts = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(IdError::PathOutside),
            // Blanks at an end would be lost when the canonical text is read again.
            _ if part.starts_with(' ') || part.ends_with(' ') => return Err(IdError::PathBlank),
            _ => parts.push(part.to_owned()),
        }
    }
    // Asked of what is left, so that `./~` and `./*` are what `~` and `*` are.
    if parts.first().is_some_and(|first| first.starts_with('~')) {
        return Err(IdError::PathOutside);
    }
    if matches!(parts.as_slice(), [only] if only == "*") {
        return Err(IdError::ScopeOfEverything);
    }
    let below = parts.last().is_some_and(|last| last == "**");
    if below {
        parts.pop();
    }
    if parts.iter().any(|part| part.contains(['*', '?', '[', ']', '{', '}'])) {
        if below {
            parts.push("**".to_owned());
        }
        return Ok(PathScope::Glob(parts.join("/")));
    }
    match (below, parts.is_empty()) {
        (true, _) => Ok(PathScope::Below(parts)),
        (false, false) => Ok(PathScope::Exactly(parts)),
        (false, true) => Err(IdError::ScopeOfEverything),
    }
}

fn command(text: &str) -> CommandScope {
    let prefix = text.strip_suffix(":*").or_else(|| text.strip_suffix(" *"));
    let plain = prefix.unwrap_or(text);
    let words: Vec<String> = plain.split_ascii_whitespace().map(str::to_owned).collect();
    if plain.contains(|c| SHELL_META.contains(c)) || words.is_empty() {
        return CommandScope::Shell(text.to_owned());
    }
    if prefix.is_some() { CommandScope::Prefix(words) } else { CommandScope::Exactly(words) }
}

fn host(text: &str) -> Result<HostScope, IdError> {
    let Some(domain) = text.strip_prefix("domain:") else {
        return Ok(HostScope::Other(text.to_owned()));
    };
    let domain = domain.to_ascii_lowercase();
    let (below, host) = match domain.strip_prefix("*.") {
        Some(rest) => (true, rest),
        None => (false, domain.as_str()),
    };
    let label = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    if host.len() > 253 || !host.split('.').all(label) {
        return Err(IdError::Host);
    }
    let host = host.to_owned();
    Ok(if below { HostScope::Below(host) } else { HostScope::Exactly(host) })
}

/// Containment of token sequences: `open` sides stand for everything they are a prefix of.
fn prefix_relation(a: &[String], a_open: bool, b: &[String], b_open: bool) -> Relation {
    if a_open && b.starts_with(a) {
        return Relation::Covers;
    }
    match (a_open, b_open) {
        (false, false) => Relation::Disjoint,
        (true, false) => Relation::Disjoint,
        (_, true) if a.starts_with(b) => Relation::Unproven,
        (_, true) => Relation::Disjoint,
    }
}

fn path_relation(a: &PathScope, b: &PathScope) -> Relation {
    use PathScope::{Below, Exactly, Glob};
    match (a, b) {
        // `docs/**` is what lies below `docs`, not `docs` itself.
        (Below(a), Exactly(b)) if b.len() > a.len() && b.starts_with(a) => Relation::Covers,
        (Below(a), Below(b)) if b.starts_with(a) => Relation::Covers,
        // A path may name a directory, so it is apart only from paths on another branch.
        (Below(a) | Exactly(a), Below(b) | Exactly(b)) => {
            if a.starts_with(b) || b.starts_with(a) {
                Relation::Unproven
            } else {
                Relation::Disjoint
            }
        }
        (Below(a), Glob(_)) if a.is_empty() => Relation::Covers,
        (Glob(_), _) | (_, Glob(_)) => Relation::Unproven,
    }
}

fn command_relation(a: &CommandScope, b: &CommandScope) -> Relation {
    use CommandScope::{Exactly, Prefix, Shell};
    match (a, b) {
        (Prefix(a), Prefix(b)) => prefix_relation(a, true, b, true),
        (Prefix(a), Exactly(b)) => prefix_relation(a, true, b, false),
        (Exactly(a), Prefix(b)) => prefix_relation(a, false, b, true),
        (Exactly(a), Exactly(b)) => prefix_relation(a, false, b, false),
        (Shell(_), _) | (_, Shell(_)) => Relation::Unproven,
    }
}

fn host_relation(a: &HostScope, b: &HostScope) -> Relation {
    use HostScope::{Below, Exactly, Other};
    let under = |host: &str, domain: &str| host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    match (a, b) {
        (Below(a), Exactly(b)) => {
            if under(b, a) {
                Relation::Covers
            } else {
                Relation::Disjoint
            }
        }
        (Below(a), Below(b)) if under(b, a) => Relation::Covers,
        (Below(a), Below(b)) => {
            if under(a, b) {
                Relation::Unproven
            } else {
                Relation::Disjoint
            }
        }
        (Exactly(a), Below(b)) => {
            if under(a, b) {
                Relation::Unproven
            } else {
                Relation::Disjoint
            }
        }
        (Exactly(_), Exactly(_)) => Relation::Disjoint,
        (Other(_), _) | (_, Other(_)) => Relation::Unproven,
    }
}

/// Whether every parenthesis has its partner.
pub(crate) fn is_balanced(text: &str) -> bool {
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            _ => {}
        }
    }
    depth == 0
}

/// The pieces of a text between separators that stand outside of parentheses.
pub(crate) fn split_outside(text: &str, separates: impl Fn(char) -> bool) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && separates(c)
    })
    .collect()
}

/// Characters that a reader cannot see or that reorder what is seen: controls, line separators,
/// blanks other than the ASCII one, zero-width and bidirectional marks.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
