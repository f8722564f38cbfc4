//! From a grant to what the kernel is to hold: [`compile`].
//!
//! Access is only ever added here, so what is granted less opens less.

use std::collections::{BTreeMap, BTreeSet};

use crate::capability::{Capability, CapabilitySet, Kind, PathScope, Reach, Scope, ToolName};
use crate::kernel_spec::{
    Access, Destination, KernelSpec, MAX_PROCESSES, Network, PathRule, Place, Programs,
};
use crate::policy;
use crate::runtime::{Find, NodePaths, Profile, Tier};

use super::situation::PlaceFact;

/// Writing without reading: what `write` needs, and all it gives.
const WRITE_ONLY: Access = Access { read: false, write: true, execute: false };

/// The places of the system that every node may reach: where, what, why.
pub const SYSTEM: [(&str, Access, &str); 34] = [
    ("/usr", Access::RUN, "programs and their libraries"),
    ("/bin", Access::RUN, "programs, where it is no link into /usr"),
    ("/sbin", Access::RUN, "the same"),
    ("/lib", Access::RUN, "libraries and the loader, which is started too"),
    ("/lib32", Access::RUN, "the same for 32 bits"),
    ("/lib64", Access::RUN, "the same for 64 bits"),
    ("/etc/ld.so.cache", Access::READ, "where the loader finds libraries"),
    ("/etc/ld.so.conf", Access::READ, "the same without a cache"),
    ("/etc/ld.so.conf.d", Access::READ, "the same"),
    ("/etc/passwd", Access::READ, "names of users"),
    ("/etc/group", Access::READ, "names of groups"),
    ("/etc/nsswitch.conf", Access::READ, "how names are looked up"),
    ("/etc/localtime", Access::READ, "the time zone"),
    ("/etc/timezone", Access::READ, "its name"),
    ("/etc/ssl/certs", Access::READ, "certificates of authorities, and not the keys beside them"),
    ("/etc/ssl/cert.pem", Access::READ, "the same"),
    ("/etc/ssl/openssl.cnf", Access::READ, "how they are checked"),
    ("/etc/ca-certificates", Access::READ, "the same, where they are links to there"),
    ("/etc/pki/tls/certs", Access::READ, "the same, on other systems"),
    ("/etc/pki/tls/cert.pem", Access::READ, "the same"),
    ("/etc/pki/ca-trust/extracted", Access::READ, "the same"),
    ("/etc/alternatives", Access::READ, "links to the programs chosen of several"),
    ("/etc/gitconfig", Access::READ, "git ends where it cannot be read"),
    ("/etc/terminfo", Access::READ, "terminals"),
    ("/etc/os-release", Access::READ, "which system this is"),
    ("/etc/debian_version", Access::READ, "the same, for programs that ask there"),
    ("/etc/lsb-release", Access::READ, "the same"),
    ("/etc/redhat-release", Access::READ, "the same"),
    ("/etc/mime.types", Access::READ, "kinds of files"),
    ("/dev/null", Access::WRITE, "where output goes that nobody wants; nothing stays there"),
    ("/dev/zero", Access::READ, "zeroes"),
    ("/dev/full", Access::READ, "the same, and no room"),
    ("/dev/random", Access::READ, "random bytes"),
    ("/dev/urandom", Access::READ, "the same; git ends without it"),
];

/// What the kernel is to hold of a node with this grant, under this profile.
///
/// For the same profile, paths and tier, a grant that another covers gives a spec that the other's
/// [contains](KernelSpec::contains).
#[must_use]
pub fn compile(
    granted: &CapabilitySet,
    profile: &Profile,
    operator: &policy::Paths,
    paths: &NodePaths,
    tier: Tier,
) -> KernelSpec {
    let runs_programs = profile.cage.programs || granted.iter().any(|id| starts_programs(id, profile));
    let mut rules = Rules::default();
    for (path, access, _) in SYSTEM {
        rules.open(Place::System(path.to_owned()), access);
    }
    if tier >= Tier::N {
        // One in which there are no processes but the node's own.
        rules.open(Place::System("/proc".to_owned()), Access::READ);
    }
    rules.open(Place::Node(paths.private.clone()), Access::READ);
    for directory in paths.prepared().directories {
        rules.open(Place::Node(directory), if runs_programs { Access::ALL } else { Access::WRITE });
    }
    let listed = [
        (&operator.read, Access::READ),
        (&operator.write, Access::WRITE),
        (&operator.exec, Access::RUN),
        (&operator.path, Access::RUN),
        (&profile.cage.read, Access::READ),
    ];
    for (list, access) in listed {
        for path in list {
            rules.open(Place::Operator(path.clone()), access);
        }
    }
    if profile.find == Find::Itself {
        rules.open(Place::Operator(paths.itself.clone()), Access::RUN);
    }
    for opening in granted.iter().filter_map(|id| opens(id, profile)) {
        rules.open(Place::Workspace(opening.below), opening.access);
    }
    let is_of_files = |place: &Place| matches!(place, Place::Workspace(_) | Place::Operator(_));
    let writes = rules.0.iter().any(|(place, access)| access.write && is_of_files(place));
    let destinations: BTreeSet<Destination> =
        granted.iter().flat_map(connects_to).chain(endpoints(profile)).collect();
    KernelSpec {
        tier,
        workspace: paths.workspace.clone(),
        private: paths.private.clone(),
        paths: rules.0.into_iter().map(|(place, access)| PathRule { place, access }).collect(),
        programs: if runs_programs { Programs::Executable } else { Programs::OwnOnly },
        metadata: runs_programs && writes,
        network: match destinations.is_empty() {
            true => Network::None,
            false => Network::Proxied(destinations.into_iter().collect()),
        },
        processes: MAX_PROCESSES,
    }
}

/// Places with what may be done there, one rule a place.
#[derive(Default)]
struct Rules(BTreeMap<Place, Access>);

impl Rules {
    fn open(&mut self, place: Place, access: Access) {
        let held = self.0.entry(place).or_default();
        *held = held.or(access);
    }
}

/// What a capability opens of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    /// Where, beneath the workspace; `""` is all of it.
    pub(super) below: String,
    /// What may be done there.
    pub(super) access: Access,
    /// How that place relates to what the capability says.
    pub(super) fit: Fit,
}

/// Whether a rule of the kernel is as wide as a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// The whole workspace is meant.
    Whole,
    /// All below this directory is meant.
    Below,
    /// This one file is meant.
    File,
    /// Less is meant: no rule of the kernel holds a pattern.
    Widened,
}

/// Whether a program with this tool starts others.
pub(super) fn starts_programs(id: &Capability, profile: &Profile) -> bool {
    matches!(id.kind(), Kind::Tool(..) | Kind::AnyTool) && profile.runs_programs(id)
}

/// What a capability opens of the workspace; nothing where it is none of files.
pub(super) fn opens(id: &Capability, profile: &Profile) -> Option<Opening> {
    if starts_programs(id, profile) {
        return Some(Opening { below: String::new(), access: Access::ALL, fit: Fit::Whole });
    }
    let Kind::Tool(name, reach) = id.kind() else { return None };
    let access = match name.as_str() {
        "read" | "grep" | "glob" | "ls" | "find" => Access::READ,
        "edit" | "edit-diff" | "notebook_edit" => Access::WRITE,
        "write" => WRITE_ONLY,
        _ => return None,
    };
    let (below, fit) = match reach {
        Reach::Whole => (String::new(), Fit::Whole),
        Reach::Within(Scope::Path(PathScope::Below(parts))) if parts.is_empty() => {
            (String::new(), Fit::Whole)
        }
        Reach::Within(Scope::Path(PathScope::Below(parts))) => (parts.join("/"), Fit::Below),
        Reach::Within(Scope::Path(PathScope::Exactly(parts))) => (parts.join("/"), Fit::File),
        Reach::Within(Scope::Path(PathScope::Glob(text))) => (literal(text), Fit::Widened),
        Reach::Within(Scope::Opaque(_) | Scope::Command(_) | Scope::Host(_)) => (String::new(), Fit::Widened),
    };
    Some(Opening { below, access, fit })
}

/// The places beneath the workspace that these ids name by their scopes, each with what has to be there:
/// what must be known of the workspace before one of them is granted.
#[must_use]
pub fn places<'c>(
    ids: impl IntoIterator<Item = &'c Capability>,
    profile: &Profile,
) -> BTreeMap<String, PlaceFact> {
    let opened = ids.into_iter().filter_map(|id| opens(id, profile));
    let needed = |fit| if fit == Fit::File { PlaceFact::File } else { PlaceFact::Directory };
    opened
        .filter(|opening| !opening.below.is_empty())
        .map(|opening| (opening.below, needed(opening.fit)))
        .collect()
}

/// The capability that is held where this one is wider than its words; nothing where it is not.
pub(super) fn widened(id: &Capability, profile: &Profile) -> Option<Capability> {
    let Kind::Tool(name, _) = id.kind() else { return None };
    let opening = opens(id, profile).filter(|opening| opening.fit == Fit::Widened)?;
    let parts: Vec<String> =
        opening.below.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    match parts.is_empty() {
        true => Some(id.unscoped()),
        false => Some(Kind::Tool(name.clone(), Reach::Within(Scope::Path(PathScope::Below(parts)))).into()),
    }
}

/// The directories of a pattern before its first part that is one.
fn literal(glob: &str) -> String {
    let plain = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}']);
    glob.split('/').take_while(plain).collect::<Vec<_>>().join("/")
}

/// Whether a tool of this name connects to hosts.
pub(super) fn reaches_hosts(name: &ToolName) -> bool {
    matches!(name.as_str(), "web_fetch" | "web_search")
}

/// The hosts that a capability lets be connected to.
pub(super) fn connects_to(id: &Capability) -> Option<Destination> {
    if *id.kind() == Kind::AnyTool {
        return Some(Destination::Anywhere);
    }
    let Kind::Tool(name, reach) = id.kind() else { return None };
    match reach {
        _ if !reaches_hosts(name) => None,
        Reach::Whole => Some(Destination::Anywhere),
        Reach::Within(Scope::Host(scope)) => Destination::of_scope(scope),
        Reach::Within(Scope::Path(_) | Scope::Command(_) | Scope::Opaque(_)) => None,
    }
}

fn endpoints(profile: &Profile) -> impl Iterator<Item = Destination> {
    profile
        .cage
        .endpoints
        .iter()
        .map(|endpoint| Destination::Endpoint { host: endpoint.host.clone(), port: endpoint.port })
}
