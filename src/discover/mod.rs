//! Which definitions are in force here, and reading one of them.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "discovery reads directories")]

mod beneath;
mod classify;
mod index;
pub mod roots;
mod scan;
mod site;
pub mod trust;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use depute_ledger::Digest;

use crate::capability::DefinitionName;
use crate::definition::{Definition, DefinitionKind, TreeEntry, TreeKind, tree_digest};
use crate::diagnostic::{Diagnostic, Problem, printable};
use crate::nearest::nearest_all;
use crate::plan::{DefinitionFact, DefinitionRef, Origin, Which};

pub use beneath::{ReadError, Root, read_regular};
pub use classify::{FileKind, classify};
pub use site::Site;

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
    /// The place it was found in: the project, the home directory, or one root of the policy. A name
    /// of one place is asked for, and its definitions differ in it or are copies of one another.
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

    /// Whether both are of one place, where neither goes before the other.
    #[must_use]
    pub fn stands_beside(&self, other: &Self) -> bool {
        self.origin == other.origin && self.place == other.place
    }

    /// Whether it is at this real path without a link below its root.
    fn is_itself_at(&self, real: &Path) -> bool {
        let root = self.root.path().canonicalize();
        root.is_ok_and(|root| root.join(&self.directory).join(&self.file) == real)
    }
}

/// Something that was passed over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// Where it is.
    pub path: PathBuf,
    /// Why, in words that follow the path.
    pub why: String,
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", printable(&self.path.display().to_string()), self.why)
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
    /// What was passed over, by path.
    pub skipped: Vec<Skipped>,
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

impl Catalog {
    /// The candidates, nearest authority first.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// The roots of policy and user that are there and could not be looked through, each with why. While
    /// there is one, a name that only the workspace has is refused.
    pub fn doubts(&self) -> impl Iterator<Item = &str> {
        self.unopened.iter().map(|(_, why)| why.as_str())
    }

    /// Finds and reads what a reference names. A definition of the workspace never goes before one
    /// that policy or user provide; it is asked for as `name@workspace`.
    #[must_use]
    pub fn find(&self, reference: &DefinitionRef, trusted: bool) -> Found {
        match self.choose(reference) {
            Err(fact) => Found { fact, definition: None, shadowed: Vec::new() },
            Ok(Chosen { candidate, loaded, shadowed }) => {
                let loaded = loaded.unwrap_or_else(|| load(candidate));
                Found { shadowed, ..read(candidate, loaded, trusted) }
            }
        }
    }

    /// The shortest reference that leads to one of the candidates.
    #[must_use]
    pub fn reference_to(&self, candidate: &Candidate) -> DefinitionRef {
        let path = candidate.path();
        let references = [Which::Nearest, Which::From(candidate.origin)]
            .map(|which| DefinitionRef { name: candidate.name.clone(), which });
        let leads = |reference: &DefinitionRef| {
            self.choose(reference).is_ok_and(|chosen| chosen.candidate.path() == path)
        };
        references.into_iter().find(leads).unwrap_or_else(|| DefinitionRef {
            name: candidate.name.clone(),
            which: Which::At(path.display().to_string()),
        })
    }

    /// Which candidate a reference means. It is read only where it has rivals.
    fn choose(&self, reference: &DefinitionRef) -> Result<Chosen<'_>, DefinitionFact> {
        let named: Vec<&Candidate> = self
            .named(&reference.name)
            .filter(|c| match &reference.which {
                Which::Nearest => true,
                Which::From(origin) => c.origin == *origin,
                Which::At(path) => c.path() == Path::new(path),
            })
            .collect();
        let first = named.first().copied();
        if reference.which == Which::Nearest
            && first.is_none_or(|first| first.origin == Origin::Workspace)
            && let Some((origin, why)) = self.unopened.first()
        {
            let message = format!("{why}, so it is not known whether `{}` is there", reference.name);
            let fix = Some(format!("mend that directory, or ask for `{}@workspace`", reference.name));
            return Err(DefinitionFact::Unreadable { origin: *origin, trusted: true, message, fix });
        }
        let Some(candidate) = first else {
            let names: Vec<String> = self.candidates.iter().map(|c| c.name.to_string()).collect();
            let near = nearest_all(&reference.name.to_string(), names.iter().map(String::as_str));
            let near = near.into_iter().map(str::to_owned).collect();
            return Err(DefinitionFact::Unknown { near });
        };
        let rivals: Vec<&Candidate> =
            named.iter().skip(1).copied().filter(|c| c.stands_beside(candidate)).collect();
        let loaded = (!rivals.is_empty()).then(|| load(candidate));
        if loaded.as_ref().is_some_and(|loaded| !rivals.iter().all(|c| is_copy(c, candidate, loaded))) {
            let places = std::iter::once(candidate).chain(rivals);
            let places = places.map(|c| c.path().display().to_string()).collect();
            return Err(DefinitionFact::Ambiguous { places });
        }
        let shadowed = named.iter().skip(1).map(|c| c.path()).collect();
        Ok(Chosen { candidate, loaded, shadowed })
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

    /// What a path is to this catalog: a candidate that is called so goes before one that a link makes
    /// the same.
    #[must_use]
    pub fn standing(&self, site: &Site) -> Standing<'_> {
        if self.roots.is_empty() {
            return Standing::Elsewhere;
        }
        let (called, real) = (site.called(), site.real());
        let candidate = self.called().candidate(called);
        let candidate = candidate.or_else(|| self.real().candidate(real?));
        if let Some(candidate) = candidate.and_then(|at| self.candidates.get(at)) {
            return Standing::InForce(candidate);
        }
        let root = self.called().root_above(called);
        let root = root.or_else(|| self.real().root_above(real?));
        let Some((root, why)) = root.and_then(|at| self.roots.get(at)) else { return Standing::Elsewhere };
        let root = printable(&root.display().to_string());
        Standing::PassedOver(match why {
            Some(why) => format!("is below {root}, which {why}"),
            None => format!("is not where a definition stands below {root}"),
        })
    }
}

/// What a path is to a catalog.
#[derive(Debug)]
pub enum Standing<'c> {
    /// A definition in force.
    InForce(&'c Candidate),
    /// Below one of the roots, and no definition in force; why, in words that follow the path.
    PassedOver(String),
    /// Below no root.
    Elsewhere,
}

/// What reading a candidate gives: its bytes, and the digest of its tree.
type Loaded = Result<(Vec<u8>, Digest), ReadError>;

/// The candidate that a reference means.
struct Chosen<'c> {
    candidate: &'c Candidate,
    loaded: Option<Loaded>,
    shadowed: Vec<PathBuf>,
}

/// Whether a candidate is, to the byte, what another gave, so that it is no matter which is meant. What
/// cannot be read is no copy of anything.
fn is_copy(candidate: &Candidate, of: &Candidate, loaded: &Loaded) -> bool {
    let Ok((_, tree)) = loaded else { return false };
    candidate.kind == of.kind && load(candidate).is_ok_and(|(_, own)| own == *tree)
}

/// What one candidate comes to.
fn read(candidate: &Candidate, loaded: Loaded, trusted: bool) -> Found {
    let origin = candidate.origin;
    let trusted = trusted || origin != Origin::Workspace;
    let path = printable(&candidate.path().display().to_string());
    let unreadable = |message: String, fix: Option<String>| Found {
        fact: DefinitionFact::Unreadable { origin, trusted, message, fix },
        definition: None,
        shadowed: Vec::new(),
    };
    let (bytes, tree) = match loaded {
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
