//! What is here for children: runtimes, and the variables that name keys and models. Shared by `init`
//! and `doctor`. No variable's value is shown.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::broker::{load_profile, locate, profiles, program};
use crate::host::{self, Project};
use crate::policy::Policy;
use crate::runtime::{Find, Profile, Starts, child_path};

/// Variables by which a user tells an agent program its model, by its documentation: Claude Code,
/// Copilot, Gemini CLI, Qwen Code.
pub(super) const MODEL_VARIABLES: [&str; 4] =
    ["ANTHROPIC_MODEL", "COPILOT_MODEL", "GEMINI_MODEL", "OPENAI_MODEL"];

/// A runtime, and whether it could be started.
#[derive(serde::Serialize)]
pub(super) struct Runtime {
    pub(super) name: String,
    pub(super) state: Availability,
    /// Its program, as a child would find it; or where else it is.
    pub(super) program: Option<PathBuf>,
    /// In words that follow the name.
    pub(super) message: String,
    pub(super) fix: Option<String>,
    #[serde(skip)]
    pub(super) takes_model: bool,
    /// The variables that a policy usually passes for it.
    #[serde(skip)]
    pub(super) keys: Vec<String>,
}

/// How far a runtime can be used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Availability {
    /// Its program is here and can be started.
    Ready,
    /// Its program is here, and it can only be planned.
    PlannedOnly,
    /// Its program is where this user's PATH leads, and a child's does not.
    OutOfReach,
    /// Its program was not found.
    Missing,
    /// Its profile cannot be read.
    Unreadable,
}

/// Every runtime that has a profile here, under this policy.
pub(super) fn runtimes(policy: &Policy, project: &Project) -> Vec<Runtime> {
    let path = child_path(&policy.paths.path);
    let profiles = profiles(project).into_iter().map(|name| match load_profile(&name, project) {
        Ok(profile) => found(&profile, &path),
        Err(error) => Runtime {
            message: format!("has a profile that cannot be read: {error}"),
            fix: Some("correct it, or remove it".to_owned()),
            ..Runtime::new(name, Availability::Unreadable)
        },
    });
    profiles.collect()
}

impl Runtime {
    fn new(name: String, state: Availability) -> Self {
        let (program, message, fix) = (None, String::new(), None);
        Self { name, state, program, message, fix, takes_model: false, keys: Vec::new() }
    }

    /// The name and the state in a word.
    pub(super) fn in_short(&self) -> String {
        let state = match self.state {
            Availability::Ready => "here",
            Availability::PlannedOnly => "here, can only be planned yet",
            Availability::OutOfReach => "here, out of a child's reach",
            Availability::Missing => "not found",
            Availability::Unreadable => "its profile cannot be read",
        };
        format!("{} ({state})", self.name)
    }
}

fn found(profile: &Profile, path: &str) -> Runtime {
    let reached = locate(profile, path);
    let elsewhere = || match &profile.find {
        Find::InPath(name) => program(name, &host::env_var("PATH")?.to_string_lossy()).ok(),
        Find::Itself | Find::At(_) => None,
    };
    let runtime = |state, program, message| Runtime {
        program,
        message,
        takes_model: profile.takes_model(),
        keys: profile.keys.clone(),
        ..Runtime::new(profile.runtime.clone(), state)
    };
    match (reached, &profile.starts) {
        (Ok(program), Starts::Yes) => {
            runtime(Availability::Ready, Some(program), "can be started".to_owned())
        }
        (Ok(program), Starts::PlannedOnly(why)) => {
            runtime(Availability::PlannedOnly, Some(program), format!("can only be planned yet: {why}"))
        }
        (Err(error), starts) => match elsewhere() {
            Some(program) => {
                let directory = program.parent().map(|dir| dir.display().to_string()).unwrap_or_default();
                let message = format!("is out of a child's reach: its PATH is {path}");
                let fix = Some(format!("add `paths: {{path: [{directory}]}}` to the policy"));
                Runtime { fix, ..runtime(Availability::OutOfReach, Some(program), message) }
            }
            None => {
                let planned = if *starts == Starts::Yes { "" } else { "; it can only be planned yet" };
                runtime(Availability::Missing, None, format!("was not found: {error}{planned}"))
            }
        },
    }
}

/// The variables of these runtimes that are set here, and those that are not, sorted.
pub(super) fn keys(runtimes: &[Runtime]) -> (Vec<String>, Vec<String>) {
    let known: BTreeSet<&String> = runtimes.iter().flat_map(|runtime| &runtime.keys).collect();
    known.into_iter().cloned().partition(|key| is_set(key))
}

/// Whether a variable is set to something.
pub(super) fn is_set(name: &str) -> bool {
    host::env_var(name).is_some_and(|value| !value.is_empty())
}
