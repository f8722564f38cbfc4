//! What a plan is made of: who holds each capability, what its digests cover, what the child gets.

use depute::definition::{Definition, DefinitionKind, TreeEntry, TreeError, TreeKind, tree_digest};
use depute::definition::{MAX_TREE_BYTES, MAX_TREE_ENTRIES};
use depute::plan::{AskedUse, BudgetRequest, Decision, DefinitionFact, Enforcer};
use depute::runtime::EnvValue;
use depute_ledger::Digest;

use super::support::{ACCEPTED, Case, asked, digest, holding, id, name, profile, shipped};

// --- enforcement ---

#[test]
fn the_table_says_who_holds_each_capability() {
    let rows = |case: &Case| -> Vec<(String, Enforcer)> {
        let decision = case.decide();
        decision.considered().enforcement.iter().map(|row| (row.capability.to_string(), row.by)).collect()
    };
    let case = holding("['tool:*', 'agent:*']", "").tools("Read, Agent(x)");
    let by = |by: Enforcer, ids: &[&str]| -> Vec<(String, Enforcer)> {
        ids.iter().map(|id| ((*id).to_owned(), by)).collect()
    };
    let brokers = by(Enforcer::Broker, &["agent:x", "tool:delegate"]);
    assert_eq!(rows(&case), [brokers.clone(), by(Enforcer::Kernel, &["tool:read"])].concat());
    let shell = case.clone().tools("Read, Bash");
    assert_eq!(rows(&shell), by(Enforcer::Kernel, &["tool:bash", "tool:read"]));
    // Without a cage the runtime's flag is what there is, and beside a shell no flag holds.
    assert_eq!(rows(&case.clone().uncaged()), [brokers, by(Enforcer::Runtime, &["tool:read"])].concat());
    assert_eq!(rows(&shell.clone().uncaged()), by(Enforcer::Nothing, &["tool:bash", "tool:read"]));
    assert_eq!(shell.uncaged().outcome(), "refused NOT_ENFORCEABLE");
    let accepted = holding("['tool:*', 'agent:*']", ACCEPTED).tools("Read, Bash").uncaged();
    assert_eq!(rows(&accepted), by(Enforcer::Advisory, &["tool:bash", "tool:read"]));
    assert_eq!(accepted.outcome(), "granted");
    // A runtime that reads the whole disk holds no file tool; the kernel does.
    let pi = case.tools("Read").with(|case| {
        case.situation.profile = shipped("pi");
        case.request.model = Some("mock/mock-model".into());
    });
    assert_eq!(rows(&pi), by(Enforcer::Kernel, &["tool:read"]));
    assert_eq!(rows(&pi.uncaged()), by(Enforcer::Nothing, &["tool:read"]));
}

// --- digests ---

fn plan_of(case: &Case) -> Digest {
    match case.decide() {
        Decision::Granted(plan) => plan.considered().digests.plan.unwrap(),
        Decision::Held(hold) => hold.considered.digests.plan.unwrap(),
        Decision::Refused(refused) => panic!("{:?}", refused.refusal),
    }
}

type Change = (&'static str, fn(&mut Case));

#[test]
fn a_plan_digest_leaves_out_ids_times_and_private_paths() {
    let changes: [Change; 8] = [
        ("node", |case| case.situation.facts.node.path = "1.7.2".into()),
        ("depth", |case| case.situation.facts.node.depth = 2),
        ("time", |case| case.situation.facts.now_ms += 86_400_000),
        ("private", |case| case.situation.facts.paths.private = "/elsewhere/1.7.2".into()),
        ("binary", |case| case.situation.facts.paths.itself = "/opt/depute".into()),
        ("usage", |case| case.situation.facts.used.agents = 3),
        ("holder", |case| case.situation.facts.holder.delegate.insert(id("tool:ls"))),
        ("approvals", |case| *case = case.clone().approved("tool:grep")),
    ];
    for (what, change) in changes {
        assert_eq!(plan_of(&Case::new().with(change)), plan_of(&Case::new()), "{what}");
    }
    // Asking for the whole ceiling and naming it is one plan.
    assert_eq!(plan_of(&Case::new().asks(&["tool:grep", "tool:read"])), plan_of(&Case::new()));
}

#[test]
fn a_plan_digest_changes_with_each_thing_it_covers() {
    fn task(case: &mut Case, hex: char) {
        let text = format!("hmac-sha256:{}", hex.to_string().repeat(64));
        case.situation.facts.task_digest = Some(text.parse().unwrap());
    }
    let base =
        || Case::new().grant("[tool:read, tool:grep, tool:delegate, agent:*]").tools("Read, Grep, Agent");
    let changes: [Change; 12] = [
        ("file", |case| *case = case.clone().file("tools: Read, Grep, Agent\ncolor: red")),
        ("body", |case| {
            let text =
                b"---\nname: helper\ndescription: Helps.\ntools: Read, Grep, Agent\n---\nBe long.\n".to_vec();
            case.situation.definition =
                Some(Definition::read(text, DefinitionKind::Agent, name("helper")).unwrap());
        }),
        ("tree", |case| {
            if let DefinitionFact::Read { tree, .. } = &mut case.situation.facts.definition {
                *tree = digest("a script beside it changed");
            }
        }),
        ("use", |case| case.request.uses = AskedUse::Exactly(asked(&["tool:read", "tool:delegate"]))),
        ("delegate", |case| *case = case.clone().hands(&["tool:read"])),
        ("argv", |case| {
            case.situation.profile = profile(&super::support::LAB.replace("[lab]", "[lab, --quiet]"));
        }),
        ("env", |case| {
            case.situation.profile = profile(&super::support::LAB.replace("env: {}", "env: {X: y}"));
        }),
        ("passed", |case| {
            case.policy.env.insert("GITHUB_TOKEN".into());
        }),
        ("workspace", |case| case.situation.facts.paths.workspace = "/another".into()),
        ("deadline", |case| case.request.budget = Some(BudgetRequest { deadline_ms: Some(1000) })),
        ("limits", |case| case.policy.limits.agents = 31),
        ("task", |case| task(case, 'a')),
    ];
    let mut seen = vec![("nothing", plan_of(&base()))];
    for (what, change) in changes {
        let digest = plan_of(&base().with(change));
        for (other, earlier) in &seen {
            assert_ne!(digest, *earlier, "{what} and {other}");
        }
        seen.push((what, digest));
    }
    assert_ne!(plan_of(&base().with(|case| task(case, 'a'))), plan_of(&base().with(|case| task(case, 'b'))));
}

#[test]
fn the_same_input_gives_the_same_decision() {
    for case in [Case::new(), Case::waiting(), Case::new().tools("Write")] {
        assert_eq!(case.decide(), case.decide());
    }
}

#[test]
fn the_body_is_what_follows_the_fence_trimmed_at_both_ends() {
    let body = |text: &str| {
        let text = format!("---\ndescription: d\ntools: Read\n---\n{text}");
        let read = Definition::read(text.into_bytes(), DefinitionKind::Agent, name("helper")).unwrap();
        assert_eq!(read.body_digest(), Digest::of(read.body()));
        String::from_utf8(read.body().to_vec()).unwrap()
    };
    assert_eq!(body("\n\u{feff} \u{a0}\u{3000}a\r\n---\r\nb\u{2028}\n\n"), "a\r\n---\r\nb");
    assert_eq!(body("${HOME} $(id) \u{200b}"), "${HOME} $(id) \u{200b}", "nothing is expanded");
    assert_eq!(body(""), "");
    let plan = Case::new().granted();
    assert_eq!(plan.body(), b"Be brief.");
    assert_eq!(plan.considered().digests.body, Some(digest("Be brief.")));
}

#[test]
fn a_tree_digest_covers_paths_contents_modes_and_links() {
    let file = |path: &str, content: &str| TreeEntry {
        path: path.into(),
        kind: TreeKind::File { executable: false, content: content.into() },
    };
    let of = |entries: &[TreeEntry]| tree_digest(entries.to_vec()).unwrap();
    let base = [file("SKILL.md", "a"), file("scripts/x", "b")];
    let reversed = [base[1].clone(), base[0].clone()];
    assert_eq!(of(&base), of(&reversed), "order does not count");
    let executable = TreeEntry {
        path: b"scripts/x".to_vec(),
        kind: TreeKind::File { executable: true, content: b"b".to_vec() },
    };
    let link = TreeEntry { path: b"scripts/x".to_vec(), kind: TreeKind::Link(b"b".to_vec()) };
    let others = [
        vec![base[0].clone()],
        vec![base[0].clone(), executable],
        vec![base[0].clone(), link],
        vec![base[0].clone(), file("scripts/y", "b")],
        vec![base[0].clone(), file("scripts/x", "c")],
        // Lengths come first, so that no boundary can be moved.
        vec![file("SKILL.mda", ""), file("scripts/x", "b")],
        vec![file("SKILL.m", "da"), file("scripts/x", "b")],
    ];
    for other in &others {
        assert_ne!(of(other), of(&base), "{other:?}");
    }
    let many = |count: usize| tree_digest((0..count).map(|n| file(&n.to_string(), "")).collect());
    assert!(many(MAX_TREE_ENTRIES).is_ok());
    assert_eq!(many(MAX_TREE_ENTRIES + 1), Err(TreeError::TooMany));
    let large = TreeEntry {
        path: b"x".to_vec(),
        kind: TreeKind::File { executable: false, content: vec![0; MAX_TREE_BYTES] },
    };
    assert!(tree_digest(vec![large.clone()]).is_ok());
    assert_eq!(tree_digest(vec![large, file("y", "z")]), Err(TreeError::TooLarge));
}

// --- what the child gets ---

#[test]
fn the_environment_is_built_from_nothing() {
    let case = holding("[tool:read, tool:grep, agent:*]", "env: [GITHUB_TOKEN]\n");
    let plan = case.granted();
    let shown: Vec<String> = plan
        .launch()
        .env
        .iter()
        .map(|(name, value)| match value {
            EnvValue::Set(value) => format!("{name}={value}"),
            EnvValue::Passed => format!("{name} is passed"),
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    DEPUTE_NODE=1
    GITHUB_TOKEN is passed
    HOME=/private/1.1/home
    LANG=C.UTF-8
    PATH=/usr/local/bin:/usr/bin:/bin
    PYTHONDONTWRITEBYTECODE=1
    TERM=dumb
    TMPDIR=/private/1.1/tmp
    XDG_CONFIG_HOME=/private/1.1/config
    ");
    assert_eq!(
        plan.launch().argv,
        ["/usr/bin/depute", "lab", "--allow", "tool:read", "--allow", "tool:grep"]
    );
    assert_eq!(plan.prepared().directories, ["/private/1.1/home", "/private/1.1/tmp", "/private/1.1/config"]);
}
