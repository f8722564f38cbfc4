//! What is the case when a request is decided, as values.

use std::collections::BTreeMap;

use depute_ledger::{Digest, KeyedDigest};

use crate::capability::{Capability, DefinitionName, Grant};
use crate::definition::{Definition, DefinitionKind};
use crate::runtime::{NodePaths, Profile, Tier};

use super::request::Origin;

/// Everything that a decision rests on besides policy and request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Situation {
    /// What can be written down as one value.
    pub facts: Facts,
    /// The definition, where it could be read.
    pub definition: Option<Definition>,
    /// The runtime's profile.
    pub profile: Profile,
}

/// The part of a situation that is stored as one canonical value. It holds no task text.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Who asks, and where the child would stand in the tree.
    pub node: NodeFacts,
    /// What the one who asks holds.
    pub holder: Grant,
    /// What is known of the definition.
    pub definition: DefinitionFact,
    /// The tier that would hold the child, as measured on this machine.
    pub tier: Tier,
    /// What this machine lacks of the tier that the policy demands, in words.
    pub lacking: Option<String>,
    /// What is at the places beneath the workspace that scopes of paths name.
    pub places: BTreeMap<String, PlaceFact>,
    /// Directories of our own that no node may write. Absolute, real paths.
    pub kept: Vec<String>,
    /// Approvals that could open a gate.
    pub approvals: Vec<Approval>,
    /// The time, in milliseconds since 1970.
    pub now_ms: u64,
    /// What the tree has used.
    pub used: Usage,
    /// Workspaces that a request may name.
    pub workspaces: Vec<String>,
    /// The node's directories.
    pub paths: NodePaths,
    /// The keyed digest of the task, where there is a ledger to key it.
    pub task_digest: Option<KeyedDigest>,
}

/// What is at a place beneath the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceFact {
    /// A directory, reached through no link.
    Directory,
    /// A regular file, reached through no link.
    File,
    /// Nothing.
    Missing,
    /// A link, or a part of the way there is one.
    Link,
    /// Something else, or it cannot be looked at.
    Other,
}

/// Where the child would stand in the tree.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFacts {
    /// Its readable path, such as `1.3`.
    pub path: String,
    /// How many levels below the root.
    pub depth: u32,
}

/// What is known of the definition that a request names.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DefinitionFact {
    /// No definition of this name; the nearest ones that exist.
    Unknown {
        /// Near names, nearest first.
        near: Vec<String>,
    },
    /// Several of this name, none before the other.
    Ambiguous {
        /// Where they are.
        places: Vec<String>,
    },
    /// It is there and cannot be read.
    Unreadable {
        /// Where from.
        origin: Origin,
        /// Whether its directory is trusted.
        trusted: bool,
        /// The problem, with its place.
        message: String,
        /// The fix.
        fix: Option<String>,
    },
    /// It was read.
    Read {
        /// Where from.
        origin: Origin,
        /// Whether its directory is trusted.
        trusted: bool,
        /// The name it was read under.
        name: String,
        /// What kind of file it is.
        kind: DefinitionKind,
        /// Where it is.
        place: String,
        /// The digest of its directory.
        tree: Digest,
    },
    /// The request names none.
    Inline,
}

/// What a tree has used of its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Agents created so far.
    pub agents: u32,
    /// Agents running now.
    pub running: u32,
    /// Wall clock since the root began, in milliseconds.
    pub elapsed_ms: u64,
}

/// A yes that a person gave.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// What it opens a gate on. It never adds a capability.
    pub capability: Capability,
    /// For which definition.
    pub subject: String,
    /// With which tree digest.
    pub tree: Option<Digest>,
    /// For how long.
    pub scope: Scope,
    /// When it ends, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// Who said yes.
    pub approver: String,
    /// How well that is known.
    pub strength: Strength,
}

/// For how long an approval holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// For one spawn of exactly this plan.
    Once {
        /// The plan's digest.
        plan: Digest,
    },
    /// For this session.
    Session,
    /// Until it expires or is revoked.
    Always,
}

/// How well it is known who approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// Someone of the same user at a terminal.
    SameUid,
    /// Another user.
    OtherUid,
    /// A signature.
    Signed,
}

impl Situation {
    /// The name that gates and records know the subject by.
    #[must_use]
    pub fn subject(&self) -> String {
        self.definition
            .as_ref()
            .map_or_else(|| "<inline>".to_owned(), |definition| definition.name().to_string())
    }

    /// The name of the definition as an authority: `agent:<name>`.
    #[must_use]
    pub fn agent_id(name: &DefinitionName) -> Capability {
        crate::capability::Kind::Agent(name.clone()).into()
    }
}
