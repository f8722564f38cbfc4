//! `depute ledger`: look at a ledger. Only `rotate` writes to it.

mod query;
mod tail;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use depute_ledger::record::{Body, Record};
use depute_ledger::{Ledger, ReadError, Reader, VerifyError, VerifyOptions, verify};

use crate::diagnostic::printable;
use crate::exit::Exit;
use crate::host::{self, Project};

use super::out::{Output, Tone, words};
use super::{Failure, Global, run};

/// What to do with it.
#[derive(Debug, Subcommand)]
pub(super) enum LedgerCommand {
    /// Check every line, link and stored input
    Verify {
        /// The ledger; without it, the one of `--ledger`, then this project's
        dir: Option<PathBuf>,
    },
    /// Close the newest segment and begin another, as happens by itself at 64 MiB
    Rotate {
        /// The ledger; without it, the one of `--ledger`, then this project's
        dir: Option<PathBuf>,
    },
    /// Print the records
    Show {
        /// The ledger; without it, the one of `--ledger`, then this project's
        dir: Option<PathBuf>,
    },
    /// Print the records that some conditions pick out
    Query(Box<query::QueryArgs>),
    /// Print the newest records, and with `--follow` those that come
    Tail(tail::TailArgs),
}

pub(super) fn main(command: &LedgerCommand, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let dir = match command {
        LedgerCommand::Verify { dir } | LedgerCommand::Rotate { dir } | LedgerCommand::Show { dir } => dir,
        LedgerCommand::Query(args) => &args.dir,
        LedgerCommand::Tail(args) => &args.dir,
    };
    let dir = directory(dir.as_deref(), global)?;
    match command {
        LedgerCommand::Verify { .. } => verify_one(&dir, out),
        LedgerCommand::Rotate { .. } => rotate(&dir, out),
        LedgerCommand::Show { .. } => show(&dir, out),
        LedgerCommand::Query(args) => query::main(args, &dir, out),
        LedgerCommand::Tail(args) => tail::main(args, &dir, out),
    }
}

/// The ledger that is meant: the one named, that of `--ledger`, or this project's.
pub(super) fn directory(named: Option<&Path>, global: &Global) -> Result<PathBuf, Failure> {
    match named.or(global.ledger.as_deref()) {
        Some(dir) => Ok(dir.to_owned()),
        None => Ok(Project::here()?.state.join("ledger")),
    }
}

/// What to do about a ledger that the system does not let us read.
pub(super) const READ: &str = "let this user read it, or name another ledger";

/// What to do about a ledger of a newer version.
pub(super) const UPDATE: &str = "use the depute that wrote it, or a newer one";

/// A line that cannot be read. The lines before it are what was written.
pub(super) fn read_failure(error: ReadError) -> Failure {
    match error {
        ReadError::Access(error) => unreadable(&error),
        ReadError::Damaged(finding) => Failure::new(Exit::Ledger, "LEDGER_DAMAGED", finding.message)
            .fix("`depute ledger verify` lists all that is damaged; the lines before it are intact"),
        _ => Failure::new(Exit::Internal, "LEDGER_UNREADABLE", error.to_string()).fix(READ),
    }
}

pub(super) fn unreadable(error: &VerifyError) -> Failure {
    let mut message = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        message = format!("{message}: {source}");
    }
    let fix = match error {
        VerifyError::Missing(_) => "name the directory of a ledger; `depute run` makes this project's",
        VerifyError::Newer(_) => UPDATE,
        VerifyError::Io { .. } | VerifyError::Unsafe { .. } | _ => READ,
    };
    Failure::new(Exit::Internal, "LEDGER_UNREADABLE", message).fix(fix)
}

/// Verifies and prints what was found.
pub(super) fn verify_one(dir: &Path, out: &mut Output) -> Result<Exit, Failure> {
    let report = verify(dir, &VerifyOptions::new()).map_err(|error| unreadable(&error))?;
    let exit = if report.is_intact() { Exit::Done } else { Exit::Ledger };
    if out.json {
        out.json(&report)?;
        return Ok(exit);
    }
    let verdict =
        if report.is_intact() { out.paint(Tone::Good, "intact") } else { out.paint(Tone::Bad, "DAMAGED") };
    let log = report.log.map_or_else(|| "unknown".to_owned(), |log| log.to_string());
    out.line(&format!("{verdict}  ledger {log}"))?;
    let segments =
        if report.segments > 1 { format!(" in {} segments", report.segments) } else { String::new() };
    out.field(
        "lines",
        &format!("{} ({} bytes){segments}, each linked to the one before", report.lines, report.bytes),
    )?;
    if let Some(leaf) = report.leaf {
        out.field("newest leaf", &leaf.to_string())?;
    }
    let s = &report.semantics;
    out.field("decisions", &format!("{} granted, {} held, {} refused", s.granted, s.held, s.refused))?;
    out.field(
        "spawns",
        &format!(
            "{}; without a decision {}; outcome unknown {}",
            s.spawns,
            s.spawns_undecided,
            s.outcome_unknown.len()
        ),
    )?;
    out.field(
        "inputs",
        &format!(
            "{} stored and good; missing {}; damaged {}",
            s.objects, s.objects_missing, s.objects_damaged
        ),
    )?;
    for torn in &report.torn {
        out.field("declared", &format!("a torn line {}", torn.seq))?;
    }
    for finding in &report.findings {
        let at = match (finding.seq, finding.offset) {
            (Some(seq), Some(offset)) => format!("line {seq} at byte {offset}: "),
            (Some(seq), None) => format!("line {seq}: "),
            _ => String::new(),
        };
        out.field("finding", &format!("{at}{}", finding.message))?;
    }
    if report.omitted > 0 {
        out.field("", &format!("and {} more", report.omitted))?;
    }
    out.field("not proven", "that the records are true, that nothing ran beside them, or that no newest lines were cut off by someone who can write here")?;
    Ok(exit)
}

fn rotate(dir: &Path, out: &mut Output) -> Result<Exit, Failure> {
    // A ledger is not made by closing one.
    Reader::open(dir).map_err(|error| unreadable(&error))?;
    let ledger = Ledger::open(dir, &host::who()).map_err(|error| run::failure(error.into()))?;
    let rotated = ledger.rotate().map_err(|error| run::failure(error.into()))?;
    if out.json {
        out.json(&serde_json::json!({ "v": 1, "rotated": rotated }))?;
    } else if rotated {
        out.line("the segment is closed, and another one is begun")?;
    } else {
        out.line("the newest segment holds nothing yet, so it stays open")?;
    }
    Ok(Exit::Done)
}

fn show(dir: &Path, out: &mut Output) -> Result<Exit, Failure> {
    for line in Reader::open(dir).map_err(|error| unreadable(&error))? {
        let line = line.map_err(read_failure)?;
        print(&line.record, &line.bytes, out)?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// One record: its line as it stands in the ledger, or what it says.
fn print(record: &Record, line: &[u8], out: &mut Output) -> Result<(), Failure> {
    if out.json {
        out.bytes(line)?;
        return Ok(out.bytes(b"\n")?);
    }
    Ok(out.line(&printable(&describe(record)))?)
}

fn describe(record: &Record) -> String {
    let what = match &record.body {
        Body::Genesis(body) => format!("log {}", body.log),
        Body::Session(body) => format!("{} by uid {} on {}", body.tool, body.uid, body.host),
        Body::Decision(body) => {
            let verdict = format!("{:?}", body.verdict).to_lowercase();
            let agent = body.definition.as_deref().unwrap_or("<inline>");
            match &body.code {
                Some(code) => {
                    let ids: Vec<String> = body.denied.iter().chain(&body.gated).cloned().collect();
                    format!(
                        "{verdict} {agent} {code} {}",
                        if ids.is_empty() { String::new() } else { words(&ids) }
                    )
                }
                None => format!("{verdict} {agent} use {}", words(&body.effective)),
            }
        }
        Body::Approval(body) => {
            format!(
                "{} for {}: {:?} by {}",
                body.capability,
                body.subject,
                body.outcome,
                body.approver.as_deref().unwrap_or("nobody")
            )
        }
        Body::Spawn(body) => format!("{} by decision {}", body.program, body.decision),
        Body::Spawned(body) => format!("pid {}", body.pid),
        Body::Caged(body) => match body.landlock {
            Some(version) => format!("tier {}, Landlock {version}; denied {}", body.tier, words(&body.tried)),
            None => format!("tier {}: nothing in the kernel holds", body.tier),
        },
        Body::Denied(body) => {
            format!(
                "{} {}, {} times: {}",
                format!("{:?}", body.what).to_lowercase(),
                body.name,
                body.count,
                body.why
            )
        }
        Body::Exit(body) => {
            let number = body.code.or(body.signal).map(|n| format!(" {n}")).unwrap_or_default();
            format!("{}{number} after {} ms", format!("{:?}", body.outcome).to_lowercase(), body.duration_ms)
        }
        Body::Recovery(body) => format!("line {} of {} bytes: {:?}", body.line, body.len, body.reason),
        Body::Segment(body) => format!("goes on from the one of line {}, {} bytes", body.previous, body.size),
        Body::Close(body) => body.reason.clone(),
    };
    format!("{:>5}  {}  {:<9} {}", record.seq, record.ts, record.body.kind().to_string(), what.trim_end())
}
