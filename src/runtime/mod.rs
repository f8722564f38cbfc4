//! Runtimes as data: what a profile says of one agent program, and the argv and env it makes.
//!
//! Pure. No runtime is named in this code: everything that differs between runtimes is in
//! `policies/runtimes/*.yaml`, one file each.

#![forbid(unsafe_code)]

mod expand;
mod read;
mod shape;

use std::collections::BTreeMap;

use depute_ledger::Digest;

use crate::capability::{Capability, CapabilitySet, Kind, Reach, Scope, Subsumption, ToolName};

pub use expand::{EnvValue, Launch, NodePaths, Prepared, child_path};
pub use read::VERSION;
pub use shape::PROFILE;

/// The variable that tells a child it is one. A hint for tools: nothing is granted by it.
pub const NODE_VARIABLE: &str = "DEPUTE_NODE";

/// How strongly the kernel holds a node on this machine.
///
/// Ordered: a policy names the least that must hold.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Tier {
    /// Nothing: what holds is the runtime's own flags and the broker.
    #[default]
    #[serde(rename = "0")]
    Zero,
    /// Files and sockets on older kernels; a node may outlive its guard.
    F,
    /// Landlock and seccomp, unprivileged.
    K,
    /// The same, in namespaces of its own.
    N,
    /// The same, in a control group of its own.
    C,
}

impl Tier {
    /// Its letter.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Zero => "0",
            Self::F => "F",
            Self::K => "K",
            Self::N => "N",
            Self::C => "C",
        }
    }

    /// Every tier, the weakest first.
    pub const ALL: [Self; 5] = [Self::Zero, Self::F, Self::K, Self::N, Self::C];

    /// Reads the letter.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.as_str() == text)
    }
}

/// One runtime, as its profile describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The runtime's name.
    pub runtime: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Whether it can be started, or only planned, and why.
    pub starts: Starts,
    /// Where its program is found.
    pub find: Find,
    /// How its version is asked for; nothing for a built-in one.
    pub probe: Vec<String>,
    /// The version range the profile was measured on.
    pub versions: Option<String>,
    /// Neutral name → what this runtime calls it and who bounds it, in the order it lists them.
    pub tools: Vec<(ToolName, Tool)>,
    /// The flag that removes every tool not granted, in words for the enforcement table.
    pub allowlist: String,
    /// The pieces of argv, in order, without the program.
    pub argv: Vec<Piece>,
    /// Environment of the child beyond the fixed set.
    pub env: BTreeMap<String, String>,
    /// Names that a policy usually passes for this runtime, for messages; never passed by themselves.
    pub keys: Vec<String>,
    /// Files to put into its private configuration directory.
    pub config_files: Vec<String>,
    /// How the instructions reach it.
    pub body: BodyBy,
    /// How the task reaches it.
    pub task: TaskBy,
    /// How a model is named.
    pub model: ModelForm,
    /// How MCP servers are given to it, in words; nothing where they cannot be.
    pub mcp: Option<String>,
    /// What its standard output holds.
    pub output: OutputForm,
    /// Where a run reports its tool set; nothing where it does not.
    pub attestation: Option<String>,
    /// Where a run reports what it used; nothing where it does not.
    pub usage: Option<String>,
    /// What its exit code means.
    pub exit: ExitMeaning,
    /// What the program itself needs of a cage, whatever is granted.
    pub cage: CageNeeds,
    /// What it cannot do, each with the reason.
    pub cannot: Vec<(String, String)>,
    /// The profile's bytes as read.
    pub source: Vec<u8>,
}

/// What a program itself needs of a cage, whatever is granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CageNeeds {
    /// Whether it starts other programs.
    pub programs: bool,
    /// Places that it reads, absolute.
    pub read: Vec<String>,
    /// What it connects to, such as the provider of its model.
    pub endpoints: Vec<Endpoint>,
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The name or address, in lower case.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Whether a runtime can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starts {
    /// Yes.
    Yes,
    /// Only planned; the reason.
    PlannedOnly(String),
}

/// Where the program is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Find {
    /// This binary itself.
    Itself,
    /// An absolute path.
    At(String),
    /// A name, looked up in the directories of the child's PATH.
    InPath(String),
}

/// One tool of a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// What the runtime calls it.
    pub native: String,
    /// Whether the runtime bounds it by a scope.
    pub scopes: bool,
    /// How far its files reach.
    pub files: Files,
    /// Whether it can run programs, and so do whatever no cage denies.
    pub runs_programs: bool,
}

/// How far a file tool reaches by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// It is no file tool.
    None,
    /// The runtime confines it to the workspace.
    Workspace,
    /// It reaches the whole disk.
    WholeDisk,
}

/// One piece of argv.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Always these.
    Always(Vec<String>),
    /// One form where tools are granted, another where none are.
    ByTools {
        /// With `{tools}`: the native names joined by commas.
        some: Vec<String>,
        /// The runtime's own "no tools" form.
        none: Vec<String>,
    },
    /// Once for each granted tool, with `{id}`.
    EachTool(Vec<String>),
}

/// How the instructions reach the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyBy {
    /// By a file of ours at an absolute path, `{body}`.
    File,
    /// It takes no instructions: the file is written for the record and named in no argument.
    Unused,
}

/// How the task reaches the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskBy {
    /// On standard input, verbatim, then end of input.
    Stdin,
}

/// How a model is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelForm {
    /// It has no model.
    None,
    /// `provider/model`, both required.
    ProviderSlashModel,
}

/// What standard output holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputForm {
    /// The answer as text.
    Text,
    /// JSON events, one a line.
    JsonLines,
}

/// What the exit code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitMeaning {
    /// Zero is success.
    Code,
    /// Zero may still be a failure: events decide.
    Events,
}

impl Profile {
    /// The runtime's tool of this neutral name.
    #[must_use]
    pub fn tool(&self, name: &ToolName) -> Option<&Tool> {
        self.tools.iter().find(|(neutral, _)| neutral == name).map(|(_, tool)| tool)
    }

    /// Whether it names a model at all.
    #[must_use]
    pub fn takes_model(&self) -> bool {
        self.model != ModelForm::None
    }

    /// SHA-256 of the profile as read.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.source)
    }

    /// Whether what this id names can run programs. Extension code runs inside the runtime, and an
    /// MCP server is a program, so both can.
    #[must_use]
    pub fn runs_programs(&self, id: &Capability) -> bool {
        match id.kind() {
            Kind::Tool(name, _) => self.tool(name).is_some_and(|tool| tool.runs_programs),
            Kind::AnyTool | Kind::Ext(..) | Kind::Mcp(..) | Kind::AnyOfMcp(_) => true,
            Kind::Skill(_) | Kind::Agent(_) | Kind::AnyAgent | Kind::Workspace(_) | Kind::AnyWorkspace => {
                false
            }
        }
    }

    /// The closure of what these ids confer under this runtime at this tier. What runs programs
    /// confers whatever the cage of the tier does not deny: at tier 0, a shell and the network.
    #[must_use]
    pub fn implied(&self, ids: &CapabilitySet, tier: Tier, table: &Subsumption) -> CapabilitySet {
        let mut implied = ids.clone();
        // No tier makes a scope of commands true: what runs one program can start another.
        for id in ids.iter().filter(|id| self.runs_programs(id)) {
            implied.insert(id.unscoped());
        }
        if tier != Tier::Zero || !ids.iter().any(|id| self.runs_programs(id)) {
            return implied;
        }
        for id in ids {
            implied.insert(id.unscoped());
        }
        for name in ["bash", "web_fetch", "web_search"] {
            let Ok(name) = ToolName::parse(name) else { continue };
            for subsumed in table.subsumed_by(&name) {
                implied.insert(Capability::tool(subsumed.clone()));
            }
            implied.insert(Capability::tool(name));
        }
        implied
    }

    /// Whether a node of this runtime at this tier can be granted exactly this id; if not, why. What a
    /// cage bounds, the runtime need not be told.
    ///
    /// # Errors
    /// The reason, in words that follow "`<id>`".
    pub fn expresses(&self, id: &Capability, tier: Tier) -> Result<(), String> {
        let runtime = &self.runtime;
        match id.kind() {
            Kind::Tool(name, reach) => match (self.tool(name), reach) {
                (None, _) => Err(match self.reason(name.as_str()) {
                    Some(reason) => format!("cannot be granted under `{runtime}`: {reason}"),
                    None => format!("is not a tool of the runtime `{runtime}`"),
                }),
                (Some(_), Reach::Within(Scope::Path(_) | Scope::Host(_))) if tier > Tier::Zero => Ok(()),
                (Some(tool), Reach::Within(_)) if !tool.scopes => Err(format!(
                    "has a scope, which the runtime `{runtime}` cannot hold; it would become the whole tool"
                )),
                (Some(_), Reach::Whole | Reach::Within(_)) => Ok(()),
            },
            Kind::Mcp(..) | Kind::AnyOfMcp(_) => {
                Err(format!("is an MCP tool, which the runtime `{runtime}` is not given"))
            }
            Kind::Ext(..) => Err(format!("is an extension, which the runtime `{runtime}` is not given")),
            Kind::Skill(_) => Err(format!("is a skill, which the runtime `{runtime}` is not given")),
            Kind::AnyTool | Kind::Agent(_) | Kind::AnyAgent | Kind::Workspace(_) | Kind::AnyWorkspace => {
                Ok(())
            }
        }
    }

    fn reason(&self, what: &str) -> Option<&str> {
        self.cannot.iter().find(|(name, _)| name == what).map(|(_, reason)| reason.as_str())
    }
}
