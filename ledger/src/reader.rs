//! Reading: the records of a ledger in order, each checked against the chain.
//!
//! Creates nothing, changes nothing, needs no write permission and no key. Memory is bounded by
//! the longest line, not by the ledger.

use std::fs::File;
use std::io::{self, BufReader, Read, Take};
use std::path::{Path, PathBuf};

use crate::chain::{Chain, Lines};
use crate::digest::{Digest, KeyedDigest};
use crate::durable;
use crate::error::{OpenError, Unsafe};
use crate::finding::Finding;
use crate::head::{self, State};
use crate::key;
use crate::layout::Layout;
use crate::objects::{ObjectError, Objects};
use crate::open::first_version;
use crate::record::{LINE_LIMIT, Record, VERSION};

/// Why a ledger cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The operating system said no.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The path in question.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// There is no ledger in this directory.
    #[error("there is no ledger in `{}`", .0.display())]
    Missing(PathBuf),
    /// The segment is not a plain file.
    #[error("refusing `{}`: {why}", path.display())]
    Unsafe {
        /// The path in question.
        path: PathBuf,
        /// What is wrong with it.
        why: Unsafe,
    },
    /// The ledger was written by a newer program.
    #[error("ledger has format version {found}, this program reads {VERSION}")]
    Version {
        /// The version found.
        found: u64,
    },
}

/// Why reading stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The ledger cannot be read.
    #[error(transparent)]
    Access(#[from] VerifyError),
    /// The ledger is not what was written. Nothing after this place is reported.
    #[error("ledger is damaged: {0}")]
    Damaged(Box<Finding>),
}

/// A segment open to read, up to the length it had then.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) head: io::Result<State>,
}

impl Segment {
    pub(crate) fn open(dir: &Path) -> Result<Self, VerifyError> {
        let layout = Layout::new(dir);
        // `head` first: the segment only grows, so it is then at least as long as `head` says.
        let head = head::read(&layout.head);
        let path = layout.segment;
        let failed = |source| VerifyError::Io { path: path.clone(), source };
        let file = durable::open_read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => VerifyError::Missing(layout.dir),
            _ if error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) => {
                VerifyError::Unsafe { path: path.clone(), why: Unsafe::Symlink }
            }
            _ => failed(error),
        })?;
        if !file.metadata().map_err(failed)?.is_file() {
            let why = Unsafe::NotRegular;
            return Err(VerifyError::Unsafe { path, why });
        }
        match first_version(&file).map_err(failed)? {
            Some(found) if found != VERSION => Err(VerifyError::Version { found }),
            Some(_) | None => Ok(Self { path, file, head }),
        }
    }

    pub(crate) fn lines(&self) -> io::Result<Lines<BufReader<Take<File>>>> {
        let len = self.file.metadata()?.len();
        let stream = self.file.try_clone()?.take(len);
        Ok(Lines::new(BufReader::with_capacity(LINE_LIMIT, stream), 0))
    }
}

/// A record and the line it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The line's number.
    pub seq: u64,
    /// Where it starts, in bytes from the start of the segment.
    pub offset: u64,
    /// Its bytes, without the line feed.
    pub bytes: Vec<u8>,
    /// Its leaf hash.
    pub leaf: Digest,
    /// What it says. The line is in canonical form and links to the line before it.
    pub record: Record,
}

/// An iterator over the records of a ledger, from the first to the newest.
///
/// Reads what was there when it was opened, up to the last line feed. Torn lines are passed over:
/// the recovery records behind them are there to be seen. After the first error there is nothing
/// more; a ledger that was cut at its end gives its remaining records first, and then the error.
#[derive(Debug)]
pub struct Reader {
    segment: Segment,
    lines: Lines<BufReader<Take<File>>>,
    chain: Chain,
    objects: Objects,
    key: PathBuf,
    buffer: Vec<u8>,
    done: bool,
}

impl Reader {
    /// Opens the ledger in directory `dir`.
    ///
    /// # Errors
    /// See [`VerifyError`].
    pub fn open(dir: &Path) -> Result<Self, VerifyError> {
        let segment = Segment::open(dir)?;
        let lines =
            segment.lines().map_err(|source| VerifyError::Io { path: segment.path.clone(), source })?;
        Ok(Self {
            segment,
            lines,
            chain: Chain::new(),
            objects: Objects::new(dir),
            key: Layout::new(dir).key,
            buffer: Vec::new(),
            done: false,
        })
    }

    /// Reads an object of at most [`OBJECT_LIMIT`](crate::OBJECT_LIMIT) bytes and checks its
    /// content against its name.
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn get_object(&self, digest: Digest) -> Result<Vec<u8>, ObjectError> {
        self.objects.get(digest)
    }

    /// Digests text under the ledger's key, as its writers did. Nothing where the key was destroyed.
    ///
    /// # Errors
    /// Where the key cannot be read, or others could have changed it.
    pub fn keyed_digest(&self, bytes: &[u8]) -> Result<Option<KeyedDigest>, OpenError> {
        Ok(key::read(&self.key)?.map(|key| KeyedDigest::of(&key, bytes)))
    }

    fn advance(&mut self) -> Result<Option<Line>, ReadError> {
        let failed = |source| VerifyError::Io { path: self.segment.path.clone(), source };
        while let Some(raw) = self.lines.next(&mut self.buffer).map_err(failed)? {
            if !raw.ended {
                break;
            }
            let step = self.chain.step(&raw, &self.buffer);
            if let Some(finding) = step.findings.into_iter().next() {
                return Err(ReadError::Damaged(Box::new(finding)));
            }
            if let Some(record) = step.record {
                return Ok(Some(Line {
                    seq: record.seq,
                    offset: raw.offset,
                    bytes: self.buffer.clone(),
                    leaf: raw.leaf,
                    record,
                }));
            }
        }
        let head = match &self.segment.head {
            Ok(State::Known(head)) => Some(head),
            Ok(State::Absent | State::Unreadable) | Err(_) => None,
        };
        let recovering = match (head, self.chain.unsettled()) {
            (Some(head), Some(torn)) => head.announces(torn),
            (_, _) => false,
        };
        let mut findings = Vec::new();
        if !recovering {
            findings = self.chain.finish();
        }
        if let (Some(head), true) = (head, findings.is_empty()) {
            findings.extend(head.check(&self.segment.file).map_err(failed)?);
        }
        match findings.into_iter().next() {
            Some(finding) => Err(ReadError::Damaged(Box::new(finding))),
            None => Ok(None),
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Line, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.advance().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}
