//! Asking a person at the controlling terminal.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};

use crate::diagnostic::printable;
use crate::plan::{Enforcement, Hold};

/// The controlling terminal of this process: not standard input, which a program may feed.
#[derive(Debug)]
pub struct Terminal {
    tty: std::fs::File,
}

impl Terminal {
    /// The controlling terminal, where there is one.
    #[must_use]
    pub fn controlling() -> Option<Self> {
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
        writeln!(self.tty, "  besides                  {}", considered.effective.texts().join(", "))?;
        write!(self.tty, "Allow it once? [y/N] ")?;
        self.tty.flush()?;
        let mut answer = String::new();
        BufReader::new(self.tty.try_clone()?).read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}
