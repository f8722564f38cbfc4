//! The arguments of a request, shared by `plan` and `run`.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::broker::{Place, load_policy, load_profile};
use crate::capability::{AskedId, scope};
use crate::discover::{Catalog, Site, Standing};
use crate::exit::Exit;
use crate::host::Project;
use crate::plan::{
    AskedDelegate, AskedUse, BudgetRequest, DefinitionRef, MAX_TASK, NoDefinitionRef, Request, Subject,
    TaskFacts, Which,
};
use crate::policy::{Policy, parse_duration};
use crate::runtime::Profile;

use super::{Failure, Global, ledger};

const MALFORMED: &str = "REQUEST_MALFORMED";

/// Who is asked to work, on what, with what.
#[derive(Debug, Args)]
pub(super) struct RequestArgs {
    /// The definition: its name, `name@workspace`, or its path
    #[arg(value_name = "AGENT", required_unless_present = "inline")]
    agent: Option<String>,
    /// The task
    #[arg(long, value_name = "TEXT", conflicts_with = "task_file", allow_hyphen_values = true)]
    task: Option<String>,
    /// A file with the task; `-` is standard input
    #[arg(long, value_name = "FILE")]
    task_file: Option<PathBuf>,
    /// Ask for these instead of the whole ceiling; commas between them
    #[arg(long = "use", value_name = "IDS")]
    uses: Option<Vec<String>>,
    /// What the child may hand down; commas between them
    #[arg(long, value_name = "IDS")]
    delegate: Option<Vec<String>>,
    /// The runtime to start: command, scripted or pi
    #[arg(long, value_name = "NAME")]
    runtime: Option<String>,
    /// The model, as the runtime names it
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The registered workspace to work in
    #[arg(long, value_name = "ID")]
    workspace: Option<String>,
    /// The longest it may run: `30s`, `10m`, `1h`
    #[arg(long, value_name = "TIME")]
    deadline: Option<String>,
    /// Trust the definitions of this workspace for this run
    #[arg(long)]
    trust_workspace: bool,
    /// Ask for tools without a definition, where the policy allows that
    #[arg(long, conflicts_with = "agent", requires = "uses")]
    inline: bool,
}

/// A request with all that is needed to decide it.
pub(super) struct Ready {
    pub(super) request: Request,
    pub(super) task: Vec<u8>,
    pub(super) policy: Policy,
    pub(super) policy_from: String,
    pub(super) profile: Profile,
    pub(super) place: Place,
}

impl RequestArgs {
    /// Reads the files that the arguments name.
    pub(super) fn ready(&self, global: &Global) -> Result<Ready, Failure> {
        let project = Project::here()?;
        let (policy, policy_from) = load_policy(global.policy.as_deref(), &project)?;
        let runtime = self.runtime.as_ref().or(policy.default_runtime.as_ref()).ok_or_else(|| {
            Failure::new(Exit::Invalid, MALFORMED, "no runtime is named, and the policy has no default")
                .fix("add `--runtime scripted`, `--runtime command` or `--runtime pi`")
        })?;
        let profile =
            load_profile(runtime, &project).map_err(|at| Failure { code: MALFORMED, ..at.into() })?;
        let task = self.task()?;
        let ledger = ledger::directory(None, global)?;
        let place = Place { project, ledger, trust_workspace: self.trust_workspace };
        let request = Request {
            subject: self.subject(&policy, &place)?,
            uses: match &self.uses {
                None => AskedUse::WholeCeiling,
                Some(ids) => AskedUse::Exactly(asked(ids)),
            },
            delegate: match &self.delegate {
                None => AskedDelegate::Unstated,
                Some(ids) => AskedDelegate::Exactly(asked(ids)),
            },
            workspace: self.workspace.clone(),
            runtime: self.runtime.clone(),
            model: self.model.clone(),
            budget: match &self.deadline {
                None => None,
                Some(text) => Some(BudgetRequest {
                    deadline_ms: Some(parse_duration(text).ok_or_else(|| {
                        Failure::new(Exit::Usage, "USAGE", format!("`{text}` is no time"))
                            .fix("write `500ms`, `30s`, `10m` or `1h`")
                    })?),
                }),
            },
            task: TaskFacts::of(&task),
        };
        Ok(Ready { request, task, policy, policy_from, profile, place })
    }

    fn task(&self) -> Result<Vec<u8>, Failure> {
        let mut task = Vec::new();
        match (&self.task, &self.task_file) {
            (Some(text), _) => task.extend_from_slice(text.as_bytes()),
            (None, Some(path)) if path == Path::new("-") => {
                std::io::stdin().lock().take(MAX_TASK + 1).read_to_end(&mut task)?;
            }
            (None, Some(path)) => {
                let file = std::fs::File::open(path).map_err(|error| {
                    Failure::new(
                        Exit::Invalid,
                        MALFORMED,
                        format!("the task file `{}` cannot be read: {error}", path.display()),
                    )
                    .fix("name a file that this user can read, or `-` for standard input")
                })?;
                file.take(MAX_TASK + 1).read_to_end(&mut task)?;
            }
            (None, None) => {}
        }
        Ok(task)
    }

    fn subject(&self, policy: &Policy, place: &Place) -> Result<Subject, Failure> {
        let Some(agent) = &self.agent else { return Ok(Subject::Inline) };
        let reference = if agent.contains('/') {
            by_path(agent, policy, place)
        } else {
            DefinitionRef::try_from(agent.clone())
        };
        reference
            .map(Subject::Definition)
            .map_err(|error| Failure::new(Exit::Invalid, MALFORMED, error.message).fix(error.fix))
    }
}

/// The definition at a path: the one that discovery found there, else one that is not in force.
fn by_path(agent: &str, policy: &Policy, place: &Place) -> Result<DefinitionRef, NoDefinitionRef> {
    let path = Path::new(agent);
    let catalog = Catalog::discover(policy, &place.project);
    if let Standing::InForce(candidate) = catalog.standing(&Site::of(path)) {
        let which = Which::At(candidate.path().display().to_string());
        return Ok(DefinitionRef { name: candidate.name.clone(), which });
    }
    let absolute = std::path::absolute(path).map_err(|error| NoDefinitionRef {
        message: format!("`{agent}` is no path: {error}"),
        fix: "name the file of a definition".to_owned(),
    })?;
    let named = if absolute.ends_with("SKILL.md") || absolute.ends_with("AGENT.md") {
        absolute.parent()
    } else {
        Some(absolute.as_path())
    };
    let stem = named.and_then(Path::file_stem).and_then(|stem| stem.to_str()).unwrap_or_default();
    DefinitionRef::try_from(format!("{stem}@{}", absolute.display()))
}

/// Ids as they were typed: lists separated by commas outside parentheses.
fn asked(lists: &[String]) -> Vec<AskedId> {
    let pieces = lists.iter().flat_map(|list| scope::split_outside(list, |c| c == ','));
    pieces.filter(|piece| !piece.is_empty()).map(AskedId::parse).collect()
}
