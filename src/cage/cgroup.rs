//! Tier C: a control group of the node's own, below the one that this process is in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How often it is tried to remove a group.
const ROUNDS: usize = 1000;

/// A control group. When it goes out of scope, everything in it is ended, and it is removed.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes the group of a node, with at most this many processes where the kernel counts them there.
    /// Says whether it does.
    ///
    /// # Errors
    /// Where groups of version 2 are not this user's to divide.
    pub fn make(name: &str, processes: u32) -> io::Result<(Self, bool)> {
        let path = own_group()?.join(format!("depute-{name}"));
        fs::create_dir(&path)?;
        let group = Self { path };
        if !group.path.join("cgroup.kill").exists() {
            return Err(io::Error::other("the kernel cannot end a whole control group (Linux 5.14 can)"));
        }
        let counted = fs::write(group.path.join("pids.max"), processes.to_string()).is_ok();
        Ok((group, counted))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
        // What was just ended is there for a moment yet; what stays empty does no harm.
        for _ in 0..ROUNDS {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::yield_now(),
                Ok(()) | Err(_) => return,
            }
        }
    }
}

/// Moves this process into a group.
pub(super) fn join(group: &str) -> io::Result<()> {
    fs::write(Path::new(group).join("cgroup.procs"), "0")
}

/// The group of version 2 that this process is in.
fn own_group() -> io::Result<PathBuf> {
    let none = |why: &str| io::Error::other(why.to_owned());
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mount = mounts.lines().find_map(mounted_at);
    let mount = mount.ok_or_else(|| none("no control groups of version 2 are mounted"))?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let own = own.ok_or_else(|| none("this process is in no control group of version 2"))?;
    Ok(if own.is_empty() { mount } else { mount.join(own) })
}

/// The mount point in a line of `mountinfo`, where control groups of version 2 are mounted there.
fn mounted_at(line: &str) -> Option<PathBuf> {
    let (mount, file_system) = line.split_once(" - ")?;
    let is_version_2 = file_system.split(' ').next() == Some("cgroup2");
    is_version_2.then(|| mount.split(' ').nth(4).map(PathBuf::from)).flatten()
}
