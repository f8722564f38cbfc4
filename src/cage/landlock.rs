//! Landlock: which places can be reached, which ports, and whom a signal reaches.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};

use crate::kernel_spec::{Access, KernelSpec, Place};

use super::machine::LANDLOCK_K;
use super::wire::Failure;

/// The rights of this interface version, by name and never by "all known".
fn version(abi: u32) -> ABI {
    match abi {
        0..=2 => ABI::Unsupported,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => ABI::V6,
    }
}

/// A rule set with hard requirements: what the kernel cannot hold is an error.
fn rule_set() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

/// Confines signals and abstract sockets of this process and of all that it starts to themselves, and no
/// file: what may be written may still be moved, which every rule set denies that does not say otherwise.
pub(super) fn confine_signals(spec: &KernelSpec) -> Result<(), Failure> {
    let missing = |error| Failure::feature("landlock.scope", error);
    let set = rule_set().handle_access(AccessFs::Refer).map_err(missing)?;
    let set = set.scope(Scope::Signal | Scope::AbstractUnixSocket).map_err(missing)?;
    let mut created = set.create().map_err(missing)?;
    let workspace = open_workspace(spec)?;
    for rule in spec.paths.iter().filter(|rule| rule.access.write) {
        if let Some(place) = open(spec, &rule.place, &workspace)?
            && place.metadata().map_err(Failure::other)?.is_dir()
        {
            created = created.add_rule(PathBeneath::new(&place, AccessFs::Refer)).map_err(missing)?;
        }
    }
    created.restrict_self().map(drop).map_err(missing)
}

fn open_workspace(spec: &KernelSpec) -> Result<File, Failure> {
    open_directory(Path::new(&spec.workspace)).map_err(|error| {
        Failure::other(format!("the workspace `{}` cannot be opened: {error}", spec.workspace))
    })
}

/// The rules of a node, ready to be put in force.
pub(super) struct Rules {
    created: RulesetCreated,
}

impl Rules {
    /// Opens every place of the spec and makes the rules.
    pub(super) fn make(spec: &KernelSpec, abi: u32) -> Result<Self, Failure> {
        let abi_rights = version(abi);
        let missing = |error| Failure::feature("landlock", error);
        let mut set = rule_set().handle_access(AccessFs::from_all(abi_rights)).map_err(missing)?;
        if abi >= 4 {
            set = set
                .handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)
                .map_err(|error| Failure::feature("landlock.network", error))?;
        }
        if abi >= LANDLOCK_K {
            set = set
                .scope(Scope::Signal | Scope::AbstractUnixSocket)
                .map_err(|error| Failure::feature("landlock.scope", error))?;
        }
        let mut created = set.create().map_err(missing)?;
        let workspace = open_workspace(spec)?;
        for rule in &spec.paths {
            let Some(place) = open(spec, &rule.place, &workspace)? else { continue };
            let is_file = !place.metadata().map_err(Failure::other)?.is_dir();
            let mut rights = rights(rule.access) & AccessFs::from_all(abi_rights);
            if is_file {
                rights &= AccessFs::from_file(abi_rights);
            }
            if rights.is_empty() {
                continue;
            }
            created = created.add_rule(PathBeneath::new(&place, rights)).map_err(missing)?;
        }
        Ok(Self { created })
    }

    /// Puts them in force, for good.
    pub(super) fn restrict(self) -> Result<(), Failure> {
        let status = self.created.restrict_self().map_err(|error| Failure::feature("landlock", error))?;
        if status.no_new_privs { Ok(()) } else { Err(Failure::feature("no_new_privs", "is not in force")) }
    }
}

/// What an access means to the kernel. Device files and sockets are never made.
fn rights(access: Access) -> BitFlags<AccessFs> {
    let mut rights = BitFlags::EMPTY;
    if access.read {
        rights |= AccessFs::ReadFile | AccessFs::ReadDir;
    }
    if access.execute {
        rights |= AccessFs::Execute;
    }
    if access.write {
        rights |= AccessFs::WriteFile
            | AccessFs::Truncate
            | AccessFs::MakeReg
            | AccessFs::MakeDir
            | AccessFs::MakeSym
            | AccessFs::MakeFifo
            | AccessFs::RemoveFile
            | AccessFs::RemoveDir
            | AccessFs::Refer;
    }
    rights
}

/// Opens a place without reading it; nothing for a place of the system that this machine has not.
pub(super) fn open(spec: &KernelSpec, place: &Place, workspace: &File) -> Result<Option<File>, Failure> {
    match place {
        Place::System(path) => match open_at(path, 0) {
            Ok(file) => Ok(Some(file)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(error) => Err(Failure::other(format!("`{path}` cannot be opened: {error}"))),
        },
        Place::Operator(path) => {
            // What is beneath the workspace, a node may have made a link.
            let opened = match path.strip_prefix(&format!("{}/", spec.workspace)) {
                Some(below) => open_beneath(workspace, below),
                None => open_at(path, 0),
            };
            opened.map(Some).map_err(|error| {
                Failure::other(format!(
                    "`{path}`, which the policy's `paths` or the runtime's profile names, cannot be opened: {error}"
                ))
            })
        }
        Place::Node(path) => open_at(path, libc::O_NOFOLLOW)
            .map(Some)
            .map_err(|error| Failure::other(format!("the node's `{path}` cannot be opened: {error}"))),
        Place::Workspace(below) => open_beneath(workspace, below).map(Some).map_err(|error| {
            Failure::other(format!("`{below}` beneath the workspace cannot be opened: {error}"))
        }),
    }
}

/// What is at a place beneath a workspace, looked up as the cage does: through no link.
///
/// # Errors
/// `ELOOP` where it is a link or lies behind one, and what the system says else.
pub fn look(workspace: &Path, below: &str) -> io::Result<Metadata> {
    open_beneath(&open_directory(workspace)?, below)?.metadata()
}

fn open_at(path: &str, flags: i32) -> io::Result<File> {
    std::fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH | flags).open(path)
}

/// Opens a directory by its real path: where a part of it has become a link, it is another one.
pub(super) fn open_directory(path: &Path) -> io::Result<File> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC);
    let how = how.resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    Ok(File::from(openat2(nix::fcntl::AT_FDCWD, path, how)?))
}

/// Opens beneath a directory, through no link. The empty path is the directory.
fn open_beneath(directory: &File, below: &str) -> io::Result<File> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW).resolve(
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS,
    );
    let below = if below.is_empty() { "." } else { below };
    let opened: OwnedFd = openat2(directory, below, how)?;
    let file = File::from(opened);
    if file.metadata()?.file_type().is_symlink() {
        return Err(Errno::ELOOP.into());
    }
    Ok(file)
}
