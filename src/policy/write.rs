//! Keys of a policy as YAML, for a policy that a command writes.

use std::fmt::Display;

use crate::capability::{Capability, CapabilitySet};
use crate::yaml::{self, Node, Value};

use super::{DelegateCeiling, Key, Overlay, Policy, Quota, duration_text};

/// An id as YAML: quoted where it holds what YAML would read otherwise.
#[must_use]
pub fn quoted(id: &Capability) -> String {
    scalar(id.as_str())
}

/// `1.10` and `no` are names to their author, and a number and a boolean to YAML.
fn scalar(text: &str) -> String {
    let is_itself = |value: &Value| match value {
        Value::List(items) => {
            matches!(items.as_slice(), [Node { value: Value::Text(read), .. }] if read == text)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Map(_) => false,
    };
    if yaml::parse(&format!("[{text}]"), 0).is_ok_and(|node| is_itself(&node.value)) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

fn ids(set: &CapabilitySet) -> String {
    list(set.iter().map(quoted))
}

fn names<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    list(items.into_iter().map(|item| scalar(&item.to_string())))
}

impl Policy {
    /// One key of this policy on one line, as a policy may state it. Reading the line gives the same
    /// value.
    #[must_use]
    pub fn key_text(&self, key: Key) -> String {
        let value = match key {
            Key::Grant if self.grant.uses == self.grant.delegate => ids(&self.grant.uses),
            Key::Grant => {
                format!("{{use: {}, delegate: {}}}", ids(&self.grant.uses), ids(&self.grant.delegate))
            }
            Key::Gates => ids(&self.gates),
            Key::Limits => self.limits_text(),
            Key::Tier => self.tier.as_str().to_owned(),
            Key::Accept => list(self.accept.iter().map(|accept| {
                let why = accept.why.replace('\'', "''");
                format!("{{id: {}, as: advisory, why: '{why}'}}", quoted(&accept.id))
            })),
            Key::Env => names(&self.env),
            Key::Paths => format!(
                "{{read: {}, write: {}, exec: {}, path: {}}}",
                names(&self.paths.read),
                names(&self.paths.write),
                names(&self.paths.exec),
                names(&self.paths.path)
            ),
            Key::Roots => names(&self.roots),
            Key::Overlays => list(self.overlays.iter().map(Overlay::text)),
            Key::Inline => self.inline.to_string(),
            Key::Subsumption => {
                let rows = self.subsumption_rows.iter().map(|(tool, row)| format!("{tool}: {}", names(row)));
                format!("{{{}}}", rows.collect::<Vec<_>>().join(", "))
            }
            Key::Universal => ids(&self.universal_added),
        };
        format!("{}: {value}", key.as_str())
    }

    fn limits_text(&self) -> String {
        let limits = &self.limits;
        format!(
            "{{depth: {}, agents: {}, concurrent: {}, deadline: {}, child_deadline: {}, tokens: {}, usd: {}}}",
            limits.depth,
            limits.agents,
            limits.concurrent,
            duration_text(limits.deadline_ms),
            duration_text(limits.child_deadline_ms),
            limits.tokens.text(|n| n.to_string()),
            limits.micro_usd.text(usd),
        )
    }
}

impl Overlay {
    /// As a policy states it.
    pub(super) fn text(&self) -> String {
        let rights = match &self.delegate {
            DelegateCeiling::Unstated => format!("allow: {}", ids(&self.uses)),
            DelegateCeiling::Stated(delegate) => {
                format!("use: {}, delegate: {}", ids(&self.uses), ids(delegate))
            }
        };
        let definition = scalar(&self.definition.to_string());
        format!("{{definition: {definition}, digest: \"{}\", {rights}}}", self.digest)
    }
}

impl Quota {
    /// As a policy states it.
    pub(super) fn text(self, amount: impl Fn(u64) -> String) -> String {
        match self {
            Self::Unlimited => "null".to_owned(),
            Self::AtMost(n) => amount(n),
        }
    }
}

/// Millionths of a dollar as an amount.
pub(super) fn usd(micro: u64) -> String {
    let text = format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
