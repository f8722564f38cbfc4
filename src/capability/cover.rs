//! When one capability covers another, and when two of them touch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::id::{Capability, Kind, Reach};
use super::name::ToolName;
use super::scope::Relation;

/// What a shell can do anyway: the tools that `bash` subsumes, always.
const BASH_SUBSUMES: [&str; 9] =
    ["read", "write", "edit", "edit-diff", "grep", "find", "ls", "glob", "notebook_edit"];

/// Which whole tools confer which others. One table; policy adds rows and never removes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsumption {
    /// Closed under transitivity.
    rows: BTreeMap<ToolName, BTreeSet<ToolName>>,
}

/// How a capability is covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cover {
    /// Not at all.
    No,
    /// Only because a broader tool subsumes it.
    BySubsumption,
    /// By its equal, a wildcard or a wider scope.
    Direct,
}

impl Subsumption {
    /// A table without rows, for arithmetic that does not subsume.
    #[must_use]
    pub fn none() -> Self {
        Self { rows: BTreeMap::new() }
    }

    /// The built-in table.
    #[must_use]
    pub fn builtin() -> &'static Self {
        static TABLE: LazyLock<Subsumption> = LazyLock::new(|| {
            let parse = |name: &str| ToolName::parse(name).ok();
            let subsumed = BASH_SUBSUMES.into_iter().filter_map(parse).collect();
            Subsumption { rows: parse("bash").map(|bash| (bash, subsumed)).into_iter().collect() }
        });
        &TABLE
    }

    /// This table with more rows, closed again.
    #[must_use]
    pub fn with_rows(&self, rows: &BTreeMap<ToolName, BTreeSet<ToolName>>) -> Self {
        let mut all = self.rows.clone();
        for (tool, subsumed) in rows {
            all.entry(tool.clone()).or_default().extend(subsumed.iter().cloned());
        }
        loop {
            let mut grown = all.clone();
            for subsumed in grown.values_mut() {
                let next: Vec<ToolName> =
                    subsumed.iter().filter_map(|tool| all.get(tool)).flatten().cloned().collect();
                subsumed.extend(next);
            }
            if grown == all {
                return Self { rows: all };
            }
            all = grown;
        }
    }

    /// The tools that this one subsumes.
    pub fn subsumed_by(&self, tool: &ToolName) -> impl Iterator<Item = &ToolName> {
        self.rows.get(tool).into_iter().flatten()
    }

    fn subsumes(&self, broad: &ToolName, narrow: &ToolName) -> bool {
        self.rows.get(broad).is_some_and(|row| row.contains(narrow))
    }
}

impl Capability {
    /// Whether holding `self` is enough for `asked`.
    #[must_use]
    pub fn covers(&self, asked: &Self, table: &Subsumption) -> Cover {
        if self == asked {
            return Cover::Direct;
        }
        let direct = match (self.kind(), asked.kind()) {
            (Kind::AnyTool, _)
            | (Kind::AnyAgent, Kind::Agent(_))
            | (Kind::AnyWorkspace, Kind::Workspace(_)) => true,
            (Kind::AnyOfMcp(held), Kind::Mcp(server, _)) => held == server,
            (Kind::Tool(held, Reach::Whole), Kind::Tool(tool, _)) if held == tool => true,
            (Kind::Tool(held, Reach::Within(wide)), Kind::Tool(tool, Reach::Within(narrow))) => {
                held == tool && wide.relation(narrow) == Relation::Covers
            }
            (Kind::Tool(held, Reach::Whole), Kind::Tool(tool, _)) if table.subsumes(held, tool) => {
                return Cover::BySubsumption;
            }
            _ => false,
        };
        if direct { Cover::Direct } else { Cover::No }
    }

    /// Whether a gate on `gate` catches `self`: it is equal to the gate, a scoped form of it, covers
    /// it, or names the same tool with a scope that is not proven disjoint. A narrow tool is not
    /// caught because a broader one that subsumes it is.
    #[must_use]
    pub fn touches(&self, gate: &Self, table: &Subsumption) -> bool {
        if self.covers(gate, table) != Cover::No || gate.covers(self, table) == Cover::Direct {
            return true;
        }
        match (self.kind(), gate.kind()) {
            (Kind::Tool(a, Reach::Within(x)), Kind::Tool(b, Reach::Within(y))) => {
                a == b && x.relation(y) != Relation::Disjoint && y.relation(x) != Relation::Disjoint
            }
            _ => false,
        }
    }

    /// Whether a ceiling that names `self` lets `asked` through: equal, or a scoped form of the
    /// tool it names. Wildcards and subsumption do not apply to ceilings.
    #[must_use]
    pub fn names(&self, asked: &Self) -> bool {
        self == asked || (!self.is_wildcard() && self.covers(asked, &Subsumption::none()) == Cover::Direct)
    }
}
