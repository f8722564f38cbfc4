//! Program, argv and env, and the digest of the plan that they are part of.

use depute_ledger::Digest;

use crate::capability::CapabilitySet;
use crate::definition::Definition;
use crate::kernel_spec::{KernelSpec, Network, PathRule, Place, Programs};
use crate::plan::refusal::{Code, Refusal};
use crate::runtime::{EnvValue, Launch, NodePaths, Tier};

use super::{Check, Judge};

impl<'a> Judge<'a> {
    pub(super) fn launch_can_be_made(
        &mut self,
        definition: Option<&Definition>,
        spec: &KernelSpec,
    ) -> Check<(Launch, Digest)> {
        let profile = &self.situation.profile;
        let stated = self
            .request
            .model
            .as_deref()
            .or_else(|| definition.and_then(Definition::model).filter(|model| *model != "inherit"));
        let model = stated.or_else(|| self.policy.default_model.as_deref().filter(|_| profile.takes_model()));
        self.considered.model = model.map(str::to_owned);
        let passed: Vec<String> = self.policy.env.iter().cloned().collect();
        // At tier 0 nothing bounds the network, so there is no proxy to be told of.
        let by_proxy = spec.tier > Tier::Zero && spec.network != Network::None;
        let make = |paths: &NodePaths| {
            let extra_path = &self.policy.paths.path;
            profile.launch(&self.considered.effective, model, &passed, extra_path, paths, by_proxy).map_err(|reason| {
                let fix = if profile.takes_model() {
                    "name a model with `--model` in the form that the runtime takes, or another runtime with `--runtime`"
                } else {
                    "leave the model out of the request and of the definition, or name another runtime with `--runtime`"
                };
                Box::new(Refusal::new(Code::NotExpressible, reason, fix))
            })
        };
        let launch = make(&self.situation.facts.paths)?;
        let placeholders = NodePaths {
            private: "<node>".into(),
            workspace: "<workspace>".into(),
            itself: "<depute>".into(),
        };
        let shape = make(&placeholders)?;
        let argv = digest_of(&shape.argv);
        self.considered.digests.argv = Some(argv);
        self.considered.digests.plan = Some(self.plan_digest(&shape, spec));
        self.considered.launch = Some(launch.clone());
        Ok((launch, argv))
    }

    /// Covers definition, grant, argv shape, what the kernel holds, workspace, budget and task; leaves
    /// out ids, times and private paths, so that the same request gives the same digest tomorrow.
    pub(super) fn plan_digest(&self, shape: &Launch, spec: &KernelSpec) -> Digest {
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
            kernel: Cage<'s>,
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
                    let value = match value {
                        EnvValue::Set(value) => Some(value.as_str()),
                        EnvValue::Passed => None,
                    };
                    (name.as_str(), value)
                })
                .collect(),
            kernel: Cage::of(spec, &self.situation.facts.paths),
            workspace: &self.situation.facts.paths.workspace,
            deadline_ms: self.request.budget.and_then(|budget| budget.deadline_ms),
            limits: &self.policy.limits,
            task: self.situation.facts.task_digest,
        })
    }
}

/// What of a spec tells one plan from another: not what every node has, nor where its own directories are.
#[derive(serde::Serialize)]
struct Cage<'s> {
    tier: Tier,
    paths: Vec<&'s PathRule>,
    programs: Programs,
    metadata: bool,
    network: &'s Network,
    processes: u32,
}

impl<'s> Cage<'s> {
    fn of(spec: &'s KernelSpec, paths: &NodePaths) -> Self {
        let is_told = |rule: &&PathRule| match &rule.place {
            Place::System(_) | Place::Node(_) => false,
            Place::Operator(path) => *path != paths.itself,
            Place::Workspace(_) => true,
        };
        Self {
            tier: spec.tier,
            paths: spec.paths.iter().filter(is_told).collect(),
            programs: spec.programs,
            metadata: spec.metadata,
            network: &spec.network,
            processes: spec.processes,
        }
    }
}

fn digest_of(value: &impl serde::Serialize) -> Digest {
    #[expect(clippy::expect_used, reason = "structs of strings and numbers always encode")]
    Digest::of(&serde_json::to_vec(value).expect("no map keys, no failing impls"))
}
