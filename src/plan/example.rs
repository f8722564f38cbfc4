//! A decision on an example: what a policy says of a definition that exists only in its test.

use crate::capability::{AskedId, CapabilitySet, DefinitionName};
use crate::policy::Policy;
use crate::runtime::{NodePaths, Profile, Tier};

use super::request::{AskedDelegate, AskedUse, DefinitionRef, Request, Which};
use super::situation::{Approval, DefinitionFact, Facts, NodeFacts, Scope, Situation, Strength, Usage};
use super::{Decision, Origin, decide, places};

/// Decides what would come of a trusted definition of this name that declares exactly what is
/// asked, requested by the root, with a session's approval for each id of `approved`. It is decided for a
/// machine that has the tier which the policy demands, and at least tier K, in a workspace that has all
/// that the ids name.
pub fn example(
    policy: &Policy,
    agent: &DefinitionName,
    asked: Vec<AskedId>,
    delegate: Option<Vec<AskedId>>,
    approved: &CapabilitySet,
    profile: Profile,
    now_ms: u64,
) -> Decision {
    use crate::definition::{Definition, DefinitionKind};
    let tree = depute_ledger::Digest::of(b"an example");
    // A declaration of the ids as a flow list of quoted strings; an id that no definition can hold
    // is left out of the ceiling and denied by its own text.
    let declared: Vec<String> = asked
        .iter()
        .filter_map(AskedId::id)
        .filter(|id| !id.is_wildcard())
        .map(|id| format!("'{}'", id.as_str().replace('\'', "''")))
        .collect();
    let text =
        format!("---\ndescription: an example\nallowed-tools: [{}]\n---\nAn example.\n", declared.join(", "));
    let (definition, fact) = match Definition::read(text.into_bytes(), DefinitionKind::Skill, agent.clone()) {
        Ok(definition) => {
            let fact = DefinitionFact::Read {
                origin: Origin::Policy,
                trusted: true,
                name: agent.to_string(),
                kind: DefinitionKind::Skill,
                place: "the example".to_owned(),
                tree,
            };
            (Some(definition), fact)
        }
        Err(problem) => {
            let fact = DefinitionFact::Unreadable {
                origin: Origin::Policy,
                trusted: true,
                message: problem.message,
                fix: problem.fix,
            };
            (None, fact)
        }
    };
    let approvals = approved
        .iter()
        .map(|id| Approval {
            capability: id.clone(),
            subject: agent.to_string(),
            tree: Some(tree),
            scope: Scope::Session,
            expires_ms: None,
            approver: "the example".to_owned(),
            strength: Strength::SameUid,
        })
        .collect();
    let ids = asked.iter().filter_map(AskedId::id);
    let places = places(ids, &profile);
    let reference = DefinitionRef { name: agent.clone(), which: Which::Nearest };
    let request = Request {
        uses: AskedUse::Exactly(asked),
        delegate: delegate.map_or(AskedDelegate::Unstated, AskedDelegate::Exactly),
        ..Request::of_whole_ceiling(reference, b"an example")
    };
    let facts = Facts {
        node: NodeFacts { path: "1".to_owned(), depth: 1 },
        holder: policy.grant.clone(),
        definition: fact,
        tier: policy.tier.max(Tier::K),
        lacking: None,
        places,
        kept: Vec::new(),
        approvals,
        now_ms,
        used: Usage::default(),
        workspaces: Vec::new(),
        paths: NodePaths {
            private: "/node".to_owned(),
            workspace: "/workspace".to_owned(),
            itself: "/depute".to_owned(),
        },
        task_digest: None,
    };
    decide(policy, &request, &Situation { facts, definition, profile })
}
