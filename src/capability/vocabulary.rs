//! Runtime-neutral tool names, and the foreign names that definitions use for them.
//!
//! A mapping never widens: a foreign tool that does less than a neutral one is left as written,
//! and the catalog refuses it with a hint.

use super::Kind;
use super::id::Capability;
use super::name::{DefinitionName, Name, ToolName};

/// The neutral tools, each with what it does.
pub const TOOLS: [(&str, &str); 14] = [
    ("read", "read files"),
    ("write", "create and replace files"),
    ("edit", "change parts of files"),
    ("edit-diff", "change files by a diff"),
    ("notebook_edit", "change notebook cells"),
    ("grep", "search file contents"),
    ("find", "search for files by name"),
    ("glob", "list files by pattern"),
    ("ls", "list directories"),
    ("bash", "run commands"),
    ("web_fetch", "fetch web pages"),
    ("web_search", "search the web"),
    ("delegate", "hand work to sub-agents"),
    ("fabric_exec", "run anything the runtime can"),
];

/// Foreign names in lower case, and the neutral name that means the same.
const FOREIGN: [(&str, &str); 19] = [
    ("multiedit", "edit"),
    ("notebookedit", "notebook_edit"),
    ("webfetch", "web_fetch"),
    ("websearch", "web_search"),
    ("google_web_search", "web_search"),
    ("read_file", "read"),
    ("readfile", "read"),
    ("view", "read"),
    ("write_file", "write"),
    ("writefile", "write"),
    ("replace", "edit"),
    ("run_shell_command", "bash"),
    ("shell", "bash"),
    ("list_directory", "ls"),
    ("listdirectory", "ls"),
    ("grep_search", "grep"),
    ("search_file_content", "grep"),
    ("task", "delegate"),
    ("agent", "delegate"),
];

/// Whether a neutral tool of this name exists.
#[must_use]
pub fn is_neutral(tool: &ToolName) -> bool {
    TOOLS.iter().any(|(name, _)| *name == tool.as_str())
}

/// The neutral name for a foreign tool name, or the name as it is.
#[must_use]
pub fn neutral(tool: &ToolName) -> ToolName {
    FOREIGN
        .iter()
        .find(|(foreign, _)| *foreign == tool.as_str())
        .and_then(|(_, neutral)| ToolName::parse(neutral).ok())
        .unwrap_or_else(|| tool.clone())
}

/// The neutral tool that an unknown name is nearest to. Never the shell: that is no hint to give for
/// a slip of the pen.
#[must_use]
pub fn nearest(tool: &ToolName) -> Option<Capability> {
    let known = TOOLS.iter().map(|(name, _)| *name).chain(FOREIGN.iter().map(|(foreign, _)| *foreign));
    // A slip of the pen is seldom in the first letter: `and` is no `find`.
    let first = tool.as_str().get(..1);
    let near = crate::nearest::nearest(tool.as_str(), known.filter(|name| name.get(..1) == first))?;
    let neutral = neutral(&ToolName::parse(near).ok()?);
    (neutral.as_str() != "bash").then(|| Capability::tool(neutral))
}

/// What to do about a tool that no runtime knows.
#[must_use]
pub fn advice(tool: &ToolName) -> String {
    match (tool.as_str(), nearest(tool)) {
        ("skill", _) => "name each skill: `Skill(name)`".to_owned(),
        (_, Some(near)) => format!("did you mean `{near}`?"),
        (_, None) => "name a tool that some runtime has, or remove it".to_owned(),
    }
}

/// The MCP tool that `mcp__server__tool` means: the first `__` after the server ends its name.
#[must_use]
pub fn mcp_tool(entry: &str) -> Option<Capability> {
    let (server, tool) = entry.strip_prefix("mcp__")?.split_once("__")?;
    Some(Kind::Mcp(Name::parse(server).ok()?, Name::parse(tool).ok()?).into())
}

/// `agent:<name>`, where the name is well formed.
#[must_use]
pub fn agent(name: &str) -> Option<Capability> {
    DefinitionName::parse(name).ok().map(|name| Kind::Agent(name).into())
}
