//! A path as it is called, and where it leads: found out once, for all who ask.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// A path as it is called, and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    path: PathBuf,
    called: PathBuf,
    real: Option<PathBuf>,
    /// Whether the last part of the path may be a link.
    linked: bool,
}

impl Site {
    /// Finds out where a path leads. What is not there leads nowhere.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let real = path.canonicalize().ok();
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        // `..` after a link is not what it looks like.
        let upward = whole.components().any(|part| part == Component::ParentDir);
        let called = real.clone().filter(|_| upward).unwrap_or(whole);
        Self { path: path.to_owned(), called, real, linked: true }
    }

    /// An entry of this directory that is no link.
    #[must_use]
    pub fn entry(&self, name: &OsStr) -> Self {
        Self {
            path: self.path.join(name),
            called: self.called.join(name),
            real: self.real.as_ref().map(|real| real.join(name)),
            linked: false,
        }
    }

    /// The path as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The whole path, with its links as they are called.
    #[must_use]
    pub fn called(&self) -> &Path {
        &self.called
    }

    /// The path without links, where something is there.
    #[must_use]
    pub fn real(&self) -> Option<&Path> {
        self.real.as_deref()
    }

    /// The real path of the directory that it stands in.
    pub(super) fn directory(&self) -> PathBuf {
        match self.real.as_deref().and_then(Path::parent) {
            Some(parent) if !self.linked => parent.to_owned(),
            _ => {
                let parent = self.called.parent().unwrap_or(Path::new("/"));
                parent.canonicalize().unwrap_or_else(|_| parent.to_owned())
            }
        }
    }
}
