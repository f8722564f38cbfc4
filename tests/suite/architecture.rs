//! The tree keeps its shape: files stay short, arrows go one way, and the core has no effects.

use std::collections::BTreeSet;

use super::source::{module, rust_files};
use super::support::manifest_dir;

/// No file of the project may be longer, in lines.
const LONGEST: usize = 700;

/// Each module, and the modules that it may name. What has effects comes after the rule.
const ARROWS: [(&str, &[&str]); 19] = [
    ("capability", &["nearest"]),
    ("definition", &["capability", "diagnostic", "yaml"]),
    ("policy", &["capability", "diagnostic", "nearest", "runtime", "shape", "yaml"]),
    ("runtime", &["capability", "diagnostic", "shape", "yaml"]),
    ("kernel_spec", &["capability", "runtime"]),
    (
        "plan",
        &["capability", "definition", "diagnostic", "exit", "kernel_spec", "nearest", "policy", "runtime"],
    ),
    ("schema", &["capability", "plan", "policy", "runtime", "shape"]),
    ("yaml", &["diagnostic", "nearest", "shape"]),
    ("shape", &[]),
    ("diagnostic", &["capability"]),
    ("nearest", &[]),
    ("exit", &[]),
    // ---
    ("host", &["runtime"]),
    ("durable", &["host"]),
    ("cage", &["exit", "host", "kernel_spec", "runtime"]),
    ("discover", &["capability", "definition", "diagnostic", "durable", "host", "nearest", "plan", "policy"]),
    (
        "broker",
        &[
            "cage",
            "capability",
            "definition",
            "diagnostic",
            "discover",
            "durable",
            "exit",
            "host",
            "kernel_spec",
            "nearest",
            "plan",
            "policy",
            "runtime",
        ],
    ),
    ("scripted", &["capability", "diagnostic", "exit"]),
    (
        "cli",
        &[
            "broker",
            "cage",
            "capability",
            "definition",
            "diagnostic",
            "discover",
            "durable",
            "exit",
            "host",
            "nearest",
            "plan",
            "policy",
            "runtime",
            "schema",
            "scripted",
            "yaml",
        ],
    ),
];

/// How many rows of the table have no effects.
const PURE: usize = 12;

/// What reaches outside of the process, beyond the single functions that `clippy.toml` lists.
const EFFECTS: [&str; 14] = [
    "std::fs",
    "std::env",
    "std::io",
    "std::net",
    "std::os",
    "std::thread",
    "std::process::Command",
    "Instant",
    "SystemTime",
    "tokio",
    "nix::",
    "tempfile",
    "etcetera",
    "jiff",
];

/// The code of a file, line by line, without its comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(at, line)| {
        let comment = line.trim_start().starts_with("//");
        (!comment).then_some((at + 1, line))
    })
}

/// The modules of this crate that a file names.
fn named_modules(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for (_, line) in code(text) {
        for (_, rest) in line.match_indices("crate::").map(|(at, path)| (at, &line[at + path.len()..])) {
            let names: Vec<&str> = match rest.strip_prefix('{') {
                Some(group) => group.split(',').map(str::trim).collect(),
                None => vec![rest],
            };
            let end =
                |name: &str| name.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(name.len());
            found.extend(names.into_iter().map(|name| &name[..end(name)]).filter(|name| !name.is_empty()));
        }
    }
    found
}

fn effects(text: &str) -> Vec<String> {
    let effect = |line: &str| EFFECTS.into_iter().find(|effect| line.contains(effect));
    let excused = |line: &str| line.contains("clippy::disallowed").then_some("clippy::disallowed");
    code(text)
        .filter_map(|(at, line)| Some(format!("line {at}: {}", effect(line).or_else(|| excused(line))?)))
        .collect()
}

#[test]
fn no_file_is_too_long() {
    let mut files = Vec::new();
    for below in ["src", "ledger", "tests", "benches", "examples"] {
        files.extend(rust_files(below));
    }
    assert!(files.len() > 100, "the walk finds the project: {}", files.len());
    assert!(files.iter().any(|(path, _)| path == "tests/suite/architecture.rs"));
    let long: Vec<String> = files
        .iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > LONGEST)
        .map(|(path, lines)| format!("{path} has {lines} lines"))
        .collect();
    assert_eq!(long, Vec::<String>::new(), "split them by idea: at most {LONGEST} lines");
}

#[test]
fn the_core_has_no_effects() {
    // The search itself finds what it looks for, and reads no comments.
    assert_eq!(effects("fn f() {\n    std::fs::read(x)\n}"), ["line 2: std::fs"]);
    assert_eq!(effects("#![expect(clippy::disallowed_methods)]"), ["line 1: clippy::disallowed"]);
    assert_eq!(effects("/// As `std::fs::read` does.\nuse std::fmt;"), Vec::<String>::new());
    for (name, _) in &ARROWS[..PURE] {
        let files = module(name);
        assert!(!files.is_empty(), "{name} is a module");
        for (path, text) in files {
            assert_eq!(effects(&text), Vec::<String>::new(), "{path} is of the core");
        }
    }
    for (name, _) in &ARROWS[PURE..] {
        assert!(module(name).iter().any(|(_, text)| !effects(text).is_empty()), "{name} has effects");
    }
}

#[test]
fn arrows_go_one_way() {
    assert_eq!(
        named_modules("use crate::{plan, yaml::Map};\nlet x = crate::exit::Exit::Done; // crate"),
        BTreeSet::from(["exit", "plan", "yaml"])
    );
    let lib = std::fs::read_to_string(manifest_dir().join("src/lib.rs")).unwrap();
    let modules: BTreeSet<&str> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert_eq!(modules, ARROWS.iter().map(|(module, _)| *module).collect(), "each module has its row");
    for (name, may) in ARROWS {
        for (path, text) in module(name) {
            let names: Vec<&str> = named_modules(&text)
                .into_iter()
                .filter(|named| *named != name && !may.contains(named))
                .collect();
            assert_eq!(names, Vec::<&str>::new(), "{path} may not name these");
        }
    }
    for (path, text) in rust_files("ledger/src") {
        assert!(!text.contains("depute::"), "{path}: the ledger knows nothing of the rest");
    }
}

#[test]
fn every_fuzz_target_is_built_seeded_and_described() {
    let read = |path: &str| std::fs::read_to_string(manifest_dir().join("tests/fuzz").join(path)).unwrap();
    let (manifest, seed, readme) = (read("Cargo.toml"), read("seed"), read("README.md"));
    let targets = rust_files("tests/fuzz/fuzz_targets");
    assert!(!targets.is_empty());
    for (path, _) in targets {
        let name = path.rsplit('/').next().unwrap().strip_suffix(".rs").unwrap();
        assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name} is not built");
        assert!(
            seed.contains(&format!("put {name}")) || seed.contains(&format!("put_lines {name} ")),
            "{name} has no seeds"
        );
        assert!(readme.contains(&format!("| `{name}` |")), "{name} is not described");
    }
}
