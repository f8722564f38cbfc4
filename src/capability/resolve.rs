//! The arithmetic of one set: what is asked, held, bounded and gated.
//!
//! `effective = requested, covered by what is held, inside the ceiling, minus gated`

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::cover::{Cover, Subsumption};
use super::id::{Capability, IdError};
use super::set::CapabilitySet;

/// One id of a request. A malformed one is kept as it was written, to be denied by its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AskedId {
    /// A well-formed id.
    Id(Capability),
    /// A text that is no id; nothing covers it, not even a wildcard.
    Malformed(String),
}

impl AskedId {
    /// Reads one id of a request.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.parse() {
            Ok(id) => Self::Id(id),
            Err(_) => Self::Malformed(text.to_owned()),
        }
    }

    /// The id, where it is one.
    #[must_use]
    pub fn id(&self) -> Option<&Capability> {
        match self {
            Self::Id(id) => Some(id),
            Self::Malformed(_) => None,
        }
    }

    /// Why the text is no id, where it is none.
    #[must_use]
    pub fn error(&self) -> Option<IdError> {
        match self {
            Self::Id(_) => None,
            Self::Malformed(text) => text.parse::<Capability>().err(),
        }
    }
}

impl std::fmt::Display for AskedId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Malformed(text) => f.write_str(text),
        }
    }
}

impl serde::Serialize for AskedId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for AskedId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::parse(&text))
    }
}

/// What bounds a request besides the grant it comes out of.
#[derive(Clone, Copy, Debug)]
pub enum Bound<'a> {
    /// Nothing does: the operator set no ceiling beyond the grant.
    Unbounded,
    /// Only what this set names.
    Ceiling(&'a CapabilitySet),
}

impl Bound<'_> {
    fn admits(self, id: &Capability) -> bool {
        match self {
            Self::Unbounded => true,
            Self::Ceiling(set) => set.iter().any(|named| named.names(id)),
        }
    }
}

/// Each asked id, under exactly one heading; `subsumed` repeats some of `effective`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// Held, inside the ceiling, not waiting.
    pub effective: CapabilitySet,
    /// Not covered: the escalation signal. Malformed ids are here by their text.
    pub denied: BTreeSet<AskedId>,
    /// Covered, but not named in the ceiling.
    pub clipped: CapabilitySet,
    /// Covered and inside, but waits for a yes.
    pub gated: CapabilitySet,
    /// Effective ids that are covered by the subsumption table alone.
    pub subsumed: CapabilitySet,
}

/// Resolves a request against what is held.
///
/// `waits` says whether an id that is held and inside the ceiling still waits for a yes.
#[must_use]
pub fn resolve<'a>(
    asked: impl IntoIterator<Item = &'a AskedId>,
    held: &CapabilitySet,
    bound: Bound<'_>,
    table: &Subsumption,
    waits: impl Fn(&Capability) -> bool,
) -> Resolution {
    let mut result = Resolution::default();
    for asked in asked {
        let AskedId::Id(id) = asked else {
            result.denied.insert(asked.clone());
            continue;
        };
        let cover = held.covers(id, table);
        if cover == Cover::No {
            result.denied.insert(asked.clone());
        } else if !bound.admits(id) {
            result.clipped.insert(id.clone());
        } else if waits(id) {
            result.gated.insert(id.clone());
        } else {
            if cover == Cover::BySubsumption {
                result.subsumed.insert(id.clone());
            }
            result.effective.insert(id.clone());
        }
    }
    result
}

/// Ids known to confer everything, whatever their name says.
const UNIVERSAL: [&str; 2] = ["ext:pi-fabric/fabric_exec", "tool:fabric_exec"];

/// The built-in ids that confer everything. Policy adds to them.
#[must_use]
pub fn builtin_universal() -> &'static CapabilitySet {
    static SET: LazyLock<CapabilitySet> =
        LazyLock::new(|| UNIVERSAL.into_iter().filter_map(|id| id.parse().ok()).collect());
    &SET
}
