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
    write_with(path, content, 0o600)
}

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
    let fresh = fresh(place);
    write_new(&fresh, content)?;
    std::fs::rename(&fresh, place)?;
    sync_directory(place)
}

/// Puts a file that others may read into its place, over what is there.
///
/// # Errors
/// Where it cannot be written; then the place is as it was.
pub fn publish(place: &Path, content: &[u8]) -> io::Result<()> {
    let fresh = fresh(place);
    let written = write_with(&fresh, content, 0o666).and_then(|()| std::fs::rename(&fresh, place));
    if written.is_err() {
        let _ = std::fs::remove_file(&fresh);
    }
    written?;
    sync_directory(place)
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
    let fresh = fresh(place);
    let written = write_new(&fresh, content)
        .and_then(|()| std::fs::set_permissions(&fresh, metadata.permissions()))
        .and_then(|()| std::fs::rename(&fresh, place));
    if written.is_err() {
        let _ = std::fs::remove_file(&fresh);
    }
    written?;
    sync_directory(place)
}

/// Puts a private file into its place, where nothing is yet.
///
/// # Errors
/// Where something is there, or it cannot be written; then the place is as it was.
pub fn create(place: &Path, content: &[u8]) -> io::Result<()> {
    let fresh = fresh(place);
    write_new(&fresh, content)?;
    // Unlike a rename, a link never replaces what has come to be there meanwhile.
    let linked = std::fs::hard_link(&fresh, place);
    std::fs::remove_file(&fresh)?;
    linked?;
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
