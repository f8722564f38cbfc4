//! The scripted agent's tools. File tools are confined to the current directory.

#![expect(clippy::disallowed_methods, reason = "an agent acts on files and starts programs")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::Mode;

use crate::capability::{Capability, CapabilitySet, Cover, Subsumption};

use super::{Outcome, Step};

/// The most bytes that a tool reads of one file.
const MAX_READ: u64 = 1024 * 1024;
/// The most directory entries that `glob` looks at.
const MAX_WALK: usize = 10_000;

/// Tries one step.
pub(super) fn attempt(step: &Step, allow: &CapabilitySet) -> Outcome {
    let wanted = match step {
        Step::Read(path) => on_path("read", path),
        Step::Write(path, _) => on_path("write", path),
        Step::Edit(path, ..) => on_path("edit", path),
        Step::Ls(path) => on_path("ls", path),
        Step::Grep(_, path) => on_path("grep", path),
        Step::Glob(pattern) => on_path("glob", pattern),
        Step::Bash(_) => "tool:bash".parse().ok(),
        Step::Say(_) | Step::RawRead(_) | Step::RawWrite(_) | Step::RawConnect(_) | Step::RawExec(..) => None,
    };
    if let Some(wanted) = wanted
        && allow.covers(&wanted, &Subsumption::none()) == Cover::No
    {
        return Outcome::Denied(wanted);
    }
    act(step).map_or_else(|error| Outcome::Failed(error.to_string()), Outcome::Done)
}

/// The capability that a file step needs: the path where it is one that a scope can hold, else the
/// whole tool.
fn on_path(tool: &str, path: &str) -> Option<Capability> {
    format!("tool:{tool}({path})").parse().or_else(|_| format!("tool:{tool}").parse()).ok()
}

fn act(step: &Step) -> io::Result<String> {
    match step {
        Step::Read(path) => read(path).map(|text| format!("{} bytes", text.len())),
        Step::Write(path, text) => {
            let mut file = open_beneath(path, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC)?;
            writeln!(file, "{text}")?;
            Ok(format!("{} bytes", text.len() + 1))
        }
        Step::Edit(path, old, new) => {
            let text = read(path)?;
            if !text.contains(old) {
                return Err(io::Error::other("the text is not there"));
            }
            let mut file = open_beneath(path, OFlag::O_WRONLY | OFlag::O_TRUNC)?;
            file.write_all(text.replacen(old, new, 1).as_bytes())?;
            Ok("1 change".to_owned())
        }
        Step::Ls(path) => {
            drop(open_beneath(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?);
            let mut names: Vec<String> = std::fs::read_dir(path)?
                .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
                .collect::<Result<_, _>>()?;
            names.sort();
            Ok(names.join(" "))
        }
        Step::Glob(pattern) => Ok(glob(pattern)?.join(" ")),
        Step::Grep(text, path) => {
            let lines = read(path)?.lines().filter(|line| line.contains(text.as_str())).count();
            Ok(format!("{lines} lines"))
        }
        Step::Bash(command) => execute(Command::new("/bin/sh").arg("-c").arg(command)),
        Step::Say(text) => Ok(text.clone()),
        Step::RawRead(path) => {
            let mut content = Vec::new();
            File::open(path)?.take(MAX_READ).read_to_end(&mut content)?;
            Ok(format!("{} bytes", content.len()))
        }
        Step::RawWrite(path) => {
            File::create(path)?.write_all(b"written past the allowlist\n")?;
            Ok("written".to_owned())
        }
        Step::RawConnect(address) => {
            let target =
                address.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no such address"))?;
            let mut stream = TcpStream::connect_timeout(&target, Duration::from_secs(2))?;
            stream.write_all(b"sent past the allowlist\n")?;
            Ok("connected".to_owned())
        }
        Step::RawExec(program, arguments) => execute(Command::new(program).args(arguments)),
    }
}

fn execute(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(format!("{}; {}", output.status, text.trim()))
}

fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    open_beneath(path, OFlag::O_RDONLY)?.take(MAX_READ).read_to_string(&mut text)?;
    Ok(text)
}

/// Opens beneath the current directory, through no link.
fn open_beneath(path: &str, flags: OFlag) -> io::Result<File> {
    let mut how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
    if flags.contains(OFlag::O_CREAT) {
        how = how.mode(Mode::from_bits_truncate(0o644));
    }
    Ok(File::from(openat2(AT_FDCWD, path, how)?))
}

/// Files below the current directory whose path matches: `*` within a part, `**` across parts.
fn glob(pattern: &str) -> io::Result<Vec<String>> {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::from(".")];
    let mut seen = 0_usize;
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            seen += 1;
            if seen > MAX_WALK {
                return Err(io::Error::other("too many files"));
            }
            let path = entry.path();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                pending.push(path);
            } else if kind.is_file() {
                let path = path.strip_prefix(".").unwrap_or(Path::new("")).to_string_lossy().into_owned();
                if matches(&pattern, &path.split('/').collect::<Vec<_>>()) {
                    found.push(path);
                }
            }
        }
    }
    found.sort();
    Ok(found)
}

fn matches(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) if matches(rest, path) => true,
        (Some((&"**", _)), Some((_, tail))) => matches(pattern, tail),
        (Some((part, rest)), Some((name, tail))) => matches_part(part, name) && matches(rest, tail),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn matches_part(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| matches_part(tail, rest)))
        }),
    }
}
