//! Starting a recorded plan, and seeing it to its end.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use depute_ledger::{AppendError, Digest, Ledger, Recorded, record};
use tokio::process::Command;
use uuid::Uuid;

use crate::cage::{self, Start};
use crate::durable;
use crate::host;
use crate::kernel_spec::KernelSpec;
use crate::plan::Plan;
use crate::runtime::{EnvValue, Launch, Tier};

use super::denied::{self, Denied};
use super::drive::{Driven, drive};
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
    /// It never ran, because the kernel would not hold it.
    NotHeld {
        /// The feature of the kernel that is missing or does not hold.
        feature: String,
        /// What went wrong.
        message: String,
    },
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
    /// What the cage denied, as far as it is known.
    pub denied: Vec<Denied>,
    /// Wall clock from start to end, in milliseconds.
    pub duration_ms: u64,
    /// The end could not be recorded; why.
    pub unrecorded: Option<AppendError>,
}

impl Outcome {
    /// A child that never ran.
    #[must_use]
    pub fn not_launched(why: String) -> Self {
        Self::not_run(Ending::NotLaunched(why))
    }

    fn not_run(ending: Ending) -> Self {
        Self {
            ending,
            output: Vec::new(),
            output_bytes: 0,
            truncated: false,
            output_file: None,
            outlived: 0,
            denied: Vec::new(),
            duration_ms: 0,
            unrecorded: None,
        }
    }

    /// Whether a program of the node ran.
    fn ran(&self) -> bool {
        !matches!(self.ending, Ending::NotLaunched(_) | Ending::NotHeld { .. })
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
    let spec = plan.spec().clone();
    let tier = spec.tier;
    let mut group = None;
    let ended = private
        .prepare(plan)
        .and_then(|()| {
            if tier >= Tier::C {
                group = Some(cage::Group::make(&node.to_string(), spec.processes)?.0);
            }
            let start = Start {
                spec: spec.clone(),
                program: find(launch)?,
                argv: launch.argv.clone(),
                outside: private.outside().display().to_string(),
                group: group.as_ref().map(|group| group.path().display().to_string()),
            };
            Ok((guard(plan), start))
        })
        .and_then(|(guard, start)| {
            let deadline = Duration::from_millis(plan.budget().deadline_ms);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let driven = runtime.block_on(drive(guard, start, task, deadline, |pid, observed| {
                let ledger = ledger.clone();
                move || {
                    let caged = record::Caged {
                        node,
                        tier: tier.as_str().to_owned(),
                        landlock: observed.landlock.map(u64::from),
                        tried: observed.denied,
                    };
                    let spawned = record::Spawned { node, pid, start: start_time(pid) };
                    ledger.append_all(node, vec![caged.into(), spawned.into()]).map(drop)
                }
            }));
            // A name that is still looked up for nobody is not waited for.
            runtime.shutdown_background();
            driven
        });
    // Whatever the guard left in it ends now.
    drop(group);
    let mut outcome = match ended {
        Ok(Driven { unrecorded: Some(error), .. }) => {
            private.remove();
            return Err(error);
        }
        Ok(driven) => outcome(driven, &launch.program, &spec),
        Err(error) => Outcome::not_launched(cannot_start(&launch.program, &error)),
    };
    outcome.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    private.remove();
    if outcome.ran() {
        let place = answer(&private.path);
        outcome.output_file = durable::replace(&place, &outcome.output).ok().map(|()| place);
    }
    let mut lines: Vec<record::Body> = Vec::new();
    lines.extend(outcome.denied.iter().filter_map(|denied| denied.record(node)).map(Into::into));
    lines.push(exit_record(ledger, node, &outcome).into());
    outcome.unrecorded = ledger.append_all(node, lines).err();
    Ok(outcome)
}

fn cannot_start(program: &str, why: impl std::fmt::Display) -> String {
    format!("cannot start `{program}`: {why}")
}

fn outcome(driven: Driven, program: &str, spec: &KernelSpec) -> Outcome {
    let ending = match driven.ending {
        Ending::NotLaunched(why) => return Outcome::not_launched(cannot_start(program, why)),
        held @ Ending::NotHeld { .. } => return Outcome::not_run(held),
        ran @ (Ending::Exited(_) | Ending::Signalled(_) | Ending::TimedOut | Ending::Cancelled) => ran,
    };
    let answer = driven.answer;
    let mut denied = denied::hosts(driven.denied_hosts);
    denied.extend(denied::programs(driven.denied_programs));
    denied.extend(denied::paths(&[&driven.talk, &answer.kept], spec));
    Outcome {
        ending,
        truncated: !answer.complete || answer.total > answer.kept.len() as u64,
        output: answer.kept,
        output_bytes: answer.total,
        output_file: None,
        outlived: driven.outlived,
        denied,
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
        Ending::NotHeld { feature, message } => {
            let why = format!("`{feature}` is missing or does not hold: {message}");
            (record::ExitOutcome::NotLaunched, None, None, Some(why))
        }
    };
    let ran = outcome.ran();
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
    /// A file of ours that no node may reach, on which each cage is tried: the session's lock.
    fn outside(&self) -> PathBuf {
        self.path.with_file_name("lock")
    }

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

/// Where the program is.
fn find(launch: &Launch) -> io::Result<String> {
    let path = match launch.env.get("PATH") {
        Some(EnvValue::Set(path)) => path.as_str(),
        Some(EnvValue::Passed) | None => "",
    };
    let program = program(&launch.program, path)?;
    program.into_os_string().into_string().map_err(|_| io::Error::other("its path is not UTF-8"))
}

/// The command that is the node's guard: this binary again, in the environment of the program.
fn guard(plan: &Plan) -> Command {
    let launch = plan.launch();
    let mut command = Command::new(&plan.paths().itself);
    command.arg(cage::GUARD).env_clear().current_dir(&plan.paths().workspace);
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
}

/// When a process began, in clock ticks since boot; 0 where it is gone already.
fn start_time(pid: u32) -> u64 {
    host::process_field(&pid.to_string(), 19).and_then(|field| field.parse().ok()).unwrap_or(0)
}
