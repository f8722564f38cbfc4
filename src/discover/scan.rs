//! Looking through the roots: which files would be definitions, and what is passed over.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::capability::{DefinitionName, IdError, Name};
use crate::definition::DefinitionKind;
use crate::diagnostic::printable;
use crate::host::Project;
use crate::plan::Origin;
use crate::policy::Policy;

use super::roots::{self, RootKind};
use super::{Access, Candidate, Catalog, ReadError, Root, Skipped, index};

impl Catalog {
    /// Looks through the roots of policy, user and workspace. Nothing is read but directories.
    #[must_use]
    pub fn discover(policy: &Policy, project: &Project) -> Self {
        let mut scan = Scan::default();
        for root in &policy.roots {
            scan.policy_root(Path::new(root));
        }
        for (base, below, kind) in roots::of_user(&project.home, &project.config) {
            if !is_absent(base, below) {
                let path = base.join(below);
                let root = Root::open(&path).map_err(ReadError::Io);
                scan.root(root, &path, &project.home, Origin::User, kind);
            }
        }
        match Root::open(&project.root) {
            Err(error) => scan.skip(&project.root, &error.to_string()),
            Ok(workspace) => {
                for (below, kind) in roots::of_project() {
                    if !is_absent(&project.root, below) {
                        let path = project.root.join(below);
                        let root = workspace.beneath(below);
                        scan.root(root, &path, &project.root, Origin::Workspace, kind);
                    }
                }
            }
        }
        scan.drop_links();
        scan.catalog.skipped.sort();
        scan.catalog
    }
}

#[derive(Default)]
struct Scan {
    catalog: Catalog,
    /// The directories that were looked through, by device and inode, and what for.
    seen: HashSet<(u64, u64, RootKind)>,
}

impl Scan {
    fn policy_root(&mut self, path: &Path) {
        if is_absent(Path::new(""), path) {
            return self.skip(path, "is a root of the policy and is not there");
        }
        let mut add = |path: &Path, place: &Path, kind| {
            self.root(Root::open(path).map_err(ReadError::Io), path, place, Origin::Policy, kind);
        };
        if path.file_name().is_some_and(|name| name == "agents") {
            return add(path, path, RootKind::Agents);
        }
        let parts = [("skills", RootKind::Skills), ("agents", RootKind::Agents)];
        let there = |(name, _): &(&str, RootKind)| {
            let path = path.join(name);
            path.is_dir() || path.is_symlink()
        };
        let mut parts = parts.into_iter().filter(there).peekable();
        if parts.peek().is_none() {
            return add(path, path, RootKind::Skills);
        }
        for (name, kind) in parts {
            add(&path.join(name), path, kind);
        }
    }

    /// A root that is there, or was a moment ago. A directory that is reached twice is one root, of
    /// the first that reached it.
    fn root(
        &mut self,
        root: Result<Root, ReadError>,
        path: &Path,
        place: &Path,
        origin: Origin,
        kind: RootKind,
    ) {
        let looked = root.and_then(|root| {
            let names = root.names(Path::new(""))?;
            Ok((root.identity()?, Arc::new(root), names))
        });
        let ((device, inode), root, names) = match looked {
            Ok(found) => found,
            Err(error) => {
                let why = error.to_string();
                self.catalog.roots.push((path.to_owned(), Some(why.clone())));
                if origin != Origin::Workspace {
                    let shown = printable(&path.display().to_string());
                    self.catalog.unopened.push((origin, format!("{shown} {why}")));
                }
                return self.skip(path, &why);
            }
        };
        self.catalog.roots.push((path.to_owned(), None));
        if !self.seen.insert((device, inode, kind)) {
            return;
        }
        for entry in names {
            let (name, definition) = match classified(&root, &entry, kind) {
                Entry::Nothing => continue,
                Entry::PassedOver(why) => {
                    self.skip(&path.join(&entry), why);
                    continue;
                }
                Entry::Definition(name, definition) => (name, definition),
            };
            let name = match unqualified(name) {
                Ok(name) => name,
                Err(error) => {
                    self.skip(&path.join(&entry), &format!("has a name that {error}"));
                    continue;
                }
            };
            let Here { kind, directory, file, access } = definition;
            let (place, root) = (place.to_owned(), Arc::clone(&root));
            self.catalog.candidates.push(Candidate {
                name,
                kind,
                origin,
                place,
                root,
                directory,
                file,
                access,
            });
        }
    }

    fn skip(&mut self, path: &Path, why: &str) {
        self.catalog.skipped.push(Skipped { path: path.to_owned(), why: why.to_owned() });
    }

    /// One file that two roots of a place reach under one name, the one through a link, is one
    /// definition. It is read where it is; nothing is read through the link.
    fn drop_links(&mut self) {
        let candidates = &self.catalog.candidates;
        let mut links = HashSet::new();
        for named in index::names(candidates).into_values().filter(|named| named.len() > 1) {
            let real = |at: usize| {
                let candidate = candidates.get(at)?;
                Some((at, candidate, candidate.path().canonicalize().ok()?))
            };
            let found: Vec<(usize, &Candidate, PathBuf)> = named.into_iter().filter_map(real).collect();
            for (at, candidate, path) in &found {
                let mut same = found.iter().filter(|(_, other, theirs)| {
                    other.stands_beside(candidate) && other.kind == candidate.kind && theirs == path
                });
                let first = same.clone().next();
                let meant = same.find(|(_, other, real)| other.is_itself_at(real)).or(first);
                if meant.is_some_and(|(meant, ..)| meant != at) {
                    links.insert(*at);
                }
            }
        }
        let mut at = 0..;
        self.catalog.candidates.retain(|_| at.next().is_none_or(|at| !links.contains(&at)));
    }
}

/// Whether nothing is at a path below a directory. A link to nothing is something: what it led to may
/// be away for now, and nobody knows which names it has.
fn is_absent(base: &Path, below: &Path) -> bool {
    let is_gone = |error: &std::io::Error| error.kind() == ErrorKind::NotFound;
    let mut path = base.to_owned();
    for part in below.components() {
        path.push(part);
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() && path.metadata().is_err_and(|error| is_gone(&error)) => {
                return false;
            }
            Ok(_) => {}
            Err(error) => return is_gone(&error),
        }
    }
    false
}

/// A name by a path. A file claims no package: only the one who installed it knows that.
pub(super) fn unqualified(name: &str) -> Result<DefinitionName, IdError> {
    Name::parse(name).and_then(|name| DefinitionName::parse(name.as_str()))
}

/// The name and kind of a file that is a definition by itself.
pub(super) fn single(file: &str, kind: RootKind) -> Option<(&str, DefinitionKind)> {
    let stem = file.strip_suffix(".md")?;
    Some(match kind {
        RootKind::Skills => (stem, DefinitionKind::Skill),
        RootKind::Agents => (stem.strip_suffix(".agent").unwrap_or(stem), DefinitionKind::Agent),
    })
}

/// What an entry of a root is.
enum Entry<'n> {
    Definition(&'n str, Here),
    /// What looks like one and is not; why.
    PassedOver(&'static str),
    /// Something else.
    Nothing,
}

/// A definition below its root.
struct Here {
    kind: DefinitionKind,
    directory: PathBuf,
    file: PathBuf,
    access: Access,
}

fn classified<'n>(root: &Root, entry: &'n Path, kind: RootKind) -> Entry<'n> {
    let Some(text) = entry.to_str() else { return Entry::PassedOver("has a name that is not UTF-8") };
    if text.eq_ignore_ascii_case("SKILL.md") || text.eq_ignore_ascii_case("AGENT.md") {
        return Entry::PassedOver("has no directory of its own, which would be its name");
    }
    if let Some(why) = roots::other_form(text, Some(kind)) {
        return Entry::PassedOver(why);
    }
    if let Some((name, kind)) = single(text, kind) {
        let (directory, file) = (PathBuf::new(), entry.to_owned());
        return Entry::Definition(name, Here { kind, directory, file, access: Access::Open });
    }
    let (definition, file) = match kind {
        RootKind::Skills => (DefinitionKind::Skill, "SKILL.md"),
        RootKind::Agents => (DefinitionKind::Harness, "AGENT.md"),
    };
    let has = |names: &[PathBuf], wanted: &dyn Fn(&str) -> bool| {
        names.iter().filter_map(|name| name.to_str()).any(wanted)
    };
    let access = match root.names(entry) {
        Ok(names) if has(&names, &|name| name == file) => Access::Open,
        Ok(names) if has(&names, &|name| name.eq_ignore_ascii_case(file)) => {
            return Entry::PassedOver(match kind {
                RootKind::Skills => "has its file under another spelling than `SKILL.md`",
                RootKind::Agents => "has its file under another spelling than `AGENT.md`",
            });
        }
        Ok(names) if kind == RootKind::Agents && has(&names, &|name| name.ends_with(".md")) => {
            return Entry::PassedOver("is a directory of agents, which is not looked into; move them up");
        }
        Ok(_) => return Entry::Nothing,
        // A file of another name; or it went away meanwhile.
        Err(ReadError::Io(error)) if error.kind() == ErrorKind::NotADirectory => return Entry::Nothing,
        Err(ReadError::Io(error)) if error.kind() == ErrorKind::NotFound && !root.is_link(entry) => {
            return Entry::Nothing;
        }
        Err(error) => Access::Blocked(error.to_string()),
    };
    Entry::Definition(text, Here { kind: definition, directory: entry.to_owned(), file: file.into(), access })
}
