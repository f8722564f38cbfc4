//! `depute gc`: remove what dead sessions left behind.

use std::path::PathBuf;

use clap::Args;

use crate::broker::{Garbage, Waste, collect};
use crate::exit::Exit;
use crate::host::{self, Project};

use super::out::{Output, Tone};
use super::{Failure, parse_age};

/// What may go.
#[derive(Debug, Args)]
pub(super) struct GcArgs {
    /// Remove answers older than this: `30d`, `12h`, `10m`
    #[arg(long, value_name = "AGE", default_value = "30d", value_parser = age)]
    older_than: u64,
    /// Of all projects of this user, not of this one alone
    #[arg(long)]
    all: bool,
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
}

fn age(text: &str) -> Result<u64, String> {
    parse_age(text).ok_or_else(|| "write an age such as `30d`, `12h` or `10m`".to_owned())
}

pub(super) fn main(args: &GcArgs, out: &mut Output) -> Result<Exit, Failure> {
    Failure::unless_operator("GC_REFUSED", "a child does not clean up after its operator")?;
    let before = host::now_ms().saturating_sub(args.older_than);
    let mut garbage = Vec::new();
    for state in states(args.all)? {
        garbage.extend(collect(&state.join("sessions"), before, args.dry_run)?);
    }
    let bytes: u64 = garbage.iter().map(|waste| waste.bytes).sum();
    if out.json {
        out.json(&serde_json::json!({
            "v": 1, "dry_run": args.dry_run, "garbage": garbage, "bytes": bytes,
        }))?;
        return Ok(Exit::Done);
    }
    let verb = if args.dry_run { "would go" } else { "removed" };
    for Garbage { what, path, bytes } in &garbage {
        let what = match what {
            Waste::Answer => "answer",
            Waste::Private => "private directory",
            Waste::Session => "session",
        };
        let verb = out.paint(Tone::Dim, verb);
        out.line(&format!("{verb}  {what:<17} {}  {bytes} bytes", path.display()))?;
    }
    out.line(&format!("{} {verb}, {bytes} bytes; ledgers and live sessions are left alone", garbage.len()))?;
    Ok(Exit::Done)
}

/// The state directories of this project, or of every one.
fn states(all: bool) -> Result<Vec<PathBuf>, Failure> {
    let project = Project::here()?;
    let Some(projects) = project.state.parent().filter(|_| all) else { return Ok(vec![project.state]) };
    let entries = match std::fs::read_dir(projects) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut states = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    states.sort();
    Ok(states)
}
