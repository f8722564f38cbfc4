//! A decision as the ledger's record of it.

use depute_ledger::{Ledger, record};
use uuid::Uuid;

use crate::capability::{AskedId, CapabilitySet};
use crate::plan::{Considered, Enforcer, Plan, Refusal, Request, Scope, Situation, Strength, Subject};

/// What a `decision` line is made of besides the verdict.
pub(super) struct Line<'a> {
    pub(super) node: Uuid,
    pub(super) request: &'a Request,
    pub(super) situation: &'a Situation,
    pub(super) inputs: record::Inputs,
    pub(super) ledger: &'a Ledger,
}

impl Line<'_> {
    /// The line of a plan. Nothing but the plan itself says what was granted.
    pub(super) fn granted(&self, plan: &Plan) -> record::Decision {
        self.body(record::Verdict::Granted, plan.considered(), None)
    }

    /// The line of a decision that starts nothing.
    pub(super) fn stopped(
        &self,
        verdict: record::Verdict,
        considered: &Considered,
        refusal: &Refusal,
    ) -> record::Decision {
        self.body(verdict, considered, Some(refusal))
    }

    fn body(
        &self,
        verdict: record::Verdict,
        considered: &Considered,
        refusal: Option<&Refusal>,
    ) -> record::Decision {
        let facts = &self.situation.facts;
        let asked = |ids: &[AskedId]| ids.iter().map(|id| recordable(id, self.ledger).to_string()).collect();
        record::Decision {
            node: self.node,
            parent: None,
            path: facts.node.path.clone(),
            depth: facts.node.depth,
            verdict,
            code: refusal.map(|refusal| refusal.code.as_str().to_owned()),
            rule: refusal.and_then(|refusal| refusal.code.step()).map(|step| format!("step {step}")),
            definition: match &self.request.subject {
                Subject::Definition(reference) => Some(reference.to_string()),
                Subject::Inline => None,
            },
            runtime: Some(considered.runtime.clone()),
            model: considered.model.clone(),
            workspace: self.request.workspace.clone(),
            task: record::TaskRef { bytes: self.request.task.bytes, digest: facts.task_digest },
            task_from: "command line".to_owned(),
            requested: record::GrantLists {
                r#use: asked(&considered.asked),
                delegate: considered.asked_delegate.as_deref().map(asked),
            },
            parent_grant: record::GrantLists {
                r#use: facts.holder.uses.texts(),
                delegate: Some(facts.holder.delegate.texts()),
            },
            ceiling: considered.ceiling.as_ref().map(CapabilitySet::texts),
            effective: considered.effective.texts(),
            delegate: considered.delegate.texts(),
            denied: considered
                .denied
                .iter()
                .map(|id| recordable(&AskedId::parse(id), self.ledger).to_string())
                .collect(),
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
            inputs: self.inputs.clone(),
            digests: record::PlanDigests {
                tree: considered.digests.tree,
                body: considered.digests.body,
                argv: considered.digests.argv,
                plan: considered.digests.plan,
            },
        }
    }
}

/// An id as it may be recorded. A malformed one is text that a model may have written: it is known
/// by its keyed digest, which is as malformed, and denied as surely.
pub(super) fn recordable(id: &AskedId, ledger: &Ledger) -> AskedId {
    match id {
        AskedId::Malformed(text) if !text.starts_with(MALFORMED) => {
            AskedId::Malformed(format!("{MALFORMED}{}", ledger.keyed_digest(text.as_bytes())))
        }
        AskedId::Malformed(_) | AskedId::Id(_) => id.clone(),
    }
}

/// What stands before the digest of a malformed id.
const MALFORMED: &str = "malformed:";

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
