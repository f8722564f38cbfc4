//! Policies: what an operator allows, as one strict file.
//!
//! Pure: bytes in, [`Policy`] out. Unknown keys are fatal, and nothing that is absent widens.

#![forbid(unsafe_code)]

mod key;
mod locked;
mod narrow;
mod overlays;
mod own_tests;
mod read;
mod shape;
mod write;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use depute_ledger::Digest;

use crate::capability::{
    Capability, CapabilitySet, DefinitionName, Grant, Subsumption, ToolName, builtin_universal,
};
use crate::runtime::Tier;

pub use key::Key;
pub use locked::Widening;
pub use narrow::Narrowing;
pub use overlays::with_overlays;
pub use own_tests::{Expect, PolicyTest, TestOutcome};
pub use read::{NEVER_PASSED, NEVER_PASSED_PREFIXES, VERSION, duration_text, parse_duration};
pub use shape::{POLICY, WORKSPACE_POLICY};
pub use write::quoted;

/// The policy in force where there is none.
pub const BUILTIN: &str = include_str!("../../policies/default.yaml");

/// One policy, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What the root holds: may use, and may hand down.
    pub grant: Grant,
    /// Ids that wait for a human's yes before they enter somebody's `use`.
    pub gates: CapabilitySet,
    /// How far a tree may grow.
    pub limits: Limits,
    /// The runtime where a request names none.
    pub default_runtime: Option<String>,
    /// The model where neither request nor definition names one.
    pub default_model: Option<String>,
    /// The least that the kernel must hold; [`Tier::K`] where it is not stated.
    pub tier: Tier,
    /// Capabilities that may be granted though nothing enforces them.
    pub accept: Vec<Accept>,
    /// Names of environment variables passed to children.
    pub env: BTreeSet<String>,
    /// Places that a caged child may see.
    pub paths: Paths,
    /// Further directories with definitions.
    pub roots: Vec<String>,
    /// Ceilings that the operator gives to definitions.
    pub overlays: Vec<Overlay>,
    /// Whether a tool list without a definition may be spawned.
    pub inline: bool,
    /// Rows added to the subsumption table.
    pub subsumption_rows: BTreeMap<ToolName, BTreeSet<ToolName>>,
    /// Ids added to those that confer everything.
    pub universal_added: CapabilitySet,
    /// Keys that a later policy may not widen.
    pub locked: BTreeSet<Key>,
    /// Its own tests.
    pub tests: Vec<PolicyTest>,
    /// The bytes as read.
    pub source: Vec<u8>,
    /// The bytes of the policy that narrows it, where the workspace has one.
    pub narrowing: Option<Vec<u8>>,
    /// Where each key stands, for the line that forbids.
    pub(crate) lines: BTreeMap<String, usize>,
    /// The same in bytes.
    pub(crate) key_starts: BTreeMap<String, usize>,
}

/// How far a tree may grow. A zero is a zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// How many levels below the root.
    pub depth: u32,
    /// How many agents in total.
    pub agents: u32,
    /// How many at the same time.
    pub concurrent: u32,
    /// Wall clock of the whole tree, in milliseconds.
    pub deadline_ms: u64,
    /// Wall clock of one child, in milliseconds.
    pub child_deadline_ms: u64,
    /// Tokens, where a runtime reports or caps them.
    pub tokens: Quota,
    /// Millionths of a US dollar, as reported.
    pub micro_usd: Quota,
}

/// An amount that may be left open, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quota {
    /// The operator wrote `null`: no limit on this.
    Unlimited,
    /// At most this.
    AtMost(u64),
}

/// One capability that may be granted though nothing enforces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Exactly this id.
    pub id: Capability,
    /// Why, in the operator's words.
    pub why: String,
}

/// Places that a caged child may see, absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// May be read.
    pub read: Vec<String>,
    /// May be written.
    pub write: Vec<String>,
    /// May be executed.
    pub exec: Vec<String>,
    /// Added to the child's PATH.
    pub path: Vec<String>,
}

/// A ceiling that the operator gives to one definition, bound to the bytes that were reviewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// The definition's name.
    pub definition: DefinitionName,
    /// The tree digest that was reviewed. A changed file voids the overlay.
    pub digest: Digest,
    /// The ceiling of `use`.
    pub uses: CapabilitySet,
    /// The ceiling of `delegate`.
    pub delegate: DelegateCeiling,
}

/// What bounds the right to hand down, besides the parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelegateCeiling {
    /// The operator stated none: the parent's grant alone bounds it.
    Unstated,
    /// At most this.
    Stated(CapabilitySet),
}

impl DelegateCeiling {
    /// What both allow.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Unstated, stated) | (stated, Self::Unstated) => stated.clone(),
            (Self::Stated(a), Self::Stated(b)) => Self::Stated(a.meet(b, &Subsumption::none())),
        }
    }
}

impl Policy {
    /// SHA-256 of the policy as read.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.source)
    }

    /// The subsumption table: the built-in rows and the policy's.
    #[must_use]
    pub fn subsumption(&self) -> Cow<'_, Subsumption> {
        match self.subsumption_rows.is_empty() {
            true => Cow::Borrowed(Subsumption::builtin()),
            false => Cow::Owned(Subsumption::builtin().with_rows(&self.subsumption_rows)),
        }
    }

    /// The ids that confer everything: the built-in ones and the policy's.
    #[must_use]
    pub fn universal(&self) -> Cow<'_, CapabilitySet> {
        match self.universal_added.is_empty() {
            true => Cow::Borrowed(builtin_universal()),
            false => Cow::Owned(builtin_universal().union(&self.universal_added)),
        }
    }

    /// The overlay for a definition as it is now.
    #[must_use]
    pub fn overlay(&self, name: &DefinitionName, tree: &Digest) -> Option<&Overlay> {
        self.overlays.iter().find(|overlay| overlay.definition == *name && overlay.digest == *tree)
    }

    /// The overlay for this name that a changed file has voided.
    #[must_use]
    pub fn voided_overlay(&self, name: &DefinitionName, tree: &Digest) -> Option<&Overlay> {
        self.overlays.iter().find(|overlay| overlay.definition == *name && overlay.digest != *tree)
    }

    /// The line of a top-level key, where the policy writes it.
    #[must_use]
    pub fn line_of(&self, key: &str) -> Option<usize> {
        self.lines.get(key).copied()
    }
}
