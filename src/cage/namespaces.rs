//! Tier N: name spaces of the node's own, in which there is nothing but what its spec names.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, chdir, pivot_root};

use crate::kernel_spec::{Access, KernelSpec, Place};

use super::landlock::{open, open_directory};
use super::sys::{self, Flag};
use super::wire::Failure;

/// The feature's name, as refusals give it.
const FEATURE: &str = "namespaces";

/// What a node's git directory runs or is told to run: read, and never written.
const READ_ONLY_GIT: [&str; 2] = ["hooks", "config"];

/// Moves this process, the only thread, into name spaces of its own. What it starts next is the first
/// process of the new process space. The network there leads back to itself where somebody `connects`, and
/// nowhere else.
pub(super) fn leave(connects: bool) -> Result<(), Failure> {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        let hint = if switched_off("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
            "; AppArmor narrows them here: set `kernel.apparmor_restrict_unprivileged_userns` to 0"
        } else if switched_off("/proc/sys/kernel/unprivileged_userns_clone", "0") {
            "; they are for root alone here: set `kernel.unprivileged_userns_clone` to 1"
        } else if switched_off("/proc/sys/user/max_user_namespaces", "0") {
            "; they are switched off here: raise `user.max_user_namespaces`"
        } else {
            ""
        };
        Failure::feature(FEATURE, format!("{what}: {error}{hint}"))
    };
    unshare(
        CloneFlags::CLONE_NEWUSER
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWIPC,
    )
    .map_err(|error| failed("they cannot be made", &error))?;
    let map = |file: &str, text: &str| {
        fs::write(file, text).map_err(|error| failed("this user cannot be mapped", &error))
    };
    map("/proc/self/setgroups", "deny")?;
    map("/proc/self/uid_map", &format!("{uid} {uid} 1"))?;
    map("/proc/self/gid_map", &format!("{gid} {gid} 1"))?;
    if connects {
        sys::loopback_up().map_err(|error| failed("the network of its own cannot be brought up", &error))?;
    }
    // Who enters mounts, and needs no more.
    sys::keep_mounting().map_err(|error| failed("mounting cannot be handed on", &error))
}

fn switched_off(file: &str, value: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.trim_end() == value)
}

/// One place, ready to be put into the new root.
struct Tree {
    at: PathBuf,
    tree: OwnedFd,
    is_directory: bool,
}

/// Makes a root in which there is nothing but the places of the spec, and moves into it.
pub(super) fn enclose(spec: &KernelSpec) -> Result<(), Failure> {
    let failed = |what: String| move |error: Errno| Failure::feature(FEATURE, format!("{what}: {error}"));
    let no_path: Option<&CStr> = None;
    unshare(CloneFlags::CLONE_NEWNS).map_err(failed("mounts of its own cannot be had".to_owned()))?;
    mount(no_path, "/", no_path, MsFlags::MS_REC | MsFlags::MS_PRIVATE, no_path)
        .map_err(failed("mounts cannot be made private".to_owned()))?;

    let (mut trees, mut links) = (Vec::new(), Vec::new());
    let workspace = open_directory(Path::new(&spec.workspace))
        .map_err(|error| Failure::other(format!("the workspace cannot be opened: {error}")))?;
    let places = spec.paths.iter().map(|rule| {
        // A place within a wider one is as wide, as it is to the other fence.
        (rule.place.clone(), spec.access_at(&spec.path_of(&rule.place)))
    });
    for (place, access) in places.chain(git(spec)?) {
        let at = PathBuf::from(spec.path_of(&place));
        if at == Path::new("/proc") {
            continue;
        }
        if let Place::System(path) = &place
            && let Ok(target) = fs::read_link(path)
        {
            links.push((at, target));
            continue;
        }
        let Some(opened) = open(spec, &place, &workspace)? else { continue };
        let is_directory = opened.metadata().map_err(Failure::other)?.is_dir();
        let tree = sys::clone_tree(opened.as_fd()).map_err(failed(format!("`{}`", at.display())))?;
        sys::set_flags(tree.as_fd(), &flags(access, at.starts_with("/dev")))
            .map_err(failed(format!("`{}` cannot be narrowed", at.display())))?;
        trees.push(Tree { at, tree, is_directory });
    }
    drop(workspace);
    // Parents first, and what was added of git after the spec's own.
    trees.sort_by_key(|tree| tree.at.components().count());

    let root = PathBuf::from(&spec.private);
    mount(Some("tmpfs"), &root, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=0755"))
        .map_err(failed("a root of its own cannot be mounted".to_owned()))?;
    let io = |what: &Path, error: io::Error| {
        Failure::feature(FEATURE, format!("`{}` cannot be made in its root: {error}", what.display()))
    };
    for Tree { at, tree, is_directory } in &trees {
        let place = beneath(&root, at);
        make_place(&place, *is_directory).map_err(|error| io(at, error))?;
        sys::move_tree(tree.as_fd(), &place)
            .map_err(failed(format!("`{}` cannot be mounted", at.display())))?;
    }
    drop(trees);
    links.extend(
        [("/dev/fd", "/proc/self/fd"), ("/dev/stdin", "/proc/self/fd/0")]
            .into_iter()
            .chain([("/dev/stdout", "/proc/self/fd/1"), ("/dev/stderr", "/proc/self/fd/2")])
            .map(|(at, target)| (PathBuf::from(at), PathBuf::from(target))),
    );
    for (at, target) in links {
        let place = beneath(&root, &at);
        if place.symlink_metadata().is_err() {
            make_place(place.parent().unwrap_or(&root), true).map_err(|error| io(&at, error))?;
            symlink(&target, &place).map_err(|error| io(&at, error))?;
        }
    }
    // Also where nothing of it may be reached: it is where the program starts.
    make_place(&beneath(&root, Path::new(&spec.workspace)), true)
        .map_err(|error| io(Path::new(&spec.workspace), error))?;
    let proc = beneath(&root, Path::new("/proc"));
    make_place(&proc, true).map_err(|error| io(Path::new("/proc"), error))?;
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), &proc, Some("proc"), quiet, no_path)
        .map_err(failed("its own `/proc` cannot be mounted".to_owned()))?;

    let moved = "its root cannot be moved into";
    chdir(&root).map_err(failed(moved.to_owned()))?;
    pivot_root(".", ".").map_err(failed(moved.to_owned()))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(failed("the old root stays".to_owned()))?;
    chdir("/").map_err(failed(moved.to_owned()))?;
    let own = File::open("/").map_err(|error| Failure::feature(FEATURE, error))?;
    sys::set_flags_here(own.as_fd(), &[Flag::ReadOnly])
        .map_err(failed("its root cannot be made read-only".to_owned()))?;
    chdir(Path::new(&spec.workspace)).map_err(failed("its workspace cannot be entered".to_owned()))?;
    Ok(())
}

/// The mounts of a writable workspace that keep its git directory where it is, and from running what the
/// node wrote: the directory itself, so that it cannot be moved away, and what git runs.
fn git(spec: &KernelSpec) -> Result<Vec<(Place, Access)>, Failure> {
    let access = spec.access_at(&spec.workspace);
    let directory = Path::new(&spec.workspace).join(".git");
    if !access.write {
        return Ok(Vec::new());
    }
    let Ok(found) = directory.symlink_metadata() else { return Ok(Vec::new()) };
    if !found.is_dir() {
        return Ok(vec![(Place::Workspace(".git".to_owned()), Access::READ)]);
    }
    let hooks = directory.join("hooks");
    if hooks.symlink_metadata().is_err() {
        fs::DirBuilder::new().mode(0o755).create(&hooks).map_err(|error| {
            Failure::other(format!(
                "`{}` cannot be made, and so not kept read-only: {error}",
                hooks.display()
            ))
        })?;
    }
    let kept = READ_ONLY_GIT.into_iter().filter(|name| directory.join(name).symlink_metadata().is_ok());
    let kept = kept.map(|name| (Place::Workspace(format!(".git/{name}")), Access::READ));
    Ok(std::iter::once((Place::Workspace(".git".to_owned()), access)).chain(kept).collect())
}

/// What a mount of this access may not be used for.
fn flags(access: Access, is_device: bool) -> Vec<Flag> {
    let mut flags = vec![Flag::NoSetuid];
    if !is_device {
        flags.push(Flag::NoDevices);
    }
    // Devices are written all the same, and stay as they are.
    if !access.write || is_device {
        flags.push(Flag::ReadOnly);
    }
    if !access.execute {
        flags.push(Flag::NoExecute);
    }
    flags
}

/// An absolute path, below another root.
fn beneath(root: &Path, path: &Path) -> PathBuf {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    parts.fold(root.to_owned(), |path, part| path.join(part))
}

/// Makes a directory or an empty file to mount on, where there is none.
fn make_place(at: &Path, is_directory: bool) -> io::Result<()> {
    if at.symlink_metadata().is_ok() {
        return Ok(());
    }
    let directory = if is_directory { Some(at) } else { at.parent() };
    if let Some(directory) = directory {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    }
    if !is_directory {
        File::create_new(at)?;
    }
    Ok(())
}
