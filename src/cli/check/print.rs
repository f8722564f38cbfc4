//! The reports as text, as JSON lines or as one SARIF document.

use std::io::{Read, Seek, SeekFrom, Write};

use tempfile::SpooledTempFile;

use crate::cli::Failure;
use crate::cli::out::{Output, Tone, words};
use crate::diagnostic::printable;

use super::report::{Report, State, Summary, Total};
use super::sarif::Sarif;

/// How much text is kept in memory until the summary, which stands before it, is known.
const IN_MEMORY: usize = 4 * 1024 * 1024;

/// Where reports go, one after the other.
pub(super) enum Printer {
    Text { rest: SpooledTempFile, only_bad: bool },
    Json,
    Sarif(Sarif),
}

impl Printer {
    pub(super) fn text(only_bad: bool) -> Self {
        Self::Text { rest: SpooledTempFile::new(IN_MEMORY), only_bad }
    }

    pub(super) fn report(&mut self, report: &Report, out: &mut Output) -> Result<(), Failure> {
        match self {
            Self::Text { rest, only_bad } => {
                if !*only_bad || !report.is_in_order() {
                    rest.write_all(text(report, out).as_bytes())?;
                }
                Ok(())
            }
            Self::Json => Ok(out.json(report)?),
            Self::Sarif(sarif) => sarif.report(report, out),
        }
    }

    pub(super) fn finish(self, summary: &Summary, out: &mut Output) -> Result<(), Failure> {
        match self {
            Self::Text { mut rest, .. } => {
                out.line(&summary.text())?;
                rest.seek(SeekFrom::Start(0))?;
                let mut block = vec![0; 64 * 1024];
                loop {
                    match rest.read(&mut block)? {
                        0 => return Ok(()),
                        length => out.bytes(block.get(..length).unwrap_or_default())?,
                    }
                }
            }
            Self::Json => Ok(out.json(&Total::from(summary))?),
            Self::Sarif(sarif) => sarif.finish(out),
        }
    }
}

/// One file: its verdict and ceiling on a line, then what is wrong with it and what its author should
/// know.
fn text(report: &Report, out: &Output) -> String {
    let (tone, word) = match report.state {
        State::Spawnable => (Tone::Good, "spawnable"),
        State::Valid => (Tone::Good, "valid"),
        State::Undeclared => (Tone::Wait, "undeclared"),
        State::Refused => (Tone::Bad, "refused"),
    };
    let word = out.paint(tone, &format!("{word:<10}"));
    let ceiling = match (&report.ceiling, &report.message) {
        (Some(set), _) => words(&set.texts()),
        (None, Some(message)) if report.state == State::Valid => message.clone(),
        (None, _) => String::new(),
    };
    let line = format!("{word} {:<8} {}  {}", report.kind, printable(&report.path), printable(&ceiling));
    let mut text = format!("{}\n", line.trim_end());
    for line in report.frame.iter().flat_map(|frame| frame.lines()) {
        text.push_str(format!("  {line}").trim_end());
        text.push('\n');
    }
    for note in &report.findings {
        text.push_str(&format!("  note: {}:{} {}\n", note.line, note.column, printable(&note.message)));
    }
    text
}
