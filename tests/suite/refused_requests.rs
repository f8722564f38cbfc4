//! One test a code, steps 1 to 8 of the order of checks: the request, the workspace, the definition.
//! Each has the smallest situation that yields exactly that code, how it explains itself, and the
//! smallest change that makes it granted.

use depute::capability::AskedId;
use depute::plan::{AskedUse, DefinitionFact, MAX_IDS, MAX_TASK, Subject, TaskFacts};
use insta::assert_snapshot;

use super::support::{Case, explain};

#[test]
fn the_smallest_situation_is_granted() {
    assert_eq!(Case::new().uses(), ["tool:grep", "tool:read"]);
}

#[test]
fn request_malformed() {
    let too_many: Vec<AskedId> = (0..=MAX_IDS).map(|n| AskedId::parse(&format!("tool:t{n}"))).collect();
    let many = Case::new().with(|case| case.request.uses = AskedUse::Exactly(too_many));
    assert_snapshot!(explain(&many.decide()), @r"
    refused REQUEST_MALFORMED (malformed, exit 82)
    message: the request lists 129 ids, and at most 128 are read
    fix: ask for fewer ids
    ");
    // One id of 129 that is held, asked for 129 times, is refused; 128 times it is granted.
    let times = |n: usize| Case::new().asks(&vec!["tool:read"; n]).outcome();
    assert_eq!(
        (times(MAX_IDS + 1).as_str(), times(MAX_IDS).as_str()),
        ("refused REQUEST_MALFORMED", "granted")
    );
    let times = |n: usize| {
        Case::new()
            .grant("[tool:read, tool:grep, tool:delegate, agent:*]")
            .tools("Read, Agent")
            .hands(&vec!["tool:read"; n])
            .outcome()
    };
    assert_eq!(
        (times(MAX_IDS + 1).as_str(), times(MAX_IDS).as_str()),
        ("refused REQUEST_MALFORMED", "granted")
    );

    let task = |bytes: &[u8]| Case::new().with(|case| case.request.task = TaskFacts::of(bytes));
    assert_snapshot!(explain(&task(b"a\0b").decide()), @r"
    refused REQUEST_MALFORMED (malformed, exit 82)
    message: the task holds a NUL byte, which no program's input is expected to carry
    fix: remove it from the task
    ");
    assert_eq!(task(b"ab").outcome(), "granted");

    let long = |bytes| Case::new().with(|case| case.request.task.bytes = bytes);
    assert_snapshot!(explain(&long(MAX_TASK + 1).decide()), @r"
    refused REQUEST_MALFORMED (malformed, exit 82)
    message: the task is longer than 16777216 bytes
    fix: put the material into a file of the workspace and name it in the task
    ");
    assert_eq!(long(MAX_TASK).outcome(), "granted");
}

#[test]
fn request_malformed_for_a_tool_list_without_a_definition() {
    let inline = |allowed: bool| {
        Case::new().asks(&["tool:read"]).with(|case| {
            case.request.subject = Subject::Inline;
            case.situation.facts.definition = DefinitionFact::Inline;
            case.situation.definition = None;
            case.policy.inline = allowed;
        })
    };
    assert_snapshot!(explain(&inline(false).decide()), @r"
    refused REQUEST_MALFORMED (malformed, exit 82)
    message: a tool list without a definition is asked for, and the policy does not allow that
    fix: name a definition, or the operator sets `inline: true` in the policy
    ");
    assert_eq!(inline(true).uses(), ["tool:read"]);
    let nothing_said = inline(true).with(|case| case.request.uses = AskedUse::WholeCeiling);
    assert_snapshot!(explain(&nothing_said.decide()), @r"
    refused REQUEST_MALFORMED (malformed, exit 82)
    message: a request without a definition has to say what it asks for
    fix: add `--use`
    ");
}

#[test]
fn request_malformed_for_a_workspace_that_is_no_id() {
    let routed = |workspace: &str| {
        Case::new().grant("[tool:read, tool:grep, agent:*, workspace:side]").with(|case| {
            case.request.workspace = Some(workspace.into());
            case.situation.facts.workspaces = vec!["side".into()];
        })
    };
    assert_snapshot!(explain(&routed("../side").decide()), @r"
    refused REQUEST_MALFORMED (malformed, exit 82)
    message: `../side` is no id of a workspace: it has a name that begins with '.'
    fix: begin the name with a letter or a digit
    ");
    // Whether a request is well formed is asked before anything else is.
    assert_eq!(
        routed("../side").with(|case| case.situation.facts.node.depth = 9).outcome(),
        "refused REQUEST_MALFORMED"
    );
    assert_eq!(routed("side").outcome(), "granted");
}

#[test]
fn depth_exceeded() {
    let at = |depth| Case::new().with(|case| case.situation.facts.node.depth = depth);
    assert_snapshot!(explain(&at(3).decide()), @r"
    refused DEPTH_EXCEEDED (over-budget, exit 80)
    message: the child would stand at depth 3, and the policy allows 2
    fix: the operator raises `depth` to 3 in the policy
    ");
    assert_eq!(at(2).outcome(), "granted");
    let none = |depth| at(depth).with(|case| case.policy.limits.depth = 0);
    assert_eq!(
        (none(1).outcome().as_str(), none(0).outcome().as_str()),
        ("refused DEPTH_EXCEEDED", "granted")
    );
}

#[test]
fn task_missing() {
    let task = |bytes: &[u8]| Case::new().with(|case| case.request.task = TaskFacts::of(bytes));
    assert_snapshot!(explain(&task(b" \n\t").decide()), @r"
    refused TASK_MISSING (malformed, exit 82)
    message: the request has no task
    fix: add `--task TEXT`, or `--task-file FILE`
    ");
    assert_eq!(task(b"").outcome(), "refused TASK_MISSING");
    assert_eq!(task(b" x ").outcome(), "granted");
}

#[test]
fn workspace_not_registered() {
    let routed = |registered: &str| {
        Case::new().grant("[tool:read, tool:grep, agent:*, workspace:feature/x]").with(|case| {
            case.request.workspace = Some("feature/x".into());
            case.situation.facts.workspaces = vec![registered.into()];
        })
    };
    let decision = routed("feature/y").decide();
    assert_snapshot!(explain(&decision), @r"
    refused WORKSPACE_NOT_REGISTERED (not-held, exit 80)
    message: no workspace `feature/x` is registered
    fix: leave `--workspace` out to work where the parent works
    ");
    assert_eq!(decision.refusal().unwrap().details.near, ["feature/y"]);
    assert_eq!(routed("feature/x").outcome(), "granted");
}

#[test]
fn workspace_not_authorized() {
    let routed = |grant: &str| {
        Case::new().grant(grant).with(|case| {
            case.request.workspace = Some("feature/x".into());
            case.situation.facts.workspaces = vec!["feature/x".into()];
        })
    };
    assert_snapshot!(explain(&routed("[tool:read, tool:grep, agent:*, workspace:prod]").decide()), @r"
    refused WORKSPACE_NOT_AUTHORIZED (not-held, exit 80)
    message: `workspace:feature/x` is not held, so no child is routed there
    fix: the operator adds `workspace:feature/x` to `grant` (line 2 of the policy)
    ");
    assert_eq!(routed("[tool:read, tool:grep, agent:*, workspace:feature/x]").outcome(), "granted");
    assert_eq!(routed("[tool:read, tool:grep, agent:*, workspace:*]").outcome(), "granted");
}

#[test]
fn unknown_definition() {
    let known = Case::new();
    let fact = |fact: DefinitionFact| {
        known.clone().with(|case| {
            case.situation.facts.definition = fact;
            case.situation.definition = None;
        })
    };
    let unknown = fact(DefinitionFact::Unknown { near: vec!["helpers".into()] });
    assert_snapshot!(explain(&unknown.decide()), @r"
    refused UNKNOWN_DEFINITION (not-held, exit 80)
    message: no definition `helper` is in force here
    fix: did you mean `helpers`?
    ");
    assert_snapshot!(explain(&fact(DefinitionFact::Unknown { near: Vec::new() }).decide()), @r"
    refused UNKNOWN_DEFINITION (not-held, exit 80)
    message: no definition `helper` is in force here
    fix: put it into `.claude/skills/NAME/SKILL.md` or `.claude/agents/NAME.md`, or name its root in the policy
    ");
    let twice =
        fact(DefinitionFact::Ambiguous { places: vec!["/a/helper.md".into(), "/b/helper.md".into()] });
    assert_snapshot!(explain(&twice.decide()), @r"
    refused UNKNOWN_DEFINITION (not-held, exit 80)
    message: `helper` names 2 definitions, none before the other
    fix: ask for one of them by its path
    ");
    assert_eq!(known.outcome(), "granted");
    // Nothing is said of definitions that the one who asks may not spawn.
    let near = |agents: &str, fact: DefinitionFact| {
        let case = Case::new().grant(&format!("[tool:read, tool:grep, {agents}]")).with(|case| {
            case.situation.facts.definition = fact;
            case.situation.definition = None;
        });
        let refusal = case.decide().refusal().unwrap().clone();
        (refusal.details.near, refusal.fix)
    };
    let helpers = || DefinitionFact::Unknown { near: vec!["secrets".into(), "helpers".into()] };
    assert_eq!(near("agent:helpers", helpers()), (vec!["helpers".into()], "did you mean `helpers`?".into()));
    let (names, fix) = near("agent:other", helpers());
    assert!(names.is_empty() && fix.starts_with("put it into"), "{names:?} {fix}");
    let twice = || DefinitionFact::Ambiguous { places: vec!["/a/helper.md".into(), "/b/helper.md".into()] };
    assert_eq!(near("agent:helper", twice()).0, ["/a/helper.md", "/b/helper.md"]);
    assert_eq!(near("agent:other", twice()).0, Vec::<String>::new());
}

#[test]
fn definition_not_authorized() {
    let holding = |agents: &str| Case::new().grant(&format!("[tool:read, tool:grep, {agents}]"));
    assert_snapshot!(explain(&holding("agent:other").decide()), @r"
    refused DEFINITION_NOT_AUTHORIZED (not-held, exit 80)
    message: `agent:helper` is not held, so `helper` may not be spawned
    fix: the operator adds `agent:helper` to `grant` (line 2 of the policy)
    ");
    assert_eq!(holding("agent:helper").outcome(), "granted");
    assert_eq!(holding("'agent:*'").outcome(), "granted");
    // A skill of that name is not the right to spawn it.
    assert_eq!(holding("skill:helper").outcome(), "refused DEFINITION_NOT_AUTHORIZED");
}

#[test]
fn definition_not_trusted() {
    assert_snapshot!(explain(&Case::new().in_workspace(false).decide()), @r"
    refused DEFINITION_NOT_TRUSTED (not-held, exit 80)
    message: `helper` comes from the workspace, which is not trusted
    fix: read the file, then run `depute trust`, or add `--trust-workspace` for this run
    ");
    assert_eq!(Case::new().in_workspace(true).outcome(), "granted");
}

#[test]
fn definition_unreadable() {
    assert_snapshot!(explain(&Case::new().unreadable().decide()), @r"
    refused DEFINITION_UNREADABLE (malformed, exit 82)
    message: helper.md:4:1: `tools` is written twice
    fix: keep one of the two
    ");
    assert_eq!(Case::new().outcome(), "granted");
}

#[test]
fn undeclared_tools() {
    let decision = Case::new().file("color: red").decide();
    assert_snapshot!(explain(&decision), @r"
    refused UNDECLARED_TOOLS (undeclared, exit 82)
    message: `helper` declares no tools: there is no `tools`
    fix: in helper.md:1:1: add `tools: Read, Grep`, or `tools: []` for none, or the operator gives it a ceiling by an overlay
    ");
    let near = Case::new().file("allowed-tools: Read").decide();
    assert_snapshot!(explain(&near), @r"
    refused UNDECLARED_TOOLS (undeclared, exit 82)
    message: `helper` has `allowed-tools`, which does not declare the tools of an agent
    fix: in helper.md:1:1: write `tools` at the top level of the frontmatter
    ");
    // Three states: absent, present and empty, present with names.
    assert_eq!(Case::new().file("tools: []").uses(), Vec::<String>::new());
    assert_eq!(Case::new().file("tools:").uses(), Vec::<String>::new());
    assert_eq!(Case::new().file("tools: Read").uses(), ["tool:read"]);
}
