//! What a definition lets its child use, after the operator's overlay.

use depute_ledger::Digest;

use crate::capability::{CapabilitySet, Subsumption};
use crate::definition::{Ceiling, Definition};
use crate::diagnostic::Problem;
use crate::policy::Policy;

/// The ceiling of `use`; nothing where the file declares none and no overlay speaks for these bytes,
/// and where the overlays for its name speak for other bytes: what bounded it is void.
///
/// An overlay narrows what is declared and never adds to it. What the file's restrictive keys take
/// away stays away, also where the policy's subsumption rows would give it back.
#[must_use]
pub fn ceiling(policy: &Policy, definition: &Definition, tree: &Digest) -> Option<CapabilitySet> {
    let overlay = policy.overlay(definition.name(), tree);
    let allowed = match (definition.ceiling(), overlay) {
        (_, None) if policy.voided_overlay(definition.name(), tree).is_some() => return None,
        (Ceiling::Declared(declared), None) => declared.clone(),
        (Ceiling::Declared(declared), Some(overlay)) => declared.meet(&overlay.uses, &Subsumption::none()),
        (Ceiling::Undeclared(_), Some(overlay)) => overlay.uses.clone(),
        (Ceiling::Undeclared(_), None) => return None,
    };
    Some(definition.without_removed(&allowed, &policy.subsumption()))
}

/// What is wrong with a definition that has no ceiling, in words that follow its name.
#[must_use]
pub fn undeclared(policy: &Policy, definition: &Definition, tree: &Digest) -> Problem {
    let (problem, what) = match definition.ceiling() {
        Ceiling::Undeclared(undeclared) => {
            (undeclared.problem.clone(), "declares no tools, and the overlay for it")
        }
        Ceiling::Declared(_) => {
            let problem = Problem::new("undeclared", definition.ceiling_span(), "declares no tools");
            (problem, "declares tools, but the overlay that bounds it")
        }
    };
    if policy.voided_overlay(definition.name(), tree).is_none() {
        return problem;
    }
    let message = format!("{what} is void since the file has changed");
    Problem::new("void-overlay", problem.span, message)
        .fix("look at what has changed, then put the new digest into the overlay")
}
