//! The system calls of the attacks that no library gives a safe form. The one place with `unsafe`.

#![expect(unsafe_code, reason = "an attacker is not kept to calls that have a safe form")]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::unistd::{ForkResult, Pid};

/// An argument of a call. What is behind a pointer lives as long as the call.
pub(crate) enum Arg<'a> {
    Num(i64),
    Text(&'a CStr),
    Bytes(&'a [u8]),
    Buffer(&'a mut [u8]),
}

/// Makes a call by its number. It is used for calls that write only into what they are given, and for
/// descriptors that nothing else owns.
pub(crate) fn call(number: i64, arguments: &mut [Arg<'_>]) -> Result<i64, Errno> {
    let mut raw = [0_i64; 6];
    for (slot, argument) in raw.iter_mut().zip(arguments) {
        *slot = match argument {
            Arg::Num(number) => *number,
            Arg::Text(text) => text.as_ptr() as i64,
            Arg::Bytes(bytes) => bytes.as_ptr() as i64,
            Arg::Buffer(buffer) => buffer.as_mut_ptr() as i64,
        };
    }
    let [a, b, c, d, e, f] = raw;
    // SAFETY: pointers are to slices that live on here, each beside its length or ending by itself.
    Errno::result(unsafe { libc::syscall(number, a, b, c, d, e, f) })
}

/// Goes on as two: the child's number for the parent, nothing for the child.
pub(crate) fn fork_here() -> Result<Option<Pid>, Errno> {
    // SAFETY: the attacker has one thread, so no lock is held by one that is not there any more.
    Ok(match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Some(child),
        ForkResult::Child => None,
    })
}

/// Ends this process, and runs nothing of its parent's.
pub(crate) fn leave(code: i32) -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Runs this in a process of its own, which ends with the code that it returns.
pub(crate) fn fork(child: impl FnOnce() -> i32) -> Result<Pid, Errno> {
    match fork_here()? {
        Some(child) => Ok(child),
        None => leave(child()),
    }
}

/// Takes over a descriptor by its number.
pub(crate) fn owned(descriptor: i64) -> OwnedFd {
    // SAFETY: the caller has just been given it by the kernel.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(descriptor).unwrap_or(-1)) }
}

/// Reads the memory of another process.
pub(crate) fn memory_of(pid: i32, address: u64, len: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0_u8; len];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: len };
    // SAFETY: the local part is one buffer with its length; the remote one is only a number here.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    Errno::result(read)?;
    Ok(bytes)
}

/// Sends by a message with an address in it.
pub(crate) fn send_message(from: &OwnedFd, to: &[u8], text: &[u8], flags: i32) -> Result<(), Errno> {
    let mut part = libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
    // SAFETY: all zeroes is a valid value of this struct of pointers and integers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = to.as_ptr().cast_mut().cast();
    message.msg_namelen = u32::try_from(to.len()).unwrap_or(0);
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    // SAFETY: the address and the one part live as long as the call, which only reads them.
    Errno::result(unsafe { libc::sendmsg(from.as_raw_fd(), &raw const message, flags) }).map(drop)
}

/// A terminal: the side of who sits before it, and the side of programs.
pub(crate) fn terminal() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (mut master, mut slave) = (0, 0);
    let null = std::ptr::null_mut();
    // SAFETY: two numbers are written, and what may be left out is null.
    let made = unsafe { libc::openpty(&raw mut master, &raw mut slave, null, null.cast(), null.cast()) };
    Errno::result(made)?;
    Ok((owned(i64::from(master)), owned(i64::from(slave))))
}

/// Has a command lead a session of its own whose terminal is its standard input.
pub(crate) fn on_its_terminal(command: &mut Command) {
    // SAFETY: only calls that may be made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
}

/// Makes a TCP connection and sends, all by the calls that programs of 32 bits make.
#[cfg(target_arch = "x86_64")]
pub(crate) fn send_by_32_bits(port: u16, text: &[u8]) -> Result<(), Errno> {
    const SOCKETCALL: u32 = 102;
    const ARGUMENTS: usize = 0;
    const ADDRESS: usize = 64;
    const TEXT: usize = 128;
    // SAFETY: a new mapping; such calls cannot name memory above 4 GiB.
    let low = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT,
            -1,
            0,
        )
    };
    if low == libc::MAP_FAILED {
        return Err(Errno::last());
    }
    let low: *mut u8 = low.cast();
    let put = |at: usize, bytes: &[u8]| {
        // SAFETY: all places and lengths used here are within the page that was just mapped.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), low.add(at), bytes.len()) };
    };
    let at = |offset: usize| low as u32 + offset as u32;
    let socketcall = |which: u32, arguments: [u32; 4]| {
        put(ARGUMENTS, &arguments.map(u32::to_ne_bytes).concat());
        let mut answer = SOCKETCALL;
        // SAFETY: a call that reads the page above; the register that the compiler keeps is put back.
        unsafe {
            std::arch::asm!(
                "xchg {first:r}, rbx",
                "int 0x80",
                "xchg {first:r}, rbx",
                first = inout(reg) u64::from(which) => _,
                inout("eax") answer,
                in("ecx") at(ARGUMENTS),
                in("edx") 0,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
        }
        let answer = answer.cast_signed();
        if answer < 0 { Err(Errno::from_raw(-answer)) } else { Ok(answer.cast_unsigned()) }
    };
    let mut address = vec![2, 0];
    address.extend(port.to_be_bytes());
    address.extend([127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    put(ADDRESS, &address);
    let text = text.get(..text.len().min(256)).unwrap_or_default();
    put(TEXT, text);
    let socket = socketcall(1, [2, 1, 0, 0])?;
    socketcall(3, [socket, at(ADDRESS), 16, 0])?;
    socketcall(9, [socket, at(TEXT), text.len() as u32, 0])?;
    Ok(())
}

/// Other architectures number the calls of 32 bits in their own ways.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn send_by_32_bits(_port: u16, _text: &[u8]) -> Result<(), Errno> {
    Err(Errno::ENOSYS)
}
