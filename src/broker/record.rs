//! A decision as the ledger's record of it.

use depute_ledger::record;
use uuid::Uuid;

use crate::capability::CapabilitySet;
use crate::plan::{Considered, Decision, Enforcer, Request, Scope, Situation, Strength, Subject};

/// The body of a `decision` line.
pub(super) fn decision(
    node: Uuid,
    request: &Request,
    situation: &Situation,
    decision: &Decision,
    inputs: record::Inputs,
) -> record::Decision {
    let considered = decision.considered();
    let facts = &situation.facts;
    record::Decision {
        node,
        parent: None,
        path: facts.node.path.clone(),
        depth: facts.node.depth,
        verdict: match decision {
            Decision::Granted(_) => record::Verdict::Granted,
            Decision::Held(_) => record::Verdict::Held,
            Decision::Refused(_) => record::Verdict::Refused,
        },
        code: decision.refusal().map(|refusal| refusal.code.as_str().to_owned()),
        rule: decision.refusal().and_then(|refusal| refusal.code.step()).map(|step| format!("step {step}")),
        definition: match &request.subject {
            Subject::Definition(reference) => Some(reference.to_string()),
            Subject::Inline => None,
        },
        runtime: Some(considered.runtime.clone()),
        model: considered.model.clone(),
        workspace: request.workspace.clone(),
        task: record::TaskRef { bytes: request.task.bytes, digest: facts.task_digest },
        task_from: "command line".to_owned(),
        requested: record::GrantLists {
            r#use: considered.asked.iter().map(ToString::to_string).collect(),
            delegate: considered
                .asked_delegate
                .as_ref()
                .map(|ids| ids.iter().map(ToString::to_string).collect()),
        },
        parent_grant: record::GrantLists {
            r#use: facts.holder.uses.texts(),
            delegate: Some(facts.holder.delegate.texts()),
        },
        ceiling: considered.ceiling.as_ref().map(CapabilitySet::texts),
        effective: considered.effective.texts(),
        delegate: considered.delegate.texts(),
        denied: considered.denied.clone(),
        clipped: considered.clipped.texts(),
        gated: considered.gated.texts(),
        subsumed: considered.subsumed.texts(),
        approvals: considered.approvals.iter().map(approval).collect(),
        enforcement: enforcement(considered),
        budget: match considered.budget {
            Some(budget) => record::Budget {
                depth: Some(budget.depth.into()),
                agents: Some(budget.agents.into()),
                concurrent: Some(budget.concurrent.into()),
                deadline_ms: None,
                child_deadline_ms: Some(budget.deadline_ms),
            },
            None => record::Budget::default(),
        },
        inputs,
        digests: record::PlanDigests {
            tree: considered.digests.tree,
            body: considered.digests.body,
            argv: considered.digests.argv,
            plan: considered.digests.plan,
        },
    }
}

fn approval(approval: &crate::plan::Approval) -> record::ApprovalRef {
    record::ApprovalRef {
        capability: approval.capability.to_string(),
        subject: approval.subject.clone(),
        scope: match approval.scope {
            Scope::Once { .. } => record::ApprovalScope::Once,
            Scope::Session => record::ApprovalScope::Session,
            Scope::Always => record::ApprovalScope::Always,
        },
        approver: approval.approver.clone(),
        strength: match approval.strength {
            Strength::SameUid => record::ApprovalStrength::SameUid,
            Strength::OtherUid => record::ApprovalStrength::OtherUid,
            Strength::Signed => record::ApprovalStrength::Signed,
        },
    }
}

fn enforcement(considered: &Considered) -> Vec<record::Enforcement> {
    considered
        .enforcement
        .iter()
        .map(|row| record::Enforcement {
            capability: row.capability.to_string(),
            by: match row.by {
                Enforcer::Kernel => record::Enforcer::Kernel,
                Enforcer::Runtime => record::Enforcer::Runtime,
                Enforcer::Broker => record::Enforcer::Broker,
                Enforcer::Advisory => record::Enforcer::Advisory,
                Enforcer::Nothing => record::Enforcer::Nothing,
            },
            how: row.how.clone(),
        })
        .collect()
}
