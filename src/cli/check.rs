//! `depute check`: read files as the planner would, and say what is wrong with them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::broker::{load_profile, runtimes};
use crate::capability::{AskedId, Capability, CapabilitySet, ToolName, vocabulary};
use crate::definition::{Definition, MAX_FILE};
use crate::diagnostic::{Diagnostic, Problem, printable};
use crate::discover::{self, Candidate, Catalog, FileKind, read_regular};
use crate::exit::Exit;
use crate::host::{self, Project};
use crate::plan::{Code, ceiling, undeclared};
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
    let ground = Ground {
        catalog: Catalog::discover(&policy, &project),
        tools: tools_of_runtimes(&project),
        policy,
        project,
        colour: out.colour(),
    };
    let mut files = Vec::new();
    for path in &args.paths {
        let metadata = std::fs::metadata(path).map_err(|error| {
            Failure::new(Exit::Internal, "IO", format!("`{}` cannot be read: {error}", path.display()))
                .fix("name files or directories that are there")
        })?;
        if metadata.is_dir() { walk(path, 0, &mut files) } else { files.push(Ok(path.clone())) }
    }
    let mut seen = BTreeSet::new();
    files.retain(|file| seen.insert(identity(file.as_ref().unwrap_or_else(|(path, _)| path))));
    if files.is_empty() {
        out.say("no definition or policy is there");
    }
    let mut bad = 0_usize;
    for file in &files {
        let report = match file {
            Ok(file) => ground.examine(file),
            Err((path, error)) => ground.refused(path, "other", "IO", &[], io_problem(error)),
        };
        bad += usize::from(!matches!(report.state, State::Spawnable | State::Valid));
        if out.json { out.json(&report)? } else { print(&report, out)? }
    }
    if !out.json {
        out.line(&format!("{} checked, {bad} not in order", files.len()))?;
    }
    Ok(if bad == 0 { Exit::Done } else { Exit::Invalid })
}

/// What files are judged against.
struct Ground {
    catalog: Catalog,
    /// Every tool that some runtime knows by its profile alone.
    tools: BTreeSet<ToolName>,
    policy: Policy,
    project: Project,
    colour: bool,
}

/// The path that makes a file one. Links are kept: two names of one file are two definitions.
fn identity(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // `..` after a link is not what it looks like.
    let upward = whole.components().any(|part| part == std::path::Component::ParentDir);
    let real = upward.then(|| whole.canonicalize().ok()).flatten();
    real.unwrap_or(whole)
}

/// The tools that the profiles name, the operator's own among them.
fn tools_of_runtimes(project: &Project) -> BTreeSet<ToolName> {
    let own = std::fs::read_dir(project.user_policy.with_file_name("runtimes"));
    let own = own.into_iter().flatten().flatten().map(|entry| entry.path());
    let own = own.filter(|path| path.extension().is_some_and(|e| e == "yaml"));
    let own = own.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    runtimes()
        .map(str::to_owned)
        .into_iter()
        .chain(own)
        .filter_map(|name| load_profile(&name, project).ok())
        .flat_map(|profile| profile.tools.into_iter().map(|(name, _)| name))
        .collect()
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
    let inside = |word: &str| directory.file_name().is_some_and(|name| name == word);
    let is_root = inside("agents") || inside("skills");
    // In a root such a file has no directory of its own, and hides nothing.
    if !is_root && let Some(definition) = entries.iter().find(|path| is_definition(path)) {
        return files.push(Ok(definition.clone()));
    }
    for path in entries {
        let yaml = path.extension().is_some_and(|e| e == "yaml" || e == "yml");
        let wanted = is_definition(&path)
            || is_root && path.extension().is_some_and(|e| e == "md")
            || yaml && (inside("policies") || inside("runtimes") || named(&path, "policy.yaml"));
        let kind = match path.symlink_metadata() {
            Ok(metadata) => metadata.file_type(),
            Err(error) => {
                files.push(Err((path, error)));
                continue;
            }
        };
        if wanted {
            files.push(Ok(path));
        } else if kind.is_symlink() && is_root {
            linked(path, files);
        } else if kind.is_dir() && !named(&path, ".git") && !named(&path, "node_modules") {
            if depth < MAX_DEPTH {
                walk(&path, depth + 1, files);
            } else {
                let error = std::io::Error::other(format!("it is more than {MAX_DEPTH} directories down"));
                files.push(Err((path, error)));
            }
        }
    }
}

/// A link in a root: the definition in the directory that it leads to. Links are followed nowhere
/// else, so that no walk runs in a circle.
fn linked(link: PathBuf, files: &mut Vec<Found>) {
    match link.metadata() {
        Err(error) => files.push(Err((link, error))),
        Ok(metadata) if metadata.is_dir() => {
            let definition = ["SKILL.md", "AGENT.md"].map(|name| link.join(name));
            files.extend(definition.into_iter().find(|path| path.symlink_metadata().is_ok()).map(Ok));
        }
        Ok(_) => {}
    }
}

fn named(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|own| own.eq_ignore_ascii_case(name))
}

fn is_definition(path: &Path) -> bool {
    named(path, "SKILL.md") || named(path, "AGENT.md")
}

impl Ground {
    fn examine(&self, path: &Path) -> Report {
        // What discovery has found is judged as it was found.
        if let Some(candidate) = self.catalog.at(path) {
            return self.definition(path, candidate);
        }
        let read = |kind, code, judge: &dyn Fn(&[u8]) -> Report| match read_regular(path, MAX_FILE) {
            Ok(source) => judge(&source),
            Err(error) => self.refused(path, kind, code, &[], io_problem(&error)),
        };
        match discover::classify(path) {
            // Where discovery looks and has found none, the planner knows of none.
            FileKind::Definition(candidate) => match self.catalog.passed_over(path) {
                None => self.definition(path, &candidate),
                Some(why) => {
                    let problem = Problem::new("not-in-force", 0..0, why)
                        .fix("put it into `skills/NAME/SKILL.md` or `agents/NAME.md` of a root");
                    self.refused(
                        path,
                        candidate.kind.as_str(),
                        Code::UnknownDefinition.as_str(),
                        &[],
                        problem,
                    )
                }
            },
            FileKind::Policy => read("policy", "POLICY_INVALID", &|source| self.policy_file(path, source)),
            FileKind::Profile => read("runtime", "PROFILE_INVALID", &|source| match Profile::read(source) {
                Ok(profile) => Report { name: Some(profile.runtime), ..empty(path, "runtime", State::Valid) },
                Err(problem) => self.refused(path, "runtime", "PROFILE_INVALID", source, problem),
            }),
            FileKind::Other(why) => {
                let problem = Problem::new("not-a-definition", 0..0, why);
                self.refused(path, "other", Code::DefinitionUnreadable.as_str(), &[], problem)
            }
        }
    }

    fn refused(
        &self,
        path: &Path,
        kind: &'static str,
        code: &'static str,
        source: &[u8],
        problem: Problem,
    ) -> Report {
        let diagnostic = Diagnostic::new(&path.display().to_string(), source, problem);
        Report {
            code: Some(code),
            rule: Some(diagnostic.problem.rule.to_owned()),
            message: Some(diagnostic.problem.message.clone()),
            line: Some(diagnostic.line),
            column: Some(diagnostic.column),
            fix: diagnostic.problem.fix.clone(),
            frame: Some(diagnostic.render(code, self.colour)),
            ..empty(path, kind, State::Refused)
        }
    }

    fn definition(&self, path: &Path, candidate: &Candidate) -> Report {
        let kind = candidate.kind.as_str();
        let refused = |code: Code, source: &[u8], problem| Report {
            name: Some(candidate.name.to_string()),
            ..self.refused(path, kind, code.as_str(), source, problem)
        };
        let (bytes, tree) = match discover::load(candidate) {
            Ok(loaded) => loaded,
            Err(error) => {
                let problem = Problem::new("unreadable", 0..0, error.to_string());
                return refused(Code::DefinitionUnreadable, &[], problem);
            }
        };
        let definition = match Definition::read(bytes.clone(), candidate.kind, candidate.name.clone()) {
            Ok(definition) => definition,
            Err(problem) => return refused(Code::DefinitionUnreadable, &bytes, problem),
        };
        let findings = definition
            .findings()
            .iter()
            .map(|finding| {
                let problem = Problem::new(finding.rule, finding.span.clone(), finding.message.clone());
                let at = Diagnostic::new("", &bytes, problem);
                Note {
                    rule: finding.rule.to_owned(),
                    message: at.problem.message,
                    line: at.line,
                    column: at.column,
                }
            })
            .collect();
        let uses = ceiling(&self.policy, &definition, &tree);
        let report = match &uses {
            None => Report {
                state: State::Undeclared,
                ..refused(Code::UndeclaredTools, &bytes, undeclared(&self.policy, &definition, &tree))
            },
            Some(uses) => match self.unknown_tool(&definition, uses) {
                None => empty(path, kind, State::Spawnable),
                Some(problem) => refused(Code::UnknownTool, &bytes, problem),
            },
        };
        Report { name: Some(candidate.name.to_string()), tree: Some(tree), ceiling: uses, findings, ..report }
    }

    /// The first tool of the ceiling that no runtime knows: the planner refuses it.
    fn unknown_tool(&self, definition: &Definition, uses: &CapabilitySet) -> Option<Problem> {
        let known = |name: &ToolName| vocabulary::is_neutral(name) || self.tools.contains(name);
        let name = uses.iter().filter_map(Capability::tool_name).find(|name| !known(name))?;
        let message = format!("`tool:{name}` is a tool that no runtime knows");
        Some(Problem::new("unknown-tool", entry(definition, name), message).fix(vocabulary::advice(name)))
    }

    fn policy_file(&self, path: &Path, source: &[u8]) -> Report {
        let policy = match Policy::read(source) {
            Ok(policy) => policy,
            Err(problem) => return self.refused(path, "policy", "POLICY_INVALID", source, problem),
        };
        let profile =
            |name: &str| load_profile(name, &self.project).map_err(|diagnostic| diagnostic.to_string());
        for test in &policy.tests {
            let TestOutcome { name, passed, found, span } = run_test(&policy, test, &profile);
            if !passed {
                let message = format!("its test `{name}` expects {}, and {found}", test.expect.as_str());
                let problem = Problem::new("policy-test", span, message).fix("correct the rule or the test");
                return self.refused(path, "policy", "POLICY_TEST_FAILED", source, problem);
            }
        }
        let message = match policy.tests.len() {
            0 => "has no tests of its own".to_owned(),
            1 => "its test passes".to_owned(),
            n => format!("its {n} tests pass"),
        };
        Report { message: Some(message), ..empty(path, "policy", State::Valid) }
    }
}

/// Where a definition names a tool: its own word in the value that declares, where it stands there as
/// it is, else the whole value.
fn entry(definition: &Definition, tool: &ToolName) -> Range<usize> {
    let span = definition.ceiling_span();
    let value = definition.bytes().get(span.clone()).unwrap_or_default();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let word = tool.as_str().as_bytes();
    let at = value.windows(word.len()).enumerate().find(|(at, window)| {
        let before = at.checked_sub(1).and_then(|before| value.get(before));
        let after = value.get(at + word.len());
        window.eq_ignore_ascii_case(word) && !before.is_some_and(is_name) && !after.is_some_and(is_name)
    });
    match at {
        Some((at, _)) => span.start + at..span.start + at + word.len(),
        None => span,
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
