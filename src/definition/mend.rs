//! Changes that make a definition readable or spawnable without an author's judgement, one at a time.
//!
//! A change of form keeps every word: what it lets a child use, the file named before. A change that
//! lets a child use what the file did not declare is marked, so that nobody makes it unasked.

use std::ops::Range;

use crate::capability::{DefinitionName, ToolName, scope, vocabulary};
use crate::diagnostic::Problem;
use crate::yaml;

use super::entries::is_entry;
use super::{Ceiling, Definition, DefinitionKind};

/// The most changes to one file: a file that needs more wants its author.
const MAX_CHANGES: usize = 16;

/// Keys whose value is prose, for people and models: quoting it changes no authority.
const PROSE: [&str; 9] = [
    "description",
    "name",
    "title",
    "when_to_use",
    "when-to-use",
    "argument-hint",
    "compatibility",
    "license",
    "author",
];

/// One change to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mend {
    /// What it does, in words that follow the file's name.
    pub message: String,
    /// Whether the file lets a child use something after it that it did not declare before.
    pub widens: bool,
    /// The whole file after it and the changes before it.
    pub bytes: Vec<u8>,
}

/// The changes that would help, in the order in which they are made: first those of form, then those
/// that widen. None where they would not make the file readable.
///
/// `known` says which tools some runtime has; with it a tool that none has becomes the one that it is
/// nearest to.
#[must_use]
pub fn mends(
    bytes: &[u8],
    kind: DefinitionKind,
    name: &DefinitionName,
    known: Option<&dyn Fn(&ToolName) -> bool>,
) -> Vec<Mend> {
    let mut mends: Vec<Mend> = Vec::new();
    let mut widened = false;
    while mends.len() <= MAX_CHANGES {
        let bytes = mends.last().map_or(bytes, |mend| mend.bytes.as_slice());
        let change = match Definition::read(bytes.to_vec(), kind, name.clone()) {
            Err(problem) => match form(bytes, &problem, kind) {
                Some(change) => change,
                // What cannot be made readable is left as it is.
                None => return Vec::new(),
            },
            Ok(definition) => {
                let change = declaring_key(&definition)
                    .or_else(|| known.and_then(|known| known_tool(&definition, known)));
                let Some(change) = change else { return mends };
                widened = true;
                change
            }
        };
        let Some(bytes) = change.made(bytes) else { return Vec::new() };
        // A change of form to what an earlier change has brought in force is part of that change.
        mends.push(Mend { message: change.message, widens: widened, bytes });
    }
    Vec::new()
}

/// A change not yet made: other text in place of a range.
struct Change {
    message: String,
    span: Range<usize>,
    text: String,
}

impl Change {
    fn made(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (before, after) = (bytes.get(..self.span.start)?, bytes.get(self.span.end..)?);
        Some([before, self.text.as_bytes(), after].concat())
    }
}

fn form(bytes: &[u8], problem: &Problem, kind: DefinitionKind) -> Option<Change> {
    let text = std::str::from_utf8(bytes).ok()?;
    match problem.rule {
        "no-frontmatter" | "unclosed-frontmatter" => fence(text, problem),
        "yaml" | "yaml-alias" | "yaml-anchor" | "yaml-tag" | "no-description" => {
            // The reader of YAML notices some mistakes only on the line after.
            let here = Line::at(text, problem.span.start)?;
            let above = here.span.start.checked_sub(1).and_then(|end| Line::at(text, end));
            [Some(here), above]
                .into_iter()
                .flatten()
                .find_map(|line| line.prose().or_else(|| line.tools(kind.ceiling_key())))
        }
        "mixed-separators" | "malformed-entry" | "unbalanced-parentheses" => {
            let line = Line::at(text, problem.span.start)?;
            line.tools(kind.ceiling_key()).or_else(|| line.item())
        }
        _ => None,
    }
}

/// A fence with blanks behind it.
fn fence(text: &str, problem: &Problem) -> Option<Change> {
    let line = Line::at(text, problem.span.start)?;
    let dashes = line.text.strip_prefix('\u{feff}').unwrap_or(line.text);
    let blanks = dashes
        .strip_prefix("---")
        .filter(|rest| !rest.is_empty() && rest.trim_matches([' ', '\t']).is_empty())?;
    Some(Change {
        message: "removes the blanks behind a fence".to_owned(),
        span: line.span.end - blanks.len()..line.span.end,
        text: String::new(),
    })
}

/// A line of a file without its end.
struct Line<'t> {
    text: &'t str,
    span: Range<usize>,
    /// Whether the line after it goes on with its value.
    continued: bool,
}

impl<'t> Line<'t> {
    fn at(text: &'t str, at: usize) -> Option<Self> {
        let start = text.get(..at)?.rfind('\n').map_or(0, |lf| lf + 1);
        let rest = text.get(start..)?;
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
        let next = after.lines().next().filter(|next| !next.trim().is_empty());
        let continued = next.is_some_and(|next| indent(next) > indent(line));
        let line = line.strip_suffix('\r').unwrap_or(line);
        Some(Self { text: line, span: start..start + line.len(), continued })
    }

    /// The key that the line begins with and its value, where it ends on the line.
    fn entry(&self) -> Option<(&'t str, &'t str, Range<usize>)> {
        let (key, rest) = self.text.split_once(':').filter(|_| !self.continued)?;
        let value = rest.trim_matches([' ', '\t']);
        if value.is_empty() {
            return None;
        }
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let start = self.span.start + key.len() + 1 + blanks;
        Some((key, value, start..start + value.len()))
    }

    /// Prose in quotes.
    fn prose(&self) -> Option<Change> {
        let (key, value, span) = self.entry()?;
        // A quote that nothing closes may go on for lines; what is empty gains nothing from quotes.
        let open = |quote| value.strip_prefix(quote).is_some_and(|rest| !rest.trim_end().contains(quote));
        let nothing = value.trim_matches(['"', '\'', ' ']).is_empty();
        if !PROSE.contains(&key) || value.starts_with(['|', '>']) || open('"') || open('\'') || nothing {
            return None;
        }
        // What is in quotes as it stands would gain others that are part of it, and again, and again.
        if value.starts_with(['"', '\'']) && yaml::parse(value, 0).is_ok() {
            return None;
        }
        Some(Change { message: format!("quotes the value of `{key}`"), span, text: quoted(value) })
    }

    /// The tools on the line of their key, in a form that is read.
    fn tools(&self, wanted: &str) -> Option<Change> {
        let (key, value, span) = self.entry()?;
        let names = names(value).filter(|_| key == wanted)?;
        let text = names.join(", ");
        let plain = |c: char| c.is_ascii_alphanumeric() || " ,()_.:*/-".contains(c);
        let is_plain = text.chars().all(plain) && !text.contains(": ") && !text.starts_with(['-', '*', ':']);
        let text = if is_plain { text } else { quoted(&text) };
        Some(Change { message: format!("writes `{key}` as names with commas"), span, text })
    }

    /// An item of a list that holds several names, as several items.
    fn item(&self) -> Option<Change> {
        let value =
            self.text.trim_start_matches([' ', '\t']).strip_prefix("- ").filter(|_| !self.continued)?;
        let lead = self.text.strip_suffix(value)?;
        let names = names(value.trim()).filter(|names| names.len() > 1)?;
        let text = names.join(&format!("\n{lead}"));
        let span = self.span.end - value.len()..self.span.end;
        Some(Change { message: "gives each tool an item of its own".to_owned(), span, text })
    }
}

/// The names in a value whose form is not read, each as it is written: separated by commas or blanks,
/// in quotes or in brackets. Nothing where one of them is no name.
fn names(value: &str) -> Option<Vec<&str>> {
    let value = unwrapped(value);
    let value = value.strip_prefix('[').unwrap_or(value);
    let value = value.strip_suffix(']').unwrap_or(value);
    if !scope::is_balanced(value) {
        return None;
    }
    let mut names = Vec::new();
    for entry in scope::split_outside(value, |c| c == ',').into_iter().map(unwrapped) {
        let words = scope::split_outside(entry, |c| matches!(c, ' ' | '\t')).into_iter().map(unwrapped);
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        // `Web Search` may be one name in two words: only what is known is two names.
        if words.len() > 1 && !words.iter().all(|word| is_known(word)) {
            return None;
        }
        names.extend(words);
    }
    (!names.is_empty() && names.iter().all(|name| is_entry(name))).then_some(names)
}

/// Text without the quotes or brackets around the whole of it.
fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    let inner = [('"', '"'), ('\'', '\''), ('`', '`'), ('[', ']')].into_iter().find_map(|(open, close)| {
        let inner = text.strip_prefix(open)?.strip_suffix(close)?;
        // One pair around several names is not a pair around each.
        (!inner.contains([open, close])).then_some(inner)
    });
    inner.map_or(text, unwrapped)
}

/// Whether a word names a tool that depute has a name for.
fn is_known(word: &str) -> bool {
    let head = word.split_once('(').map_or(word, |(head, _)| head);
    let is_tool = |name: ToolName| vocabulary::is_neutral(&vocabulary::neutral(&name));
    ToolName::parse(head).is_ok_and(is_tool) || head.contains(':') || head.starts_with("mcp__")
}

/// A value in double quotes.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The key that the author perhaps meant to declare the tools with.
fn declaring_key(definition: &Definition) -> Option<Change> {
    let Ceiling::Undeclared(undeclared) = definition.ceiling() else { return None };
    let (problem, key) = (&undeclared.problem, definition.kind().ceiling_key());
    let text = std::str::from_utf8(definition.bytes()).ok()?;
    let line = Line::at(text, problem.span.start)?;
    if problem.rule != "near-miss-key" || line.span.start != problem.span.start {
        return None;
    }
    let was = text.get(problem.span.clone())?;
    Some(Change {
        message: format!("renames `{was}` to `{key}`, which declares its tools"),
        span: problem.span.clone(),
        text: key.to_owned(),
    })
}

/// The tool that an unknown one is nearest to.
fn known_tool(definition: &Definition, known: &dyn Fn(&ToolName) -> bool) -> Option<Change> {
    let Ceiling::Declared(declared) = definition.ceiling() else { return None };
    let unknown = |name: &&ToolName| !vocabulary::is_neutral(name) && !known(name);
    declared.iter().filter_map(|id| id.tool_name()).filter(unknown).find_map(|name| {
        let near = vocabulary::nearest(name)?;
        let near = near.tool_name()?;
        let span = definition.tool_span(name)?;
        Some(Change {
            message: format!("writes `{near}` for `{name}`"),
            span,
            text: near.as_str().to_owned(),
        })
    })
}
