//! `depute list`: the definitions in force here, what each could do, and what goes before what.

use std::collections::BTreeMap;

use crate::broker::{Place, load_policy};
use crate::diagnostic::printable;
use crate::discover::{Candidate, Catalog, trust};
use crate::exit::Exit;
use crate::host::Project;
use crate::plan::{DefinitionFact, DefinitionRef, Which, ceiling};
use crate::policy::Policy;

use super::output::{Output, Tone, words};
use super::{Failure, Global};

/// One definition: the documented JSON object.
#[derive(serde::Serialize)]
struct Row {
    v: u32,
    name: String,
    kind: &'static str,
    origin: &'static str,
    path: String,
    state: &'static str,
    ceiling: Option<Vec<String>>,
    message: Option<String>,
    /// What it is asked for by: its name, or a fuller one where another goes before it.
    ask: String,
    /// Definitions that this one goes before.
    shadowed: Vec<String>,
}

pub(super) fn main(global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let project = Project::here()?;
    let (policy, from) = load_policy(global.policy.as_deref(), &project)?;
    let trusted = trust::is_trusted(&project.trust, &project.root);
    let place = Place { project, trust_workspace: trusted };
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
    if !out.json {
        for skipped in &catalog.skipped {
            out.line(&format!("passed over  {skipped}"))?;
        }
        out.line(&format!("{} definitions under the policy {from}", catalog.candidates().len()))?;
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
    let same_place = rivals.iter().filter(|other| other.place == candidate.place).count() > 1;
    let same_origin = rivals.iter().take(at).any(|other| other.origin == candidate.origin);
    let ask = match at {
        _ if same_place || same_origin => path.clone(),
        0 => candidate.name.to_string(),
        _ => format!("{}@{}", candidate.name, candidate.origin.as_str()),
    };
    Row {
        v: 1,
        name: candidate.name.to_string(),
        kind: candidate.kind.as_str(),
        origin: candidate.origin.as_str(),
        path,
        state: if state == "spawnable" && untrusted { "untrusted" } else { state },
        ceiling: allowed,
        message,
        ask,
        shadowed: rivals
            .iter()
            .skip(at + 1)
            .filter(|_| at == 0 && !same_place)
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
    out.line(&format!("{state} {:<9} {}  {}", row.origin, printable(&row.ask), printable(&what)))?;
    for path in &row.shadowed {
        out.line(&format!("           goes before {}", printable(path)))?;
    }
    Ok(())
}
