//! Opening: make or check the directory, take the lock, verify, settle what a crash left.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;

use crate::chain::{Chain, scan};
use crate::clock::BootId;
use crate::commit::{Batch, Committer, Files, Held, Stop, acquire};
use crate::durable::{self, at};
use crate::error::{OpenError, Poison};
use crate::finding::{Code, Finding};
use crate::head::{self, HeadFile, State};
use crate::key::{self, Key};
use crate::layout::Layout;
use crate::objects::Objects;
use crate::record::{Genesis, HashName, LINE_LIMIT, VERSION, version_of};
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
    let early = match open_segment(&layout)? {
        Some(segment) => scan_early(&segment).map(|chain| (segment, chain)),
        None => None,
    };
    let held = acquire(&lock, &layout.lock, options.lock_wait).map_err(|stop| stopped(stop, &layout))?;
    let (segment, chain) = match early {
        Some(found) => found,
        None => match open_segment(&layout)? {
            Some(segment) => (segment, Chain::new()),
            None => (create(&layout, &held)?, Chain::new()),
        },
    };
    check_version(&segment, &layout)?;
    // Only the holder of the lock makes one.
    let key = match key::read(&layout.key)? {
        Some(key) => key,
        None => key::make(&layout.key)?,
    };
    Objects::new(&layout.dir).prepare()?;
    let files = Files { head: HeadFile::open(&layout.head)?, layout: layout.clone(), dir, lock, segment };
    let mut committer = Committer::new(files, chain, options.clone(), who.clone());
    let settled = committer
        .check_lock()
        .and_then(|()| committer.check_segment())
        .and_then(|()| committer.check_head())
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

fn open_segment(layout: &Layout) -> Result<Option<File>, OpenError> {
    let path = &layout.segment;
    match durable::open_append(path) {
        Ok(segment) => {
            durable::check_private_file(path, &segment)?;
            Ok(Some(segment))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

fn scan_early(segment: &File) -> Option<Chain> {
    let mut chain = Chain::new();
    let len = segment.metadata().ok()?.len();
    let scanned = scan(&mut chain, segment, len, &mut Vec::new()).ok()?;
    scanned.finding.is_none().then_some(chain)
}

fn check_version(segment: &File, layout: &Layout) -> Result<(), OpenError> {
    match first_version(segment).map_err(at(&layout.segment))? {
        Some(found) if found != VERSION => Err(OpenError::Version { found, supported: VERSION }),
        Some(_) | None => Ok(()),
    }
}

/// Reads the format version that the first line gives.
pub(crate) fn first_version(segment: &File) -> io::Result<Option<u64>> {
    let mut start = [0; 32];
    let n = segment.read_at(&mut start, 0)?;
    Ok(start.get(..n).and_then(version_of))
}

/// Makes a new segment that holds its first line from the moment it has a name.
fn create(layout: &Layout, _held: &Held) -> Result<File, OpenError> {
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
    let mut batch =
        Batch { bytes: Vec::new(), frontier: Chain::new().frontier(), writer, boot: BootId::current() };
    let path = &layout.segment;
    batch.add(writer, &[genesis.into()]).map_err(|error| at(path)(io::Error::other(error)))?;
    durable::publish(&Layout::tmp(path), path, &batch.bytes, 0o600).map_err(at(path))?;
    open_segment(layout)?.ok_or_else(|| at(path)(io::ErrorKind::NotFound.into()))
}
