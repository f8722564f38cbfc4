//! What decisions mean, beyond which check fails: gates, the two rights, overlays, approvals, scopes,
//! workspaces, and the digest of a plan.

use depute::capability::AskedId;
use depute::definition::{Definition, DefinitionKind, TreeEntry, TreeError, TreeKind, tree_digest};
use depute::definition::{MAX_TREE_BYTES, MAX_TREE_ENTRIES};
use depute::plan::{AskedUse, BudgetRequest, Decision, DefinitionFact, Enforcer, Scope, Subject};
use depute::runtime::{EnvValue, Tier};
use depute_ledger::Digest;

use super::support::{
    Case, asked, builtin, digest, id, name, outcome, placed, policy, profile, set, shipped,
};

/// Accepts every tool by name, so that tests about other checks can use a shell.
const ACCEPTED: &str = "\
accept:
  - {id: tool:bash, as: advisory, why: a test}
  - {id: 'tool:bash(git:*)', as: advisory, why: a test}
  - {id: tool:read, as: advisory, why: a test}
  - {id: tool:write, as: advisory, why: a test}
  - {id: 'tool:write(docs/**)', as: advisory, why: a test}
";

fn holding(grant: &str, more: &str) -> Case {
    Case::new().policy(&format!("version: 1\ngrant: {grant}\n{more}"))
}

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
        let text = format!("version: 1\ngrant: [tool:read, agent:*]\noverlays: [{{definition: helper, digest: '{}', allow: [agent:other]}}]\ngates: [agent:deploy]\n", undeclared_tree());
        case.policy = policy(&text);
        let file = undeclared();
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

// --- two rights ---

#[test]
fn a_coordinator_without_hands_hands_down_what_it_may_not_use() {
    let tree = undeclared_tree();
    let held = "{use: [agent:*], delegate: [tool:read, tool:bash, tool:delegate, agent:tester]}";
    let root = holding(
        held,
        &format!(
            "overlays: [{{definition: helper, digest: '{tree}', use: [tool:read, tool:delegate, agent:tester], delegate: [tool:read, tool:bash]}}]\n{ACCEPTED}"
        ),
    );
    let coordinator = undeclared_in(root).hands(&["tool:read", "tool:bash"]);
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

// --- overlays ---

fn undeclared() -> Case {
    Case::new().file("color: red")
}

fn undeclared_tree() -> Digest {
    undeclared().tree()
}

fn undeclared_in(case: Case) -> Case {
    case.file("color: red")
}

fn overlaid(overlay: &str) -> Case {
    undeclared_in(holding("[tool:read, tool:write, tool:grep, agent:*]", &format!("overlays: [{overlay}]\n")))
}

#[test]
fn an_overlay_makes_an_undeclared_definition_spawnable() {
    let tree = undeclared_tree();
    assert_eq!(undeclared().outcome(), "refused UNDECLARED_TOOLS");
    let case = overlaid(&format!("{{definition: helper, digest: '{tree}', allow: [tool:read]}}"));
    assert_eq!(case.uses(), ["tool:read"]);
    // It is for that name and those bytes.
    let other = overlaid(&format!("{{definition: other, digest: '{tree}', allow: [tool:read]}}"));
    assert_eq!(other.outcome(), "refused UNDECLARED_TOOLS");
    // More than the overlay names is clipped, more than is held is denied.
    assert_eq!(case.clone().asks(&["tool:grep"]).outcome(), "refused NOTHING_GRANTED");
    let edit = overlaid(&format!("{{definition: helper, digest: '{tree}', allow: [tool:edit]}}"));
    assert_eq!(edit.outcome(), "refused CAPABILITY_ESCALATION");
}

#[test]
fn a_changed_file_voids_its_overlay_and_the_refusal_says_so() {
    let before = digest("the file as it was");
    let decision =
        overlaid(&format!("{{definition: helper, digest: '{before}', allow: [tool:read]}}")).decide();
    assert_eq!(outcome(&decision), "refused UNDECLARED_TOOLS");
    let message = &decision.refusal().unwrap().message;
    assert_eq!(
        message,
        "`helper` declares no tools, and the overlay for it is void since the file has changed"
    );
    let now =
        overlaid(&format!("{{definition: helper, digest: '{}', allow: [tool:read]}}", undeclared_tree()));
    assert_eq!(now.uses(), ["tool:read"]);
    // What bounded a declared file does not fall away when the file changes.
    let declared = |digest: Digest| {
        let text = format!("overlays: [{{definition: helper, digest: '{digest}', allow: [tool:read]}}]\n");
        holding("[tool:read, tool:grep, agent:*]", &text).tools("Read, Grep")
    };
    assert_eq!(declared(Case::new().tools("Read, Grep").tree()).uses(), ["tool:read"]);
    let decision = declared(before).decide();
    assert_eq!(outcome(&decision), "refused UNDECLARED_TOOLS");
    assert_eq!(
        decision.refusal().unwrap().message,
        "`helper` declares tools, but the overlay that bounds it is void since the file has changed"
    );
}

#[test]
fn an_overlay_narrows_a_declared_file_and_never_widens_it() {
    let with = |tools: &str, allow: &str| {
        let file = Case::new().tools(tools);
        let text = format!(
            "overlays: [{{definition: helper, digest: '{}', allow: [{allow}]}}]\n{ACCEPTED}",
            file.tree()
        );
        holding("['tool:*', 'agent:*']", &text).tools(tools)
    };
    assert_eq!(with("Read, Grep", "tool:read").uses(), ["tool:read"]);
    assert_eq!(with("Read", "tool:read, tool:write, tool:grep").uses(), ["tool:read"]);
    assert_eq!(with("Write", "tool:write(docs/**)").uses(), ["tool:write(docs/**)"]);
    assert_eq!(with("Write(docs/**)", "tool:write").uses(), ["tool:write(docs/**)"]);
    // A shell in the overlay does not stand for the tools it subsumes, nor the other way round.
    assert_eq!(with("Write", "tool:bash").uses(), Vec::<String>::new());
    assert_eq!(with("Bash", "tool:write").uses(), Vec::<String>::new());
    assert_eq!(with("", "tool:read").uses(), Vec::<String>::new());
}

#[test]
fn an_overlay_gives_nothing_back_that_the_file_takes_away() {
    let keys = "disallowedTools: Write, Bash";
    let tree = Case::new().file(keys).tree();
    let text = format!(
        "overlays: [{{definition: helper, digest: '{tree}', allow: [tool:read, tool:write, 'tool:write(docs/**)', tool:bash]}}]\n"
    );
    assert_eq!(holding("['tool:*', 'agent:*']", &text).file(keys).uses(), ["tool:read"]);
}

#[test]
fn an_overlay_never_mends_an_unreadable_file() {
    let text = b"---\ndescription: a: b\ntools: Read\n---\n".to_vec();
    let problem = Definition::read(text.clone(), DefinitionKind::Agent, name("helper")).unwrap_err();
    let case =
        overlaid(&format!("{{definition: helper, digest: '{}', allow: [tool:read]}}", undeclared_tree()));
    assert_eq!(case.outcome(), "granted");
    let case = case.with(|case| {
        case.situation.facts.definition = DefinitionFact::Unreadable {
            origin: depute::plan::Origin::User,
            trusted: true,
            message: placed("helper.md", &text, problem),
            fix: None,
        };
        case.situation.definition = None;
    });
    assert_eq!(case.outcome(), "refused DEFINITION_UNREADABLE");
}

// --- approvals ---

fn waiting() -> Case {
    holding("[tool:read, tool:grep, agent:*]", "gates: [tool:grep]\n")
}

#[test]
fn a_once_approval_opens_exactly_the_plan_it_was_given_for() {
    let Decision::Held(hold) = waiting().decide() else { panic!("not held") };
    let plan = hold.considered.digests.plan.unwrap();
    let once = |case: Case| {
        let yes = case.yes("tool:grep", Scope::Once { plan });
        case.with(|case| case.situation.facts.approvals.push(yes))
    };
    let granted = once(waiting()).granted();
    assert_eq!(granted.considered().digests.plan, Some(plan), "the plan is the one that was shown");
    assert_eq!(granted.considered().approvals.len(), 1);
    assert_eq!(once(waiting().asks(&["tool:grep"])).outcome(), "held APPROVAL_SCOPE_MISMATCH");
    let shorter =
        waiting().with(|case| case.request.budget = Some(BudgetRequest { deadline_ms: Some(1000) }));
    assert_eq!(once(shorter).outcome(), "held APPROVAL_SCOPE_MISMATCH");
}

#[test]
fn session_and_always_approvals_bind_capability_name_and_tree() {
    for scope in [Scope::Session, Scope::Always] {
        let yes = waiting().yes("tool:grep", scope);
        let with = |change: fn(&mut depute::plan::Approval)| {
            let mut yes = yes.clone();
            change(&mut yes);
            waiting().with(|case| case.situation.facts.approvals.push(yes)).outcome()
        };
        assert_eq!(with(|_| ()), "granted");
        assert_eq!(with(|yes| yes.expires_ms = Some(1_000_001)), "granted");
        assert_eq!(with(|yes| yes.expires_ms = Some(1_000_000)), "held APPROVAL_EXPIRED");
        assert_eq!(with(|yes| yes.tree = Some(digest("before"))), "held APPROVAL_SCOPE_MISMATCH");
        assert_eq!(with(|yes| yes.subject = "other".into()), "held APPROVAL_SCOPE_MISMATCH");
        assert_eq!(with(|yes| yes.capability = id("tool:read")), "held GATED_UNAPPROVED");
    }
    // Another request of the same definition passes too: that is what a session means.
    assert_eq!(waiting().approved("tool:grep").asks(&["tool:grep"]).outcome(), "granted");
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
        waiting().asks(&["tool:grep"]).with(|case| {
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
    let case = waiting().approved("tool:grep").with(|case| {
        let mut stale = case.yes("tool:grep", Scope::Session);
        stale.expires_ms = Some(1);
        case.situation.facts.approvals.insert(0, stale);
    });
    assert_eq!(case.outcome(), "granted");
}

// --- scopes and workspaces ---

fn routed(case: Case) -> Case {
    case.with(|case| {
        case.situation.facts.workspaces = vec!["side".into()];
        case.request.workspace = Some("side".into());
    })
}

#[test]
fn a_path_scope_covers_nothing_in_another_workspace() {
    let case = holding(
        "['tool:read(docs/**)', 'tool:grep', 'tool:web_fetch(domain:example.com)', 'agent:*', 'workspace:side']",
        "",
    );
    let here = case.clone().tools("Read(docs/**)");
    assert_eq!(here.uses(), ["tool:read(docs/**)"]);
    assert_eq!(routed(here).outcome(), "refused CAPABILITY_ESCALATION");
    // What is not a path goes along, and what is held whole may be narrowed there.
    assert_eq!(routed(case.clone().tools("WebFetch(domain:example.com)")).outcome(), "granted");
    assert_eq!(routed(case.tools("Grep(src/**)")).uses(), ["tool:grep(src/**)"]);
}

#[test]
fn scopes_narrow_and_never_widen() {
    let held =
        |scope: &str, asks: &str| holding(&format!("['{scope}', 'agent:*']"), ACCEPTED).tools(asks).outcome();
    assert_eq!(held("tool:write(docs/**)", "Write(docs/api/**)"), "granted");
    assert_eq!(held("tool:write(docs/**)", "Write(docs/x.md)"), "granted");
    assert_eq!(held("tool:write(docs/**)", "Write(./docs//x.md)"), "granted");
    for wider in
        ["Write", "Write(**)", "Write(docs)", "Write(docs2/x.md)", "Write(docs/*.md)", "Write(src/**)"]
    {
        assert_eq!(held("tool:write(docs/**)", wider), "refused CAPABILITY_ESCALATION", "{wider}");
    }
    let commands = |held: &str, asks: &str| id(held).covers(&id(asks), &builtin());
    use depute::capability::Cover::{Direct, No};
    assert_eq!(commands("tool:bash(git:*)", "tool:bash(git log:*)"), Direct);
    assert_eq!(commands("tool:bash(git *)", "tool:bash(git status)"), Direct);
    for apart in
        ["tool:bash(gitk:*)", "tool:bash(git log; rm x)", "tool:bash(git $(x))", "tool:bash", "tool:read"]
    {
        assert_eq!(commands("tool:bash(git:*)", apart), No, "{apart}");
    }
    assert_eq!(commands("tool:bash(git log | sh)", "tool:bash(git log | sh)"), Direct, "its equal");
    assert_eq!(commands("tool:bash", "tool:bash(git log | sh)"), Direct, "the whole tool");
    let hosts = |held: &str, asks: &str| {
        commands(&format!("tool:web_fetch(domain:{held})"), &format!("tool:web_fetch(domain:{asks})"))
    };
    assert_eq!(hosts("example.com", "Example.COM"), Direct);
    assert_eq!(hosts("*.example.com", "a.b.example.com"), Direct);
    for apart in [
        ("example.com", "a.example.com"),
        ("*.example.com", "example.com"),
        ("*.example.com", "badexample.com"),
    ] {
        assert_eq!(hosts(apart.0, apart.1), No, "{apart:?}");
    }
}

#[test]
fn malformed_scopes_are_denied_even_under_the_wildcard() {
    let case = holding("['tool:*', 'agent:*']", "");
    let malformed = [
        "tool:write(../x)",
        "tool:write(docs/../../x)",
        "tool:write(/etc)",
        "tool:write(~/x)",
        "tool:write(./~/x)",
        "tool:write()",
        "tool:write(*)",
        "tool:write(./*)",
        "tool:bash(*)",
        "tool:bash(:*)",
        "tool:bash(${X})",
        "tool:write(docs/)",
        "tool:write(docs/**",
        "tool:write)",
        "tool:web_fetch(domain:)",
        "tool:web_fetch(domain:*)",
        "tool:read(a\u{200b}b)",
        "tool:bash(git\nrm)",
        "tool:write(./ docs)",
        "agent:x(y)",
        "mcp:*/get",
        "ext:pkg/*",
        "skill:*",
    ];
    for text in malformed {
        let decision = case.clone().asks(&["tool:read", text]).decide();
        assert_eq!(outcome(&decision), "refused CAPABILITY_ESCALATION", "{text}");
        assert_eq!(decision.considered().denied, [text]);
    }
    assert_eq!(case.asks(&["tool:read"]).outcome(), "granted");
}

// --- what is asked ---

#[test]
fn the_fix_names_a_request_that_passes_as_printed() {
    let cases = [
        holding("[tool:read, tool:grep, agent:*]", "").tools("Read, Grep, Write, Edit"),
        holding("['tool:read(docs/**)', 'tool:grep', 'agent:*']", "").tools("Read(docs/**), Grep, Write"),
        holding("['tool:*', 'agent:*']", "").tools("Read, fabric_exec, Grep"),
        holding("['tool:*', 'agent:*']", "").tools("Read, Bash"),
        holding("['tool:*', 'agent:*']", "").tools("Read, find, mcp__gh__get"),
        // Each alone would pass, both together would not: the shell's own flags hold nothing then.
        holding("[tool:bash, tool:grep, agent:*]", ACCEPTED).tools("Bash, Grep, Glob"),
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
}

#[test]
fn a_ceiling_is_no_wildcard_and_subsumes_nothing() {
    let case = |tools: &str| holding("['tool:*', 'agent:*']", ACCEPTED).tools(tools);
    assert_eq!(case("Bash").asks(&["tool:write"]).outcome(), "refused NOTHING_GRANTED");
    assert_eq!(case("Bash, Write").asks(&["tool:write"]).uses(), ["tool:write"]);
    // A scoped form of a tool it names is inside.
    assert_eq!(case("Write").asks(&["tool:write(docs/**)"]).uses(), ["tool:write(docs/**)"]);
    assert_eq!(case("Write(docs/**)").asks(&["tool:write"]).outcome(), "refused NOTHING_GRANTED");
}

#[test]
fn every_wildcard_in_a_definition_is_refused() {
    for entry in [
        "'*'",
        "'tool:*'",
        "'agent:*'",
        "'workspace:*'",
        "mcp__gh__*",
        "'mcp:gh/*'",
        "Agent(*)",
        "Skill(*)",
        "Bash(*)",
        "mcp__gh",
    ] {
        let text = format!("---\ndescription: d\ntools: [Read, {entry}]\n---\n");
        let problem = Definition::read(text.into_bytes(), DefinitionKind::Agent, name("helper")).unwrap_err();
        assert_eq!(problem.rule, "wildcard", "{entry}");
    }
    let text = b"---\ndescription: d\ntools: [Read, mcp__gh__get]\n---\n".to_vec();
    assert!(Definition::read(text, DefinitionKind::Agent, name("helper")).is_ok());
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
    let held = waiting().decide();
    assert!(held.considered().budget.is_some() && held.considered().digests.plan.is_some());
}

// --- enforcement ---

#[test]
fn the_table_says_who_holds_each_capability() {
    let rows = |case: &Case| -> Vec<(String, Enforcer)> {
        let decision = case.decide();
        decision.considered().enforcement.iter().map(|row| (row.capability.to_string(), row.by)).collect()
    };
    let case = holding("['tool:*', 'agent:*']", "").tools("Read, Agent(x)");
    let broker = |id: &str| (id.to_owned(), Enforcer::Broker);
    assert_eq!(
        rows(&case),
        [broker("agent:x"), broker("tool:delegate"), ("tool:read".into(), Enforcer::Runtime)]
    );
    // Beside a shell no flag of the runtime holds.
    let shell = case.clone().tools("Read, Bash");
    assert_eq!(
        rows(&shell),
        [("tool:bash".into(), Enforcer::Nothing), ("tool:read".into(), Enforcer::Nothing)]
    );
    assert_eq!(shell.outcome(), "refused NOT_ENFORCEABLE");
    let accepted = holding("['tool:*', 'agent:*']", ACCEPTED).tools("Read, Bash");
    assert_eq!(
        rows(&accepted),
        [("tool:bash".into(), Enforcer::Advisory), ("tool:read".into(), Enforcer::Advisory)]
    );
    assert_eq!(accepted.outcome(), "granted");
    // A runtime that reads the whole disk holds no file tool.
    let pi = case.tools("Read").with(|case| {
        case.situation.profile = shipped("pi");
        case.request.model = Some("mock/mock-model".into());
    });
    assert_eq!(rows(&pi), [("tool:read".into(), Enforcer::Nothing)]);
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
    for case in [Case::new(), waiting(), Case::new().tools("Write")] {
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

#[test]
fn a_hint_never_leads_to_a_shell() {
    use depute::capability::{ToolName, vocabulary};
    let advice = |name: &str| vocabulary::advice(&ToolName::parse(name).unwrap());
    assert_eq!(advice("Skill"), "name each skill: `Skill(name)`");
    assert_eq!(advice("serch"), "name a tool that some runtime has, or remove it");
    assert_eq!(advice("grepp"), "did you mean `tool:grep`?");
    assert_eq!(advice("web-fetch"), "did you mean `tool:web_fetch`?");
    for name in ["shel", "shelf", "bas", "bash2", "run_shell"] {
        assert!(!advice(name).contains("bash"), "{name}");
    }
}
