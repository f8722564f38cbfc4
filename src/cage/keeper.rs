//! The broker's end of a guard.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::io::unix::AsyncFd;

use super::sys;
use super::wire::{self, End, Failure, FromGuard, Observed, Start, ToGuard};

/// The line to the guard of one node. When it is dropped, nothing of the node lives on.
#[derive(Debug)]
pub struct Keeper {
    line: AsyncFd<OwnedFd>,
}

/// What a guard says.
#[derive(Debug)]
pub enum Word {
    /// The node has a socket; this is its other end.
    Connected(TcpStream),
    /// The cage is there, and nothing runs in it yet.
    Ready {
        /// The process that will be the program.
        pid: u32,
        /// What was seen from inside.
        observed: Observed,
    },
    /// It cannot be, or the program cannot be started.
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
    /// The guard is gone without having said so.
    Lost,
}

impl Keeper {
    /// A line, and the end that is to be the guard's standard input.
    ///
    /// # Errors
    /// Where the system has no more descriptors.
    ///
    /// # Panics
    /// Outside of an asynchronous loop.
    pub fn new() -> io::Result<(Self, Stdio)> {
        let (ours, theirs) = wire::line()?;
        let flags = OFlag::from_bits_truncate(fcntl(&ours, FcntlArg::F_GETFL)?);
        fcntl(&ours, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok((Self { line: sys::awaited(ours)? }, Stdio::from(theirs)))
    }

    /// Has the cage made, around a program that reads this as its standard input.
    ///
    /// # Errors
    /// Where the guard is gone, and where arguments and places are more than can be passed.
    pub fn start(&self, start: Start, stdin: &OwnedFd) -> io::Result<()> {
        wire::send(self.line.get_ref(), &ToGuard::Start(Box::new(start)), &[stdin.as_fd()])
    }

    /// Lets the program run.
    ///
    /// # Errors
    /// Where the guard is gone.
    pub fn go(&self) -> io::Result<()> {
        wire::send(self.line.get_ref(), &ToGuard::Go, &[])
    }

    /// Asks all of the node to end.
    ///
    /// # Errors
    /// Where the guard is gone.
    pub fn terminate(&self) -> io::Result<()> {
        wire::send(self.line.get_ref(), &ToGuard::Terminate, &[])
    }

    /// Ends all of the node.
    ///
    /// # Errors
    /// Where the guard is gone.
    pub fn kill(&self) -> io::Result<()> {
        wire::send(self.line.get_ref(), &ToGuard::Kill, &[])
    }

    /// Waits for the next word. One that makes no sense is one that is lost.
    pub async fn hear(&self) -> Word {
        loop {
            let Ok(mut ready) = self.line.readable().await else { return Word::Lost };
            let word = ready.try_io(|line| wire::receive::<FromGuard>(line.get_ref()));
            return match word {
                Err(_) => continue,
                // It left without having read all that it was told; what it said still waits.
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => continue,
                Ok(Err(_) | Ok(None)) => Word::Lost,
                Ok(Ok(Some((word, beside)))) => match word {
                    FromGuard::Connected => {
                        beside.map_or(Word::Lost, |socket| Word::Connected(TcpStream::from(socket)))
                    }
                    FromGuard::Ready { pid, observed } => Word::Ready { pid: pid.unsigned_abs(), observed },
                    FromGuard::Failed(failure) => Word::Failed(failure),
                    FromGuard::Exited(end) => Word::Exited(end),
                    FromGuard::Ended { outlived, denied_programs } => {
                        Word::Ended { outlived, denied_programs }
                    }
                },
            };
        }
    }
}
