//! `depute plan`: decide and print. Starts nothing, records nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::broker::assemble;
use crate::diagnostic::printable;
use crate::exit::Exit;
use crate::plan::{Decision, Digests, Request, Subject, decide};
use crate::policy::duration_text;

use super::out::{Output, Tone, words};
use super::request::{Ready, RequestArgs};
use super::{Failure, Global};

pub(super) fn main(args: &RequestArgs, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let ready = args.ready(global)?;
    // The directories of a node that will not be made.
    let private = ready.place.project.state.join("sessions").join("plan").join("1");
    let assembled = assemble(
        &ready.policy,
        &ready.request,
        ready.profile.clone(),
        &ready.place,
        &private,
        None,
        Vec::new(),
    )?;
    let decision = decide(&ready.policy, &ready.request, &assembled.situation);
    let exit = exit(&decision);
    let printed = if out.json {
        let mut value = document(&decision, &ready, &assembled.shadowed);
        // The digest covers the task under the ledger's key, and there is no ledger here.
        value.insert("digests", serde_json::json!(Digests { plan: None, ..decision.considered().digests }));
        out.json(&value).map_err(Failure::from)
    } else {
        human(&decision, &ready.request, &assembled.shadowed, out)
    };
    out.settle(printed, exit)
}

/// The exit code of a decision.
pub(super) fn exit(decision: &Decision) -> Exit {
    decision.refusal().map_or(Exit::Done, |refusal| refusal.code.disposition().exit())
}

/// The decision as the documented JSON object.
pub(super) fn document(
    decision: &Decision,
    ready: &Ready,
    shadowed: &[PathBuf],
) -> BTreeMap<&'static str, serde_json::Value> {
    use serde_json::json;
    let considered = decision.considered();
    let launch = considered.launch.as_ref();
    let shadowed: Vec<String> = shadowed.iter().map(|path| path.display().to_string()).collect();
    BTreeMap::from([
        ("v", json!(1)),
        ("verdict", json!(decision.verdict())),
        ("refusal", json!(decision.refusal())),
        ("agent", json!(agent(&ready.request))),
        ("runtime", json!(considered.runtime)),
        ("model", json!(considered.model)),
        ("tier", json!(considered.tier.as_str())),
        ("requested", json!(considered.asked)),
        ("ceiling", json!(considered.ceiling)),
        ("effective", json!(considered.effective)),
        ("delegate", json!(considered.delegate)),
        ("denied", json!(considered.denied)),
        ("clipped", json!(considered.clipped)),
        ("gated", json!(considered.gated)),
        ("subsumed", json!(considered.subsumed)),
        ("enforcement", json!(considered.enforcement)),
        ("kernel", json!(considered.spec)),
        ("argv", json!(launch.map(|launch| &launch.argv))),
        ("env", json!(launch.map(|launch| launch.env.keys().collect::<Vec<_>>()))),
        ("digests", json!(considered.digests)),
        ("budget", json!(considered.budget)),
        ("policy", json!(ready.policy_from)),
        ("shadowed", json!(shadowed)),
    ])
}

/// Whom a request is about, in a word.
fn agent(request: &Request) -> String {
    match &request.subject {
        Subject::Definition(reference) => reference.to_string(),
        Subject::Inline => "<inline>".to_owned(),
    }
}

/// The decision for a person.
pub(super) fn human(
    decision: &Decision,
    request: &Request,
    shadowed: &[PathBuf],
    out: &mut Output,
) -> Result<(), Failure> {
    let considered = decision.considered();
    let tone = match decision {
        Decision::Granted(_) => Tone::Good,
        Decision::Held(_) => Tone::Wait,
        Decision::Refused(_) => Tone::Bad,
    };
    let verdict = out.paint(tone, decision.verdict());
    let model = considered.model.as_ref().map(|model| format!(" with {model}")).unwrap_or_default();
    out.line(&format!(
        "{verdict}  {} under {}{}",
        printable(&agent(request)),
        considered.runtime,
        printable(&model)
    ))?;
    if let Some(refusal) = decision.refusal() {
        let code = out.paint(Tone::Strong, refusal.code.as_str());
        out.line(&format!("  {code} {}", printable(&refusal.message)))?;
        out.line(&format!("  fix: {}", printable(&refusal.fix)))?;
    }
    if let Some(ceiling) = &considered.ceiling {
        out.field("ceiling", &words(&ceiling.texts()))?;
    }
    if !matches!(decision, Decision::Refused(_)) {
        out.field("use", &words(&considered.effective.texts()))?;
        out.field("hand down", &words(&considered.delegate.texts()))?;
    }
    for (label, ids) in [
        ("denied", considered.denied.clone()),
        ("clipped", considered.clipped.texts()),
        ("gated", considered.gated.texts()),
        ("subsumed", considered.subsumed.texts()),
    ] {
        if !ids.is_empty() {
            out.field(label, &words(&ids))?;
        }
    }
    if !considered.enforcement.is_empty() {
        let holds = crate::cage::TIERS.iter().find(|about| about.tier == considered.tier);
        let holds = holds.map_or("", |about| about.holds);
        out.field("tier", &format!("{}: {holds}", considered.tier.as_str()))?;
    }
    for (at, row) in considered.enforcement.iter().enumerate() {
        let label = if at == 0 { "held by" } else { "" };
        out.field(label, &format!("{:<9} {:<22} {}", row.by.as_str(), row.capability, row.how))?;
    }
    if let (Decision::Granted(_) | Decision::Held(_), Some(launch)) = (decision, &considered.launch) {
        out.field("argv", &serde_json::to_string(&launch.argv)?)?;
        out.field("env", &launch.env.keys().cloned().collect::<Vec<_>>().join(" "))?;
    }
    if let Some(budget) = considered.budget {
        let text = format!(
            "{}, {} more agents in the tree, {} levels below it",
            duration_text(budget.deadline_ms),
            budget.agents,
            budget.depth
        );
        out.field("budget", &text)?;
    }
    let digests = considered.digests;
    for (label, digest) in [("policy", digests.policy), ("tree", digests.tree), ("body", digests.body)] {
        if let Some(digest) = digest {
            out.field(label, &digest.to_string())?;
        }
    }
    for path in shadowed {
        out.say(&format!("note: it goes before {}", printable(&path.display().to_string())));
    }
    Ok(())
}
