//! The set arithmetic alone, as one object in and one out, for controllers in other languages.
//!
//! It keeps the readings of the conformance vectors: a gate catches what is on its list or subsumes,
//! by the table alone, something on it; ids that confer everything stay; what is never inherited is
//! left out of `inheritable` instead of refused.

use super::cover::{Cover, Subsumption};
use super::id::Capability;
use super::resolve::{AskedId, Bound, builtin_universal, resolve};
use super::set::CapabilitySet;

/// What is asked, held, bounded and gated. As JSON it is a line that `depute resolve` reads.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The ids that are asked for.
    pub requested: Vec<AskedId>,
    /// What the one who asks may hand down. A malformed id in it covers nothing.
    #[serde(rename = "parentGrant")]
    pub parent_grant: Vec<AskedId>,
    /// What bounds it further: absent is no bound, `[]` is nothing, and `null` is neither.
    #[serde(default, deserialize_with = "stated", skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Vec<AskedId>>,
    /// What waits for a yes. A gate that is malformed would catch nothing, so it makes no question.
    #[serde(default)]
    pub gated: CapabilitySet,
    /// What has its yes.
    #[serde(default)]
    pub approved: Vec<AskedId>,
    /// Whether a shell covers the tools that it subsumes; true where absent.
    #[serde(default = "yes")]
    pub subsumption: bool,
}

fn stated<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<AskedId>>, D::Error> {
    serde::Deserialize::deserialize(deserializer).map(Some)
}

fn yes() -> bool {
    true
}

/// Each id that was asked for, under exactly one of the first four headings. Every list is sorted.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Held, inside the ceiling, not waiting.
    pub effective: CapabilitySet,
    /// Not covered, or malformed.
    pub denied: Vec<String>,
    /// Covered, but not named in the ceiling.
    pub clipped: CapabilitySet,
    /// Covered and inside, but waits for a yes.
    pub gated_blocked: CapabilitySet,
    /// Those effective that confer everything.
    pub universal: CapabilitySet,
    /// Those effective that the table of subsumption alone covers.
    pub covered_by_subsumption: CapabilitySet,
    /// Those effective that may be handed down again.
    pub inheritable: CapabilitySet,
}

impl Question {
    /// Answers it.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let none = Subsumption::none();
        let table = if self.subsumption { Subsumption::builtin() } else { &none };
        let ceiling = self.ceiling.as_deref().map(well_formed);
        let bound = ceiling.as_ref().map_or(Bound::Unbounded, Bound::Ceiling);
        let approved = well_formed(&self.approved);
        let catches =
            |gate: &Capability, id: &Capability| id == gate || id.covers(gate, table) == Cover::BySubsumption;
        let waits =
            |id: &Capability| !approved.contains(id) && self.gated.iter().any(|gate| catches(gate, id));
        let resolved = resolve(&self.requested, &well_formed(&self.parent_grant), bound, table, waits);
        let universal = builtin_universal();
        let mut denied: Vec<String> = resolved.denied.iter().map(ToString::to_string).collect();
        denied.sort();
        Answer {
            universal: resolved.effective.filtered(|id| universal.contains(id)),
            inheritable: resolved.effective.filtered(Capability::is_inheritable),
            effective: resolved.effective,
            denied,
            clipped: resolved.clipped,
            gated_blocked: resolved.gated,
            covered_by_subsumption: resolved.subsumed,
        }
    }
}

fn well_formed(ids: &[AskedId]) -> CapabilitySet {
    ids.iter().filter_map(AskedId::id).cloned().collect()
}
