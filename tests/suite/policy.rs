//! What a policy may not say: each with its place, the rule and the smallest fix.

use depute::diagnostic::Diagnostic;
use depute::policy::{BUILTIN, Narrowing, Policy, Quota};
use depute::runtime::Tier;

use super::support::{Case, placed};

fn read(body: &str) -> String {
    let source = whole(body);
    match Policy::read(source.as_bytes()) {
        Ok(_) => "fine".to_owned(),
        Err(problem) => placed("p.yaml", source.as_bytes(), problem),
    }
}

#[test]
fn the_built_in_policy_reads_and_nothing_else() {
    let policy = Policy::read(BUILTIN.as_bytes()).unwrap();
    assert_eq!(policy.grant.uses.texts(), ["agent:*", "tool:glob", "tool:grep", "tool:ls", "tool:read"]);
    assert_eq!(policy.grant.uses, policy.grant.delegate);
    assert_eq!(policy.gates.texts(), ["tool:bash"]);
    assert!(
        policy.accept.is_empty() && policy.env.is_empty() && !policy.inline && policy.overlays.is_empty()
    );
    assert_eq!((policy.limits.depth, policy.limits.agents, policy.limits.concurrent), (2, 32, 4));
    assert_eq!((policy.limits.deadline_ms, policy.limits.child_deadline_ms), (3_600_000, 600_000));
    assert_eq!(policy.tier, Tier::K);
}

#[test]
fn what_is_written_is_what_is_read() {
    let source = "version: 1\ngrant: {use: [tool:read], delegate: [tool:read, tool:bash]}\nlimits: {depth: 0, agents: 1, deadline: 90s, child_deadline: 250ms, tokens: 5, usd: 2.5}\ntier: K\n";
    let policy = Policy::read(source.as_bytes()).unwrap();
    assert_eq!(
        (policy.grant.uses.texts(), policy.grant.delegate.texts()),
        (vec!["tool:read".to_owned()], vec!["tool:bash".to_owned(), "tool:read".to_owned()])
    );
    assert_eq!((policy.limits.depth, policy.limits.agents), (0, 1), "a zero is a zero");
    assert_eq!((policy.limits.deadline_ms, policy.limits.child_deadline_ms), (90_000, 250));
    assert_eq!((policy.limits.tokens, policy.limits.micro_usd), (Quota::AtMost(5), Quota::AtMost(2_500_000)));
    assert_eq!(policy.tier, Tier::K);
}

fn whole(body: &str) -> String {
    format!("version: 1\ngrant: []\n{body}\n")
}

const DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// Policies that are refused, each for one thing.
pub(crate) fn not_to_be_said() -> Vec<String> {
    let digest = DIGEST;
    let overlay = format!("{{definition: a, digest: '{digest}', allow: [tool:read]}}");
    let bodies = [
        "gate: [tool:bash]",
        "limits: {dept: 1}",
        "limits: {depth: 1_000}",
        "limits: {depth: -1}",
        "limits: {deadline: 10}",
        "limits: {usd: 1.2345678}",
        "gates: [tool:b*]",
        "gates: [bash]",
        "gates: [tool:run_shell_command]",
        "gates: tool:bash",
        "gates: [~]",
        "gates: [tool:read(../x)]",
        "gates: [mcp:*/x]",
        "accept: [{id: tool:*, as: advisory, why: x}]",
        "accept: [{id: tool:bash, as: kernel, why: x}]",
        "accept: [{id: tool:bash, as: advisory}]",
        "env: [PATH]",
        "env: [LD_PRELOAD]",
        "env: [\"A*\"]",
        "roots: [skills]",
        "roots: [/a/../b]",
        "tier: Z",
        "inline: maybe",
        "subsumption: {bash: [read_file]}",
        "overlays: [{definition: a, digest: abc, allow: []}]",
        &format!("overlays: [{overlay}, {overlay}]"),
        &format!("overlays: [{{definition: a, digest: '{digest}', allow: [agent:*]}}]"),
        "locked: [gate]",
        "locked: [gates, runtime]",
        "locked: [locked]",
        "locked: [colours]",
        "locked: gates",
        "tests: [{name: x, request: {use: []}, expect: yes}]",
        "tests: [{name: x, request: {use: []}, expect: allowed}]",
        "grant: [tool:read]",
        "x: &a 1",
    ];
    bodies.map(whole).to_vec()
}

#[test]
fn what_it_may_not_say_has_a_place() {
    let overlay = format!("{{definition: a, digest: '{DIGEST}', allow: [tool:read]}}");
    let said = |source: &String| match Policy::read(source.as_bytes()) {
        Ok(_) => "fine".to_owned(),
        Err(problem) => placed("p.yaml", source.as_bytes(), problem),
    };
    let found = not_to_be_said().iter().map(said).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(found, @r"
    p.yaml:3:1: `gate` is not a key of a policy; did you mean `gates`?
    p.yaml:3:10: `dept` is not a key of `limits`; did you mean `depth`?
    p.yaml:3:17: `depth` is a whole number, not `1_000`; write it in decimal digits, such as `3`
    p.yaml:3:17: `depth` is a whole number, not `-1`; write it in decimal digits, such as `3`
    p.yaml:3:20: a time is a whole number and a unit; write `1h`, `10m`, `30s` or `500ms`
    p.yaml:3:15: `usd` is an amount in dollars; write it like `5` or `2.50`, or `null` for no limit
    p.yaml:3:9: `tool:b*` holds '*' in a name; keep to letters, digits, `.`, `_` and `-`
    p.yaml:3:9: `bash` has no namespace; write `tool:bash`
    p.yaml:3:9: `tool:run_shell_command` is a runtime's own name; write `tool:bash`
    p.yaml:3:8: `gates` is a list, not text; write it as `[…]`
    p.yaml:3:9: a capability is text, not nothing; write it as text
    p.yaml:3:9: `tool:read(../x)` has a path that leaves the workspace; write it relative to the workspace, without `..`
    p.yaml:3:9: `mcp:*/x` holds a wildcard that does not exist; name one, or write one of `tool:*`, `agent:*`, `workspace:*`, `mcp:<server>/*`
    p.yaml:3:15: `tool:*` is a wildcard, and this list names single capabilities; name each capability
    p.yaml:3:30: `as` cannot be `kernel`; write `advisory`
    p.yaml:3:10: an entry of `accept` has no `why`; add `why:`
    p.yaml:3:7: `PATH` changes what a child loads or runs, so it is never passed; remove it
    p.yaml:3:7: `LD_PRELOAD` changes what a child loads or runs, so it is never passed; remove it
    p.yaml:3:7: `A*` is no name of a variable; name each variable, without patterns
    p.yaml:3:9: `skills` is not an absolute path without `..`; begin it with `/`, and leave out `..`
    p.yaml:3:9: `/a/../b` is not an absolute path without `..`; begin it with `/`, and leave out `..`
    p.yaml:3:7: `tier` cannot be `Z`; write one of 0, F, K, N, C
    p.yaml:3:9: `inline` is true or false, not text; write `true` or `false`
    p.yaml:3:22: `read_file` is a runtime's own name; write `read`
    p.yaml:3:36: `abc` is no digest; copy it from `depute check`: `sha256:` and 64 hex digits
    p.yaml:3:132: `a` has two overlays for one digest; keep one of the two
    p.yaml:3:119: `agent:*` is a wildcard, and this list names single capabilities; name each capability
    p.yaml:3:10: `gate` is not a key of a policy; did you mean `gates`?
    p.yaml:3:17: `runtime` cannot be locked: it is what a request gets that names none, and any request may name another; remove it
    p.yaml:3:10: `locked` cannot be locked: what is locked stays so for every later policy; remove it
    p.yaml:3:10: `colours` is not a key of a policy; the keys that can be locked are grant, gates, limits, tier, accept, env, paths, roots, overlays, inline, subsumption, universal
    p.yaml:3:9: `locked` is a list, not text; write it as `[…]`
    p.yaml:3:47: `expect` is text, not a boolean; quote it
    p.yaml:3:47: `expect` cannot be `allowed`; write one of granted, held, refused
    p.yaml:3:1: `grant` is written twice; keep one of the two
    p.yaml:3:7: has an anchor, and anchors are not read; remove the `&…`, or quote the text
    ");
    for locked in [
        "[]",
        "[gates]",
        "[grant, gates, limits, tier, accept, env, paths, roots, overlays, inline, subsumption, universal]",
    ] {
        assert_eq!(read(&format!("locked: {locked}")), "fine");
    }
    assert_eq!(read(&format!("overlays: [{overlay}]")), "fine");
}

/// What a person reads in an editor, and what is read here, are the same lines.
#[test]
fn no_key_hides_in_what_looks_like_a_comment() {
    for separator in ["\r", "\u{2028}", "\u{2029}", "\u{85}"] {
        let found = read(&format!("# nothing here{separator}inline: true"));
        assert!(found.starts_with("p.yaml:3:15: holds the character U+"), "{separator:?}: {found}");
    }
    let inline =
        |body: &str| Policy::read(format!("version: 1\ngrant: []\n{body}\n").as_bytes()).unwrap().inline;
    assert!(!inline("# nothing here inline: true") && inline("# nothing here\ninline: true"));
    assert!(Policy::read(b"version: 1\r\ngrant: []\r\n").is_ok());
    assert_eq!(
        read("accept: [{id: tool:read, as: advisory, why: \"\\e[2J\"}]"),
        "p.yaml:3:45: holds the character U+001B; remove it"
    );
    assert_eq!(read("accept: [{id: tool:read, as: advisory, why: \"\\u263a\"}]"), "fine");
}

#[test]
fn one_byte_order_mark_is_taken_off_and_moves_no_place() {
    let at = |source: &str| placed("p.yaml", source.as_bytes(), Policy::read(source.as_bytes()).unwrap_err());
    let marked = "\u{feff}version: 1\ngrant: []\n";
    assert!(Policy::read(marked.as_bytes()).is_ok());
    assert!(at(&format!("{marked}gate: []\n")).starts_with("p.yaml:3:1: `gate`"));
    assert_eq!(at(&format!("\u{feff}{marked}")), "p.yaml:1:2: holds the character U+FEFF; remove it");
}

#[test]
fn the_fix_for_a_foreign_name_keeps_its_scope() {
    insta::assert_snapshot!(read("gates: [\"tool:shell(git:*)\"]"), @"p.yaml:3:9: `tool:shell(git:*)` is a runtime's own name; write `tool:bash(git:*)`");
    assert_eq!(read("gates: [\"tool:bash(git:*)\"]"), "fine");
}

#[test]
fn sizes_are_bounded() {
    let many: String = (0..100_000).map(|n| format!("k{n}: v\n")).collect();
    for (source, rule) in [
        (many.as_str(), "too-large"),
        (&many[..200_000], "yaml-size"),
        (&format!("version: 1\ngrant: {}", "[".repeat(20_000)), "yaml"),
        (&format!("version: 1\ngrant: {}{}", "[".repeat(40), "]".repeat(40)), "yaml-depth"),
        (&format!("version: 1\ngrant: [{}]", "tool:read,".repeat(4090)), "fine"),
    ] {
        let found = Policy::read(source.as_bytes()).map_or_else(|problem| problem.rule, |_| "fine");
        assert_eq!(found, rule, "{} bytes", source.len());
    }
}

/// A policy inside the workspace needs no trust, so dropping what bounds a file must not free it.
#[test]
fn a_narrowing_policy_takes_no_bound_away_with_an_overlay() {
    let file = Case::new().tools("Read, Grep");
    let text = format!(
        "version: 1\ngrant: [tool:read, tool:grep, agent:*]\noverlays: [{{definition: helper, digest: '{}', allow: [tool:read]}}]\n",
        file.tree()
    );
    let base = file.policy(&text);
    assert_eq!(base.uses(), ["tool:read"]);
    let narrowed = |layer: &str| {
        let layer = Narrowing::read(format!("version: 1\n{layer}\n").as_bytes()).unwrap();
        base.clone().with(|case| case.policy = case.policy.narrowed(&layer))
    };
    assert_eq!(narrowed("gates: []").uses(), ["tool:read"]);
    assert_eq!(narrowed("overlays: []").uses(), [""; 0]);
    let other = format!(
        "overlays: [{{definition: helper, digest: 'sha256:{}', allow: [tool:grep]}}]",
        "0".repeat(64)
    );
    assert_eq!(narrowed(&other).uses(), [""; 0]);
    let wider = format!(
        "overlays: [{{definition: helper, digest: '{}', allow: [tool:read, tool:grep]}}]",
        base.tree()
    );
    assert_eq!(narrowed(&wider).uses(), ["tool:read"]);
}

#[test]
fn a_problem_is_drawn_in_its_lines() {
    let source = b"version: 1\ngrant: [tool:read]\nlimits: {dept: 1}\n";
    let problem = Policy::read(source).unwrap_err();
    insta::assert_snapshot!(Diagnostic::new("p.yaml", source, problem).render("POLICY_INVALID", false), @r"
    error[POLICY_INVALID]: `dept` is not a key of `limits`
     --> p.yaml:3:10
      |
    3 | limits: {dept: 1}
      |          ^^^^ unknown-key
      |
      = help: did you mean `depth`?
    ");
}
