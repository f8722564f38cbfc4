//! `depute resolve`: the set arithmetic alone, for controllers in other languages.
//!
//! It keeps the readings of the vectors: a gate catches what is on its list or subsumes, by the
//! table alone, something on it; ids that confer everything stay; what is never inherited is left
//! out of `inheritable` instead of refused.

use std::io::BufRead;

use crate::capability::{
    AskedId, Bound, Capability, CapabilitySet, Cover, Subsumption, builtin_universal, resolve,
};
use crate::exit::Exit;

use super::Failure;
use super::output::Output;

/// The code of a line that is no input.
const MALFORMED: &str = "REQUEST_MALFORMED";

/// The longest line, in bytes.
const MAX_LINE: u64 = 1024 * 1024;

/// One line of input.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    requested: Vec<AskedId>,
    #[serde(rename = "parentGrant")]
    parent_grant: Vec<AskedId>,
    /// Absent means no bound; `[]` means nothing.
    #[serde(default, deserialize_with = "stated")]
    ceiling: Option<Vec<AskedId>>,
    /// A gate that is malformed would catch nothing, so it refuses the line.
    #[serde(default)]
    gated: CapabilitySet,
    #[serde(default)]
    approved: Vec<AskedId>,
    #[serde(default = "yes")]
    subsumption: bool,
}

/// A list: `null` is neither "no bound" nor "nothing".
fn stated<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<AskedId>>, D::Error> {
    serde::Deserialize::deserialize(deserializer).map(Some)
}

fn yes() -> bool {
    true
}

/// One line of output. Every list is sorted.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
struct Answer {
    effective: CapabilitySet,
    denied: Vec<String>,
    clipped: CapabilitySet,
    gated_blocked: CapabilitySet,
    universal: CapabilitySet,
    covered_by_subsumption: CapabilitySet,
    inheritable: CapabilitySet,
}

fn answer(input: &Input) -> Answer {
    let well_formed =
        |ids: &[AskedId]| -> CapabilitySet { ids.iter().filter_map(AskedId::id).cloned().collect() };
    let none = Subsumption::none();
    let table = if input.subsumption { Subsumption::builtin() } else { &none };
    let ceiling = input.ceiling.as_deref().map(well_formed);
    let bound = ceiling.as_ref().map_or(Bound::Unbounded, Bound::Ceiling);
    let (gates, approved) = (&input.gated, well_formed(&input.approved));
    let waits = |id: &Capability| {
        let caught = gates.iter().any(|gate| id == gate || id.covers(gate, table) == Cover::BySubsumption);
        caught && !approved.contains(id)
    };
    let resolved = resolve(&input.requested, &well_formed(&input.parent_grant), bound, table, waits);
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

pub(super) fn main(mut input: impl BufRead, out: &mut Output) -> Result<Exit, Failure> {
    let mut number = 0_usize;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = std::io::Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            out.flush()?;
            return Ok(Exit::Done);
        }
        number += 1;
        if line.last() != Some(&b'\n') && read as u64 == MAX_LINE {
            return Err(Failure::new(
                Exit::Invalid,
                MALFORMED,
                format!("line {number} is longer than {MAX_LINE} bytes"),
            ));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let parsed: Input = serde_json::from_slice(&line).map_err(|error| {
            Failure::new(Exit::Invalid, MALFORMED, format!("line {number}: {error}")).fix(
                "write an object with `requested`, `parentGrant`, and optionally `ceiling`, `gated`, `approved`, `subsumption`",
            )
        })?;
        out.json(&answer(&parsed))?;
        out.flush()?;
    }
}
