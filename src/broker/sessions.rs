//! What sessions leave on disk: an answer a node, and what a crash left behind.
//!
//! A session's directory is named by its id, which holds the time of its start. While the session
//! lives it holds a lock on the file `lock` there; the kernel gives the lock back when it dies.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// The answer of a node, beside its private directory: the child is told of no path above it.
pub(super) fn answer(private: &Path) -> PathBuf {
    private.with_extension("answer")
}

/// A session's directory, locked for as long as this value lives.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) path: PathBuf,
    _lock: File,
}

impl Home {
    /// Makes and locks the directory of a new session.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub(super) fn make(sessions: &Path, id: Uuid) -> io::Result<Self> {
        let path = sessions.join(id.to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path.join("lock"))?;
        lock.lock()?;
        Ok(Self { path, _lock: lock })
    }

    /// Leaves nothing behind where no node left anything.
    pub(super) fn close(self) {
        let _ = std::fs::remove_file(self.path.join("lock"));
        // It fails where an answer is there, which is what should stay.
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// A stored answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whose it is.
    pub node: Uuid,
    /// Where it is kept.
    pub path: PathBuf,
}

/// Every stored answer of these sessions, the oldest node first.
///
/// # Errors
/// Where the directories cannot be read. That there are none is no error.
pub fn answers(sessions: &Path) -> io::Result<Vec<Answer>> {
    let mut answers = Vec::new();
    for (_, directory) in by_id(sessions)? {
        for (node, path) in by_id(&directory)? {
            if path.extension().is_some_and(|extension| extension == "answer") {
                answers.push(Answer { node, path });
            }
        }
    }
    answers.sort_by_key(|answer| answer.node);
    Ok(answers)
}

/// Something that nobody needs any more.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Garbage {
    /// What it is.
    pub what: Waste,
    /// Where it is.
    pub path: PathBuf,
    /// How many bytes its files hold.
    pub bytes: u64,
}

/// A kind of garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Waste {
    /// An answer older than what is kept.
    Answer,
    /// A node's private directory, whose session has died.
    Private,
    /// A session's directory in which nothing is left.
    Session,
}

/// Removes what dead sessions left behind: private directories at once, answers of sessions begun
/// before this time. With `pretend` nothing is removed. What cannot be told from something else is
/// left alone.
///
/// # Errors
/// Where a directory cannot be read or something cannot be removed.
pub fn collect(sessions: &Path, before_ms: u64, pretend: bool) -> io::Result<Vec<Garbage>> {
    let mut garbage = Vec::new();
    for (id, directory) in by_id(sessions)? {
        let old = started_ms(id).is_some_and(|ms| ms < before_ms);
        // Held until the directory is done with, so that nobody else collects it meanwhile.
        let lock = match File::open(directory.join("lock")) {
            Ok(lock) => match lock.try_lock() {
                Ok(()) => Some(lock),
                Err(_) => continue,
            },
            // It is just being made, or was closed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut left = 0_usize;
        for (_, path) in by_id(&directory)? {
            let is_answer = path.extension().is_some_and(|extension| extension == "answer");
            let is_private = path.extension().is_none() && (lock.is_some() || old);
            let what = match (is_answer, is_private) {
                (true, _) if old => Waste::Answer,
                (false, true) => Waste::Private,
                _ => {
                    left += 1;
                    continue;
                }
            };
            garbage.push(Garbage { what, bytes: size(&path)?, path: path.clone() });
            if !pretend {
                remove(&path)?;
            }
        }
        if left == 0 && (lock.is_some() || old) {
            garbage.push(Garbage { what: Waste::Session, bytes: size(&directory)?, path: directory.clone() });
            if !pretend {
                std::fs::remove_dir_all(&directory)?;
            }
        }
    }
    Ok(garbage)
}

/// The entries of a directory whose name is an id, perhaps with an extension.
fn by_id(directory: &Path) -> io::Result<Vec<(Uuid, PathBuf)>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let id = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| Uuid::try_parse(stem).ok());
        found.extend(id.map(|id| (id, path)));
    }
    found.sort();
    Ok(found)
}

/// When the session of this id began, in milliseconds since 1970.
fn started_ms(id: Uuid) -> Option<u64> {
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    seconds.checked_mul(1000)?.checked_add(u64::from(nanos / 1_000_000))
}

/// The bytes of all files at and below a path; links are not followed.
fn size(path: &Path) -> io::Result<u64> {
    let metadata = path.symlink_metadata()?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    std::fs::read_dir(path)?.try_fold(0_u64, |sum, entry| Ok(sum.saturating_add(size(&entry?.path())?)))
}

fn remove(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
}
