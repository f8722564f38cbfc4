//! Objects: the inputs of decisions, each in a file named by its digest.
//!
//! An object is on disk before the line that names it, so a line never promises what a crash took.

use std::collections::HashSet;
use std::fs::DirBuilder;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use crate::digest::Digest;
use crate::durable;
use crate::error::OpenError;

/// The largest object in bytes: 16 MiB.
pub const OBJECT_LIMIT: u64 = 16 << 20;

/// Why an object cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// It is not there.
    #[error("object `{0}` is missing")]
    Missing(Digest),
    /// Its content is not what its name says.
    #[error("object `{expected}` is damaged: its content is `{actual}`")]
    Damaged {
        /// The digest in its name.
        expected: Digest,
        /// The digest of its content, or of what was read of it.
        actual: Digest,
    },
    /// The operating system said no.
    #[error("cannot read object `{digest}`")]
    Io {
        /// The digest in its name.
        digest: Digest,
        /// The operating system's error.
        source: io::Error,
    },
}

/// The `objects` directory.
#[derive(Debug)]
pub(crate) struct Objects {
    dir: PathBuf,
}

impl Objects {
    /// Stands for the directory beside a segment, which need not exist.
    pub(crate) fn new(ledger: &Path) -> Self {
        Self { dir: ledger.join("objects") }
    }

    /// Creates the directory where absent and checks that it is private.
    pub(crate) fn prepare(&self) -> Result<(), OpenError> {
        match DirBuilder::new().mode(0o700).create(&self.dir) {
            Ok(()) => {
                let parent = self.dir.parent().unwrap_or(Path::new("."));
                durable::sync_dir(parent).map_err(durable::at(parent))?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(durable::at(&self.dir)(error)),
        }
        durable::check_private_dir(&self.dir).map(drop)
    }

    pub(crate) fn path(&self, digest: Digest) -> PathBuf {
        self.dir.join(digest.to_hex())
    }

    /// Stores `bytes` durably, once. A damaged object of that name is replaced.
    pub(crate) fn put(&self, writer: Uuid, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        if self.get(digest).is_ok() {
            // Whoever put it there may not have got as far as making its name durable.
            return durable::sync_dir(&self.dir);
        }
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        let tmp = self.dir.join(format!(".{writer}-{n}"));
        durable::publish(&tmp, &self.path(digest), bytes, 0o400)
    }

    /// Reads an object and checks its content against its name.
    pub(crate) fn get(&self, digest: Digest) -> Result<Vec<u8>, ObjectError> {
        let failed = |source: io::Error| {
            if source.kind() == io::ErrorKind::NotFound {
                ObjectError::Missing(digest)
            } else {
                ObjectError::Io { digest, source }
            }
        };
        let file = durable::open_read(&self.path(digest)).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("not a regular file")));
        }
        let mut bytes = Vec::new();
        file.take(OBJECT_LIMIT + 1).read_to_end(&mut bytes).map_err(failed)?;
        let actual = Digest::of(&bytes);
        if actual == digest { Ok(bytes) } else { Err(ObjectError::Damaged { expected: digest, actual }) }
    }
}

/// Remembers which objects were found good, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct Seen(HashSet<Digest>);

impl Seen {
    const LIMIT: usize = 1 << 16;

    /// Returns whether `digest` is new.
    pub(crate) fn insert(&mut self, digest: Digest) -> bool {
        if self.0.len() >= Self::LIMIT {
            self.0.clear();
        }
        self.0.insert(digest)
    }
}
