//! `depute check`: read files as the planner would, and say what is wrong with them.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::broker::load_profile;
use crate::capability::{AskedId, Capability, CapabilitySet, vocabulary};
use crate::definition::{Ceiling, Definition, MAX_FILE};
use crate::diagnostic::{Diagnostic, Problem, printable};
use crate::discover::{self, Candidate, Catalog, FileKind, read_regular};
use crate::exit::Exit;
use crate::host::{self, Project};
use crate::plan::{Code, ceiling};
use crate::policy::{Policy, TestOutcome};
use crate::runtime::Profile;

use super::output::{Output, Tone, words};
use super::{Failure, Global};

/// How deep directories are looked through.
const MAX_DEPTH: usize = 12;

/// What to check.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Definitions, policies, or directories with them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

/// What was found of one file: the documented JSON object.
#[derive(Debug, Serialize)]
struct Report {
    v: u32,
    path: String,
    kind: &'static str,
    name: Option<String>,
    state: State,
    ceiling: Option<CapabilitySet>,
    tree: Option<depute_ledger::Digest>,
    code: Option<&'static str>,
    rule: Option<String>,
    message: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
    fix: Option<String>,
    findings: Vec<Note>,
    #[serde(skip)]
    frame: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// A definition that can be spawned, or a policy or profile in order.
    Spawnable,
    /// A definition that declares no tools.
    Undeclared,
    /// It cannot be read.
    Refused,
    /// A policy or profile in order.
    Valid,
}

#[derive(Debug, Serialize)]
struct Note {
    rule: String,
    message: String,
    line: usize,
    column: usize,
}

pub(super) fn main(args: &CheckArgs, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let project = Project::here()?;
    // Fails early where the policy in force is broken: nothing is judged under another one.
    let (policy, _) = crate::broker::load_policy(global.policy.as_deref(), &project)?;
    let catalog = Catalog::discover(&policy, &project);
    let mut files = Vec::new();
    for path in &args.paths {
        let metadata = std::fs::metadata(path).map_err(|error| {
            Failure::new(Exit::Internal, "IO", format!("`{}` cannot be read: {error}", path.display()))
                .fix("name files or directories that are there")
        })?;
        if metadata.is_dir() { walk(path, 0, &mut files) } else { files.push(Ok(path.clone())) }
    }
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|file| {
        file.as_ref().map_or(true, |path| seen.insert(path.canonicalize().unwrap_or(path.clone())))
    });
    if files.is_empty() {
        out.say("no definition or policy is there");
    }
    let mut bad = 0_usize;
    for file in &files {
        let report = match file {
            Ok(file) => examine(file, &catalog, &policy, &project, out.colour()),
            Err((path, error)) => refused(path, "other", "IO", &[], io_problem(error), out.colour()),
        };
        bad += usize::from(!matches!(report.state, State::Spawnable | State::Valid));
        if out.json { out.json(&report)? } else { print(&report, out)? }
    }
    if !out.json {
        out.line(&format!("{} checked, {bad} not in order", files.len()))?;
    }
    Ok(if bad == 0 { Exit::Done } else { Exit::Invalid })
}

/// A file to look at, or a place that could not be looked at.
type Found = Result<PathBuf, (PathBuf, std::io::Error)>;

/// Files below a directory that look like definitions or policies. What lies beside a `SKILL.md`
/// belongs to it and is not looked through. What cannot be looked at is reported, and stops nothing.
fn walk(directory: &Path, depth: usize, files: &mut Vec<Found>) {
    let entries = std::fs::read_dir(directory).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()
    });
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return files.push(Err((directory.to_owned(), error))),
    };
    entries.sort();
    let named = |path: &Path, name: &str| path.file_name().is_some_and(|n| n.eq_ignore_ascii_case(name));
    if let Some(skill) = entries.iter().find(|path| named(path, "SKILL.md") || named(path, "AGENT.md")) {
        return files.push(Ok(skill.clone()));
    }
    for path in entries {
        let Ok(kind) = path.symlink_metadata().map(|metadata| metadata.file_type()) else { continue };
        if kind.is_dir() && depth < MAX_DEPTH && !named(&path, ".git") && !named(&path, "node_modules") {
            walk(&path, depth + 1, files);
        } else if kind.is_file() {
            let inside = |word: &str| directory.file_name().is_some_and(|name| name == word);
            let markdown =
                path.extension().is_some_and(|e| e == "md") && (inside("agents") || inside("skills"));
            let yaml = path.extension().is_some_and(|e| e == "yaml" || e == "yml");
            if markdown || (yaml && (inside("policies") || inside("runtimes") || named(&path, "policy.yaml")))
            {
                files.push(Ok(path));
            }
        }
    }
}

fn examine(path: &Path, catalog: &Catalog, policy: &Policy, project: &Project, colour: bool) -> Report {
    // What discovery has found is judged as it was found.
    if let Some(candidate) = catalog.at(path) {
        return definition(path, candidate, policy, colour);
    }
    let read = |kind, code, judge: &dyn Fn(&[u8]) -> Report| match read_regular(path, MAX_FILE) {
        Ok(source) => judge(&source),
        Err(error) => refused(path, kind, code, &[], io_problem(&error), colour),
    };
    match discover::classify(path) {
        FileKind::Definition(candidate) => definition(path, &candidate, policy, colour),
        FileKind::Policy => {
            read("policy", "POLICY_INVALID", &|source| policy_file(path, source, project, colour))
        }
        FileKind::Profile => read("runtime", "PROFILE_INVALID", &|source| match Profile::read(source) {
            Ok(profile) => Report { name: Some(profile.runtime), ..empty(path, "runtime", State::Valid) },
            Err(problem) => refused(path, "runtime", "PROFILE_INVALID", source, problem, colour),
        }),
        FileKind::Other(why) => refused(
            path,
            "other",
            Code::DefinitionUnreadable.as_str(),
            &[],
            Problem::new("not-a-definition", 0..0, why),
            colour,
        ),
    }
}

fn io_problem(error: &std::io::Error) -> Problem {
    Problem::new("unreadable", 0..0, format!("cannot be read: {error}"))
}

fn empty(path: &Path, kind: &'static str, state: State) -> Report {
    Report {
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
        findings: Vec::new(),
        frame: None,
    }
}

fn refused(
    path: &Path,
    kind: &'static str,
    code: &'static str,
    source: &[u8],
    problem: Problem,
    colour: bool,
) -> Report {
    let diagnostic = Diagnostic::new(&path.display().to_string(), source, problem);
    Report {
        code: Some(code),
        rule: Some(diagnostic.problem.rule.to_owned()),
        message: Some(diagnostic.problem.message.clone()),
        line: Some(diagnostic.line),
        column: Some(diagnostic.column),
        fix: diagnostic.problem.fix.clone(),
        frame: Some(diagnostic.render(code, colour)),
        ..empty(path, kind, State::Refused)
    }
}

fn definition(path: &Path, candidate: &Candidate, policy: &Policy, colour: bool) -> Report {
    let kind = candidate.kind.as_str();
    let unreadable = Code::DefinitionUnreadable.as_str();
    let (bytes, tree) = match discover::load(candidate) {
        Ok(loaded) => loaded,
        Err(error) => {
            return refused(
                path,
                kind,
                unreadable,
                &[],
                Problem::new("unreadable", 0..0, error.to_string()),
                colour,
            );
        }
    };
    let definition = match Definition::read(bytes.clone(), candidate.kind, candidate.name.clone()) {
        Ok(definition) => definition,
        Err(problem) => {
            return Report {
                name: Some(candidate.name.to_string()),
                ..refused(path, kind, unreadable, &bytes, problem, colour)
            };
        }
    };
    let findings = definition
        .findings()
        .iter()
        .map(|f| (f.rule, f.message.clone(), f.span.clone()))
        .map(|(rule, message, span)| {
            let at = Diagnostic::new("", &bytes, Problem::new(rule, span, message));
            Note { rule: rule.to_owned(), message: at.problem.message, line: at.line, column: at.column }
        })
        .collect();
    let uses = ceiling(policy, &definition, &tree);
    let report = match (&uses, definition.ceiling()) {
        (Some(uses), _) => match unknown_tool(&definition, uses) {
            None => empty(path, kind, State::Spawnable),
            Some(problem) => refused(path, kind, Code::UnknownTool.as_str(), &bytes, problem, colour),
        },
        (None, Ceiling::Undeclared(undeclared)) => {
            let code = Code::UndeclaredTools.as_str();
            Report {
                state: State::Undeclared,
                ..refused(path, kind, code, &bytes, undeclared.problem.clone(), colour)
            }
        }
        (None, Ceiling::Declared(_)) => empty(path, kind, State::Undeclared),
    };
    Report { name: Some(candidate.name.to_string()), tree: Some(tree), ceiling: uses, findings, ..report }
}

/// The first declared tool that no runtime knows, with the near name: the planner refuses it.
fn unknown_tool(definition: &Definition, uses: &CapabilitySet) -> Option<Problem> {
    let name = uses.iter().filter_map(Capability::tool_name).find(|name| !vocabulary::is_neutral(name))?;
    let message = format!("`tool:{name}` is a tool that no runtime knows");
    Some(Problem::new("unknown-tool", definition.ceiling_span(), message).fix(vocabulary::advice(name)))
}

fn policy_file(path: &Path, source: &[u8], project: &Project, colour: bool) -> Report {
    let policy = match Policy::read(source) {
        Ok(policy) => policy,
        Err(problem) => return refused(path, "policy", "POLICY_INVALID", source, problem, colour),
    };
    let profile = |name: &str| load_profile(name, project).map_err(|diagnostic| diagnostic.to_string());
    for test in &policy.tests {
        let TestOutcome { name, passed, found, span } = run_test(&policy, test, &profile);
        if !passed {
            let message = format!("its test `{name}` expects {}, and {found}", test.expect.as_str());
            let problem = Problem::new("policy-test", span, message).fix("correct the rule or the test");
            return refused(path, "policy", "POLICY_TEST_FAILED", source, problem, colour);
        }
    }
    let message = match policy.tests.len() {
        0 => "has no tests of its own".to_owned(),
        1 => "its test passes".to_owned(),
        n => format!("its {n} tests pass"),
    };
    Report { message: Some(message), ..empty(path, "policy", State::Valid) }
}

/// Decides one example of a policy: a definition of this name that declares what is asked, at the
/// tier that holds here.
fn run_test(
    policy: &Policy,
    test: &crate::policy::PolicyTest,
    profile: &dyn Fn(&str) -> Result<Profile, String>,
) -> TestOutcome {
    let outcome = |passed, found: String| TestOutcome {
        name: test.name.clone(),
        passed,
        found,
        span: test.span.clone(),
    };
    let Some(runtime) = test.runtime.as_deref().or(policy.default_runtime.as_deref()) else {
        return outcome(false, "no runtime is named, neither there nor as the policy's default".to_owned());
    };
    let profile = match profile(runtime) {
        Ok(profile) => profile,
        Err(error) => return outcome(false, error),
    };
    let asked: Vec<AskedId> = test.uses.iter().map(|id| AskedId::parse(id)).collect();
    let delegate = test.delegate.as_ref().map(|ids| ids.iter().map(|id| AskedId::parse(id)).collect());
    let decision =
        crate::plan::example(policy, &test.agent, asked, delegate, &test.approved, profile, host::now_ms());
    let code = decision.refusal().map(|refusal| refusal.code.as_str());
    let passed =
        decision.verdict() == test.expect.as_str() && (test.code.is_none() || test.code.as_deref() == code);
    outcome(
        passed,
        format!("it is {}{}", decision.verdict(), code.map(|code| format!(" ({code})")).unwrap_or_default()),
    )
}

fn print(report: &Report, out: &mut Output) -> Result<(), Failure> {
    let (tone, word) = match report.state {
        State::Spawnable => (Tone::Good, "spawnable"),
        State::Valid => (Tone::Good, "valid"),
        State::Undeclared => (Tone::Wait, "undeclared"),
        State::Refused => (Tone::Bad, "refused"),
    };
    let word = out.paint(tone, &format!("{word:<10}"));
    let ceiling = match (&report.ceiling, &report.message) {
        (Some(set), _) => words(&set.texts()),
        (None, Some(message)) if report.state == State::Valid => message.clone(),
        (None, _) => String::new(),
    };
    out.line(&format!("{word} {:<8} {}  {}", report.kind, printable(&report.path), printable(&ceiling)))?;
    if let Some(frame) = &report.frame {
        for line in frame.lines() {
            out.line(&format!("  {line}"))?;
        }
    }
    for note in &report.findings {
        out.line(&format!("  note: {}:{} {}", note.line, note.column, printable(&note.message)))?;
    }
    Ok(())
}
