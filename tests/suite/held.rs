//! What holds each capability in a cage, and what no cage can hold.

use depute::plan::{Enforcer, PlaceFact};
use depute::runtime::Tier;
use insta::assert_snapshot;

use super::support::{Case, explain, holding, id, profile, shipped};

/// The enforcement table for the eye.
fn table(case: &Case) -> String {
    let decision = case.decide();
    let rows = decision.considered().enforcement.iter();
    rows.map(|row| format!("{:<8} {}: {}\n", row.by.as_str(), row.capability, row.how)).collect()
}

fn everything(tools: &str) -> Case {
    holding("['tool:*', 'agent:*']", "").tools(tools)
}

#[test]
fn files_are_held_by_the_kernel_at_their_places() {
    let case = everything("Read, Grep, Write(docs/**), Edit(notes/today.md), Agent(x)");
    assert_snapshot!(table(&case), @r"
    broker   agent:x: only the broker spawns definitions
    broker   tool:delegate: only the broker hands down
    kernel   tool:edit(notes/today.md): the kernel opens `notes/today.md` for reading and writing
    kernel   tool:grep: the kernel opens the workspace for reading
    kernel   tool:read: the kernel opens the workspace for reading
    kernel   tool:write(docs/**): the kernel opens `docs` for writing
    ");
    // A wider one beside it opens more, and that is said.
    assert_snapshot!(table(&everything("Read(docs/**), Grep, Write(docs/api/**), Bash")), @r"
    kernel   tool:bash: the cage holds all that it starts
    kernel   tool:grep: the kernel opens the workspace for reading
    kernel   tool:read(docs/**): the kernel opens `docs` for reading; `tool:bash` opens more
    kernel   tool:write(docs/api/**): the kernel opens `docs/api` for writing; `tool:bash` opens more
    ");
}

#[test]
fn a_right_to_write_all_reaches_what_git_runs() {
    assert_snapshot!(table(&everything("Write")), @"kernel   tool:write: the kernel opens the workspace for writing, and what git runs there");
}

/// No flag of a runtime holds where programs run that ask for no tool.
#[test]
fn a_tool_of_the_runtime_alone_is_held_by_nothing_beside_a_shell() {
    let frob = super::support::LAB
        .replace("  delegate:", "  frob: {native: frob, runs_programs: false}\n  delegate:");
    let case = |tools: &str| everything(tools).with(|case| case.situation.profile = profile(&frob));
    assert_snapshot!(table(&case("frob")), @"runtime  tool:frob: the list of tools");
    assert_eq!(case("frob").outcome(), "granted");
    assert_eq!(case("frob, Bash").outcome(), "refused NOT_ENFORCEABLE");
}

#[test]
fn hosts_are_held_by_the_broker_whose_proxy_is_the_only_way_out() {
    assert_snapshot!(table(&everything("WebFetch(domain:example.com), WebSearch(domain:*.example.org)")), @r"
    broker   tool:web_fetch(domain:example.com): the kernel leaves it the broker's proxy alone, which connects to `example.com`
    broker   tool:web_search(domain:*.example.org): the kernel leaves it the broker's proxy alone, which connects to hosts below `example.org`
    ");
    assert_snapshot!(table(&everything("WebFetch")), @"broker   tool:web_fetch: the kernel leaves it the broker's proxy alone, which connects to public hosts");
    let nameless = everything("WebFetch(example)");
    assert_eq!(nameless.outcome(), "refused NOT_ENFORCEABLE", "{}", table(&nameless));
}

#[test]
fn no_cage_tells_one_command_from_another() {
    let case = everything("Bash(git:*)");
    assert_snapshot!(explain(&case.decide()), @r"
    refused NOT_ENFORCEABLE (not-enforceable, exit 84)
    message: nothing would hold `tool:bash(git:*)` to its bounds: no cage tells one command from another, so it is all of `tool:bash`
    fix: the operator accepts that by name: `accept: [{id: tool:bash(git:*), as: advisory, why: …}]` in the policy
    ");
    let accept = "accept: [{id: 'tool:bash(git:*)', as: advisory, why: a help and no fence}]\n";
    let accepted = holding("[tool:bash, agent:*]", accept).tools("Bash(git:*)");
    assert_eq!(accepted.outcome(), "granted");
    assert_eq!(accepted.granted().considered().enforcement[0].by, Enforcer::Advisory);
    // It confers the whole shell, which the one who asks has to hold.
    let scoped = holding("['tool:bash(git:*)', agent:*]", &format!("gates: [tool:bash]\n{accept}"));
    assert_eq!(scoped.tools("Bash(git:*)").outcome(), "held GATED_UNAPPROVED");
}

#[test]
fn a_pattern_is_refused_or_widened_in_words() {
    let case = |accept: &str| holding("[tool:write, agent:*]", accept).tools("Write(docs/*.md)");
    assert_snapshot!(explain(&case("").decide()), @r"
    refused NOT_ENFORCEABLE (not-enforceable, exit 84)
    message: nothing would hold `tool:write(docs/*.md)` to its bounds: no rule of the kernel holds a pattern, so it is widened to all of `docs`
    fix: the operator accepts that by name: `accept: [{id: tool:write(docs/*.md), as: advisory, why: …}]` in the policy
    ");
    let accept = "accept: [{id: 'tool:write(docs/*.md)', as: advisory, why: all of docs is fine}]\n";
    let widened = case(accept);
    assert_eq!(widened.outcome(), "granted");
    assert_snapshot!(table(&widened), @"advisory tool:write(docs/*.md): no rule of the kernel holds a pattern, so it is widened to all of `docs`; accepted: all of docs is fine");
    // What it is widened to has to be held, and its gates are asked.
    let gated = holding("[tool:write, agent:*]", &format!("gates: ['tool:write(docs/api/**)']\n{accept}"));
    assert_eq!(gated.tools("Write(docs/*.md)").outcome(), "held GATED_UNAPPROVED");
    let elsewhere = holding("[tool:write, agent:*]", &format!("gates: ['tool:write(src/**)']\n{accept}"));
    assert_eq!(elsewhere.tools("Write(docs/**)").outcome(), "granted");
}

#[test]
fn a_scope_is_for_what_is_there() {
    let found = |tools: &str, place: &str, found: PlaceFact| {
        everything(tools).with(|case| {
            case.situation.facts.places.insert(place.to_owned(), found);
        })
    };
    let mut said = String::new();
    for (tools, place, fact) in [
        ("Write(docs/**)", "docs", PlaceFact::Missing),
        ("Write(docs/x.md)", "docs/x.md", PlaceFact::Missing),
        ("Write(docs/**)", "docs", PlaceFact::Link),
        ("Write(docs/**)", "docs", PlaceFact::File),
        ("Write(docs)", "docs", PlaceFact::Directory),
        ("Read(docs/**)", "docs", PlaceFact::Other),
    ] {
        let case = found(tools, place, fact);
        let decision = case.decide();
        let refusal = decision.refusal().unwrap();
        assert_eq!(case.outcome(), "refused NOT_ENFORCEABLE");
        said += &format!("{}; {}\n", refusal.message, refusal.fix);
        // Without a cage there is no rule that would be for another place.
        assert_eq!(case.uncaged().outcome(), "granted");
    }
    assert_snapshot!(said, @r"
    `tool:write(docs/**)` cannot be held: `docs` beneath the workspace is not there; make the directory first, or ask for what is there
    `tool:write(docs/x.md)` cannot be held: `docs/x.md` beneath the workspace is not there; make the file first, or ask for what is there
    `tool:write(docs/**)` cannot be held: `docs` beneath the workspace is a link, or lies behind one: what it leads to may be anywhere; ask for the place that it leads to, or put a directory there
    `tool:write(docs/**)` cannot be held: `docs` beneath the workspace is a file, and the scope names a directory; ask for `docs`
    `tool:write(docs)` cannot be held: `docs` beneath the workspace is a directory, and the scope names one file; ask for `docs/**`
    `tool:read(docs/**)` cannot be held: `docs` beneath the workspace is neither a file nor a directory that can be looked at; put a directory there
    ");
    assert_eq!(found("Write(docs/**)", "docs", PlaceFact::Directory).outcome(), "granted");
    assert_eq!(found("Write(docs/x.md)", "docs/x.md", PlaceFact::File).outcome(), "granted");
    // What has to be looked for before the decision.
    let asks = [id("tool:write(docs/**)"), id("tool:read(x.md)"), id("tool:grep"), id("agent:x")];
    let places = depute::plan::places(&asks, &everything("Read").situation.profile);
    let expected = [("docs".to_owned(), PlaceFact::Directory), ("x.md".to_owned(), PlaceFact::File)];
    assert_eq!(places.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_cage_holds_scopes_that_a_runtime_cannot_be_told() {
    let lab = super::support::LAB.replace(", scopes: true", "");
    let case = |tools: &str| everything(tools).with(|case| case.situation.profile = profile(&lab));
    assert_eq!(case("Read(docs/**)").outcome(), "granted");
    assert_eq!(case("WebFetch(domain:example.com)").outcome(), "granted");
    assert_eq!(case("Read(docs/**)").uncaged().outcome(), "refused NOT_EXPRESSIBLE");
    assert_eq!(case("Bash(git:*)").outcome(), "refused NOT_EXPRESSIBLE");
}

#[test]
fn a_weaker_tier_is_taken_where_the_policy_names_it() {
    let on = |machine: Tier, policy: &str| {
        holding("[tool:read, agent:*]", policy).tools("Read").with(|case| case.situation.facts.tier = machine)
    };
    assert_eq!(on(Tier::F, "").outcome(), "refused NOT_ENFORCEABLE");
    assert_eq!(on(Tier::F, "tier: F\n").outcome(), "granted");
    assert_eq!(on(Tier::F, "tier: F\n").granted().spec().tier, Tier::F);
    assert_eq!(on(Tier::Zero, "tier: F\n").outcome(), "refused NOT_ENFORCEABLE");
    assert_eq!(on(Tier::Zero, "tier: 0\n").outcome(), "granted");
    assert_eq!(on(Tier::K, "tier: N\n").outcome(), "refused NOT_ENFORCEABLE");
    // Under a runtime that reads the whole disk, nothing holds a reader there.
    let pi = on(Tier::Zero, "tier: 0\n").with(|case| {
        case.situation.profile = shipped("pi");
        case.request.model = Some("mock/mock-model".into());
    });
    assert_eq!(pi.outcome(), "refused NOT_ENFORCEABLE");
}

#[test]
fn no_node_may_write_where_depute_keeps_what_binds_it() {
    let case = |tools: &str, more: &str| {
        holding("['tool:*', 'agent:*']", more).tools(tools).with(|case| {
            case.situation.facts.kept = vec!["/workspace/.local/state/depute".into(), "/srv/ledger".into()];
        })
    };
    assert_snapshot!(explain(&case("Bash", "").decide()), @r"
    refused NOT_ENFORCEABLE (not-enforceable, exit 84)
    message: `/workspace` would be open for writing, and with it `/workspace/.local/state/depute`, where depute keeps what no node may write
    fix: work in a directory that does not hold it, or move it with `--ledger`, `XDG_STATE_HOME` or `XDG_CONFIG_HOME`
    ");
    assert_eq!(case("Write(.local/**)", "").outcome(), "refused NOT_ENFORCEABLE");
    assert_eq!(case("Write(.local/state/depute/x/**)", "").outcome(), "refused NOT_ENFORCEABLE");
    assert_snapshot!(explain(&case("Read", "paths: {write: [/srv]}\n").decide()), @r"
    refused NOT_ENFORCEABLE (not-enforceable, exit 84)
    message: `/srv` would be open for writing, and with it `/srv/ledger`, where depute keeps what no node may write
    fix: the operator names narrower places in `paths` (line 3 of the policy)
    ");
    // Beside it, and for reading, it is nobody's harm.
    for granted in [
        case("Read", ""),
        case("Write(docs/**)", ""),
        case("Read", "paths: {read: [/srv], write: [/srv/out]}\n"),
    ] {
        assert_eq!(granted.outcome(), "granted");
    }
}
