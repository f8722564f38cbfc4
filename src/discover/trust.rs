//! Which directories' definitions may be spawned. Recorded outside every workspace.
//!
//! The nearest decided ancestor wins. Any doubt (no record, a record that cannot be read, one that
//! others can write) is untrusted. The directory of the store holds nothing but this program's state.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

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
    let Ok(store) = read(store) else { return false };
    directory.ancestors().find_map(|dir| store.directories.get(dir)) == Some(&Verdict::Trusted)
}

/// Why the store cannot be relied on, where one is there and cannot. Then nothing is trusted.
#[must_use]
pub fn doubt(store: &Path) -> Option<String> {
    read(store).err().filter(|error| error.kind() != ErrorKind::NotFound).map(|error| error.to_string())
}

/// Records whether a directory is trusted: written beside the store, synced and renamed over it.
///
/// # Errors
/// Where the store cannot be written, and where one is there that cannot be relied on: to start anew
/// would forget what was distrusted.
pub fn record(store: &Path, directory: &Path, trusted: bool) -> io::Result<()> {
    let parent = store.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    // It may be older than this rule. Where it is not ours, this fails, as it should.
    if std::fs::metadata(parent)?.mode() & 0o077 != 0 {
        std::fs::set_permissions(parent, Permissions::from_mode(0o700))?;
    }
    // Two writers at once would each lose what the other says. Closing the file ends the lock.
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(store.with_extension("lock"))?;
    lock.lock()?;
    let mut content = match read(store) {
        Ok(content) => content,
        Err(error) if error.kind() == ErrorKind::NotFound => Store { v: 1, directories: BTreeMap::new() },
        Err(error) => {
            return Err(io::Error::other(format!("`{}` cannot be relied on: {error}", store.display())));
        }
    };
    let verdict = if trusted { Verdict::Trusted } else { Verdict::Untrusted };
    content.directories.insert(directory.to_owned(), verdict);
    let mut text = serde_json::to_vec_pretty(&content)?;
    text.push(b'\n');
    crate::durable::replace(store, &text)
}

/// Reads the store through one descriptor: what was looked at is what is read.
fn read(store: &Path) -> io::Result<Store> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(store)?;
    let metadata = file.metadata()?;
    let doubt = |why: &str| Err(io::Error::other(why.to_owned()));
    if !metadata.is_file() {
        return doubt("it is no regular file");
    }
    if metadata.uid() != crate::host::uid() || metadata.mode() & 0o022 != 0 {
        return doubt("others could have written it");
    }
    let mut content = Vec::new();
    file.take(MAX_STORE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_STORE {
        return doubt("it is too large");
    }
    let store: Store = serde_json::from_slice(&content)?;
    if store.v == 1 { Ok(store) } else { doubt("it is of another version") }
}
