//! Who holds each capability to its bounds.

use crate::capability::{Capability, CapabilitySet, Kind};
use crate::policy::Policy;
use crate::runtime::{Files, Profile, Tier};

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

/// The table for a grant under this runtime at this tier. No tier above 0 holds yet, so what a
/// tool that runs programs can reach is held by nothing, and while one is granted the runtime's
/// flags hold nothing either.
pub(super) fn table(
    effective: &CapabilitySet,
    profile: &Profile,
    tier: Tier,
    policy: &Policy,
) -> Vec<Enforcement> {
    let runs_programs = effective.iter().find(|id| profile.runs_programs(id));
    effective
        .iter()
        .map(|id| {
            let (by, how) = row(id, profile, tier, runs_programs);
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

fn row(
    id: &Capability,
    profile: &Profile,
    tier: Tier,
    runs_programs: Option<&Capability>,
) -> (Enforcer, String) {
    let runtime = &profile.runtime;
    if profile.runs_programs(id) {
        return (
            Enforcer::Nothing,
            format!("it runs programs, and at tier {} nothing bounds them", tier.as_str()),
        );
    }
    if let Some(other) = runs_programs {
        // What runs programs can start this program too, so not even the broker is asked.
        return (Enforcer::Nothing, format!("`{other}` runs programs, so nothing else of `{runtime}` holds"));
    }
    match id.kind() {
        Kind::Agent(_) | Kind::AnyAgent => (Enforcer::Broker, "only the broker spawns definitions".into()),
        Kind::Workspace(_) | Kind::AnyWorkspace => {
            (Enforcer::Broker, "only the broker routes into workspaces".into())
        }
        Kind::Tool(name, _) if name.as_str() == "delegate" => {
            (Enforcer::Broker, "only the broker hands down".into())
        }
        Kind::Tool(name, _) => match profile.tool(name).map(|tool| tool.files) {
            Some(Files::WholeDisk) => {
                (Enforcer::Nothing, format!("`{runtime}` reaches the whole disk with it"))
            }
            Some(Files::None | Files::Workspace) => (Enforcer::Runtime, profile.allowlist.clone()),
            None => (Enforcer::Nothing, format!("`{runtime}` does not know it")),
        },
        Kind::AnyTool | Kind::Mcp(..) | Kind::AnyOfMcp(_) | Kind::Ext(..) | Kind::Skill(_) => {
            (Enforcer::Nothing, format!("nothing in `{runtime}` bounds it"))
        }
    }
}
