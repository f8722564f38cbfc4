//! Errors that point at a place in a file.
//!
//! The pure readers return a [`Problem`]: a rule, a message, a byte range and the smallest fix. The
//! edges add the path and the source and get a [`Diagnostic`], which has line and column and can
//! draw the code frame.

#![forbid(unsafe_code)]

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// What is wrong in a text, and where. Messages are lower-case fragments without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The rule that was broken: a stable slug such as `duplicate-key`.
    pub rule: &'static str,
    /// What is wrong.
    pub message: String,
    /// Where, in bytes of the whole file.
    pub span: Range<usize>,
    /// The smallest change that would help.
    pub fix: Option<String>,
}

impl Problem {
    /// A problem at this place.
    #[must_use]
    pub fn new(rule: &'static str, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { rule, message: message.into(), span, fix: None }
    }

    /// The same with the change that would help.
    #[must_use]
    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// A problem in a named file, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as it was named to us, with control characters escaped.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub problem: Problem,
    /// The text around it, for the code frame; empty where there is none worth showing.
    frame: Frame,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Frame {
    text: String,
    first_line: usize,
    span: Range<usize>,
}

impl Diagnostic {
    /// Places a problem in its file. Bytes that are not UTF-8 are shown as replacement characters.
    #[must_use]
    pub fn new(path: &str, source: &[u8], problem: Problem) -> Self {
        let start = problem.span.start.min(source.len());
        let before = source.get(..start).unwrap_or_default();
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let column =
            String::from_utf8_lossy(before.get(line_start..).unwrap_or_default()).chars().count() + 1;
        Self {
            path: printable(path),
            line,
            column,
            frame: Frame::cut(source, line, line_start, &problem.span),
            problem,
        }
    }

    /// `path:line:column`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}:{}", self.path, self.line, self.column)
    }

    /// The message with its code frame and fix, for a person.
    #[must_use]
    pub fn render(&self, code: &str, colour: bool) -> String {
        let title = printable(&self.problem.message);
        let mut title = Level::ERROR.primary_title(title.as_str()).id(code);
        let label = self.problem.rule;
        if !self.frame.text.trim().is_empty() {
            let snippet = Snippet::source(self.frame.text.as_str())
                .path(self.path.as_str())
                .line_start(self.frame.first_line)
                .annotation(AnnotationKind::Primary.span(self.frame.span.clone()).label(label));
            let mut group = title.element(snippet);
            let fix = self.problem.fix.as_deref().map(printable);
            if let Some(fix) = &fix {
                group = group.element(Level::HELP.message(fix.as_str()));
            }
            return renderer(colour).render(&[group]);
        }
        let place = format!("{} ({label})", self.place());
        let fix = self.problem.fix.as_deref().map(printable);
        let mut group = annotate_snippets::Group::with_title(std::mem::replace(
            &mut title,
            Level::ERROR.primary_title(""),
        ));
        group = group.element(Level::NOTE.message(place.as_str()));
        if let Some(fix) = &fix {
            group = group.element(Level::HELP.message(fix.as_str()));
        }
        renderer(colour).render(&[group])
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), printable(&self.problem.message))?;
        if let Some(fix) = &self.problem.fix {
            write!(f, "; {}", printable(fix))?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

impl Frame {
    /// The line of the problem and the one before it, made safe to print.
    fn cut(source: &[u8], line: usize, line_start: usize, span: &Range<usize>) -> Self {
        let head = source.get(..line_start.saturating_sub(1)).unwrap_or_default();
        let (from, first_line) = if line > 1 {
            (head.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1), line - 1)
        } else {
            (line_start, line)
        };
        let rest = source.get(line_start..).unwrap_or_default();
        let to = line_start + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        let piece =
            |range: Range<usize>| printable(&String::from_utf8_lossy(source.get(range).unwrap_or_default()));
        let start = span.start.clamp(from, to);
        let end = span.end.clamp(start, to);
        let previous = piece(from..line_start.max(from));
        let previous =
            if line > 1 { format!("{}\n", previous.trim_end_matches("\\n")) } else { String::new() };
        let before = piece(line_start..start.max(line_start));
        let marked = piece(start..end);
        let after = piece(end..to);
        // A line longer than a screen would bury the message.
        let (before, after) = (last_chars(&before, 120), first_chars(&after, 120));
        let at = previous.len() + before.len();
        let marked = first_chars(&marked, 240);
        Self { span: at..at + marked.len(), text: format!("{previous}{before}{marked}{after}"), first_line }
    }
}

fn first_chars(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn last_chars(text: &str, most: usize) -> String {
    let skip = text.chars().count().saturating_sub(most);
    text.chars().skip(skip).collect()
}

fn renderer(colour: bool) -> Renderer {
    if colour { Renderer::styled() } else { Renderer::plain() }
}

/// The text with everything escaped that would move a cursor, reorder what is seen or hide.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\t' {
            out.push_str("  ");
        } else if crate::capability::scope::is_hidden(c) && c != '\u{a0}' {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}
