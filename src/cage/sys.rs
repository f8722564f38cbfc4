//! The calls to the kernel that no library gives a safe form. The one place with `unsafe`.

#![expect(unsafe_code, reason = "these system calls have no safe form in the libraries used")]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use nix::NixPath;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, socket};
use nix::unistd::{ForkResult, Pid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The version of Landlock's interface here.
///
/// # Errors
/// `ENOSYS` where the kernel has none, `EOPNOTSUPP` where it is switched off.
pub(super) fn landlock_abi() -> nix::Result<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no attributes, reads no memory and returns a number.
    let abi = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    u32::try_from(abi).map_err(|_| Errno::last())
}

/// Receives one packet and at most one descriptor. Nothing of a packet is cut off quietly.
pub(super) fn receive(from: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = nix::cmsg_space!([i32; 1]);
    let (len, flags, descriptors) = loop {
        let mut parts = [IoSliceMut::new(into)];
        match recvmsg::<()>(from.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(message) => {
                let mut descriptors = Vec::new();
                for control in message.cmsgs()? {
                    if let ControlMessageOwned::ScmRights(raw) = control {
                        // SAFETY: the kernel has just made these for this process, and nobody else
                        // knows them.
                        descriptors.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
                    }
                }
                break (message.bytes, message.flags, descriptors);
            }
        }
    };
    if flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
        return Err(io::Error::other("a message is longer than any that is sent"));
    }
    Ok((len, descriptors.into_iter().next()))
}

/// Has every descriptor from this one on closed by the next program.
pub(super) fn close_on_exec(first: u32) -> nix::Result<()> {
    const CLOEXEC: libc::c_uint = 4;
    // SAFETY: numbers alone; descriptors stay open, so nothing that owns one is surprised.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, CLOEXEC) };
    Errno::result(done).map(drop)
}

/// A copy of this process, which has one thread: its number, and nothing in the copy.
pub(super) fn fork() -> nix::Result<Option<Pid>> {
    // SAFETY: there is no other thread that could hold a lock of which the copy would wait for ever.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Some(child)),
        ForkResult::Child => Ok(None),
    }
}

/// Gives up every capability, and what a program could gain new ones from.
pub(super) fn drop_capabilities() -> nix::Result<()> {
    drop_bound();
    set_capabilities([0; 6])
}

/// Gives up what a program could gain capabilities from.
fn drop_bound() {
    // SAFETY: numbers alone. Capabilities end where the kernel says that there is no such one.
    unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        for capability in 0..64 {
            // Who may not lower the bound has none that it bounds, or has lowered it.
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 {
                break;
            }
        }
    }
}

/// The version of the interface to capabilities that has two words for each of three sets.
#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// This process.
fn own() -> Header {
    Header { version: 0x2008_0522, pid: 0 }
}

/// Sets the low words of effective, permitted and inheritable capabilities, then the high ones.
fn set_capabilities(sets: [u32; 6]) -> nix::Result<()> {
    let mut header = own();
    // SAFETY: the header and as many words as its version has.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) };
    Errno::result(done).map(drop)
}

/// Whether this process holds any capability.
pub(super) fn holds_capabilities() -> nix::Result<bool> {
    let (mut header, mut sets) = (own(), [0_u32; 6]);
    // SAFETY: as many words are written as the header's version has, and there is room for them.
    let done = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    Errno::result(done)?;
    Ok(sets.iter().any(|word| *word != 0))
}

/// Whether this process is under a filter of system calls.
pub(super) fn is_filtered() -> bool {
    // SAFETY: asks for a number; with the mode `strict` this process would not be here to ask.
    let mode = unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    mode == 2
}

/// Puts this thread, the only one, under a filter. With `asks`, returns the descriptor where the calls
/// wait that the filter hands over.
pub(super) fn load_filter(program: &[libc::sock_filter], asks: bool) -> nix::Result<Option<OwnedFd>> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::E2BIG)?,
        filter: program.as_ptr().cast_mut(),
    };
    // A call that was received is not begun again where a signal comes, which would be a second one.
    let flags = match asks {
        true => libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
        false => 0,
    };
    // SAFETY: the program is valid for the length of the call, which copies it and writes nothing.
    let done =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    let done = Errno::result(done)?;
    if !asks {
        return Ok(None);
    }
    let descriptor = i32::try_from(done).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made it for this process, and nobody else knows it.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

/// A call that waits for an answer. Nothing of it is in memory that could change meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    id: u64,
    /// Which one.
    pub(super) number: libc::c_long,
    /// Its arguments as they were in the registers.
    pub(super) arguments: [u64; 6],
}

/// The next call that waits.
pub(super) fn waiting_call(asked: BorrowedFd<'_>) -> nix::Result<Call> {
    // SAFETY: all zeroes is a valid value of this struct of integers, and what the kernel asks for.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one such struct.
    let done = unsafe { libc::ioctl(asked.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
    Errno::result(done)?;
    Ok(Call { id: call.id, number: libc::c_long::from(call.data.nr), arguments: call.data.args })
}

/// Lets a waiting call go on, or fails it.
pub(super) fn answer_call(asked: BorrowedFd<'_>, call: Call, answer: Result<(), Errno>) -> nix::Result<()> {
    let id = call.id;
    let (error, flags) = match answer {
        Ok(()) => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE),
        Err(errno) => (-(errno as i32), 0),
    };
    let flags = u32::try_from(flags).map_err(|_| Errno::EINVAL)?;
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error, flags };
    // SAFETY: the kernel reads one such struct.
    let done = unsafe { libc::ioctl(asked.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    Errno::result(done).map(drop)
}

/// Answers a waiting call with a descriptor, which its process has then too.
pub(super) fn hand_over(
    asked: BorrowedFd<'_>,
    call: Call,
    descriptor: BorrowedFd<'_>,
    close_on_exec: bool,
) -> nix::Result<()> {
    let source = u32::try_from(descriptor.as_raw_fd()).map_err(|_| Errno::EBADF)?;
    let flags = u32::try_from(libc::SECCOMP_ADDFD_FLAG_SEND).map_err(|_| Errno::EINVAL)?;
    let newfd_flags = if close_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 };
    let added = libc::seccomp_notif_addfd { id: call.id, flags, srcfd: source, newfd: 0, newfd_flags };
    // SAFETY: the kernel reads one such struct.
    let done = unsafe { libc::ioctl(asked.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const added) };
    Errno::result(done).map(drop)
}

/// What a mount may not be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flag {
    ReadOnly,
    NoSetuid,
    NoDevices,
    NoExecute,
}

/// A copy of all that is mounted at and below a place, mounted nowhere yet.
pub(super) fn clone_tree(place: BorrowedFd<'_>) -> nix::Result<OwnedFd> {
    const CLONE: libc::c_uint = 1;
    let flags = CLONE
        | libc::O_CLOEXEC.unsigned_abs()
        | libc::AT_EMPTY_PATH.unsigned_abs()
        | libc::AT_RECURSIVE.unsigned_abs();
    // SAFETY: the path is empty and ends; the rest is numbers.
    let tree = unsafe { libc::syscall(libc::SYS_open_tree, place.as_raw_fd(), c"".as_ptr(), flags) };
    let tree = i32::try_from(Errno::result(tree)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made it for this process, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(tree) })
}

/// Narrows a mount and all below it. What they are narrowed by already stays.
pub(super) fn set_flags(tree: BorrowedFd<'_>, flags: &[Flag]) -> nix::Result<()> {
    mount_setattr(tree, flags, libc::AT_RECURSIVE.unsigned_abs())
}

/// Narrows a mount, and nothing that is mounted below it.
pub(super) fn set_flags_here(mount: BorrowedFd<'_>, flags: &[Flag]) -> nix::Result<()> {
    mount_setattr(mount, flags, 0)
}

fn mount_setattr(tree: BorrowedFd<'_>, flags: &[Flag], how: libc::c_uint) -> nix::Result<()> {
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let bit = |flag: &Flag| match flag {
        Flag::ReadOnly => 1,
        Flag::NoSetuid => 2,
        Flag::NoDevices => 4,
        Flag::NoExecute => 8,
    };
    let set = flags.iter().map(bit).fold(0, |all, bit| all | bit);
    let attributes = Attributes { set, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: the path is empty and ends, and the kernel reads as many bytes as the struct has.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH.unsigned_abs() | how,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    Errno::result(done).map(drop)
}

/// Mounts a copy at a place.
pub(super) fn move_tree(tree: BorrowedFd<'_>, at: &Path) -> nix::Result<()> {
    const FROM_EMPTY: libc::c_uint = 4;
    at.with_nix_path(|at| {
        // SAFETY: both paths end, and nothing is written.
        let done = unsafe {
            libc::syscall(
                libc::SYS_move_mount,
                tree.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_FDCWD,
                at.as_ptr(),
                FROM_EMPTY,
            )
        };
        Errno::result(done).map(drop)
    })?
}

/// Brings up the loop-back device of this network.
pub(super) fn loopback_up() -> nix::Result<()> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: all zeroes is a valid value of this struct of bytes and integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(*b"lo") {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).map_err(|_| Errno::EINVAL)?;
    // SAFETY: the kernel reads one such struct.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    Errno::result(done).map(drop)
}

/// Gives up every capability but the one to mount.
pub(super) fn keep_mounting() -> nix::Result<()> {
    const SYS_ADMIN: u32 = 21;
    let word = 1_u32 << SYS_ADMIN;
    drop_bound();
    set_capabilities([word, word, 0, 0, 0, 0])
}

/// A descriptor that the asynchronous loop waits for.
pub(super) fn awaited(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: it owns the descriptor, and nobody replaces it.
    let awaited = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    Ok(awaited?)
}
