//! Definitions: the files that people already have, read into a ceiling that fails closed.
//!
//! Bytes in, [`Definition`] out; nothing here opens a file. What cannot be read is a
//! [`Problem`] with its place, never a guess from repaired text.

#![forbid(unsafe_code)]

mod entries;
mod frontmatter;
mod keys;
mod mend;
mod tree;

use std::ops::Range;

use depute_ledger::Digest;

use crate::capability::{CapabilitySet, DefinitionName, Subsumption, ToolName};
use crate::diagnostic::Problem;

pub use entries::declared_in;
pub use frontmatter::{MAX_FILE, MAX_FRONTMATTER};
pub use mend::{Mend, mends};
pub use tree::{MAX_TREE_BYTES, MAX_TREE_ENTRIES, TreeEntry, TreeError, TreeKind, tree_digest};

/// What kind of file a definition is, which fixes the key that holds its ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefinitionKind {
    /// `<dir>/SKILL.md`, or a top-level `<name>.md` in a skills root: `allowed-tools`.
    Skill,
    /// `<name>.md` in an agents directory: `tools`, minus `disallowedTools`.
    Agent,
    /// `<name>/AGENT.md` of a harness tree: `tools`.
    Harness,
}

impl DefinitionKind {
    /// The key that declares the ceiling.
    #[must_use]
    pub fn ceiling_key(self) -> &'static str {
        match self {
            Self::Skill => "allowed-tools",
            Self::Agent | Self::Harness => "tools",
        }
    }

    /// The kind in a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Agent => "agent",
            Self::Harness => "harness",
        }
    }
}

/// What a definition lets its child use at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ceiling {
    /// The file declares no tools, so it is not spawnable. Absent never means everything.
    Undeclared(Undeclared),
    /// The file declares these, perhaps none.
    Declared(CapabilitySet),
}

/// Why a definition counts as undeclared, and what was perhaps meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undeclared {
    /// The problem to show: where, and the fix.
    pub problem: Problem,
}

/// Something worth telling the author that changes no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A stable slug.
    pub rule: &'static str,
    /// What was found.
    pub message: String,
    /// Where.
    pub span: Range<usize>,
}

/// A definition as read: its body is a slice of exactly the bytes that were digested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    name: DefinitionName,
    kind: DefinitionKind,
    description: String,
    ceiling: Ceiling,
    removed: CapabilitySet,
    ceiling_span: Range<usize>,
    model: Option<String>,
    findings: Vec<Finding>,
    bytes: Vec<u8>,
    body: Range<usize>,
}

impl Definition {
    /// Reads a definition. `name` comes from the path, never from the file.
    ///
    /// # Errors
    /// The first [`Problem`] that makes the file unreadable.
    pub fn read(bytes: Vec<u8>, kind: DefinitionKind, name: DefinitionName) -> Result<Self, Problem> {
        let parts = frontmatter::split(&bytes)?;
        let read = keys::read(parts.yaml, parts.yaml_start, kind, &name)?;
        let body = parts.body;
        let mut findings = read.findings;
        if body.is_empty() {
            findings.push(Finding {
                rule: "empty-body",
                message: "has no instructions".into(),
                span: body.clone(),
            });
        }
        Ok(Self {
            name,
            kind,
            description: read.description,
            ceiling: read.ceiling,
            removed: read.removed,
            ceiling_span: read.ceiling_span,
            model: read.model,
            findings,
            body,
            bytes,
        })
    }

    /// Its name: the directory of a skill, the file stem of an agent.
    #[must_use]
    pub fn name(&self) -> &DefinitionName {
        &self.name
    }

    /// What kind of file it is.
    #[must_use]
    pub fn kind(&self) -> DefinitionKind {
        self.kind
    }

    /// What it is for, in its author's words.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What its child may use at most.
    #[must_use]
    pub fn ceiling(&self) -> &Ceiling {
        &self.ceiling
    }

    /// Where the ceiling is declared, in bytes of the file; the start where it is not.
    #[must_use]
    pub fn ceiling_span(&self) -> Range<usize> {
        self.ceiling_span.clone()
    }

    /// Where it names a tool: the word in the value that declares, where it stands there as it is.
    #[must_use]
    pub fn tool_span(&self, tool: &ToolName) -> Option<Range<usize>> {
        let value = self.bytes.get(self.ceiling_span.clone())?;
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let word = tool.as_str().as_bytes();
        let (at, _) = value.windows(word.len()).enumerate().find(|(at, window)| {
            let before = at.checked_sub(1).and_then(|before| value.get(before));
            let after = value.get(at + word.len());
            window.eq_ignore_ascii_case(word) && !before.is_some_and(is_name) && !after.is_some_and(is_name)
        })?;
        let start = self.ceiling_span.start + at;
        Some(start..start + word.len())
    }

    /// What its restrictive keys took away; an overlay cannot give it back.
    #[must_use]
    pub fn removed(&self) -> &CapabilitySet {
        &self.removed
    }

    /// These less all that touches what it removes.
    #[must_use]
    pub fn without_removed(&self, ids: &CapabilitySet, table: &Subsumption) -> CapabilitySet {
        ids.filtered(|id| !self.removed.iter().any(|gone| id.touches(gone, table)))
    }

    /// The model it asks for.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// What its author should know.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The file as read.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The instructions: everything after the frontmatter, trimmed at both ends.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.bytes.get(self.body.clone()).unwrap_or_default()
    }

    /// SHA-256 of exactly the bytes that a child receives.
    #[must_use]
    pub fn body_digest(&self) -> Digest {
        Digest::of(self.body())
    }
}
