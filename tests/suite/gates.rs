//! What a gate catches, and what a person's yes opens.

use depute::plan::{BudgetRequest, Decision, DefinitionFact, Scope, Subject};
use depute::runtime::Tier;

use super::support::{ACCEPTED, Case, builtin, digest, holding, id, policy, profile, set};

// --- gates ---

/// What the gate on `gate` makes of a request for `asks` by a root that holds everything.
fn gated(gate: &str, asks: &str) -> String {
    let case = holding("['tool:*', 'agent:*']", &format!("gates: ['{gate}']\n{ACCEPTED}"));
    case.tools(asks).outcome()
}

#[test]
fn a_gate_catches_equal_scoped_overlapping_and_covering_ids_and_nothing_narrower() {
    const HELD: &str = "held GATED_UNAPPROVED";
    let table = [
        ("tool:read", "Read", HELD),
        ("tool:read", "Read(docs/**)", HELD),
        ("tool:read(docs/**)", "Read", HELD),
        ("tool:read(docs/**)", "Read(docs/api/**)", HELD),
        ("tool:read(docs/api/**)", "Read(docs/**)", HELD),
        ("tool:read(docs/**)", "Read(src/**)", "granted"),
        // Not proven disjoint.
        ("tool:read(*.md)", "Read(docs/**)", HELD),
        ("tool:web_fetch(domain:*.example.com)", "WebFetch(domain:a.example.com)", HELD),
        ("tool:web_fetch(domain:*.example.com)", "WebFetch(domain:example.com)", "granted"),
        // Covering by subsumption; the narrow tool is free while the broad one is gated.
        ("tool:write", "Bash", HELD),
        ("tool:bash", "Write", "granted"),
        ("tool:bash", "Read, Write", "granted"),
        // Scopes are compared within one tool only.
        ("tool:write", "Edit", "granted"),
        ("tool:write(docs/**)", "Edit(docs/**)", "granted"),
        // Other names, other gates.
        ("tool:grep", "Read", "granted"),
        ("agent:x", "Read", "granted"),
        ("agent:x", "agent:x", HELD),
        ("agent:*", "agent:x", HELD),
    ];
    for (gate, asks, expected) in table {
        assert_eq!(gated(gate, asks), expected, "a gate on {gate}, asking for {asks}");
    }
}

#[test]
fn a_wildcard_that_covers_a_gated_id_is_gated() {
    let table = builtin();
    for (wide, gate) in [
        ("agent:*", "agent:x"),
        ("tool:*", "agent:x"),
        ("mcp:gh/*", "mcp:gh/delete"),
        ("workspace:*", "workspace:prod"),
    ] {
        assert!(id(wide).touches(&id(gate), &table), "{wide} holds {gate}");
    }
    assert!(!id("mcp:gh/*").touches(&id("mcp:gl/delete"), &table));
    assert!(!id("agent:*").touches(&id("skill:x"), &table));
    // Through the planner: `agent:*` is inherited, and waits where one agent is gated.
    let case = holding("[tool:read, tool:delegate, agent:*]", "gates: [agent:deploy]\n").tools("Read, Agent");
    let asks = |ids: &[&str]| {
        case.clone().asks(ids).with(|case| {
        let text = format!("version: 1\ngrant: [tool:read, agent:*]\noverlays: [{{definition: helper, digest: '{}', allow: [agent:other]}}]\ngates: [agent:deploy]\n", Case::new().undeclared().tree());
        case.policy = policy(&text);
        let file = Case::new().undeclared();
        case.situation.facts.definition = file.situation.facts.definition;
        case.situation.definition = file.situation.definition;
    })
    };
    assert_eq!(asks(&["agent:other"]).outcome(), "granted");
}

/// At tier 0 a shell confers the network, so a gate on it stops the shell; in a cage it does not.
#[test]
fn a_gate_catches_what_is_implied_at_the_tier_in_force() {
    let case = |gate: &str, asks: &str, tier: Tier| {
        holding("['tool:*', 'agent:*']", &format!("gates: ['{gate}']\n{ACCEPTED}"))
            .tools(asks)
            .uncaged()
            .with(|case| case.situation.facts.tier = tier)
            .outcome()
    };
    assert_eq!(case("tool:web_fetch", "Bash", Tier::Zero), "held GATED_UNAPPROVED");
    assert_eq!(case("tool:web_fetch", "Bash", Tier::K), "granted");
    assert_eq!(case("tool:web_fetch(domain:example.com)", "Bash", Tier::Zero), "held GATED_UNAPPROVED");
    assert_eq!(case("tool:web_fetch", "Read", Tier::Zero), "granted");
    // A scope of commands bounds nothing by itself, at any tier.
    for tier in [Tier::Zero, Tier::F, Tier::K, Tier::N, Tier::C] {
        assert_eq!(case("tool:write", "Bash(git:*)", tier), "held GATED_UNAPPROVED", "{tier:?}");
        assert_eq!(case("tool:bash(rm:*)", "Bash(git:*)", tier), "held GATED_UNAPPROVED", "{tier:?}");
        assert_eq!(case("tool:write", "Read", tier), "granted", "{tier:?}");
    }
}

#[test]
fn what_runs_programs_implies_the_whole_shell_at_tier_0() {
    let lab = profile(super::support::LAB);
    let implied = |ids: &[&str], tier| lab.implied(&set(ids), tier, &builtin()).texts();
    let all = [
        "tool:bash",
        "tool:edit",
        "tool:edit-diff",
        "tool:find",
        "tool:glob",
        "tool:grep",
        "tool:ls",
        "tool:notebook_edit",
        "tool:read",
        "tool:web_fetch",
        "tool:web_search",
        "tool:write",
    ];
    assert_eq!(implied(&["tool:bash"], Tier::Zero), all);
    assert_eq!(implied(&["tool:bash"], Tier::K), ["tool:bash"]);
    assert_eq!(implied(&["tool:bash(git:*)"], Tier::K), ["tool:bash", "tool:bash(git:*)"]);
    assert_eq!(implied(&["tool:read(docs/**)"], Tier::Zero), ["tool:read(docs/**)"]);
    let mcp = implied(&["mcp:gh/get", "tool:read(docs/**)"], Tier::Zero);
    assert!(mcp.contains(&"tool:bash".to_owned()) && mcp.contains(&"tool:read".to_owned()), "{mcp:?}");
}

// --- approvals ---

#[test]
fn a_once_approval_opens_exactly_the_plan_it_was_given_for() {
    let Decision::Held(hold) = Case::waiting().decide() else { panic!("not held") };
    let plan = hold.considered.digests.plan.unwrap();
    let once = |case: Case| {
        let yes = case.yes("tool:grep", Scope::Once { plan });
        case.with(|case| case.situation.facts.approvals.push(yes))
    };
    let granted = once(Case::waiting()).granted();
    assert_eq!(granted.considered().digests.plan, Some(plan), "the plan is the one that was shown");
    assert_eq!(granted.considered().approvals.len(), 1);
    assert_eq!(once(Case::waiting().asks(&["tool:grep"])).outcome(), "held APPROVAL_SCOPE_MISMATCH");
    let shorter =
        Case::waiting().with(|case| case.request.budget = Some(BudgetRequest { deadline_ms: Some(1000) }));
    assert_eq!(once(shorter).outcome(), "held APPROVAL_SCOPE_MISMATCH");
}

#[test]
fn session_and_always_approvals_bind_capability_name_and_tree() {
    for scope in [Scope::Session, Scope::Always] {
        let yes = Case::waiting().yes("tool:grep", scope);
        let with = |change: fn(&mut depute::plan::Approval)| {
            let mut yes = yes.clone();
            change(&mut yes);
            Case::waiting().with(|case| case.situation.facts.approvals.push(yes)).outcome()
        };
        assert_eq!(with(|_| ()), "granted");
        assert_eq!(with(|yes| yes.expires_ms = Some(1_000_001)), "granted");
        assert_eq!(with(|yes| yes.expires_ms = Some(1_000_000)), "held APPROVAL_EXPIRED");
        assert_eq!(with(|yes| yes.tree = Some(digest("before"))), "held APPROVAL_SCOPE_MISMATCH");
        assert_eq!(with(|yes| yes.subject = "other".into()), "held APPROVAL_SCOPE_MISMATCH");
        assert_eq!(with(|yes| yes.capability = id("tool:read")), "held GATED_UNAPPROVED");
    }
    // Another request of the same definition passes too: that is what a session means.
    assert_eq!(Case::waiting().approved("tool:grep").asks(&["tool:grep"]).outcome(), "granted");
}

#[test]
fn an_approval_never_adds_a_capability() {
    let case = holding("[tool:read, agent:*]", "gates: [tool:grep]\n").approved("tool:grep");
    assert_eq!(case.outcome(), "refused CAPABILITY_ESCALATION");
    assert_eq!(case.asks(&["tool:read"]).outcome(), "granted");
    // Nor does a yes for the narrow open the wide, or the wide the narrow.
    let scoped = holding("[tool:grep, agent:*]", "gates: [tool:grep]\n").tools("Grep(docs/**)");
    assert_eq!(scoped.clone().approved("tool:grep").outcome(), "held GATED_UNAPPROVED");
    assert_eq!(scoped.approved("tool:grep(docs/**)").outcome(), "granted");
}

/// A model that chose its tools has no name that could be approved for ever.
#[test]
fn a_tool_list_is_never_approved_for_ever() {
    let inline = |scope: Scope| {
        Case::waiting().asks(&["tool:grep"]).with(|case| {
            let mut yes = case.yes("tool:grep", scope);
            (yes.subject, yes.tree) = ("<inline>".into(), None);
            case.situation.facts.approvals.push(yes);
            case.policy.inline = true;
            case.request.subject = Subject::Inline;
            case.situation.facts.definition = DefinitionFact::Inline;
            case.situation.definition = None;
        })
    };
    assert_eq!(inline(Scope::Always).outcome(), "held APPROVAL_SCOPE_MISMATCH");
    assert_eq!(inline(Scope::Session).outcome(), "granted");
}

#[test]
fn an_expired_yes_beside_a_good_one_does_no_harm() {
    let case = Case::waiting().approved("tool:grep").with(|case| {
        let mut stale = case.yes("tool:grep", Scope::Session);
        stale.expires_ms = Some(1);
        case.situation.facts.approvals.insert(0, stale);
    });
    assert_eq!(case.outcome(), "granted");
}
