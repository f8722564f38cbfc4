//! The few file operations that the ledger's promises rest on.
//!
//! An append that is acknowledged makes these system calls, and no others, on the way:
//!
//! ```text
//! flock(lock, LOCK_EX|LOCK_NB)             one writer at a time, across processes
//! stat(lock) stat(seg) fstat(seg)          the paths still name the open files; nobody cut them
//! flock(head) pread(head)                  no other writer got further than the file goes
//! open(next seg) = ENOENT                  nobody has begun another segment
//! statvfs(dir)                             room for what must be written later
//! write(seg, "{…}\n{…}\n")                 O_APPEND, one call per batch
//! flock(lock, LOCK_UN)                     others may append; they chain onto these lines
//! fdatasync(seg)                           the lines are on disk
//! stat(seg) fstat(seg)                     and the path still leads to them
//! flock(head) pread(head) pwrite(head)     remember how far the disk is known to be good
//! ```
//!
//! A file that must be whole or absent is published so:
//!
//! ```text
//! open(tmp, O_CREAT|O_EXCL|O_NOFOLLOW) write(tmp) fsync(tmp) rename(tmp, name) fsync(dir)
//! ```
//!
//! `fsync` is never retried: after it has failed, the kernel may have dropped the dirty pages and
//! a second call would report success for data that is not on disk.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::error::{OpenError, Unsafe};

/// Opens without following a symlink in the last component and without waiting on a FIFO.
fn open(path: &Path, options: &mut OpenOptions, flags: OFlag) -> io::Result<File> {
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    options.custom_flags(flags.bits()).open(path)
}

/// Opens a file to read.
pub(crate) fn open_read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true), OFlag::empty())
}

/// Opens an existing file to read and append.
pub(crate) fn open_append(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true).append(true), OFlag::empty())
}

/// Opens a file to read and write in place, created private where absent.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true).write(true).create(true).mode(0o600), OFlag::empty())
}

/// Opens a directory, not through a symlink.
pub(crate) fn open_dir(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true), OFlag::O_DIRECTORY)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    open_dir(path)?.sync_all()
}

/// Creates `path` and its missing parents, each for its owner only and each durable.
pub(crate) fn create_dir_all(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .filter(|dir| !dir.as_os_str().is_empty())
        .take_while(
            |dir| matches!(fs::symlink_metadata(dir), Err(error) if error.kind() == io::ErrorKind::NotFound),
        )
        .collect();
    for dir in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => {}
            // Another process was faster; whether it made something usable is checked later.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let parent = match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            Some(_) | None => Path::new("."),
        };
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Puts `bytes` at `path` so that a crash leaves the whole file or none. `tmp` lies in the same
/// directory and is the caller's alone.
pub(crate) fn publish(tmp: &Path, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    match fs::remove_file(tmp) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let result = (|| {
        let mut file = open(tmp, OpenOptions::new().write(true).create_new(true).mode(mode), OFlag::empty())?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(tmp, path)
    })();
    if result.is_err() {
        // Best effort: a leftover is replaced the next time, and means nothing.
        let _ = fs::remove_file(tmp);
        return result;
    }
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Takes the right to write from everybody.
pub(crate) fn make_read_only(file: &File) -> io::Result<()> {
    const MODE: u32 = 0o400;
    if file.metadata()?.mode() & 0o7777 == MODE {
        return Ok(());
    }
    file.set_permissions(fs::Permissions::from_mode(MODE))
}

/// A range of a file as a stream, independent of the file's own position.
#[derive(Debug)]
pub(crate) struct Range<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl<'a> Range<'a> {
    pub(crate) const fn new(file: &'a File, at: u64, end: u64) -> Self {
        Self { file, at, end }
    }
}

impl Read for Range<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let want = left.min(buf.len());
        let (buf, _) = buf.split_at_mut(want);
        let n = self.file.read_at(buf, self.at)?;
        self.at = self.at.saturating_add(n as u64);
        Ok(n)
    }
}

/// Which file a path or descriptor stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    dev: u64,
    ino: u64,
}

impl Identity {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { dev: metadata.dev(), ino: metadata.ino() }
    }

    /// Whether `path` itself, not through a symlink, is this file.
    pub(crate) fn is_at(self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|metadata| Self::of(&metadata) == self)
    }
}

/// Turns an I/O error into an [`OpenError`] that names the path, and a symlink into its own.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    move |source| {
        if source.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) {
            return unsafe_at(path, Unsafe::Symlink);
        }
        OpenError::Io { path: path.to_owned(), source }
    }
}

fn unsafe_at(path: &Path, why: Unsafe) -> OpenError {
    OpenError::Unsafe { path: PathBuf::from(path), why }
}

/// Refuses a file that is not plainly this user's own: regular, one name, nobody else's bits.
pub(crate) fn check_private_file(path: &Path, file: &File) -> Result<Metadata, OpenError> {
    let metadata = file.metadata().map_err(at(path))?;
    if !metadata.is_file() {
        return Err(unsafe_at(path, Unsafe::NotRegular));
    }
    if metadata.nlink() != 1 {
        let links = metadata.nlink();
        return Err(unsafe_at(path, Unsafe::HardLinked { links }));
    }
    check_owner(path, &metadata)?;
    Ok(metadata)
}

/// Refuses a directory that is not plainly this user's own.
pub(crate) fn check_private_dir(path: &Path) -> Result<File, OpenError> {
    let metadata = fs::symlink_metadata(path).map_err(at(path))?;
    if metadata.is_symlink() {
        return Err(unsafe_at(path, Unsafe::Symlink));
    }
    if !metadata.is_dir() {
        return Err(unsafe_at(path, Unsafe::NotDirectory));
    }
    // What was looked at may have been swapped since; what is open cannot be.
    let dir = open_dir(path).map_err(at(path))?;
    check_owner(path, &dir.metadata().map_err(at(path))?)?;
    Ok(dir)
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), OpenError> {
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        let owner = metadata.uid();
        return Err(unsafe_at(path, Unsafe::ForeignOwner { owner }));
    }
    if metadata.mode() & 0o077 != 0 {
        let mode = metadata.mode() & 0o7777;
        return Err(unsafe_at(path, Unsafe::Permissions { mode }));
    }
    Ok(())
}
