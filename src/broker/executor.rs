//! Starting a recorded plan, and seeing it to its end.

use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use depute_ledger::{AppendError, Digest, Ledger, Recorded, record};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

use crate::diagnostic::printable;
use crate::host;
use crate::plan::Plan;
use crate::runtime::EnvValue;

/// The most bytes of an answer that are kept.
const MAX_OUTPUT: usize = 1024 * 1024;
/// The most bytes of a child's standard error that are passed on.
const MAX_TALK: usize = 256 * 1024;
/// How long a child has between the polite signal and the last one.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is still read after the child and its group have ended.
const DRAIN: Duration = Duration::from_millis(500);

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal that was not ours.
    Signalled(i32),
    /// It was still running at its deadline.
    TimedOut,
    /// We were asked to end.
    Cancelled,
    /// It never ran; why.
    NotLaunched(String),
}

/// What came of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// What it answered, as far as it was kept.
    pub output: Vec<u8>,
    /// How many bytes it answered.
    pub output_bytes: u64,
    /// Where the answer is kept.
    pub output_file: Option<PathBuf>,
    /// Wall clock from start to end, in milliseconds.
    pub duration_ms: u64,
}

impl Outcome {
    /// Whether less was kept than was answered.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.output_bytes > self.output.len() as u64
    }
}

/// Starts a recorded plan and returns when nothing of its process group is left.
///
/// # Errors
/// Where the ledger cannot be written; the child is not started, or is ended.
pub(super) fn run(
    ledger: &Ledger,
    node: Uuid,
    plan: &Recorded<Box<Plan>>,
    task: Vec<u8>,
) -> Result<Outcome, AppendError> {
    let started = Instant::now();
    let decision = plan.receipt().seq;
    let plan = plan.value();
    let launch = plan.launch();
    let stdin = record::TaskRef { bytes: task.len() as u64, digest: Some(ledger.keyed_digest(&task)) };
    let argv = plan.considered().digests.argv.unwrap_or_else(|| Digest::of(b""));
    ledger.append(
        node,
        record::Spawn {
            decision,
            node,
            program: launch.program.clone(),
            argv,
            env: launch.env.keys().cloned().collect(),
            cwd: Digest::of(plan.paths().workspace.as_bytes()),
            stdin,
        },
    )?;
    let private = Private { path: PathBuf::from(&plan.paths().private) };
    let ended = private.prepare(plan).and_then(|()| command(plan)).and_then(|command| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(drive(command, task, Duration::from_millis(plan.budget().deadline_ms), |pid| {
            let ledger = ledger.clone();
            move || ledger.append(node, record::Spawned { node, pid, start: start_time(pid) }).map(drop)
        }))
    });
    let mut outcome = match ended {
        Ok(Driven { ending, output, output_bytes, unrecorded: None }) => {
            Outcome { ending, output, output_bytes, output_file: None, duration_ms: 0 }
        }
        Ok(Driven { unrecorded: Some(error), .. }) => {
            private.remove();
            return Err(error);
        }
        Err(error) => {
            let why = format!("cannot start `{}`: {error}", launch.program);
            Outcome {
                ending: Ending::NotLaunched(why),
                output: Vec::new(),
                output_bytes: 0,
                output_file: None,
                duration_ms: 0,
            }
        }
    };
    outcome.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    if !matches!(outcome.ending, Ending::NotLaunched(_)) {
        outcome.output_file = private.keep(&outcome.output).ok();
    }
    private.remove();
    ledger.append(node, exit_record(node, &outcome))?;
    Ok(outcome)
}

fn exit_record(node: Uuid, outcome: &Outcome) -> record::Exit {
    let (ending, code, signal, message) = match &outcome.ending {
        Ending::Exited(code) => (record::ExitOutcome::Exited, Some(*code), None, None),
        Ending::Signalled(signal) => (record::ExitOutcome::Signalled, None, Some(*signal), None),
        Ending::TimedOut => (record::ExitOutcome::TimedOut, None, None, None),
        Ending::Cancelled => (record::ExitOutcome::Cancelled, None, None, None),
        Ending::NotLaunched(why) => (record::ExitOutcome::NotLaunched, None, None, Some(why.clone())),
    };
    record::Exit {
        node,
        outcome: ending,
        code,
        signal,
        duration_ms: outcome.duration_ms,
        output: outcome.output_file.as_ref().map(|_| record::OutputRef {
            bytes: outcome.output_bytes,
            digest: Digest::of(&outcome.output),
            truncated: outcome.is_truncated(),
        }),
        message,
    }
}

/// The node's private directory.
struct Private {
    path: PathBuf,
}

impl Private {
    fn prepare(&self, plan: &Plan) -> io::Result<()> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&self.path)?;
        for directory in &plan.prepared().directories {
            builder.create(directory)?;
        }
        write_new(Path::new(&plan.prepared().body_file), plan.body())
    }

    /// Keeps the answer: written beside its place, synced and renamed into it.
    fn keep(&self, output: &[u8]) -> io::Result<PathBuf> {
        let place = self.path.join("output");
        let fresh = self.path.join("output.tmp");
        write_new(&fresh, output)?;
        std::fs::rename(&fresh, &place)?;
        std::fs::File::open(&self.path)?.sync_all()?;
        Ok(place)
    }

    /// Removes all but the answer. What cannot be removed is private and does no harm.
    fn remove(&self) {
        for name in ["home", "tmp", "config"] {
            let _ = std::fs::remove_dir_all(self.path.join(name));
        }
        let _ = std::fs::remove_file(self.path.join("body.md"));
    }
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn command(plan: &Plan) -> io::Result<Command> {
    let launch = plan.launch();
    let path = launch.env.get("PATH").and_then(|value| match value {
        EnvValue::Set(path) => Some(path.as_str()),
        EnvValue::Passed => None,
    });
    let mut command = Command::new(program(&launch.program, path.unwrap_or_default())?);
    command.args(launch.argv.iter().skip(1)).env_clear().current_dir(&plan.paths().workspace);
    for (name, value) in &launch.env {
        match value {
            EnvValue::Set(value) => drop(command.env(name, value)),
            EnvValue::Passed => {
                if let Some(value) = host::env_var(name) {
                    command.env(name, value);
                }
            }
        }
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    Ok(command)
}

/// Where a program is: itself if absolute, else the first executable of that name in the child's
/// PATH. Never the current directory.
fn program(name: &str, path: &str) -> io::Result<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    if name.starts_with('/') {
        return Ok(PathBuf::from(name));
    }
    path.split(':')
        .filter(|dir| dir.starts_with('/'))
        .map(|dir| Path::new(dir).join(name))
        .find(|file| file.metadata().is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("it is in none of {path}")))
}

struct Driven {
    ending: Ending,
    output: Vec<u8>,
    output_bytes: u64,
    /// The child ran, and the ledger could not be told: it was ended.
    unrecorded: Option<AppendError>,
}

async fn drive<F>(
    mut command: Command,
    task: Vec<u8>,
    deadline: Duration,
    record: impl FnOnce(u32) -> F,
) -> io::Result<Driven>
where
    F: FnOnce() -> Result<(), AppendError> + Send + 'static,
{
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut child = command.spawn()?;
    let (group, mut ended) = watch(&child)?;
    // The record of the start is durable before the child is given its task.
    let recorded =
        tokio::task::spawn_blocking(record(group.as_raw().unsigned_abs())).await.map_err(io::Error::other)?;
    if recorded.is_err() {
        stop(group, &mut ended).await;
    }
    let stdin = child.stdin.take();
    let feed = tokio::spawn(async move {
        if let Some(mut stdin) = stdin {
            // A child that does not read its task has ended or will be judged by what it does.
            let _ = stdin.write_all(&task).await;
            let _ = stdin.shutdown().await;
        }
    });
    let answer = tokio::spawn(collect(child.stdout.take()));
    let talk = tokio::spawn(pass_on(child.stderr.take()));
    let why = tokio::select! {
        _ = &mut ended => None,
        () = tokio::time::sleep(deadline) => Some(Ending::TimedOut),
        _ = interrupt.recv() => Some(Ending::Cancelled),
        _ = terminate.recv() => Some(Ending::Cancelled),
        _ = hangup.recv() => Some(Ending::Cancelled),
    };
    if why.is_some() {
        stop(group, &mut ended).await;
    }
    // The child is a zombie until it is waited for, so its group id is still its own.
    let _ = killpg(group, Signal::SIGKILL);
    let status = child.wait().await?;
    feed.abort();
    let abort_talk = talk.abort_handle();
    let abort_answer = answer.abort_handle();
    let (output, output_bytes) = match tokio::time::timeout(DRAIN, answer).await {
        Ok(Ok(collected)) => collected,
        _ => {
            abort_answer.abort();
            (Vec::new(), 0)
        }
    };
    if tokio::time::timeout(DRAIN, talk).await.is_err() {
        abort_talk.abort();
    }
    let ending = why.unwrap_or_else(|| match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signalled(signal.unwrap_or(0)),
    });
    Ok(Driven { ending, output, output_bytes, unrecorded: recorded.err() })
}

type Watch = tokio::task::JoinHandle<nix::Result<nix::sys::wait::WaitStatus>>;

/// Waits for the child without reaping it.
fn watch(child: &Child) -> io::Result<(Pid, Watch)> {
    let raw = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .ok_or_else(|| io::Error::other("the child has no id"))?;
    let pid = Pid::from_raw(raw);
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

/// Asks the whole group to end, and ends it.
async fn stop(group: Pid, ended: &mut Watch) {
    let _ = killpg(group, Signal::SIGTERM);
    if tokio::time::timeout(GRACE, &mut *ended).await.is_err() {
        let _ = killpg(group, Signal::SIGKILL);
        let _ = ended.await;
    }
}

/// Reads to the end, and keeps the first part.
async fn collect(stream: Option<impl AsyncRead + Unpin>) -> (Vec<u8>, u64) {
    let mut kept = Vec::new();
    let mut total = 0_u64;
    let Some(mut stream) = stream else { return (kept, total) };
    let mut chunk = vec![0_u8; 64 * 1024];
    while let Ok(read) = stream.read(&mut chunk).await {
        if read == 0 {
            break;
        }
        total += read as u64;
        let room = MAX_OUTPUT.saturating_sub(kept.len());
        kept.extend(chunk.iter().take(read.min(room)));
    }
    (kept, total)
}

/// Passes a child's talk on to our own standard error, made safe to print.
async fn pass_on(stream: Option<impl AsyncRead + Unpin>) {
    let (talk, total) = collect(stream).await;
    let text = String::from_utf8_lossy(talk.get(..talk.len().min(MAX_TALK)).unwrap_or(&talk)).into_owned();
    for line in text.lines() {
        eprintln!("| {}", printable(line));
    }
    if total > MAX_TALK as u64 {
        eprintln!("| … {total} bytes in all");
    }
}

/// When a process began, in clock ticks since boot; 0 where it is gone already.
fn start_time(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the program's name in parentheses and may hold blanks.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().nth(19).and_then(|field| field.parse().ok()).unwrap_or(0)
}
