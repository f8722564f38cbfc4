//! `depute list`: the definitions in force here, what each could do, and what goes before what.

use std::collections::BTreeMap;

use crate::broker::{Place, load_policy};
use crate::diagnostic::printable;
use crate::discover::{Candidate, Catalog, Skipped, trust};
use crate::exit::Exit;
use crate::host::Project;
use crate::plan::{DefinitionFact, DefinitionRef, Which, ceiling};
use crate::policy::Policy;

use super::out::{Output, Tone, words};
use super::{Failure, Global, ledger};

/// One definition, or one path that was passed over, which has neither name nor kind: the documented
/// JSON object.
#[derive(serde::Serialize)]
struct Row {
    v: u32,
    name: Option<String>,
    kind: Option<&'static str>,
    origin: Option<&'static str>,
    path: String,
    state: &'static str,
    ceiling: Option<Vec<String>>,
    message: Option<String>,
    /// What it is asked for by: its name, or a fuller one where another goes before it.
    ask: Option<String>,
    /// Definitions that this one goes before.
    shadowed: Vec<String>,
}

impl From<&Skipped> for Row {
    fn from(skipped: &Skipped) -> Self {
        Self {
            v: 1,
            name: None,
            kind: None,
            origin: None,
            path: skipped.path.display().to_string(),
            state: "passed_over",
            ceiling: None,
            message: Some(skipped.why.clone()),
            ask: None,
            shadowed: Vec::new(),
        }
    }
}

pub(super) fn main(global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let project = Project::here()?;
    let (policy, from) = load_policy(global.policy.as_deref(), &project)?;
    let trusted = trust::is_trusted(&project.trust, &project.root);
    let place = Place { project, ledger: ledger::directory(None, global)?, trust_workspace: trusted };
    let catalog = Catalog::discover(&policy, &place.project);
    let mut named: BTreeMap<String, Vec<&Candidate>> = BTreeMap::new();
    for candidate in catalog.candidates() {
        named.entry(candidate.name.to_string()).or_default().push(candidate);
    }
    for candidates in named.values() {
        for (at, candidate) in candidates.iter().enumerate() {
            let row = row(candidate, at, candidates, &catalog, &policy, trusted);
            if out.json { out.json(&row)? } else { print(&row, out)? }
        }
    }
    for skipped in &catalog.skipped {
        if out.json {
            out.json(&Row::from(skipped))?;
        } else {
            out.line(&format!("passed over  {skipped}"))?;
        }
    }
    if !out.json {
        let count = match catalog.candidates().len() {
            1 => "1 definition".to_owned(),
            n => format!("{n} definitions"),
        };
        out.line(&format!("{count} under the policy {from}"))?;
    }
    Ok(Exit::Done)
}

fn row(
    candidate: &Candidate,
    at: usize,
    rivals: &[&Candidate],
    catalog: &Catalog,
    policy: &Policy,
    trusted: bool,
) -> Row {
    let path = candidate.path().display().to_string();
    let by_path = DefinitionRef { name: candidate.name.clone(), which: Which::At(path.clone()) };
    let found = catalog.find(&by_path, trusted);
    let (state, allowed, message) = match (&found.fact, &found.definition) {
        (DefinitionFact::Read { tree, .. }, Some(definition)) => match ceiling(policy, definition, tree) {
            Some(set) => ("spawnable", Some(set.texts()), None),
            None => ("undeclared", None, Some("declares no tools".to_owned())),
        },
        (DefinitionFact::Unreadable { message, .. }, _) => ("refused", None, Some(message.clone())),
        _ => ("refused", None, Some("it is gone".to_owned())),
    };
    let untrusted = matches!(found.fact, DefinitionFact::Read { trusted: false, .. });
    let reference = catalog.reference_to(candidate);
    let ask = match reference.which {
        Which::At(_) => path.clone(),
        Which::Nearest | Which::From(_) => reference.to_string(),
    };
    Row {
        v: 1,
        name: Some(candidate.name.to_string()),
        kind: Some(candidate.kind.as_str()),
        origin: Some(candidate.origin.as_str()),
        path,
        state: if state == "spawnable" && untrusted { "untrusted" } else { state },
        ceiling: allowed,
        message,
        ask: Some(ask),
        shadowed: rivals
            .iter()
            .skip(at + 1)
            .filter(|_| reference.which == Which::Nearest)
            .map(|c| c.path().display().to_string())
            .collect(),
    }
}

fn print(row: &Row, out: &mut Output) -> Result<(), Failure> {
    let tone = match row.state {
        "spawnable" => Tone::Good,
        "refused" => Tone::Bad,
        _ => Tone::Wait,
    };
    let state = out.paint(tone, &format!("{:<10}", row.state));
    let what = row.ceiling.as_ref().map_or_else(|| row.message.clone().unwrap_or_default(), |ids| words(ids));
    let (origin, ask) = (row.origin.unwrap_or_default(), row.ask.as_deref().unwrap_or_default());
    out.line(&format!("{state} {origin:<9} {}  {}", printable(ask), printable(&what)))?;
    for path in &row.shadowed {
        out.line(&format!("           goes before {}", printable(path)))?;
    }
    Ok(())
}
