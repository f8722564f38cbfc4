//! Printing: calm, aligned, coloured on a terminal only.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

use crate::capability::scope::is_hidden;
use crate::diagnostic::printable;
use crate::exit::Exit;
use crate::host;

use super::{Color, Failure};

/// Where a command prints.
pub(super) struct Output {
    pub(super) json: bool,
    quiet: bool,
    colour: bool,
    broken_pipe: bool,
    stdout: io::BufWriter<io::Stdout>,
}

/// What a word is about, for its colour.
#[derive(Clone, Copy)]
pub(super) enum Tone {
    Good,
    Bad,
    Wait,
    Dim,
    Strong,
}

impl Output {
    pub(super) fn new(json: bool, quiet: bool, color: Color) -> Self {
        let no_color = host::env_var("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => io::stdout().is_terminal() && !no_color,
        };
        Self { json, quiet, colour, broken_pipe: false, stdout: io::BufWriter::new(io::stdout()) }
    }

    /// One line of data.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Data as it is.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.stdout.write_all(bytes);
        self.note(written)
    }

    /// The answer of a child, which is text that a model wrote: on a terminal it is made safe, to a program
    /// it is as it is.
    pub(super) fn answer(&mut self, answer: &[u8]) -> io::Result<()> {
        if !io::stdout().is_terminal() {
            return self.bytes(answer);
        }
        for line in String::from_utf8_lossy(answer).lines() {
            self.line(&printable(line))?;
        }
        Ok(())
    }

    /// Says that an answer has more bytes than were kept.
    pub(super) fn say_cut(&mut self, bytes: u64, kept: usize) {
        self.say(&format!("note: the answer has {bytes} bytes; the first {kept} were kept"));
    }

    /// One JSON value on a line, with everything escaped that a terminal would act on.
    pub(super) fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        use std::fmt::Write;
        let text = serde_json::to_string(value)?;
        let mut safe = String::with_capacity(text.len());
        for c in text.chars() {
            if is_hidden(c) {
                // Such characters stand only inside strings, where this escape means the same.
                let mut units = [0_u16; 2];
                for unit in c.encode_utf16(&mut units) {
                    write!(safe, "\\u{unit:04x}").map_err(io::Error::other)?;
                }
            } else {
                safe.push(c);
            }
        }
        self.line(&safe)
    }

    /// What a command comes to once its result is printed. A reader that went away changes nothing.
    pub(super) fn settle(&mut self, printed: Result<(), Failure>, exit: Exit) -> Result<Exit, Failure> {
        let flushed = printed.and_then(|()| self.flush().map_err(Failure::from));
        match flushed {
            Err(failure) if !self.broken_pipe => Err(failure),
            Ok(()) | Err(_) => {
                // What is left has no reader, and a later flush would only say so again.
                let unread = std::mem::replace(&mut self.stdout, io::BufWriter::new(io::stdout()));
                drop(unread.into_parts());
                Ok(exit)
            }
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let flushed = self.stdout.flush();
        self.note(flushed)
    }

    fn note(&mut self, result: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &result {
            self.broken_pipe |= error.kind() == io::ErrorKind::BrokenPipe;
        }
        result
    }

    /// Whether the reader went away, which is no failure.
    pub(super) fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }

    /// Talk, unless asked to be quiet.
    pub(super) fn say(&mut self, text: &str) {
        if !self.quiet {
            let _ = self.flush();
            host::say(text);
        }
    }

    /// What went wrong: for a person, and as JSON where that was asked for.
    pub(super) fn failure(&mut self, failure: &Failure) {
        if self.json {
            let _ = self.json(&failure.document());
        }
        let _ = self.flush();
        if let Some(at) = &failure.at {
            return host::say(&at.render(failure.code, self.colour));
        }
        let code = self.paint(Tone::Bad, &format!("error[{}]:", failure.code));
        host::say(&format!("{code} {}", printable(&failure.message)));
        if let Some(fix) = &failure.fix {
            host::say(&format!("  fix: {}", printable(fix)));
        }
    }

    /// Whether to say less.
    pub(super) fn quiet(&self) -> bool {
        self.quiet
    }

    /// Whether to colour.
    pub(super) fn colour(&self) -> bool {
        self.colour
    }

    /// A word in its colour, where colours are wanted.
    pub(super) fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let style = match tone {
            Tone::Good => Style::new().fg_color(Some(AnsiColor::Green.into())).bold(),
            Tone::Bad => Style::new().fg_color(Some(AnsiColor::Red.into())).bold(),
            Tone::Wait => Style::new().fg_color(Some(AnsiColor::Yellow.into())).bold(),
            Tone::Dim => Style::new().dimmed(),
            Tone::Strong => Style::new().bold(),
        };
        format!("{style}{text}{style:#}")
    }

    /// A field: a dim label and its value, aligned.
    pub(super) fn field(&mut self, label: &str, value: &str) -> io::Result<()> {
        let label = self.paint(Tone::Dim, &format!("{label:<12}"));
        self.line(&format!("  {label} {}", printable(value)))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = self.stdout.flush();
    }
}

/// A list in words, `none` where it is empty.
pub(super) fn words(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
