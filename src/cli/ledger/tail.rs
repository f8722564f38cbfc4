//! `depute ledger tail`: the newest records, and those that come.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use depute_ledger::Reader;

use crate::cli::Failure;
use crate::cli::out::Output;
use crate::exit::Exit;

use super::{print, read_failure, unreadable};

/// How long to wait between two looks at the ledger.
const PAUSE: Duration = Duration::from_millis(200);

/// Which records.
#[derive(Debug, Args)]
pub(in crate::cli) struct TailArgs {
    /// The ledger; without it, the one of `--ledger`, then this project's
    pub(super) dir: Option<PathBuf>,
    /// How many of the newest records
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    lines: usize,
    /// Go on with what is appended, until interrupted
    #[arg(short, long)]
    follow: bool,
}

pub(super) fn main(args: &TailArgs, dir: &Path, out: &mut Output) -> Result<Exit, Failure> {
    let (mut segments, mut seen) = (1, None);
    let (mut reader, newest) = loop {
        let mut reader = Reader::open_last(dir, segments).map_err(|error| unreadable(&error))?;
        let mut newest = VecDeque::new();
        let mut first = None;
        for line in reader.by_ref() {
            let line = line.map_err(read_failure)?;
            first.get_or_insert(line.seq);
            newest.push_back(line);
            if newest.len() > args.lines {
                newest.pop_front();
            }
        }
        // Further back only where these were too few, and there is something.
        if newest.len() >= args.lines || first == Some(0) || first == seen {
            break (reader, newest);
        }
        (segments, seen) = (segments + 1, first);
    };
    for line in &newest {
        print(line, out)?;
    }
    out.flush()?;
    if !args.follow {
        return Ok(Exit::Done);
    }
    loop {
        std::thread::sleep(PAUSE);
        reader.refresh().map_err(|error| unreadable(&error))?;
        for line in reader.by_ref() {
            print(&line.map_err(read_failure)?, out)?;
        }
        out.flush()?;
    }
}
