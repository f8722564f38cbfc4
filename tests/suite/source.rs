//! The source of the project, as tests of the project itself read it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::support::manifest_dir;

/// All `.rs` files of the project below a directory, by their path from its root.
pub(crate) fn rust_files(below: &str) -> Vec<(String, String)> {
    fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        for entry in entries.map(Result::unwrap) {
            let path = entry.path();
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if entry.file_type().unwrap().is_dir() {
                // What a build leaves behind is not of the project.
                if !hidden && !path.join("CACHEDIR.TAG").exists() && !path.ends_with("tests/data") {
                    walk(&path, files);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    let root = manifest_dir();
    walk(&root.join(below), &mut files);
    files.sort();
    let named = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    files.into_iter().map(named).collect()
}

/// The source of one module of the library: the file of its name, or all files of its directory.
pub(crate) fn module(name: &str) -> Vec<(String, String)> {
    let mut files = rust_files(&format!("src/{name}"));
    let own = format!("src/{name}.rs");
    if let Ok(text) = std::fs::read_to_string(manifest_dir().join(&own)) {
        files.push((own, text));
    }
    files
}

/// How often these modules raise each rule of a problem.
pub(crate) fn raised(modules: &[&str]) -> BTreeMap<String, usize> {
    let mut rules = BTreeMap::new();
    for name in modules {
        for (_, text) in module(name) {
            for (at, call) in text.match_indices("Problem::new(") {
                let rest = text[at + call.len()..].trim_start();
                // What is a finding of a definition has its rule from there.
                if rest.starts_with("finding.rule") {
                    continue;
                }
                let rule = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
                let (rule, _) =
                    rule.unwrap_or_else(|| panic!("a rule is written where it is raised: {rest}"));
                *rules.entry(rule.to_owned()).or_default() += 1;
            }
        }
    }
    rules
}
