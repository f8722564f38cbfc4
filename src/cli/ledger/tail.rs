//! `depute ledger tail`: the newest records, and those that come.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use clap::Args;
use depute_ledger::Reader;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::cli::out::Output;
use crate::cli::{Failure, UNREAD};
use crate::exit::Exit;

use super::{print, read_failure, unreadable};

/// How long to wait between two looks at the ledger, in milliseconds.
const PAUSE_MS: u8 = 200;

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
    let ends = if args.follow { Some(Ends::new()?) } else { None };
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
        print(&line.record, &line.bytes, out)?;
    }
    out.flush()?;
    let Some(ends) = ends else { return Ok(Exit::Done) };
    loop {
        if let Some(exit) = ends.wait()? {
            return Ok(exit);
        }
        reader.refresh().map_err(|error| unreadable(&error))?;
        for line in reader.by_ref() {
            let line = line.map_err(read_failure)?;
            print(&line.record, &line.bytes, out)?;
        }
        out.flush()?;
    }
}

/// What ends a tail that follows: a signal, or that nobody reads it any more.
struct Ends {
    signals: SignalFd,
}

impl Ends {
    /// Takes over the signals with which people and supervisors end a program.
    fn new() -> io::Result<Self> {
        let mut mask = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            mask.add(signal);
        }
        mask.thread_block()?;
        Ok(Self { signals: SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC)? })
    }

    /// Waits for one of them until it is time to look at the ledger again.
    fn wait(&self) -> io::Result<Option<Exit>> {
        let stdout = io::stdout();
        let mut sources = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            // That its reader is gone is reported unasked.
            PollFd::new(stdout.as_fd(), PollFlags::empty()),
        ];
        match poll(&mut sources, PAUSE_MS) {
            // Being stopped and continued is no reason to end.
            Ok(0) | Err(Errno::EINTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let [signals, _] = sources;
        let told = signals.any().unwrap_or(false);
        Ok(Some(if told { Exit::Done } else { UNREAD }))
    }
}
