//! Which definitions are in force here, and reading one of them.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "discovery reads directories")]

mod beneath;
pub mod trust;

use std::path::{Path, PathBuf};

use crate::capability::{DefinitionName, MAX_NAME};
use crate::definition::{Definition, DefinitionKind, TreeEntry, tree_digest};
use crate::diagnostic::{Diagnostic, Problem, printable};
use crate::host::Project;
use crate::nearest::nearest_all;
use crate::plan::{DefinitionFact, DefinitionRef, Origin, Which};
use crate::policy::Policy;

pub use beneath::{ReadError, Root};

/// A file that would be a definition, not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The name by its path.
    pub name: DefinitionName,
    /// What kind of file it is.
    pub kind: DefinitionKind,
    /// Where it comes from.
    pub origin: Origin,
    /// The place it was found in: definitions of one place must differ in name.
    pub place: PathBuf,
    /// The root beneath which it is opened.
    pub root: PathBuf,
    /// Its directory below the root; empty where it stands in the root itself.
    pub directory: PathBuf,
    /// Its file name.
    pub file: PathBuf,
}

impl Candidate {
    /// The whole path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.directory).join(&self.file)
    }
}

/// All candidates here, nearest authority first, and what was passed over.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    candidates: Vec<Candidate>,
    /// What was passed over, and why.
    pub skipped: Vec<String>,
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
        for (base, origin) in [(&project.home, Origin::User), (&project.root, Origin::Workspace)] {
            // In the home directory itself both are one place.
            if origin == Origin::Workspace && base == &project.home {
                continue;
            }
            let place = base.join(".claude");
            catalog.root(&place.join("skills"), &place, origin, RootKind::Skills);
            catalog.root(&place.join("agents"), &place, origin, RootKind::Agents);
        }
        catalog
    }

    fn policy_root(&mut self, path: &Path) {
        let (skills, agents) = (path.join("skills"), path.join("agents"));
        if path.file_name().is_some_and(|name| name == "agents") {
            self.root(path, path, Origin::Policy, RootKind::Agents);
        } else if skills.is_dir() || agents.is_dir() {
            self.root(&skills, path, Origin::Policy, RootKind::Skills);
            self.root(&agents, path, Origin::Policy, RootKind::Agents);
        } else {
            self.root(path, path, Origin::Policy, RootKind::Skills);
        }
    }

    fn root(&mut self, path: &Path, place: &Path, origin: Origin, kind: RootKind) {
        let root = match Root::open(path) {
            Ok(root) => root,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => return self.skip(path, &error.to_string()),
        };
        let names = match root.names(Path::new("")) {
            Ok(names) => names,
            Err(error) => return self.skip(path, &error.to_string()),
        };
        for entry in names {
            let Some(text) = entry.to_str() else {
                self.skip(&path.join(&entry), "has a name that is not UTF-8");
                continue;
            };
            let (name, definition, directory, file) = match (kind, text.strip_suffix(".md")) {
                (RootKind::Skills, Some(stem)) => {
                    (stem, DefinitionKind::Skill, PathBuf::new(), entry.clone())
                }
                (RootKind::Agents, Some(stem)) => (
                    stem.strip_suffix(".agent").unwrap_or(stem),
                    DefinitionKind::Agent,
                    PathBuf::new(),
                    entry.clone(),
                ),
                (RootKind::Skills, None) if holds(&root, &entry, "SKILL.md") => {
                    (text, DefinitionKind::Skill, entry.clone(), "SKILL.md".into())
                }
                (RootKind::Agents, None) if holds(&root, &entry, "AGENT.md") => {
                    (text, DefinitionKind::Harness, entry.clone(), "AGENT.md".into())
                }
                (RootKind::Skills | RootKind::Agents, None) => {
                    if !root.is_directory(&entry) && path.join(&entry).is_symlink() {
                        self.skip(&path.join(&entry), "is a link that leads out of its root");
                    }
                    continue;
                }
            };
            match DefinitionName::parse(name) {
                Ok(name) => self.candidates.push(Candidate {
                    name,
                    kind: definition,
                    origin,
                    place: place.to_owned(),
                    root: path.to_owned(),
                    directory,
                    file,
                }),
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
            .candidates
            .iter()
            .filter(|c| c.name == reference.name)
            .filter(|c| match &reference.which {
                Which::Nearest => true,
                Which::From(origin) => c.origin == *origin,
                Which::At(path) => c.path() == Path::new(path),
            })
            .collect();
        let Some(first) = named.first() else {
            let names: Vec<String> = self.candidates.iter().map(|c| c.name.to_string()).collect();
            let near = nearest_all(&reference.name.to_string(), names.iter().map(String::as_str));
            let near = near.into_iter().map(str::to_owned).collect();
            return Found { fact: DefinitionFact::Unknown { near }, definition: None, shadowed: Vec::new() };
        };
        let rivals: Vec<String> =
            named.iter().filter(|c| c.place == first.place).map(|c| c.path().display().to_string()).collect();
        if rivals.len() > 1 {
            return Found {
                fact: DefinitionFact::Ambiguous { places: rivals },
                definition: None,
                shadowed: Vec::new(),
            };
        }
        let shadowed = named.iter().skip(1).map(|c| c.path()).collect();
        let found = read(first, trusted);
        Found { shadowed, ..found }
    }

    /// The candidate at a path, where one of the roots has it.
    #[must_use]
    pub fn at(&self, path: &Path) -> Option<&Candidate> {
        let path = path.canonicalize().ok()?;
        self.candidates.iter().find(|c| c.path().canonicalize().is_ok_and(|other| other == path))
    }
}

fn holds(root: &Root, entry: &Path, file: &str) -> bool {
    root.is_directory(entry)
        && root.names(entry).is_ok_and(|names| names.iter().any(|name| name.as_os_str() == file))
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
        Err(error) => return unreadable(format!("{path} {error}"), None),
    };
    let tree = match tree_digest(tree) {
        Ok(tree) => tree,
        Err(error) => return unreadable(format!("{path}: its directory {error}"), None),
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

/// Reads a candidate and its tree.
///
/// # Errors
/// [`ReadError`].
pub fn load(candidate: &Candidate) -> Result<(Vec<u8>, Vec<TreeEntry>), ReadError> {
    let root = Root::open(&candidate.root)?;
    if candidate.directory.as_os_str().is_empty() {
        use std::os::unix::ffi::OsStrExt;
        let content = root.read(&candidate.file)?;
        let entry = TreeEntry {
            path: candidate.file.as_os_str().as_bytes().to_vec(),
            kind: crate::definition::TreeKind::File { executable: false, content: content.clone() },
        };
        return Ok((content, vec![entry]));
    }
    root.read_tree(&candidate.directory, &candidate.file)
}

/// What a file named to `check` is taken for, by its path alone.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    let definition = |name: &str, kind, root: &Path, directory: PathBuf| match DefinitionName::parse(name) {
        Ok(name) if name.to_string().len() <= MAX_NAME => FileKind::Definition(Candidate {
            name,
            kind,
            origin: Origin::Workspace,
            place: root.to_owned(),
            root: root.to_owned(),
            directory,
            file: PathBuf::from(file),
        }),
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
        other => match other.strip_suffix(".md") {
            Some(stem) if inside("skills") => definition(stem, DefinitionKind::Skill, &real, PathBuf::new()),
            Some(stem) => definition(
                stem.strip_suffix(".agent").unwrap_or(stem),
                DefinitionKind::Agent,
                &real,
                PathBuf::new(),
            ),
            None => FileKind::Other("is neither a definition (`.md`) nor a policy (`.yaml`)"),
        },
    }
}
