//! A running child: its guard, its pipes, its deadline, and the end of everything it started.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use depute_ledger::AppendError;
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, pipe2};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::cage::{End, Failure, Keeper, Observed, Start, Word};
use crate::diagnostic::printable;
use crate::host;
use crate::kernel_spec::Network;

use super::executor::Ending;
use super::proxy::{DeniedHost, Proxy};

/// The most bytes of an answer that are kept.
pub const MAX_OUTPUT: usize = 1024 * 1024;
/// The most bytes of a child's standard error that are passed on.
const MAX_TALK: usize = 256 * 1024;
/// How long a child has between the polite signal and the last one.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is still read after all that could write it has ended.
const DRAIN: Duration = Duration::from_millis(500);

/// What came of driving a child.
pub(super) struct Driven {
    pub(super) ending: Ending,
    pub(super) answer: Answer,
    /// Processes that outlived the child and were ended.
    pub(super) outlived: u32,
    /// Programs that it tried to start and may not.
    pub(super) denied_programs: u64,
    /// Hosts that it asked for and may not reach.
    pub(super) denied_hosts: Vec<DeniedHost>,
    /// What it said on standard error, as far as it was kept.
    pub(super) talk: Vec<u8>,
    /// The child was started, and the ledger could not be told: it was ended.
    pub(super) unrecorded: Option<AppendError>,
}

impl Driven {
    fn not_run(ending: Ending, outlived: u32) -> Self {
        Self {
            ending,
            answer: Answer::default(),
            outlived,
            denied_programs: 0,
            denied_hosts: Vec::new(),
            talk: Vec::new(),
            unrecorded: None,
        }
    }
}

/// What a child wrote on standard output.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) kept: Vec<u8>,
    pub(super) total: u64,
    /// Whether the end was seen. Where not, something we could not end still holds the pipe.
    pub(super) complete: bool,
}

/// Starts a guard and returns when nothing of its node is left. `record` puts on the ledger what holds
/// the node, before its program runs.
pub(super) async fn drive<F>(
    mut guard: Command,
    start: Start,
    task: Vec<u8>,
    deadline: Duration,
    record: impl FnOnce(u32, Observed) -> F,
) -> io::Result<Driven>
where
    F: FnOnce() -> Result<(), AppendError> + Send + 'static,
{
    let mut cancelled = cancellation()?;
    let before = own_children();
    let (keeper, line) = Keeper::new()?;
    let mut child = guard.stdin(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    drop(guard);
    let (theirs, ours) = pipe2(OFlag::O_CLOEXEC)?;
    let proxy = match &start.spec.network {
        Network::None => None,
        Network::Proxied(allowed) => Some(Proxy::serve(allowed.clone())),
    };
    let mut node = Node { keeper, proxy, over: None };
    let (started, end) = (Instant::now(), tokio::time::sleep(deadline));
    tokio::pin!(end);
    let sent = node.keeper.start(start, &theirs);
    drop(theirs);
    let ready = match sent {
        Err(error) => Err(Ending::NotLaunched(error.to_string())),
        Ok(()) => tokio::select! {
            word = node.hear() => match word {
                Word::Ready { pid, observed } => Ok((pid, observed)),
                Word::Failed(failure) => Err(failure.into()),
                Word::Connected(_) | Word::Exited(_) | Word::Ended { .. } | Word::Lost => {
                    Err(Ending::NotLaunched("its guard ended before it could begin".to_owned()))
                }
            },
            () = &mut end => Err(Ending::TimedOut),
            _ = cancelled.recv() => Err(Ending::Cancelled),
        },
    };
    let (pid, observed) = match ready {
        Ok(ready) => ready,
        Err(ending) => {
            let outlived = node.end(&mut child, before).await?;
            return Ok(Driven::not_run(ending, outlived));
        }
    };
    // What holds the node is durable before its program runs.
    let recorded = tokio::task::spawn_blocking(record(pid, observed));
    if let Err(error) = recorded.await.map_err(io::Error::other)? {
        let outlived = node.end(&mut child, before).await?;
        return Ok(Driven { unrecorded: Some(error), ..Driven::not_run(Ending::Cancelled, outlived) });
    }
    let feed = tokio::spawn(feed(ours, task));
    let answer = Arc::new(Mutex::new(Answer::default()));
    let collecting = tokio::spawn(collect(child.stdout.take(), Arc::clone(&answer)));
    let talk = Arc::new(Mutex::new(Vec::new()));
    let talking = tokio::spawn(pass_on(child.stderr.take(), Arc::clone(&talk)));
    // A guard that is gone says so by itself.
    let _ = node.keeper.go();
    let told = tokio::select! {
        word = node.hear() => Some(word),
        () = &mut end => None,
        _ = cancelled.recv() => None,
    };
    let ending = match told {
        Some(Word::Exited(End::Exited(code))) => Ending::Exited(code),
        Some(Word::Exited(End::Signalled(signal))) => Ending::Signalled(signal),
        Some(Word::Failed(failure)) => failure.into(),
        Some(Word::Connected(_) | Word::Ready { .. } | Word::Ended { .. } | Word::Lost) => {
            Ending::Signalled(libc::SIGKILL)
        }
        None => {
            let why = if started.elapsed() >= deadline { Ending::TimedOut } else { Ending::Cancelled };
            let _ = node.keeper.terminate();
            let _ = tokio::time::timeout(GRACE, node.hear()).await;
            why
        }
    };
    let outlived = node.end(&mut child, before).await?;
    feed.abort();
    for reading in [collecting, talking] {
        let abort = reading.abort_handle();
        if tokio::time::timeout(DRAIN, reading).await.is_err() {
            abort.abort();
        }
    }
    let answer = std::mem::take(&mut *answer.lock().unwrap_or_else(PoisonError::into_inner));
    let talk = std::mem::take(&mut *talk.lock().unwrap_or_else(PoisonError::into_inner));
    let denied_hosts = match node.proxy.take() {
        None => Vec::new(),
        Some(proxy) => proxy.finish().await,
    };
    let denied_programs = node.over.map_or(0, |over| over.denied_programs);
    Ok(Driven { ending, answer, outlived, denied_programs, denied_hosts, talk, unrecorded: None })
}

/// A guarded node, as its broker sees it.
struct Node {
    keeper: Keeper,
    proxy: Option<Proxy>,
    /// What the guard said last.
    over: Option<Over>,
}

#[derive(Clone, Copy)]
struct Over {
    outlived: u32,
    denied_programs: u64,
}

impl Node {
    /// The guard's next word.
    async fn hear(&mut self) -> Word {
        loop {
            match self.keeper.hear().await {
                Word::Connected(client) => {
                    if let Some(proxy) = &self.proxy {
                        proxy.attend(client);
                    }
                }
                Word::Ended { outlived, denied_programs } => {
                    self.over = Some(Over { outlived, denied_programs });
                    return Word::Ended { outlived, denied_programs };
                }
                word @ (Word::Ready { .. } | Word::Failed(_) | Word::Exited(_) | Word::Lost) => return word,
            }
        }
    }

    /// Has the guard end what is left, and ends what a guard that is gone left. Returns how many
    /// processes outlived the program.
    async fn end(&mut self, guard: &mut Child, before: Vec<Pid>) -> io::Result<u32> {
        let _ = self.keeper.kill();
        let ended = async { while self.over.is_none() && !matches!(self.hear().await, Word::Lost) {} };
        let _ = tokio::time::timeout(GRACE, ended).await;
        if self.over.is_none() {
            let _ = guard.start_kill();
        }
        guard.wait().await?;
        let stray = end_descendants(before).await;
        Ok(self.over.map_or(0, |over| over.outlived).saturating_add(stray))
    }
}

/// Gives the child its task.
async fn feed(pipe: OwnedFd, task: Vec<u8>) -> io::Result<()> {
    let mut pipe = tokio::net::unix::pipe::Sender::from_owned_fd(pipe)?;
    // A child that does not read its task has ended or will be judged by what it does.
    pipe.write_all(&task).await
}

impl From<Failure> for Ending {
    fn from(Failure { feature, message }: Failure) -> Self {
        match feature {
            Some(feature) => Self::NotHeld { feature, message },
            None => Self::NotLaunched(message),
        }
    }
}

/// Told once by any signal that would otherwise end this process and leave its child running.
fn cancellation() -> io::Result<tokio::sync::mpsc::Receiver<()>> {
    let (tell, told) = tokio::sync::mpsc::channel(1);
    for kind in [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::alarm(),
    ] {
        let mut stream = signal(kind)?;
        let tell = tell.clone();
        tokio::spawn(async move {
            if stream.recv().await.is_some() {
                let _ = tell.send(()).await;
            }
        });
    }
    Ok(told)
}

/// Ends what a lost guard left. This process is a subreaper, so whatever a node's processes left behind
/// has become its own child by now. Children that were there before are left alone.
async fn end_descendants(before: Vec<Pid>) -> u32 {
    let end = move || {
        let (since, mut ended) = (Instant::now(), 0);
        while since.elapsed() < GRACE {
            let left: Vec<Pid> = own_children().into_iter().filter(|pid| !before.contains(pid)).collect();
            if left.is_empty() {
                break;
            }
            for pid in left {
                let _ = kill(pid, Signal::SIGKILL);
                ended += u32::from(matches!(
                    waitpid(pid, Some(WaitPidFlag::WNOHANG)),
                    Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..))
                ));
            }
        }
        ended
    };
    tokio::task::spawn_blocking(end).await.unwrap_or(0)
}

fn own_children() -> Vec<Pid> {
    let own = nix::unistd::getpid().as_raw();
    let children = host::processes().into_iter().filter(|(_, parent)| *parent == own);
    children.map(|(pid, _)| Pid::from_raw(pid)).collect()
}

/// Reads to the end, and keeps the first part.
async fn collect(stream: Option<impl AsyncRead + Unpin>, answer: Arc<Mutex<Answer>>) {
    let Some(mut stream) = stream else { return };
    let mut chunk = vec![0_u8; 64 * 1024];
    loop {
        let read = stream.read(&mut chunk).await;
        let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(0) => {
                answer.complete = true;
                return;
            }
            Ok(read) => {
                answer.total += read as u64;
                let room = MAX_OUTPUT.saturating_sub(answer.kept.len());
                answer.kept.extend(chunk.iter().take(read.min(room)));
            }
            Err(_) => return,
        }
    }
}

/// Passes a child's talk on to our own standard error, line by line, made safe to print, and keeps it.
async fn pass_on(stream: Option<impl AsyncRead + Unpin>, talk: Arc<Mutex<Vec<u8>>>) {
    let Some(mut stream) = stream else { return };
    let mut chunk = vec![0_u8; 16 * 1024];
    let (mut line, mut total) = (Vec::new(), 0_usize);
    let say = |line: &[u8]| host::say(&format!("| {}", printable(&String::from_utf8_lossy(line))));
    while let Ok(read) = stream.read(&mut chunk).await {
        if read == 0 {
            break;
        }
        let before = total;
        total += read;
        let passed = chunk.get(..read.min(MAX_TALK.saturating_sub(before))).unwrap_or_default();
        talk.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(passed);
        for byte in passed {
            if *byte == b'\n' {
                say(&line);
                line.clear();
            } else {
                line.push(*byte);
            }
        }
    }
    if !line.is_empty() {
        say(&line);
    }
    if total > MAX_TALK {
        host::say(&format!("| … {total} bytes in all"));
    }
}
