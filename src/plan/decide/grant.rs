//! Steps 9 to 14: what is asked can be told to the runtime, is held, and is held to its bounds.

use crate::capability::{AskedId, Bound, Capability, CapabilitySet, Cover, Kind, resolve, vocabulary};
use crate::plan::enforcement::{self, Enforcement, Enforcer};
use crate::plan::refusal::{Code, Refusal};
use crate::plan::request::AskedUse;
use crate::policy::DelegateCeiling;

use super::words::{is_are, it_them, quoted};
use super::{Ceilings, Check, Judge, refuse};

impl<'a> Judge<'a> {
    /// Without a `use` of its own a request asks for the whole ceiling.
    pub(super) fn say_what_is_asked(&mut self, ceilings: &Ceilings) {
        if self.request.uses == AskedUse::WholeCeiling {
            self.considered.asked = ceilings.uses.iter().cloned().map(AskedId::Id).collect();
        }
    }

    pub(super) fn asked_ids(&self) -> impl Iterator<Item = &Capability> {
        self.considered.asked.iter().filter_map(AskedId::id)
    }

    pub(super) fn every_id_is_expressible(&self) -> Check {
        let profile = &self.situation.profile;
        for id in self.asked_ids() {
            if let Kind::Tool(name, _) = id.kind()
                && profile.tool(name).is_none()
                && !vocabulary::is_neutral(name)
            {
                let near = vocabulary::nearest(name).into_iter().map(|near| near.to_string()).collect();
                let fix = vocabulary::advice(name);
                return refuse(
                    Refusal::new(Code::UnknownTool, format!("`{id}` is a tool that no runtime knows"), fix)
                        .about([id])
                        .near(near),
                );
            }
            if let Err(reason) = profile.expresses(id) {
                return refuse(
                    Refusal::new(
                        Code::NotExpressible,
                        format!("`{id}` {reason}"),
                        "ask for less with `--use`, or name another runtime with `--runtime`",
                    )
                    .about([id]),
                );
            }
        }
        Ok(())
    }

    pub(super) fn nothing_uninheritable_is_handed_down(&self) -> Check {
        let delegate = self.considered.asked_delegate.iter().flatten();
        for id in self.considered.asked.iter().chain(delegate) {
            if let AskedId::Id(id) = id
                && !id.is_inheritable()
            {
                return refuse(
                    Refusal::new(
                        Code::NotInheritable,
                        format!("`{id}` is held, and never handed down"),
                        "name what the child needs, one by one",
                    )
                    .about([id]),
                );
            }
        }
        Ok(())
    }

    pub(super) fn nothing_is_denied(&mut self, held: &CapabilitySet, ceilings: &Ceilings) -> Check {
        let uses =
            resolve(&self.considered.asked, held, Bound::Ceiling(&ceilings.uses), &self.table, |_| false);
        let bound = match &ceilings.delegate {
            DelegateCeiling::Unstated => Bound::Unbounded,
            DelegateCeiling::Stated(set) => Bound::Ceiling(set),
        };
        let mut denied: Vec<String> = uses.denied.iter().map(ToString::to_string).collect();
        let may_delegate = uses.effective.iter().any(|id| id.as_str() == "tool:delegate");
        let inherited: Vec<AskedId>;
        let asked_delegate = match &self.considered.asked_delegate {
            Some(asked) => asked,
            None => {
                inherited = uses
                    .effective
                    .iter()
                    .filter(|id| id.is_inheritable())
                    .cloned()
                    .map(AskedId::Id)
                    .collect();
                &inherited
            }
        };
        let delegate = resolve(asked_delegate, held, bound, &self.table, |_| false);
        denied.extend(delegate.denied.iter().map(ToString::to_string));
        denied.sort();
        denied.dedup();
        self.considered.effective = uses.effective;
        self.considered.clipped = uses.clipped;
        self.considered.subsumed = uses.subsumed;
        if may_delegate {
            self.considered.delegate = delegate.effective;
        } else if self.considered.asked_delegate.is_some() {
            // Without `tool:delegate` nothing can be handed down, and that is not passed over.
            self.considered.clipped = self.considered.clipped.union(&delegate.effective);
        }
        if self.considered.asked_delegate.is_some() {
            self.considered.clipped = self.considered.clipped.union(&delegate.clipped);
        }
        if !denied.is_empty() {
            let list = quoted(&denied);
            let all = self.considered.asked.iter().chain(self.considered.asked_delegate.iter().flatten());
            let (message, fix) = match all.into_iter().find_map(|id| Some((id, id.error()?))) {
                // What is no id is nobody's to give, so no rule of the policy would help.
                Some((id, error)) => {
                    (format!("`{id}` {error}, so it is no id that anyone holds"), error.fix().into())
                }
                None => (
                    format!(
                        "{list} {} asked for, and the one who asks may not hand {} down",
                        is_are(&denied),
                        it_them(&denied)
                    ),
                    self.grant_fix(&denied),
                ),
            };
            self.considered.denied.clone_from(&denied);
            return refuse(Refusal::new(Code::CapabilityEscalation, message, fix).about(&denied));
        }
        if self.considered.effective.is_empty() && !self.considered.asked.is_empty() {
            let clipped = self.considered.clipped.texts();
            return refuse(
                Refusal::new(
                    Code::NothingGranted,
                    format!(
                        "{} {} held, but the ceiling of the definition names nothing of it",
                        quoted(&clipped),
                        is_are(&clipped)
                    ),
                    "leave `--use` out to ask for the whole ceiling, or ask for what it names",
                )
                .about(&clipped),
            );
        }
        Ok(())
    }

    pub(super) fn nothing_is_universal(&self) -> Check {
        let universal = self.policy.universal();
        let mut granted = self.considered.effective.iter().chain(&self.considered.delegate);
        let confers = |id: &Capability| {
            universal.contains(&id.unscoped())
                || universal.iter().any(|all| id.covers(all, &self.table) != Cover::No)
        };
        match granted.find(|id| confers(id)) {
            None => Ok(()),
            Some(id) => refuse(
                Refusal::new(
                    Code::NarrowingViolated,
                    format!("`{id}` confers everything, so no grant that holds it is narrow"),
                    "ask for what the child needs, without it",
                )
                .about([id]),
            ),
        }
    }

    pub(super) fn what_is_implied_is_covered(&self, held: &CapabilitySet) -> Check {
        let tier = self.situation.facts.tier;
        let confers = |set: &CapabilitySet| self.situation.profile.implied(set, tier, &self.table);
        let parent = confers(held);
        let missing: Vec<String> = confers(&self.considered.effective)
            .iter()
            .filter(|id| parent.covers(id, &self.table) == Cover::No)
            .map(ToString::to_string)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        refuse(
            Refusal::new(Code::ImpliedNotHeld, format!("under `{}` at tier {} the request also confers {}, which the one who asks may not hand down", self.situation.profile.runtime, tier.as_str(), quoted(&missing)), self.grant_fix(&missing))
                .about(&missing),
        )
    }

    pub(super) fn everything_has_an_enforcer(&mut self) -> Check {
        let tier = self.situation.facts.tier;
        self.considered.enforcement =
            enforcement::table(&self.considered.effective, &self.situation.profile, tier, self.policy);
        if tier < self.policy.tier {
            return refuse(Refusal::new(
                Code::NotEnforceable,
                format!(
                    "the policy demands tier {}, and tier {} is what holds on this machine",
                    self.policy.tier.as_str(),
                    tier.as_str()
                ),
                self.policy_fix("tier", &format!("accepts `tier: {}` by name", tier.as_str())),
            ));
        }
        let unheld: Vec<&Enforcement> =
            self.considered.enforcement.iter().filter(|row| row.by == Enforcer::Nothing).collect();
        let Some(first) = unheld.first() else { return Ok(()) };
        let ids: Vec<String> = unheld.iter().map(|row| row.capability.to_string()).collect();
        let entry = |row: &&Enforcement| {
            format!("{{id: {}, as: advisory, why: …}}", crate::policy::quoted(&row.capability))
        };
        let entries: Vec<String> = unheld.iter().map(entry).collect();
        let message = format!(
            "nothing would hold {} to {} bounds: {}",
            quoted(&ids),
            if ids.len() == 1 { "its" } else { "their" },
            first.how
        );
        let fix =
            self.policy_fix("accept", &format!("accepts that by name: `accept: [{}]`", entries.join(", ")));
        refuse(Refusal::new(Code::NotEnforceable, message, fix).about(ids))
    }
}
