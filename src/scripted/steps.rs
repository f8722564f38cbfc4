//! The steps of a script.

use std::fmt;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read a file.
    Read(String),
    /// Write a file: path and text.
    Write(String, String),
    /// Replace a text in a file: path, old, new.
    Edit(String, String, String),
    /// List a directory.
    Ls(String),
    /// List files by pattern.
    Glob(String),
    /// Search a file: text and path.
    Grep(String, String),
    /// Run a command.
    Bash(String),
    /// Print a text.
    Say(String),
    /// Open a file for reading, past the allowlist.
    RawRead(String),
    /// Create a file, past the allowlist.
    RawWrite(String),
    /// Connect, past the allowlist.
    RawConnect(String),
    /// Start a program, past the allowlist.
    RawExec(String, Vec<String>),
}

/// A line that is no step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct StepError {
    line: usize,
    why: &'static str,
}

/// Reads a script.
pub(super) fn parse(script: &str) -> Result<Vec<Step>, StepError> {
    script
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| step(line).map_err(|why| StepError { line: number, why }))
        .collect()
}

fn step(line: &str) -> Result<Step, &'static str> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    let one =
        |what: fn(String) -> Step, why| if rest.is_empty() { Err(why) } else { Ok(what(rest.to_owned())) };
    let two = |why| rest.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())).ok_or(why);
    match word {
        "read" => one(Step::Read, "`read` takes a path"),
        "ls" => Ok(Step::Ls(if rest.is_empty() { ".".to_owned() } else { rest.to_owned() })),
        "glob" => one(Step::Glob, "`glob` takes a pattern"),
        "bash" => one(Step::Bash, "`bash` takes a command"),
        "say" => Ok(Step::Say(rest.to_owned())),
        "write" => two("`write` takes a path and a text").map(|(path, text)| Step::Write(path, text)),
        "grep" => match rest.rsplit_once(' ') {
            Some((text, path)) => Ok(Step::Grep(text.to_owned(), path.to_owned())),
            None => Err("`grep` takes a text and a path"),
        },
        "edit" => {
            let why = "`edit` takes a path, a text, `=>` and a text";
            let (path, change) = two(why)?;
            let (old, new) = change.split_once(" => ").ok_or(why)?;
            Ok(Step::Edit(path, old.to_owned(), new.to_owned()))
        }
        "raw_open" => match rest.split_once(' ') {
            Some(("read", path)) => Ok(Step::RawRead(path.to_owned())),
            Some(("write", path)) => Ok(Step::RawWrite(path.to_owned())),
            _ => Err("`raw_open` takes `read` or `write` and a path"),
        },
        "raw_connect" => one(Step::RawConnect, "`raw_connect` takes an address and a port"),
        "raw_exec" => {
            let mut words = rest.split_whitespace().map(str::to_owned);
            let program = words.next().ok_or("`raw_exec` takes a program")?;
            Ok(Step::RawExec(program, words.collect()))
        }
        _ => Err("there is no such step"),
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path) => write!(f, "read {path}"),
            Self::Write(path, _) => write!(f, "write {path}"),
            Self::Edit(path, ..) => write!(f, "edit {path}"),
            Self::Ls(path) => write!(f, "ls {path}"),
            Self::Glob(pattern) => write!(f, "glob {pattern}"),
            Self::Grep(_, path) => write!(f, "grep {path}"),
            Self::Bash(command) => write!(f, "bash {command}"),
            Self::Say(_) => f.write_str("say"),
            Self::RawRead(path) => write!(f, "raw_open read {path}"),
            Self::RawWrite(path) => write!(f, "raw_open write {path}"),
            Self::RawConnect(address) => write!(f, "raw_connect {address}"),
            Self::RawExec(program, _) => write!(f, "raw_exec {program}"),
        }
    }
}
