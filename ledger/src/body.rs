//! What a record says: one closed struct per kind.
//!
//! Every field is always written, absent values as `null`, so that the key order is fixed.
//! This crate knows nothing of capabilities, policies or runtimes: their ids are plain strings
//! here. Text that a model wrote is never among them; it appears as length and keyed digest.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::digest::{Digest, KeyedDigest};

/// Defines a body struct with the derives that make its JSON form closed.
macro_rules! body {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }
    };
}

/// Defines a word that is written in `snake_case`.
macro_rules! word {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_meta])* $variant,)* }
    };
}

body! {
    /// The first line of a ledger, and only that: what holds for all lines after it.
    Genesis {
        /// The id of this ledger.
        log: Uuid,
        /// The hash of chain and objects.
        hash: HashName,
        /// The longest line in bytes, without its line feed.
        line_limit: u64,
        /// The name and version of the program that created the ledger.
        tool: String,
    }
}

body! {
    /// The first line of every segment but the first: what it goes on from.
    Segment {
        /// The id of this ledger.
        log: Uuid,
        /// The number of the first line of the segment before, which names its file.
        previous: u64,
        /// The length of the segment before in bytes.
        size: u64,
    }
}

word! {
    /// A hash algorithm.
    HashName {
        /// SHA-256, as in FIPS 180-4.
        Sha256,
    }
}

body! {
    /// A writer's introduction, before its first record.
    Session {
        /// The name and version of the writing program.
        tool: String,
        /// The real user id of the writing process.
        uid: u32,
        /// The login name, where known.
        login: Option<String>,
        /// The host name.
        host: String,
        /// The terminal, where there is one.
        tty: Option<String>,
        /// The CI job's own name for itself, where there is one.
        ci: Option<String>,
        /// The process id of the writer.
        pid: u32,
    }
}

body! {
    /// What was asked, what was allowed, and why: written before anything starts.
    Decision {
        /// The node the decision is about.
        node: Uuid,
        /// The node that asked; `None` for the root.
        parent: Option<Uuid>,
        /// The node's place in the tree, readable.
        path: String,
        /// The distance from the root.
        depth: u32,
        /// The outcome.
        verdict: Verdict,
        /// The refusal's stable code.
        code: Option<String>,
        /// The policy rule that decided.
        rule: Option<String>,
        /// The name of the agent definition.
        definition: Option<String>,
        /// The runtime profile.
        runtime: Option<String>,
        /// The model.
        model: Option<String>,
        /// The workspace.
        workspace: Option<String>,
        /// The task, by size and keyed digest.
        task: TaskRef,
        /// Where the task text came from.
        task_from: String,
        /// What was asked for.
        requested: GrantLists,
        /// What the parent held.
        parent_grant: GrantLists,
        /// The definition's own ceiling; `None` where it declares none.
        ceiling: Option<Vec<String>>,
        /// What the child may use.
        effective: Vec<String>,
        /// What the child may hand down.
        delegate: Vec<String>,
        /// What was refused outright.
        denied: Vec<String>,
        /// What was cut off by a ceiling.
        clipped: Vec<String>,
        /// What waits for an approval.
        gated: Vec<String>,
        /// What a wider capability already covers.
        subsumed: Vec<String>,
        /// The approvals the decision rests on.
        approvals: Vec<ApprovalRef>,
        /// Who enforces each capability, and how.
        enforcement: Vec<Enforcement>,
        /// The limits of the child's subtree.
        budget: Budget,
        /// The inputs of the decision, kept as objects.
        inputs: Inputs,
        /// The digests of what would run.
        digests: PlanDigests,
    }
}

word! {
    /// The outcome of a decision.
    Verdict {
        /// May start.
        Granted,
        /// Waits for an approval.
        Held,
        /// May not start.
        Refused,
    }
}

body! {
    /// A task by its size and, where a key was at hand, its keyed digest.
    TaskRef {
        /// The length in bytes.
        bytes: u64,
        /// The keyed digest of the bytes.
        digest: Option<KeyedDigest>,
    }
}

body! {
    /// Capabilities to use, and to hand down.
    #[derive(Default)]
    GrantLists {
        /// May be used.
        r#use: Vec<String>,
        /// May be handed down; `None` where nothing was said about it.
        delegate: Option<Vec<String>>,
    }
}

body! {
    /// An approval that a decision rests on.
    ApprovalRef {
        /// The capability that was approved.
        capability: String,
        /// What the approval is about.
        subject: String,
        /// How long it holds.
        scope: ApprovalScope,
        /// Who approved.
        approver: String,
        /// How surely that is who approved.
        strength: ApprovalStrength,
    }
}

body! {
    /// Who enforces one capability.
    Enforcement {
        /// The capability.
        capability: String,
        /// Who stops a violation.
        by: Enforcer,
        /// The mechanism.
        how: String,
    }
}

word! {
    /// Who stops a violation, strongest first.
    Enforcer {
        /// The operating system.
        Kernel,
        /// The agent's runtime.
        Runtime,
        /// The process that delegates.
        Broker,
        /// Only an instruction to the model.
        Advisory,
        /// Nobody.
        Nothing,
    }
}

body! {
    /// The limits of a subtree; `None` is no limit.
    #[derive(Default)]
    Budget {
        /// Further levels below this node.
        depth: Option<u64>,
        /// Agents in all.
        agents: Option<u64>,
        /// Agents at a time.
        concurrent: Option<u64>,
        /// Milliseconds until this node is stopped.
        deadline_ms: Option<u64>,
        /// Milliseconds each child gets.
        child_deadline_ms: Option<u64>,
    }
}

body! {
    /// The inputs of a decision, each the digest of an object beside the ledger.
    #[derive(Default)]
    Inputs {
        /// The policy.
        policy: Option<Digest>,
        /// The policy that narrows it, where the workspace has one.
        narrowing: Option<Digest>,
        /// The agent definition.
        definition: Option<Digest>,
        /// The runtime profile.
        profile: Option<Digest>,
        /// The tool catalog.
        catalog: Option<Digest>,
        /// What was observed of the machine.
        situation: Option<Digest>,
        /// The request.
        request: Option<Digest>,
    }
}

impl Inputs {
    /// Iterates over the digests that are there.
    pub fn iter(&self) -> impl Iterator<Item = Digest> {
        [
            self.policy,
            self.narrowing,
            self.definition,
            self.profile,
            self.catalog,
            self.situation,
            self.request,
        ]
        .into_iter()
        .flatten()
    }
}

body! {
    /// The digests of what a granted decision would run. They name no objects.
    #[derive(Default)]
    PlanDigests {
        /// The definition's file tree.
        tree: Option<Digest>,
        /// The definition's body.
        body: Option<Digest>,
        /// The argument vector.
        argv: Option<Digest>,
        /// The whole plan.
        plan: Option<Digest>,
    }
}

body! {
    /// The answer to one question put to a person or their standing orders.
    Approval {
        /// The capability that was asked for.
        capability: String,
        /// What the question was about.
        subject: String,
        /// The definition's file tree that the answer is bound to.
        tree: Option<Digest>,
        /// The plan that the answer is bound to.
        plan: Option<Digest>,
        /// How long the answer holds.
        scope: ApprovalScope,
        /// The answer.
        outcome: ApprovalOutcome,
        /// Who answered.
        approver: Option<String>,
        /// How surely that is who answered.
        strength: Option<ApprovalStrength>,
    }
}

word! {
    /// How long an approval holds.
    ApprovalScope {
        /// For this one decision.
        Once,
        /// For this session.
        Session,
        /// Until withdrawn.
        Always,
    }
}

word! {
    /// What became of a question.
    ApprovalOutcome {
        /// Yes.
        Granted,
        /// No.
        Denied,
        /// Nobody answered in time.
        Expired,
        /// The asker gave up.
        Withdrawn,
        /// A newer question took its place.
        Superseded,
        /// There was nobody to ask.
        NobodyThere,
    }
}

word! {
    /// How surely the approver is who they seem, weakest first.
    ApprovalStrength {
        /// A process of the same user, which the agent could be too.
        SameUid,
        /// A process of another user.
        OtherUid,
        /// A signature.
        Signed,
    }
}

body! {
    /// The intent to start a program: durable before it starts.
    Spawn {
        /// The `seq` of the decision that allows it.
        decision: u64,
        /// The node that starts.
        node: Uuid,
        /// The program's path.
        program: String,
        /// The digest of the argument vector.
        argv: Digest,
        /// The names of the environment variables, never their values.
        env: Vec<String>,
        /// The digest of the working directory's path.
        cwd: Digest,
        /// What is fed to standard input.
        stdin: TaskRef,
    }
}

body! {
    /// The program runs.
    Spawned {
        /// The node that started.
        node: Uuid,
        /// Its process id.
        pid: u32,
        /// Its start time in clock ticks since boot, field 22 of `/proc/PID/stat`.
        start: u64,
    }
}

body! {
    /// What holds a node, as it was tried from inside before its program ran.
    Caged {
        /// The node.
        node: Uuid,
        /// How strongly it is held, by the letter of the tier.
        tier: String,
        /// The version of the kernel's Landlock interface that holds it; `None` where none does.
        landlock: Option<u64>,
        /// What was tried and was denied, in words.
        tried: Vec<String>,
    }
}

body! {
    /// Something a node tried and was denied, counted to its end.
    Denied {
        /// The node.
        node: Uuid,
        /// What kind of thing it was.
        what: DeniedWhat,
        /// Its name: a host and port. Never what was sent there.
        name: String,
        /// How often.
        count: u64,
        /// Why.
        why: String,
    }
}

word! {
    /// What kind of thing was denied.
    DeniedWhat {
        /// A connection to a host.
        Host,
        /// The start of a program.
        Program,
    }
}

body! {
    /// The program is gone.
    Exit {
        /// The node that ended.
        node: Uuid,
        /// How it ended.
        outcome: ExitOutcome,
        /// The exit code, if it exited.
        code: Option<i32>,
        /// The signal, if one ended it.
        signal: Option<i32>,
        /// Milliseconds from start to end.
        duration_ms: u64,
        /// What it wrote.
        output: Option<OutputRef>,
        /// What the operator should know.
        message: Option<String>,
    }
}

word! {
    /// How a program ended.
    ExitOutcome {
        /// By itself.
        Exited,
        /// By a signal.
        Signalled,
        /// By its deadline.
        TimedOut,
        /// Because it was told to.
        Cancelled,
        /// It never ran.
        NotLaunched,
        /// Nobody saw.
        Unknown,
    }
}

body! {
    /// A program's output by size and digest.
    OutputRef {
        /// The length in bytes.
        bytes: u64,
        /// The digest of the bytes that were kept.
        digest: KeyedDigest,
        /// Whether some were not kept.
        truncated: bool,
    }
}

body! {
    /// A declaration about a line that a crash left unfinished.
    Recovery {
        /// The `seq` that the line occupies.
        line: u64,
        /// Its length in bytes, without the line feed.
        len: u64,
        /// The plain SHA-256 of those bytes.
        sha256: Digest,
        /// What was found.
        reason: RecoveryReason,
    }
}

word! {
    /// What recovery found at the end of the file.
    RecoveryReason {
        /// A piece of a line. It counts in the chain and says nothing.
        Torn,
        /// A whole line that lacked only its line feed.
        Completed,
    }
}

body! {
    /// A writer's goodbye.
    Close {
        /// Why.
        reason: String,
    }
}
