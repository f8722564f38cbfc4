//! The policies to copy: each is in order, shows what it grants and what it refuses, and does so.

use depute::policy::{Expect, Policy};

use super::project::{Project, write};
use super::support::manifest_dir;

const EXAMPLES: [&str; 3] = ["locked-down-ci", "solo-developer", "team-reviewers"];

fn example(name: &str) -> String {
    manifest_dir().join(format!("policies/examples/{name}.yaml")).display().to_string()
}

fn text(name: &str) -> String {
    std::fs::read_to_string(example(name)).unwrap()
}

/// A project with agents of every kind.
fn project() -> Project {
    let project = Project::new();
    project.skill("reviewer", "Read, Grep").skill("deployer", "Read").skill("builder", "Bash");
    project.skill("fixer", "Read, Edit, Write").write("notes.md", "buy milk\n");
    project
}

/// Plans one request under an example: the exit code, and the verdict or the code of the refusal.
fn plan(project: &Project, policy: &str, request: &[&str]) -> (i32, String) {
    let policy = example(policy);
    let mut args = vec!["--policy", &policy, "plan", "--trust-workspace", "--task", "x"];
    args.extend(request);
    let (exit, value) = project.json(&args);
    let code = value["refusal"]["code"].as_str().or(value["verdict"].as_str());
    (exit, code.unwrap_or_else(|| panic!("{value}")).to_owned())
}

#[test]
fn every_example_is_in_order_and_shows_both_sides() {
    let project = Project::new();
    let listed = std::fs::read_dir(manifest_dir().join("policies/examples")).unwrap();
    let mut listed: Vec<String> =
        listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    listed.sort();
    assert_eq!(listed, EXAMPLES.map(|name| format!("{name}.yaml")));
    let readme = std::fs::read_to_string(manifest_dir().join("policies/README.md")).unwrap();
    for name in EXAMPLES {
        let (code, value) = project.json(&["check", &example(name)]);
        assert_eq!((code, value["state"].as_str()), (0, Some("valid")), "{value}");
        let policy = Policy::read(text(name).as_bytes()).unwrap();
        let count = |expect| policy.tests.iter().filter(|test| test.expect == expect).count();
        assert_eq!(value["message"], format!("its {} tests pass", policy.tests.len()), "{name}");
        assert!(count(Expect::Granted) >= 1 && count(Expect::Refused) >= 2, "{name}");
        assert!(policy.tests.iter().all(|test| test.expect == Expect::Granted || test.code.is_some()));
        assert!(readme.contains(&format!("(examples/{name}.yaml)")), "{name} is not in the README");
        // Where an editor looks for the schema, from the file's own directory.
        let first = text(name).lines().next().unwrap().to_owned();
        let schema = first.strip_prefix("# yaml-language-server: $schema=").unwrap();
        let schema = manifest_dir().join("policies/examples").join(schema).canonicalize().unwrap();
        assert_eq!(schema, manifest_dir().join("policies/schema/policy.json").canonicalize().unwrap());
    }
}

#[test]
fn a_solo_developers_agents_edit_and_their_shell_waits() {
    let project = project();
    let plan = |request: &[&str]| plan(&project, "solo-developer", request);
    assert_eq!(plan(&["fixer"]), (0, "granted".into()));
    assert_eq!(plan(&["builder", "--runtime", "command"]), (81, "GATED_UNAPPROVED".into()));
    // Without anybody to ask, it is not started either.
    let policy = example("solo-developer");
    let run = |agent, runtime, task| {
        let args =
            ["--policy", &policy, "run", agent, "--trust-workspace", "--runtime", runtime, "--task", task];
        project.run(&args).code
    };
    assert_eq!(run("builder", "command", "touch by-a-shell"), 81);
    assert!(!project.root().join("by-a-shell").exists());
    assert_eq!(run("fixer", "scripted", "write by-an-edit done"), 0);
    assert!(project.root().join("by-an-edit").exists());
}

#[test]
fn a_teams_coordinator_starts_reviewers_and_cannot_read() {
    let project = project();
    let plan = |request: &[&str]| plan(&project, "team-reviewers", request);
    assert_eq!(plan(&["reviewer"]), (0, "granted".into()));
    // It makes up no reader, starts nobody else, and gives a reviewer nothing to write with.
    assert_eq!(plan(&["--inline", "--use", "tool:read"]), (82, "REQUEST_MALFORMED".into()));
    assert_eq!(plan(&["deployer"]), (80, "DEFINITION_NOT_AUTHORIZED".into()));
    project.skill("reviewer", "Read, Write");
    assert_eq!(plan(&["reviewer"]), (80, "CAPABILITY_ESCALATION".into()));
    assert_eq!(plan(&["reviewer", "--use", "tool:read"]), (0, "granted".into()));
    // On the record it holds agents and no tool, and what it hands down is reading.
    let policy = example("team-reviewers");
    let args = ["--policy", &policy, "run", "reviewer", "--trust-workspace", "--use", "tool:read"];
    let ran = project.run(&[&args[..], &["--task", "read notes.md"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "ok      read notes.md: 9 bytes\n"), "{}", ran.stderr);
    let records = project.records(&project.ledger());
    let decision = records.iter().find(|record| record["kind"] == "decision").unwrap();
    let holds = &decision["body"]["parent_grant"];
    assert_eq!(holds["use"], serde_json::json!(["agent:reviewer", "agent:security-reviewer"]));
    assert_eq!(holds["delegate"], serde_json::json!(["tool:glob", "tool:grep", "tool:ls", "tool:read"]));
}

#[test]
fn a_build_machine_reads_and_nothing_says_more() {
    let project = project();
    let plan = |request: &[&str]| plan(&project, "locked-down-ci", request);
    assert_eq!(plan(&["reviewer"]), (0, "granted".into()));
    assert_eq!(plan(&["reviewer", "--use", "tool:read,tool:write"]), (80, "CAPABILITY_ESCALATION".into()));
    assert_eq!(plan(&["fixer"]), (80, "DEFINITION_NOT_AUTHORIZED".into()));
    assert_eq!(plan(&["builder", "--runtime", "command"]), (80, "DEFINITION_NOT_AUTHORIZED".into()));
    // Installed, it binds every other example, and lets pass what says less.
    write(&project.config().join("policy.yaml"), text("locked-down-ci"));
    let check = |policy: &str| project.run(&["--policy", policy, "list"]);
    for name in ["solo-developer", "team-reviewers"] {
        let ran = check(&example(name));
        assert_eq!(ran.code, 82, "{name}: {}", ran.stdout);
        assert!(ran.stderr.contains("`grant` is locked at"), "{}", ran.stderr);
    }
    let less = text("locked-down-ci").replace("tool:glob, tool:ls]\n\n# Nobody", "]\n\n# Nobody");
    assert_ne!(less, text("locked-down-ci"));
    project.write("less.yaml", less);
    assert_eq!(check("less.yaml").code, 0, "{}", check("less.yaml").stderr);
}
