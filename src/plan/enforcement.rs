//! Who holds each capability to its bounds.

use crate::capability::{Capability, CapabilitySet, Kind, Reach};
use crate::kernel_spec::{Destination, is_at_or_below};
use crate::policy::Policy;
use crate::runtime::{Files, Profile, Tier};

use super::kernel::{Fit, Opening, connects_to, opens, reaches_hosts, starts_programs};

/// What holds a capability to its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcer {
    /// Landlock, seccomp, namespaces.
    Kernel,
    /// A flag of the runtime that removes the tool.
    Runtime,
    /// The broker: spawning, budgets, workspaces.
    Broker,
    /// Nothing; the policy accepts that by name.
    Advisory,
    /// Nothing.
    Nothing,
}

impl Enforcer {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Runtime => "runtime",
            Self::Broker => "broker",
            Self::Advisory => "advisory",
            Self::Nothing => "nothing",
        }
    }
}

/// One row of the enforcement table.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Enforcement {
    /// The capability.
    pub capability: Capability,
    /// What holds it.
    pub by: Enforcer,
    /// How, or why not.
    pub how: String,
}

/// The table for a grant under this runtime at this tier.
pub(super) fn table(
    effective: &CapabilitySet,
    profile: &Profile,
    tier: Tier,
    policy: &Policy,
) -> Vec<Enforcement> {
    effective
        .iter()
        .map(|id| {
            let (by, how) = match tier {
                Tier::Zero => uncaged(id, profile, effective),
                Tier::F | Tier::K | Tier::N | Tier::C => caged(id, profile, effective),
            };
            match policy.accept.iter().find(|accept| accept.id == *id) {
                Some(accept) if by == Enforcer::Nothing => Enforcement {
                    capability: id.clone(),
                    by: Enforcer::Advisory,
                    how: format!("{how}; accepted: {}", accept.why),
                },
                _ => Enforcement { capability: id.clone(), by, how },
            }
        })
        .collect()
}

/// At tier 0 what a tool that runs programs can reach is held by nothing, and while one is granted the
/// runtime's flags hold nothing either.
fn uncaged(id: &Capability, profile: &Profile, effective: &CapabilitySet) -> (Enforcer, String) {
    let runtime = &profile.runtime;
    if profile.runs_programs(id) {
        return (Enforcer::Nothing, "it runs programs, and at tier 0 nothing bounds them".to_owned());
    }
    if let Some(other) = effective.iter().find(|id| profile.runs_programs(id)) {
        // What runs programs can start this program too, so not even the broker is asked.
        return (Enforcer::Nothing, format!("`{other}` runs programs, so nothing else of `{runtime}` holds"));
    }
    let Kind::Tool(name, _) = id.kind() else { return by_broker(id, profile) };
    match name.as_str() {
        "delegate" => by_broker(id, profile),
        _ => match profile.tool(name).map(|tool| tool.files) {
            Some(Files::WholeDisk) => {
                (Enforcer::Nothing, format!("`{runtime}` reaches the whole disk with it"))
            }
            Some(Files::None | Files::Workspace) => (Enforcer::Runtime, profile.allowlist.clone()),
            None => (Enforcer::Nothing, format!("`{runtime}` does not know it")),
        },
    }
}

/// In a cage. What is granted is open to the program and to all that it starts; what is not is closed to
/// all of them alike.
fn caged(id: &Capability, profile: &Profile, effective: &CapabilitySet) -> (Enforcer, String) {
    let Kind::Tool(name, reach) = id.kind() else { return by_broker(id, profile) };
    if name.as_str() == "delegate" {
        return by_broker(id, profile);
    }
    if profile.tool(name).is_none() {
        return (Enforcer::Nothing, format!("`{}` does not know it", profile.runtime));
    }
    if starts_programs(id, profile) {
        return match reach {
            Reach::Whole => (Enforcer::Kernel, "the cage holds all that it starts".to_owned()),
            Reach::Within(_) => (
                Enforcer::Nothing,
                format!("no cage tells one command from another, so it is all of `{}`", id.unscoped()),
            ),
        };
    }
    if let Some(opening) = opens(id, profile) {
        return file(id, &opening, profile, effective);
    }
    if reaches_hosts(name) {
        return match connects_to(id) {
            None => (Enforcer::Nothing, "its scope names no host in a form that is known".to_owned()),
            Some(to) => (
                Enforcer::Broker,
                format!(
                    "the kernel leaves it the broker's proxy alone, which connects to {}",
                    destination(&to)
                ),
            ),
        };
    }
    match effective.iter().find(|other| starts_programs(other, profile)) {
        // A program that is started is asked for no tool.
        Some(other) => (Enforcer::Nothing, format!("`{other}` runs programs, and no flag holds those")),
        None => (Enforcer::Runtime, profile.allowlist.clone()),
    }
}

fn file(
    id: &Capability,
    opening: &Opening,
    profile: &Profile,
    effective: &CapabilitySet,
) -> (Enforcer, String) {
    let place = |below: &str| match below {
        "" => "the workspace".to_owned(),
        below => format!("`{below}`"),
    };
    let below = place(&opening.below);
    if opening.fit == Fit::Widened {
        return (
            Enforcer::Nothing,
            format!("no rule of the kernel holds a pattern, so it is widened to all of {below}"),
        );
    }
    let mut how = format!("the kernel opens {below} for {}", opening.access.words());
    let wider = effective.iter().find(|other| {
        *other != id
            && opens(other, profile).is_some_and(|other| {
                other.access.allows(opening.access)
                    && other.below != opening.below
                    && is_at_or_below(&format!("/{}", opening.below), &format!("/{}", other.below))
            })
    });
    if let Some(wider) = wider {
        how.push_str(&format!("; `{wider}` opens more"));
    }
    if opening.access.write && opening.below.is_empty() {
        how.push_str(", and what git runs there");
    }
    (Enforcer::Kernel, how)
}

fn destination(to: &Destination) -> String {
    match to {
        Destination::Anywhere => "public hosts".to_owned(),
        Destination::Host(host) => format!("`{host}`"),
        Destination::Below(domain) => format!("hosts below `{domain}`"),
        Destination::Endpoint { host, port } => format!("`{host}:{port}`"),
    }
}

/// What only the broker does, whatever the kernel holds.
fn by_broker(id: &Capability, profile: &Profile) -> (Enforcer, String) {
    match id.kind() {
        Kind::Agent(_) | Kind::AnyAgent => (Enforcer::Broker, "only the broker spawns definitions".into()),
        Kind::Workspace(_) | Kind::AnyWorkspace => {
            (Enforcer::Broker, "only the broker routes into workspaces".into())
        }
        Kind::Tool(name, _) if name.as_str() == "delegate" => {
            (Enforcer::Broker, "only the broker hands down".into())
        }
        Kind::Tool(..)
        | Kind::AnyTool
        | Kind::Mcp(..)
        | Kind::AnyOfMcp(_)
        | Kind::Ext(..)
        | Kind::Skill(_) => (Enforcer::Nothing, format!("nothing in `{}` bounds it", profile.runtime)),
    }
}
