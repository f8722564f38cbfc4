//! Which directories' definitions may be spawned. Recorded outside every workspace.
//!
//! The nearest decided ancestor wins. Any doubt (no record, a record that cannot be read, one that
//! others can write) is untrusted.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The largest store that is read, in bytes.
const MAX_STORE: u64 = 1024 * 1024;

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Store {
    v: u32,
    directories: BTreeMap<PathBuf, Verdict>,
}

#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Trusted,
    Untrusted,
}

/// Whether a directory is trusted.
#[must_use]
pub fn is_trusted(store: &Path, directory: &Path) -> bool {
    let Some(store) = read(store) else { return false };
    directory.ancestors().find_map(|dir| store.directories.get(dir)) == Some(&Verdict::Trusted)
}

/// Records whether a directory is trusted: written beside the store, synced and renamed over it.
///
/// # Errors
/// Where the store cannot be written.
pub fn record(store: &Path, directory: &Path, trusted: bool) -> std::io::Result<()> {
    let mut content = match store.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Store { v: 1, directories: BTreeMap::new() }
        }
        // Starting anew would forget what was distrusted.
        _ => read(store).ok_or_else(|| {
            std::io::Error::other(format!(
                "`{}` cannot be relied on: look at its owner, mode and content",
                store.display()
            ))
        })?,
    };
    let verdict = if trusted { Verdict::Trusted } else { Verdict::Untrusted };
    content.directories.insert(directory.to_owned(), verdict);
    let parent = store.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let fresh = store.with_extension(format!("{}.tmp", crate::host::new_id()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    serde_json::to_writer_pretty(&mut file, &content)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&fresh, store)?;
    std::fs::File::open(parent)?.sync_all()
}

fn read(store: &Path) -> Option<Store> {
    let metadata = std::fs::symlink_metadata(store).ok()?;
    let ours = metadata.is_file() && metadata.uid() == crate::host::uid() && metadata.mode() & 0o022 == 0;
    if !ours || metadata.len() > MAX_STORE {
        return None;
    }
    serde_json::from_slice(&std::fs::read(store).ok()?).ok().filter(|store: &Store| store.v == 1)
}
