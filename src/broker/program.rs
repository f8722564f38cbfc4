//! Where the program of a runtime is.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::host;
use crate::runtime::{Find, Profile};

/// Where a program is: itself if absolute, else the first executable of that name in the directories
/// of a PATH. Never the current directory.
///
/// # Errors
/// Where none of them has it.
pub fn program(name: &str, path: &str) -> io::Result<PathBuf> {
    if name.starts_with('/') {
        return Ok(PathBuf::from(name));
    }
    path.split(':')
        .filter(|dir| dir.starts_with('/'))
        .map(|dir| Path::new(dir).join(name))
        .find(|file| is_executable(file))
        .ok_or_else(|| io::Error::new(ErrorKind::NotFound, format!("it is in none of {path}")))
}

/// Where a child's program would be found, in this PATH of the child's.
///
/// # Errors
/// Where it is not there, or no program.
pub fn locate(profile: &Profile, path: &str) -> io::Result<PathBuf> {
    let found = match &profile.find {
        Find::Itself => return host::this_binary(),
        Find::At(path) => PathBuf::from(path),
        Find::InPath(name) => program(name, path)?,
    };
    if is_executable(&found) {
        return Ok(found);
    }
    Err(io::Error::new(ErrorKind::NotFound, format!("`{}` is no program", found.display())))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0)
}
