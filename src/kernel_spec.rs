//! What the kernel is to hold of one node: plain data, compiled from a grant by `plan`, carried out by
//! `cage`.
//!
//! A spec names everything that a process of the node may reach. What it does not name is out of reach,
//! for the process and for all that it starts.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use crate::capability::HostScope;
use crate::runtime::Tier;

/// All that one node may reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// How strongly it is to be held. Less is an error, never a fallback.
    pub tier: Tier,
    /// The node's workspace: what relative places are beneath. Absolute.
    pub workspace: String,
    /// The node's private directory. Absolute, made by us.
    pub private: String,
    /// Every place that may be reached, in no order.
    pub paths: Vec<PathRule>,
    /// Which programs may be started once the node's own runs.
    pub programs: Programs,
    /// Whether modes, owners, times and attributes of files may be changed. Below tier N nothing bounds
    /// that by place, so only programs that may write have it: they cannot do without.
    pub metadata: bool,
    /// What may be connected to.
    pub network: Network,
    /// How many processes there may be at a time, where the tier can hold that.
    pub processes: u32,
}

/// How many processes of a node there may be at a time.
pub const MAX_PROCESSES: u32 = 1024;

/// A place, and what may be done there and below.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathRule {
    /// Where.
    pub place: Place,
    /// What.
    pub access: Access,
}

/// Where a rule applies. Which kind it is says whom a link or a missing path surprises.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A place of the system that every program needs. Passed over where this machine has none.
    System(String),
    /// An absolute path that the operator or the runtime's profile names. It must exist.
    Operator(String),
    /// Beneath the workspace, `""` being all of it. It must exist, and no part of it may be a link.
    Workspace(String),
    /// An absolute path that we made for this node.
    Node(String),
}

/// What may be done at a place and below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Files read, directories listed.
    pub read: bool,
    /// Files made, written, cut, renamed, removed.
    pub write: bool,
    /// Programs started.
    pub execute: bool,
}

/// Which programs may be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Programs {
    /// None but the node's own, once.
    OwnOnly,
    /// Those at places that may be executed.
    Executable,
}

/// What may be connected to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing: no socket can be made.
    None,
    /// These hosts, through the broker's proxy.
    Proxied(Vec<Destination>),
}

/// A host that may be connected to through the broker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    /// Every public host, on the ports of the web.
    Anywhere,
    /// Exactly this public host, on the ports of the web.
    Host(String),
    /// The public sub-domains of this host, on the ports of the web.
    Below(String),
    /// This host and port, also where it is on a private network: the operator or the runtime's profile
    /// names it so.
    Endpoint {
        /// The name or address.
        host: String,
        /// The port.
        port: u16,
    },
}

/// The ports that a host without a port stands for.
pub const WEB_PORTS: [u16; 2] = [80, 443];

impl Access {
    /// Reading alone.
    pub const READ: Self = Self { read: true, write: false, execute: false };
    /// Reading and starting programs.
    pub const RUN: Self = Self { read: true, write: false, execute: true };
    /// Reading and writing.
    pub const WRITE: Self = Self { read: true, write: true, execute: false };
    /// All of it.
    pub const ALL: Self = Self { read: true, write: true, execute: true };

    /// Whether this allows all that the other does.
    #[must_use]
    pub fn allows(self, other: Self) -> bool {
        (self.read || !other.read) && (self.write || !other.write) && (self.execute || !other.execute)
    }

    /// It in words that follow "for".
    #[must_use]
    pub fn words(self) -> &'static str {
        match (self.read, self.write, self.execute) {
            (false, false, false) => "nothing",
            (true, false, false) => "reading",
            (false, true, false) => "writing",
            (true, true, false) => "reading and writing",
            (false, false, true) => "running",
            (true, false, true) => "reading and running",
            (false, true, true) => "writing and running",
            (true, true, true) => "reading, writing and running",
        }
    }

    /// What either allows.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            read: self.read || other.read,
            write: self.write || other.write,
            execute: self.execute || other.execute,
        }
    }
}

impl Destination {
    /// The destination that a host scope names; nothing for a scope in a form that names no host.
    #[must_use]
    pub fn of_scope(scope: &HostScope) -> Option<Self> {
        match scope {
            HostScope::Exactly(host) => Some(Self::Host(host.clone())),
            HostScope::Below(host) => Some(Self::Below(host.clone())),
            HostScope::Other(_) => None,
        }
    }

    /// Whether a connection to this host and port is one of these. `host` is in lower case.
    #[must_use]
    pub fn admits(&self, host: &str, port: u16) -> bool {
        match self {
            Self::Anywhere => WEB_PORTS.contains(&port),
            Self::Host(named) => named == host && WEB_PORTS.contains(&port),
            Self::Below(domain) => is_below(host, domain) && WEB_PORTS.contains(&port),
            Self::Endpoint { host: named, port: at } => named == host && *at == port,
        }
    }

    /// Whether every connection that the other admits is one that this admits.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Anywhere, Self::Anywhere | Self::Host(_) | Self::Below(_)) => true,
            (Self::Below(domain), Self::Host(host) | Self::Below(host)) => {
                is_below(host, domain) || (domain == host && matches!(other, Self::Below(_)))
            }
            _ => self == other,
        }
    }
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

impl KernelSpec {
    /// Whether everything that the other spec reaches is within this one: what must hold of a child's
    /// spec and the spec of what its parent may hand down. The nodes' own private directories are
    /// different ones and are left out.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        let path = |spec: &Self, rule: &PathRule| match &rule.place {
            Place::Node(_) => None,
            place @ (Place::System(_) | Place::Operator(_) | Place::Workspace(_)) => {
                Some(spec.path_of(place))
            }
        };
        let paths = other.paths.iter().all(|rule| match path(other, rule) {
            None => true,
            Some(wanted) => {
                let held = self
                    .paths
                    .iter()
                    .filter(|mine| path(self, mine).is_some_and(|held| is_at_or_below(&wanted, &held)))
                    .fold(Access::default(), |held, mine| held.or(mine.access));
                held.allows(rule.access)
            }
        });
        let network = match (&self.network, &other.network) {
            (_, Network::None) => true,
            (Network::None, Network::Proxied(wanted)) => wanted.is_empty(),
            (Network::Proxied(held), Network::Proxied(wanted)) => {
                wanted.iter().all(|wanted| held.iter().any(|held| held.contains(wanted)))
            }
        };
        paths
            && network
            && self.tier <= other.tier
            && self.programs >= other.programs
            && (self.metadata || !other.metadata)
            && self.processes >= other.processes
    }

    /// What may be done at an absolute path.
    #[must_use]
    pub fn access_at(&self, path: &str) -> Access {
        self.paths
            .iter()
            .filter(|rule| is_at_or_below(path, &self.path_of(&rule.place)))
            .fold(Access::default(), |access, rule| access.or(rule.access))
    }

    /// The absolute path of a place.
    #[must_use]
    pub fn path_of(&self, place: &Place) -> String {
        match place {
            Place::System(path) | Place::Operator(path) | Place::Node(path) => path.clone(),
            Place::Workspace(below) if below.is_empty() => self.workspace.clone(),
            Place::Workspace(below) => format!("{}/{below}", self.workspace),
        }
    }
}

/// Whether a path is at a place or below it. Both absolute, without `.` and `..`.
#[must_use]
pub fn is_at_or_below(path: &str, place: &str) -> bool {
    let place = place.trim_end_matches('/');
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
