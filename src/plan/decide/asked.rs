//! Steps 1 to 4: the request itself, depth, task, workspace.

use crate::capability::{Capability, CapabilitySet, Cover, Kind, WorkspaceId};
use crate::plan::refusal::{Code, Refusal};
use crate::plan::request::{AskedDelegate, AskedUse, MAX_IDS, MAX_TASK, Subject};

use super::words::{is_plain_name, near};
use super::{Check, Judge, refuse};

impl<'a> Judge<'a> {
    pub(super) fn request_is_well_formed(&mut self) -> Check {
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
                format!("the name of the model is malformed, or too long: {} bytes", model.len()),
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
    pub(super) fn workspace_id(&self) -> Check<Option<Capability>> {
        let Some(workspace) = &self.request.workspace else { return Ok(None) };
        match WorkspaceId::parse(workspace) {
            Ok(id) => Ok(Some(Kind::Workspace(id).into())),
            Err(error) => refuse(
                Refusal::new(
                    Code::RequestMalformed,
                    format!("`{workspace}` is no id of a workspace: it {error}"),
                    error.fix(),
                )
                .about([workspace]),
            ),
        }
    }

    pub(super) fn depth_is_left(&self) -> Check {
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

    pub(super) fn task_is_present(&self) -> Check {
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
    pub(super) fn workspace_may_be_routed_to(&self) -> Check<CapabilitySet> {
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
}
