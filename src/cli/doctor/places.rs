//! The operator's places: policy, configuration, state and ledger. They are looked at, and nothing is
//! made or changed.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use depute_ledger::{Reader, VerifyError};
use nix::sys::statfs::{self, FsType, statfs};
use nix::unistd::{AccessFlags, access};

use crate::diagnostic::Diagnostic;
use crate::discover::trust;
use crate::exit::Exit;
use crate::host::{self, Project};
use crate::policy::Policy;

use super::{Check, State};

/// Who could change a file or directory, and its owner and mode in words.
enum Hands {
    /// This user, and root, who can change everything.
    Own(String),
    /// The file's group too.
    Group(String),
    /// Somebody else.
    Others(String),
}

fn hands(path: &Path) -> io::Result<Hands> {
    let found = path.metadata()?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    let words = format!("uid {owner}, mode {mode:04o}");
    let foreign = owner != host::uid() && owner != 0;
    // In a sticky directory nobody replaces what is another's.
    let sticky = found.is_dir() && mode & 0o1000 != 0;
    Ok(if foreign || mode & 0o002 != 0 && !sticky {
        Hands::Others(words)
    } else if mode & 0o020 != 0 && !sticky {
        Hands::Group(words)
    } else {
        Hands::Own(words)
    })
}

/// What is to be trusted, because who can change it decides.
fn trusted(name: &'static str, path: &Path) -> Check {
    let shown = path.display();
    match hands(path) {
        Ok(Hands::Own(words)) => Check::ok(name, format!("{shown}, {words}")),
        Ok(Hands::Group(words)) => Check::note(name, format!("{shown} can be changed by its group: {words}"))
            .fix(format!("chmod g-w {shown}, unless nobody else is in that group")),
        Ok(Hands::Others(words)) => {
            Check::problem(name, Exit::Internal, format!("{shown} can be changed by others: {words}"))
                .fix(format!("make it yours, and chmod go-w {shown}"))
        }
        Err(error) => Check::problem(name, Exit::Internal, format!("{shown} cannot be looked at: {error}"))
            .fix("let this user look at it"),
    }
}

/// The policy in force.
pub(super) fn policy(loaded: &Result<(Policy, String), Box<Diagnostic>>) -> Check {
    match loaded {
        Ok((_, from)) => Check::ok("policy", format!("{from}, in order")),
        Err(at) => {
            let message = format!("{} {}", at.place(), at.problem.message);
            let fix = at.problem.fix.clone().unwrap_or_else(|| "run `depute check` on it".to_owned());
            Check::problem("policy", Exit::Invalid, message).fix(fix)
        }
    }
}

/// Whether others could change the operator's policies: the named one, and those that may lock it.
pub(super) fn policy_files(named: Option<&Path>, project: &Project, checks: &mut Vec<Check>) {
    let places = [named, Some(&project.policy), Some(&project.user_policy)];
    let mut files: Vec<&Path> = places.into_iter().flatten().filter(|path| !is_absent(path)).collect();
    files.dedup();
    for file in files {
        let check = trusted("policy file", file);
        let directory = file.canonicalize().ok().and_then(|real| real.parent().map(Path::to_owned));
        let others = directory.filter(|dir| matches!(hands(dir), Ok(Hands::Others(_))));
        checks.push(match others {
            Some(directory) if check.state != State::Problem => trusted("policy file", &directory),
            Some(_) | None => check,
        });
    }
}

/// The directories of configuration and state.
pub(super) fn directories(project: &Project, checks: &mut Vec<Check>) {
    let parent = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
    let config = parent(&project.user_policy);
    checks.push(if is_absent(&config) {
        Check::note("configuration", format!("{} is not there; `depute init` makes it", config.display()))
    } else {
        trusted("configuration", &config)
    });
    let state = parent(&project.trust);
    checks.push(match writable(&state) {
        Ok(()) if is_absent(&state) => {
            Check::note("state", format!("{} is not there; the first run makes it", state.display()))
        }
        Ok(()) => trusted("state", &state),
        Err(why) => Check::problem("state", Exit::Internal, why).fix("let this user write there"),
    });
    checks.push(trust(project));
}

fn trust(project: &Project) -> Check {
    let root = project.root.display();
    match trust::doubt(&project.trust) {
        Some(doubt) => Check::problem(
            "trust",
            Exit::Internal,
            format!("{} cannot be relied on, so no directory is trusted: {doubt}", project.trust.display()),
        )
        .fix("look at it, and mend or remove it"),
        None if trust::is_trusted(&project.trust, &project.root) => {
            Check::ok("trust", format!("{root} is trusted: its definitions may be spawned"))
        }
        None => Check::note("trust", format!("{root} is not trusted: its definitions are refused"))
            .fix("read them, then run `depute trust`"),
    }
}

/// The ledger: whose it is, whether it is intact, and what keeps it.
pub(super) fn ledger(dir: &Path, project: &Project, checks: &mut Vec<Check>) {
    let there = !is_absent(dir);
    checks.push(ledger_itself(dir, there));
    let Some(kept_at) = nearest(dir) else { return };
    checks.push(file_system(&kept_at));
    let real = kept_at.canonicalize().unwrap_or(kept_at);
    if real.starts_with(&project.root) {
        checks.push(
            Check::note(
                "ledger place",
                format!("{} lies inside the workspace, where a child may reach it", dir.display()),
            )
            .fix("name a directory outside of it with `--ledger`"),
        );
    }
}

fn ledger_itself(dir: &Path, there: bool) -> Check {
    let shown = dir.display();
    let problem = |why: String| {
        Check::problem("ledger", Exit::Ledger, why)
            .fix("mend that, or name another directory with `--ledger`")
    };
    if let Err(why) = writable(dir) {
        return problem(why);
    }
    if !there {
        return Check::note("ledger", format!("{shown} is not there; the first run makes it"));
    }
    if let Some(why) = not_private(dir) {
        return problem(format!("{shown} {why}, so it is refused"));
    }
    // The newest segment alone, as a run opens it: its length does not grow with the ledger.
    let read = Reader::open_last(dir, 1).map(|mut reader| reader.find_map(Result::err));
    match read {
        Ok(None) => Check::ok("ledger", format!("{shown}, its newest lines intact")),
        Ok(Some(_)) => Check::problem("ledger", Exit::Ledger, format!("{shown} is damaged"))
            .fix("`depute ledger verify` lists the damage"),
        Err(VerifyError::Missing(_)) => {
            Check::note("ledger", format!("{shown} is empty; the first run begins it"))
        }
        Err(error) => {
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            problem(format!("{error}{}", source.unwrap_or_default()))
        }
    }
}

/// Why a directory is not plainly this user's own, as a ledger has to be.
fn not_private(dir: &Path) -> Option<String> {
    let found = match dir.symlink_metadata() {
        Ok(found) => found,
        Err(error) => return Some(format!("cannot be looked at: {error}")),
    };
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if found.is_symlink() {
        Some("is a link".to_owned())
    } else if !found.is_dir() {
        Some("is no directory".to_owned())
    } else if owner != host::uid() {
        Some(format!("belongs to uid {owner}"))
    } else {
        (mode & 0o077 != 0).then(|| format!("is open to others (mode {mode:04o})"))
    }
}

/// File systems that lose or delay what a ledger has been told is on disk, by their numbers, and others
/// that one would meet.
const FILE_SYSTEMS: [(FsType, &str, Option<&str>); 18] = [
    (statfs::EXT4_SUPER_MAGIC, "ext4", None),
    (statfs::XFS_SUPER_MAGIC, "xfs", None),
    (statfs::BTRFS_SUPER_MAGIC, "btrfs", None),
    (FsType(0xf2f5_2010), "f2fs", None),
    (FsType(0x2fc1_2fc1), "zfs", None),
    (FsType(0xca45_1a4e), "bcachefs", None),
    (statfs::OVERLAYFS_SUPER_MAGIC, "overlayfs", None),
    (statfs::TMPFS_MAGIC, "tmpfs", Some("is kept in memory alone: it is gone at the next start")),
    (FsType(0x8584_58f6), "ramfs", Some("is kept in memory alone: it is gone at the next start")),
    (statfs::NFS_SUPER_MAGIC, "nfs", Some(REMOTE)),
    (statfs::SMB_SUPER_MAGIC, "smb", Some(REMOTE)),
    (FsType(0xff53_4d42), "cifs", Some(REMOTE)),
    (FsType(0xfe53_4d42), "smb3", Some(REMOTE)),
    (statfs::CODA_SUPER_MAGIC, "coda", Some(REMOTE)),
    (statfs::AFS_SUPER_MAGIC, "afs", Some(REMOTE)),
    (FsType(0x00c3_6400), "ceph", Some(REMOTE)),
    (FsType(0x0102_1997), "9p", Some(REMOTE)),
    (statfs::FUSE_SUPER_MAGIC, "fuse", Some("is kept by a program of its own, which may be remote")),
];
const REMOTE: &str = "is kept elsewhere: what was said to be on disk may be lost, and locks may not hold";

fn file_system(place: &Path) -> Check {
    let name = "file system";
    let kind = match statfs(place) {
        Ok(found) => found.filesystem_type(),
        Err(error) => {
            let why = format!("that of {} cannot be told: {error}", place.display());
            return Check::note(name, why);
        }
    };
    match FILE_SYSTEMS.iter().find(|(known, ..)| *known == kind) {
        Some((_, shown, None)) => Check::ok(name, format!("{shown} keeps the ledger")),
        Some((_, shown, Some(doubt))) => Check::note(name, format!("the ledger, on {shown}, {doubt}"))
            .fix("name a directory on a disk of this machine with `--ledger`"),
        None => Check::note(name, format!("one of the number {:#x} keeps the ledger", kind.0)),
    }
}

fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// What is there of a path.
fn nearest(path: &Path) -> Option<PathBuf> {
    let whole = std::path::absolute(path).ok()?;
    whole.ancestors().find(|above| !is_absent(above)).map(Path::to_owned)
}

/// Whether a directory can be written, or made where it is not there.
fn writable(path: &Path) -> Result<(), String> {
    let Some(place) = nearest(path) else { return Ok(()) };
    access(&place, AccessFlags::W_OK | AccessFlags::X_OK)
        .map_err(|errno| format!("{} cannot be written: {}", place.display(), errno.desc()))
}
