//! What broker, guard and `enter` say to each other: one packet a message, descriptors beside it.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::kernel_spec::KernelSpec;

use super::sys;

/// The largest packet, in bytes. What the kernel buffers by default is a little more.
const MAX_PACKET: usize = 192 * 1024;

/// What a node is started from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// What the kernel is to hold.
    pub spec: KernelSpec,
    /// The program, absolute.
    pub program: String,
    /// All its arguments, its name first.
    pub argv: Vec<String>,
    /// A file of ours that is outside of everything the node may reach: that it is, is tried.
    pub outside: String,
    /// The control group that the node is to be in, absolute; only at tier C.
    pub group: Option<String>,
}

/// What the broker says to a guard.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToGuard {
    /// Make the cage. Comes with the program's standard input.
    Start(Box<Start>),
    /// It is on record: run the program in it.
    Go,
    /// Ask all of the node to end.
    Terminate,
    /// End all of the node.
    Kill,
}

/// What a guard says to the broker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromGuard {
    /// Comes with the other end of a socket that the node has just been given.
    Connected,
    /// The cage is there, and nothing runs in it yet.
    Ready {
        /// The process that will be the program, or is the first in a process space of the node's own.
        pid: i32,
        /// What was seen from inside.
        observed: Observed,
    },
    /// It cannot be; nothing ran.
    Failed(Failure),
    /// The program has ended.
    Exited(End),
    /// Nothing of the node is left.
    Ended {
        /// Processes that were still there and were ended.
        outlived: u32,
        /// Programs that the node tried to start and may not.
        denied_programs: u64,
    },
}

/// What `enter` says to its guard.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromEnter {
    /// Comes with the descriptor where the node's calls wait that its filter hands over.
    Filter,
    /// The cage is there.
    Ready(Observed),
    /// It cannot be, or the program cannot be started.
    Failed(Failure),
    /// The program has ended, in a process space of the node's own.
    Exited {
        /// How.
        end: End,
        /// Processes that were still there and were ended.
        outlived: u32,
    },
}

/// What was seen from inside of a cage before its program ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// The version of Landlock's interface that holds it; nothing at tier 0.
    pub landlock: Option<u32>,
    /// What was tried and was denied, in words.
    pub denied: Vec<String>,
}

/// Why a program was not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The feature of the kernel that is missing or does not hold; nothing where it is something else.
    pub feature: Option<String>,
    /// What went wrong.
    pub message: String,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
}

#[expect(clippy::needless_pass_by_value, reason = "they stand in `map_err`")]
impl Failure {
    /// Something that has nothing to do with what the kernel holds.
    pub(super) fn other(message: impl ToString) -> Self {
        Self { feature: None, message: message.to_string() }
    }

    /// A feature of the kernel that does not hold.
    pub(super) fn feature(feature: &str, message: impl ToString) -> Self {
        Self { feature: Some(feature.to_owned()), message: message.to_string() }
    }
}

/// Two ends of one line.
pub(super) fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Sends one message.
pub(super) fn send(to: impl AsFd, message: &impl Serialize, beside: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MAX_PACKET {
        return Err(io::Error::other(format!(
            "what the program is started from takes {} bytes, and at most {MAX_PACKET} can be passed",
            bytes.len()
        )));
    }
    let raw: Vec<i32> = beside.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let rights = if raw.is_empty() { &[] } else { &rights[..] };
    loop {
        match sendmsg::<()>(
            to.as_fd().as_raw_fd(),
            &[IoSlice::new(&bytes)],
            rights,
            MsgFlags::MSG_NOSIGNAL,
            None,
        ) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives one message and at most one descriptor; nothing where the other end is gone.
pub(super) fn receive<T: DeserializeOwned>(from: impl AsFd) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut bytes = vec![0_u8; MAX_PACKET];
    let (len, descriptor) = sys::receive(from.as_fd(), &mut bytes)?;
    match bytes.get(..len) {
        None | Some([]) => Ok(None),
        Some(packet) => Ok(Some((serde_json::from_slice(packet)?, descriptor))),
    }
}
