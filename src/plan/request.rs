//! What is asked for.

use crate::capability::{AskedId, DefinitionName};

/// The most ids in one list of a request.
pub const MAX_IDS: usize = 128;
/// The largest task, in bytes.
pub const MAX_TASK: u64 = 16 * 1024 * 1024;

/// A request to spawn one child. It says what is wanted, never what is held.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Which definition.
    pub subject: Subject,
    /// What it may use itself.
    #[serde(rename = "use")]
    pub uses: AskedUse,
    /// What it may hand down.
    pub delegate: AskedDelegate,
    /// The workspace it is routed to; nothing means its parent's.
    pub workspace: Option<String>,
    /// The runtime; nothing means the policy's default.
    pub runtime: Option<String>,
    /// The model; nothing means the definition's, then the policy's.
    pub model: Option<String>,
    /// What it may spend; nothing means the policy's limits for a child.
    pub budget: Option<BudgetRequest>,
    /// What may be said of the task. Its text is model-written and enters no record.
    pub task: TaskFacts,
}

impl Request {
    /// A request for the whole ceiling of a definition, with nothing else stated.
    #[must_use]
    pub fn of_whole_ceiling(reference: DefinitionRef, task: &[u8]) -> Self {
        Self {
            subject: Subject::Definition(reference),
            uses: AskedUse::WholeCeiling,
            delegate: AskedDelegate::Unstated,
            workspace: None,
            runtime: None,
            model: None,
            budget: None,
            task: TaskFacts::of(task),
        }
    }
}

/// Whom a request is about.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A definition.
    Definition(DefinitionRef),
    /// A tool list without a definition, where policy allows that.
    Inline,
}

/// How a definition is named.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DefinitionRef {
    /// Its name.
    pub name: DefinitionName,
    /// Which of that name.
    pub which: Which,
}

/// Which of the definitions of one name is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The nearest: `name`.
    Nearest,
    /// The nearest of this origin: `name@workspace`.
    From(Origin),
    /// The one at this absolute path: `name@/path/to/SKILL.md`.
    At(String),
}

/// Where a definition comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A root that the policy names.
    Policy,
    /// The user's own directories.
    User,
    /// The workspace. Spawnable only where the directory is trusted.
    Workspace,
}

impl Origin {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::User => "user",
            Self::Workspace => "workspace",
        }
    }
}

/// Why a text names no definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoDefinitionRef {
    /// What is wrong.
    pub message: String,
    /// The smallest change that would help.
    pub fix: String,
}

impl TryFrom<String> for DefinitionRef {
    type Error = NoDefinitionRef;

    fn try_from(text: String) -> Result<Self, NoDefinitionRef> {
        let (name, which) = match text.split_once('@') {
            None => (text.as_str(), Which::Nearest),
            Some((name, path)) if path.starts_with('/') => (name, Which::At(path.to_owned())),
            Some((name, word)) => {
                let origin = [Origin::Policy, Origin::User, Origin::Workspace]
                    .into_iter()
                    .find(|o| o.as_str() == word);
                let unknown = || NoDefinitionRef {
                    message: format!("`{word}` is no origin of definitions"),
                    fix: format!("write `{name}@policy`, `{name}@user` or `{name}@workspace`"),
                };
                (name, Which::From(origin.ok_or_else(unknown)?))
            }
        };
        let name = DefinitionName::parse(name).map_err(|error| NoDefinitionRef {
            message: format!("`{name}` is no name of a definition: it {error}"),
            fix: error.fix().into(),
        })?;
        Ok(Self { name, which })
    }
}

impl std::fmt::Display for DefinitionRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.which {
            Which::Nearest => self.name.fmt(f),
            Which::From(origin) => write!(f, "{}@{}", self.name, origin.as_str()),
            Which::At(path) => write!(f, "{}@{path}", self.name),
        }
    }
}

impl From<DefinitionRef> for String {
    fn from(reference: DefinitionRef) -> Self {
        reference.to_string()
    }
}

/// What a child is asked to be able to use.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedUse {
    /// All that its ceiling holds.
    WholeCeiling,
    /// These.
    Exactly(Vec<AskedId>),
}

/// What a child is asked to be able to hand down.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedDelegate {
    /// Not stated: what it may use, less what is never inherited, if it may delegate at all.
    Unstated,
    /// These.
    Exactly(Vec<AskedId>),
}

/// What a child asks to be able to spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetRequest {
    /// Its wall clock, in milliseconds.
    pub deadline_ms: Option<u64>,
}

/// What may be said of a task without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskFacts {
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether nothing but blanks is in it.
    pub blank: bool,
    /// Whether it holds a NUL byte.
    pub nul: bool,
}

impl TaskFacts {
    /// What may be said of this task.
    #[must_use]
    pub fn of(task: &[u8]) -> Self {
        Self {
            bytes: task.len() as u64,
            blank: task.iter().all(u8::is_ascii_whitespace),
            nul: task.contains(&0),
        }
    }
}
