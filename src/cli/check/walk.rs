//! Which files there are to look at.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::FileType;
use std::path::{Path, PathBuf};

use crate::cli::Failure;
use crate::discover::{Site, roots};
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
        let site = Site::of(path);
        if metadata.is_dir() { walk(&site, 0, false, &mut files) } else { files.push(Ok(site)) }
    }
    // One path is never walked twice. Links are kept: two names of one file are two definitions.
    if paths.len() > 1 {
        let mut seen = BTreeSet::new();
        files.retain(|file| {
            let called = match file {
                Ok(site) => site.called().to_owned(),
                Err((path, _)) => Site::of(path).called().to_owned(),
            };
            seen.insert(called)
        });
    }
    Ok(files)
}

/// A file to look at, or a place that could not be looked at.
pub(super) type Found = Result<Site, (PathBuf, std::io::Error)>;

/// Files below a directory that look like definitions or policies. What lies beside a `SKILL.md`
/// belongs to it and is not looked through. What cannot be looked at is reported, and stops nothing.
///
/// In and below a directory `policies`, every YAML file is one.
fn walk(directory: &Site, depth: usize, policies: bool, files: &mut Vec<Found>) {
    let mut entries = match entries(directory.path()) {
        Ok(entries) => entries,
        Err(error) => return files.push(Err((directory.path().to_owned(), error))),
    };
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let inside = |word: &str| directory.path().file_name().is_some_and(|name| name == word);
    let policies = policies || inside("policies");
    let is_root = roots::kind_of(directory.called()).is_some();
    let site = |name: &OsStr, kind: &FileType| match kind.is_symlink() {
        true => Site::of(&directory.path().join(name)),
        false => directory.entry(name),
    };
    // In a root such a file has no directory of its own, and hides nothing.
    if !is_root && let Some((name, kind)) = entries.iter().find(|(name, _)| is_definition(name)) {
        return files.push(Ok(site(name, kind)));
    }
    for (name, kind) in entries {
        let extension = Path::new(&name).extension();
        let yaml = extension.is_some_and(|e| e == "yaml" || e == "yml");
        let wanted = is_definition(&name)
            || is_root && extension.is_some_and(|e| e == "md")
            || yaml && (policies || inside("runtimes") || named(&name, "policy.yaml"));
        if wanted {
            files.push(Ok(site(&name, &kind)));
        } else if kind.is_symlink() && is_root {
            linked(directory.path().join(&name), files);
        } else if kind.is_dir() && !named(&name, ".git") && !named(&name, "node_modules") {
            if depth < MAX_DEPTH {
                walk(&site(&name, &kind), depth + 1, policies, files);
            } else {
                let error = std::io::Error::other(format!("it is more than {MAX_DEPTH} directories down"));
                files.push(Err((directory.path().join(&name), error)));
            }
        }
    }
}

/// The names in a directory, and what each is; links are not followed.
fn entries(directory: &Path) -> std::io::Result<Vec<(OsString, FileType)>> {
    let entries = std::fs::read_dir(directory)?;
    entries.map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?)))).collect()
}

/// A link in a root: the definition in the directory that it leads to. Links are followed nowhere
/// else, so that no walk runs in a circle.
fn linked(link: PathBuf, files: &mut Vec<Found>) {
    match link.metadata() {
        Err(error) => files.push(Err((link, error))),
        Ok(metadata) if metadata.is_dir() => {
            let definition = ["SKILL.md", "AGENT.md"].map(|name| link.join(name));
            let definition = definition.into_iter().find(|path| path.symlink_metadata().is_ok());
            files.extend(definition.map(|path| Ok(Site::of(&path))));
        }
        Ok(_) => {}
    }
}

fn named(file: &OsStr, name: &str) -> bool {
    file.eq_ignore_ascii_case(name)
}

fn is_definition(file: &OsStr) -> bool {
    named(file, "SKILL.md") || named(file, "AGENT.md")
}
