//! Steps 9 to 14: what is asked can be told to the runtime, is held, and is held to its bounds.

use crate::capability::{AskedId, Bound, Capability, CapabilitySet, Cover, Kind, resolve, vocabulary};
use crate::kernel_spec::{KernelSpec, Place, is_at_or_below};
use crate::plan::enforcement::{self, Enforcement, Enforcer};
use crate::plan::kernel::{Fit, compile, opens, widened};
use crate::plan::refusal::{Code, Refusal};
use crate::plan::request::AskedUse;
use crate::plan::situation::PlaceFact;
use crate::policy::DelegateCeiling;
use crate::runtime::Tier;

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
            if let Err(reason) = profile.expresses(id, self.situation.facts.tier) {
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
        let parent = self.confers(held);
        let missing: Vec<String> = self
            .confers(&self.considered.effective)
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

    /// The closure of what these ids confer here.
    pub(super) fn confers(&self, ids: &CapabilitySet) -> CapabilitySet {
        let (profile, tier) = (&self.situation.profile, self.situation.facts.tier);
        let mut confers = profile.implied(ids, tier, &self.table);
        if tier > Tier::Zero {
            for wider in ids.iter().filter_map(|id| widened(id, profile)) {
                confers.insert(wider);
            }
        }
        confers
    }

    /// Returns what the kernel is to hold of the effective grant.
    pub(super) fn everything_has_an_enforcer(&mut self) -> Check<KernelSpec> {
        let (profile, facts) = (&self.situation.profile, &self.situation.facts);
        let (effective, tier) = (&self.considered.effective, facts.tier);
        let spec = compile(effective, profile, &self.policy.paths, &facts.paths, tier);
        self.considered.enforcement = enforcement::table(effective, profile, tier, self.policy);
        self.considered.spec = Some(spec.clone());
        if tier < self.policy.tier {
            let lacking = self.situation.facts.lacking.as_ref();
            return refuse(Refusal::new(
                Code::NotEnforceable,
                format!(
                    "the policy demands tier {}, and tier {} is what holds on this machine{}",
                    self.policy.tier.as_str(),
                    tier.as_str(),
                    lacking.map(|lacking| format!(": {lacking}")).unwrap_or_default()
                ),
                format!(
                    "`depute doctor` says what is missing and how to get it; or {}",
                    self.policy_fix("tier", &format!("accepts `tier: {}` by name", tier.as_str()))
                ),
            ));
        }
        if tier > Tier::Zero {
            self.every_place_is_there()?;
            self.nothing_that_is_kept_is_opened(&spec)?;
        }
        let unheld: Vec<&Enforcement> =
            self.considered.enforcement.iter().filter(|row| row.by == Enforcer::Nothing).collect();
        let Some(first) = unheld.first() else { return Ok(spec) };
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

    /// Who could write the policy, the ledger or what is trusted would decide over those that come after.
    fn nothing_that_is_kept_is_opened(&self, spec: &KernelSpec) -> Check {
        for rule in spec.paths.iter().filter(|rule| rule.access.write) {
            let (opened, fix) = match &rule.place {
                Place::System(_) | Place::Node(_) => continue,
                Place::Operator(path) => {
                    (path.clone(), self.policy_fix("paths", "names narrower places in `paths`"))
                }
                Place::Workspace(_) => (
                    spec.path_of(&rule.place),
                    "work in a directory that does not hold it, or move it with `--ledger`, `XDG_STATE_HOME` or \
                     `XDG_CONFIG_HOME`"
                        .to_owned(),
                ),
            };
            let is_within = |kept: &&String| is_at_or_below(kept, &opened) || is_at_or_below(&opened, kept);
            if let Some(kept) = self.situation.facts.kept.iter().find(is_within) {
                let message = format!(
                    "`{opened}` would be open for writing, and with it `{kept}`, where depute keeps what no node may write"
                );
                return refuse(Refusal::new(Code::NotEnforceable, message, fix));
            }
        }
        Ok(())
    }

    /// A rule of the kernel is for what is there, and for that itself, not for what a link leads to.
    fn every_place_is_there(&self) -> Check {
        let (profile, facts) = (&self.situation.profile, &self.situation.facts);
        for id in &self.considered.effective {
            let Some(opening) = opens(id, profile).filter(|opening| !opening.below.is_empty()) else {
                continue;
            };
            let below = &opening.below;
            let (is, fix) = match (facts.places.get(below), opening.fit) {
                (Some(PlaceFact::Directory), Fit::Below | Fit::Widened | Fit::Whole)
                | (Some(PlaceFact::File), Fit::File) => continue,
                (Some(PlaceFact::Directory), Fit::File) => (
                    "is a directory, and the scope names one file".to_owned(),
                    format!("ask for `{below}/**`"),
                ),
                (Some(PlaceFact::File), _) => {
                    ("is a file, and the scope names a directory".to_owned(), format!("ask for `{below}`"))
                }
                (Some(PlaceFact::Link), _) => (
                    "is a link, or lies behind one: what it leads to may be anywhere".to_owned(),
                    "ask for the place that it leads to, or put a directory there".to_owned(),
                ),
                (Some(PlaceFact::Other), _) => (
                    "is neither a file nor a directory that can be looked at".to_owned(),
                    "put a directory there".to_owned(),
                ),
                (Some(PlaceFact::Missing) | None, fit) => {
                    let kind = if fit == Fit::File { "file" } else { "directory" };
                    ("is not there".to_owned(), format!("make the {kind} first, or ask for what is there"))
                }
            };
            let message = format!("`{id}` cannot be held: `{below}` beneath the workspace {is}");
            return refuse(Refusal::new(Code::NotEnforceable, message, fix).about([id]));
        }
        Ok(())
    }
}
