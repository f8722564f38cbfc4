//! `depute init`: look at what is here, and write the operator's policy for it: reading, and nothing
//! else, with what was withheld as lines to uncomment.

mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::broker::{Place, assemble, load_profile, user_policy};
use crate::capability::{AskedId, Capability, CapabilitySet};
use crate::definition::Definition;
use crate::discover::Catalog;
use crate::durable;
use crate::exit::Exit;
use crate::host::Project;
use crate::plan::{AskedUse, Decision, DefinitionFact, DefinitionRef, Request, Which, ceiling, decide};
use crate::policy::{BUILTIN, Policy};

use super::Failure;
use super::out::{Output, words};
use super::surroundings::{self, Availability, MODEL_VARIABLES, Runtime};
use text::policy_text;

/// The tools that only look, in the order in which they are granted.
const READING: [&str; 5] = ["tool:read", "tool:grep", "tool:glob", "tool:ls", "tool:find"];

/// One definition that was found.
struct Found {
    ask: String,
    uses: Option<CapabilitySet>,
    /// The model that it names.
    model: Option<String>,
    why_not: Option<String>,
}

/// What was found here for children.
struct Here {
    definitions: Vec<Found>,
    runtimes: Vec<Runtime>,
    /// Variables with keys that some runtime reads: those that are set, and those that are not.
    keys: (Vec<String>, Vec<String>),
    /// Variables that are set and name a model to some runtime.
    model_variables: Vec<&'static str>,
}

pub(super) fn main(out: &mut Output) -> Result<Exit, Failure> {
    let project = Project::here()?;
    Failure::unless_operator("INIT_REFUSED", "a child does not write its operator's policy")?;
    if project.policy.symlink_metadata().is_ok() {
        return Err(Failure::new(
            Exit::Refused,
            "ALREADY_THERE",
            format!("`{}` is there and is not overwritten", project.policy.display()),
        )
        .fix("edit it, or remove it first"));
    }
    let user = user_policy(&project)?;
    let start =
        read(&format!("version: 1\ngrant: [{}, 'agent:*']\ngates: [tool:bash]\n", READING.join(", ")))?;
    let granted = user.as_ref().map_or_else(|| start.clone(), |user| start.within_locks_of(user));
    let here = look(&project)?;
    let text = policy_text(&project, &granted, &here.definitions, &here.keys.0, user.as_ref());
    let policy = read(&text)?;
    if user.as_ref().is_some_and(|user| policy.widening(user).is_some()) {
        return Err(Failure::new(Exit::Internal, "INTERNAL", "what was written goes beyond a lock"));
    }
    let command = works_now(&project, &policy, &here.definitions)?;
    create(&project.policy, &text)?;
    report(&project, &policy, &here, user.as_ref(), &command, out)?;
    Ok(Exit::Done)
}

fn look(project: &Project) -> Result<Here, Failure> {
    let builtin = read(BUILTIN)?;
    let runtimes = surroundings::runtimes(&builtin, project);
    Ok(Here {
        definitions: definitions(&builtin, project),
        keys: surroundings::keys(&runtimes),
        model_variables: MODEL_VARIABLES.into_iter().filter(|name| surroundings::is_set(name)).collect(),
        runtimes,
    })
}

/// A policy of our own making.
fn read(text: &str) -> Result<Policy, Failure> {
    Policy::read(text.as_bytes()).map_err(|p| Failure::new(Exit::Internal, "INTERNAL", p.message))
}

/// Every definition here, with what it would use if it were asked for.
fn definitions(policy: &Policy, project: &Project) -> Vec<Found> {
    let catalog = Catalog::discover(policy, project);
    let mut seen = BTreeSet::new();
    catalog
        .candidates()
        .iter()
        .filter(|candidate| seen.insert(candidate.name.clone()))
        .map(|candidate| {
            let reference = DefinitionRef { name: candidate.name.clone(), which: Which::Nearest };
            let found = catalog.find(&reference, true);
            let uses = match (&found.fact, &found.definition) {
                (DefinitionFact::Read { tree, .. }, Some(definition)) => ceiling(policy, definition, tree),
                _ => None,
            };
            let why_not = if let DefinitionFact::Unreadable { message, .. } = &found.fact {
                Some(message.clone())
            } else if let DefinitionFact::Ambiguous { .. } = &found.fact {
                Some("names several; ask for one by its path".to_owned())
            } else {
                uses.is_none().then(|| "declares no tools".to_owned())
            };
            let model = found.definition.as_ref().and_then(Definition::model);
            let model = model.filter(|model| *model != "inherit").map(str::to_owned);
            Found { ask: candidate.name.to_string(), uses, model, why_not }
        })
        .collect()
}

fn is_reading(id: &Capability) -> bool {
    READING.contains(&id.unscoped().as_str())
}

/// What the definitions here declare beyond reading.
fn withheld(definitions: &[Found]) -> CapabilitySet {
    definitions
        .iter()
        .filter_map(|found| found.uses.as_ref())
        .flatten()
        .filter(|id| !is_reading(id) && !id.as_str().starts_with("agent:"))
        .cloned()
        .collect()
}

/// Writes the policy where nothing is yet.
fn create(place: &Path, text: &str) -> Result<(), Failure> {
    let directory = place.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    durable::create(place, text.as_bytes())?;
    Ok(())
}

fn report(
    project: &Project,
    policy: &Policy,
    here: &Here,
    user: Option<&Policy>,
    command: &str,
    out: &mut Output,
) -> Result<(), Failure> {
    let Here { definitions, runtimes, keys, .. } = here;
    let withheld = withheld(definitions).texts();
    let locked: Vec<String> =
        user.iter().flat_map(|user| &user.locked).map(|key| key.as_str().to_owned()).collect();
    if out.json {
        let found: Vec<serde_json::Value> = definitions
            .iter()
            .map(|found| serde_json::json!({ "name": found.ask, "ceiling": found.uses, "message": found.why_not }))
            .collect();
        let named = definitions
            .iter()
            .filter(|found| found.model.is_some())
            .map(|found| serde_json::json!({ "model": found.model, "from": found.ask }));
        let variables = here.model_variables.iter();
        let variables = variables.map(|name| serde_json::json!({ "model": null, "from": name }));
        let models: Vec<serde_json::Value> = named.chain(variables).collect();
        return Ok(out.json(&serde_json::json!({
            "v": 1, "policy": project.policy, "definitions": found, "runtimes": runtimes, "models": models,
            "keys": keys.0, "granted": policy.grant.uses, "withheld": withheld, "locked": locked,
            "command": command,
        }))?);
    }
    let usable = definitions.iter().filter(|found| found.uses.is_some()).count();
    out.field(
        "definitions",
        &match definitions.len() {
            0 => "none found, of the project or of the user".to_owned(),
            found => format!("{found} found, {usable} declare their tools"),
        },
    )?;
    for found in definitions.iter().filter(|found| found.why_not.is_some()) {
        out.field("", &format!("{}: {}", found.ask, found.why_not.as_deref().unwrap_or_default()))?;
    }
    out.field("runtimes", &words(&runtimes.iter().map(Runtime::in_short).collect::<Vec<_>>()))?;
    for runtime in runtimes {
        if let Some(fix) = &runtime.fix {
            out.field("", &format!("{} {}; {fix}", runtime.name, runtime.message))?;
        }
    }
    out.field("models", &models(here))?;
    out.field(
        "keys",
        &match keys {
            (set, _) if !set.is_empty() => {
                format!("{}; none is passed until the policy names it in `env`", set.join(", "))
            }
            (_, unset) => format!("none found: {}", not_set(unset)),
        },
    )?;
    out.field("granted", &words(&policy.grant.uses.texts()))?;
    out.field("withheld", &words(&withheld))?;
    if !locked.is_empty() {
        out.field("locked", &format!("{}, by {}", words(&locked), project.user_policy.display()))?;
    }
    out.field("written", &project.policy.display().to_string())?;
    out.line(&format!("\nThis works now:\n\n    {command}"))?;
    Ok(())
}

/// Which models are named here, and by whom. Nobody is asked which there are.
fn models(here: &Here) -> String {
    let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for found in &here.definitions {
        if let Some(model) = &found.model {
            named.entry(model).or_default().push(&found.ask);
        }
    }
    let named = named.into_iter().map(|(model, by)| format!("{model} (by {})", by.join(", ")));
    let variables = here.model_variables.iter().map(|name| format!("what {name} says"));
    let found: Vec<String> = named.chain(variables).collect();
    let found = if found.is_empty() {
        let variables = MODEL_VARIABLES.map(str::to_owned);
        format!("none found: no definition names one, and {}", not_set(&variables))
    } else {
        found.join(", ")
    };
    let ready = |runtime: &&Runtime| runtime.state == Availability::Ready && runtime.takes_model;
    match here.runtimes.iter().find(ready) {
        Some(_) => found,
        None => format!("{found}; no runtime that can be started takes one"),
    }
}

fn not_set(names: &[String]) -> String {
    match names {
        [] => "no runtime here reads any".to_owned(),
        [name] => format!("{name} is not set"),
        names => format!("none of {} is set", names.join(", ")),
    }
}

/// A command that is granted under the new policy: decided, not assumed.
fn works_now(project: &Project, policy: &Policy, definitions: &[Found]) -> Result<String, Failure> {
    const TASK: &str = "say hello";
    let ledger = project.state.join("ledger");
    let place = Place { project: project.clone(), ledger, trust_workspace: true };
    let private = project.state.join("sessions");
    let granted = |request: &Request| -> Result<bool, Failure> {
        let profile = load_profile("scripted", project)?;
        let assembled = assemble(policy, request, profile, &place, &private, None, Vec::new())?;
        Ok(matches!(decide(policy, request, &assembled.situation), Decision::Granted(_)))
    };
    // A definition's whole ceiling, else what only reads of one.
    for only_reading in [false, true] {
        for found in definitions {
            let (Some(uses), Ok(reference)) = (&found.uses, DefinitionRef::try_from(found.ask.clone()))
            else {
                continue;
            };
            let mut request = Request::of_whole_ceiling(reference, TASK.as_bytes());
            let mut narrowed = String::new();
            if only_reading {
                let reading = uses.filtered(|id| is_reading(id) && *id == id.unscoped());
                if reading.is_empty() {
                    continue;
                }
                narrowed = format!(" --use {}", reading.texts().join(","));
                request.uses = AskedUse::Exactly(reading.iter().cloned().map(AskedId::Id).collect());
            }
            if granted(&request)? {
                let agent = &found.ask;
                return Ok(format!(
                    "depute run {agent}{narrowed} --runtime scripted --trust-workspace --task '{TASK}'"
                ));
            }
        }
    }
    Ok("depute demo".to_owned())
}
