//! What comes out of a decision, and everything that was weighed on the way.

use depute_ledger::Digest;

use crate::capability::{AskedId, CapabilitySet, Grant};
use crate::kernel_spec::KernelSpec;
use crate::runtime::{Launch, NodePaths, Prepared, Tier};

use super::enforcement::Enforcement;
use super::refusal::{Code, Refusal};
use super::situation::Approval;

/// What came out. Match it in full: only a [`Plan`] may be started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// It may start, exactly so.
    Granted(Box<Plan>),
    /// All is in order, but a person has to say yes first.
    Held(Box<Hold>),
    /// It may not start.
    Refused(Box<Refused>),
}

/// Everything that was weighed, as far as the checks came. Refusals carry it too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Considered {
    /// What was asked to be used.
    pub asked: Vec<AskedId>,
    /// What was asked to be handed down, where that was stated.
    pub asked_delegate: Option<Vec<AskedId>>,
    /// The ceiling, once the definition was read.
    pub ceiling: Option<CapabilitySet>,
    /// What the child may use.
    pub effective: CapabilitySet,
    /// What the child may hand down.
    pub delegate: CapabilitySet,
    /// Not covered by what the one who asks may hand down.
    pub denied: Vec<String>,
    /// Covered, but not named in the ceiling.
    pub clipped: CapabilitySet,
    /// Waiting for a yes.
    pub gated: CapabilitySet,
    /// Effective only through the subsumption table.
    pub subsumed: CapabilitySet,
    /// What the kernel is to hold, once the grant was known.
    pub spec: Option<KernelSpec>,
    /// Who holds each capability.
    pub enforcement: Vec<Enforcement>,
    /// Approvals that opened a gate.
    pub approvals: Vec<Approval>,
    /// The budget of the child.
    pub budget: Option<Budget>,
    /// The runtime's name.
    pub runtime: String,
    /// The strongest tier that holds on this machine.
    pub tier: Tier,
    /// The model.
    pub model: Option<String>,
    /// The program and its argv and env, once they could be made.
    pub launch: Option<Launch>,
    /// Digests known so far.
    pub digests: Digests,
}

/// Digests of what a decision rests on and of what it plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Digests {
    /// The policy as read.
    pub policy: Option<Digest>,
    /// The runtime's profile as read.
    pub profile: Option<Digest>,
    /// The definition's directory.
    pub tree: Option<Digest>,
    /// The instructions, exactly as handed over.
    pub body: Option<Digest>,
    /// The arguments.
    pub argv: Option<Digest>,
    /// The plan: what a `once` approval is bound to.
    pub plan: Option<Digest>,
}

/// What a child may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Budget {
    /// Levels left below it.
    pub depth: u32,
    /// Agents left in the tree, itself taken off.
    pub agents: u32,
    /// Agents that may run at the same time.
    pub concurrent: u32,
    /// Its wall clock, in milliseconds.
    pub deadline_ms: u64,
}

/// A granted spawn. Only [`decide()`](super::decide()) makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(super) considered: Considered,
    pub(super) subject: String,
    pub(super) launch: Launch,
    pub(super) spec: KernelSpec,
    pub(super) argv: Digest,
    pub(super) prepared: Prepared,
    pub(super) paths: NodePaths,
    pub(super) body: Vec<u8>,
    pub(super) budget: Budget,
}

/// A spawn that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What was weighed.
    pub considered: Considered,
    /// The definition that the approvals would be for, by name.
    pub subject: String,
    /// Where that definition is.
    pub place: String,
    /// How long the task is, in bytes.
    pub task_bytes: u64,
    /// What is missing, and how to give it.
    pub refusal: Refusal,
}

/// A refused spawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was weighed before the failing check.
    pub considered: Considered,
    /// Why.
    pub refusal: Refusal,
}

impl Decision {
    /// What was weighed.
    #[must_use]
    pub fn considered(&self) -> &Considered {
        match self {
            Self::Granted(plan) => &plan.considered,
            Self::Held(hold) => &hold.considered,
            Self::Refused(refused) => &refused.considered,
        }
    }

    /// Why it is not granted.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Granted(_) => None,
            Self::Held(hold) => Some(&hold.refusal),
            Self::Refused(refused) => Some(&refused.refusal),
        }
    }

    /// `granted`, `held` or `refused`.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match self {
            Self::Granted(_) => "granted",
            Self::Held(_) => "held",
            Self::Refused(_) => "refused",
        }
    }
}

impl Plan {
    /// What was weighed.
    #[must_use]
    pub fn considered(&self) -> &Considered {
        &self.considered
    }

    /// The definition's name.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Program, argv and env.
    #[must_use]
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// What the kernel is to hold.
    #[must_use]
    pub fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    /// The digest of argv as recorded: with placeholders for the node's own paths.
    #[must_use]
    pub fn argv_digest(&self) -> Digest {
        self.argv
    }

    /// What has to be in place before the start.
    #[must_use]
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// The node's directories.
    #[must_use]
    pub fn paths(&self) -> &NodePaths {
        &self.paths
    }

    /// The instructions, exactly the digested bytes.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// What the child may spend.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.budget
    }
}

/// What the grant of a child would be, for those who hand down further.
impl From<&Plan> for Grant {
    fn from(plan: &Plan) -> Self {
        Self { uses: plan.considered.effective.clone(), delegate: plan.considered.delegate.clone() }
    }
}

impl Refused {
    /// A decision whose lists do not fit on a line of the ledger: it is refused, with empty lists.
    #[must_use]
    pub fn too_long_to_record(bytes: u64) -> Self {
        let message =
            format!("the decision would take {bytes} bytes of the ledger, and a line has at most 65,535");
        Self {
            considered: Considered::default(),
            refusal: Refusal::new(
                Code::RequestMalformed,
                message,
                "ask for fewer or shorter ids with `--use`",
            )
            .number("bytes", bytes),
        }
    }
}
