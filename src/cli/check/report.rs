//! What was found of one file, and of all of them.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;

use crate::capability::{Capability, CapabilitySet};
use crate::diagnostic::Diagnostic;

/// What was found of one file: the documented JSON object.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) v: u32,
    pub(super) path: String,
    pub(super) kind: &'static str,
    pub(super) name: Option<String>,
    pub(super) state: State,
    pub(super) ceiling: Option<CapabilitySet>,
    pub(super) tree: Option<depute_ledger::Digest>,
    pub(super) code: Option<&'static str>,
    pub(super) rule: Option<String>,
    pub(super) message: Option<String>,
    pub(super) line: Option<usize>,
    pub(super) column: Option<usize>,
    pub(super) fix: Option<String>,
    /// What `--fix` would do about it.
    pub(super) mend: Help,
    pub(super) findings: Vec<Note>,
    #[serde(skip)]
    pub(super) frame: Option<String>,
}

/// The verdict on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// A definition that can be spawned.
    Spawnable,
    /// A definition that declares no tools.
    Undeclared,
    /// What the planner would refuse.
    Refused,
    /// A policy or profile in order.
    Valid,
}

/// Whether `--fix` would make a definition spawnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Help {
    /// Nothing to do, or nothing that it can do.
    None,
    /// By a change of form, which cannot widen.
    Form,
    /// By a change that widens what the file declares.
    Widens,
}

/// Something worth telling that changes no verdict.
#[derive(Debug, Serialize)]
pub(super) struct Note {
    pub(super) rule: String,
    pub(super) message: String,
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Report {
    /// A file of which nothing more is known yet.
    pub(super) fn new(path: &Path, kind: &'static str, state: State) -> Self {
        Self {
            v: 1,
            path: path.display().to_string(),
            kind,
            name: None,
            state,
            ceiling: None,
            tree: None,
            code: None,
            rule: None,
            message: None,
            line: None,
            column: None,
            fix: None,
            mend: Help::None,
            findings: Vec::new(),
            frame: None,
        }
    }

    /// The same with what is wrong with it.
    pub(super) fn with(self, code: &'static str, diagnostic: &Diagnostic, colour: bool) -> Self {
        Self {
            code: Some(code),
            rule: Some(diagnostic.problem.rule.to_owned()),
            message: Some(diagnostic.problem.message.clone()),
            line: Some(diagnostic.line),
            column: Some(diagnostic.column),
            fix: diagnostic.problem.fix.clone(),
            frame: Some(diagnostic.render(code, colour)),
            ..self
        }
    }

    pub(super) fn is_in_order(&self) -> bool {
        matches!(self.state, State::Spawnable | State::Valid)
    }

    fn is_definition(&self) -> bool {
        matches!(self.kind, "skill" | "agent" | "harness")
    }
}

/// All files in numbers, printed as the last JSON object.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    pub(super) checked: usize,
    pub(super) spawnable: usize,
    pub(super) valid: usize,
    pub(super) undeclared: usize,
    pub(super) unreadable: usize,
    pub(super) unknown_tools: usize,
    /// Refused for another reason.
    pub(super) refused: usize,
    /// Definitions whose tools have a scope.
    pub(super) patterns: usize,
    /// Definitions that have the name of one before them.
    pub(super) conflicts: usize,
    /// What `--fix` would mend.
    pub(super) mendable: usize,
    /// What it would mend if it were allowed to widen.
    pub(super) widening: usize,
    /// Undeclared ones that no change to their file would help.
    #[serde(skip)]
    pub(super) silent: usize,
    #[serde(skip)]
    names: HashMap<String, String>,
}

impl Summary {
    /// Counts a file, and notes on it where another has its name.
    pub(super) fn count(&mut self, report: &mut Report) {
        self.checked += 1;
        *match (report.state, report.code) {
            (State::Spawnable, _) => &mut self.spawnable,
            (State::Valid, _) => &mut self.valid,
            (State::Undeclared, _) => &mut self.undeclared,
            (State::Refused, Some("UNKNOWN_TOOL")) => &mut self.unknown_tools,
            (State::Refused, Some("DEFINITION_UNREADABLE" | "IO")) => &mut self.unreadable,
            (State::Refused, _) => &mut self.refused,
        } += 1;
        match report.mend {
            Help::None => self.silent += usize::from(report.state == State::Undeclared),
            Help::Form => self.mendable += 1,
            Help::Widens => self.widening += 1,
        }
        let scoped = |id: &Capability| id.unscoped() != *id;
        self.patterns += usize::from(report.ceiling.iter().flatten().any(scoped));
        let Some(name) = report.name.as_ref().filter(|_| report.is_definition()) else { return };
        if let Some(other) = self.names.get(name) {
            self.conflicts += 1;
            report.findings.push(Note {
                rule: "same-name".to_owned(),
                message: format!("has the name of {other}"),
                line: 1,
                column: 1,
            });
        } else {
            self.names.insert(name.clone(), report.path.clone());
        }
    }

    pub(super) fn not_in_order(&self) -> usize {
        self.checked - self.spawnable - self.valid
    }

    /// The summary in a line.
    pub(super) fn text(&self) -> String {
        let counts = [
            (self.spawnable, "spawnable"),
            (self.valid, "valid"),
            (self.undeclared, "undeclared"),
            (self.unreadable, "unreadable"),
            (self.unknown_tools, "with unknown tools"),
            (self.refused, "refused"),
        ];
        let notes = [(self.patterns, "with patterns"), (self.conflicts, "with the name of another")];
        let list = |counts: &[(usize, &str)]| {
            let some = counts.iter().filter(|(count, _)| *count > 0);
            some.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
        };
        let notes = list(&notes);
        let semicolon = if notes.is_empty() { "" } else { "; " };
        format!("{} checked: {}{semicolon}{notes}", self.checked, list(&counts))
    }
}

/// The documented JSON object of a summary.
#[derive(Debug, Serialize)]
pub(super) struct Total<'s> {
    v: u32,
    summary: &'s Summary,
}

impl<'s> From<&'s Summary> for Total<'s> {
    fn from(summary: &'s Summary) -> Self {
        Self { v: 1, summary }
    }
}
