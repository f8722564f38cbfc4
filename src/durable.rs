//! Files that a crash leaves whole or absent: written beside their place, synced, and put into it.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "this is where files are written")]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a new private file and syncs it.
///
/// # Errors
/// Where it is there already, or cannot be written.
pub fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    write_with(path, content, PRIVATE)
}

const PRIVATE: u32 = 0o600;

fn write_with(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Puts a private file into its place, over what is there.
///
/// # Errors
/// Where it cannot be written; then the place is as it was.
pub fn replace(place: &Path, content: &[u8]) -> io::Result<()> {
    put(place, content, PRIVATE, |fresh| std::fs::rename(fresh, place))
}

/// Puts a file that others may read into its place, over what is there.
///
/// # Errors
/// Where it cannot be written; then the place is as it was.
pub fn publish(place: &Path, content: &[u8]) -> io::Result<()> {
    put(place, content, 0o666, |fresh| std::fs::rename(fresh, place))
}

/// Puts other content into the place of a file, and keeps its mode.
///
/// # Errors
/// Where no regular file is there, or it cannot be written; then it is as it was.
pub fn rewrite(place: &Path, content: &[u8]) -> io::Result<()> {
    let metadata = place.symlink_metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other(format!("`{}` is no regular file", place.display())));
    }
    put(place, content, PRIVATE, |fresh| {
        std::fs::set_permissions(fresh, metadata.permissions())?;
        std::fs::rename(fresh, place)
    })
}

/// Puts a private file into its place, where nothing is yet.
///
/// # Errors
/// Where something is there, or it cannot be written; then the place is as it was.
pub fn create(place: &Path, content: &[u8]) -> io::Result<()> {
    put(place, content, PRIVATE, |fresh| {
        // Unlike a rename, a link never replaces what has come to be there meanwhile.
        std::fs::hard_link(fresh, place)?;
        std::fs::remove_file(fresh)
    })
}

/// Writes a file beside its place, and leaves nothing there where `settle` does not bring it into it.
fn put(
    place: &Path,
    content: &[u8],
    mode: u32,
    settle: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let fresh = fresh(place);
    let settled = write_with(&fresh, content, mode).and_then(|()| settle(&fresh));
    if settled.is_err() {
        let _ = std::fs::remove_file(&fresh);
    }
    settled?;
    sync_directory(place)
}

fn fresh(place: &Path) -> PathBuf {
    place.with_extension(format!("{}.tmp", crate::host::new_id()))
}

fn sync_directory(place: &Path) -> io::Result<()> {
    let parent = place.parent().unwrap_or(Path::new("/"));
    // The parent of a bare name is the working directory.
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<std::ffi::OsString> {
        let mut names: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_cannot_get_into_its_place_is_not_left_beside_it() {
        let scratch = tempfile::tempdir().unwrap();
        let (file, taken) = (scratch.path().join("file"), scratch.path().join("taken"));
        std::fs::create_dir(&taken).unwrap();
        type Put = fn(&Path, &[u8]) -> io::Result<()>;
        let ways: [(Put, &[u8]); 4] = [(create, b"1"), (replace, b"2"), (publish, b"3"), (rewrite, b"4")];
        for (put, content) in ways {
            put(&file, content).unwrap();
            assert_eq!(std::fs::read(&file).unwrap(), content);
            put(&taken, b"content").unwrap_err();
            assert!(taken.is_dir());
            assert_eq!(names(scratch.path()), ["file", "taken"]);
        }
    }
}
