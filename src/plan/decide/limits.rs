//! Steps 15 to 17: gates, budget, resources.

use crate::capability::{Capability, CapabilitySet, Kind};
use crate::plan::decision::Budget;
use crate::plan::refusal::{Code, Refusal};
use crate::plan::situation::{Approval, Scope};
use crate::policy::{Quota, duration_text};

use super::words::{agents, quoted};
use super::{Check, Judge, refuse};

impl<'a> Judge<'a> {
    /// Nothing where every gate is open; else what is missing. What waits leaves `effective`.
    pub(super) fn gates_are_satisfied(&mut self) -> Option<Refusal> {
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
    pub(super) fn is_gated(&self, id: &Capability) -> bool {
        let alone: CapabilitySet = std::iter::once(id.clone()).collect();
        let confers = self.confers(&alone);
        self.policy.gates.iter().any(|gate| confers.iter().any(|id| id.touches(gate, &self.table)))
    }

    pub(super) fn approval_for(&self, id: &Capability) -> Result<&'a Approval, Code> {
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

    pub(super) fn budget_is_reservable(&mut self) -> Check<Budget> {
        let (limits, used) = (&self.policy.limits, self.situation.facts.used);
        for (what, have, limit, taken) in [
            ("agents", used.agents, limits.agents, "in a tree, and all are taken"),
            ("concurrent", used.running, limits.concurrent, "at once, and all are at work"),
        ] {
            if have >= limit {
                return refuse(
                    Refusal::new(
                        Code::FanoutExceeded,
                        format!("the policy allows {} {taken}", agents(limit)),
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
        let out_of_time = |message: String, fix: String| {
            let refusal = Refusal::new(Code::BudgetExceeded, message, fix);
            refuse(refusal.number("asked_ms", deadline_ms).number("left_ms", left))
        };
        let raise = || self.policy_fix("limits", "raises `child_deadline` or `deadline`");
        if left == 0 {
            return out_of_time("no time is left for a child".into(), raise());
        }
        if deadline_ms == 0 {
            let fix = "leave `--deadline` out, or ask for some";
            return out_of_time("no time at all is asked for".into(), fix.into());
        }
        if deadline_ms > left {
            let (asked, left) = (duration_text(deadline_ms), duration_text(left));
            return out_of_time(
                format!("{asked} is asked for, and {left} is left"),
                format!("`--deadline {left}` would pass now; or {}", raise()),
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

    pub(super) fn resources_are_locatable(&self) -> Check {
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
}
