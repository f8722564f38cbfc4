//! `--overlay`: give definitions that declare no tools a ceiling in the operator's policy.

use std::collections::BTreeSet;

use clap::ValueEnum;

use crate::broker::{policy_file, within_locks};
use crate::capability::{Capability, CapabilitySet, Subsumption};
use crate::cli::out::{Output, words};
use crate::cli::{Failure, Global};
use crate::definition::{Ceiling, Definition, MAX_FILE};
use crate::diagnostic::{Diagnostic, printable};
use crate::discover::{self, Site, read_regular};
use crate::durable;
use crate::exit::Exit;
use crate::policy::{DelegateCeiling, Overlay, Policy, with_overlays};

use super::judge::{Judge, Subject};
use super::walk::Found;
use super::{CheckArgs, consent, show};

/// The ceiling that is suggested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Suggested {
    /// No tool at all
    None,
    /// The tools that only look, less what the file takes away
    Read,
}

/// Writes the overlays. Says whether anything was written.
pub(super) fn main(
    suggested: Suggested,
    args: &CheckArgs,
    global: &Global,
    judge: &Judge,
    files: &[Found],
    out: &mut Output,
) -> Result<bool, Failure> {
    let Some(place) = policy_file(global.policy.as_deref(), judge.project())? else {
        return Err(Failure::new(Exit::Usage, "NO_POLICY", "there is no policy of yours to write to")
            .fix("`depute init` writes one for this directory, or name one by `--policy`"));
    };
    let before = read_regular(&place, MAX_FILE)?;
    let mut overlays: Vec<Overlay> = Vec::new();
    let mut seen = BTreeSet::new();
    for site in files.iter().flatten() {
        let Some(overlay) = overlay(site, suggested, judge) else { continue };
        // Copies of one definition are one.
        if !seen.insert((overlay.definition.to_string(), overlay.digest.to_hex())) {
            continue;
        }
        if !overlay.uses.is_empty() {
            let rest =
                if args.allow_widening { "" } else { ", so it is not made without `--allow-widening`" };
            let ids = words(&overlay.uses.texts());
            out.say(&format!(
                "{}: lets it use {ids}: WIDENS{rest}",
                printable(&site.path().display().to_string())
            ));
            if !args.allow_widening {
                continue;
            }
        }
        overlays.push(overlay);
    }
    if overlays.is_empty() {
        out.say("no overlay to write");
        return Ok(false);
    }
    let shown = place.display().to_string();
    let after = with_overlays(&before, &overlays)
        .map_err(|problem| Box::new(Diagnostic::new(&shown, &before, problem)))?;
    let policy =
        Policy::read(&after).map_err(|problem| Box::new(Diagnostic::new(&shown, &after, problem)))?;
    within_locks(&policy, &place, judge.project())?;
    show(&printable(&shown), &before, &after, out);
    if !consent("Write this policy?", args, out)? {
        return Ok(false);
    }
    durable::rewrite(&place, &after)?;
    out.say(&format!("wrote {} overlays", overlays.len()));
    Ok(true)
}

/// The overlay for a definition that declares nothing. Where its author perhaps meant a key to, the
/// file is to be mended instead.
fn overlay(site: &Site, suggested: Suggested, judge: &Judge) -> Option<Overlay> {
    let Subject::Definition(candidate) = judge.subject(site) else { return None };
    let (bytes, digest) = discover::load(&candidate).ok()?;
    let definition = Definition::read(bytes, candidate.kind, candidate.name).ok()?;
    let Ceiling::Undeclared(undeclared) = definition.ceiling() else { return None };
    if undeclared.problem.rule != "undeclared" || judge.has_overlay(definition.name(), &digest) {
        return None;
    }
    let uses: CapabilitySet = match suggested {
        Suggested::None => CapabilitySet::empty(),
        Suggested::Read => ["tool:read", "tool:grep", "tool:glob", "tool:ls"]
            .into_iter()
            .filter_map(|id| id.parse::<Capability>().ok())
            .collect(),
    };
    let uses = definition.without_removed(&uses, Subsumption::builtin());
    Some(Overlay { definition: definition.name().clone(), digest, uses, delegate: DelegateCeiling::Unstated })
}
