//! A running child: its pipes, its deadline, and the end of everything it started.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use depute_ledger::AppendError;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::diagnostic::printable;
use crate::host;

use super::executor::Ending;

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
    /// The child was started, and the ledger could not be told: it was ended.
    pub(super) unrecorded: Option<AppendError>,
}

/// What a child wrote on standard output.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) kept: Vec<u8>,
    pub(super) total: u64,
    /// Whether the end was seen. Where not, something we could not end still holds the pipe.
    pub(super) complete: bool,
}

/// Ends a child's group when it goes out of scope: no error between start and end leaves it running.
struct Leash {
    group: Pid,
}

impl Drop for Leash {
    fn drop(&mut self) {
        signal_all(self.group, Signal::SIGKILL);
    }
}

/// Both the group and its leader: a leader that was not yet alone in its group is still reached.
fn signal_all(leader: Pid, signal: Signal) {
    let _ = killpg(leader, signal);
    let _ = kill(leader, signal);
}

/// Starts the command and returns when it and all that it started have ended.
pub(super) async fn drive<F>(
    mut command: Command,
    task: Vec<u8>,
    deadline: Duration,
    record: impl FnOnce(u32) -> F,
) -> io::Result<Driven>
where
    F: FnOnce() -> Result<(), AppendError> + Send + 'static,
{
    let mut cancelled = cancellation()?;
    let before = own_children();
    let mut child = command.spawn()?;
    let (leader, mut ended) = watch(&child)?;
    let leash = Leash { group: leader };
    // The record of the start is durable before the child is given its task.
    let recorded = tokio::task::spawn_blocking(record(leader.as_raw().unsigned_abs()));
    let recorded = recorded.await.map_err(io::Error::other)?;
    if let Err(error) = recorded {
        drop(leash);
        child.wait().await?;
        let outlived = end_descendants(before).await;
        return Ok(Driven {
            ending: Ending::Cancelled,
            answer: Answer::default(),
            outlived,
            unrecorded: Some(error),
        });
    }
    let stdin = child.stdin.take();
    let feed = tokio::spawn(async move {
        if let Some(mut stdin) = stdin {
            // A child that does not read its task has ended or will be judged by what it does.
            let _ = stdin.write_all(&task).await;
            let _ = stdin.shutdown().await;
        }
    });
    let answer = Arc::new(Mutex::new(Answer::default()));
    let collecting = tokio::spawn(collect(child.stdout.take(), Arc::clone(&answer)));
    let talking = tokio::spawn(pass_on(child.stderr.take()));
    let why = tokio::select! {
        _ = &mut ended => None,
        () = tokio::time::sleep(deadline) => Some(Ending::TimedOut),
        _ = cancelled.recv() => Some(Ending::Cancelled),
    };
    if why.is_some() {
        signal_all(leader, Signal::SIGTERM);
        if tokio::time::timeout(GRACE, &mut ended).await.is_err() {
            signal_all(leader, Signal::SIGKILL);
            let _ = ended.await;
        }
    }
    // The leader is a zombie until it is waited for, so its group id is still its own.
    drop(leash);
    let status = child.wait().await?;
    let outlived = end_descendants(before).await;
    feed.abort();
    for reading in [collecting, talking] {
        let abort = reading.abort_handle();
        if tokio::time::timeout(DRAIN, reading).await.is_err() {
            abort.abort();
        }
    }
    let answer = std::mem::take(&mut *answer.lock().unwrap_or_else(PoisonError::into_inner));
    let ending = why.unwrap_or_else(|| match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signalled(signal.unwrap_or(0)),
    });
    Ok(Driven { ending, answer, outlived, unrecorded: None })
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

type Watch = tokio::task::JoinHandle<nix::Result<WaitStatus>>;

/// Waits for the child without reaping it.
fn watch(child: &Child) -> io::Result<(Pid, Watch)> {
    let raw = child.id().and_then(|id| i32::try_from(id).ok());
    let pid = Pid::from_raw(raw.ok_or_else(|| io::Error::other("the child has no id"))?);
    let wait = tokio::task::spawn_blocking(move || {
        loop {
            match waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
                Err(nix::errno::Errno::EINTR) => {}
                ended => return ended,
            }
        }
    });
    Ok((pid, wait))
}

/// Ends what outlived the child. This process is a subreaper, so whatever the child started and
/// left behind has become its own child by now. Children that were there before are left alone.
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
    let own = std::process::id().to_string();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            (host::process_parent(&pid.to_string())? == own).then(|| Pid::from_raw(pid))
        })
        .collect()
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

/// Passes a child's talk on to our own standard error, line by line, made safe to print.
async fn pass_on(stream: Option<impl AsyncRead + Unpin>) {
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
        for byte in chunk.iter().take(read.min(MAX_TALK.saturating_sub(before))) {
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
