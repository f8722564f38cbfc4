//! The names in a ledger's directory.

use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) dir: PathBuf,
    pub(crate) lock: PathBuf,
    pub(crate) segment: PathBuf,
    pub(crate) head: PathBuf,
    pub(crate) key: PathBuf,
}

impl Layout {
    pub(crate) fn new(dir: &Path) -> Self {
        // A trailing slash would make the system follow a symlink that is to be refused.
        let dir: PathBuf = dir.components().collect();
        Self {
            lock: dir.join("lock"),
            segment: dir.join("seg-00000000000000000000.jsonl"),
            head: dir.join("head"),
            key: dir.join("key"),
            dir,
        }
    }

    /// A name to write under before the file gets its own. Only the holder of the lock uses it.
    pub(crate) fn tmp(path: &Path) -> PathBuf {
        path.with_extension("tmp")
    }
}
