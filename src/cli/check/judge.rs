//! What the planner would say of one file.

use std::collections::BTreeSet;
use std::path::Path;

use depute_ledger::Digest;

use crate::broker::{load_policy, load_profile, profiles};
use crate::capability::{AskedId, Capability, CapabilitySet, DefinitionName, ToolName, vocabulary};
use crate::definition::{Definition, MAX_FILE, mends};
use crate::diagnostic::{Diagnostic, Problem};
use crate::discover::{self, Candidate, Catalog, FileKind, Site, Standing, read_regular};
use crate::host::{self, Project};
use crate::plan::{Code, ceiling, undeclared};
use crate::policy::{Policy, PolicyTest, TestOutcome};
use crate::runtime::Profile;

use super::report::{Help, Note, Report, State};
use crate::cli::{Failure, Global};

/// What files are judged against.
pub(super) struct Judge {
    catalog: Catalog,
    /// Every tool that some runtime knows by its profile alone.
    tools: BTreeSet<ToolName>,
    policy: Policy,
    project: Project,
    colour: bool,
}

/// What a file is judged as.
pub(super) enum Subject {
    Definition(Candidate),
    Policy,
    Profile,
    /// Nothing that is in force; why.
    Nothing(&'static str, Code, Problem),
}

impl Judge {
    /// Fails where the policy in force is broken: nothing is judged under another one.
    pub(super) fn here(global: &Global, colour: bool) -> Result<Self, Failure> {
        let project = Project::here()?;
        let (policy, _) = load_policy(global.policy.as_deref(), &project)?;
        let catalog = Catalog::discover(&policy, &project);
        Ok(Self { catalog, tools: tools_of_runtimes(&project), policy, project, colour })
    }

    /// Whether some runtime has a tool of this name.
    pub(super) fn knows(&self, name: &ToolName) -> bool {
        self.tools.contains(name)
    }

    /// Whether the policy gives these bytes a ceiling.
    pub(super) fn has_overlay(&self, name: &DefinitionName, tree: &Digest) -> bool {
        self.policy.overlay(name, tree).is_some()
    }

    /// The project whose policy is in force.
    pub(super) fn project(&self) -> &Project {
        &self.project
    }

    pub(super) fn subject(&self, site: &Site) -> Subject {
        let standing = self.catalog.standing(site);
        // What discovery has found is judged as it was found.
        if let Standing::InForce(candidate) = standing {
            return Subject::Definition(candidate.clone());
        }
        match (discover::classify(site), standing) {
            // Where discovery looks and has found none, the planner knows of none.
            (FileKind::Definition(candidate), Standing::PassedOver(why)) => {
                let problem = Problem::new("not-in-force", 0..0, why)
                    .fix("put it into `skills/NAME/SKILL.md` or `agents/NAME.md` of a root");
                Subject::Nothing(candidate.kind.as_str(), Code::UnknownDefinition, problem)
            }
            (FileKind::Definition(candidate), _) => Subject::Definition(candidate),
            (FileKind::Policy, _) => Subject::Policy,
            (FileKind::Profile, _) => Subject::Profile,
            (FileKind::Other(why), _) => {
                let problem = Problem::new("not-a-definition", 0..0, why).fix("rename it, or leave it out");
                Subject::Nothing("other", Code::DefinitionUnreadable, problem)
            }
        }
    }

    pub(super) fn examine(&self, site: &Site) -> Report {
        let path = site.path();
        let read = |kind, code, judge: &dyn Fn(&[u8]) -> Report| match read_regular(path, MAX_FILE) {
            Ok(source) => judge(&source),
            Err(error) => self.refused(path, kind, code, &[], io_problem(&error)),
        };
        match self.subject(site) {
            Subject::Definition(candidate) => self.definition(path, &candidate),
            Subject::Policy => read("policy", "POLICY_INVALID", &|source| self.policy_file(path, source)),
            Subject::Profile => read("runtime", "PROFILE_INVALID", &|source| match Profile::read(source) {
                Ok(profile) => {
                    Report { name: Some(profile.runtime), ..Report::new(path, "runtime", State::Valid) }
                }
                Err(problem) => self.refused(path, "runtime", "PROFILE_INVALID", source, problem),
            }),
            Subject::Nothing(kind, code, problem) => self.refused(path, kind, code.as_str(), &[], problem),
        }
    }

    /// A place that could not be looked at.
    pub(super) fn unseen(&self, path: &Path, error: &std::io::Error) -> Report {
        self.refused(path, "other", "IO", &[], io_problem(error))
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
        Report::new(path, kind, State::Refused).with(code, &diagnostic, self.colour)
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
                let problem = Problem::new("unreadable", 0..0, error.to_string()).fix(error.fix());
                return refused(Code::DefinitionUnreadable, &[], problem);
            }
        };
        let definition = match Definition::read(bytes.clone(), candidate.kind, candidate.name.clone()) {
            Ok(definition) => definition,
            Err(problem) => {
                let mend = self.help(&bytes, candidate);
                return Report { mend, ..refused(Code::DefinitionUnreadable, &bytes, problem) };
            }
        };
        let uses = ceiling(&self.policy, &definition, &tree);
        let report = match &uses {
            None => Report {
                state: State::Undeclared,
                mend: self.help(&bytes, candidate),
                ..refused(Code::UndeclaredTools, &bytes, undeclared(&self.policy, &definition, &tree))
            },
            Some(uses) => match self.unknown_tool(&definition, uses) {
                None => Report::new(path, kind, State::Spawnable),
                Some(problem) => {
                    let mend = self.help(&bytes, candidate);
                    Report { mend, ..refused(Code::UnknownTool, &bytes, problem) }
                }
            },
        };
        let findings = notes(&definition);
        Report { name: Some(candidate.name.to_string()), tree: Some(tree), ceiling: uses, findings, ..report }
    }

    /// What `--fix` would do about a definition that is not in order.
    fn help(&self, bytes: &[u8], candidate: &Candidate) -> Help {
        let mends = mends(bytes, candidate.kind, &candidate.name, Some(&|name| self.knows(name)));
        match mends.iter().map(|mend| mend.widens).max() {
            None => Help::None,
            Some(false) => Help::Form,
            Some(true) => Help::Widens,
        }
    }

    /// The first tool of the ceiling that no runtime knows: the planner refuses it.
    fn unknown_tool(&self, definition: &Definition, uses: &CapabilitySet) -> Option<Problem> {
        let known = |name: &ToolName| vocabulary::is_neutral(name) || self.knows(name);
        let name = uses.iter().filter_map(Capability::tool_name).find(|name| !known(name))?;
        let span = definition.tool_span(name).unwrap_or_else(|| definition.ceiling_span());
        let message = format!("`tool:{name}` is a tool that no runtime knows");
        Some(Problem::new("unknown-tool", span, message).fix(vocabulary::advice(name)))
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
        Report { message: Some(message), ..Report::new(path, "policy", State::Valid) }
    }
}

/// What the author should know, each at its place.
fn notes(definition: &Definition) -> Vec<Note> {
    let placed = |finding: &crate::definition::Finding| {
        let problem = Problem::new(finding.rule, finding.span.clone(), finding.message.clone());
        let at = Diagnostic::new("", definition.bytes(), problem);
        let rule = finding.rule.to_owned();
        Note { rule, message: at.problem.message, line: at.line, column: at.column }
    };
    definition.findings().iter().map(placed).collect()
}

fn io_problem(error: &std::io::Error) -> Problem {
    Problem::new("unreadable", 0..0, format!("cannot be read: {error}"))
        .fix("make it readable for you, or leave it out")
}

/// Decides one example of a policy: a definition of this name that declares what is asked, at the
/// tier that holds here.
fn run_test(
    policy: &Policy,
    test: &PolicyTest,
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

/// The tools that the profiles name, the operator's own among them.
fn tools_of_runtimes(project: &Project) -> BTreeSet<ToolName> {
    profiles(project)
        .iter()
        .filter_map(|name| load_profile(name, project).ok())
        .flat_map(|profile| profile.tools.into_iter().map(|(name, _)| name))
        .collect()
}
