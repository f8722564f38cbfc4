//! Gathering what a decision rests on: the policy, the runtime's profile, the definition.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use depute_ledger::KeyedDigest;

use crate::cage::{self, Machine};
use crate::capability::{AskedId, CapabilitySet, Grant};
use crate::definition::MAX_FILE;
use crate::diagnostic::{Diagnostic, Problem};
use crate::discover::{Catalog, read_regular, trust};
use crate::host::{self, Project};
use crate::plan::{
    Approval, AskedUse, DefinitionFact, Facts, NodeFacts, PlaceFact, Request, Situation, Subject, Usage,
    ceiling, places,
};
use crate::policy::{BUILTIN, Narrowing, Policy};
use crate::runtime::{NodePaths, Profile};

/// The profiles inside this binary.
const PROFILES: [(&str, &str); 3] = [
    ("command", include_str!("../../policies/runtimes/command.yaml")),
    ("pi", include_str!("../../policies/runtimes/pi.yaml")),
    ("scripted", include_str!("../../policies/runtimes/scripted.yaml")),
];

/// The names of those.
#[must_use]
pub fn runtimes() -> [&'static str; PROFILES.len()] {
    PROFILES.map(|(name, _)| name)
}

/// The names of all profiles here, sorted: those inside this binary, and the operator's own.
#[must_use]
pub fn profiles(project: &Project) -> BTreeSet<String> {
    let own = std::fs::read_dir(project.user_policy.with_file_name("runtimes"));
    let own = own.into_iter().flatten().flatten().map(|entry| entry.path());
    let own = own.filter(|path| path.extension().is_some_and(|e| e == "yaml"));
    let own = own.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    runtimes().map(str::to_owned).into_iter().chain(own).collect()
}

/// Where requests are made from.
#[derive(Clone, Debug)]
pub struct Place {
    /// The project.
    pub project: Project,
    /// Where the ledger is.
    pub ledger: PathBuf,
    /// Whether its definitions are trusted for this run.
    pub trust_workspace: bool,
}

impl Place {
    /// The directories that no node may write: what it could rewrite there binds those that come after.
    fn kept(&self) -> Vec<PathBuf> {
        let beside = |file: &Path| file.parent().map(host::real_path);
        let mut kept: Vec<PathBuf> = [&self.project.trust, &self.project.user_policy, &self.project.policy]
            .into_iter()
            .filter_map(|file| beside(file))
            .collect();
        kept.push(host::real_path(&self.ledger));
        kept.sort_unstable();
        kept.dedup();
        kept
    }

    /// Whether the workspace's definitions may be spawned.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.trust_workspace || trust::is_trusted(&self.project.trust, &self.project.root)
    }
}

/// A situation, and what a person should be told about how it came about.
#[derive(Debug)]
pub struct Assembled {
    /// The situation.
    pub situation: Situation,
    /// Definitions that the one found goes before.
    pub shadowed: Vec<PathBuf>,
}

/// The operator's policy files, the one in force last: the user's, the one for this directory, the
/// named one. None where the built-in policy is in force.
fn policy_files(named: Option<&Path>, project: &Project) -> Result<Vec<PathBuf>, Box<Diagnostic>> {
    let mut files = Vec::new();
    for path in [&project.user_policy, &project.policy] {
        // The user's own policy may be named too, and is then no later one.
        if is_there(path)? && named != Some(path) {
            files.push(path.clone());
        }
    }
    files.extend(named.map(Path::to_owned));
    Ok(files)
}

/// The operator's policy file in force. Nothing where the built-in policy is.
///
/// # Errors
/// A [`Diagnostic`] where it cannot be told whether one is there.
pub fn policy_file(named: Option<&Path>, project: &Project) -> Result<Option<PathBuf>, Box<Diagnostic>> {
    Ok(policy_files(named, project)?.pop())
}

/// The policy in force: the file that was named, else the operator's for this directory, else the
/// user's, else the built-in one; narrowed by the workspace's own where there is one. Also says where
/// it came from.
///
/// The operator's own files are read also where another takes their place: what they lock, it may not
/// widen.
///
/// # Errors
/// A [`Diagnostic`] where a file cannot be read or is no policy, and where the policy in force widens
/// what an earlier one locks. There is no falling through to the next one.
pub fn load_policy(named: Option<&Path>, project: &Project) -> Result<(Policy, String), Box<Diagnostic>> {
    let Some(in_force) = policy_file(named, project)? else {
        let read = Policy::read(BUILTIN.as_bytes());
        let policy = read.map_err(|p| Box::new(Diagnostic::new("built-in", BUILTIN.as_bytes(), p)))?;
        return narrowed(policy, "built-in".to_owned(), project);
    };
    let policy = read_policy(&in_force)?;
    within_locks(&policy, &in_force, project)?;
    narrowed(policy, in_force.display().to_string(), project)
}

/// Holds a policy, as it is or would be in this file, against what earlier ones lock.
///
/// # Errors
/// A [`Diagnostic`] where it widens what one of them locks, and where one of them cannot be read.
pub fn within_locks(policy: &Policy, path: &Path, project: &Project) -> Result<(), Box<Diagnostic>> {
    let mut earlier = policy_files(Some(path), project)?;
    earlier.pop();
    for file in &earlier {
        let locking = read_policy(file).map_err(|at| before(at, path))?;
        if let Some(widening) = policy.widening(&locking) {
            let lock = Problem::new("locked", widening.lock.clone(), "");
            let lock = Diagnostic::new(&file.display().to_string(), &locking.source, lock).place();
            let shown = path.display().to_string();
            return Err(Box::new(Diagnostic::new(&shown, &policy.source, widening.problem(&lock))));
        }
    }
    Ok(())
}

/// The user's policy, where there is one.
///
/// # Errors
/// A [`Diagnostic`] where it cannot be read or is no policy.
pub fn user_policy(project: &Project) -> Result<Option<Policy>, Box<Diagnostic>> {
    if is_there(&project.user_policy)? { read_policy(&project.user_policy).map(Some) } else { Ok(None) }
}

fn read_policy(path: &Path) -> Result<Policy, Box<Diagnostic>> {
    let source = read_file(path)?;
    Policy::read(&source)
        .map_err(|problem| Box::new(Diagnostic::new(&path.display().to_string(), &source, problem)))
}

/// What is wrong with a file that another takes the place of, and yet has to be read.
fn before(mut at: Box<Diagnostic>, in_force: &Path) -> Box<Diagnostic> {
    let fix = at.problem.fix.take().unwrap_or_else(|| "correct it".to_owned());
    let in_force = in_force.display();
    at.problem.fix = Some(format!("{fix}; `{in_force}` does not go around it, since it may lock keys"));
    at
}

/// The policy, narrowed by the workspace's own.
fn narrowed(policy: Policy, shown: String, project: &Project) -> Result<(Policy, String), Box<Diagnostic>> {
    let narrowing = project.root.join(".depute/policy.yaml");
    if !is_there(&narrowing)? {
        return Ok((policy, shown));
    }
    let source = read_file(&narrowing)?;
    let place = narrowing.display().to_string();
    let by =
        Narrowing::read(&source).map_err(|problem| Box::new(Diagnostic::new(&place, &source, problem)))?;
    Ok((policy.narrowed(&by), format!("{shown}, narrowed by {place}")))
}

/// Whether anything is at a path. Where that cannot be told, nothing is assumed.
fn is_there(path: &Path) -> Result<bool, Box<Diagnostic>> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => {
            let problem =
                Problem::new("unreadable", 0..0, format!("cannot be looked at, so it may bind: {error}"))
                    .fix("let this user look at it");
            Err(Box::new(Diagnostic::new(&path.display().to_string(), b"", problem)))
        }
    }
}

/// The profile of a runtime, with the near names where there is none. A file beside the operator's
/// policies goes before the built-in one.
///
/// # Errors
/// A [`Diagnostic`] where it does not exist or cannot be read.
pub fn load_profile(name: &str, project: &Project) -> Result<Profile, Box<Diagnostic>> {
    let overriding = project.user_policy.with_file_name("runtimes").join(format!("{name}.yaml"));
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let (shown, source) = if plain && is_there(&overriding)? {
        (overriding.display().to_string(), read_file(&overriding)?)
    } else if let Some((_, source)) = PROFILES.iter().find(|(known, _)| *known == name) {
        (format!("built-in profile {name}"), source.as_bytes().to_vec())
    } else {
        let names = runtimes();
        let fix = match crate::nearest::nearest(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the runtimes are {}", names.join(", ")),
        };
        let problem = Problem::new("unknown-runtime", 0..0, format!("there is no runtime `{name}`")).fix(fix);
        return Err(Box::new(Diagnostic::new("--runtime", b"", problem)));
    };
    let profile = Profile::read(&source).and_then(|profile| {
        if profile.runtime == name {
            return Ok(profile);
        }
        let message = format!("says that it is `{}`, and is asked for as `{name}`", profile.runtime);
        Err(Problem::new("profile-name", 0..0, message).fix("let `runtime` and the file name agree"))
    });
    profile.map_err(|problem| Box::new(Diagnostic::new(&shown, &source, problem)))
}

fn read_file(path: &Path) -> Result<Vec<u8>, Box<Diagnostic>> {
    read_regular(path, MAX_FILE).map_err(|error| {
        let problem = Problem::new("unreadable", 0..0, format!("cannot be read: {error}"))
            .fix("let this user read it, or name one that is there");
        Box::new(Diagnostic::new(&path.display().to_string(), b"", problem))
    })
}

/// What is at a place beneath the workspace.
fn look(workspace: &Path, below: &str) -> PlaceFact {
    match cage::look(workspace, below) {
        Ok(found) if found.is_dir() => PlaceFact::Directory,
        Ok(found) if found.is_file() => PlaceFact::File,
        Ok(_) => PlaceFact::Other,
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => PlaceFact::Missing,
            Some(libc::ELOOP) => PlaceFact::Link,
            Some(_) | None => PlaceFact::Other,
        },
    }
}

/// The situation of a request from the root.
///
/// # Errors
/// Where the system does not tell where this binary is.
pub fn assemble(
    policy: &Policy,
    request: &Request,
    profile: Profile,
    place: &Place,
    private: &Path,
    task_digest: Option<KeyedDigest>,
    approvals: Vec<Approval>,
) -> std::io::Result<Assembled> {
    let (definition, fact, shadowed) = match &request.subject {
        Subject::Inline => (None, DefinitionFact::Inline, Vec::new()),
        Subject::Definition(reference) => {
            let found = Catalog::discover(policy, &place.project).find(reference, place.is_trusted());
            (found.definition, found.fact, found.shadowed)
        }
    };
    let text = |path: &Path| {
        let lossy = || {
            std::io::Error::other(format!(
                "the path `{}` is not UTF-8, and would be another one if written down",
                path.display()
            ))
        };
        path.to_str().map(str::to_owned).ok_or_else(lossy)
    };
    let itself = host::this_binary()?;
    let machine = Machine::measure_for(policy.tier, &itself);
    let asked = match &request.uses {
        AskedUse::Exactly(ids) => ids.iter().filter_map(AskedId::id).cloned().collect(),
        AskedUse::WholeCeiling => match (&definition, &fact) {
            (Some(definition), DefinitionFact::Read { tree, .. }) => {
                ceiling(policy, definition, tree).unwrap_or_default()
            }
            _ => CapabilitySet::empty(),
        },
    };
    let places = places(&asked, &profile).into_keys().map(|below| {
        let found = look(&place.project.root, &below);
        (below, found)
    });
    let places = places.collect();
    let facts = Facts {
        node: NodeFacts { path: "1".to_owned(), depth: 1 },
        holder: Grant { uses: policy.grant.uses.clone(), delegate: policy.grant.delegate.clone() },
        definition: fact,
        tier: machine.in_force(policy.tier),
        lacking: machine.lacks(policy.tier),
        places,
        kept: place.kept().iter().map(|kept| text(kept)).collect::<Result<_, _>>()?,
        approvals,
        now_ms: host::now_ms(),
        used: Usage::default(),
        workspaces: Vec::new(),
        paths: NodePaths {
            private: text(private)?,
            workspace: text(&place.project.root)?,
            itself: text(&itself)?,
        },
        task_digest,
    };
    Ok(Assembled { situation: Situation { facts, definition, profile }, shadowed })
}
