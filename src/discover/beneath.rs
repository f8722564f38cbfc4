//! Reading files beneath a root without following a link out of it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

use crate::definition::{MAX_FILE, MAX_TREE_BYTES, MAX_TREE_ENTRIES, TreeEntry, TreeKind};

/// How often an open is tried that a rename beneath disturbs.
const MAX_TRIES: usize = 16;

/// A directory, held open, beneath which files are read.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    path: PathBuf,
}

/// Why something beneath a root was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A link leads out of the root.
    #[error("is a link that leads out of `{}`", .0.display())]
    LeadsOut(PathBuf),
    /// It is a directory, a device, a pipe or a socket.
    #[error("is no regular file")]
    NotRegular,
    /// It is larger than a definition may be.
    #[error("is larger than a definition may be ({MAX_FILE} bytes)")]
    TooLarge,
    /// It could not be looked at when its root was; why.
    #[error("{0}")]
    Blocked(String),
    /// The tree around it is too large to digest.
    #[error("has too much beside it: at most {MAX_TREE_ENTRIES} files and {MAX_TREE_BYTES} bytes")]
    TreeTooLarge,
    /// The system said no.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl ReadError {
    /// The smallest change that would help.
    #[must_use]
    pub fn fix(&self) -> &'static str {
        match self {
            Self::LeadsOut(_) => "put the file itself in the place of the link",
            Self::NotRegular => "put a regular file there, or remove it",
            Self::TooLarge => "move what is not needed at once into files beside it",
            Self::Blocked(_) | Self::Io(_) => "make it readable for you, or remove it",
            Self::TreeTooLarge => "move what the definition does not need out of its directory",
        }
    }
}

impl Root {
    /// Opens a root whose path may lead through links, as one that the operator or user chose may.
    ///
    /// # Errors
    /// Where it is no directory that can be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let fd = open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Opens a directory below this root, through no link that leads out of it.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn beneath(&self, relative: &Path) -> Result<Self, ReadError> {
        let fd = self.open_beneath(relative, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        Ok(Self { fd, path: self.path.join(relative) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which directory it is, however it was reached: its device and inode.
    ///
    /// # Errors
    /// Where the system does not say.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let stat = nix::sys::stat::fstat(self.fd.as_fd())?;
        Ok((stat.st_dev, stat.st_ino))
    }

    fn open_beneath(&self, relative: &Path, flags: OFlag) -> Result<OwnedFd, ReadError> {
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        // The kernel asks for another try where something beneath was renamed meanwhile.
        let opened = (0..MAX_TRIES)
            .map(|_| openat2(self.fd.as_fd(), relative, how))
            .find(|opened| !matches!(opened, Err(Errno::EAGAIN)));
        opened.unwrap_or(Err(Errno::EAGAIN)).map_err(|errno| {
            if matches!(errno, Errno::EXDEV | Errno::ELOOP) {
                ReadError::LeadsOut(self.path.clone())
            } else {
                ReadError::Io(errno.into())
            }
        })
    }

    /// Reads a regular file of at most the size of a definition.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&self, relative: &Path) -> Result<Vec<u8>, ReadError> {
        let (file, size) = self.regular(relative)?;
        if size > MAX_FILE as u64 {
            return Err(ReadError::TooLarge);
        }
        bounded(file, size, MAX_FILE as u64)?.ok_or(ReadError::TooLarge)
    }

    /// Opens a regular file without waiting on a pipe, and says how large it is.
    fn regular(&self, relative: &Path) -> Result<(File, u64), ReadError> {
        let file =
            File::from(self.open_beneath(relative, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)?);
        let metadata = file.metadata()?;
        if metadata.is_file() { Ok((file, metadata.size())) } else { Err(ReadError::NotRegular) }
    }

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn names(&self, relative: &Path) -> Result<Vec<PathBuf>, ReadError> {
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let fd = self.open_beneath(relative, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let mut dir = Dir::from_fd(fd).map_err(io::Error::from)?;
        let mut names = Vec::new();
        for entry in dir.iter() {
            let entry = entry.map_err(io::Error::from)?;
            let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(PathBuf::from(name));
            }
        }
        names.sort();
        Ok(names)
    }

    /// What is at a path, links not followed.
    fn kind(&self, relative: &Path) -> Result<nix::sys::stat::SFlag, ReadError> {
        let fd = self.open_no_follow(relative)?;
        let stat = nix::sys::stat::fstat(fd.as_fd()).map_err(io::Error::from)?;
        Ok(nix::sys::stat::SFlag::from_bits_truncate(stat.st_mode) & nix::sys::stat::SFlag::S_IFMT)
    }

    fn open_no_follow(&self, relative: &Path) -> Result<OwnedFd, ReadError> {
        self.open_beneath(relative, OFlag::O_PATH | OFlag::O_NOFOLLOW)
    }

    /// Whether a link is at a path, wherever it leads.
    #[must_use]
    pub fn is_link(&self, relative: &Path) -> bool {
        self.kind(relative).is_ok_and(|kind| kind == nix::sys::stat::SFlag::S_IFLNK)
    }

    /// Reads a definition and everything in its directory, once: the bytes that are digested are the
    /// bytes handed over. The definition file counts by its content even where it is a link.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_tree(&self, directory: &Path, file: &Path) -> Result<(Vec<u8>, Vec<TreeEntry>), ReadError> {
        let content = self.read(&directory.join(file))?;
        let mut walk = Walk { root: self, entries: Vec::new(), directories: 0, total: content.len() };
        walk.entries.push(TreeEntry {
            path: file.as_os_str().as_bytes().to_vec(),
            kind: TreeKind::File { executable: false, content: content.clone() },
        });
        // One directory after the other: a tree may nest deeper than the stack of a thread.
        let mut waiting = vec![PathBuf::new()];
        while let Some(below) = waiting.pop() {
            walk.directory(directory, &below, file, &mut waiting)?;
        }
        Ok((content, walk.entries))
    }
}

struct Walk<'r> {
    root: &'r Root,
    entries: Vec<TreeEntry>,
    directories: usize,
    total: usize,
}

impl Walk<'_> {
    /// Reads what is in one directory; the directories in it are put to those that wait.
    fn directory(
        &mut self,
        base: &Path,
        below: &Path,
        definition: &Path,
        waiting: &mut Vec<PathBuf>,
    ) -> Result<(), ReadError> {
        use nix::sys::stat::SFlag;
        // Empty directories are no entries, and are counted so that they end the walk too.
        self.directories += 1;
        if self.directories > MAX_TREE_ENTRIES {
            return Err(ReadError::TreeTooLarge);
        }
        for name in self.root.names(&base.join(below))? {
            if name.as_os_str() == ".git" || name.as_os_str() == ".DS_Store" {
                continue;
            }
            let relative = below.join(&name);
            if relative == definition {
                continue;
            }
            let full = base.join(&relative);
            let kind = match self.root.kind(&full)? {
                SFlag::S_IFDIR => {
                    waiting.push(relative);
                    continue;
                }
                SFlag::S_IFLNK => {
                    let fd = self.root.open_no_follow(&full)?;
                    let target = nix::fcntl::readlinkat(fd.as_fd(), "").map_err(io::Error::from)?;
                    TreeKind::Link(target.as_bytes().to_vec())
                }
                SFlag::S_IFREG => self.file(&full)?,
                _ => return Err(ReadError::NotRegular),
            };
            if self.entries.len() >= MAX_TREE_ENTRIES {
                return Err(ReadError::TreeTooLarge);
            }
            self.entries.push(TreeEntry { path: relative.as_os_str().as_bytes().to_vec(), kind });
        }
        Ok(())
    }

    fn file(&mut self, full: &Path) -> Result<TreeKind, ReadError> {
        let (file, size) = self.root.regular(full)?;
        let left = MAX_TREE_BYTES.saturating_sub(self.total) as u64;
        if size > left {
            return Err(ReadError::TreeTooLarge);
        }
        let executable = file.metadata()?.mode() & 0o100 != 0;
        let content = bounded(file, size, left)?.ok_or(ReadError::TreeTooLarge)?;
        self.total += content.len();
        Ok(TreeKind::File { executable, content })
    }
}

/// Reads a file that the operator named: regular, at most `most` bytes, never waiting on a pipe.
///
/// # Errors
/// Where it is another kind of file, larger, or cannot be read.
pub fn read_regular(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    match bounded(file, metadata.size(), most as u64)? {
        Some(content) => Ok(content),
        None => Err(io::Error::other(format!("it is larger than {most} bytes"))),
    }
}

/// The whole content, or nothing where there is more than `most`: a file may grow after its size was
/// asked.
fn bounded(file: File, size: u64, most: u64) -> io::Result<Option<Vec<u8>>> {
    // One byte more than there should be, so that the first read finds the end.
    let mut content = Vec::with_capacity(usize::try_from(size.min(most)).unwrap_or(0) + 1);
    file.take(most + 1).read_to_end(&mut content)?;
    Ok((content.len() as u64 <= most).then_some(content))
}
