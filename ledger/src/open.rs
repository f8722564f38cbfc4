//! Opening: make or check the directory, take the lock, verify, settle what a crash left.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use crate::chain::Chain;
use crate::clock::BootId;
use crate::commit::{Batch, Committer, Files, Held, Stop, acquire};
use crate::durable::{self, Range, at};
use crate::error::{Newer, OpenError, Poison};
use crate::finding::{Code, Finding};
use crate::head::{self, Head, HeadFile, State};
use crate::key::{self, Key};
use crate::layout::Layout;
use crate::lines::Lines;
use crate::objects::Objects;
use crate::record::{
    Body, Genesis, HashName, LINE_LIMIT, LineError, Record, Segment, VERSION, decode_line, version_of,
};
use crate::scan::scan;
use crate::writer::{OpenOptions, Who};

/// A ledger ready to append to.
pub(crate) struct Opened {
    pub(crate) id: Uuid,
    pub(crate) key: Key,
    pub(crate) committer: Committer,
}

pub(crate) fn open(dir: &Path, who: &Who, options: &OpenOptions) -> Result<Opened, OpenError> {
    let layout = Layout::new(dir);
    durable::create_dir_all(&layout.dir).map_err(at(&layout.dir))?;
    let dir = durable::check_private_dir(&layout.dir)?;
    let lock = durable::open_or_create(&layout.lock).map_err(at(&layout.lock))?;
    durable::check_private_file(&layout.lock, &lock)?;
    let lock = Arc::new(lock);

    // The bulk of a large segment is read before others are kept waiting. Nothing is concluded from
    // it: whatever looks wrong is looked at again under the lock.
    let early = newest(&layout).ok().flatten().and_then(|newest| {
        let mut chain = newest.chain(&layout).ok()?;
        let len = newest.file.metadata().ok()?.len();
        let scanned = scan(&mut chain, &newest.file, len, &mut Vec::new()).ok()?;
        scanned.finding.is_none().then_some((newest, chain))
    });
    let held = acquire(&lock, &layout.lock, options.lock_wait).map_err(|stop| stopped(stop, &layout))?;
    let (newest, chain) = match early {
        Some(found) => found,
        None => {
            let newest = match newest(&layout)? {
                Some(newest) => newest,
                None => create(&layout, &held)?,
            };
            let chain = newest.chain(&layout)?;
            (newest, chain)
        }
    };
    // Only the holder of the lock makes one.
    let key = match key::read(&layout.key)? {
        Some(key) => key,
        None => key::make(&layout.key)?,
    };
    Objects::new(&layout.dir).prepare()?;
    let Newest { file: segment, path, .. } = newest;
    let files =
        Files { head: HeadFile::open(&layout.head)?, layout: layout.clone(), dir, lock, segment, path };
    let mut committer = Committer::new(files, chain, options.clone(), who.clone());
    let settled = committer
        .check_lock()
        .and_then(|()| committer.check_segment())
        .and_then(|()| committer.check_head())
        .and_then(|()| committer.ensure_name())
        .and_then(|()| committer.settle(&held));
    settled.map_err(|poison| stopped(Stop::Poison(poison), &layout))?;
    committer.ensure_head().map_err(at(&layout.head))?;
    let Some(id) = committer.log() else {
        let finding = Finding::damage(Code::GenesisMissing, "segment is empty").at(0, 0);
        return Err(OpenError::Damaged(Box::new(finding)));
    };
    Ok(Opened { id, key, committer })
}

fn stopped(stop: Stop, layout: &Layout) -> OpenError {
    match stop {
        Stop::Busy(waited) => OpenError::Busy { path: layout.lock.clone(), waited },
        Stop::Poison(Poison::Damaged(finding)) => OpenError::Damaged(Box::new((*finding).clone())),
        Stop::Poison(Poison::Newer(newer)) => OpenError::Newer(newer),
        Stop::Poison(Poison::Shrunk { from, to }) => OpenError::Damaged(Box::new(
            Finding::damage(Code::Truncated, "segment shrank while it was read").but(from, to),
        )),
        Stop::Poison(
            poison @ (Poison::Write(_)
            | Poison::ShortWrite { .. }
            | Poison::Sync(_)
            | Poison::Moved(_)
            | Poison::Io { .. }
            | Poison::Abandoned),
        ) => OpenError::Recovery(poison),
    }
}

/// The segment that is appended to.
struct Newest {
    /// The number of its first line.
    first: u64,
    path: PathBuf,
    file: File,
}

fn newest(layout: &Layout) -> Result<Option<Newest>, OpenError> {
    let Some(first) = layout.segments().map_err(at(&layout.dir))?.pop() else { return Ok(None) };
    let path = layout.segment(first);
    let file = match durable::open_append(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(&path)(error)),
    };
    durable::check_private_file(&path, &file)?;
    match first_version(&file).map_err(at(&path))? {
        Some(found) if found != VERSION => Err(OpenError::Newer(Newer::Version { found })),
        Some(_) | None => Ok(Some(Newest { first, path, file })),
    }
}

impl Newest {
    /// The chain before its first line, whatever the length of the ledger: the segment before it is
    /// held against what the first line says of it, and not read.
    fn chain(&self, layout: &Layout) -> Result<Chain, OpenError> {
        if self.first == 0 {
            return Ok(Chain::new());
        }
        let damaged =
            |finding: Finding| OpenError::Damaged(Box::new(finding.at(self.first, 0).in_segment(self.first)));
        let invalid = |message: &str| damaged(Finding::damage(Code::SegmentInvalid, message));
        let (prev, seq, segment) = match first_record(&self.file).map_err(at(&self.path))? {
            Ok(Record { prev, seq, body: Body::Segment(segment), .. }) => (prev, seq, segment),
            Err(LineError::Kind { kind }) => {
                return Err(OpenError::Newer(Newer::Kind { seq: self.first, kind }));
            }
            Ok(_) | Err(_) => {
                return Err(invalid("segment does not begin with a record of what it goes on from"));
            }
        };
        let Segment { log, previous, size } = *segment;
        if seq != self.first {
            return Err(invalid("segment begins with another line than its name says"));
        }
        let path = layout.segment(previous);
        let before = durable::open_read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let message = "the segment before the newest one is missing";
                damaged(Finding::damage(Code::SegmentMissing, message).but(path.display(), "none"))
            }
            _ => at(&path)(error),
        })?;
        let len = durable::check_private_file(&path, &before)?.len();
        let found = match Head::closed(previous, size, seq, prev) {
            Some(closed) if len <= size => closed.check(&before).map_err(at(&path))?,
            Some(_) | None => {
                let message = "something was appended to a segment that was closed";
                Some(Finding::damage(Code::SegmentInvalid, message).but(size, len))
            }
        };
        match found {
            Some(finding) => Err(OpenError::Damaged(Box::new(finding.in_segment(previous)))),
            None => {
                // A crash may have left that undone. A guard against accidents; nothing relies on it.
                let _ = durable::make_read_only(&before);
                Ok(Chain::resume(seq, prev, log))
            }
        }
    }
}

/// Reads the format version that the first line gives.
pub(crate) fn first_version(segment: &File) -> io::Result<Option<u64>> {
    let mut start = [0; 32];
    let n = segment.read_at(&mut start, 0)?;
    Ok(start.get(..n).and_then(version_of))
}

/// Reads the first line, or what is wrong with it.
pub(crate) fn first_record(segment: &File) -> io::Result<Result<Record, LineError>> {
    let mut line = Vec::new();
    Lines::new(BufReader::new(Range::new(segment, 0, u64::MAX)), 0).next(&mut line)?;
    Ok(decode_line(&line))
}

/// Makes a new segment that holds its first line from the moment it has a name.
fn create(layout: &Layout, _held: &Held) -> Result<Newest, OpenError> {
    if let State::Known(head) = head::read(&layout.head).map_err(at(&layout.head))? {
        let mut finding = Finding::damage(Code::GenesisMissing, "segment is missing");
        finding.expected = Some(format!("{} bytes", head.size));
        return Err(OpenError::Damaged(Box::new(finding)));
    }
    let writer = Uuid::now_v7();
    let genesis = Genesis {
        log: Uuid::now_v7(),
        hash: HashName::Sha256,
        line_limit: LINE_LIMIT as u64,
        tool: concat!("depute-ledger ", env!("CARGO_PKG_VERSION")).to_owned(),
    };
    let mut batch = Batch::new(Chain::new().frontier(), writer, BootId::current());
    let path = &layout.segment(0);
    batch.add(writer, &[genesis.into()]).map_err(|error| at(path)(io::Error::other(error)))?;
    durable::publish(&Layout::tmp(path), path, &batch.bytes, 0o600).map_err(at(path))?;
    newest(layout)?.ok_or_else(|| at(path)(io::ErrorKind::NotFound.into()))
}
