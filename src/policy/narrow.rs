//! A policy that may only narrow another one: what a workspace may say about itself.
//!
//! It needs no trust, so nothing in it may widen. Keys that could (a runtime, rows that let one tool
//! confer another) are refused; every other is combined by the stricter of the two. What that is for
//! each key is [`Policy::meet`], which `locked` asks too: a later policy widens a key where the meet
//! takes something from it.

use crate::capability::CapabilitySet;
use crate::diagnostic::Problem;

use super::shape::{POLICY, WORKSPACE_POLICY};
use super::{DelegateCeiling, Key, Limits, Overlay, Paths, Policy, Quota};

/// A policy as it stands inside a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Narrowing {
    policy: Policy,
}

impl Narrowing {
    /// Reads one. A key that is not written leaves that of the other policy as it is.
    ///
    /// # Errors
    /// As [`Policy::read`], and for a key that could widen.
    pub fn read(source: &[u8]) -> Result<Self, Problem> {
        let policy = Policy::read_layer(source)?;
        let narrows = |key: &str| WORKSPACE_POLICY.fields.iter().any(|field| field.name == key);
        let widening = POLICY.fields.iter().map(|field| field.name).filter(|key| !narrows(key));
        if let Some(key) = widening.into_iter().find(|key| policy.lines.contains_key(*key)) {
            let at = policy.key_starts.get(key).copied().unwrap_or(0);
            return Err(Problem::new(
                "only-narrows",
                at..at + key.len(),
                format!("a policy inside the workspace may only narrow, so it cannot state `{key}`"),
            )
            .fix("move it to the operator's policy"));
        }
        Ok(Self { policy })
    }

    fn states(&self, key: &str) -> bool {
        self.policy.lines.contains_key(key)
    }
}

impl Policy {
    /// This policy, narrowed by another.
    #[must_use]
    pub fn narrowed(&self, by: &Narrowing) -> Self {
        let mut policy = self.clone();
        for key in Key::ALL.into_iter().filter(|key| by.states(key.as_str())) {
            policy.meet(key, &by.policy);
        }
        policy.narrowing = Some(by.policy.source.clone());
        policy
    }

    /// Keeps of one key what both policies allow.
    pub(super) fn meet(&mut self, key: Key, other: &Self) {
        match key {
            Key::Grant => self.grant = self.grant.meet(&other.grant, &self.subsumption()),
            Key::Gates => self.gates = self.gates.union(&other.gates),
            Key::Limits => self.limits = lesser(&self.limits, &other.limits),
            Key::Tier => self.tier = self.tier.max(other.tier),
            Key::Accept => {
                self.accept.retain(|accept| other.accept.iter().any(|kept| kept.id == accept.id));
            }
            Key::Env => self.env.retain(|name| other.env.contains(name)),
            Key::Paths => self.paths = both(&self.paths, &other.paths),
            Key::Roots => self.roots.retain(|root| other.roots.contains(root)),
            Key::Overlays => {
                self.overlays =
                    self.overlays.iter().map(|overlay| within(overlay, &other.overlays)).collect();
            }
            Key::Inline => self.inline = self.inline && other.inline,
            Key::Subsumption => {
                for (tool, row) in &other.subsumption_rows {
                    self.subsumption_rows.entry(tool.clone()).or_default().extend(row.iter().cloned());
                }
            }
            Key::Universal => self.universal_added = self.universal_added.union(&other.universal_added),
        }
    }
}

/// The lesser of each; a limit that the layer does not state is at its largest there.
fn lesser(a: &Limits, b: &Limits) -> Limits {
    let quota = |a: Quota, b: Quota| match (a, b) {
        (Quota::Unlimited, other) | (other, Quota::Unlimited) => other,
        (Quota::AtMost(a), Quota::AtMost(b)) => Quota::AtMost(a.min(b)),
    };
    Limits {
        depth: a.depth.min(b.depth),
        agents: a.agents.min(b.agents),
        concurrent: a.concurrent.min(b.concurrent),
        deadline_ms: a.deadline_ms.min(b.deadline_ms),
        child_deadline_ms: a.child_deadline_ms.min(b.child_deadline_ms),
        tokens: quota(a.tokens, b.tokens),
        micro_usd: quota(a.micro_usd, b.micro_usd),
    }
}

fn both(a: &Paths, b: &Paths) -> Paths {
    let common = |a: &[String], b: &[String]| a.iter().filter(|path| b.contains(path)).cloned().collect();
    Paths {
        read: common(&a.read, &b.read),
        write: common(&a.write, &b.write),
        exec: common(&a.exec, &b.exec),
        path: common(&a.path, &b.path),
    }
}

/// The overlay as far as one of the others, for the same bytes, allows it too. One that no other
/// speaks for allows nothing; it does not go, since without it a file that declares more would be
/// bounded by nothing else.
fn within(overlay: &Overlay, others: &[Overlay]) -> Overlay {
    let other = others.iter().find(|o| o.definition == overlay.definition && o.digest == overlay.digest);
    let meet = |a: &CapabilitySet, b: &CapabilitySet| a.meet(b, &crate::capability::Subsumption::none());
    match other {
        Some(other) => Overlay {
            uses: meet(&overlay.uses, &other.uses),
            delegate: overlay.delegate.meet(&other.delegate),
            ..overlay.clone()
        },
        None => Overlay {
            uses: CapabilitySet::empty(),
            delegate: DelegateCeiling::Stated(CapabilitySet::empty()),
            ..overlay.clone()
        },
    }
}
