//! The errors of writing: opening a ledger and appending to it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::finding::{Code, Finding};
use crate::record::{INTEGER_LIMIT, Kind, LINE_LIMIT, VERSION};

/// Why a ledger cannot be opened to append.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system said no.
    #[error("cannot use `{}`", path.display())]
    Io {
        /// The path in question.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A path that others could change, or that is not what it should be.
    #[error("refusing `{}`: {why}", path.display())]
    Unsafe {
        /// The path in question.
        path: PathBuf,
        /// What is wrong with it.
        why: Unsafe,
    },
    /// Another process held the lock for all of the time allowed.
    #[error("`{}` stayed locked by another process for {} ms", path.display(), waited.as_millis())]
    Busy {
        /// The lock file. `fuser` names the process that holds it.
        path: PathBuf,
        /// The time waited.
        waited: Duration,
    },
    /// The ledger was written by a newer program. Nothing is appended to it.
    #[error("ledger was written by a newer version: {0}")]
    Newer(Newer),
    /// What a crash left unfinished could not be settled. Nothing is lost; try again once the
    /// cause, often a full disk, is gone.
    #[error("cannot settle what a crashed writer left: {0}")]
    Recovery(Poison),
    /// The ledger is not what was written. Nothing is appended to it and nothing is repaired.
    #[error("ledger is damaged: {0}")]
    Damaged(Box<Finding>),
}

impl From<Finding> for OpenError {
    fn from(finding: Finding) -> Self {
        match Newer::of(&finding) {
            Some(newer) => Self::Newer(newer),
            None => Self::Damaged(Box::new(finding)),
        }
    }
}

/// What shows that a newer version wrote a ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Newer {
    /// A format version that this one does not know.
    #[error("it has format version {found}, and this one knows {VERSION}")]
    Version {
        /// The version found.
        found: u64,
    },
    /// A record that is in its place and of a kind that this one does not know.
    #[error("line {seq} is a record of kind `{kind}`, which this one does not know")]
    Kind {
        /// The line's number.
        seq: u64,
        /// The kind.
        kind: String,
    },
}

impl Newer {
    /// What a finding shows of the version, where that is what it is about.
    pub(crate) fn of(finding: &Finding) -> Option<Self> {
        match (finding.code, &finding.actual, finding.seq) {
            (Code::LineVersion, Some(found), _) => Some(Self::Version { found: found.parse().ok()? }),
            (Code::LineKind, Some(kind), Some(seq)) => Some(Self::Kind { seq, kind: kind.clone() }),
            _ => None,
        }
    }
}

/// What is wrong with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsafe {
    /// It is a symbolic link.
    #[error("it is a symbolic link")]
    Symlink,
    /// It is not a directory.
    #[error("it is not a directory")]
    NotDirectory,
    /// It is a FIFO, device, socket or directory.
    #[error("it is not a regular file")]
    NotRegular,
    /// It has other names, through which it could be changed.
    #[error("it has {links} hard links instead of 1")]
    HardLinked {
        /// The number of names.
        links: u64,
    },
    /// It belongs to somebody else.
    #[error("it belongs to user {owner}")]
    ForeignOwner {
        /// The owner's user id.
        owner: u32,
    },
    /// Others may read, write or enter it.
    #[error("its mode {mode:04o} lets others in; remove the group and other bits")]
    Permissions {
        /// The mode's permission bits.
        mode: u32,
    },
    /// It is not the length it must have.
    #[error("it is {found} bytes long instead of {expected}")]
    Size {
        /// The length found.
        found: u64,
        /// The length that is right.
        expected: u64,
    },
}

/// Why records were not appended.
///
/// Unless the variant says otherwise, nothing was written.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The record's line would be longer than a line may be.
    #[error("{kind} record of {len} bytes is longer than {LINE_LIMIT}")]
    TooLong {
        /// The record's kind.
        kind: Kind,
        /// The length its line would have.
        len: u64,
    },
    /// The record holds an integer that other readers would change.
    #[error("{kind} record holds an integer beyond {INTEGER_LIMIT}: {message}")]
    Integer {
        /// The record's kind.
        kind: Kind,
        /// Which one.
        message: String,
    },
    /// A kind that only the ledger itself writes.
    #[error("{kind} records are written by the ledger alone")]
    Reserved {
        /// The record's kind.
        kind: Kind,
    },
    /// Too little room on the disk to start something whose end must still be recorded.
    #[error(
        "{free} bytes are free on the ledger's disk, {reserve} are kept for records of what already runs"
    )]
    NoSpace {
        /// Bytes free for this user.
        free: u64,
        /// The configured reserve in bytes.
        reserve: u64,
    },
    /// Another process held the lock for all of the time allowed.
    #[error("`{}` stayed locked by another process for {} ms", path.display(), waited.as_millis())]
    Busy {
        /// The lock file. `fuser` names the process that holds it.
        path: PathBuf,
        /// The time waited.
        waited: Duration,
    },
    /// This handle is finished. Whether the records of this call are on disk is unknown; every
    /// later call fails too. Once the cause is gone, open the ledger again to go on; after
    /// [`Poison::Sync`], from another process.
    #[error("ledger can no longer be written by this process: {0}")]
    Poisoned(Poison),
    /// An object is larger than [`OBJECT_LIMIT`](crate::OBJECT_LIMIT).
    #[error("object of {len} bytes is larger than {limit}", limit = crate::OBJECT_LIMIT)]
    ObjectTooLarge {
        /// The object's length in bytes.
        len: u64,
    },
    /// An object could not be stored.
    #[error("cannot store object `{}`", path.display())]
    Object {
        /// The object's path.
        path: PathBuf,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
}

/// What made a writer give up for good.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Poison {
    /// A write failed.
    #[error("write failed: {0}")]
    Write(Arc<io::Error>),
    /// A write ended early, as on a full disk. The next open declares the torn line.
    #[error(
        "only {written} of {wanted} bytes could be written; the disk may be full or a file size limit reached"
    )]
    ShortWrite {
        /// Bytes written.
        written: u64,
        /// Bytes that should have been.
        wanted: u64,
    },
    /// `fdatasync` failed. The page cache may show lines that the disk does not hold.
    #[error("fdatasync failed, the newest lines may not be on disk and this process must not write on: {0}")]
    Sync(Arc<io::Error>),
    /// A path no longer names the file that is open.
    #[error("`{}` was renamed, removed or replaced", .0.display())]
    Moved(PathBuf),
    /// The segment is shorter than it was.
    #[error("segment shrank from {from} to {to} bytes")]
    Shrunk {
        /// The length before, in bytes.
        from: u64,
        /// The length found, in bytes.
        to: u64,
    },
    /// Something else was appended.
    #[error("what was appended meanwhile is damaged: {0}")]
    Damaged(Arc<Finding>),
    /// A newer version appended.
    #[error("a newer version goes on with it: {0}")]
    Newer(Newer),
    /// The ledger's files could not be examined or locked.
    #[error("cannot examine `{}`: {source}", path.display())]
    Io {
        /// The path in question.
        path: PathBuf,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// A thread ended in the middle of writing.
    #[error("a thread ended in the middle of writing")]
    Abandoned,
}
