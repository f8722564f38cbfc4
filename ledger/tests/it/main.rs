//! One binary for all integration tests, so that they link once.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that fails should stop where it fails"
)]

mod append;
mod concurrent;
mod content;
mod crash;
mod cuts;
mod golden;
mod hostile;
mod newer;
mod objects;
mod roundtrip;
mod segments;
mod space;
mod steps;
mod support;
mod tamper;

/// A file that no module names would be a test that never runs.
#[test]
fn no_test_file_is_forgotten() {
    let here = include_str!("main.rs");
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".rs").expect("only Rust files");
        assert!(module == "main" || here.contains(&format!("mod {module};")), "{name} is in no module");
    }
}
