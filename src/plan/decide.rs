//! The order of checks. The first failure decides; nothing later is looked at.

use depute_ledger::Digest;

use crate::capability::{
    AskedId, Bound, Capability, CapabilitySet, Cover, Kind, Subsumption, WorkspaceId, resolve, vocabulary,
};
use crate::definition::{Ceiling, Definition};
use crate::policy::{DelegateCeiling, Policy, Quota};
use crate::runtime::{EnvValue, Launch, NodePaths};

use super::ceiling::ceiling;
use super::decision::{Budget, Considered, Decision, Digests, Hold, Plan, Refused};
use super::enforcement::{self, Enforcement, Enforcer};
use super::refusal::{Code, Refusal};
use super::request::{AskedDelegate, AskedUse, MAX_IDS, MAX_TASK, Request, Subject};
use super::situation::{Approval, DefinitionFact, Scope, Situation};

/// Decides one request.
pub fn decide(policy: &Policy, request: &Request, situation: &Situation) -> Decision {
    let mut judge = Judge {
        policy,
        request,
        situation,
        table: policy.subsumption(),
        considered: Considered {
            runtime: situation.profile.runtime.clone(),
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
    table: Subsumption,
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
        self.everything_has_an_enforcer()?; // 14
        let (launch, argv) = self.launch_can_be_made(definition)?;
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
            argv,
            prepared: paths.prepared(),
            paths,
            body: definition.map(|definition| definition.body().to_vec()).unwrap_or_default(),
            budget,
            considered: self.considered.clone(),
        })))
    }

    fn request_is_well_formed(&mut self) -> Check {
        if let AskedUse::Exactly(ids) = &self.request.uses {
            self.considered.asked.clone_from(ids);
        }
        if let AskedDelegate::Exactly(ids) = &self.request.delegate {
            self.considered.asked_delegate = Some(ids.clone());
        }
        let most =
            self.considered.asked.len().max(self.considered.asked_delegate.as_ref().map_or(0, Vec::len));
        if most > MAX_IDS {
            return refuse(
                Refusal::new(
                    Code::RequestMalformed,
                    format!("the request lists {most} ids, and at most {MAX_IDS} are read"),
                    "ask for fewer ids",
                )
                .number("ids", most as u64)
                .number("limit", MAX_IDS as u64),
            );
        }
        if let Some(model) = self.request.model.as_deref().filter(|model| !is_plain_name(model)) {
            return refuse(Refusal::new(
                Code::RequestMalformed,
                format!("a model of {} bytes is asked for that is no name of one", model.len()),
                "name it as the runtime does, such as `provider/model`",
            ));
        }
        if self.request.task.nul {
            return refuse(Refusal::new(
                Code::RequestMalformed,
                "the task holds a NUL byte, which no program's input is expected to carry",
                "remove it from the task",
            ));
        }
        if self.request.task.bytes > MAX_TASK {
            return refuse(
                Refusal::new(
                    Code::RequestMalformed,
                    format!("the task is longer than {MAX_TASK} bytes"),
                    "put the material into a file of the workspace and name it in the task",
                )
                .number("limit", MAX_TASK),
            );
        }
        self.workspace_id()?;
        match self.request.subject {
            Subject::Inline if !self.policy.inline => refuse(Refusal::new(
                Code::RequestMalformed,
                "a tool list without a definition is asked for, and the policy does not allow that",
                "name a definition, or the operator sets `inline: true` in the policy",
            )),
            Subject::Inline if self.request.uses == AskedUse::WholeCeiling => refuse(Refusal::new(
                Code::RequestMalformed,
                "a request without a definition has to say what it asks for",
                "add `--use`",
            )),
            Subject::Inline | Subject::Definition(_) => Ok(()),
        }
    }

    /// The workspace that is asked for, as an authority.
    fn workspace_id(&self) -> Check<Option<Capability>> {
        let Some(workspace) = &self.request.workspace else { return Ok(None) };
        match WorkspaceId::parse(workspace) {
            Ok(id) => Ok(Some(Kind::Workspace(id).into())),
            Err(error) => refuse(
                Refusal::new(
                    Code::RequestMalformed,
                    format!("`{workspace}` is no id of a workspace: it {error}"),
                    "name a registered workspace",
                )
                .about([workspace]),
            ),
        }
    }

    fn depth_is_left(&self) -> Check {
        let (depth, limit) = (self.situation.facts.node.depth, self.policy.limits.depth);
        if depth <= limit {
            return Ok(());
        }
        refuse(
            Refusal::new(
                Code::DepthExceeded,
                format!("the child would stand at depth {depth}, and the policy allows {limit}"),
                self.policy_fix("limits", &format!("raises `depth` to {depth}")),
            )
            .number("depth", depth.into())
            .number("limit", limit.into()),
        )
    }

    fn task_is_present(&self) -> Check {
        if !self.request.task.blank {
            return Ok(());
        }
        refuse(Refusal::new(
            Code::TaskMissing,
            "the request has no task",
            "add `--task TEXT`, or `--task-file FILE`",
        ))
    }

    /// Also gives what the one who asks may hand down into that workspace: a path scope belongs to
    /// the workspace it was granted for.
    fn workspace_may_be_routed_to(&self) -> Check<CapabilitySet> {
        let held = &self.situation.facts.holder.delegate;
        let (Some(workspace), Some(capability)) = (&self.request.workspace, self.workspace_id()?) else {
            return Ok(held.clone());
        };
        if !self.situation.facts.workspaces.contains(workspace) {
            return refuse(
                Refusal::new(
                    Code::WorkspaceNotRegistered,
                    format!("no workspace `{workspace}` is registered"),
                    "leave `--workspace` out to work where the parent works",
                )
                .about([&capability])
                .near(near(workspace, self.situation.facts.workspaces.iter())),
            );
        }
        if held.covers(&capability, &self.table) == Cover::No {
            return refuse(
                Refusal::new(
                    Code::WorkspaceNotAuthorized,
                    format!("`{capability}` is not held, so no child is routed there"),
                    self.grant_fix([&capability]),
                )
                .about([&capability]),
            );
        }
        Ok(held.filtered(|id| !id.has_path_scope()))
    }

    fn definition_is_known_and_authorised(&mut self) -> Check<Option<&'a Definition>> {
        let Subject::Definition(reference) = &self.request.subject else {
            return Ok(None);
        };
        let name = &reference.name;
        let (origin, trusted) = match &self.situation.facts.definition {
            DefinitionFact::Unknown { near } => {
                // Nothing is said of definitions that the one who asks may not spawn.
                let near: Vec<String> = near.iter().filter(|name| self.may_spawn(name)).cloned().collect();
                let fix = match near.first() {
                    Some(first) => format!("did you mean `{first}`?"),
                    None => "put it into `.claude/skills/NAME/SKILL.md` or `.claude/agents/NAME.md`, or name its root in the policy".to_owned(),
                };
                return refuse(
                    Refusal::new(
                        Code::UnknownDefinition,
                        format!("no definition `{reference}` is in force here"),
                        fix,
                    )
                    .near(near),
                );
            }
            DefinitionFact::Ambiguous { places } => {
                let refusal = Refusal::new(
                    Code::UnknownDefinition,
                    format!("`{reference}` names {} definitions, none before the other", places.len()),
                    "ask for one of them by its path",
                );
                let spawnable = self.may_spawn(&name.to_string());
                return refuse(if spawnable { refusal.near(places.clone()) } else { refusal });
            }
            // A situation that does not fit its request grants nothing.
            DefinitionFact::Inline => {
                return refuse(Refusal::new(
                    Code::UnknownDefinition,
                    format!("nobody has looked for the definition `{reference}`"),
                    "this is a defect of the program that asked; report it",
                ));
            }
            DefinitionFact::Unreadable { origin, trusted, .. } => (*origin, *trusted),
            DefinitionFact::Read { origin, trusted, .. } => (*origin, *trusted),
        };
        let authority = Situation::agent_id(name);
        if self.situation.facts.holder.uses.covers(&authority, &self.table) == Cover::No {
            return refuse(
                Refusal::new(
                    Code::DefinitionNotAuthorized,
                    format!("`{authority}` is not held, so `{name}` may not be spawned"),
                    self.grant_fix([&authority]),
                )
                .about([&authority]),
            );
        }
        if !trusted {
            return refuse(Refusal::new(
                Code::DefinitionNotTrusted,
                format!("`{name}` comes from the {}, which is not trusted", origin.as_str()),
                "read the file, then run `depute trust`, or add `--trust-workspace` for this run",
            ));
        }
        Ok(self.situation.definition.as_ref())
    }

    fn may_spawn(&self, name: &str) -> bool {
        let holder = &self.situation.facts.holder.uses;
        vocabulary::agent(name).is_some_and(|id| holder.covers(&id, &self.table) != Cover::No)
    }

    fn definition_is_readable_and_declared(&mut self, definition: Option<&Definition>) -> Check<Ceilings> {
        if let DefinitionFact::Unreadable { message, fix, .. } = &self.situation.facts.definition {
            let fix = fix.clone().unwrap_or_else(|| "run `depute check` on the file".to_owned());
            return refuse(Refusal::new(Code::DefinitionUnreadable, message.clone(), fix));
        }
        let (DefinitionFact::Read { tree, place, .. }, Some(definition)) =
            (&self.situation.facts.definition, definition)
        else {
            if self.request.subject != Subject::Inline {
                return refuse(Refusal::new(
                    Code::DefinitionUnreadable,
                    "the definition is known, and its bytes are not at hand",
                    "this is a defect of the program that asked; report it",
                ));
            }
            // Inline: what is asked is the ceiling, and nothing bounds it but the parent.
            let asked = self.considered.asked.iter();
            let uses = asked
                .filter_map(|id| if let AskedId::Id(id) = id { Some(id.clone()) } else { None })
                .collect();
            return Ok(Ceilings { uses, delegate: DelegateCeiling::Unstated });
        };
        self.considered.digests.tree = Some(*tree);
        self.considered.digests.body = Some(definition.body_digest());
        let overlay = self.policy.overlay(definition.name(), tree);
        let Some(uses) = ceiling(self.policy, definition, tree) else {
            let voided = self.policy.voided_overlay(definition.name(), tree).is_some();
            return refuse(undeclared(definition, place, voided));
        };
        let delegate = overlay.map_or(DelegateCeiling::Unstated, |overlay| overlay.delegate.clone());
        self.considered.ceiling = Some(uses.clone());
        Ok(Ceilings { uses, delegate })
    }

    /// Without a `use` of its own a request asks for the whole ceiling.
    fn say_what_is_asked(&mut self, ceilings: &Ceilings) {
        if self.request.uses == AskedUse::WholeCeiling {
            self.considered.asked = ceilings.uses.iter().cloned().map(AskedId::Id).collect();
        }
    }

    fn asked_ids(&self) -> impl Iterator<Item = &Capability> {
        self.considered.asked.iter().filter_map(|id| if let AskedId::Id(id) = id { Some(id) } else { None })
    }

    fn every_id_is_expressible(&self) -> Check {
        let profile = &self.situation.profile;
        for id in self.asked_ids() {
            if let Kind::Tool(name, _) = id.kind()
                && profile.tool(name).is_none()
                && !vocabulary::is_neutral(name)
            {
                let hint = vocabulary::nearest(name);
                let fix = match &hint {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "name a tool that some runtime has, or ask for less with `--use`".to_owned(),
                };
                let near = hint.into_iter().map(|near| near.to_string()).collect();
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

    fn nothing_uninheritable_is_handed_down(&self) -> Check {
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

    fn nothing_is_denied(&mut self, held: &CapabilitySet, ceilings: &Ceilings) -> Check {
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
            let malformed =
                self.considered.asked.iter().find_map(|id| id.error().map(|error| format!("`{id}` {error}")));
            let fix = match malformed {
                Some(why) => format!("correct it: {why}"),
                None => self.grant_fix(&denied),
            };
            self.considered.denied.clone_from(&denied);
            return refuse(
                Refusal::new(
                    Code::CapabilityEscalation,
                    format!(
                        "{list} {} asked for, and the one who asks may not hand {} down",
                        is_are(&denied),
                        it_them(&denied)
                    ),
                    fix,
                )
                .about(&denied),
            );
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

    fn nothing_is_universal(&self) -> Check {
        let universal = self.policy.universal();
        let granted = self.considered.effective.union(&self.considered.delegate);
        let confers = |id: &Capability| {
            universal.contains(&id.unscoped())
                || universal.iter().any(|all| id.covers(all, &self.table) != Cover::No)
        };
        match granted.iter().find(|id| confers(id)) {
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

    fn what_is_implied_is_covered(&self, held: &CapabilitySet) -> Check {
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

    fn everything_has_an_enforcer(&mut self) -> Check {
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
        let entries: Vec<String> =
            ids.iter().map(|id| format!("{{id: {id}, as: advisory, why: …}}")).collect();
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

    fn launch_can_be_made(&mut self, definition: Option<&Definition>) -> Check<(Launch, Digest)> {
        let profile = &self.situation.profile;
        let stated = self
            .request
            .model
            .as_deref()
            .or_else(|| definition.and_then(Definition::model).filter(|model| *model != "inherit"));
        let model = stated.or_else(|| self.policy.default_model.as_deref().filter(|_| profile.takes_model()));
        self.considered.model = model.map(str::to_owned);
        let passed: Vec<String> = self.policy.env.iter().cloned().collect();
        let make = |paths: &NodePaths| {
            profile.launch(&self.considered.effective, model, &passed, &self.policy.paths.path, paths).map_err(|reason| {
                let fix = if profile.takes_model() {
                    "name a model with `--model` in the form that the runtime takes, or another runtime with `--runtime`"
                } else {
                    "leave the model out of the request and of the definition, or name another runtime with `--runtime`"
                };
                Box::new(Refusal::new(Code::NotExpressible, reason, fix))
            })
        };
        let launch = make(&self.situation.facts.paths)?;
        let shape = make(&NodePaths {
            private: "<node>".into(),
            workspace: "<workspace>".into(),
            itself: "<depute>".into(),
        })?;
        let argv = digest_of(&shape.argv);
        self.considered.digests.argv = Some(argv);
        self.considered.digests.plan = Some(self.plan_digest(&shape));
        self.considered.launch = Some(launch.clone());
        Ok((launch, argv))
    }

    /// Covers definition, grant, argv shape, workspace, budget and task; leaves out ids, times and
    /// private paths, so that the same request gives the same digest tomorrow.
    fn plan_digest(&self, shape: &Launch) -> Digest {
        #[derive(serde::Serialize)]
        struct Shape<'s> {
            subject: String,
            tree: Option<Digest>,
            body: Option<Digest>,
            effective: &'s CapabilitySet,
            delegate: &'s CapabilitySet,
            runtime: &'s str,
            model: Option<&'s str>,
            argv: &'s [String],
            env: Vec<(&'s str, Option<&'s str>)>,
            workspace: &'s str,
            deadline_ms: Option<u64>,
            limits: &'s crate::policy::Limits,
            task: Option<depute_ledger::KeyedDigest>,
        }
        digest_of(&Shape {
            subject: self.situation.subject(),
            tree: self.considered.digests.tree,
            body: self.considered.digests.body,
            effective: &self.considered.effective,
            delegate: &self.considered.delegate,
            runtime: &self.considered.runtime,
            model: self.considered.model.as_deref(),
            argv: &shape.argv,
            env: shape
                .env
                .iter()
                .map(|(name, value)| {
                    let value = if let EnvValue::Set(value) = value { Some(value.as_str()) } else { None };
                    (name.as_str(), value)
                })
                .collect(),
            workspace: &self.situation.facts.paths.workspace,
            deadline_ms: self.request.budget.and_then(|budget| budget.deadline_ms),
            limits: &self.policy.limits,
            task: self.situation.facts.task_digest,
        })
    }

    /// Nothing where every gate is open; else what is missing. What waits leaves `effective`.
    fn gates_are_satisfied(&mut self) -> Option<Refusal> {
        let mut waiting: Vec<(Capability, Code)> = Vec::new();
        let gated: Vec<Capability> =
            self.considered.effective.iter().filter(|id| self.is_gated(id)).cloned().collect();
        for id in gated {
            match self.approval_for(&id) {
                Ok(approval) => self.considered.approvals.push(approval.clone()),
                Err(code) => waiting.push((id, code)),
            }
        }
        let code = waiting.iter().map(|(_, code)| *code).min()?;
        let ids: Vec<String> = waiting.iter().map(|(id, _)| id.to_string()).collect();
        self.considered.gated = waiting.into_iter().map(|(id, _)| id).collect();
        let gated = self.considered.gated.clone();
        self.considered.effective = self.considered.effective.filtered(|id| !gated.contains(id));
        self.considered.subsumed = self.considered.subsumed.filtered(|id| !gated.contains(id));
        let list = quoted(&ids);
        let message = if code == Code::ApprovalExpired {
            format!("the yes for {list} has expired")
        } else if code == Code::ApprovalScopeMismatch {
            format!("the yes for {list} was given for another definition, file or plan")
        } else {
            format!("{list} {} for a person's yes", if ids.len() == 1 { "waits" } else { "wait" })
        };
        Some(Refusal::new(code, message, "run it at a terminal and answer the question there").about(ids))
    }

    /// Whether an id, or anything it implies here, touches a gate.
    fn is_gated(&self, id: &Capability) -> bool {
        let alone: CapabilitySet = std::iter::once(id.clone()).collect();
        let confers = self.situation.profile.implied(&alone, self.situation.facts.tier, &self.table);
        self.policy.gates.iter().any(|gate| confers.iter().any(|id| id.touches(gate, &self.table)))
    }

    fn approval_for(&self, id: &Capability) -> Result<&'a Approval, Code> {
        let facts = &self.situation.facts;
        let subject = self.situation.subject();
        let mut found = Code::GatedUnapproved;
        for approval in facts.approvals.iter().filter(|approval| approval.capability == *id) {
            let same_subject = approval.subject == subject && approval.tree == self.considered.digests.tree;
            let same_plan = match approval.scope {
                Scope::Once { plan } => self.considered.digests.plan == Some(plan),
                Scope::Session => true,
                // A tool list that a model chose has no name that could be approved for ever.
                Scope::Always => self.situation.definition.is_some(),
            };
            if !same_subject || !same_plan {
                found = found.max(Code::ApprovalScopeMismatch);
            } else if approval.expires_ms.is_some_and(|end| end <= facts.now_ms) {
                found = Code::ApprovalExpired;
            } else {
                return Ok(approval);
            }
        }
        Err(found)
    }

    fn budget_is_reservable(&mut self) -> Check<Budget> {
        let (limits, used) = (&self.policy.limits, self.situation.facts.used);
        for (what, have, limit) in
            [("agents", used.agents, limits.agents), ("concurrent", used.running, limits.concurrent)]
        {
            if have >= limit {
                return refuse(
                    Refusal::new(
                        Code::FanoutExceeded,
                        format!("{have} of {limit} {what} are taken"),
                        self.policy_fix("limits", &format!("raises `{what}` above {limit}")),
                    )
                    .number(what, have.into())
                    .number("limit", limit.into()),
                );
            }
        }
        for (what, quota) in [("tokens", limits.tokens), ("usd", limits.micro_usd)] {
            if quota == Quota::AtMost(0) {
                return refuse(
                    Refusal::new(
                        Code::BudgetExceeded,
                        format!("the policy allows 0 {what}, and any child may spend some"),
                        self.policy_fix("limits", &format!("raises `{what}` above 0, or sets it to null")),
                    )
                    .number("limit", 0),
                );
            }
        }
        let left = limits.deadline_ms.saturating_sub(used.elapsed_ms).min(limits.child_deadline_ms);
        let asked = self.request.budget.and_then(|budget| budget.deadline_ms);
        let deadline_ms = asked.unwrap_or(left);
        if deadline_ms == 0 && left > 0 {
            return refuse(
                Refusal::new(
                    Code::BudgetExceeded,
                    "no time at all is asked for",
                    "leave `--deadline` out, or ask for some",
                )
                .number("asked_ms", 0)
                .number("left_ms", left),
            );
        }
        if deadline_ms > left || left == 0 {
            return refuse(
                Refusal::new(
                    Code::BudgetExceeded,
                    format!("{deadline_ms} ms are asked for, and {left} ms are left"),
                    self.policy_fix("limits", "raises `child_deadline` or `deadline`"),
                )
                .number("asked_ms", deadline_ms)
                .number("left_ms", left),
            );
        }
        let budget = Budget {
            depth: limits.depth.saturating_sub(self.situation.facts.node.depth),
            agents: limits.agents.saturating_sub(used.agents).saturating_sub(1),
            concurrent: limits.concurrent,
            deadline_ms,
        };
        self.considered.budget = Some(budget);
        Ok(budget)
    }

    fn resources_are_locatable(&self) -> Check {
        let resource = |id: &&Capability| matches!(id.kind(), Kind::Skill(_) | Kind::Ext(..));
        match self.considered.effective.iter().find(resource) {
            None => Ok(()),
            Some(id) => refuse(
                Refusal::new(
                    Code::ResourceNotFound,
                    format!("`{id}` is granted, and nothing here provides it"),
                    "ask for less with `--use`",
                )
                .about([id]),
            ),
        }
    }

    /// Where a whole ceiling is refused, names the part of it that would pass now.
    fn with_smaller_request(&self, refusal: Refusal) -> Refusal {
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

    fn grant_fix<T: ToString>(&self, ids: impl IntoIterator<Item = T>) -> String {
        let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
        self.policy_fix("grant", &format!("adds {} to `grant`", quoted(&ids)))
    }

    fn policy_fix(&self, key: &str, does: &str) -> String {
        match self.policy.line_of(key) {
            Some(line) => format!("the operator {does} (line {line} of the policy)"),
            None => format!("the operator {does} in the policy"),
        }
    }
}

fn undeclared(definition: &Definition, place: &str, overlay_is_void: bool) -> Refusal {
    let name = definition.name();
    let (message, fix) = match definition.ceiling() {
        _ if overlay_is_void => (
            format!("`{name}` declares no tools, and the overlay for it is void since the file has changed"),
            "look at what has changed, then put the new digest into the overlay".to_owned(),
        ),
        Ceiling::Undeclared(undeclared) => {
            let fix = undeclared.problem.fix.clone().unwrap_or_else(|| "declare its tools".to_owned());
            (format!("`{name}` {}", undeclared.problem.message), format!("in {place}: {fix}"))
        }
        Ceiling::Declared(_) => (format!("`{name}` declares no tools"), "declare its tools".to_owned()),
    };
    Refusal::new(Code::UndeclaredTools, message, fix)
}

fn digest_of(value: &impl serde::Serialize) -> Digest {
    #[expect(clippy::expect_used, reason = "structs of strings and numbers always encode")]
    Digest::of(&serde_json::to_vec(value).expect("no map keys, no failing impls"))
}

fn near<'n>(word: &str, names: impl Iterator<Item = &'n String>) -> Vec<String> {
    crate::nearest::nearest_all(word, names.map(String::as_str)).into_iter().map(str::to_owned).collect()
}

fn quoted(ids: &[String]) -> String {
    let quoted: Vec<String> = ids.iter().map(|id| format!("`{id}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn is_are(ids: &[String]) -> &'static str {
    if ids.len() == 1 { "is" } else { "are" }
}

fn it_them(ids: &[String]) -> &'static str {
    if ids.len() == 1 { "it" } else { "them" }
}

/// Quoted for a shell where it needs to be, so that the printed fix can be pasted.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:,/@%+=".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// A name that a program may be told, and a record may hold.
fn is_plain_name(text: &str) -> bool {
    text.len() <= 128 && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/@".contains(c))
}
