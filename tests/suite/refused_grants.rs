//! One test a code, steps 9 to 17 of the order of checks: what is asked, what holds it, gates, budget.
//! Each has the smallest situation that yields exactly that code, how it explains itself, and the
//! smallest change that makes it granted.

use depute::plan::{BudgetRequest, DefinitionFact, Scope};
use depute::runtime::Tier;
use insta::assert_snapshot;

use super::support::{Case, digest, explain, set};

#[test]
fn unknown_tool() {
    let held = "[tool:read, tool:reed, agent:*]";
    assert_snapshot!(explain(&Case::new().grant(held).tools("Read, Reed").decide()), @r"
    refused UNKNOWN_TOOL (malformed, exit 82)
    message: `tool:reed` is a tool that no runtime knows
    fix: `--use tool:read` would pass now; or did you mean `tool:read`?
    ");
    assert_eq!(Case::new().grant(held).tools("Read").outcome(), "granted");
    let far = Case::new().grant(held).tools("Read, Excalibur").decide();
    assert_snapshot!(explain(&far), @r"
    refused UNKNOWN_TOOL (malformed, exit 82)
    message: `tool:excalibur` is a tool that no runtime knows
    fix: `--use tool:read` would pass now; or name a tool that some runtime has, or remove it
    ");
}

#[test]
fn not_expressible() {
    let granted = "[tool:read, tool:find, tool:bash, 'mcp:gh/get', skill:review, agent:*]";
    let asks = |tools: &str| Case::new().grant(granted).tools(tools);
    assert_snapshot!(explain(&asks("Read, find").decide()), @r"
    refused NOT_EXPRESSIBLE (not-enforceable, exit 84)
    message: `tool:find` is not a tool of the runtime `lab`
    fix: `--use tool:read` would pass now; or ask for less with `--use`, or name another runtime with `--runtime`
    ");
    assert_snapshot!(explain(&asks("mcp__gh__get").decide()), @r"
    refused NOT_EXPRESSIBLE (not-enforceable, exit 84)
    message: `mcp:gh/get` is an MCP tool, which the runtime `lab` is not given
    fix: ask for less with `--use`, or name another runtime with `--runtime`
    ");
    assert_eq!(asks("Read").outcome(), "granted");
    let scoped = |scopes: &str| {
        asks("Read(docs/**)")
            .with(|case| {
                let text = super::support::LAB.replace(", scopes: true", scopes);
                case.situation.profile = super::support::profile(&text);
            })
            .uncaged()
    };
    assert_snapshot!(explain(&scoped("").decide()), @r"
    refused NOT_EXPRESSIBLE (not-enforceable, exit 84)
    message: `tool:read(docs/**)` has a scope, which the runtime `lab` cannot hold; it would become the whole tool
    fix: ask for less with `--use`, or name another runtime with `--runtime`
    ");
    assert_eq!(scoped(", scopes: true").uses(), ["tool:read(docs/**)"]);
    // What the runtime cannot be told, a cage can.
    assert_eq!(scoped("").with(|case| case.situation.facts.tier = Tier::K).uses(), ["tool:read(docs/**)"]);
}

#[test]
fn not_expressible_for_a_model_that_the_runtime_does_not_take() {
    let with = |model: Option<&str>| Case::new().with(|case| case.request.model = model.map(str::to_owned));
    assert_snapshot!(explain(&with(Some("mock/large")).decide()), @r"
    refused NOT_EXPRESSIBLE (not-enforceable, exit 84)
    message: the runtime `lab` takes no model, and `mock/large` is asked for
    fix: leave the model out of the request and of the definition, or name another runtime with `--runtime`
    ");
    assert_eq!(with(None).outcome(), "granted");
    // A definition's own model is refused too, never replaced; `inherit` names none.
    assert_eq!(Case::new().file("tools: Read\nmodel: opus").outcome(), "refused NOT_EXPRESSIBLE");
    assert_eq!(Case::new().file("tools: Read\nmodel: inherit").outcome(), "granted");
}

#[test]
fn not_inheritable() {
    let case = Case::new().grant("['tool:*', 'workspace:*']");
    assert_snapshot!(explain(&case.clone().asks(&["tool:read", "tool:*"]).decide()), @r"
    refused NOT_INHERITABLE (not-held, exit 80)
    message: `tool:*` is held, and never handed down
    fix: name what the child needs, one by one
    ");
    assert_eq!(case.clone().asks(&["workspace:*"]).outcome(), "refused NOT_INHERITABLE");
    assert_eq!(case.clone().hands(&["tool:*"]).outcome(), "refused NOT_INHERITABLE");
    assert_eq!(case.clone().asks(&["tool:read"]).outcome(), "granted");
    // What is held whole may be asked for in part, and `agent:*` is inherited.
    let agents = case.tools("Read, Agent").hands(&["agent:*"]);
    assert_eq!(agents.delegates(), ["agent:*"]);
}

#[test]
fn capability_escalation() {
    let asks = |tools: &str| Case::new().tools(tools);
    assert_snapshot!(explain(&asks("Read, Write, Edit").decide()), @r"
    refused CAPABILITY_ESCALATION (not-held, exit 80)
    message: `tool:edit` and `tool:write` are asked for, and the one who asks may not hand them down
    fix: `--use tool:read` would pass now; or the operator adds `tool:edit` and `tool:write` to `grant` (line 2 of the policy)
    ");
    assert_eq!(asks("Read").outcome(), "granted");
    let two = Case::new().tools("Write").decide();
    assert_snapshot!(explain(&two), @r"
    refused CAPABILITY_ESCALATION (not-held, exit 80)
    message: `tool:write` is asked for, and the one who asks may not hand it down
    fix: the operator adds `tool:write` to `grant` (line 2 of the policy)
    ");
    let malformed = Case::new().asks(&["tool:read", "tool:read,tool:bash"]).decide();
    assert_snapshot!(explain(&malformed), @r"
    refused CAPABILITY_ESCALATION (not-held, exit 80)
    message: `tool:read,tool:bash` holds ',' in a name, so it is no id that anyone holds
    fix: keep to letters, digits, `.`, `_` and `-`
    ");
    assert_eq!(malformed.considered().denied, ["tool:read,tool:bash"]);
    // No partial grant, and the wildcard does not cover what is malformed.
    let all = Case::new().grant("['tool:*']").asks(&["tool:read", " tool:read"]);
    assert_eq!(all.outcome(), "refused CAPABILITY_ESCALATION");
    assert_eq!(all.asks(&["tool:read"]).uses(), ["tool:read"]);
}

#[test]
fn nothing_granted() {
    let case = Case::new().tools("Read");
    assert_snapshot!(explain(&case.clone().asks(&["tool:grep"]).decide()), @r"
    refused NOTHING_GRANTED (not-held, exit 80)
    message: `tool:grep` is held, but the ceiling of the definition names nothing of it
    fix: leave `--use` out to ask for the whole ceiling, or ask for what it names
    ");
    let partly = case.clone().asks(&["tool:grep", "tool:read"]).granted();
    assert_eq!(partly.considered().clipped.texts(), ["tool:grep"]);
    assert_eq!(partly.considered().effective.texts(), ["tool:read"]);
    // Asking for nothing is not being left with nothing.
    assert_eq!(case.asks(&[]).outcome(), "granted");
}

#[test]
fn narrowing_violated() {
    let case = |tools: &str| Case::new().grant("['tool:*']").tools(tools);
    assert_snapshot!(explain(&case("Read, fabric_exec").decide()), @r"
    refused NARROWING_VIOLATED (not-held, exit 80)
    message: `tool:fabric_exec` confers everything, so no grant that holds it is narrow
    fix: `--use tool:read` would pass now; or ask for what the child needs, without it
    ");
    assert_eq!(case("Read").outcome(), "granted");
    // Also where it is only handed down, and where the policy names it.
    let handed = case("Read, Agent").hands(&["ext:pi-fabric/fabric_exec"]);
    assert_eq!(handed.outcome(), "refused NARROWING_VIOLATED");
    let named = |universal: &str| {
        Case::new()
            .policy(&format!("version: 1\ngrant: [tool:read, agent:*]\nuniversal: [{universal}]\n"))
            .tools("Read(docs/**)")
    };
    assert_eq!(named("tool:read").outcome(), "refused NARROWING_VIOLATED");
    assert_eq!(named("tool:write").outcome(), "granted");
    // Refused before any gate: nobody is asked.
    let gated = case("Read, fabric_exec").with(|case| case.policy.gates = set(&["tool:fabric_exec"]));
    assert_eq!(gated.outcome(), "refused NARROWING_VIOLATED");
}

#[test]
fn implied_not_held() {
    let holding = |grant: &str| {
        Case::new().tools("Bash").policy(&format!(
            "version: 1\ngrant: [{grant}, agent:*]\nsubsumption: {{maker: [bash]}}\naccept: [{{id: tool:bash, as: advisory, why: a test}}]\n"
        ))
    };
    // In a cage a shell has no network that nobody gave it.
    assert_eq!(holding("tool:maker").outcome(), "granted");
    let holding = |grant: &str| holding(grant).uncaged();
    // The maker confers bash by the table, and nobody gave it the network that a shell has.
    assert_snapshot!(explain(&holding("tool:maker").decide()), @r"
    refused IMPLIED_NOT_HELD (not-held, exit 80)
    message: under `lab` at tier 0 the request also confers `tool:web_fetch` and `tool:web_search`, which the one who asks may not hand down
    fix: the operator adds `tool:web_fetch` and `tool:web_search` to `grant` (line 2 of the policy)
    ");
    assert_eq!(holding("tool:maker, tool:web_fetch, tool:web_search").outcome(), "granted");
    assert_eq!(holding("tool:bash").outcome(), "granted");
}

#[test]
fn not_enforceable() {
    let shell = |accept: &str| {
        let policy = format!("version: 1\ngrant: [tool:bash, agent:*]\naccept: [{accept}]\n");
        Case::new().tools("Bash").policy(&policy).uncaged()
    };
    assert_snapshot!(explain(&shell("").decide()), @r"
    refused NOT_ENFORCEABLE (not-enforceable, exit 84)
    message: nothing would hold `tool:bash` to its bounds: it runs programs, and at tier 0 nothing bounds them
    fix: the operator accepts that by name: `accept: [{id: tool:bash, as: advisory, why: …}]` (line 3 of the policy)
    ");
    let accepted = shell("{id: tool:bash, as: advisory, why: this box is a toy}");
    assert_eq!(accepted.outcome(), "granted");
    assert_eq!(shell("{id: tool:read, as: advisory, why: another}").outcome(), "refused NOT_ENFORCEABLE");

    let demands = |tier: Tier, has: Tier| {
        Case::new().with(|case| {
            case.policy.tier = tier;
            case.situation.facts.tier = has;
            case.situation.facts.lacking =
                (has < tier).then(|| "`landlock.scope`: this kernel has none".to_owned());
        })
    };
    assert_snapshot!(explain(&demands(Tier::K, Tier::F).decide()), @r"
    refused NOT_ENFORCEABLE (not-enforceable, exit 84)
    message: the policy demands tier K, and tier F is what holds on this machine: `landlock.scope`: this kernel has none
    fix: `depute doctor` says what is missing and how to get it; or the operator accepts `tier: F` by name in the policy
    ");
    assert_eq!(demands(Tier::K, Tier::K).outcome(), "granted");
    assert_eq!(demands(Tier::Zero, Tier::Zero).outcome(), "granted");
}

#[test]
fn gated_unapproved() {
    let decision = Case::waiting().decide();
    assert_snapshot!(explain(&decision), @r"
    held GATED_UNAPPROVED (waiting-on-human, exit 81)
    message: `tool:grep` waits for a person's yes
    fix: run it at a terminal and answer the question there
    ");
    assert_eq!(decision.considered().gated.texts(), ["tool:grep"]);
    assert_eq!(decision.considered().effective.texts(), ["tool:read"]);
    assert_eq!(Case::waiting().approved("tool:grep").uses(), ["tool:grep", "tool:read"]);
    assert_eq!(Case::waiting().asks(&["tool:read"]).outcome(), "granted");
}

#[test]
fn approval_expired() {
    let until = |end: Option<u64>| {
        Case::waiting().approved("tool:grep").with(|case| case.situation.facts.approvals[0].expires_ms = end)
    };
    let now = Case::waiting().situation.facts.now_ms;
    assert_snapshot!(explain(&until(Some(now)).decide()), @r"
    held APPROVAL_EXPIRED (waiting-on-human, exit 81)
    message: the yes for `tool:grep` has expired
    fix: run it at a terminal and answer the question there
    ");
    assert_eq!(until(Some(now + 1)).outcome(), "granted");
    assert_eq!(until(None).outcome(), "granted");
}

#[test]
fn approval_scope_mismatch() {
    let for_tree = |tree| {
        Case::waiting().approved("tool:grep").with(|case| case.situation.facts.approvals[0].tree = tree)
    };
    assert_snapshot!(explain(&for_tree(Some(digest("before the change"))).decide()), @r"
    held APPROVAL_SCOPE_MISMATCH (waiting-on-human, exit 81)
    message: the yes for `tool:grep` was given for another definition, file or plan
    fix: run it at a terminal and answer the question there
    ");
    assert_eq!(for_tree(Some(Case::waiting().tree())).outcome(), "granted");
    assert_eq!(for_tree(None).outcome(), "held APPROVAL_SCOPE_MISMATCH");
    let other = Case::waiting()
        .approved("tool:grep")
        .with(|case| case.situation.facts.approvals[0].subject = "other".into());
    assert_eq!(other.outcome(), "held APPROVAL_SCOPE_MISMATCH");
    let once = Case::waiting().with(|case| {
        let plan = Scope::Once { plan: digest("another plan") };
        case.situation.facts.approvals.push(case.yes("tool:grep", plan));
    });
    assert_eq!(once.outcome(), "held APPROVAL_SCOPE_MISMATCH");
}

#[test]
fn fanout_exceeded() {
    let used = |agents, running| {
        Case::new().with(|case| {
            case.situation.facts.used.agents = agents;
            case.situation.facts.used.running = running;
        })
    };
    assert_snapshot!(explain(&used(32, 0).decide()), @r"
    refused FANOUT_EXCEEDED (over-budget, exit 80)
    message: the policy allows 32 agents in a tree, and all are taken
    fix: the operator raises `agents` above 32 in the policy
    ");
    assert_snapshot!(explain(&used(31, 4).decide()), @r"
    refused FANOUT_EXCEEDED (over-budget, exit 80)
    message: the policy allows 4 agents at once, and all are at work
    fix: the operator raises `concurrent` above 4 in the policy
    ");
    assert_eq!(used(31, 3).outcome(), "granted");
    let none = Case::new().with(|case| case.policy.limits.agents = 0);
    assert_eq!(none.outcome(), "refused FANOUT_EXCEEDED");
    let none = Case::new().with(|case| case.policy.limits.concurrent = 0);
    assert_eq!(none.outcome(), "refused FANOUT_EXCEEDED");
}

#[test]
fn budget_exceeded() {
    let asks = |deadline_ms, elapsed_ms| {
        Case::new().with(|case| {
            case.request.budget = Some(BudgetRequest { deadline_ms });
            case.situation.facts.used.elapsed_ms = elapsed_ms;
        })
    };
    assert_snapshot!(explain(&asks(Some(600_001), 0).decide()), @r"
    refused BUDGET_EXCEEDED (over-budget, exit 80)
    message: 600001ms is asked for, and 10m is left
    fix: `--deadline 10m` would pass now; or the operator raises `child_deadline` or `deadline` in the policy
    ");
    assert_eq!(asks(Some(600_000), 0).granted().budget().deadline_ms, 600_000);
    // What is left of the tree's hour is less than a child's ten minutes.
    assert_eq!(asks(Some(2001), 3_598_000).outcome(), "refused BUDGET_EXCEEDED");
    assert_eq!(asks(None, 3_598_000).granted().budget().deadline_ms, 2000);
    assert_eq!(asks(None, 3_600_000).outcome(), "refused BUDGET_EXCEEDED");
    assert_eq!(asks(Some(0), 0).outcome(), "refused BUDGET_EXCEEDED");
}

/// A zero is a zero, never a default.
#[test]
fn budget_exceeded_where_nothing_may_be_spent() {
    let limited = |limits: &str| {
        Case::new()
            .policy(&format!("version: 1\ngrant: [tool:read, tool:grep, agent:*]\nlimits: {{{limits}}}\n"))
    };
    assert_snapshot!(explain(&limited("usd: 0").decide()), @r"
    refused BUDGET_EXCEEDED (over-budget, exit 80)
    message: the policy allows 0 usd, and any child may spend some
    fix: the operator raises `usd` above 0, or sets it to null (line 3 of the policy)
    ");
    assert_eq!(limited("tokens: 0").outcome(), "refused BUDGET_EXCEEDED");
    assert_eq!(limited("deadline: 0s").outcome(), "refused BUDGET_EXCEEDED");
    assert_eq!(limited("child_deadline: 0s").outcome(), "refused BUDGET_EXCEEDED");
    assert_eq!(limited("tokens: null, usd: null").outcome(), "granted");
}

/// Nothing hands skills and extensions to a runtime yet, so they stop at step 9 and step 17 is not
/// reached. The day they are expressible, this test fails and wants its sibling.
#[test]
fn resource_not_found_is_not_reached_yet() {
    let case = |ids: &str| Case::new().grant("['tool:*']").tools(ids);
    assert_eq!(case("Read, skill:review").outcome(), "refused NOT_EXPRESSIBLE");
    assert_eq!(case("Read, ext:pkg/run").outcome(), "refused NOT_EXPRESSIBLE");
    assert_eq!(case("Read").outcome(), "granted");
}

/// A situation that contradicts its request is no way around the definition.
#[test]
fn a_situation_that_does_not_fit_the_request_grants_nothing() {
    let fit = Case::new().asks(&["tool:read"]);
    assert_eq!(fit.outcome(), "granted");
    let without_file = fit.clone().with(|case| case.situation.definition = None);
    assert_eq!(without_file.outcome(), "refused DEFINITION_UNREADABLE");
    let inline = without_file.with(|case| case.situation.facts.definition = DefinitionFact::Inline);
    assert_eq!(inline.outcome(), "refused UNKNOWN_DEFINITION");
}
