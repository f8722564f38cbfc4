//! Capability ids: `tool:read`, `tool:write(docs/**)`, `mcp:server/tool`, `agent:review` …
//!
//! Parsed once, at the edge. A malformed id cannot be held by [`Capability`], so nothing inside
//! has to ask. Printing gives the canonical form; parsing that gives the same value.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::name::{DefinitionName, Name, PackageName, ToolName, WorkspaceId};
use super::scope::{self, Scope};

/// The namespaces of ids.
pub(crate) const NAMESPACES: [&str; 6] = ["tool", "mcp", "ext", "skill", "agent", "workspace"];

/// One capability.
///
/// Ordered and compared by its canonical text, so that every list prints in one order.
#[derive(Clone, Debug)]
pub struct Capability {
    text: String,
    kind: Kind,
}

/// What a capability names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `tool:<name>` or `tool:<name>(<scope>)`.
    Tool(ToolName, Reach),
    /// `tool:*`: everything.
    AnyTool,
    /// `mcp:<server>/<tool>`.
    Mcp(Name, Name),
    /// `mcp:<server>/*`: every tool of one server.
    AnyOfMcp(Name),
    /// `ext:<package>/<tool>`.
    Ext(PackageName, Name),
    /// `skill:<name>`.
    Skill(DefinitionName),
    /// `agent:<name>`.
    Agent(DefinitionName),
    /// `agent:*`.
    AnyAgent,
    /// `workspace:<id>`.
    Workspace(WorkspaceId),
    /// `workspace:*`.
    AnyWorkspace,
}

/// How much of a tool a capability confers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// All that the tool does, in the workspace of its node.
    Whole,
    /// Only what the scope allows.
    Within(Scope),
}

/// Why a text is not a capability id, in words that follow it. [`IdError::fix`] has the rest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// No `namespace:` in front.
    #[error("has no namespace")]
    NoNamespace,
    /// A namespace that does not exist.
    #[error("has the unknown namespace `{0}`")]
    UnknownNamespace(String),
    /// Nothing where a name belongs.
    #[error("has an empty name")]
    EmptyName,
    /// A name that begins with something else than a letter or a digit.
    #[error("has a name that begins with {0:?}")]
    NameStart(char),
    /// A character that no name may hold.
    #[error("holds {0:?} in a name")]
    NameCharacter(char),
    /// An `mcp:` or `ext:` id without its two parts.
    #[error("has one part of two")]
    TwoParts(&'static str),
    /// Longer than a name or scope may be, in bytes.
    #[error("has a part of more than {0} bytes")]
    TooLong(usize),
    /// A wildcard where none exists.
    #[error("holds a wildcard that does not exist")]
    Wildcard,
    /// Parentheses that do not pair.
    #[error("has unbalanced parentheses")]
    Unbalanced,
    /// Text after the closing parenthesis.
    #[error("has text after its scope")]
    AfterScope,
    /// A scope on something that takes none.
    #[error("has a scope, which only tools take")]
    ScopeNotAllowed,
    /// A scope that narrows nothing.
    #[error("has a scope that narrows nothing")]
    ScopeOfEverything,
    /// A variable in a scope.
    #[error("has a variable in its scope, which nothing expands")]
    ScopeVariable,
    /// A character that no scope may hold.
    #[error("holds {0:?} in its scope")]
    ScopeCharacter(char),
    /// A path that leaves the workspace.
    #[error("has a path that leaves the workspace")]
    PathOutside,
    /// `docs/`, which could mean two things.
    #[error("has a path that ends in `/`")]
    PathTrailingSlash,
    /// Blanks at the end of a part, which would be lost when the id is read again.
    #[error("has a path with a blank at an end of a part")]
    PathBlank,
    /// Not a host name.
    #[error("has a malformed host")]
    Host,
}

impl IdError {
    /// The smallest change that would help.
    #[must_use]
    pub fn fix(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::NoNamespace => "write `tool:` or another namespace before it",
            Self::UnknownNamespace(word) => {
                return match crate::nearest::nearest(word, NAMESPACES) {
                    Some(near) => format!("did you mean `{near}:`?").into(),
                    None => format!("the namespaces are {}", NAMESPACES.join(", ")).into(),
                };
            }
            Self::EmptyName => "write the name",
            Self::NameStart(_) => "begin the name with a letter or a digit",
            Self::NameCharacter(_) => "keep to letters, digits, `.`, `_` and `-`",
            Self::TwoParts(form) => return format!("write `{form}`").into(),
            Self::TooLong(_) => "shorten it",
            Self::Wildcard => {
                "name one, or write one of `tool:*`, `agent:*`, `workspace:*`, `mcp:<server>/*`"
            }
            Self::Unbalanced => "give each parenthesis its partner",
            Self::AfterScope => "end it with the `)`",
            Self::ScopeNotAllowed => "remove the parentheses",
            Self::ScopeOfEverything => "drop the parentheses, or name what is meant",
            Self::ScopeVariable => "write out what `${…}` stands for",
            Self::ScopeCharacter(_) => "remove it",
            Self::PathOutside => "write it relative to the workspace, without `..`",
            Self::PathTrailingSlash => "write `…/**` for all below it",
            Self::PathBlank => "remove the blank",
            Self::Host => "write `domain:example.com` or `domain:*.example.com`",
        })
    }
}

impl Capability {
    /// What it names.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The whole tool of this name.
    #[must_use]
    pub fn tool(name: ToolName) -> Self {
        Kind::Tool(name, Reach::Whole).into()
    }

    /// The tool it names, where it names one.
    #[must_use]
    pub fn tool_name(&self) -> Option<&ToolName> {
        match &self.kind {
            Kind::Tool(name, _) => Some(name),
            Kind::AnyTool
            | Kind::Mcp(..)
            | Kind::AnyOfMcp(_)
            | Kind::Ext(..)
            | Kind::Skill(_)
            | Kind::Agent(_)
            | Kind::AnyAgent
            | Kind::Workspace(_)
            | Kind::AnyWorkspace => None,
        }
    }

    /// The same tool without a scope; itself where it is not a tool.
    #[must_use]
    pub fn unscoped(&self) -> Self {
        match self.tool_name() {
            Some(name) => Self::tool(name.clone()),
            None => self.clone(),
        }
    }

    /// Whether it stands for more than it names.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        matches!(self.kind, Kind::AnyTool | Kind::AnyOfMcp(_) | Kind::AnyAgent | Kind::AnyWorkspace)
    }

    /// Whether it may be handed down. `tool:*` and `workspace:*` are held, never inherited.
    #[must_use]
    pub fn is_inheritable(&self) -> bool {
        !matches!(self.kind, Kind::AnyTool | Kind::AnyWorkspace)
    }

    /// Whether its scope is a path, which belongs to the workspace it was granted for.
    #[must_use]
    pub fn has_path_scope(&self) -> bool {
        matches!(self.kind, Kind::Tool(_, Reach::Within(Scope::Path(_))))
    }
}

impl From<Kind> for Capability {
    fn from(kind: Kind) -> Self {
        Self { text: kind.to_string(), kind }
    }
}

impl FromStr for Capability {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (namespace, rest) = text.split_once(':').ok_or(IdError::NoNamespace)?;
        let kind = match namespace {
            "tool" => tool(rest)?,
            "agent" if rest == "*" => Kind::AnyAgent,
            "workspace" if rest == "*" => Kind::AnyWorkspace,
            "mcp" => {
                let (server, tool) = rest.split_once('/').ok_or(IdError::TwoParts("mcp:<server>/<tool>"))?;
                if server == "*" {
                    return Err(IdError::Wildcard);
                }
                let server = Name::parse(no_scope(server)?)?;
                if tool == "*" {
                    Kind::AnyOfMcp(server)
                } else {
                    Kind::Mcp(server, Name::parse(no_scope(tool)?)?)
                }
            }
            "ext" => {
                let (package, tool) =
                    rest.rsplit_once('/').ok_or(IdError::TwoParts("ext:<package>/<tool>"))?;
                Kind::Ext(PackageName::parse(no_scope(package)?)?, Name::parse(no_scope(tool)?)?)
            }
            "skill" => Kind::Skill(DefinitionName::parse(no_scope(rest)?)?),
            "agent" => Kind::Agent(DefinitionName::parse(no_scope(rest)?)?),
            "workspace" => Kind::Workspace(WorkspaceId::parse(no_scope(rest)?)?),
            other => return Err(IdError::UnknownNamespace(other.to_owned())),
        };
        Ok(kind.into())
    }
}

fn no_scope(text: &str) -> Result<&str, IdError> {
    if text == "*" {
        Err(IdError::Wildcard)
    } else if text.contains('(') {
        Err(IdError::ScopeNotAllowed)
    } else {
        Ok(text)
    }
}

fn tool(text: &str) -> Result<Kind, IdError> {
    if text == "*" {
        return Ok(Kind::AnyTool);
    }
    let Some((name, rest)) = text.split_once('(') else {
        return if text.contains(')') {
            Err(IdError::Unbalanced)
        } else {
            Ok(Kind::Tool(ToolName::parse(text)?, Reach::Whole))
        };
    };
    let name = ToolName::parse(name)?;
    let Some(inner) = rest.strip_suffix(')') else {
        return Err(if scope::is_balanced(text) { IdError::AfterScope } else { IdError::Unbalanced });
    };
    let scope = Scope::parse(&name, inner)?;
    Ok(Kind::Tool(name, Reach::Within(scope)))
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(name, Reach::Whole) => write!(f, "tool:{name}"),
            Self::Tool(name, Reach::Within(scope)) => write!(f, "tool:{name}({scope})"),
            Self::AnyTool => f.write_str("tool:*"),
            Self::Mcp(server, tool) => write!(f, "mcp:{server}/{tool}"),
            Self::AnyOfMcp(server) => write!(f, "mcp:{server}/*"),
            Self::Ext(package, tool) => write!(f, "ext:{package}/{tool}"),
            Self::Skill(name) => write!(f, "skill:{name}"),
            Self::Agent(name) => write!(f, "agent:{name}"),
            Self::AnyAgent => f.write_str("agent:*"),
            Self::Workspace(id) => write!(f, "workspace:{id}"),
            Self::AnyWorkspace => f.write_str("workspace:*"),
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl PartialEq for Capability {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Capability {}

impl PartialOrd for Capability {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Capability {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl std::hash::Hash for Capability {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl serde::Serialize for Capability {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> serde::Deserialize<'de> for Capability {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(|error| serde::de::Error::custom(format_args!("`{text}` {error}")))
    }
}
