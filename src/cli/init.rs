//! `depute init`: look at what is here, and write the operator's policy for it: reading, and nothing
//! else, with what was withheld as lines to uncomment.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::broker::{Place, assemble, load_profile, runtimes, user_policy};
use crate::capability::{Capability, CapabilitySet, Cover, vocabulary};
use crate::diagnostic::printable;
use crate::discover::Catalog;
use crate::durable;
use crate::exit::Exit;
use crate::host::{self, Project};
use crate::plan::{Decision, DefinitionFact, DefinitionRef, Request, Which, ceiling, decide};
use crate::policy::{BUILTIN, Key, Policy, quoted};
use crate::runtime::{Find, Profile, Starts};

use super::Failure;
use super::output::{Output, words};

/// The tools that only look, in the order in which they are granted.
const READING: [&str; 5] = ["tool:read", "tool:grep", "tool:glob", "tool:ls", "tool:find"];

/// One definition that was found.
struct Found {
    ask: String,
    uses: Option<CapabilitySet>,
    why_not: Option<String>,
}

pub(super) fn main(out: &mut Output) -> Result<Exit, Failure> {
    let project = Project::here()?;
    if host::is_inside_node() {
        return Err(Failure::new(
            Exit::Refused,
            "INIT_REFUSED",
            "a child does not write its operator's policy",
        )
        .fix("run it in a terminal of your own"));
    }
    if project.policy.symlink_metadata().is_ok() {
        return Err(Failure::new(
            Exit::Refused,
            "ALREADY_THERE",
            format!("`{}` is there and is not overwritten", project.policy.display()),
        )
        .fix("edit it, or remove it first"));
    }
    let user = user_policy(&project)?;
    let definitions = definitions(&read(BUILTIN)?, &project);
    let start =
        read(&format!("version: 1\ngrant: [{}, 'agent:*']\ngates: [tool:bash]\n", READING.join(", ")))?;
    let granted = user.as_ref().map_or_else(|| start.clone(), |user| start.within_locks_of(user));
    let text = policy_text(&project, &granted, &definitions, user.as_ref());
    let policy = read(&text)?;
    if user.as_ref().is_some_and(|user| policy.widening(user).is_some()) {
        return Err(Failure::new(Exit::Internal, "INTERNAL", "what was written goes beyond a lock"));
    }
    create(&project.policy, &text)?;
    report(&project, &policy, &definitions, user.as_ref(), out)?;
    Ok(Exit::Done)
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
            Found { ask: candidate.name.to_string(), uses, why_not }
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

fn policy_text(project: &Project, policy: &Policy, definitions: &[Found], user: Option<&Policy>) -> String {
    let mut text = String::new();
    let root = printable(&project.root.display().to_string());
    // Writing to a string does not fail.
    let _ = writeln!(text, "# The policy for {root}: reading, and nothing else.\nversion: 1\n");
    let locks = user.map(|user| &user.locked).filter(|locked| !locked.is_empty());
    if let Some(locked) = locks {
        let place = printable(&project.user_policy.display().to_string());
        let keys: Vec<&str> = locked.iter().map(|key| key.as_str()).collect();
        let _ = writeln!(text, "# {place} locks {}: this may not say more.\n", keys.join(", "));
    }
    let indent = grant_text(&mut text, policy);
    let held_back = withheld(definitions);
    let locked = locked_out(&held_back, policy, user);
    let open = held_back.filtered(|id| !locked.contains(id));
    if !open.is_empty() {
        let _ = writeln!(text, "# Withheld, though a definition here asks for it:");
        for id in &open {
            let _ = writeln!(text, "#{indent}- {:<27} # {}", quoted(id), meaning(id.as_str()));
        }
    }
    if !locked.is_empty() {
        let _ = writeln!(text, "# Locked by the user's policy, though a definition here asks for it:");
        for id in &locked {
            let _ = writeln!(text, "#    {:<27} # {}", quoted(id), meaning(id.as_str()));
        }
    }
    let _ = writeln!(text, "\n# What waits for a person's yes.\n{}\n", policy.key_text(Key::Gates));
    let _ = writeln!(
        text,
        "# The least that the kernel must hold. At 0 nothing in it holds: what holds is each runtime's flags.\n{}\n",
        policy.key_text(Key::Tier)
    );
    // Locked keys whose absence would say more than the lock allows.
    let has_lock = |key| locks.is_some_and(|locked| locked.contains(&key));
    for (key, says_something) in [
        (Key::Limits, has_lock(Key::Limits)),
        (Key::Overlays, !policy.overlays.is_empty()),
        (Key::Subsumption, !policy.subsumption_rows.is_empty()),
        (Key::Universal, !policy.universal_added.is_empty()),
    ] {
        if says_something {
            let _ = writeln!(text, "# As the user's policy locks it.\n{}\n", policy.key_text(key));
        }
    }
    let unheld: Vec<&Capability> = open.iter().filter(|id| id.unscoped().as_str() == "tool:bash").collect();
    if !unheld.is_empty() && !has_lock(Key::Accept) {
        let _ = writeln!(
            text,
            "# What may be granted though nothing enforces it. Say who does bound it.\n#accept:"
        );
        for id in unheld {
            let _ = writeln!(text, "#  - {{id: {}, as: advisory, why: …}}", quoted(id));
        }
    }
    text
}

/// The grant, an id a line, each with what it confers. What may be added goes below it, this far in.
fn grant_text(text: &mut String, policy: &Policy) -> &'static str {
    let grant = &policy.grant;
    if grant.uses == grant.delegate {
        ids_text(text, "", "grant", &grant.uses);
        return "  ";
    }
    let _ = writeln!(text, "grant:");
    ids_text(text, "  ", "use", &grant.uses);
    ids_text(text, "  ", "delegate", &grant.delegate);
    "    "
}

fn ids_text(text: &mut String, indent: &str, key: &str, set: &CapabilitySet) {
    let _ = writeln!(text, "{indent}{key}:{}", if set.is_empty() { " []" } else { "" });
    let known = READING.into_iter().filter_map(|id| id.parse::<Capability>().ok());
    let known: Vec<Capability> = known.filter(|id| set.contains(id)).collect();
    let others = set.iter().filter(|id| !known.contains(id));
    for id in known.iter().chain(others) {
        let _ = writeln!(text, "{indent}  - {:<28} # {}", quoted(id), meaning(id.as_str()));
    }
}

/// What of these a lock on the user's grant keeps out of this policy's.
fn locked_out(ids: &CapabilitySet, policy: &Policy, user: Option<&Policy>) -> CapabilitySet {
    let Some(user) = user.filter(|user| user.locked.contains(&Key::Grant)) else {
        return CapabilitySet::empty();
    };
    let covers = |set: &CapabilitySet, id: &Capability| set.covers(id, &user.subsumption()) != Cover::No;
    // What is added to one list for both rights has to be held by both.
    let both = policy.grant.uses == policy.grant.delegate;
    ids.filtered(|id| !covers(&user.grant.delegate, id) || both && !covers(&user.grant.uses, id))
}

fn meaning(id: &str) -> String {
    let known = |name: &str| vocabulary::TOOLS.iter().find(|(tool, _)| *tool == name).map(|(_, does)| *does);
    let tool = id.strip_prefix("tool:").map(|name| name.split('(').next().unwrap_or(name));
    match (tool, id.split_once(':')) {
        (Some("bash"), _) => {
            "run commands: confers all files and the network, and nothing bounds it at tier 0".to_owned()
        }
        (Some(name), _) => {
            known(name).map_or_else(|| "a tool that no runtime here knows".to_owned(), str::to_owned)
        }
        (None, Some(("mcp", _))) => "a tool of an MCP server".to_owned(),
        (None, Some(("skill", _))) => "load this skill".to_owned(),
        (None, Some(("agent", "*"))) => {
            "spawn any definition; each gets no more than is granted here".to_owned()
        }
        (None, Some(("agent", _))) => {
            "spawn this definition; it gets no more than is granted here".to_owned()
        }
        (None, _) => "see the README".to_owned(),
    }
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
    definitions: &[Found],
    user: Option<&Policy>,
    out: &mut Output,
) -> Result<(), Failure> {
    let mut keys = BTreeSet::new();
    let mut available = Vec::new();
    for name in runtimes() {
        let profile = load_profile(name, project)?;
        keys.extend(profile.keys.iter().filter(|key| host::env_var(key).is_some()).cloned());
        available.push(format!("{name} ({})", availability(&profile)));
    }
    let keys: Vec<String> = keys.into_iter().collect();
    let withheld = withheld(definitions).texts();
    let command = works_now(project, policy, definitions)?;
    let locked: Vec<String> =
        user.iter().flat_map(|user| &user.locked).map(|key| key.as_str().to_owned()).collect();
    if out.json {
        let found: Vec<serde_json::Value> = definitions
            .iter()
            .map(|found| serde_json::json!({ "name": found.ask, "ceiling": found.uses, "message": found.why_not }))
            .collect();
        return Ok(out.json(&serde_json::json!({
            "v": 1, "policy": project.policy, "definitions": found, "runtimes": available, "keys": keys,
            "granted": policy.grant.uses, "withheld": withheld, "locked": locked,
            "command": command,
        }))?);
    }
    let usable = definitions.iter().filter(|found| found.uses.is_some()).count();
    out.field("definitions", &format!("{} found, {usable} declare their tools", definitions.len()))?;
    for found in definitions.iter().filter(|found| found.why_not.is_some()) {
        out.field("", &format!("{}: {}", found.ask, found.why_not.as_deref().unwrap_or_default()))?;
    }
    out.field("runtimes", &available.join(", "))?;
    out.field("keys", &format!("{}; none is passed until the policy names it in `env`", words(&keys)))?;
    out.field("granted", &words(&policy.grant.uses.texts()))?;
    out.field("withheld", &words(&withheld))?;
    if !locked.is_empty() {
        out.field("locked", &format!("{}, by {}", words(&locked), project.user_policy.display()))?;
    }
    out.field("written", &project.policy.display().to_string())?;
    out.line(&format!("\nThis works now:\n\n    {command}"))?;
    Ok(())
}

fn availability(profile: &Profile) -> &'static str {
    let there = match &profile.find {
        Find::Itself => true,
        Find::At(path) => Path::new(path).exists(),
        Find::InPath(name) => host::env_var("PATH").is_some_and(|path| {
            path.to_string_lossy()
                .split(':')
                .any(|dir| dir.starts_with('/') && Path::new(dir).join(name).is_file())
        }),
    };
    match (there, &profile.starts) {
        (true, Starts::Yes) => "here",
        (true, Starts::PlannedOnly(_)) => "here, can only be planned yet",
        (false, _) => "not found",
    }
}

/// A command that is granted under the new policy: decided, not assumed.
fn works_now(project: &Project, policy: &Policy, definitions: &[Found]) -> Result<String, Failure> {
    const TASK: &str = "say hello";
    let place = Place { project: project.clone(), trust_workspace: true };
    let private = project.state.join("sessions");
    for found in definitions.iter().filter(|found| found.uses.is_some()) {
        let Ok(reference) = DefinitionRef::try_from(found.ask.clone()) else { continue };
        let request = Request::of_whole_ceiling(reference, TASK.as_bytes());
        let profile = load_profile("scripted", project)?;
        let assembled = assemble(policy, &request, profile, &place, &private, None, Vec::new())?;
        if let Decision::Granted(_) = decide(policy, &request, &assembled.situation) {
            return Ok(format!(
                "depute run {} --runtime scripted --trust-workspace --task '{TASK}'",
                found.ask
            ));
        }
    }
    Ok("depute demo".to_owned())
}
