//! The two rights, what is asked of them, and what a refusal says would pass.

use depute::capability::AskedId;
use depute::plan::{DefinitionFact, Subject};

use super::support::{ACCEPTED, Case, asked, holding, id, outcome, policy, set};

// --- two rights ---

#[test]
fn a_coordinator_without_hands_hands_down_what_it_may_not_use() {
    let tree = Case::new().undeclared().tree();
    let held = "{use: [agent:*], delegate: [tool:read, tool:bash, tool:delegate, agent:tester]}";
    let root = holding(
        held,
        &format!(
            "overlays: [{{definition: helper, digest: '{tree}', use: [tool:read, tool:delegate, agent:tester], delegate: [tool:read, tool:bash]}}]\n{ACCEPTED}"
        ),
    );
    let coordinator = root.undeclared().hands(&["tool:read", "tool:bash"]);
    assert_eq!(coordinator.uses(), ["agent:tester", "tool:delegate", "tool:read"]);
    assert_eq!(coordinator.delegates(), ["tool:bash", "tool:read"]);
    // The tester takes its bash from the coordinator's delegate, which the coordinator cannot use.
    let holder = depute::capability::Grant::from(&coordinator.granted());
    let below = |uses: depute::capability::Grant| {
        holding(held, ACCEPTED).tools("Bash").with(|case| {
            case.situation.facts.holder = uses;
            case.situation.facts.holder.uses.insert(id("agent:helper"));
        })
    };
    assert_eq!(below(holder.clone()).uses(), ["tool:bash"]);
    // Without the operator's overlay of `delegate` it hands down what it uses, and no bash.
    let narrow = depute::capability::Grant { delegate: holder.uses.clone(), ..holder };
    assert_eq!(below(narrow).outcome(), "refused CAPABILITY_ESCALATION");
}

#[test]
fn a_child_hands_down_nothing_without_the_right_to_delegate() {
    let case = holding("[tool:read, tool:grep, tool:delegate, agent:*]", "");
    assert_eq!(case.clone().tools("Read, Grep").delegates(), Vec::<String>::new());
    assert_eq!(case.clone().tools("Read, Grep").hands(&["tool:read"]).delegates(), Vec::<String>::new());
    let may = case.clone().tools("Read, Grep, Agent");
    assert_eq!(may.delegates(), ["tool:delegate", "tool:grep", "tool:read"]);
    assert_eq!(may.clone().hands(&["tool:read"]).delegates(), ["tool:read"]);
    // The right itself can be asked away.
    assert_eq!(may.asks(&["tool:read"]).delegates(), Vec::<String>::new());
}

#[test]
fn an_explicit_delegate_with_anything_denied_refuses_whole() {
    let case = holding("[tool:read, tool:delegate, agent:*]", "").tools("Read, Agent");
    let decision = case.clone().hands(&["tool:read", "tool:write"]).decide();
    assert_eq!(outcome(&decision), "refused CAPABILITY_ESCALATION");
    assert_eq!(decision.considered().denied, ["tool:write"]);
    assert_eq!(case.clone().hands(&["tool:read", "tool: read"]).outcome(), "refused CAPABILITY_ESCALATION");
    assert_eq!(case.hands(&["tool:read"]).delegates(), ["tool:read"]);
}

#[test]
fn both_rights_come_out_of_the_parents_delegate() {
    // What the parent only uses is not handed down.
    let case = holding("{use: [tool:read, tool:grep, agent:*], delegate: [tool:read]}", "");
    assert_eq!(case.clone().tools("Grep").outcome(), "refused CAPABILITY_ESCALATION");
    assert_eq!(case.tools("Read").uses(), ["tool:read"]);
}

#[test]
fn gates_are_not_subtracted_from_delegate() {
    let case = holding("[tool:read, tool:grep, tool:delegate, agent:*]", "gates: [tool:grep]\n")
        .tools("Read, Agent");
    let hands = case.clone().hands(&["tool:read", "tool:grep"]);
    assert_eq!(hands.delegates(), ["tool:grep", "tool:read"]);
    // And it is asked when the id enters somebody's `use`, at the next descent again.
    let below = hands.clone().tools("Grep").with(|case| {
        case.situation.facts.holder = depute::capability::Grant::from(&hands.granted());
        case.situation.facts.holder.uses.insert(id("agent:helper"));
        case.request.delegate = depute::plan::AskedDelegate::Unstated;
    });
    assert_eq!(below.outcome(), "held GATED_UNAPPROVED");
    assert_eq!(below.approved("tool:grep").uses(), ["tool:grep"]);
}

#[test]
fn a_list_stated_once_means_both_rights() {
    let once = policy("version: 1\ngrant: [tool:read, agent:*]\n").grant;
    let twice =
        policy("version: 1\ngrant: {use: [tool:read, agent:*], delegate: [tool:read, agent:*]}\n").grant;
    assert_eq!(once, twice);
}

// --- what is asked ---

#[test]
fn the_fix_names_a_request_that_passes_as_printed() {
    let cases = [
        holding("[tool:read, tool:grep, agent:*]", "").tools("Read, Grep, Write, Edit"),
        holding("['tool:read(docs/**)', 'tool:grep', 'agent:*']", "").tools("Read(docs/**), Grep, Write"),
        holding("['tool:*', 'agent:*']", "").tools("Read, fabric_exec, Grep"),
        holding("['tool:*', 'agent:*']", "").tools("Read, Bash").uncaged(),
        holding("['tool:*', 'agent:*']", "").tools("Read, find, mcp__gh__get"),
        // Each alone would pass, both together would not: the shell's own flags hold nothing then.
        holding("[tool:bash, tool:grep, agent:*]", ACCEPTED).tools("Bash, Grep, Glob").uncaged(),
    ];
    let mut printed = String::new();
    for case in cases {
        let decision = case.decide();
        let fix = &decision.refusal().unwrap().fix;
        let (uses, _) = fix
            .strip_prefix("`--use ")
            .and_then(|fix| fix.split_once("` would pass now; or "))
            .unwrap_or_else(|| panic!("{fix}"));
        printed += &format!("{uses}\n");
        let uses = uses.trim_matches('\'');
        let ids: Vec<&str> = uses.split(',').collect();
        assert_eq!(case.clone().asks(&ids).outcome(), "granted", "{uses}");
        assert_eq!(case.asks(&ids).uses(), ids);
    }
    insta::assert_snapshot!(printed, @r"
    tool:grep,tool:read
    'tool:grep,tool:read(docs/**)'
    tool:grep,tool:read
    tool:read
    tool:read
    tool:bash
    ");
    // Nothing would pass: nothing is promised.
    let hopeless = Case::new().tools("Write").decide();
    assert!(!hopeless.refusal().unwrap().fix.contains("--use"));
    // A request that said what it wants is not told to want less.
    let exact = Case::new().asks(&["tool:read", "tool:write"]).decide();
    assert!(!exact.refusal().unwrap().fix.contains("--use"));
}

#[test]
fn each_rejected_id_has_exactly_one_heading() {
    let case =
        holding("[tool:bash, tool:grep, tool:ls, agent:*]", &format!("gates: [tool:grep]\n{ACCEPTED}"))
            .tools("Read, Grep, Edit")
            .asks(&["tool:read", "tool:grep", "tool:ls", "tool:web_search", "x"]);
    let decision = case.decide();
    let found = decision.considered();
    assert_eq!(found.denied, ["tool:web_search", "x"]);
    assert_eq!(found.clipped.texts(), ["tool:ls"]);
    assert_eq!(found.subsumed.texts(), ["tool:read"], "only bash covers it");
    assert_eq!(found.effective.texts(), ["tool:grep", "tool:read"], "gates are asked after what is denied");
    let held = case.asks(&["tool:read", "tool:grep", "tool:ls"]).decide();
    let found = held.considered();
    assert_eq!(
        (found.gated.texts(), found.effective.texts()),
        (vec!["tool:grep".into()], vec!["tool:read".into()])
    );
    assert_eq!((found.clipped.texts(), found.denied.len()), (vec!["tool:ls".into()], 0));
    assert_eq!(found.subsumed.texts(), ["tool:read"]);
    // What waits is no longer among what only a shell covers.
    let held =
        holding("[tool:bash, agent:*]", &format!("gates: [tool:grep]\n{ACCEPTED}")).tools("Read, Grep");
    let decision = held.decide();
    let found = decision.considered();
    assert_eq!(
        (found.gated.texts(), found.subsumed.texts()),
        (vec!["tool:grep".into()], vec!["tool:read".into()])
    );
    assert_eq!(found.effective.texts(), ["tool:read"]);
    let open = held.approved("tool:grep").decide();
    assert_eq!(open.considered().subsumed.texts(), ["tool:grep", "tool:read"]);
}

#[test]
fn refusals_carry_what_was_known_so_far() {
    let denied = Case::new().tools("Read, Write").decide();
    let known = denied.considered();
    assert_eq!(known.asked, asked(&["tool:read", "tool:write"]));
    assert_eq!(known.ceiling, Some(set(&["tool:read", "tool:write"])));
    assert!(known.digests.tree.is_some() && known.digests.body.is_some() && known.digests.policy.is_some());
    assert_eq!((known.digests.plan, known.launch.as_ref()), (None, None), "no plan was made");
    let early = Case::new().asks(&["tool:read"]).with(|case| case.situation.facts.node.depth = 9).decide();
    assert_eq!(early.considered().asked, [AskedId::Id(id("tool:read"))]);
    assert_eq!(early.considered().digests.tree, None, "nothing is said about the file");
    let held = Case::waiting().decide();
    assert!(held.considered().budget.is_some() && held.considered().digests.plan.is_some());
}

#[test]
fn an_inline_request_is_bounded_by_its_parent_alone() {
    let inline = |ids: &[&str]| {
        holding("[tool:read, agent:*]", "inline: true\n").asks(ids).with(|case| {
            case.request.subject = Subject::Inline;
            case.situation.facts.definition = DefinitionFact::Inline;
            case.situation.definition = None;
        })
    };
    assert_eq!(inline(&["tool:read"]).uses(), ["tool:read"]);
    assert_eq!(inline(&["tool:read"]).granted().subject(), "<inline>");
    assert_eq!(inline(&["tool:read"]).granted().body(), b"");
    assert_eq!(inline(&["tool:read", "tool:write"]).outcome(), "refused CAPABILITY_ESCALATION");
    assert_eq!(inline(&[]).uses(), Vec::<String>::new());
}
