//! Ceilings: what a definition and its overlay let through, and how far a scope narrows.

use depute::definition::{Definition, DefinitionKind};
use depute::plan::{DefinitionFact, PlaceFact};
use depute_ledger::Digest;

use super::support::{ACCEPTED, Case, builtin, digest, holding, id, name, outcome, placed};

// --- overlays ---

fn overlaid(overlay: &str) -> Case {
    holding("[tool:read, tool:write, tool:grep, agent:*]", &format!("overlays: [{overlay}]\n")).undeclared()
}

#[test]
fn an_overlay_makes_an_undeclared_definition_spawnable() {
    let tree = Case::new().undeclared().tree();
    assert_eq!(Case::new().undeclared().outcome(), "refused UNDECLARED_TOOLS");
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
    let now = overlaid(&format!(
        "{{definition: helper, digest: '{}', allow: [tool:read]}}",
        Case::new().undeclared().tree()
    ));
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
        let case = holding("['tool:*', 'agent:*']", &text).tools(tools);
        case.with(|case| {
            case.situation.facts.places.insert("docs".into(), PlaceFact::Directory);
        })
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
    let case = overlaid(&format!(
        "{{definition: helper, digest: '{}', allow: [tool:read]}}",
        Case::new().undeclared().tree()
    ));
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

// --- wildcards and hints ---

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
