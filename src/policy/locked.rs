//! What an earlier policy locks, and where a later one widens it.
//!
//! The order is: the user's policy, the operator's for this directory, the file of `--policy`. A later
//! one takes the place of an earlier one; for a key that is locked it may say as much or less, not
//! more. One that says more is refused as a whole: a grant that was quietly cut would be believed.

use std::ops::Range;

use crate::capability::{Capability, CapabilitySet, Cover, Subsumption};
use crate::diagnostic::Problem;
use crate::yaml::{Node, Value};

use super::write::usd;
use super::{DelegateCeiling, Key, Limits, Overlay, Paths, Policy};

/// The first place where a policy widens what an earlier one locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Widening {
    /// The key that is locked.
    pub key: Key,
    /// Where the earlier policy says so, in bytes of it.
    pub lock: Range<usize>,
    at: Range<usize>,
    excess: Excess,
}

/// What goes beyond a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excess {
    /// The key that has to change, where it is not the locked one.
    key: Key,
    /// The scalar at fault, where it is written.
    item: Option<String>,
    /// In words that follow "… is locked, and".
    what: String,
    /// The smallest change to the later policy.
    fix: String,
}

impl Excess {
    fn new(key: Key, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { key, item: None, what: what.into(), fix: fix.into() }
    }

    /// A member of a list that the lock does not allow.
    fn beyond(key: Key, item: &str) -> Self {
        let fix = format!("remove `{item}` from `{}`", key.as_str());
        Self { item: Some(item.to_owned()), ..Self::new(key, format!("`{item}` goes beyond it"), fix) }
    }

    /// A member of a list that the lock demands.
    fn missing(key: Key, item: &str) -> Self {
        Self::new(key, format!("`{item}` is missing"), format!("add `{item}` to `{}`", key.as_str()))
    }
}

impl Widening {
    /// What is wrong, in the later policy. `lock` is the place of the lock, as a person can open it.
    #[must_use]
    pub fn problem(&self, lock: &str) -> Problem {
        let (key, excess) = (self.key.as_str(), &self.excess);
        Problem::new("locked", self.at.clone(), format!("`{key}` is locked at {lock}, and {}", excess.what))
            .fix(format!("{}, or take `{key}` out of `locked` there", excess.fix))
    }
}

impl Policy {
    /// Where this policy widens what an earlier one locks, if anywhere.
    #[must_use]
    pub fn widening(&self, earlier: &Self) -> Option<Widening> {
        earlier.locked.iter().find_map(|key| {
            let excess = self.excess(*key, earlier)?;
            let at = self.place(excess.key, excess.item.as_deref());
            let lock = earlier.place_in("locked", Some(key.as_str()));
            Some(Widening { key: *key, lock, at, excess })
        })
    }

    /// This policy with every key that an earlier one locks as far as that one allows.
    #[must_use]
    pub fn within_locks_of(&self, earlier: &Self) -> Self {
        let mut policy = self.clone();
        if earlier.locks_subsumption() {
            policy.subsumption_rows.clone_from(&earlier.subsumption_rows);
        }
        for key in earlier.locked.iter().filter(|key| **key != Key::Subsumption) {
            // An overlay that is left out bounds nothing, so all of them are taken over.
            if *key == Key::Overlays {
                policy.overlays.clone_from(&earlier.overlays);
            } else {
                policy.meet(*key, earlier);
            }
        }
        policy
    }

    fn locks_subsumption(&self) -> bool {
        self.locked.iter().any(|key| *key == Key::Subsumption || key.is_read_by_subsumption())
    }

    /// What of a key goes beyond the earlier policy's: what the meet of the two takes away.
    fn excess(&self, key: Key, earlier: &Self) -> Option<Excess> {
        let table = self.subsumption();
        if (key == Key::Subsumption || key.is_read_by_subsumption()) && table != earlier.subsumption() {
            return Some(Excess::new(
                Key::Subsumption,
                "the rows of `subsumption` are others here, so ids mean something else",
                "write them as they are there",
            ));
        }
        let mut met = self.clone();
        met.meet(key, earlier);
        let beyond = |item: &str| Excess::beyond(key, item);
        let missing = |item: &str| Excess::missing(key, item);
        match key {
            Key::Grant => first_beyond(&self.grant.uses, &met.grant.uses, &table)
                .or_else(|| first_beyond(&self.grant.delegate, &met.grant.delegate, &table))
                .map(|id| beyond(id.as_str())),
            // What a wider gate catches is caught.
            Key::Gates => met
                .gates
                .iter()
                .find(|gate| self.gates.covers(gate, &Subsumption::none()) == Cover::No)
                .map(|gate| missing(gate.as_str())),
            Key::Limits => limit(&self.limits, &met.limits, self.line_of("limits").is_some()),
            Key::Tier => (met.tier != self.tier).then(|| {
                let (low, least) = (self.tier.as_str(), met.tier.as_str());
                Excess::new(
                    key,
                    format!("tier {low} is below tier {least}"),
                    format!("write `tier: {least}`"),
                )
            }),
            Key::Accept => {
                let accept = self.accept.iter().find(|accept| !met.accept.contains(accept))?;
                Some(beyond(accept.id.as_str()))
            }
            Key::Env => self.env.difference(&met.env).next().map(|name| beyond(name)),
            Key::Paths => path(&self.paths, &met.paths).map(beyond),
            Key::Roots => self.roots.iter().find(|root| !met.roots.contains(root)).map(|root| beyond(root)),
            Key::Overlays => overlay(&self.overlays, &met.overlays, &earlier.overlays),
            Key::Inline => (met.inline != self.inline)
                .then(|| Excess::new(key, "`inline` is true here", "write `inline: false`")),
            Key::Subsumption => None,
            Key::Universal => met
                .universal_added
                .iter()
                .find(|id| !self.universal_added.contains(id))
                .map(|id| missing(id.as_str())),
        }
    }

    fn place(&self, key: Key, item: Option<&str>) -> Range<usize> {
        self.place_in(key.as_str(), item)
    }

    /// Where an item of a key stands, else the key, else where the file begins.
    fn place_in(&self, key: &str, item: Option<&str>) -> Range<usize> {
        let Ok(Node { value: Value::Map(entries), .. }) = super::read::root(&self.source) else {
            return 0..0;
        };
        let Some(entry) = entries.iter().find(|entry| entry.key == key) else { return 0..0 };
        item.and_then(|item| find(&entry.value, item)).unwrap_or_else(|| entry.key_span.clone())
    }
}

/// Where a text, or an id in another spelling, stands as a key or a value below a node.
fn find(node: &Node, text: &str) -> Option<Range<usize>> {
    let same_id = |own: &str| own.parse::<Capability>().is_ok_and(|id| id.as_str() == text);
    match &node.value {
        Value::Text(own) => (own == text || same_id(own)).then(|| node.span.clone()),
        Value::List(items) => items.iter().find_map(|item| find(item, text)),
        Value::Map(entries) => entries.iter().find_map(|entry| {
            if entry.key == text { Some(entry.key_span.clone()) } else { find(&entry.value, text) }
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn first_beyond<'s>(
    set: &'s CapabilitySet,
    met: &CapabilitySet,
    table: &Subsumption,
) -> Option<&'s Capability> {
    set.iter().find(|id| met.covers(id, table) == Cover::No)
}

fn limit(own: &Limits, met: &Limits, stated: bool) -> Option<Excess> {
    let number = |n: u32| n.to_string();
    let time = super::duration_text;
    let rows = [
        ("depth", number(own.depth), number(met.depth)),
        ("agents", number(own.agents), number(met.agents)),
        ("concurrent", number(own.concurrent), number(met.concurrent)),
        ("deadline", time(own.deadline_ms), time(met.deadline_ms)),
        ("child_deadline", time(own.child_deadline_ms), time(met.child_deadline_ms)),
        ("tokens", own.tokens.text(|n| n.to_string()), met.tokens.text(|n| n.to_string())),
        ("usd", own.micro_usd.text(usd), met.micro_usd.text(usd)),
    ];
    let (name, own, most) = rows.into_iter().find(|(_, own, met)| own != met)?;
    let what = if stated {
        format!("`{name}: {own}` goes beyond `{name}: {most}`")
    } else {
        format!("without `limits` it is `{name}: {own}`, beyond `{name}: {most}`")
    };
    let fix = if stated {
        format!("write `{name}: {most}` or less")
    } else {
        format!("add `limits: {{{name}: {most}}}`")
    };
    Some(Excess { item: Some(name.to_owned()), ..Excess::new(Key::Limits, what, fix) })
}

fn path<'p>(own: &'p Paths, met: &Paths) -> Option<&'p str> {
    let lists =
        [(&own.read, &met.read), (&own.write, &met.write), (&own.exec, &met.exec), (&own.path, &met.path)];
    lists.into_iter().find_map(|(own, met)| own.iter().find(|path| !met.contains(path))).map(String::as_str)
}

/// An overlay that allows more than the earlier one for the same bytes, one that the earlier policy
/// does not have, or one of its own that is left out: without it only the file bounds its definition.
fn overlay(own: &[Overlay], met: &[Overlay], earlier: &[Overlay]) -> Option<Excess> {
    let same = |a: &Overlay, b: &Overlay| a.definition == b.definition && a.digest == b.digest;
    let wider = own.iter().zip(met).find(|(own, met)| {
        let hands_down = match (&own.delegate, &met.delegate) {
            (DelegateCeiling::Unstated, DelegateCeiling::Unstated) => false,
            (DelegateCeiling::Unstated, DelegateCeiling::Stated(_)) => true,
            (DelegateCeiling::Stated(own), met) => match met {
                DelegateCeiling::Stated(met) => first_beyond(own, met, &Subsumption::none()).is_some(),
                DelegateCeiling::Unstated => false,
            },
        };
        let is_new = !earlier.iter().any(|earlier| same(own, earlier));
        is_new || hands_down || first_beyond(&own.uses, &met.uses, &Subsumption::none()).is_some()
    });
    if let Some((overlay, _)) = wider {
        let name = &overlay.definition;
        let what = format!("the overlay of `{name}` goes beyond it");
        let known = earlier.iter().any(|earlier| same(overlay, earlier));
        let fix = if known { "let it be as it is there" } else { "remove it" };
        let item = Some(overlay.digest.to_string());
        return Some(Excess { item, ..Excess::new(Key::Overlays, what, fix) });
    }
    let missing = earlier.iter().find(|earlier| !own.iter().any(|own| same(own, earlier)))?;
    let what = format!("the overlay of `{}` is missing", missing.definition);
    Some(Excess::new(Key::Overlays, what, "copy it from there"))
}
