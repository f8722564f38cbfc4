//! The names in a ledger's directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) dir: PathBuf,
    pub(crate) lock: PathBuf,
    pub(crate) head: PathBuf,
    pub(crate) key: PathBuf,
}

impl Layout {
    pub(crate) fn new(dir: &Path) -> Self {
        // A trailing slash would make the system follow a symlink that is to be refused.
        let dir: PathBuf = dir.components().collect();
        Self { lock: dir.join("lock"), head: dir.join("head"), key: dir.join("key"), dir }
    }

    /// The segment whose first line has this number.
    pub(crate) fn segment(&self, first: u64) -> PathBuf {
        self.dir.join(format!("seg-{first:020}.jsonl"))
    }

    /// The numbers of the first lines of all segments, the oldest first.
    pub(crate) fn segments(&self) -> io::Result<Vec<u64>> {
        let mut segments = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            segments.extend(entry?.file_name().to_str().and_then(first_line));
        }
        segments.sort_unstable();
        Ok(segments)
    }

    /// A name to write under before the file gets its own. Only the holder of the lock uses it.
    pub(crate) fn tmp(path: &Path) -> PathBuf {
        path.with_extension("tmp")
    }
}

fn first_line(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("seg-")?.strip_suffix(".jsonl")?;
    if digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}
