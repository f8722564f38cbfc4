//! What the tests share: a smallest situation that is granted, and ways to change one thing in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use depute::capability::{AskedId, Capability, CapabilitySet, DefinitionName, Subsumption};
use depute::definition::{Ceiling, Definition, DefinitionKind};
use depute::diagnostic::{Diagnostic, Problem};
use depute::plan::{
    Approval, AskedDelegate, AskedUse, Decision, DefinitionFact, DefinitionRef, Facts, NodeFacts, Origin,
    Plan, Request, Scope, Situation, Strength, Usage, decide, places,
};
use depute::policy::Policy;
use depute::runtime::{NodePaths, Profile, Tier};
use depute::schema::Document;
use depute_ledger::Digest;

use super::schema::is_never_stricter;

/// A runtime that can be told everything, so that each check can be met alone.
pub(crate) const LAB: &str = "\
version: 1
runtime: lab
about: a runtime for tests
find: itself
probe: []
versions: null
tools:
  read: {native: read, files: workspace, scopes: true}
  write: {native: write, files: workspace, scopes: true}
  edit: {native: edit, files: workspace, scopes: true}
  grep: {native: grep, files: workspace, scopes: true}
  glob: {native: glob, files: workspace, scopes: true}
  ls: {native: ls, files: workspace, scopes: true}
  bash: {native: bash, runs_programs: true, scopes: true}
  web_fetch: {native: web_fetch, scopes: true}
  web_search: {native: web_search, scopes: true}
  delegate: {native: delegate}
  fabric_exec: {native: fabric_exec}
allowlist: the list of tools
argv:
  - [lab]
  - each_tool: [--allow, \"{id}\"]
env: {}
keys: []
config_files: []
body: file
task: stdin
model: none
mcp: null
output: text
attestation: null
usage: null
exit: code
cannot: {}
";

/// Ids that relate to each other in every way there is.
pub(crate) const POOL: [&str; 38] = [
    "tool:*",
    "tool:read",
    "tool:read(docs/**)",
    "tool:write",
    "tool:write(**)",
    "tool:write(docs/**)",
    "tool:write(docs/api/**)",
    "tool:write(docs/x.md)",
    "tool:write(docs)",
    "tool:write(*.md)",
    "tool:write(src/**)",
    "tool:grep",
    "tool:bash",
    "tool:bash(git:*)",
    "tool:bash(git log:*)",
    "tool:bash(git log)",
    "tool:bash(gitk:*)",
    "tool:bash(git log | sh)",
    "tool:bash(npm test)",
    "tool:web_fetch",
    "tool:web_fetch(domain:example.com)",
    "tool:web_fetch(domain:*.example.com)",
    "tool:web_fetch(domain:a.example.com)",
    "tool:web_fetch(domain:*.a.example.com)",
    "tool:web_fetch(domain:badexample.com)",
    "tool:delegate",
    "tool:find",
    "tool:find(docs/**)",
    "mcp:gh/*",
    "mcp:gh/get",
    "mcp:gl/get",
    "ext:@scope/pkg/run",
    "skill:review",
    "agent:*",
    "agent:helper",
    "agent:pkg:helper",
    "workspace:*",
    "workspace:feature/x",
];

/// A small generator of our own, so that 100,000 cases take seconds and every run sees the same.
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    pub(crate) fn some<'a>(&mut self, from: &[&'a str], most: usize) -> Vec<&'a str> {
        let count = self.below(most + 1);
        (0..count).map(|_| from[self.below(from.len())]).collect()
    }
}

pub(crate) fn id(text: &str) -> Capability {
    text.parse().unwrap_or_else(|error| panic!("`{text}` {error}"))
}

pub(crate) fn set(texts: &[&str]) -> CapabilitySet {
    texts.iter().map(|text| id(text)).collect()
}

pub(crate) fn asked(texts: &[&str]) -> Vec<AskedId> {
    texts.iter().map(|text| AskedId::parse(text)).collect()
}

pub(crate) fn name(text: &str) -> DefinitionName {
    DefinitionName::parse(text).unwrap()
}

pub(crate) fn builtin() -> Subsumption {
    Subsumption::builtin().clone()
}

pub(crate) fn policy(text: &str) -> Policy {
    is_never_stricter(Document::Policy, text.as_bytes());
    Policy::read(text.as_bytes())
        .unwrap_or_else(|problem| panic!("{}", Diagnostic::new("policy.yaml", text.as_bytes(), problem)))
}

pub(crate) fn profile(text: &str) -> Profile {
    is_never_stricter(Document::Runtime, text.as_bytes());
    Profile::read(text.as_bytes())
        .unwrap_or_else(|problem| panic!("{}", Diagnostic::new("profile.yaml", text.as_bytes(), problem)))
}

/// A shipped profile.
pub(crate) fn shipped(runtime: &str) -> Profile {
    profile(&shipped_text(runtime))
}

/// A shipped profile as it is written.
pub(crate) fn shipped_text(runtime: &str) -> String {
    let path = manifest_dir().join(format!("policies/runtimes/{runtime}.yaml"));
    std::fs::read_to_string(path).unwrap()
}

pub(crate) fn manifest_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn data(path: &str) -> PathBuf {
    manifest_dir().join("tests/data").join(path)
}

/// Where material lies that may not be committed: `DEPUTE_SHARED`, or a directory `shared` beside
/// this repository or beside one of its ancestors.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let named = std::env::var_os("DEPUTE_SHARED").map(PathBuf::from);
    let above = manifest_dir();
    let mut found = named.into_iter().chain(above.ancestors().map(|dir| dir.join("shared")));
    found.find_map(|dir| Some(dir.join(path)).filter(|path| path.exists()))
}

/// `file:line:column: message; fix`.
pub(crate) fn placed(path: &str, source: &[u8], problem: Problem) -> String {
    Diagnostic::new(path, source, problem).to_string()
}

pub(crate) fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn digest(of: &str) -> Digest {
    Digest::of(of.as_bytes())
}

/// Accepts every tool by name, so that tests about other checks can use a shell.
pub(crate) const ACCEPTED: &str = "\
accept:
  - {id: tool:bash, as: advisory, why: a test}
  - {id: 'tool:bash(git:*)', as: advisory, why: a test}
  - {id: tool:read, as: advisory, why: a test}
  - {id: tool:write, as: advisory, why: a test}
  - {id: 'tool:write(docs/**)', as: advisory, why: a test}
";

/// A root that holds this grant; `more` is the rest of its policy.
pub(crate) fn holding(grant: &str, more: &str) -> Case {
    Case::new().policy(&format!("version: 1\ngrant: {grant}\n{more}"))
}

/// One decision about to be made. [`Case::new`] is the smallest one that is granted.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) policy: Policy,
    pub(crate) request: Request,
    pub(crate) situation: Situation,
}

impl Case {
    /// A root that holds `read`, `grep` and every agent asks for `helper`, which declares `Read, Grep`.
    pub(crate) fn new() -> Self {
        let policy = policy("version: 1\ngrant: [tool:read, tool:grep, agent:*]\n");
        let facts = Facts {
            node: NodeFacts { path: "1.1".into(), depth: 1 },
            holder: policy.grant.clone(),
            definition: DefinitionFact::Inline,
            tier: Tier::K,
            lacking: None,
            kept: Vec::new(),
            places: BTreeMap::new(),
            approvals: Vec::new(),
            now_ms: 1_000_000,
            used: Usage::default(),
            workspaces: Vec::new(),
            paths: NodePaths {
                private: "/private/1.1".into(),
                workspace: "/workspace".into(),
                itself: "/usr/bin/depute".into(),
            },
            task_digest: None,
        };
        let helper = DefinitionRef::try_from("helper".to_owned()).unwrap();
        let request = Request::of_whole_ceiling(helper, b"look around");
        let situation = Situation { facts, definition: None, profile: profile(LAB) };
        Self { policy, request, situation }.tools("Read, Grep")
    }

    /// The same where `grep` waits for a yes.
    pub(crate) fn waiting() -> Self {
        holding("[tool:read, tool:grep, agent:*]", "gates: [tool:grep]\n")
    }

    /// Other policy; the root holds what it grants.
    pub(crate) fn policy(mut self, text: &str) -> Self {
        self.policy = policy(text);
        self.situation.facts.holder = self.policy.grant.clone();
        self
    }

    /// Only this `grant:` of the policy, nothing else stated.
    pub(crate) fn grant(self, grant: &str) -> Self {
        self.policy(&format!("version: 1\ngrant: {grant}\n"))
    }

    /// An agent file with these keys besides `description`.
    pub(crate) fn file(mut self, keys: &str) -> Self {
        let text = format!("---\nname: helper\ndescription: Helps.\n{keys}\n---\nBe brief.\n");
        let read = Definition::read(text.clone().into_bytes(), DefinitionKind::Agent, name("helper"));
        self.situation.facts.definition = DefinitionFact::Read {
            origin: Origin::User,
            trusted: true,
            name: "helper".into(),
            kind: DefinitionKind::Agent,
            place: "helper.md:1:1".into(),
            tree: digest(&text),
        };
        self.situation.definition =
            Some(read.unwrap_or_else(|p| panic!("{}", placed("helper.md", text.as_bytes(), p))));
        self
    }

    /// An agent file with this `tools`.
    pub(crate) fn tools(self, tools: &str) -> Self {
        self.file(&format!("tools: {tools}"))
    }

    /// An agent file that declares no tools.
    pub(crate) fn undeclared(self) -> Self {
        self.file("color: red")
    }

    /// A file that is there and cannot be read.
    pub(crate) fn unreadable(self) -> Self {
        self.with(|case| {
            case.situation.facts.definition = DefinitionFact::Unreadable {
                origin: Origin::User,
                trusted: true,
                message: "helper.md:4:1: `tools` is written twice".into(),
                fix: Some("keep one of the two".into()),
            };
            case.situation.definition = None;
        })
    }

    /// The same file, but from a workspace.
    pub(crate) fn in_workspace(self, trust: bool) -> Self {
        self.with(|case| {
            if let DefinitionFact::Read { origin, trusted, .. } = &mut case.situation.facts.definition {
                (*origin, *trusted) = (Origin::Workspace, trust);
            }
        })
    }

    /// The tree digest of the definition as it is.
    pub(crate) fn tree(&self) -> Digest {
        match &self.situation.facts.definition {
            DefinitionFact::Read { tree, .. } => *tree,
            other => panic!("{other:?} has no tree digest"),
        }
    }

    /// Asks for exactly these.
    pub(crate) fn asks(mut self, ids: &[&str]) -> Self {
        self.request.uses = AskedUse::Exactly(asked(ids));
        self
    }

    /// Asks for exactly these to be handed down.
    pub(crate) fn hands(mut self, ids: &[&str]) -> Self {
        self.request.delegate = AskedDelegate::Exactly(asked(ids));
        self
    }

    /// On a machine and under a policy where no kernel holds.
    pub(crate) fn uncaged(self) -> Self {
        self.with(|case| {
            case.policy.tier = Tier::Zero;
            case.situation.facts.tier = Tier::Zero;
        })
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// A yes for the session, for this definition as it is.
    pub(crate) fn yes(&self, capability: &str, scope: Scope) -> Approval {
        Approval {
            capability: id(capability),
            subject: "helper".into(),
            tree: Some(self.tree()),
            scope,
            expires_ms: None,
            approver: "someone".into(),
            strength: Strength::SameUid,
        }
    }

    pub(crate) fn approved(self, capability: &str) -> Self {
        let yes = self.yes(capability, Scope::Session);
        self.with(|case| case.situation.facts.approvals.push(yes))
    }

    pub(crate) fn decide(&self) -> Decision {
        let mut situation = self.situation.clone();
        let ceiling = situation.definition.as_ref().map(Definition::ceiling);
        let declared = match ceiling {
            Some(Ceiling::Declared(declared)) => declared.clone(),
            Some(Ceiling::Undeclared(_)) | None => CapabilitySet::empty(),
        };
        let asked: Vec<&Capability> = match &self.request.uses {
            AskedUse::Exactly(ids) => ids.iter().filter_map(AskedId::id).collect(),
            AskedUse::WholeCeiling => declared.iter().collect(),
        };
        // Where a test says nothing else, the workspace has what scopes name.
        for (place, found) in places(asked, &situation.profile) {
            situation.facts.places.entry(place).or_insert(found);
        }
        decide(&self.policy, &self.request, &situation)
    }

    /// The plan of a decision that must be granted.
    #[track_caller]
    pub(crate) fn granted(&self) -> Plan {
        match self.decide() {
            Decision::Granted(plan) => *plan,
            decision @ (Decision::Held(_) | Decision::Refused(_)) => {
                panic!("not granted:\n{}", explain(&decision))
            }
        }
    }

    /// What a granted child may use.
    #[track_caller]
    pub(crate) fn uses(&self) -> Vec<String> {
        self.granted().considered().effective.texts()
    }

    /// What a granted child may hand down.
    #[track_caller]
    pub(crate) fn delegates(&self) -> Vec<String> {
        self.granted().considered().delegate.texts()
    }

    /// `granted`, or the verdict and the code.
    pub(crate) fn outcome(&self) -> String {
        outcome(&self.decide())
    }
}

pub(crate) fn outcome(decision: &Decision) -> String {
    match decision.refusal() {
        None => decision.verdict().to_owned(),
        Some(refusal) => format!("{} {}", decision.verdict(), refusal.code),
    }
}

/// A refusal as the golden tests show it.
pub(crate) fn explain(decision: &Decision) -> String {
    let Some(refusal) = decision.refusal() else { return decision.verdict().to_owned() };
    let disposition = refusal.code.disposition();
    let mut out = format!(
        "{} {} ({}, exit {})\n",
        decision.verdict(),
        refusal.code,
        disposition.as_str(),
        disposition.exit().code()
    );
    let _ = write!(out, "message: {}\nfix: {}", refusal.message, refusal.fix);
    out
}
