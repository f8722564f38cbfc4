//! Where the frontmatter ends and the body begins.

use std::ops::Range;

use crate::diagnostic::Problem;
use crate::yaml;

/// The largest definition file, in bytes.
pub const MAX_FILE: usize = 1024 * 1024;
/// The largest frontmatter, in bytes.
pub const MAX_FRONTMATTER: usize = 64 * 1024;

/// A file cut at its fences.
#[derive(Debug)]
pub(super) struct Parts<'b> {
    pub(super) yaml: &'b str,
    pub(super) yaml_start: usize,
    pub(super) body: Range<usize>,
}

/// Cuts a file at its fences: exactly `---` on a line of its own, first and last.
pub(super) fn split(bytes: &[u8]) -> Result<Parts<'_>, Problem> {
    if bytes.len() > MAX_FILE {
        return Err(Problem::new(
            "too-large",
            0..0,
            format!("is {} bytes, and a definition has at most {MAX_FILE}", bytes.len()),
        )
        .fix("move what is not needed at once into files beside it"));
    }
    let text = yaml::utf8(bytes)?;
    if let Some(at) = text.find('\0') {
        return Err(Problem::new("control-character", at..at + 1, "holds a NUL byte").fix("remove it"));
    }
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let rest = text.get(start..).unwrap_or_default();
    let mut lines = Lines { text: rest, at: start };
    let opening = lines.next().unwrap_or_default();
    if opening.text != "---" {
        return Err(no_opening(&opening));
    }
    let yaml_start = lines.at;
    let mut longer: Option<Problem> = None;
    while let Some(line) = lines.next() {
        if line.span.start - yaml_start > MAX_FRONTMATTER {
            return Err(Problem::new(
                "frontmatter-too-large",
                yaml_start..yaml_start,
                format!("has more than {MAX_FRONTMATTER} bytes of frontmatter"),
            )
            .fix("move text for the child below the closing `---`"));
        }
        if line.text == "---" {
            let yaml = text.get(yaml_start..line.span.start).unwrap_or_default();
            return Ok(Parts { yaml, yaml_start, body: trimmed(text, lines.at) });
        }
        if longer.is_none() && (line.text.trim() == "---" || line.text.starts_with("---")) {
            longer = Some(
                Problem::new(
                    "unclosed-frontmatter",
                    line.span,
                    "looks like the closing `---`, but has more on its line",
                )
                .fix("write exactly `---` on a line of its own"),
            );
        }
    }
    Err(longer.unwrap_or_else(|| {
        Problem::new("unclosed-frontmatter", opening.span, "opens frontmatter that nothing closes")
            .fix("add a line `---` after the last key")
    }))
}

fn no_opening(line: &Line<'_>) -> Problem {
    if line.text.trim_end() == "---" {
        return Problem::new("no-frontmatter", line.span.clone(), "has blanks after the opening `---`")
            .fix("write exactly `---` on the first line");
    }
    if line.text.starts_with("---\r") {
        return Problem::new("no-frontmatter", line.span.start..line.span.start + 3, "has lone CR line ends")
            .fix("save the file with LF line ends");
    }
    Problem::new("no-frontmatter", line.span.clone(), "does not begin with frontmatter")
        .fix("begin with a line `---`, then `description:` and the tools, then `---`")
}

fn trimmed(text: &str, from: usize) -> Range<usize> {
    let blank = |c: char| c.is_whitespace() || c == '\u{feff}';
    let body = text.get(from..).unwrap_or_default();
    let start = from + (body.len() - body.trim_start_matches(blank).len());
    let body = body.trim_matches(blank);
    start..start + body.len()
}

#[derive(Default)]
struct Line<'t> {
    text: &'t str,
    span: Range<usize>,
}

/// Lines by LF, without their LF or CRLF, with their place in the file.
struct Lines<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Iterator for Lines<'t> {
    type Item = Line<'t>;

    fn next(&mut self) -> Option<Line<'t>> {
        if self.text.is_empty() {
            return None;
        }
        let (line, rest, taken) = match self.text.split_once('\n') {
            Some((line, rest)) => (line, rest, line.len() + 1),
            None => (self.text, "", self.text.len()),
        };
        let start = self.at;
        self.text = rest;
        self.at += taken;
        Some(Line { text: line.strip_suffix('\r').unwrap_or(line), span: start..start + line.len() })
    }
}
