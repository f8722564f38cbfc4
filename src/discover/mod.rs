//! Which definitions are in force here, and reading one of them.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "discovery reads directories")]

mod beneath;
mod index;
pub mod trust;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use depute_ledger::Digest;

use crate::capability::{DefinitionName, IdError, Name};
use crate::definition::{Definition, DefinitionKind, TreeEntry, TreeKind, tree_digest};
use crate::diagnostic::{Diagnostic, Problem, printable};
use crate::host::Project;
use crate::nearest::nearest_all;
use crate::plan::{DefinitionFact, DefinitionRef, Origin, Which};
use crate::policy::Policy;

pub use beneath::{ReadError, Root, read_regular};

use index::{Names, Places};

/// A file that would be a definition, not yet read.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The name by its path.
    pub name: DefinitionName,
    /// What kind of file it is.
    pub kind: DefinitionKind,
    /// Where it comes from.
    pub origin: Origin,
    /// The place it was found in: definitions of one place must differ in name.
    pub place: PathBuf,
    /// The root beneath which it is opened, held open since it was listed.
    pub root: Arc<Root>,
    /// Its directory below the root; empty where it stands in the root itself.
    pub directory: PathBuf,
    /// Its file name.
    pub file: PathBuf,
    /// Whether it can be read at all. What cannot still takes its name, so that nothing farther
    /// away steps in for it.
    pub access: Access,
}

/// Whether a candidate can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// By what was seen when the root was listed.
    Open,
    /// No; why.
    Blocked(String),
}

impl Candidate {
    /// The whole path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.root.path().join(&self.directory).join(&self.file)
    }
}

/// All candidates here, nearest authority first, and what was passed over.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    candidates: Vec<Candidate>,
    /// Roots of policy or user that are there and could not be looked through. A name that only the
    /// workspace has may be one of theirs.
    unopened: Vec<(Origin, String)>,
    /// Every root, with the reason where it could not be looked through.
    roots: Vec<(PathBuf, Option<String>)>,
    /// What was passed over, and why.
    pub skipped: Vec<String>,
    /// Each made when it is first asked for, when nothing is added any more.
    names: OnceLock<Names>,
    called: OnceLock<Places>,
    real: OnceLock<Places>,
}

/// What a name leads to.
#[derive(Debug)]
pub struct Found {
    /// What the decision is told.
    pub fact: DefinitionFact,
    /// The definition, where it could be read.
    pub definition: Option<Definition>,
    /// Other definitions of this name that this one goes before.
    pub shadowed: Vec<PathBuf>,
}

#[derive(Clone, Copy)]
enum RootKind {
    Skills,
    Agents,
}

impl Catalog {
    /// Looks through the roots of policy, user and workspace. Nothing is read but directories.
    #[must_use]
    pub fn discover(policy: &Policy, project: &Project) -> Self {
        let mut catalog = Self::default();
        for root in &policy.roots {
            catalog.policy_root(Path::new(root));
        }
        let kinds = [("skills", RootKind::Skills), ("agents", RootKind::Agents)];
        let place = project.home.join(".claude");
        for (name, kind) in kinds {
            let path = place.join(name);
            catalog.root(Root::open(&path).map_err(ReadError::Io), &path, &place, Origin::User, kind);
        }
        // In the home directory itself both are one place. The project's path is a real one.
        if project.root != project.home.canonicalize().unwrap_or_else(|_| project.home.clone()) {
            let place = project.root.join(".claude");
            match Root::open(&project.root) {
                Err(error) => catalog.skip(&project.root, &error.to_string()),
                Ok(workspace) => {
                    for (name, kind) in kinds {
                        let below = workspace.beneath(&Path::new(".claude").join(name));
                        catalog.root(below, &place.join(name), &place, Origin::Workspace, kind);
                    }
                }
            }
        }
        catalog
    }

    fn policy_root(&mut self, path: &Path) {
        let (skills, agents) = (path.join("skills"), path.join("agents"));
        let mut add = |at: &Path, kind| {
            self.root(Root::open(at).map_err(ReadError::Io), at, path, Origin::Policy, kind);
        };
        if path.file_name().is_some_and(|name| name == "agents") {
            add(path, RootKind::Agents);
        } else if [&skills, &agents].into_iter().any(|path| path.is_dir() || path.is_symlink()) {
            add(&skills, RootKind::Skills);
            add(&agents, RootKind::Agents);
        } else {
            add(path, RootKind::Skills);
        }
    }

    fn root(
        &mut self,
        root: Result<Root, ReadError>,
        path: &Path,
        place: &Path,
        origin: Origin,
        kind: RootKind,
    ) {
        let names = root.and_then(|root| root.names(Path::new("")).map(|names| (Arc::new(root), names)));
        let (root, names) = match names {
            Ok(found) => found,
            // Not there is no doubt; a link to nothing is, as what it led to may be away for now.
            Err(ReadError::Io(error))
                if error.kind() == ErrorKind::NotFound && !path.is_symlink() && !place.is_symlink() =>
            {
                if path == place {
                    self.skip(path, "is a root of the policy and is not there");
                }
                return;
            }
            Err(error) => {
                let why = error.to_string();
                self.roots.push((path.to_owned(), Some(why.clone())));
                if origin != Origin::Workspace {
                    self.unopened.push((origin, format!("{} {why}", printable(&path.display().to_string()))));
                }
                return self.skip(path, &why);
            }
        };
        self.roots.push((path.to_owned(), None));
        for entry in names {
            let Some(text) = entry.to_str() else {
                self.skip(&path.join(&entry), "has a name that is not UTF-8");
                continue;
            };
            if text.eq_ignore_ascii_case("SKILL.md") || text.eq_ignore_ascii_case("AGENT.md") {
                self.skip(&path.join(&entry), "has no directory of its own, which would be its name");
                continue;
            }
            let Some((name, definition, directory, file, access)) = classified(&root, &entry, text, kind)
            else {
                continue;
            };
            match unqualified(name) {
                Ok(name) => {
                    if let Access::Blocked(why) = &access {
                        self.skip(&path.join(&entry), why);
                    }
                    self.candidates.push(Candidate {
                        name,
                        kind: definition,
                        origin,
                        place: place.to_owned(),
                        root: Arc::clone(&root),
                        directory,
                        file,
                        access,
                    });
                }
                Err(error) => self.skip(&path.join(&entry), &format!("has a name that {error}")),
            }
        }
    }

    fn skip(&mut self, path: &Path, why: &str) {
        self.skipped.push(format!("{} {why}", printable(&path.display().to_string())));
    }

    /// The candidates, nearest authority first.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Finds and reads what a reference names. A definition of the workspace never goes before one
    /// that policy or user provide; it is asked for as `name@workspace`.
    #[must_use]
    pub fn find(&self, reference: &DefinitionRef, trusted: bool) -> Found {
        let named: Vec<&Candidate> = self
            .named(&reference.name)
            .filter(|c| match &reference.which {
                Which::Nearest => true,
                Which::From(origin) => c.origin == *origin,
                Which::At(path) => c.path() == Path::new(path),
            })
            .collect();
        let nobodys = |fact| Found { fact, definition: None, shadowed: Vec::new() };
        let first = named.first();
        if reference.which == Which::Nearest
            && first.is_none_or(|first| first.origin == Origin::Workspace)
            && let Some((origin, why)) = self.unopened.first()
        {
            let message = format!("{why}, so it is not known whether `{}` is there", reference.name);
            let fix = Some(format!("mend that directory, or ask for `{}@workspace`", reference.name));
            return nobodys(DefinitionFact::Unreadable { origin: *origin, trusted: true, message, fix });
        }
        let Some(first) = first else {
            let names: Vec<String> = self.candidates.iter().map(|c| c.name.to_string()).collect();
            let near = nearest_all(&reference.name.to_string(), names.iter().map(String::as_str));
            let near = near.into_iter().map(str::to_owned).collect();
            return nobodys(DefinitionFact::Unknown { near });
        };
        let rivals: Vec<String> =
            named.iter().filter(|c| c.place == first.place).map(|c| c.path().display().to_string()).collect();
        if rivals.len() > 1 {
            return nobodys(DefinitionFact::Ambiguous { places: rivals });
        }
        let shadowed = named.iter().skip(1).map(|c| c.path()).collect();
        let found = read(first, trusted);
        Found { shadowed, ..found }
    }

    /// The candidates of a name, nearest authority first.
    fn named(&self, name: &DefinitionName) -> impl Iterator<Item = &Candidate> {
        let names = self.names.get_or_init(|| index::names(&self.candidates));
        names.get(name).into_iter().flatten().filter_map(|at| self.candidates.get(*at))
    }

    fn called(&self) -> &Places {
        self.called.get_or_init(|| Places::of(self, Some))
    }

    /// By real paths. To ask for those costs several calls a path, so it waits until one is needed.
    fn real(&self) -> &Places {
        self.real.get_or_init(|| Places::of(self, |path| path.canonicalize().ok()))
    }

    /// The candidate at a path, where one of the roots has it: the one that is called so before one
    /// that a link makes the same.
    #[must_use]
    pub fn at(&self, path: &Path) -> Option<&Candidate> {
        let as_called = std::path::absolute(path).ok()?;
        let at = self.called().candidate(&as_called).or_else(|| {
            let real = path.canonicalize().ok()?;
            self.real().candidate(&real)
        })?;
        self.candidates.get(at)
    }

    /// Why a path below one of the roots is no definition in force, in words that follow the path.
    /// Nothing where it is one, and where no root is above it.
    #[must_use]
    pub fn passed_over(&self, path: &Path) -> Option<String> {
        if self.at(path).is_some() {
            return None;
        }
        let as_called = std::path::absolute(path).ok()?;
        let at = self.called().root_above(&as_called).or_else(|| {
            let real = path.canonicalize().ok()?;
            self.real().root_above(&real)
        })?;
        let (root, why) = self.roots.get(at)?;
        let root = printable(&root.display().to_string());
        Some(match why {
            Some(why) => format!("is below {root}, which {why}"),
            None => format!("is not where a definition stands below {root}"),
        })
    }
}

/// A name by a path. A file claims no package: only the one who installed it knows that.
fn unqualified(name: &str) -> Result<DefinitionName, IdError> {
    Name::parse(name).and_then(|name| DefinitionName::parse(name.as_str()))
}

/// The name and kind of a file that is a definition by itself.
fn single(file: &str, kind: RootKind) -> Option<(&str, DefinitionKind)> {
    let stem = file.strip_suffix(".md")?;
    Some(match kind {
        RootKind::Skills => (stem, DefinitionKind::Skill),
        RootKind::Agents => (stem.strip_suffix(".agent").unwrap_or(stem), DefinitionKind::Agent),
    })
}

/// What an entry of a root is: its name, kind, directory below the root, file, and whether it can be
/// read. Nothing where it is no definition.
fn classified<'n>(
    root: &Root,
    entry: &Path,
    text: &'n str,
    kind: RootKind,
) -> Option<(&'n str, DefinitionKind, PathBuf, PathBuf, Access)> {
    let (definition, file) = match kind {
        RootKind::Skills => (DefinitionKind::Skill, "SKILL.md"),
        RootKind::Agents => (DefinitionKind::Harness, "AGENT.md"),
    };
    if let Some((name, definition)) = single(text, kind) {
        return Some((name, definition, PathBuf::new(), entry.to_owned(), Access::Open));
    }
    let access = match root.names(entry) {
        Ok(names) if names.iter().any(|name| name.as_os_str() == file) => Access::Open,
        Ok(_) => return None,
        // A file of another name; or it went away meanwhile.
        Err(ReadError::Io(error)) if error.kind() == ErrorKind::NotADirectory => return None,
        Err(ReadError::Io(error)) if error.kind() == ErrorKind::NotFound && !root.is_link(entry) => {
            return None;
        }
        Err(error) => Access::Blocked(error.to_string()),
    };
    Some((text, definition, entry.to_owned(), file.into(), access))
}

/// Reads one candidate.
#[must_use]
pub fn read(candidate: &Candidate, trusted: bool) -> Found {
    let origin = candidate.origin;
    let trusted = trusted || origin != Origin::Workspace;
    let path = printable(&candidate.path().display().to_string());
    let unreadable = |message: String, fix: Option<String>| Found {
        fact: DefinitionFact::Unreadable { origin, trusted, message, fix },
        definition: None,
        shadowed: Vec::new(),
    };
    let (bytes, tree) = match load(candidate) {
        Ok(loaded) => loaded,
        Err(error) => return unreadable(format!("{path} {error}"), Some(error.fix().to_owned())),
    };
    match Definition::read(bytes.clone(), candidate.kind, candidate.name.clone()) {
        Ok(definition) => Found {
            fact: DefinitionFact::Read {
                origin,
                trusted,
                name: candidate.name.to_string(),
                kind: candidate.kind,
                place: path,
                tree,
            },
            definition: Some(definition),
            shadowed: Vec::new(),
        },
        Err(problem) => {
            let fix = problem.fix.clone();
            let diagnostic = Diagnostic::new(&path, &bytes, Problem { fix: None, ..problem });
            unreadable(diagnostic.to_string(), fix)
        }
    }
}

/// Reads a candidate, once, with the digest of its tree.
///
/// # Errors
/// [`ReadError`].
pub fn load(candidate: &Candidate) -> Result<(Vec<u8>, Digest), ReadError> {
    if let Access::Blocked(why) = &candidate.access {
        return Err(ReadError::Blocked(why.clone()));
    }
    let root = &candidate.root;
    let (content, tree) = if candidate.directory.as_os_str().is_empty() {
        use std::os::unix::ffi::OsStrExt;
        let content = root.read(&candidate.file)?;
        let kind = TreeKind::File { executable: false, content: content.clone() };
        (content, vec![TreeEntry { path: candidate.file.as_os_str().as_bytes().to_vec(), kind }])
    } else {
        root.read_tree(&candidate.directory, &candidate.file)?
    };
    let digest = tree_digest(tree).map_err(|_| ReadError::TreeTooLarge)?;
    Ok((content, digest))
}

/// What a file named to `check` is taken for, by its path alone.
#[derive(Clone, Debug)]
pub enum FileKind {
    /// A definition.
    Definition(Candidate),
    /// A policy.
    Policy,
    /// A runtime profile.
    Profile,
    /// Nothing that is read here; why.
    Other(&'static str),
}

/// Takes a path for what its name and directory say it is.
#[must_use]
pub fn classify(path: &Path) -> FileKind {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    let inside = |word: &str| real.file_name().is_some_and(|name| name == word);
    let Some(file) = path.file_name().and_then(|name| name.to_str()) else {
        return FileKind::Other("has a name that is not UTF-8");
    };
    let definition = |name: &str, kind, root: &Path, directory: PathBuf| match (
        unqualified(name),
        Root::open(root),
    ) {
        (Ok(name), Ok(opened)) => FileKind::Definition(Candidate {
            name,
            kind,
            origin: Origin::Workspace,
            place: root.to_owned(),
            root: Arc::new(opened),
            directory,
            file: PathBuf::from(file),
            access: Access::Open,
        }),
        (_, Err(_)) => FileKind::Other("is in a directory that cannot be opened"),
        _ => FileKind::Other(
            "has a name that no definition may have; names hold letters, digits, `.`, `_` and `-`, and begin with a letter or digit",
        ),
    };
    let directory_name = || real.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let above = || real.parent().unwrap_or(Path::new("/")).to_owned();
    match file {
        "SKILL.md" => {
            definition(&directory_name(), DefinitionKind::Skill, &above(), PathBuf::from(directory_name()))
        }
        "AGENT.md" => {
            definition(&directory_name(), DefinitionKind::Harness, &above(), PathBuf::from(directory_name()))
        }
        other if other.eq_ignore_ascii_case("SKILL.md") => {
            FileKind::Other("is not a skill: the name is exactly `SKILL.md`")
        }
        other if other.ends_with(".yaml") || other.ends_with(".yml") => {
            if inside("runtimes") {
                FileKind::Profile
            } else {
                FileKind::Policy
            }
        }
        _ if inside("commands") => FileKind::Other("is a slash command, which is no definition"),
        other => {
            let kind = if inside("skills") { RootKind::Skills } else { RootKind::Agents };
            match single(other, kind) {
                Some((name, kind)) => definition(name, kind, &real, PathBuf::new()),
                None => FileKind::Other("is neither a definition (`.md`) nor a policy (`.yaml`)"),
            }
        }
    }
}
