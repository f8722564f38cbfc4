//! Why a request is not granted: one table of codes.

use std::collections::BTreeMap;
use std::fmt;

use crate::exit::Exit;

/// What a refusal is about, which fixes the exit code of `plan` and `run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disposition {
    /// The input is wrong.
    Malformed,
    /// The definition declares nothing.
    Undeclared,
    /// Somebody asks for what is not theirs to give.
    NotHeld,
    /// A limit is reached.
    OverBudget,
    /// A person has to answer.
    WaitingOnHuman,
    /// Nothing here could hold it.
    NotEnforceable,
    /// It was granted, and went wrong.
    Failed,
}

impl Disposition {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Undeclared => "undeclared",
            Self::NotHeld => "not-held",
            Self::OverBudget => "over-budget",
            Self::WaitingOnHuman => "waiting-on-human",
            Self::NotEnforceable => "not-enforceable",
            Self::Failed => "failed",
        }
    }

    /// The exit code of `plan` and `run`.
    #[must_use]
    pub fn exit(self) -> Exit {
        match self {
            Self::Malformed | Self::Undeclared => Exit::Invalid,
            Self::NotHeld | Self::OverBudget => Exit::Refused,
            Self::WaitingOnHuman => Exit::Held,
            Self::NotEnforceable => Exit::NotEnforceable,
            Self::Failed => Exit::LaunchFailed,
        }
    }
}

macro_rules! codes {
    ($($variant:ident, $text:literal, $step:expr, $disposition:ident, $meaning:literal;)+) => {
        /// A stable code. The table in `refusal.rs` is the one place that lists them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)+
        }

        impl Code {
            /// Every code, in the order of the checks.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The code as text.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The step of the order of checks; nothing for what comes after the decision.
            #[must_use]
            pub fn step(self) -> Option<u8> {
                match self { $(Self::$variant => $step,)+ }
            }

            /// What the refusal is about.
            #[must_use]
            pub fn disposition(self) -> Disposition {
                match self { $(Self::$variant => Disposition::$disposition,)+ }
            }

            /// What the code means, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)+ }
            }
        }
    };
}

codes! {
    RequestMalformed, "REQUEST_MALFORMED", Some(1), Malformed, "The request itself is not well formed.";
    DepthExceeded, "DEPTH_EXCEEDED", Some(2), OverBudget, "The child would stand deeper in the tree than the policy allows.";
    TaskMissing, "TASK_MISSING", Some(3), Malformed, "The request says who should work, not what on.";
    WorkspaceNotRegistered, "WORKSPACE_NOT_REGISTERED", Some(4), NotHeld, "No workspace of this id is registered.";
    WorkspaceNotAuthorized, "WORKSPACE_NOT_AUTHORIZED", Some(4), NotHeld, "The one who asks may not route a child into this workspace.";
    UnknownDefinition, "UNKNOWN_DEFINITION", Some(5), NotHeld, "No definition of this name is in force here.";
    DefinitionNotAuthorized, "DEFINITION_NOT_AUTHORIZED", Some(6), NotHeld, "The one who asks does not hold the right to spawn this definition.";
    DefinitionNotTrusted, "DEFINITION_NOT_TRUSTED", Some(6), NotHeld, "The definition lies in a workspace that nobody has trusted.";
    DefinitionUnreadable, "DEFINITION_UNREADABLE", Some(7), Malformed, "The definition cannot be read, so it has no ceiling.";
    UndeclaredTools, "UNDECLARED_TOOLS", Some(8), Undeclared, "The definition declares no tools, and absent never means everything.";
    UnknownTool, "UNKNOWN_TOOL", Some(9), Malformed, "A tool is asked for that no runtime knows.";
    NotExpressible, "NOT_EXPRESSIBLE", Some(9), NotEnforceable, "The runtime cannot be told to grant exactly this.";
    NotInheritable, "NOT_INHERITABLE", Some(10), NotHeld, "Something that is held but never handed down is asked for.";
    CapabilityEscalation, "CAPABILITY_ESCALATION", Some(11), NotHeld, "More is asked for than the one who asks may hand down.";
    NothingGranted, "NOTHING_GRANTED", None, NotHeld, "Something is asked for, and nothing of it is inside the ceiling.";
    NarrowingViolated, "NARROWING_VIOLATED", Some(12), NotHeld, "Something that confers everything cannot be part of a narrow grant.";
    ImpliedNotHeld, "IMPLIED_NOT_HELD", Some(13), NotHeld, "What is asked for confers more than the one who asks may hand down.";
    NotEnforceable, "NOT_ENFORCEABLE", Some(14), NotEnforceable, "Nothing on this machine would hold a capability to its bounds.";
    GatedUnapproved, "GATED_UNAPPROVED", Some(15), WaitingOnHuman, "A capability waits for a person's yes.";
    ApprovalExpired, "APPROVAL_EXPIRED", Some(15), WaitingOnHuman, "The yes for a capability has expired.";
    ApprovalScopeMismatch, "APPROVAL_SCOPE_MISMATCH", Some(15), WaitingOnHuman, "There is a yes for this capability, but not for this definition or plan.";
    FanoutExceeded, "FANOUT_EXCEEDED", Some(16), OverBudget, "The tree has as many agents as the policy allows.";
    BudgetExceeded, "BUDGET_EXCEEDED", Some(16), OverBudget, "The tree has spent what the policy allows.";
    ResourceNotFound, "RESOURCE_NOT_FOUND", Some(17), NotHeld, "A granted skill or extension is not to be found.";
    LedgerWriteFailed, "LEDGER_WRITE_FAILED", None, Failed, "The decision could not be recorded, so nothing was started.";
    WorkspaceWriteConflict, "WORKSPACE_WRITE_CONFLICT", None, Failed, "Another child is writing in this workspace.";
    ExecutorUnavailable, "EXECUTOR_UNAVAILABLE", None, Failed, "The runtime's program could not be started.";
    RuntimeAttestationFailed, "RUNTIME_ATTESTATION_FAILED", None, Failed, "The running child reported other tools than it was granted.";
    ChildTimedOut, "CHILD_TIMED_OUT", None, Failed, "The child was still running at its deadline and was ended.";
    ChildCancelled, "CHILD_CANCELLED", None, Failed, "The child was ended on request.";
    ChildExitNonzero, "CHILD_EXIT_NONZERO", None, Failed, "The child ended with a failure of its own.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The particulars of a refusal, for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Details {
    /// The ids it is about.
    pub ids: Vec<String>,
    /// Names that were perhaps meant, nearest first.
    pub near: Vec<String>,
    /// The numbers it is about.
    pub numbers: BTreeMap<&'static str, u64>,
}

/// Why a request is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub code: Code,
    /// What is wrong: a lower-case fragment.
    pub message: String,
    /// The particulars.
    pub details: Details,
    /// The smallest change that would help, and who can make it.
    pub fix: String,
}

impl Refusal {
    pub(super) fn new(code: Code, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Details::default(), fix: fix.into() }
    }

    pub(super) fn about<T: ToString>(mut self, ids: impl IntoIterator<Item = T>) -> Self {
        self.details.ids = ids.into_iter().map(|id| id.to_string()).collect();
        self
    }

    pub(super) fn near(mut self, names: Vec<String>) -> Self {
        self.details.near = names;
        self
    }

    pub(super) fn number(mut self, name: &'static str, number: u64) -> Self {
        self.details.numbers.insert(name, number);
        self
    }
}

impl serde::Serialize for Refusal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut out = serializer.serialize_struct("Refusal", 5)?;
        out.serialize_field("code", &self.code)?;
        out.serialize_field("message", &self.message)?;
        out.serialize_field("disposition", self.code.disposition().as_str())?;
        out.serialize_field("details", &self.details)?;
        out.serialize_field("fix", &self.fix)?;
        out.end()
    }
}
