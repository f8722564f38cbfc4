//! Where definitions stand: one table of the directories that agent programs look in.
//!
//! Data. A row is right where the program's own documentation says so:
//!
//! - Claude Code: <https://code.claude.com/docs/en/skills>, `…/sub-agents`.
//! - Agent Skills, read by all of the others: <https://agentskills.io>.
//! - pi 1.6: `packages/coding-agent/docs/skills.md`; its agents: the `subagent` example beside it.
//! - Codex: <https://developers.openai.com/codex/skills>, `…/subagents`; `.codex/skills` is an older
//!   place that it still reads (`codex-rs/core-skills/src/loader.rs`). Cursor reads Markdown agents
//!   from `.codex/agents`.
//! - Gemini CLI: <https://geminicli.com/docs/cli/using-agent-skills>, `…/core/subagents`.
//! - Copilot: <https://docs.github.com/en/copilot/reference/customization-cheat-sheet>, and
//!   `create-custom-agents-for-cli` for `~/.copilot/agents`.
//! - OpenCode: <https://opencode.ai/docs/agents>, `…/skills`, `…/config` (the singular names).
//! - Cursor: <https://cursor.com/docs/skills>, `…/subagents`.
//!
//! A program can be told to look elsewhere (`CLAUDE_CONFIG_DIR`, `CODEX_HOME` and the like). Those
//! variables are not read: whoever starts this program could make a directory of the workspace one of
//! the user's by them. Such a place is named in `roots` of the policy.

use std::path::{Path, PathBuf};

use RootKind::{Agents, Skills};

/// What a root holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RootKind {
    /// `NAME/SKILL.md`, or `NAME.md`.
    Skills,
    /// `NAME.md`, or `NAME/AGENT.md`.
    Agents,
}

/// The roots of one agent program.
#[derive(Clone, Copy, Debug)]
pub struct Roots {
    /// Whose they are.
    pub runtime: &'static str,
    /// Below the project's directory.
    pub project: &'static [(&'static str, RootKind)],
    /// Below which directory of the user's the next are.
    pub base: Base,
    /// Below that one.
    pub user: &'static [(&'static str, RootKind)],
}

/// A directory of the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The home directory.
    Home,
    /// `XDG_CONFIG_HOME`, by default `.config` in the home directory.
    Config,
}

/// Every root, in the order in which they are looked through.
pub const TABLE: [Roots; 8] = [
    Roots {
        runtime: "Claude Code",
        project: &[(".claude/skills", Skills), (".claude/agents", Agents)],
        base: Base::Home,
        user: &[(".claude/skills", Skills), (".claude/agents", Agents)],
    },
    Roots {
        runtime: "Agent Skills",
        project: &[(".agents/skills", Skills)],
        base: Base::Home,
        user: &[(".agents/skills", Skills)],
    },
    Roots {
        runtime: "pi",
        project: &[(".pi/skills", Skills), (".pi/agents", Agents)],
        base: Base::Home,
        user: &[(".pi/agent/skills", Skills), (".pi/agent/agents", Agents)],
    },
    Roots {
        runtime: "Codex",
        project: &[(".codex/skills", Skills), (".codex/agents", Agents)],
        base: Base::Home,
        user: &[(".codex/skills", Skills), (".codex/agents", Agents)],
    },
    Roots {
        runtime: "Gemini CLI",
        project: &[(".gemini/skills", Skills), (".gemini/agents", Agents)],
        base: Base::Home,
        user: &[(".gemini/skills", Skills), (".gemini/agents", Agents)],
    },
    Roots {
        runtime: "Copilot",
        project: &[(".github/skills", Skills), (".github/agents", Agents)],
        base: Base::Home,
        user: &[(".copilot/skills", Skills), (".copilot/agents", Agents)],
    },
    Roots {
        runtime: "OpenCode",
        project: &[
            (".opencode/skills", Skills),
            (".opencode/skill", Skills),
            (".opencode/agents", Agents),
            (".opencode/agent", Agents),
        ],
        base: Base::Config,
        user: &[
            ("opencode/skills", Skills),
            ("opencode/skill", Skills),
            ("opencode/agents", Agents),
            ("opencode/agent", Agents),
        ],
    },
    Roots {
        runtime: "Cursor",
        project: &[(".cursor/skills", Skills), (".cursor/agents", Agents)],
        base: Base::Home,
        user: &[(".cursor/skills", Skills), (".cursor/agents", Agents)],
    },
];

/// Files that look like definitions and are none: how their names end, in which roots alone that is
/// said of them, and what is said. It follows the path.
const OTHER_FORMS: [(&str, Option<RootKind>, &str); 5] = [
    (
        ".toml",
        Some(Agents),
        "is an agent in TOML, as Codex has them, which is not read; write it as `NAME.md` with `tools`",
    ),
    (".mdc", None, "is a rule, as Cursor has them, which is no definition"),
    (".prompt.md", None, "is a prompt, as Copilot has them, which is no definition"),
    (".instructions.md", None, "is a file of instructions, as Copilot has them, which is no definition"),
    (
        ".chatmode.md",
        None,
        "is a chat mode, as Copilot had them, which is not read; rename it to `NAME.agent.md`",
    ),
];

/// Why a file of this name is no definition, where its form is known and not read. `root` is what its
/// directory holds.
#[must_use]
pub fn other_form(file: &str, root: Option<RootKind>) -> Option<&'static str> {
    let form = |(end, only, _): &&(&str, Option<RootKind>, _)| {
        file.ends_with(end) && (only.is_none() || *only == root)
    };
    OTHER_FORMS.iter().find(form).map(|(.., why)| *why)
}

/// The roots of a project, below its directory.
pub(super) fn of_project() -> impl Iterator<Item = (&'static Path, RootKind)> {
    TABLE.iter().flat_map(|row| row.project).map(|(path, kind)| (Path::new(*path), *kind))
}

/// The roots of a user: the directory that each is below, where below it, and what it holds.
pub(super) fn of_user<'p>(
    home: &'p Path,
    config: &'p Path,
) -> impl Iterator<Item = (&'p Path, &'static Path, RootKind)> {
    TABLE.iter().flat_map(move |row| {
        let base = match row.base {
            Base::Home => home,
            Base::Config => config,
        };
        row.user.iter().map(move |(path, kind)| (base, Path::new(*path), *kind))
    })
}

/// What a directory holds, by its path alone: as a root of the table, else by its own name.
#[must_use]
pub fn kind_of(directory: &Path) -> Option<RootKind> {
    let rows = TABLE.iter().flat_map(|row| row.project.iter().chain(row.user));
    let named = rows.chain(&[("skills", Skills), ("agents", Agents)]);
    named.into_iter().find(|(path, _)| directory.ends_with(path)).map(|(_, kind)| *kind)
}

impl Roots {
    /// The roots of the user as a person writes them.
    #[must_use]
    pub fn user_as_written(&self) -> Vec<PathBuf> {
        let base = match self.base {
            Base::Home => "~",
            Base::Config => "~/.config",
        };
        self.user.iter().map(|(path, _)| Path::new(base).join(path)).collect()
    }
}
