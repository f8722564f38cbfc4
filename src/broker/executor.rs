//! Starting a recorded plan, and seeing it to its end.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use depute_ledger::{AppendError, Digest, Ledger, Recorded, record};
use tokio::process::Command;
use uuid::Uuid;

use crate::durable;
use crate::host;
use crate::plan::Plan;
use crate::runtime::EnvValue;

use super::drive::{Driven, drive};
use super::enter;
use super::program::program;
use super::sessions::answer;

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
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// What it answered, as far as it was kept.
    pub output: Vec<u8>,
    /// How many bytes it answered.
    pub output_bytes: u64,
    /// Whether less was kept than was answered, or the end of the answer was not seen.
    pub truncated: bool,
    /// Where the answer is kept.
    pub output_file: Option<PathBuf>,
    /// Processes that outlived the child and were ended.
    pub outlived: u32,
    /// Wall clock from start to end, in milliseconds.
    pub duration_ms: u64,
    /// The end could not be recorded; why.
    pub unrecorded: Option<AppendError>,
}

impl Outcome {
    /// A child that never ran.
    #[must_use]
    pub fn not_launched(why: String) -> Self {
        Self {
            ending: Ending::NotLaunched(why),
            output: Vec::new(),
            output_bytes: 0,
            truncated: false,
            output_file: None,
            outlived: 0,
            duration_ms: 0,
            unrecorded: None,
        }
    }
}

/// Starts a recorded plan and returns when it, and all it started that can be found, has ended.
///
/// # Errors
/// Where the ledger cannot be written before the child has its task; it is not started, or is ended.
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
    ledger.append(
        node,
        record::Spawn {
            decision,
            node,
            program: launch.program.clone(),
            argv: plan.argv_digest(),
            env: launch.env.keys().cloned().collect(),
            cwd: Digest::of(plan.paths().workspace.as_bytes()),
            stdin: record::TaskRef { bytes: task.len() as u64, digest: Some(ledger.keyed_digest(&task)) },
        },
    )?;
    let private = Private { path: PathBuf::from(&plan.paths().private) };
    let report = enter::report_path(&private.path);
    let ended = private.prepare(plan).and_then(|()| command(plan, &report)).and_then(|command| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(drive(command, task, Duration::from_millis(plan.budget().deadline_ms), |pid| {
            let ledger = ledger.clone();
            move || ledger.append(node, record::Spawned { node, pid, start: start_time(pid) }).map(drop)
        }))
    });
    let mut outcome = match ended {
        Ok(Driven { unrecorded: Some(error), .. }) => {
            private.remove();
            return Err(error);
        }
        Ok(driven) => outcome(driven, &report, &launch.program),
        Err(error) => Outcome::not_launched(format!("cannot start `{}`: {error}", launch.program)),
    };
    outcome.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    private.remove();
    if !matches!(outcome.ending, Ending::NotLaunched(_)) {
        let place = answer(&private.path);
        outcome.output_file = durable::replace(&place, &outcome.output).ok().map(|()| place);
    }
    let line = exit_record(ledger, node, &outcome);
    outcome.unrecorded = ledger.append(node, line).err();
    Ok(outcome)
}

fn outcome(driven: Driven, report: &Path, program: &str) -> Outcome {
    if driven.ending == Ending::Exited(enter::FAILED)
        && let Ok(why) = std::fs::read_to_string(report)
    {
        return Outcome::not_launched(format!("cannot start `{program}`: {why}"));
    }
    let answer = driven.answer;
    Outcome {
        ending: driven.ending,
        truncated: !answer.complete || answer.total > answer.kept.len() as u64,
        output: answer.kept,
        output_bytes: answer.total,
        output_file: None,
        outlived: driven.outlived,
        duration_ms: 0,
        unrecorded: None,
    }
}

fn exit_record(ledger: &Ledger, node: Uuid, outcome: &Outcome) -> record::Exit {
    let outlived = || match outcome.outlived {
        0 => None,
        n => Some(format!("{n} processes outlived it and were ended")),
    };
    let (ending, code, signal, message) = match &outcome.ending {
        Ending::Exited(code) => (record::ExitOutcome::Exited, Some(*code), None, outlived()),
        Ending::Signalled(signal) => (record::ExitOutcome::Signalled, None, Some(*signal), outlived()),
        Ending::TimedOut => (record::ExitOutcome::TimedOut, None, None, outlived()),
        Ending::Cancelled => (record::ExitOutcome::Cancelled, None, None, outlived()),
        Ending::NotLaunched(why) => (record::ExitOutcome::NotLaunched, None, None, Some(why.clone())),
    };
    let ran = !matches!(outcome.ending, Ending::NotLaunched(_));
    record::Exit {
        node,
        outcome: ending,
        code,
        signal,
        duration_ms: outcome.duration_ms,
        output: ran.then(|| record::OutputRef {
            bytes: outcome.output_bytes,
            digest: ledger.keyed_digest(&outcome.output),
            truncated: outcome.truncated,
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
        durable::write_new(Path::new(&plan.prepared().body_file), plan.body())
    }

    /// Removes it. What cannot be removed is private and does no harm.
    fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The command that becomes the program: this binary first, to leave terminal and descriptors.
fn command(plan: &Plan, report: &Path) -> io::Result<Command> {
    let launch = plan.launch();
    let path = match launch.env.get("PATH") {
        Some(EnvValue::Set(path)) => path.as_str(),
        Some(EnvValue::Passed) | None => "",
    };
    let program = program(&launch.program, path)?;
    let mut command = Command::new(&plan.paths().itself);
    command.arg("enter").arg("--broker").arg(std::process::id().to_string()).arg("--report").arg(report);
    command.arg("--program").arg(program).arg("--").args(&launch.argv);
    command.env_clear().current_dir(&plan.paths().workspace);
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
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    Ok(command)
}

/// When a process began, in clock ticks since boot; 0 where it is gone already.
fn start_time(pid: u32) -> u64 {
    host::process_field(&pid.to_string(), 19).and_then(|field| field.parse().ok()).unwrap_or(0)
}
