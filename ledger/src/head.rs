//! `head`: how far the segment is known to be on disk.
//!
//! A convenience that nothing relies on for integrity: whoever can change the segment can change
//! this file too. It makes an accidental cut visible, and tells the remains of an interrupted
//! recovery from a line that something else appended.
//!
//! The file is rewritten in place and always has the same length, so that an update is one small
//! `pwrite` that needs no room on a full disk.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::chain::{Frontier, TornLine};
use crate::digest::{Digest, bare_hex};
use crate::durable;
use crate::finding::{Code, Finding};
use crate::lines::leaf_hash;
use crate::record::{LINE_LIMIT, VERSION, decode_line};

/// The length of the file in bytes: one line of JSON, filled up with spaces.
const LEN: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    v: u64,
    /// The number of the first line of the newest segment.
    #[serde(default)]
    pub(crate) segment: u64,
    /// The length of that segment up to the end of line `seq`.
    pub(crate) size: u64,
    /// The newest line known to be on disk.
    pub(crate) seq: u64,
    /// Its leaf hash.
    #[serde(with = "bare_hex")]
    pub(crate) leaf: Digest,
    /// The unfinished line that a recovery is about to declare.
    torn: Option<Torn>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Torn {
    seq: u64,
    offset: u64,
    len: u64,
    sha256: Digest,
}

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    Unreadable,
    Known(Head),
}

impl Head {
    /// `None` before the first line.
    pub(crate) fn at(segment: u64, frontier: Frontier) -> Option<Self> {
        Some(Self {
            v: VERSION,
            segment,
            size: frontier.offset,
            seq: frontier.seq.checked_sub(1)?,
            leaf: frontier.leaf,
            torn: None,
        })
    }

    pub(crate) fn before(self, torn: TornLine) -> Self {
        Self {
            torn: Some(Torn { seq: torn.seq, offset: torn.offset, len: torn.len, sha256: torn.sha256 }),
            ..self
        }
    }

    /// Whether a recovery of `torn` was under way.
    pub(crate) fn announces(&self, torn: TornLine) -> bool {
        self.torn.as_ref().is_some_and(|announced| {
            announced.seq == torn.seq
                && announced.offset == torn.offset
                && announced.len == torn.len
                && announced.sha256 == torn.sha256
        })
    }

    /// The finding that the segment it knows is not there.
    pub(crate) fn missing(&self) -> Finding {
        let mut finding =
            Finding::damage(Code::SegmentMissing, "a segment that was known to be on disk is missing")
                .but(format_args!("a segment that begins with line {}", self.segment), "none");
        finding.seq = Some(self.seq);
        finding
    }

    /// What a head would be that knows a whole segment.
    pub(crate) fn closed(segment: u64, size: u64, next: u64, leaf: Digest) -> Option<Self> {
        Self::at(segment, Frontier { seq: next, offset: size, leaf })
    }

    /// Holds the head against its segment, in constant time.
    pub(crate) fn check(&self, segment: &File) -> io::Result<Option<Finding>> {
        let len = segment.metadata()?.len();
        if len < self.size {
            let message = "segment ends before a line that was known to be on disk";
            let mut finding = Finding::damage(Code::Truncated, message)
                .but(format_args!("{} bytes", self.size), format_args!("{len} bytes"));
            finding.seq = Some(self.seq);
            finding.offset = Some(len);
            return Ok(Some(finding));
        }
        let reach = LINE_LIMIT as u64 + 2;
        let from = self.size.saturating_sub(reach);
        let mut tail = vec![0; usize::try_from(self.size - from).unwrap_or_default()];
        segment.read_exact_at(&mut tail, from)?;
        let ended = tail.pop_if(|byte| *byte == b'\n').is_some();
        let line = tail.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let leaf = leaf_hash(line);
        let seq = decode_line(line).ok().map(|record| record.seq);
        if ended && leaf == self.leaf && seq == Some(self.seq) {
            return Ok(None);
        }
        let message = "a line that was known to be on disk is another one now";
        let offset = self.size.saturating_sub(line.len() as u64 + 1);
        Ok(Some(
            Finding::damage(Code::HeadMismatch, message)
                .at(self.seq, offset)
                .but(self.leaf.to_hex(), leaf.to_hex()),
        ))
    }
}

/// The file, open for its whole life.
#[derive(Debug)]
pub(crate) struct HeadFile(File);

impl HeadFile {
    /// Opens the file of a writer, creating it empty where absent.
    pub(crate) fn open(path: &Path) -> Result<Self, crate::OpenError> {
        let file = durable::open_or_create(path).map_err(durable::at(path))?;
        durable::check_private_file(path, &file)?;
        Ok(Self(file))
    }

    pub(crate) fn read(&self) -> io::Result<State> {
        with_lock(&self.0, File::try_lock_shared, parse)
    }

    /// Moves the head forward, never back.
    pub(crate) fn advance(&self, to: &Head) -> io::Result<()> {
        with_lock(&self.0, File::try_lock, |file| match parse(file)? {
            State::Known(now) if now.seq >= to.seq => Ok(()),
            State::Known(_) | State::Absent => self.write(to),
            State::Unreadable => file.set_len(0).and_then(|()| self.write(to)),
        })
    }

    /// Announces a recovery: durable before the segment is touched.
    pub(crate) fn announce(&self, head: &Head) -> io::Result<()> {
        with_lock(&self.0, File::try_lock, |file| {
            self.write(head)?;
            file.sync_all()
        })
    }

    fn write(&self, head: &Head) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(head)?;
        bytes.resize(LEN - 1, b' ');
        bytes.push(b'\n');
        self.0.write_all_at(&bytes, 0)
    }
}

/// Reads the file without creating or changing anything.
pub(crate) fn read(path: &Path) -> io::Result<State> {
    match durable::open_read(path) {
        Ok(file) => {
            if !file.metadata()?.is_file() {
                return Ok(State::Unreadable);
            }
            with_lock(&file, File::try_lock_shared, parse)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(State::Absent),
        Err(error) => Err(error),
    }
}

/// Runs `work` under a lock that whoever can read the file could hold, so waits only so long.
fn with_lock<T>(
    file: &File,
    try_lock: impl Fn(&File) -> Result<(), TryLockError>,
    work: impl FnOnce(&File) -> io::Result<T>,
) -> io::Result<T> {
    const WAIT: Duration = Duration::from_millis(250);
    const NAP: Duration = Duration::from_micros(50);
    let start = Instant::now();
    loop {
        match try_lock(file) {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if start.elapsed() < WAIT => thread::sleep(NAP),
            Err(error) => return Err(error.into()),
        }
    }
    let result = work(file);
    file.unlock()?;
    result
}

fn parse(file: &File) -> io::Result<State> {
    let len = file.metadata()?.len();
    if len == 0 {
        return Ok(State::Absent);
    }
    if len != LEN as u64 {
        return Ok(State::Unreadable);
    }
    let mut bytes = [0; LEN];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(match serde_json::from_slice::<Head>(&bytes) {
        Ok(head) if head.v == VERSION => State::Known(head),
        Ok(_) | Err(_) => State::Unreadable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(seq: u64) -> Head {
        let leaf = Digest::of(&seq.to_le_bytes());
        Head::at(0, Frontier { seq: seq + 1, offset: 100 * (seq + 1), leaf }).unwrap()
    }

    #[test]
    fn it_moves_forward_and_never_back() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("head");
        assert_eq!(read(&path).unwrap(), State::Absent);
        let file = HeadFile::open(&path).unwrap();
        assert_eq!(file.read().unwrap(), State::Absent);
        for (advance_to, expected) in [(5, 5), (3, 5), (5, 5), (6, 6)] {
            file.advance(&head(advance_to)).unwrap();
            assert_eq!(read(&path).unwrap(), State::Known(head(expected)));
        }
    }

    #[test]
    fn an_announcement_lasts_until_the_head_moves() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = HeadFile::open(&dir.path().join("head")).unwrap();
        let torn = TornLine { seq: 6, offset: 600, len: 3, sha256: Digest::of(b"tor") };
        file.announce(&head(5).before(torn)).unwrap();
        file.advance(&head(5)).unwrap();
        let State::Known(known) = file.read().unwrap() else { panic!("unreadable") };
        assert!(known.announces(torn));
        assert!(!known.announces(TornLine { len: 4, ..torn }));
        file.advance(&head(7)).unwrap();
        let State::Known(known) = file.read().unwrap() else { panic!("unreadable") };
        assert!(!known.announces(torn));
    }

    #[test]
    fn the_largest_head_fits() {
        let torn = TornLine { seq: u64::MAX, offset: u64::MAX, len: u64::MAX, sha256: Digest::of(b"") };
        let last = Frontier { seq: u64::MAX, offset: u64::MAX, leaf: Digest::of(b"") };
        let largest = Head::at(u64::MAX, last).unwrap().before(torn);
        assert!(serde_json::to_vec(&largest).unwrap().len() < LEN);
    }
}
