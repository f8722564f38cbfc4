//! Gathering what a decision rests on: the policy, the runtime's profile, the definition.

use std::path::{Path, PathBuf};

use depute_ledger::KeyedDigest;

use crate::capability::Grant;
use crate::definition::MAX_FILE;
use crate::diagnostic::{Diagnostic, Problem};
use crate::discover::{Catalog, read_regular, trust};
use crate::host::{self, Project};
use crate::plan::{Approval, DefinitionFact, Facts, NodeFacts, Request, Situation, Subject, Usage};
use crate::policy::{BUILTIN, Narrowing, Policy};
use crate::runtime::{NodePaths, Profile, Tier};

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

/// Where requests are made from.
#[derive(Clone, Debug)]
pub struct Place {
    /// The project.
    pub project: Project,
    /// Whether its definitions are trusted for this run.
    pub trust_workspace: bool,
}

impl Place {
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

/// The operator's policy file in force: the named one, else the one for this directory, else the
/// user's. Nothing where the built-in policy is in force.
#[must_use]
pub fn policy_file(named: Option<&Path>, project: &Project) -> Option<PathBuf> {
    let places = || [&project.policy, &project.user_policy].map(PathBuf::as_path);
    named.or_else(|| places().into_iter().find(|path| path.symlink_metadata().is_ok())).map(Path::to_owned)
}

/// The policy in force: the file that was named, else the operator's for this directory, else the
/// user's, else the built-in one; narrowed by the workspace's own where there is one. Also says where
/// it came from.
///
/// # Errors
/// A [`Diagnostic`] where a file cannot be read or is no policy. There is no falling through to the
/// next one.
pub fn load_policy(named: Option<&Path>, project: &Project) -> Result<(Policy, String), Box<Diagnostic>> {
    let (source, shown) = match policy_file(named, project) {
        Some(path) => (read_file(&path)?, path.display().to_string()),
        None => (BUILTIN.as_bytes().to_vec(), "built-in".to_owned()),
    };
    let policy =
        Policy::read(&source).map_err(|problem| Box::new(Diagnostic::new(&shown, &source, problem)))?;
    let narrowing = project.root.join(".depute/policy.yaml");
    if narrowing.symlink_metadata().is_err() {
        return Ok((policy, shown));
    }
    let source = read_file(&narrowing)?;
    let place = narrowing.display().to_string();
    let by =
        Narrowing::read(&source).map_err(|problem| Box::new(Diagnostic::new(&place, &source, problem)))?;
    Ok((policy.narrowed(&by), format!("{shown}, narrowed by {place}")))
}

/// The profile of a runtime, with the near names where there is none. A file beside the operator's
/// policies goes before the built-in one.
///
/// # Errors
/// A [`Diagnostic`] where it does not exist or cannot be read.
pub fn load_profile(name: &str, project: &Project) -> Result<Profile, Box<Diagnostic>> {
    let overriding = project.user_policy.with_file_name("runtimes").join(format!("{name}.yaml"));
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let (shown, source) = if plain && overriding.symlink_metadata().is_ok() {
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
            .fix("name a file that is there, or leave `--policy` out");
        Box::new(Diagnostic::new(&path.display().to_string(), b"", problem))
    })
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
    let facts = Facts {
        node: NodeFacts { path: "1".to_owned(), depth: 1 },
        holder: Grant { uses: policy.grant.uses.clone(), delegate: policy.grant.delegate.clone() },
        definition: fact,
        tier: Tier::Zero,
        approvals,
        now_ms: host::now_ms(),
        used: Usage::default(),
        workspaces: Vec::new(),
        paths: NodePaths {
            private: text(private)?,
            workspace: text(&place.project.root)?,
            itself: text(&host::this_binary()?)?,
        },
        task_digest,
    };
    Ok(Assembled { situation: Situation { facts, definition, profile }, shadowed })
}
