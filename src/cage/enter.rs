//! The last moment before a node's program: the cage closes, is tried from inside, and the program runs.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::{get_no_new_privs, set_dumpable, set_no_new_privs, set_pdeathsig};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, execve, getppid, setsid};

use crate::exit::Exit;
use crate::kernel_spec::{Access, KernelSpec, Network, Programs};
use crate::runtime::Tier;

use super::guard::{ALL, ended_children, nothing};
use super::landlock::Rules;
use super::wire::{self, End, Failure, FromEnter, Observed, Start, ToGuard};
use super::{namespaces, seccomp, sys};

/// What becomes the program of a node.
pub(super) struct Entering {
    pub(super) start: Start,
    /// The program's standard input.
    pub(super) stdin: OwnedFd,
    /// The line to the guard.
    pub(super) line: OwnedFd,
}

/// Closes the cage around this process, a copy of the guard, and becomes the program.
pub(super) fn enter(Entering { start, stdin, line }: Entering) -> Exit {
    match become_the_program(&start, stdin, &line) {
        // The guard is gone, and whom it was for with it.
        Ok(()) => Exit::Internal,
        Err(failure) => {
            let _ = wire::send(&line, &FromEnter::Failed(failure), &[]);
            Exit::LaunchFailed
        }
    }
}

fn become_the_program(start: &Start, stdin: OwnedFd, line: &OwnedFd) -> Result<(), Failure> {
    set_pdeathsig(Signal::SIGKILL).map_err(Failure::other)?;
    setsid().map_err(Failure::other)?;
    dup2_stdin(&stdin).map_err(Failure::other)?;
    drop(stdin);
    // Not 0, at which a program of the system that takes dumps is still started.
    setrlimit(Resource::RLIMIT_CORE, 1, 1).map_err(Failure::other)?;
    sys::close_on_exec(3).map_err(|error| Failure::feature("close_range", error))?;
    let observed = if start.spec.tier == Tier::Zero { Observed::default() } else { close(start, line)? };
    wire::send(line, &FromEnter::Ready(observed), &[]).map_err(Failure::other)?;
    let Some((ToGuard::Go, _)) = wire::receive(line).map_err(Failure::other)? else { return Ok(()) };
    let mut program = Command::new(&start.program);
    if let Some((name, arguments)) = start.argv.split_first() {
        program.arg0(name).args(arguments);
    }
    if start.spec.tier >= Tier::N {
        return attend(program, line).map_err(|error| Failure::other(cannot_start(start, &error)));
    }
    let error = program.exec();
    Err(Failure::other(cannot_start(start, &error)))
}

/// Starts the program, and stays as the first process of its space: what nobody waits for comes to it,
/// and all of the space ends with it. It ends all when the program has ended, or when the guard says so.
fn attend(mut program: Command, line: &OwnedFd) -> io::Result<()> {
    set_dumpable(false)?;
    let nothing = nothing()?;
    let child = i32::try_from(program.spawn()?.id()).map_err(io::Error::other)?;
    // Only the program holds the pipes to the broker.
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    let child = Pid::from_raw(child);
    let ended_children = ended_children()?;
    let mut end = None;
    while end.is_none() {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {
                let mut sources = [
                    PollFd::new(line.as_fd(), PollFlags::POLLIN),
                    PollFd::new(ended_children.as_fd(), PollFlags::POLLIN),
                ];
                let _ = poll(&mut sources, PollTimeout::NONE);
                let [from_guard, _] = &sources;
                if from_guard.any().unwrap_or(true) {
                    match wire::receive(line) {
                        Ok(Some((ToGuard::Terminate, _))) => drop(kill(ALL, Signal::SIGTERM)),
                        // Told to end all, or without a guard.
                        Ok(_) | Err(_) => break,
                    }
                }
                while let Ok(Some(_)) = ended_children.read_signal() {}
            }
            Ok(status) => end = end_of(child, status),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut outlived = 0;
    loop {
        let _ = kill(ALL, Signal::SIGKILL);
        match waitpid(None, None) {
            Err(Errno::ECHILD) => break,
            Ok(status @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..))) => match end_of(child, status) {
                Some(own) => end = Some(own),
                None => outlived += 1,
            },
            Ok(_) | Err(_) => {}
        }
    }
    let end = end.unwrap_or(End::Signalled(Signal::SIGKILL as i32));
    wire::send(line, &FromEnter::Exited { end, outlived }, &[])
}

/// How a process ended, where this status says that it did.
pub(super) fn end_of(process: Pid, status: WaitStatus) -> Option<End> {
    match status {
        WaitStatus::Exited(pid, code) if pid == process => Some(End::Exited(code)),
        WaitStatus::Signaled(pid, signal, _) if pid == process => Some(End::Signalled(signal as i32)),
        WaitStatus::Exited(..)
        | WaitStatus::Signaled(..)
        | WaitStatus::Stopped(..)
        | WaitStatus::PtraceEvent(..)
        | WaitStatus::PtraceSyscall(_)
        | WaitStatus::Continued(_)
        | WaitStatus::StillAlive => None,
    }
}

/// Why a program could not be started, as far as the cage tells.
fn cannot_start(start: &Start, error: &io::Error) -> String {
    let access = start.spec.access_at(&start.program);
    if start.spec.tier > Tier::Zero && !access.allows(Access::RUN) {
        let directory = start.program.rsplit_once('/').map_or("/", |(directory, _)| directory);
        return format!(
            "it is outside of what the cage lets run ({error}); the policy line that would allow it: \
             `paths: {{exec: [{directory}]}}`"
        );
    }
    error.to_string()
}

/// Closes the cage around this process, and tries it.
fn close(start: &Start, line: &OwnedFd) -> Result<Observed, Failure> {
    let spec = &start.spec;
    let abi = sys::landlock_abi().map_err(|error| Failure::feature("landlock", error))?;
    let trial = Trial::before(start)?;
    if spec.tier >= Tier::N {
        namespaces::enclose(spec)?;
        // Counted for each user in each user name space, so that no other process of this user counts.
        let most = u64::from(spec.processes);
        setrlimit(Resource::RLIMIT_NPROC, most, most).map_err(Failure::other)?;
    }
    let rules = Rules::make(spec, abi)?;
    let calls = seccomp::rules_of(spec);
    let filter = calls.compile().map_err(|error| Failure::feature("seccomp", error))?;
    sys::drop_capabilities().map_err(|error| Failure::feature("capabilities", error))?;
    set_no_new_privs().map_err(|error| Failure::feature("no_new_privs", error))?;
    rules.restrict()?;
    let asked = sys::load_filter(&filter, calls.ask()).map_err(|error| Failure::feature("seccomp", error))?;
    if let Some(asked) = asked {
        wire::send(line, &FromEnter::Filter, &[asked.as_fd()]).map_err(Failure::other)?;
    }
    let denied = trial.after(spec)?;
    Ok(Observed { landlock: Some(abi), denied })
}

/// What is tried before the cage closes and works, and after and must not.
struct Trial {
    outside: String,
    /// What an internet socket was answered before the cage closed.
    could_connect: bool,
}

impl Trial {
    fn before(start: &Start) -> Result<Self, Failure> {
        let outside = &start.outside;
        let unreadable =
            |error: io::Error| Failure::other(format!("`{outside}`, which the cage is tried on: {error}"));
        if start.spec.access_at(outside).write {
            return Err(Failure::other(format!("`{outside}` is open for writing, and no node may write it")));
        }
        open_for(outside, true, false).map_err(unreadable)?;
        open_for(outside, false, true).map_err(unreadable)?;
        Ok(Self { outside: outside.clone(), could_connect: internet_socket().is_ok() })
    }

    /// What was tried and was denied. What was not denied is a cage that does not hold.
    fn after(self, spec: &KernelSpec) -> Result<Vec<String>, Failure> {
        let mut denied = Vec::new();
        let mut must = |what: &str, feature: &str, tried: Result<(), io::Error>, code: i32| match tried {
            Err(error) if error.raw_os_error() == Some(code) => {
                denied.push(what.to_owned());
                Ok(())
            }
            Err(error) => {
                Err(Failure::feature(feature, format!("{what}: {error}, and not denied as it should be")))
            }
            Ok(()) => Err(Failure::feature(feature, format!("{what} works in the cage, and must not"))),
        };
        // In a root of its own, what is outside is not even there.
        let (hidden, read_only) =
            if spec.tier >= Tier::N { (libc::ENOENT, libc::EROFS) } else { (libc::EACCES, libc::EACCES) };
        let is_read = spec.access_at(&self.outside).read;
        if !is_read {
            must("reading outside", "landlock", open_for(&self.outside, true, false).map(drop), hidden)?;
        }
        let unwritten = if is_read { read_only } else { hidden };
        must("writing outside", "landlock", open_for(&self.outside, false, true).map(drop), unwritten)?;
        if spec.tier >= Tier::N && !spec.access_at("/").read {
            // It is there, and no place of the spec: only a rule denies it.
            must("listing its root", "landlock", std::fs::read_dir("/").map(drop), libc::EACCES)?;
        }
        let access = spec.access_at(&spec.workspace);
        if !access.read {
            let listed = std::fs::read_dir(&spec.workspace);
            must("reading the workspace", "landlock", listed.map(drop), libc::EACCES)?;
        }
        if !access.write {
            let made = std::fs::OpenOptions::new()
                .write(true)
                .mode(0o600)
                .custom_flags(libc::O_TMPFILE)
                .open(&spec.workspace);
            must("writing the workspace", "landlock", made.map(drop), read_only)?;
        }
        match (&spec.network, self.could_connect) {
            (Network::None, true) => must("a socket", "seccomp", internet_socket(), libc::EPERM)?,
            (Network::Proxied(_), _) => {
                let datagram = make_socket(AddressFamily::Inet, SockType::Datagram);
                must("a datagram socket", "seccomp", datagram, libc::EPERM)?;
                let local = make_socket(AddressFamily::Unix, SockType::Stream);
                must("a socket of this machine", "seccomp", local, libc::EPERM)?;
                let other = make_socket(AddressFamily::Inet6, SockType::Stream);
                must("a socket of another family", "seccomp", other, libc::EAFNOSUPPORT)?;
            }
            (Network::None, false) => {}
        }
        if spec.programs == Programs::OwnOnly {
            let started = execve::<&std::ffi::CStr, &std::ffi::CStr>(c"", &[], &[]).map(drop);
            must("starting a program", "seccomp", started.map_err(io::Error::from), libc::EPERM)?;
        }
        // In a process space of its own, the guard has no number.
        if spec.tier >= Tier::K && spec.tier < Tier::N {
            let reached = kill(getppid(), None).map_err(io::Error::from);
            must("a signal to the guard", "landlock.scope.signal", reached, libc::EPERM)?;
        }
        if !get_no_new_privs().map_err(Failure::other)? {
            return Err(Failure::feature("no_new_privs", "is not in force"));
        }
        if !sys::is_filtered() {
            return Err(Failure::feature("seccomp", "is not in force"));
        }
        if sys::holds_capabilities().map_err(Failure::other)? {
            return Err(Failure::feature("capabilities", "some are still held"));
        }
        Ok(denied)
    }
}

fn open_for(path: &str, read: bool, write: bool) -> io::Result<File> {
    std::fs::OpenOptions::new().read(read).write(write).open(path)
}

fn internet_socket() -> io::Result<()> {
    make_socket(AddressFamily::Inet, SockType::Stream)
}

fn make_socket(family: AddressFamily, kind: SockType) -> io::Result<()> {
    Ok(socket(family, kind, SockFlag::SOCK_CLOEXEC, None).map(drop)?)
}
