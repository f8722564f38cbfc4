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
    assert_eq!(code(&project, "leak", &["--trust-workspace"]), "DEFINITION_UNREADABLE");
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
    assert_eq!(project.json(&named).0, 82, "what it locks cannot be told");
    write(&here, "version: 1\ngrant: [tool:read, agent:*]\n");
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

#[test]
fn a_workspaces_roots_may_not_lead_out_of_it() {
    for link in [".claude", ".claude/skills"] {
        let project = Project::new();
        let outside = project.home().join("outside");
        write(&outside.join("skills/leak/SKILL.md"), skill("Read"));
        let (target, from) = if link == ".claude" {
            (outside.clone(), ".claude")
        } else {
            (outside.join("skills"), ".claude/skills")
        };
        std::fs::create_dir_all(project.root().join(from).parent().unwrap()).unwrap();
        symlink(&target, project.root().join(from)).unwrap();
        assert_eq!(code(&project, "leak", &["--trust-workspace"]), "UNKNOWN_DEFINITION", "{link}");
        // Positive control: a link inside the workspace, and the user's own link anywhere.
        std::fs::remove_file(project.root().join(from)).unwrap();
        write(&project.root().join("inside/skills/leak/SKILL.md"), skill("Read"));
        let target = if link == ".claude" { "inside" } else { "../inside/skills" };
        symlink(target, project.root().join(from)).unwrap();
        assert_eq!(code(&project, "leak", &["--trust-workspace"]), "granted", "{link}");
    }
    let project = Project::new();
    write(&project.home().join("shared/skills/mine/SKILL.md"), skill("Read"));
    symlink("shared", project.home().join(".claude")).unwrap();
    assert_eq!(code(&project, "mine", &[]), "granted");
}

#[test]
fn a_name_that_the_user_has_and_cannot_be_read_is_not_taken_by_the_workspace() {
    let project = Project::new();
    project.skill("review", "Read");
    assert_eq!(code(&project, "review", &["--trust-workspace"]), "granted");
    let skills = project.home().join(".claude/skills");
    std::fs::create_dir_all(&skills).unwrap();
    write(&project.home().join("elsewhere/review/SKILL.md"), skill("Read"));
    symlink(project.home().join("elsewhere/review"), skills.join("review")).unwrap();
    assert_eq!(code(&project, "review", &["--trust-workspace"]), "DEFINITION_UNREADABLE");
    assert_eq!(code(&project, "review@workspace", &["--trust-workspace"]), "granted");
    // A root of the user's that cannot be looked through may hold any name.
    std::fs::remove_file(skills.join("review")).unwrap();
    std::fs::remove_dir(&skills).unwrap();
    symlink("skills", &skills).unwrap();
    assert_eq!(code(&project, "review", &["--trust-workspace"]), "DEFINITION_UNREADABLE");
    assert_eq!(code(&project, "review@workspace", &["--trust-workspace"]), "granted");
}

#[test]
fn a_link_to_nothing_keeps_its_name() {
    let project = Project::new();
    project.skill("review", "Read").skill("other", "Read");
    let trusted = |agent: &str| code(&project, agent, &["--trust-workspace"]);
    let home = project.home().join(".claude");
    // One definition is away: its name is kept, and no other is touched.
    std::fs::create_dir_all(home.join("skills")).unwrap();
    symlink(project.home().join("away/review"), home.join("skills/review")).unwrap();
    assert_eq!(trusted("review"), "DEFINITION_UNREADABLE");
    assert_eq!((trusted("other"), trusted("review@workspace")), ("granted".into(), "granted".into()));
    // When it is back beneath its root, it is the one that is meant.
    std::fs::remove_file(home.join("skills/review")).unwrap();
    write(&home.join("skills/real/SKILL.md"), skill("Grep"));
    symlink("real", home.join("skills/review")).unwrap();
    let (_, value) = project.json(&["plan", "review", "--task", "x", "--runtime", "scripted"]);
    assert_eq!(value["effective"], serde_json::json!(["tool:grep"]));
    // A whole root is away, or what holds it: nobody knows which names it has.
    for link in [home.join("skills"), home.clone()] {
        std::fs::remove_dir_all(&home).unwrap();
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink("away", &link).unwrap();
        assert_eq!(trusted("other"), "DEFINITION_UNREADABLE", "{}", link.display());
        assert_eq!(trusted("other@workspace"), "granted");
        std::fs::remove_file(&link).unwrap();
        std::fs::create_dir_all(&home).unwrap();
        assert_eq!(trusted("other"), "granted", "a root that is not there is no doubt");
    }
    let missing = project.home().join("missing");
    let policy = |root: &std::path::Path| {
        format!(
            "version: 1\ngrant: [tool:read, agent:*]\nruntime: {{default: scripted}}\nroots: [{}]\n",
            root.display()
        )
    };
    project.write("policy.yaml", policy(&missing));
    let ran = project.run(&["--policy", "policy.yaml", "list"]);
    assert!(ran.stdout.contains("is a root of the policy and is not there"), "{}", ran.stdout);
    symlink("away", &missing).unwrap();
    let plan = ["--policy", "policy.yaml", "plan", "other", "--task", "x", "--trust-workspace"];
    let (_, value) = project.json(&plan);
    assert_eq!(value["refusal"]["code"], "DEFINITION_UNREADABLE");
    // A root of the policy whose `skills` is away is not taken for a root of skills itself.
    std::fs::remove_file(&missing).unwrap();
    std::fs::create_dir(&missing).unwrap();
    symlink("away", missing.join("skills")).unwrap();
    let (_, value) = project.json(&plan);
    assert_eq!(value["refusal"]["code"], "DEFINITION_UNREADABLE");
}

#[test]
fn a_path_means_the_definition_that_is_called_so() {
    let project = Project::new();
    project.skill("real", "Read");
    symlink("real", project.root().join(".claude/skills/alias")).unwrap();
    for name in ["real", "alias"] {
        let path = format!(".claude/skills/{name}/SKILL.md");
        let (_, value) = project.json(&["plan", &path, "--task", "x", "--runtime", "scripted"]);
        assert!(value["agent"].as_str().unwrap().starts_with(&format!("{name}@")), "{value}");
        assert_eq!(project.json(&["check", &path]).1["name"], name);
    }
}

#[test]
fn a_definition_in_the_root_itself_has_no_name() {
    let project = Project::new();
    project.write(".claude/skills/SKILL.md", skill("Read")).skill("good", "Read");
    for name in ["SKILL", "skills"] {
        assert_eq!(code(&project, name, &["--trust-workspace"]), "UNKNOWN_DEFINITION");
    }
    assert_eq!(code(&project, "good", &["--trust-workspace"]), "granted");
    let ran = project.run(&["list"]);
    assert!(ran.stdout.contains("SKILL.md has no directory of its own"), "{}", ran.stdout);
}

#[test]
fn directories_without_end_beside_a_definition_are_refused() {
    let project = Project::new();
    project.skill("wide", "Read").skill("good", "Read");
    let wide = project.root().join(".claude/skills/wide");
    for at in 0..depute::definition::MAX_TREE_ENTRIES {
        std::fs::create_dir(wide.join(format!("d{at}"))).unwrap();
    }
    assert_eq!(code(&project, "wide", &["--trust-workspace"]), "DEFINITION_UNREADABLE");
    assert_eq!(code(&project, "good", &["--trust-workspace"]), "granted");
    std::fs::remove_dir(wide.join("d0")).unwrap();
    assert_eq!(code(&project, "wide", &["--trust-workspace"]), "granted");
}

#[test]
fn the_store_of_trust_is_kept_from_others_and_loses_nothing() {
    use depute::discover::trust::{is_trusted, record};
    let scratch = tempfile::tempdir().unwrap();
    let store = scratch.path().join("state/trust.json");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let parent = store.parent().unwrap();
    // A directory that is older than the rule is closed, and a new one is made so.
    std::fs::create_dir(parent).unwrap();
    std::fs::set_permissions(parent, std::fs::Permissions::from_mode(0o775)).unwrap();
    let here = std::path::Path::new("/srv/here");
    record(&store, here, false).unwrap();
    assert_eq!((mode(parent), mode(&store)), (0o700, 0o600));
    // Writers at once keep what each other says.
    std::thread::scope(|scope| {
        for at in 0..8 {
            let store = &store;
            scope.spawn(move || record(store, format!("/srv/{at}").as_ref(), true).unwrap());
        }
    });
    assert!((0..8).all(|at| is_trusted(&store, format!("/srv/{at}").as_ref())));
    assert!(!is_trusted(&store, here));
    // A store in doubt is refused and left as it is: mode, link, pipe, another version, too large.
    let good = std::fs::read(&store).unwrap();
    let refuses = |what: &str| {
        let error = record(&store, here, true).unwrap_err().to_string();
        assert!(error.contains("cannot be relied on"), "{what}: {error}");
        assert!(!is_trusted(&store, "/srv/1".as_ref()), "{what}");
    };
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o620)).unwrap();
    refuses("mode");
    assert_eq!(std::fs::read(&store).unwrap(), good);
    let moved = parent.join("moved.json");
    std::fs::rename(&store, &moved).unwrap();
    std::fs::set_permissions(&moved, std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&moved, &store).unwrap();
    refuses("link");
    std::fs::remove_file(&store).unwrap();
    nix::unistd::mkfifo(&store, nix::sys::stat::Mode::S_IRUSR).unwrap();
    refuses("pipe");
    std::fs::remove_file(&store).unwrap();
    write(&store, "{\"v\":2,\"directories\":{}}");
    refuses("version");
    write(&store, vec![b' '; 1024 * 1024 + 1]);
    refuses("size");
    std::fs::rename(&moved, &store).unwrap();
    assert!(is_trusted(&store, "/srv/1".as_ref()));
    let fresh = scratch.path().join("new/trust.json");
    record(&fresh, here, true).unwrap();
    assert_eq!(mode(fresh.parent().unwrap()), 0o700);
}

#[test]
fn a_file_cannot_claim_a_package() {
    let project = Project::new();
    project.write(".claude/agents/acme:review.md", "---\ndescription: d\ntools: Read\n---\nb\n");
    assert_eq!(code(&project, "acme:review", &["--trust-workspace"]), "UNKNOWN_DEFINITION");
    project.write(".claude/agents/review.md", "---\ndescription: d\ntools: Read\n---\nb\n");
    assert_eq!(code(&project, "review", &["--trust-workspace"]), "granted");
}

#[test]
fn trust_is_said_by_a_command() {
    let project = Project::new();
    project.skill("reader", "Read");
    assert_eq!(code(&project, "reader", &[]), "DEFINITION_NOT_TRUSTED");
    assert_eq!(project.json(&["trust", "--show"]).1["trusted"], false);
    assert_eq!(project.json(&["trust"]), (0, project.json(&["trust", "--show"]).1));
    assert_eq!(code(&project, "reader", &[]), "granted");
    assert_eq!(project.run(&["trust", "--revoke"]).code, 0);
    assert_eq!(code(&project, "reader", &[]), "DEFINITION_NOT_TRUSTED");
    // A store that cannot be relied on is not started anew: what was distrusted would be forgotten.
    let store = project.root().join("../state/depute/trust.json");
    std::fs::write(&store, "{").unwrap();
    assert_eq!(project.run(&["trust"]).code, 1);
    assert_eq!(std::fs::read_to_string(&store).unwrap(), "{");
}

#[test]
fn the_list_says_what_each_could_do_and_how_it_is_asked_for() {
    let project = Project::new();
    project.skill("reader", "Read").write(".claude/skills/bare/SKILL.md", "---\ndescription: d\n---\nb\n");
    project
        .write(".claude/agents/twin.md", "---\ndescription: d\ntools: Read\n---\nb\n")
        .skill("twin", "Grep");
    write(&project.home().join(".claude/skills/reader/SKILL.md"), skill("Grep"));
    let rows: Vec<serde_json::Value> = project
        .run(&["list", "--json"])
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let shown: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {} {} {}", row["name"], row["origin"], row["state"], row["ceiling"]))
        .collect();
    assert_eq!(
        shown,
        [
            r#""bare" "workspace" "undeclared" null"#,
            r#""reader" "user" "spawnable" ["tool:grep"]"#,
            r#""reader" "workspace" "untrusted" ["tool:read"]"#,
            r#""twin" "workspace" "untrusted" ["tool:grep"]"#,
            r#""twin" "workspace" "untrusted" ["tool:read"]"#,
        ]
    );
    assert_eq!(rows[1]["shadowed"].as_array().unwrap().len(), 1);
    // Each is granted, or refused for what it is, by the words that the list gives.
    for (row, expected) in rows.iter().zip(["UNDECLARED_TOOLS", "granted", "granted", "granted", "granted"]) {
        assert_eq!(code(&project, row["ask"].as_str().unwrap(), &["--trust-workspace"]), expected, "{row}");
    }
}

/// A directory may nest as deep as a path is long, and no thread's stack has to hold that.
#[test]
fn what_nests_deep_is_read_or_refused() {
    use nix::fcntl::{OFlag, openat};
    use nix::sys::stat::{Mode, mkdirat};
    let project = Project::new();
    for skill in ["one", "other"] {
        project.skill(skill, "Read");
        let skill = project.root().join(".claude/skills").join(skill);
        let mut below: std::os::fd::OwnedFd = std::fs::File::open(skill).unwrap().into();
        for _ in 0..1800 {
            mkdirat(&below, "d", Mode::S_IRWXU).unwrap();
            below = openat(&below, "d", OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        }
    }
    let ran = project.run(&["check", ".claude"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 3), "{}{}", ran.stdout, ran.stderr);
}
