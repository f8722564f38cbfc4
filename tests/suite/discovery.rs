//! Which definitions are in force: roots, shadowing, links, trust.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::project::{Project, write};

fn code(project: &Project, agent: &str, more: &[&str]) -> String {
    let mut args = vec!["plan", agent, "--task", "x", "--runtime", "scripted"];
    args.extend(more);
    let (_, value) = project.json(&args);
    value["refusal"]["code"].as_str().unwrap_or("granted").to_owned()
}

fn skill(tools: &str) -> String {
    format!("---\ndescription: for a test\nallowed-tools: {tools}\n---\nDo it.\n")
}

#[test]
fn a_workspace_definition_needs_trust_and_never_goes_before_a_users() {
    let project = Project::new();
    project.skill("reader", "Read, Write");
    assert_eq!(code(&project, "reader", &[]), "DEFINITION_NOT_TRUSTED");
    assert_eq!(code(&project, "reader", &["--trust-workspace"]), "CAPABILITY_ESCALATION");
    // The user's own is found first and needs no trust; the workspace's is there by its full name.
    write(&project.home().join(".claude/skills/reader/SKILL.md"), skill("Read"));
    let (exit, value) = project.json(&["plan", "reader", "--task", "x", "--runtime", "scripted"]);
    assert_eq!((exit, &value["effective"]), (0, &serde_json::json!(["tool:read"])));
    assert_eq!(value["shadowed"].as_array().unwrap().len(), 1);
    assert_eq!(code(&project, "reader@workspace", &[]), "DEFINITION_NOT_TRUSTED");
    let path = ".claude/skills/reader/SKILL.md";
    assert_eq!(code(&project, path, &["--trust-workspace"]), "CAPABILITY_ESCALATION");
}

#[test]
fn trust_is_recorded_outside_and_the_nearest_decided_ancestor_wins() {
    use depute::discover::trust::{is_trusted, record};
    let scratch = tempfile::tempdir().unwrap();
    let store = scratch.path().join("state/trust.json");
    let (outer, inner) = (std::path::Path::new("/srv/work"), std::path::Path::new("/srv/work/vendored/x"));
    assert!(!is_trusted(&store, outer), "no record is doubt");
    record(&store, outer, true).unwrap();
    assert!(is_trusted(&store, outer) && is_trusted(&store, inner));
    record(&store, std::path::Path::new("/srv/work/vendored"), false).unwrap();
    assert!(is_trusted(&store, outer) && !is_trusted(&store, inner));
    assert!(!is_trusted(&store, std::path::Path::new("/srv")), "an ancestor is not a descendant");
    // Doubt: others can write it, it is no store, it is a link.
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o620)).unwrap();
    assert!(!is_trusted(&store, outer));
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(is_trusted(&store, outer));
    let link = scratch.path().join("link");
    symlink(&store, &link).unwrap();
    assert!(!is_trusted(&link, outer));
    std::fs::write(&store, "{").unwrap();
    assert!(!is_trusted(&store, outer));
}

#[test]
fn a_skill_and_an_agent_of_one_name_are_both_refused_until_one_is_asked_for_by_path() {
    let project = Project::new();
    project.skill("x", "Read").write(".claude/agents/x.md", "---\ndescription: d\ntools: Grep\n---\nb\n");
    assert_eq!(code(&project, "x", &["--trust-workspace"]), "UNKNOWN_DEFINITION");
    let (_, value) = project.json(&[
        "plan",
        ".claude/agents/x.md",
        "--task",
        "x",
        "--runtime",
        "scripted",
        "--trust-workspace",
    ]);
    assert_eq!(value["effective"], serde_json::json!(["tool:grep"]));
    let (_, value) = project.json(&[
        "plan",
        ".claude/skills/x/SKILL.md",
        "--task",
        "x",
        "--runtime",
        "scripted",
        "--trust-workspace",
    ]);
    assert_eq!(value["effective"], serde_json::json!(["tool:read"]));
}

#[test]
fn links_out_of_a_root_are_not_followed() {
    let project = Project::new();
    let outside = project.home().join("outside/leak");
    write(&outside.join("SKILL.md"), skill("Read"));
    let skills = project.root().join(".claude/skills");
    // Positive control: a link that stays beneath is followed.
    project.skill("real", "Read");
    symlink("real", skills.join("inner")).unwrap();
    assert_eq!(code(&project, "inner", &["--trust-workspace"]), "granted");
    symlink(&outside, skills.join("leak")).unwrap();
    assert_eq!(code(&project, "leak", &["--trust-workspace"]), "UNKNOWN_DEFINITION");
    std::fs::create_dir(skills.join("file")).unwrap();
    symlink(outside.join("SKILL.md"), skills.join("file/SKILL.md")).unwrap();
    assert_eq!(code(&project, "file", &["--trust-workspace"]), "DEFINITION_UNREADABLE");
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting() {
    let project = Project::new();
    let skills = project.root().join(".claude/skills");
    std::fs::create_dir_all(skills.join("pipe")).unwrap();
    nix::unistd::mkfifo(&skills.join("pipe/SKILL.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(code(&project, "pipe", &["--trust-workspace"]), "DEFINITION_UNREADABLE");
    std::fs::create_dir_all(skills.join("dir/SKILL.md")).unwrap();
    assert_eq!(code(&project, "dir", &["--trust-workspace"]), "DEFINITION_UNREADABLE");
    project.skill("good", "Read");
    assert_eq!(code(&project, "good", &["--trust-workspace"]), "granted");
}

#[test]
fn one_bad_definition_does_not_touch_another() {
    let project = Project::new();
    project
        .skill("good", "Read")
        .write(".claude/skills/bad/SKILL.md", "---\ndescription: Use when: x\n---\n");
    assert_eq!(code(&project, "bad", &["--trust-workspace"]), "DEFINITION_UNREADABLE");
    assert_eq!(code(&project, "good", &["--trust-workspace"]), "granted");
}

#[test]
fn a_byte_beside_a_definition_changes_its_tree_and_voids_its_overlay() {
    let project = Project::new();
    project
        .write(".claude/skills/pdf/SKILL.md", "---\ndescription: d\n---\nb\n")
        .write(".claude/skills/pdf/scripts/x.py", "print(1)");
    let (exit, value) = project.json(&["check", ".claude/skills/pdf/SKILL.md"]);
    assert_eq!((exit, value["state"].as_str()), (82, Some("undeclared")));
    let tree = value["tree"].as_str().unwrap();
    project.write("policy.yaml", format!("version: 1\ngrant: [tool:read, agent:*]\nruntime: {{default: scripted}}\noverlays: [{{definition: pdf, digest: \"{tree}\", allow: [tool:read]}}]\n"));
    let args = ["--policy", "policy.yaml", "plan", "pdf", "--task", "x", "--trust-workspace"];
    let (exit, value) = project.json(&args);
    assert_eq!((exit, &value["effective"]), (0, &serde_json::json!(["tool:read"])));
    project.write(".claude/skills/pdf/scripts/x.py", "print(2)");
    let (exit, value) = project.json(&args);
    assert_eq!((exit, value["refusal"]["code"].as_str()), (82, Some("UNDECLARED_TOOLS")));
    assert!(value["refusal"]["message"].as_str().unwrap().contains("void"), "{value}");
}

#[test]
fn the_operators_policy_is_found_outside_and_a_broken_one_is_no_fall_through() {
    let project = Project::new();
    project.skill("writer", "Write");
    let plan = ["plan", "writer", "--task", "x", "--runtime", "scripted", "--trust-workspace"];
    assert_eq!(project.json(&plan).0, 80, "the built-in policy grants no writing");
    let allow = "version: 1\ngrant: [tool:write, agent:*]\n";
    let user = project.config().join("policy.yaml");
    write(&user, allow);
    assert_eq!(project.json(&plan).0, 0, "the user's policy does");
    let key = depute::host::key(&project.root().canonicalize().unwrap());
    let here = project.config().join(format!("policies/{key}.yaml"));
    write(&here, "version: 1\ngrant: [tool:read, agent:*]\n");
    assert_eq!(project.json(&plan).0, 80, "the one for this directory goes before it");
    write(&here, "version: 1\n");
    let (exit, value) = project.json(&plan);
    assert_eq!((exit, value["error"]["code"].as_str()), (82, Some("POLICY_INVALID")));
    project.write("named.yaml", allow);
    let mut named = vec!["--policy", "named.yaml"];
    named.extend(plan);
    assert_eq!(project.json(&named).0, 0, "and the named one before all");
}

#[test]
fn roots_of_the_policy_are_looked_through() {
    let project = Project::new();
    let shared = project.home().join("shared");
    write(&shared.join("skills/a/SKILL.md"), skill("Read"));
    write(&shared.join("agents/b.md"), "---\ndescription: d\ntools: Grep\n---\nb\n");
    project.write("policy.yaml", format!("version: 1\ngrant: [tool:read, tool:grep, agent:*]\nruntime: {{default: scripted}}\nroots: [{}]\n", shared.display()));
    for (agent, tool) in [("a", "tool:read"), ("b", "tool:grep")] {
        let (exit, value) = project.json(&["--policy", "policy.yaml", "plan", agent, "--task", "x"]);
        assert_eq!((exit, &value["effective"]), (0, &serde_json::json!([tool])), "{value}");
    }
}
