//! `depute doctor`: what this machine and each runtime can enforce, measured now, and what is wrong
//! with the operator's places. Makes nothing and changes nothing.

mod machine;
mod places;

use serde::Serialize;

use crate::broker::load_policy;
use crate::cage::{Machine, TIERS};
use crate::diagnostic::printable;
use crate::discover::Catalog;
use crate::exit::Exit;
use crate::host::{self, Project};
use crate::policy::{BUILTIN, Policy};
use crate::runtime::Tier;

use super::out::{Output, Tone};
use super::surroundings::{self, Availability, Runtime};
use super::{Failure, Global, ledger};

/// What was found of one thing.
#[derive(Serialize)]
struct Check {
    name: String,
    state: State,
    message: String,
    fix: Option<String>,
    /// How the command ends where this is its first problem.
    #[serde(skip)]
    exit: Exit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// Worth knowing; nothing is wrong.
    Note,
    /// Something would be refused, or cannot be relied on.
    Problem,
}

impl Check {
    fn new(name: impl Into<String>, state: State, exit: Exit, message: impl Into<String>) -> Self {
        Self { name: name.into(), state, message: message.into(), fix: None, exit }
    }

    fn ok(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, State::Ok, Exit::Done, message)
    }

    fn note(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, State::Note, Exit::Done, message)
    }

    fn problem(name: impl Into<String>, exit: Exit, message: impl Into<String>) -> Self {
        Self::new(name, State::Problem, exit, message)
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

pub(super) fn main(global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let project = Project::here()?;
    let machine = machine::measure()?;
    let loaded = load_policy(global.policy.as_deref(), &project);
    let mut checks = vec![places::policy(&loaded)];
    // Where the policy in force is broken, nothing is granted. What else is here is measured by the
    // built-in one, and what only the policy says is left out.
    match &loaded {
        Ok((policy, _)) => {
            checks.push(tier(policy, &machine));
            let here = surroundings::runtimes(policy, &project);
            runtimes(&here, policy, true, &mut checks);
            variables(&here, policy, &mut checks);
            checks.push(definitions(policy, &project));
        }
        Err(_) => {
            let builtin = Policy::read(BUILTIN.as_bytes())
                .map_err(|p| Failure::new(Exit::Internal, "INTERNAL", p.message))?;
            runtimes(&surroundings::runtimes(&builtin, &project), &builtin, false, &mut checks);
        }
    }
    places::policy_files(global.policy.as_deref(), &project, &mut checks);
    places::directories(&project, &mut checks);
    places::ledger(&ledger::directory(None, global)?, &project, &mut checks);
    machine::checks(&machine, &mut checks)?;
    if host::is_inside_node() {
        checks.push(Check::note("node", "this runs below a node, where nobody is asked for a yes"));
    }
    let exit = checks.iter().find(|check| check.state == State::Problem).map_or(Exit::Done, |c| c.exit);
    if out.json {
        let state = if exit == Exit::Done { State::Ok } else { State::Problem };
        out.json(&serde_json::json!({
            "v": 1, "tier": machine.tier(), "tiers": TIERS, "state": state, "checks": checks
        }))?;
    } else {
        print(&checks, out)?;
    }
    Ok(exit)
}

/// The tier that the policy demands, and what of it holds.
fn tier(policy: &Policy, machine: &Machine) -> Check {
    let (wanted, strongest) = (policy.tier.as_str(), machine.tier().as_str());
    let in_force = machine.in_force(policy.tier);
    if in_force == Tier::Zero && policy.tier == Tier::Zero {
        let check =
            Check::note("tier", "0 is in force, as the policy says: nothing in the kernel holds a child");
        return match machine.tier() {
            Tier::Zero => check,
            stronger @ (Tier::F | Tier::K | Tier::N | Tier::C) => {
                check.fix(format!("take `tier: 0` out of the policy: {} holds here", stronger.as_str()))
            }
        };
    }
    if policy.tier <= in_force {
        let message = format!("{} is in force, and up to {strongest} holds here", in_force.as_str());
        return Check::ok("tier", message);
    }
    let line = policy.line_of("tier").map(|line| format!(" (line {line})")).unwrap_or_default();
    let lacking = machine.lacks(policy.tier).map(|lacking| format!(": {lacking}")).unwrap_or_default();
    let message = format!(
        "the policy demands tier {wanted}, and tier {strongest} is what holds on this machine{lacking}, so every grant is refused",
    );
    Check::problem("tier", Exit::NotEnforceable, message).fix(format!(
        "get what the line on tier {wanted} below says is missing; or write `tier: {strongest}` in the policy{line}, if that is enough"
    ))
}

/// Each runtime, and where the policy's own says so, the one that requests get that name none.
fn runtimes(runtimes: &[Runtime], policy: &Policy, is_in_force: bool, checks: &mut Vec<Check>) {
    let default = policy.default_runtime.as_deref();
    for runtime in runtimes {
        let name = format!("runtime {}", runtime.name);
        let message = match &runtime.program {
            Some(program) => format!("{} {}", program.display(), runtime.message),
            None => runtime.message.clone(),
        };
        let is_default = default == Some(runtime.name.as_str());
        let check = match runtime.state {
            Availability::Ready => Check::ok(name, message),
            Availability::Unreadable => Check::problem(name, Exit::Invalid, message),
            _ if is_default => {
                Check::problem(name, Exit::LaunchFailed, format!("{message}; it is the policy's default"))
                    .fix("name another in `runtime: {default: …}`")
            }
            Availability::PlannedOnly | Availability::OutOfReach | Availability::Missing => {
                Check::note(name, message)
            }
        };
        checks.push(match &runtime.fix {
            Some(fix) => check.fix(fix.clone()),
            None => check,
        });
    }
    match default {
        Some(name) if runtimes.iter().all(|runtime| runtime.name != name) => checks.push(
            Check::problem(
                "runtime",
                Exit::Invalid,
                format!("the policy's default, `{name}`, is no runtime"),
            )
            .fix("name one in `runtime: {default: …}`"),
        ),
        None if is_in_force => checks.push(
            Check::note("runtime", "the policy has no default, so each request has to name one")
                .fix("add `runtime: {default: scripted}` to the policy, or `--runtime` to requests"),
        ),
        Some(_) | None => {}
    }
}

/// Variables that are set and not passed, and those that are to be passed and not set.
fn variables(runtimes: &[Runtime], policy: &Policy, checks: &mut Vec<Check>) {
    let (set, _) = surroundings::keys(runtimes);
    let kept: Vec<String> = set.into_iter().filter(|name| !policy.env.contains(name)).collect();
    let unset: Vec<String> =
        policy.env.iter().filter(|name| host::env_var(name).is_none()).cloned().collect();
    if !kept.is_empty() {
        let names = kept.join(", ");
        checks.push(
            Check::note("keys", format!("set here, and passed to no child: {names}"))
                .fix(format!("add `env: [{names}]` to the policy, if children are to have them")),
        );
    }
    if !unset.is_empty() {
        let names = unset.join(", ");
        checks.push(
            Check::note("variables", format!("passed by the policy, and not set here: {names}"))
                .fix("set them before a run, or take them out of `env`"),
        );
    }
    if kept.is_empty() && unset.is_empty() {
        checks.push(Check::ok("keys", "none is set here that the policy does not pass"));
    }
}

fn definitions(policy: &Policy, project: &Project) -> Check {
    let catalog = Catalog::discover(policy, project);
    if let Some(doubt) = catalog.doubts().next() {
        return Check::problem(
            "definitions",
            Exit::Invalid,
            format!("{doubt}, so no name that only the project has is sure"),
        )
        .fix("mend that directory, or remove it");
    }
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let found = match catalog.candidates().len() {
        0 => "none found".to_owned(),
        found => count(found, "file"),
    };
    match catalog.skipped.len() {
        0 if catalog.candidates().is_empty() => Check::ok("definitions", found),
        0 => Check::ok("definitions", format!("{found}; `depute list` says what each could do")),
        skipped => Check::note(
            "definitions",
            format!("{found}, and {} passed over; `depute list` says why", count(skipped, "path")),
        ),
    }
}

fn print(checks: &[Check], out: &mut Output) -> Result<(), Failure> {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or_default();
    for check in checks {
        let (tone, word) = match check.state {
            State::Ok => (Tone::Good, "ok"),
            State::Note => (Tone::Wait, "note"),
            State::Problem => (Tone::Bad, "problem"),
        };
        let word = out.paint(tone, &format!("{word:<8}"));
        out.line(&format!("{word} {:<width$}  {}", printable(&check.name), printable(&check.message)))?;
        if let Some(fix) = &check.fix {
            out.line(&format!("{:9}{:width$}  fix: {}", "", "", printable(fix)))?;
        }
    }
    let of = |state| checks.iter().filter(|check| check.state == state).count();
    let words = |count: usize, what: &str| match count {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    out.line(&format!("{}, {}", words(of(State::Problem), "problem"), words(of(State::Note), "note")))?;
    Ok(())
}
