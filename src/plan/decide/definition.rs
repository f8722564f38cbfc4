//! Steps 5 to 8: the definition is known, may be spawned, can be read, and declares its tools.

use crate::capability::{AskedId, Cover, vocabulary};
use crate::definition::Definition;
use crate::plan::ceiling::{ceiling, undeclared};
use crate::plan::refusal::{Code, Refusal};
use crate::plan::request::Subject;
use crate::plan::situation::{DefinitionFact, Situation};
use crate::policy::DelegateCeiling;

use super::{Ceilings, Check, Judge, refuse};

impl<'a> Judge<'a> {
    pub(super) fn definition_is_known_and_authorised(&mut self) -> Check<Option<&'a Definition>> {
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

    pub(super) fn may_spawn(&self, name: &str) -> bool {
        let holder = &self.situation.facts.holder.uses;
        vocabulary::agent(name).is_some_and(|id| holder.covers(&id, &self.table) != Cover::No)
    }

    pub(super) fn definition_is_readable_and_declared(
        &mut self,
        definition: Option<&Definition>,
    ) -> Check<Ceilings> {
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
            let uses = asked.filter_map(AskedId::id).cloned().collect();
            return Ok(Ceilings { uses, delegate: DelegateCeiling::Unstated });
        };
        self.considered.digests.tree = Some(*tree);
        self.considered.digests.body = Some(definition.body_digest());
        let overlay = self.policy.overlay(definition.name(), tree);
        let Some(uses) = ceiling(self.policy, definition, tree) else {
            let problem = undeclared(self.policy, definition, tree);
            let fix = problem.fix.unwrap_or_else(|| "declare its tools".to_owned());
            let message = format!("`{}` {}", definition.name(), problem.message);
            return refuse(Refusal::new(Code::UndeclaredTools, message, format!("in {place}: {fix}")));
        };
        let delegate = overlay.map_or(DelegateCeiling::Unstated, |overlay| overlay.delegate.clone());
        self.considered.ceiling = Some(uses.clone());
        Ok(Ceilings { uses, delegate })
    }
}
