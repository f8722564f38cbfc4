//! Which files there are to look at.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::cli::Failure;
use crate::exit::Exit;

/// How deep directories are looked through.
const MAX_DEPTH: usize = 12;

/// The files that these paths stand for, each once, in order.
pub(super) fn files(paths: &[PathBuf]) -> Result<Vec<Found>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let metadata = std::fs::metadata(path).map_err(|error| {
            Failure::new(Exit::Internal, "IO", format!("`{}` cannot be read: {error}", path.display()))
                .fix("name files or directories that are there")
        })?;
        if metadata.is_dir() { walk(path, 0, &mut files) } else { files.push(Ok(path.clone())) }
    }
    // One path is never walked twice.
    if paths.len() > 1 {
        let mut seen = BTreeSet::new();
        files.retain(|file| seen.insert(identity(file.as_ref().unwrap_or_else(|(path, _)| path))));
    }
    Ok(files)
}

/// The path that makes a file one. Links are kept: two names of one file are two definitions.
fn identity(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // `..` after a link is not what it looks like.
    let upward = whole.components().any(|part| part == std::path::Component::ParentDir);
    let real = upward.then(|| whole.canonicalize().ok()).flatten();
    real.unwrap_or(whole)
}

/// A file to look at, or a place that could not be looked at.
pub(super) type Found = Result<PathBuf, (PathBuf, std::io::Error)>;

/// Files below a directory that look like definitions or policies. What lies beside a `SKILL.md`
/// belongs to it and is not looked through. What cannot be looked at is reported, and stops nothing.
fn walk(directory: &Path, depth: usize, files: &mut Vec<Found>) {
    let entries = std::fs::read_dir(directory).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()
    });
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return files.push(Err((directory.to_owned(), error))),
    };
    entries.sort();
    let inside = |word: &str| directory.file_name().is_some_and(|name| name == word);
    let is_root = inside("agents") || inside("skills");
    // In a root such a file has no directory of its own, and hides nothing.
    if !is_root && let Some(definition) = entries.iter().find(|path| is_definition(path)) {
        return files.push(Ok(definition.clone()));
    }
    for path in entries {
        let yaml = path.extension().is_some_and(|e| e == "yaml" || e == "yml");
        let wanted = is_definition(&path)
            || is_root && path.extension().is_some_and(|e| e == "md")
            || yaml && (inside("policies") || inside("runtimes") || named(&path, "policy.yaml"));
        let kind = match path.symlink_metadata() {
            Ok(metadata) => metadata.file_type(),
            Err(error) => {
                files.push(Err((path, error)));
                continue;
            }
        };
        if wanted {
            files.push(Ok(path));
        } else if kind.is_symlink() && is_root {
            linked(path, files);
        } else if kind.is_dir() && !named(&path, ".git") && !named(&path, "node_modules") {
            if depth < MAX_DEPTH {
                walk(&path, depth + 1, files);
            } else {
                let error = std::io::Error::other(format!("it is more than {MAX_DEPTH} directories down"));
                files.push(Err((path, error)));
            }
        }
    }
}

/// A link in a root: the definition in the directory that it leads to. Links are followed nowhere
/// else, so that no walk runs in a circle.
fn linked(link: PathBuf, files: &mut Vec<Found>) {
    match link.metadata() {
        Err(error) => files.push(Err((link, error))),
        Ok(metadata) if metadata.is_dir() => {
            let definition = ["SKILL.md", "AGENT.md"].map(|name| link.join(name));
            files.extend(definition.into_iter().find(|path| path.symlink_metadata().is_ok()).map(Ok));
        }
        Ok(_) => {}
    }
}

fn named(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|own| own.eq_ignore_ascii_case(name))
}

fn is_definition(path: &Path) -> bool {
    named(path, "SKILL.md") || named(path, "AGENT.md")
}
