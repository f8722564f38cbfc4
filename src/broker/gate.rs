//! Asking a person at the controlling terminal.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};

use nix::sys::termios::{FlushArg, tcflush};

use crate::diagnostic::printable;
use crate::plan::{Enforcement, Hold};

/// The controlling terminal of this process: not standard input, which a program may feed.
#[derive(Debug)]
pub struct Terminal {
    tty: std::fs::File,
}

impl Terminal {
    /// The controlling terminal, where there is one and this process is not inside a node: nobody
    /// approves what they ask for themselves.
    #[must_use]
    pub fn controlling() -> Option<Self> {
        if crate::host::is_inside_node() {
            return None;
        }
        OpenOptions::new().read(true).write(true).open("/dev/tty").ok().map(|tty| Self { tty })
    }

    /// Asks for one yes to all that waits. Only `y` or `yes` is one.
    ///
    /// # Errors
    /// Where the terminal cannot be written or read.
    pub fn ask(&mut self, hold: &Hold) -> io::Result<bool> {
        let considered = &hold.considered;
        writeln!(self.tty, "\n`{}` waits for a yes, for this one run:", printable(&hold.subject))?;
        for id in &considered.gated {
            let row: Option<&Enforcement> = considered.enforcement.iter().find(|row| row.capability == *id);
            let (by, how) = row.map_or(("nothing", ""), |row| (row.by.as_str(), row.how.as_str()));
            writeln!(self.tty, "  {id:<24} held by {by}: {}", printable(how))?;
        }
        writeln!(self.tty, "  besides                  {}", words(&considered.effective.texts()))?;
        writeln!(
            self.tty,
            "  under                    {} {}",
            considered.runtime,
            considered.model.as_deref().unwrap_or("")
        )?;
        writeln!(self.tty, "  defined in               {}", printable(&hold.place))?;
        writeln!(
            self.tty,
            "  with a task of           {} bytes, for at most {} s",
            hold.task_bytes,
            considered.budget.map_or(0, |b| b.deadline_ms / 1000)
        )?;
        self.confirm("Allow it once?")
    }

    /// Asks for a yes. Only `y` or `yes` is one.
    ///
    /// # Errors
    /// Where the terminal cannot be written or read.
    pub fn confirm(&mut self, question: &str) -> io::Result<bool> {
        // What was typed before the question is no answer to it.
        tcflush(&self.tty, FlushArg::TCIFLUSH)?;
        write!(self.tty, "{question} [y/N] ")?;
        self.tty.flush()?;
        let mut answer = String::new();
        BufReader::new(self.tty.try_clone()?).read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}

fn words(ids: &[String]) -> String {
    if ids.is_empty() { "nothing".to_owned() } else { ids.join(", ") }
}
