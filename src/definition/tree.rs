//! The tree digest: which bytes a definition's directory held when it was read.

use depute_ledger::Digest;

/// The most entries in one tree.
pub const MAX_TREE_ENTRIES: usize = 4096;
/// The most file content in one tree, in bytes.
pub const MAX_TREE_BYTES: usize = 64 * 1024 * 1024;

/// One file or link below a definition's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// The path below the directory, `/` between its parts, as bytes.
    pub path: Vec<u8>,
    /// What is there.
    pub kind: TreeKind,
}

/// What a tree holds at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeKind {
    /// A regular file.
    File {
        /// Whether its owner may execute it.
        executable: bool,
        /// Its bytes.
        content: Vec<u8>,
    },
    /// A link, by the text of its target; never followed.
    Link(Vec<u8>),
}

/// Why a tree has no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// Too many entries.
    #[error("holds more than {MAX_TREE_ENTRIES} files")]
    TooMany,
    /// Too much content.
    #[error("holds more than {MAX_TREE_BYTES} bytes")]
    TooLarge,
}

/// SHA-256 over the sorted entries: for each a type byte (`f`, `x` or `l`), then path and content,
/// both preceded by their length as eight bytes, big-endian.
///
/// # Errors
/// Where the tree is larger than the limits.
pub fn tree_digest(mut entries: Vec<TreeEntry>) -> Result<Digest, TreeError> {
    use sha2::Digest as _;
    if entries.len() > MAX_TREE_ENTRIES {
        return Err(TreeError::TooMany);
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let mut hash = sha2::Sha256::new();
    let mut total = 0_usize;
    for entry in &entries {
        let (kind, content) = match &entry.kind {
            TreeKind::File { executable: false, content } => (b'f', content),
            TreeKind::File { executable: true, content } => (b'x', content),
            TreeKind::Link(target) => (b'l', target),
        };
        total = total.saturating_add(content.len());
        if total > MAX_TREE_BYTES {
            return Err(TreeError::TooLarge);
        }
        hash.update([kind]);
        for part in [&entry.path, content] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
    }
    Ok(Digest::from_bytes(hash.finalize().into()))
}
