//! What the kernel is to hold of a grant, as a value.

use std::fmt::Write as _;

use depute::capability::{CapabilitySet, Cover};
use depute::kernel_spec::{Access, Destination, KernelSpec, Network, Place};
use depute::plan::{SYSTEM, compile};
use depute::policy::{Paths, Policy};
use depute::runtime::{NodePaths, Profile, Tier};

use super::support::{LAB, POOL, Seeded, builtin, id, profile, set, shipped};

fn paths() -> NodePaths {
    NodePaths { private: "/node".into(), workspace: "/work".into(), itself: "/opt/depute".into() }
}

fn spec(granted: &[&str], profile: &Profile) -> KernelSpec {
    compile(&set(granted), profile, &Paths::default(), &paths(), Tier::K)
}

fn letters(access: Access) -> String {
    [(access.read, 'r'), (access.write, 'w'), (access.execute, 'x')]
        .map(|(has, letter)| if has { letter } else { '-' })
        .iter()
        .collect()
}

/// A spec for the eye. The places of the system are the same in all, and left out.
fn shown(spec: &KernelSpec) -> String {
    let mut out = format!("tier {}, {:?}, metadata {}\n", spec.tier.as_str(), spec.programs, spec.metadata);
    for rule in &spec.paths {
        let (kind, path) = match &rule.place {
            Place::System(_) => continue,
            Place::Operator(path) => ("operator", path),
            Place::Workspace(path) => ("workspace", path),
            Place::Node(path) => ("node", path),
        };
        let _ = writeln!(out, "{} {kind:<9} {path:?}", letters(rule.access));
    }
    let _ = match &spec.network {
        Network::None => write!(out, "no network"),
        Network::Proxied(to) => write!(out, "by the proxy to {to:?}"),
    };
    out
}

#[test]
fn every_node_reaches_the_same_places_of_the_system() {
    let spec = spec(&[], &shipped("command"));
    let system: Vec<(&str, Access)> = spec
        .paths
        .iter()
        .filter_map(|rule| match &rule.place {
            Place::System(path) => Some((path.as_str(), rule.access)),
            Place::Operator(_) | Place::Workspace(_) | Place::Node(_) => None,
        })
        .collect();
    let mut table: Vec<(&str, Access)> = SYSTEM.iter().map(|(path, access, _)| (*path, *access)).collect();
    table.sort_unstable();
    assert_eq!(system, table);
    let writable: Vec<&str> =
        table.iter().filter(|(_, access)| access.write).map(|(path, _)| *path).collect();
    assert_eq!(writable, ["/dev/null"]);
    for secret in [
        "/etc/shadow",
        "/etc/sudoers",
        "/etc/ssh",
        "/etc/ssl/private",
        "/etc/pki/tls/private",
        "/home",
        "/root",
        "/proc",
        "/tmp",
        "/var",
        "/dev/tty",
    ] {
        assert_eq!(spec.access_at(secret), Access::default(), "{secret}");
    }
}

#[test]
fn a_reader_reads_the_workspace_and_starts_nothing() {
    insta::assert_snapshot!(shown(&spec(&["tool:read", "tool:grep", "tool:glob", "tool:ls"], &shipped("scripted"))), @r#"
    tier K, OwnOnly, metadata false
    r-x operator  "/opt/depute"
    r-- workspace ""
    r-- node      "/node"
    rw- node      "/node/config"
    rw- node      "/node/home"
    rw- node      "/node/tmp"
    no network
    "#);
}

#[test]
fn a_writer_below_docs_writes_there_alone() {
    let granted = ["tool:read", "tool:write(docs/**)", "tool:edit(notes/today.md)"];
    insta::assert_snapshot!(shown(&spec(&granted, &shipped("scripted"))), @r#"
    tier K, OwnOnly, metadata false
    r-x operator  "/opt/depute"
    r-- workspace ""
    -w- workspace "docs"
    rw- workspace "notes/today.md"
    r-- node      "/node"
    rw- node      "/node/config"
    rw- node      "/node/home"
    rw- node      "/node/tmp"
    no network
    "#);
    // `write` by itself reads nothing.
    insta::assert_snapshot!(shown(&spec(&["tool:write(docs/**)"], &shipped("scripted"))), @r#"
    tier K, OwnOnly, metadata false
    r-x operator  "/opt/depute"
    -w- workspace "docs"
    r-- node      "/node"
    rw- node      "/node/config"
    rw- node      "/node/home"
    rw- node      "/node/tmp"
    no network
    "#);
    // What is granted of one place twice is one rule.
    insta::assert_snapshot!(shown(&spec(&["tool:write(docs/**)", "tool:read(docs/**)"], &shipped("scripted"))), @r#"
    tier K, OwnOnly, metadata false
    r-x operator  "/opt/depute"
    rw- workspace "docs"
    r-- node      "/node"
    rw- node      "/node/config"
    rw- node      "/node/home"
    rw- node      "/node/tmp"
    no network
    "#);
}

#[test]
fn a_shell_has_the_workspace_and_starts_programs() {
    insta::assert_snapshot!(shown(&spec(&["tool:bash"], &shipped("command"))), @r#"
    tier K, Executable, metadata true
    rwx workspace ""
    r-- node      "/node"
    rwx node      "/node/config"
    rwx node      "/node/home"
    rwx node      "/node/tmp"
    no network
    "#);
    assert_eq!(
        spec(&["tool:bash(git:*)"], &shipped("scripted")),
        spec(&["tool:bash"], &shipped("scripted")),
        "no kernel bounds which commands run"
    );
}

#[test]
fn hosts_are_reached_by_the_proxy_alone() {
    let network = |granted: &[&str]| spec(granted, &profile(LAB)).network;
    insta::assert_snapshot!(
        shown(&spec(&["tool:web_fetch(domain:example.com)", "tool:web_search(domain:*.example.org)"], &profile(LAB))),
        @r#"
    tier K, OwnOnly, metadata false
    r-x operator  "/opt/depute"
    r-- node      "/node"
    rw- node      "/node/config"
    rw- node      "/node/home"
    rw- node      "/node/tmp"
    by the proxy to [Host("example.com"), Below("example.org")]
    "#
    );
    assert_eq!(network(&["tool:web_fetch"]), Network::Proxied(vec![Destination::Anywhere]));
    assert_eq!(network(&["tool:web_search"]), Network::Proxied(vec![Destination::Anywhere]));
    assert_eq!(network(&["tool:web_fetch(example)"]), Network::None, "it names no host");
    assert_eq!(network(&["tool:read", "tool:bash"]), Network::None);
    // What the program itself connects to, whatever is granted.
    let needs = profile(&LAB.replace(
        "cannot: {}",
        "cage: {read: [/opt/model], endpoints: ['API.example.com:443', '10.0.0.1:8080']}\ncannot: {}",
    ));
    insta::assert_snapshot!(shown(&spec(&[], &needs)), @r#"
    tier K, OwnOnly, metadata false
    r-x operator  "/opt/depute"
    r-- operator  "/opt/model"
    r-- node      "/node"
    rw- node      "/node/config"
    rw- node      "/node/home"
    rw- node      "/node/tmp"
    by the proxy to [Endpoint { host: "10.0.0.1", port: 8080 }, Endpoint { host: "api.example.com", port: 443 }]
    "#);
}

#[test]
fn an_operator_opens_further_places() {
    let policy = Policy::read(
        b"version: 1\ngrant: []\npaths: {read: [/srv/data], write: [/srv/out], exec: [/opt/node], path: [/opt/node/bin]}\n",
    )
    .unwrap();
    let opened = |paths_of: &Paths| compile(&set(&[]), &shipped("scripted"), paths_of, &paths(), Tier::K);
    insta::assert_snapshot!(shown(&opened(&policy.paths)), @r#"
    tier K, OwnOnly, metadata false
    r-x operator  "/opt/depute"
    r-x operator  "/opt/node"
    r-x operator  "/opt/node/bin"
    r-- operator  "/srv/data"
    rw- operator  "/srv/out"
    r-- node      "/node"
    rw- node      "/node/config"
    rw- node      "/node/home"
    rw- node      "/node/tmp"
    no network
    "#);
    let shell = |paths_of: &Paths| compile(&set(&[]), &shipped("pi"), paths_of, &paths(), Tier::K);
    assert!(shell(&policy.paths).metadata && !shell(&Paths::default()).metadata);
}

#[test]
fn pi_starts_helpers_and_has_no_network_yet() {
    insta::assert_snapshot!(shown(&spec(&["tool:read", "tool:find"], &shipped("pi"))), @r#"
    tier K, Executable, metadata false
    r-- workspace ""
    r-- node      "/node"
    rwx node      "/node/config"
    rwx node      "/node/home"
    rwx node      "/node/tmp"
    no network
    "#);
}

#[test]
fn a_pattern_is_as_wide_as_its_directory() {
    let below = |id: &str| -> Vec<String> {
        let rules = spec(&[id], &profile(LAB)).paths.into_iter();
        rules
            .filter_map(|rule| if let Place::Workspace(below) = rule.place { Some(below) } else { None })
            .collect()
    };
    for (granted, opened) in [
        ("tool:write(docs/*.md)", "docs"),
        ("tool:write(docs/api/*/x/**)", "docs/api"),
        ("tool:write(*.md)", ""),
        ("tool:write(**)", ""),
        ("tool:write(**/x)", ""),
        ("tool:write(docs/x)", "docs/x"),
    ] {
        assert_eq!(below(granted), [opened], "{granted}");
    }
    assert_eq!(below("tool:delegate"), Vec::<String>::new());
    assert_eq!(below("agent:x"), Vec::<String>::new());
}

/// A child's spec is within the spec of what its parent may hand down.
#[test]
fn what_is_covered_opens_no_more_in_20_000_random_grants() {
    let (lab, table) = (profile(LAB), builtin());
    let mut random = Seeded::new(7);
    let (mut proper, mut beyond) = (0, 0);
    for number in 0..20_000 {
        let held = set(&random.some(&POOL, 5));
        let child: Vec<&str> = random.some(&POOL, 5);
        let kept: Vec<&str> =
            child.iter().copied().filter(|text| held.covers(&id(text), &table) != Cover::No).collect();
        let of = |set: &CapabilitySet| compile(set, &lab, &Paths::default(), &paths(), Tier::K);
        let (parent, within) = (of(&held), of(&set(&kept)));
        assert!(parent.contains(&within), "case {number}: {kept:?} of {held:?}");
        proper += usize::from(!within.contains(&parent));
        // What is not covered is opened by no accident: the comparison can fail.
        beyond += usize::from(!parent.contains(&of(&set(&child))));
    }
    println!("20000 grants: {proper} within a wider one, {beyond} requests beyond it");
    assert!(proper > 5_000 && beyond > 2_000, "{proper} {beyond}");
}
