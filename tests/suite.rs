//! One binary for all integration tests, so that they link once.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test reads its data from disk, says what it skips, and stops where it fails"
)]

mod suite {
    mod algebra;
    mod architecture;
    mod caged;
    mod ceilings;
    mod checking;
    mod codes;
    mod conformance;
    mod corpus;
    mod discovery;
    mod doctor;
    mod evidence;
    mod examples;
    mod frontmatter;
    mod gates;
    mod held;
    mod init;
    mod kernel;
    mod launches;
    mod ledger_reading;
    mod leftovers;
    mod locked;
    mod mending;
    mod messages;
    mod order_of_checks;
    mod overlays;
    mod pack;
    mod policy;
    mod profiles;
    mod project;
    mod readme;
    mod reference;
    mod refused_grants;
    mod refused_input;
    mod refused_requests;
    mod requests;
    mod rights;
    mod roots;
    mod running;
    mod schema;
    mod scopes;
    mod sockets;
    mod source;
    mod support;
    mod tiers;
    mod versions;
}

/// A file that no module names would be a test that never runs.
#[test]
fn no_test_file_is_forgotten() {
    let here = include_str!("suite.rs");
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite");
    let mut files = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".rs").expect("only Rust files");
        assert!(here.contains(&format!("    mod {module};\n")), "{name} is in no module");
        files += 1;
    }
    assert_eq!(here.lines().filter(|line| line.starts_with("    mod ")).count(), files);
}
