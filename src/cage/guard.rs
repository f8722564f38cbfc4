//! The guard of a node: between the broker and the cage, and the end of everything in it.
//!
//! It holds one line to the broker, and when that breaks, for whatever reason, nothing of the node
//! lives on. At tier K its own domain confines its signals to itself and what it started, so one signal to
//! all reaches exactly the node; from tier N on, the node's first process takes all others with it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::{set_child_subreaper, set_dumpable};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, getppid, setsid};

use crate::exit::Exit;
use crate::host;
use crate::kernel_spec::Network;
use crate::runtime::Tier;

use super::enter::{Entering, end_of, enter};
use super::sockets::Connector;
use super::wire::{self, End, Failure, FromEnter, FromGuard, ToGuard};
use super::{cgroup, landlock, namespaces, sys};

/// How long processes are looked for one by one, where they cannot be ended at once.
const HUNT: Duration = Duration::from_secs(5);
/// How long the first process of a space has to end the others.
const FIRST_ENDS: Duration = Duration::from_secs(1);
/// Every process that may be signalled.
pub(super) const ALL: Pid = Pid::from_raw(-1);

/// Guards one node, whose line to the broker is standard input.
#[must_use]
pub fn guard() -> Exit {
    let Ok(line) = io::stdin().as_fd().try_clone_to_owned() else { return Exit::Internal };
    match begin(&line) {
        Ok(Begun::Guard(mut node)) => node.watch(&line),
        Ok(Begun::Enter(entering)) => {
            // The node's only way to the broker is the guard.
            drop(line);
            return enter(*entering);
        }
        // Without a broker there is nobody to guard it for.
        Ok(Begun::Nobody) => {}
        Err(failure) => {
            let _ = wire::send(&line, &FromGuard::Failed(failure), &[]);
        }
    }
    Exit::Done
}

/// Who this process is once it has begun.
enum Begun {
    /// The guard of this node.
    Guard(Node),
    /// Its copy, which closes the cage around itself and becomes the program.
    Enter(Box<Entering>),
    /// Nobody wants a guard.
    Nobody,
}

/// A node whose cage is being made or is there.
struct Node {
    /// The process that is `enter` and becomes the program.
    pid: Pid,
    /// How the program ended, and how many outlived it, told by the first process of its own space.
    told: Option<(End, u32)>,
    /// The line to it, until it is the program.
    enter: Option<OwnedFd>,
    /// Where its calls wait that its filter hands over.
    asked: Option<OwnedFd>,
    /// How all of the node is reached.
    reach: Reach,
    ended_children: SignalFd,
    /// The broker has said go.
    went: bool,
    /// Its program was started.
    started: bool,
    denied_programs: u64,
    connector: Connector,
}

fn begin(line: &OwnedFd) -> Result<Begun, Failure> {
    let Some((ToGuard::Start(start), Some(stdin))) = wire::receive(line).map_err(Failure::other)? else {
        return Ok(Begun::Nobody);
    };
    let nothing = nothing().map_err(|error| Failure::other(format!("/dev/null: {error}")))?;
    dup2_stdin(&nothing).map_err(Failure::other)?;
    setsid().map_err(Failure::other)?;
    set_child_subreaper(true).map_err(Failure::other)?;
    if let Some(group) = &start.group {
        cgroup::join(group).map_err(|error| Failure::feature("cgroup", error))?;
    }
    let reach = match start.spec.tier {
        Tier::Zero | Tier::F => Reach::Search,
        Tier::K => Reach::Domain,
        Tier::N | Tier::C => Reach::First,
    };
    if reach == Reach::First {
        namespaces::leave(start.spec.network != Network::None)?;
    } else if start.spec.tier > Tier::Zero {
        sys::drop_capabilities().map_err(|error| Failure::feature("capabilities", error))?;
    }
    if reach == Reach::Domain {
        landlock::confine_signals(&start.spec)?;
        // Before anything relies on it: the broker is out of reach now.
        if reaches_the_parent() {
            return Err(Failure::feature("landlock.scope.signal", "it does not confine signals"));
        }
    }
    set_dumpable(false).map_err(Failure::other)?;
    let ended_children = ended_children().map_err(Failure::other)?;

    let (ours, theirs) = wire::line().map_err(Failure::other)?;
    // The copy is small and has one thread: starting this binary once more would cost as much again.
    let Some(pid) = sys::fork().map_err(Failure::other)? else {
        drop(ours);
        SigSet::from(Signal::SIGCHLD).thread_unblock().map_err(Failure::other)?;
        return Ok(Begun::Enter(Box::new(Entering { start: *start, stdin, line: theirs })));
    };
    drop((theirs, stdin));
    // Only the node holds the pipes to the broker from here on.
    dup2_stdout(&nothing).map_err(Failure::other)?;
    dup2_stderr(&nothing).map_err(Failure::other)?;
    if reach == Reach::First {
        // Nothing of the guard's own needs it any more.
        sys::drop_capabilities().map_err(|error| Failure::feature("capabilities", error))?;
    }
    Ok(Begun::Guard(Node {
        pid,
        told: None,
        enter: Some(ours),
        asked: None,
        reach,
        ended_children,
        went: false,
        started: false,
        denied_programs: 0,
        connector: Connector::default(),
    }))
}

/// What has no input, and takes output that nobody wants.
pub(super) fn nothing() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}

/// Where the ends of children are told, and nowhere else any more.
pub(super) fn ended_children() -> nix::Result<SignalFd> {
    let mask = SigSet::from(Signal::SIGCHLD);
    mask.thread_block()?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

fn reaches_the_parent() -> bool {
    kill(getppid(), None) != Err(Errno::EPERM)
}

/// How all that a node has started is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// By looking for what descends from the guard.
    Search,
    /// By one signal to all, which the domain of the guard keeps to the node.
    Domain,
    /// By the first process of a space of its own, with which all of the space ends.
    First,
}

/// What woke the guard.
enum Woken {
    Broker,
    Enter,
    Asked,
    Children,
}

impl Node {
    /// Sees the node to its end.
    fn watch(&mut self, line: &OwnedFd) {
        let mut left = false;
        'watching: while let Ok(woken) = self.wait(line) {
            for by in woken {
                let goes_on = match by {
                    Woken::Broker => self.hear_the_broker(line),
                    Woken::Enter => self.hear_enter(line),
                    Woken::Asked => {
                        self.answer_a_call(line);
                        true
                    }
                    Woken::Children => match self.reap() {
                        None => true,
                        Some(end) => {
                            // What it said last may still wait to be passed on.
                            while self.enter.is_some() && self.hear_enter(line) {}
                            left = true;
                            let end = self.told.map_or(end, |(end, _)| end);
                            let _ = wire::send(line, &FromGuard::Exited(end), &[]);
                            false
                        }
                    },
                };
                if !goes_on {
                    break 'watching;
                }
            }
        }
        if !left {
            self.end_by_the_first(line);
        }
        let ended = self.end_all();
        // The program itself is none that outlived it.
        let outlived = if left { ended } else { ended.saturating_sub(1) };
        let outlived = outlived.saturating_add(self.told.map_or(0, |(_, outlived)| outlived));
        let over = FromGuard::Ended { outlived, denied_programs: self.denied_programs };
        let _ = wire::send(line, &over, &[]);
    }

    fn wait(&self, line: &OwnedFd) -> nix::Result<Vec<Woken>> {
        let mut polled = vec![
            (Woken::Broker, PollFd::new(line.as_fd(), PollFlags::POLLIN)),
            (Woken::Children, PollFd::new(self.ended_children.as_fd(), PollFlags::POLLIN)),
        ];
        if let Some(enter) = &self.enter {
            polled.push((Woken::Enter, PollFd::new(enter.as_fd(), PollFlags::POLLIN)));
        }
        if let Some(asked) = &self.asked {
            polled.push((Woken::Asked, PollFd::new(asked.as_fd(), PollFlags::POLLIN)));
        }
        let mut sources: Vec<PollFd<'_>> = polled.iter().map(|(_, source)| source.clone()).collect();
        match poll(&mut sources, PollTimeout::NONE) {
            Err(Errno::EINTR) => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(_) => {
                let woken = polled.into_iter().zip(sources);
                Ok(woken.filter(|(_, source)| source.any().unwrap_or(true)).map(|((by, _), _)| by).collect())
            }
        }
    }

    /// Whether the node goes on.
    fn hear_the_broker(&mut self, line: &OwnedFd) -> bool {
        match wire::receive::<ToGuard>(line) {
            Ok(Some((ToGuard::Go, _))) => {
                self.went = true;
                self.enter.as_ref().is_some_and(|enter| wire::send(enter, &ToGuard::Go, &[]).is_ok())
            }
            Ok(Some((ToGuard::Terminate, _))) => {
                self.signal_all(Signal::SIGTERM);
                true
            }
            // A broker that is gone or makes no sense guards nothing any more.
            Ok(Some((ToGuard::Start(_) | ToGuard::Kill, _)) | None) | Err(_) => false,
        }
    }

    /// Whether the node goes on.
    fn hear_enter(&mut self, line: &OwnedFd) -> bool {
        let Some(enter) = &self.enter else { return true };
        match wire::receive::<FromEnter>(enter) {
            Ok(Some((FromEnter::Filter, asked))) => {
                self.asked = asked;
                true
            }
            Ok(Some((FromEnter::Ready(observed), _))) => {
                let ready = FromGuard::Ready { pid: self.pid.as_raw(), observed };
                wire::send(line, &ready, &[]).is_ok()
            }
            Ok(Some((FromEnter::Failed(failure), _))) => {
                let _ = wire::send(line, &FromGuard::Failed(failure), &[]);
                false
            }
            Ok(Some((FromEnter::Exited { end, outlived }, _))) => {
                self.told = Some((end, outlived));
                true
            }
            // It has become the program, or is gone: the latter is told by its end.
            Ok(None) | Err(_) => {
                self.enter = None;
                true
            }
        }
    }

    /// Answers a call that the filter hands over: the start of a program, or a socket.
    fn answer_a_call(&mut self, line: &OwnedFd) {
        let Some(asked) = self.asked.take() else { return };
        let call = match sys::waiting_call(asked.as_fd()) {
            // Who asked is gone.
            Err(Errno::ENOENT | Errno::EINTR) => {
                self.asked = Some(asked);
                return;
            }
            // Without answers its calls fail.
            Err(_) => return,
            Ok(call) => call,
        };
        if call.number == libc::SYS_socket {
            if let Err(error) = self.give_a_socket(&asked, call, line) {
                let _ = sys::answer_call(asked.as_fd(), call, Err(error));
            }
        } else {
            // The node's own program starts once, and no other.
            let is_own = self.went && !self.started;
            let answer = if is_own { Ok(()) } else { Err(Errno::EPERM) };
            self.started |= is_own;
            self.denied_programs += u64::from(self.went && !is_own);
            let _ = sys::answer_call(asked.as_fd(), call, answer);
        }
        self.asked = Some(asked);
    }

    /// Gives the node a socket whose other end the broker has. Nobody else on this machine can come
    /// between: of all that connect, the one that is kept is the guard's own.
    fn give_a_socket(&mut self, asked: &OwnedFd, call: sys::Call, line: &OwnedFd) -> Result<(), Errno> {
        if !self.went {
            return Err(Errno::EPERM);
        }
        let [_, kind, ..] = call.arguments;
        let has = |flag: i32| kind & u64::from(flag.unsigned_abs()) != 0;
        let pair = self.connector.pair(has(libc::SOCK_NONBLOCK));
        let (theirs, ours) = pair.map_err(|_| Errno::ENOBUFS)?;
        wire::send(line, &FromGuard::Connected, &[ours.as_fd()]).map_err(|_| Errno::ENETDOWN)?;
        sys::hand_over(asked.as_fd(), call, theirs.as_fd(), has(libc::SOCK_CLOEXEC))
    }

    /// Takes the ends of children; how the program ended, once it has.
    fn reap(&self) -> Option<End> {
        while let Ok(Some(_)) = self.ended_children.read_signal() {}
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return None,
                Ok(status) => match end_of(self.pid, status) {
                    None => {}
                    end => return end,
                },
                Err(_) => {}
            }
        }
    }

    fn signal_all(&self, signal: Signal) {
        match self.reach {
            Reach::First if signal == Signal::SIGKILL => drop(kill(self.pid, signal)),
            // It takes no other signal, and passes this one on.
            Reach::First => {
                let told = self.enter.as_ref().map(|enter| wire::send(enter, &ToGuard::Terminate, &[]));
                drop(told);
            }
            // Never without the proof that it reaches the node alone.
            Reach::Domain if !reaches_the_parent() => drop(kill(ALL, signal)),
            Reach::Domain | Reach::Search => {
                for pid in descendants() {
                    let _ = kill(pid, signal);
                }
            }
        }
    }

    /// Has the first process of a space of its own end the rest: it alone knows how many they are.
    fn end_by_the_first(&mut self, line: &OwnedFd) {
        if self.reach != Reach::First {
            return;
        }
        let since = Instant::now();
        while let (Some(enter), None) = (&self.enter, &self.told) {
            let left = FIRST_ENDS.saturating_sub(since.elapsed());
            let mut sources = [PollFd::new(enter.as_fd(), PollFlags::POLLIN)];
            // Said again, it does no harm.
            let told = wire::send(enter, &ToGuard::Kill, &[]).is_ok();
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            if !told || left.is_zero() || !matches!(poll(&mut sources, timeout), Ok(1..)) {
                return;
            }
            self.hear_enter(line);
        }
    }

    /// Ends everything that is left, and says how many that were.
    fn end_all(&mut self) -> u32 {
        self.asked = None;
        self.enter = None;
        let (since, mut ended) = (Instant::now(), 0);
        loop {
            self.signal_all(Signal::SIGKILL);
            match waitpid(None, None) {
                Err(Errno::ECHILD) => return ended,
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => ended += 1,
                Ok(_) | Err(_) => {}
            }
            if self.reach == Reach::Search && since.elapsed() > HUNT {
                return ended;
            }
        }
    }
}

/// Everything that descends from this process, as far as a walk finds it.
fn descendants() -> BTreeSet<Pid> {
    let processes = host::processes();
    let own = nix::unistd::getpid().as_raw();
    let mut found: BTreeSet<i32> = BTreeSet::from([own]);
    loop {
        let before = found.len();
        found.extend(
            processes
                .iter()
                .filter(|(_, parent)| found.contains(parent))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        if found.len() == before {
            break;
        }
    }
    found.remove(&own);
    found.into_iter().map(Pid::from_raw).collect()
}
