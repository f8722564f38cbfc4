//! The order of checks. The first failure decides; nothing later is looked at.
//! [`Judge::checks`] is the list; each check is in the file of its steps.

mod asked;
mod definition;
mod grant;
mod launch;
mod limits;
mod words;

use std::borrow::Cow;

use crate::capability::{AskedId, Capability, CapabilitySet, Subsumption};
use crate::policy::{DelegateCeiling, Policy};

use super::decision::{Considered, Decision, Digests, Hold, Plan, Refused};
use super::refusal::Refusal;
use super::request::{AskedUse, Request};
use super::situation::{DefinitionFact, Situation};
use words::{quoted, shell_word};

/// Decides one request. Pure: the same values always give the same decision.
pub fn decide(policy: &Policy, request: &Request, situation: &Situation) -> Decision {
    let mut judge = Judge {
        policy,
        request,
        situation,
        table: policy.subsumption(),
        considered: Considered {
            runtime: situation.profile.runtime.clone(),
            tier: situation.facts.tier,
            digests: Digests {
                policy: Some(policy.digest()),
                profile: Some(situation.profile.digest()),
                ..Digests::default()
            },
            ..Considered::default()
        },
    };
    match judge.checks() {
        Ok(Outcome::Plan(plan)) => Decision::Granted(plan),
        Ok(Outcome::Wait(refusal)) => Decision::Held(Box::new(Hold {
            considered: judge.considered,
            subject: situation.subject(),
            place: match &situation.facts.definition {
                DefinitionFact::Read { place, .. } => place.clone(),
                DefinitionFact::Unknown { .. }
                | DefinitionFact::Ambiguous { .. }
                | DefinitionFact::Unreadable { .. }
                | DefinitionFact::Inline => "no file".to_owned(),
            },
            task_bytes: request.task.bytes,
            refusal: *refusal,
        })),
        Err(refusal) => {
            let refusal = judge.with_smaller_request(*refusal);
            Decision::Refused(Box::new(Refused { considered: judge.considered, refusal }))
        }
    }
}

enum Outcome {
    Plan(Box<Plan>),
    Wait(Box<Refusal>),
}

type Check<T = ()> = Result<T, Box<Refusal>>;

fn refuse<T>(refusal: Refusal) -> Check<T> {
    Err(Box::new(refusal))
}

/// The ceilings of a definition, after the operator's overlay.
struct Ceilings {
    uses: CapabilitySet,
    delegate: DelegateCeiling,
}

struct Judge<'a> {
    policy: &'a Policy,
    request: &'a Request,
    situation: &'a Situation,
    table: Cow<'a, Subsumption>,
    considered: Considered,
}

impl<'a> Judge<'a> {
    /// The checks, in their order.
    fn checks(&mut self) -> Check<Outcome> {
        self.request_is_well_formed()?; // 1
        self.depth_is_left()?; // 2
        self.task_is_present()?; // 3
        let held = self.workspace_may_be_routed_to()?; // 4
        let definition = self.definition_is_known_and_authorised()?; // 5, 6
        let ceilings = self.definition_is_readable_and_declared(definition)?; // 7, 8
        self.say_what_is_asked(&ceilings);
        self.every_id_is_expressible()?; // 9
        self.nothing_uninheritable_is_handed_down()?; // 10
        self.nothing_is_denied(&held, &ceilings)?; // 11
        self.nothing_is_universal()?; // 12
        self.what_is_implied_is_covered(&held)?; // 13
        let spec = self.everything_has_an_enforcer()?; // 14
        let (launch, argv) = self.launch_can_be_made(definition, &spec)?;
        let gates = self.gates_are_satisfied(); // 15
        let budget = self.budget_is_reservable(); // 16
        // A hold names the budget too, but whether there is one is not what it waits for.
        if let Some(waiting) = gates {
            return Ok(Outcome::Wait(Box::new(waiting)));
        }
        let budget = budget?;
        self.resources_are_locatable()?; // 17
        let paths = self.situation.facts.paths.clone();
        Ok(Outcome::Plan(Box::new(Plan {
            subject: self.situation.subject(),
            launch,
            spec,
            argv,
            prepared: paths.prepared(),
            paths,
            body: definition.map(|definition| definition.body().to_vec()).unwrap_or_default(),
            budget,
            considered: std::mem::take(&mut self.considered),
        })))
    }
}

impl Judge<'_> {
    /// Where a whole ceiling is refused, names the part of it that would pass now.
    pub(super) fn with_smaller_request(&self, refusal: Refusal) -> Refusal {
        let step = refusal.code.step().unwrap_or(11);
        if self.request.uses != AskedUse::WholeCeiling || !(9..=14).contains(&step) {
            return refusal;
        }
        let passes = |ids: &[Capability]| {
            let uses = AskedUse::Exactly(ids.iter().cloned().map(AskedId::Id).collect());
            matches!(
                decide(self.policy, &Request { uses, ..self.request.clone() }, self.situation),
                Decision::Granted(_)
            )
        };
        // One by one, since what passes alone may not pass beside another.
        let mut fits = Vec::new();
        for id in self.asked_ids() {
            fits.push(id.clone());
            if !passes(&fits) {
                fits.pop();
            }
        }
        if fits.is_empty() {
            return refusal;
        }
        let list: Vec<&str> = fits.iter().map(Capability::as_str).collect();
        let fix = format!("`--use {}` would pass now; or {}", shell_word(&list.join(",")), refusal.fix);
        Refusal { fix, ..refusal }
    }

    pub(super) fn grant_fix<T: ToString>(&self, ids: impl IntoIterator<Item = T>) -> String {
        let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
        self.policy_fix("grant", &format!("adds {} to `grant`", quoted(&ids)))
    }

    pub(super) fn policy_fix(&self, key: &str, does: &str) -> String {
        match self.policy.line_of(key) {
            Some(line) => format!("the operator {does} (line {line} of the policy)"),
            None => format!("the operator {does} in the policy"),
        }
    }
}
