//! Sets of capabilities, and grants made of two of them.

use std::collections::BTreeSet;

use super::cover::{Cover, Subsumption};
use super::id::Capability;

/// A set of capabilities. An empty set covers nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct CapabilitySet(BTreeSet<Capability>);

impl CapabilitySet {
    /// The set that covers nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ids it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether exactly this id is in it.
    #[must_use]
    pub fn contains(&self, id: &Capability) -> bool {
        self.0.contains(id)
    }

    /// The ids, in the order of their text.
    pub fn iter(&self) -> std::collections::btree_set::Iter<'_, Capability> {
        self.0.iter()
    }

    /// Adds one id.
    pub fn insert(&mut self, id: Capability) {
        self.0.insert(id);
    }

    /// The best way in which some member covers `asked`.
    #[must_use]
    pub fn covers(&self, asked: &Capability, table: &Subsumption) -> Cover {
        self.iter().map(|held| held.covers(asked, table)).max().unwrap_or(Cover::No)
    }

    /// Whether every member of `other` is covered.
    #[must_use]
    pub fn covers_all(&self, other: &Self, table: &Subsumption) -> bool {
        other.iter().all(|id| self.covers(id, table) != Cover::No)
    }

    /// What both sets allow: the members of each that the other covers.
    #[must_use]
    pub fn meet(&self, other: &Self, table: &Subsumption) -> Self {
        let within = |a: &Self, b: &Self| -> BTreeSet<Capability> {
            a.iter().filter(|id| b.covers(id, table) != Cover::No).cloned().collect()
        };
        Self(within(self, other).union(&within(other, self)).cloned().collect())
    }

    /// The members that this test keeps.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&Capability) -> bool) -> Self {
        self.iter().filter(|id| keep(id)).cloned().collect()
    }

    /// Both sets together.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).cloned().collect()
    }

    /// The texts, in order.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        self.iter().map(|id| id.as_str().to_owned()).collect()
    }
}

impl FromIterator<Capability> for CapabilitySet {
    fn from_iter<I: IntoIterator<Item = Capability>>(ids: I) -> Self {
        Self(ids.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a CapabilitySet {
    type Item = &'a Capability;
    type IntoIter = std::collections::btree_set::Iter<'a, Capability>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Two rights: what a node may do itself, and what it may hand down.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// What the node may do itself.
    #[serde(rename = "use")]
    pub uses: CapabilitySet,
    /// What it may hand down. Both sets of a child come out of this one.
    pub delegate: CapabilitySet,
}

impl Grant {
    /// What both grants allow, right by right.
    #[must_use]
    pub fn meet(&self, other: &Self, table: &Subsumption) -> Self {
        Self {
            uses: self.uses.meet(&other.uses, table),
            delegate: self.delegate.meet(&other.delegate, table),
        }
    }
}
