//! What `check` says of files, and that it is what the planner would say.

use std::os::unix::fs::symlink;

use super::project::{Project, write};

fn skill(tools: &str) -> String {
    format!("---\ndescription: for a test\nallowed-tools: {tools}\n---\nDo it.\n")
}

/// Path, state and code of each file, in the order of the report.
fn rows(project: &Project, paths: &[&str]) -> Vec<(String, String, String)> {
    let mut args = vec!["check", "--json"];
    args.extend(paths);
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
    let row = |value: serde_json::Value| (word(&value["path"]), word(&value["state"]), word(&value["code"]));
    project.run(&args).stdout.lines().map(|line| row(serde_json::from_str(line).unwrap())).collect()
}

fn row(path: &str, state: &str, code: &str) -> (String, String, String) {
    (path.to_owned(), state.to_owned(), code.to_owned())
}

#[test]
fn check_and_plan_say_the_same() {
    let project = Project::new();
    let plan = |project: &Project, agent: &str| {
        let (_, value) =
            project.json(&["--policy", "policy.yaml", "plan", agent, "--task", "x", "--trust-workspace"]);
        (value["refusal"]["code"].as_str().unwrap_or("granted").to_owned(), value["ceiling"].clone())
    };
    let check = |project: &Project, path: &str| {
        let (_, value) = project.json(&["--policy", "policy.yaml", "check", path]);
        (
            value["state"].as_str().unwrap().to_owned(),
            value["code"].clone(),
            value["ceiling"].clone(),
            value["line"].clone(),
        )
    };
    let grant = "version: 1\ngrant: [tool:read, tool:bash, agent:*]\naccept: [{id: tool:bash, as: advisory, why: x}]\nruntime: {default: scripted}\n";
    project.write("policy.yaml", grant);
    // A tool that nobody knows is no ceiling to spawn with.
    project.write(".claude/agents/odd.md", "---\ndescription: d\ntools: Read, Serch\n---\nb\n");
    assert_eq!(plan(&project, "odd").0, "UNKNOWN_TOOL");
    let (state, code, _, line) = check(&project, ".claude/agents/odd.md");
    assert_eq!((state.as_str(), code, line), ("refused", "UNKNOWN_TOOL".into(), 3.into()));
    let (_, value) = project.json(&["check", ".claude/agents/odd.md"]);
    assert_eq!(value["column"], 14, "the entry itself: {value}");
    // One that a profile of the operator's names is known, and the rest of it still is not.
    let profile = include_str!("../../policies/runtimes/scripted.yaml")
        .replace("runtime: scripted", "runtime: mine")
        .replace(
            "  read: {native: read,",
            "  serch: {native: serch, files: workspace, runs_programs: false}\n  read: {native: read,",
        );
    write(&project.config().join("runtimes/mine.yaml"), profile);
    let mine = ["--policy", "policy.yaml", "plan", "odd", "--task", "x", "--trust-workspace"];
    let (_, value) = project.json(&[&mine[..], &["--runtime", "mine"]].concat());
    assert_eq!(value["refusal"]["code"], "CAPABILITY_ESCALATION", "known there, and not held");
    assert_eq!(check(&project, ".claude/agents/odd.md").0, "spawnable");
    project.write(".claude/agents/odder.md", "---\ndescription: d\ntools: Read, Serchh\n---\nb\n");
    assert_eq!(check(&project, ".claude/agents/odder.md").0, "refused");
    // An overlay does not give back what the file takes away.
    project.write(".claude/agents/bare.md", "---\ndescription: d\ndisallowedTools: Bash\n---\nb\n");
    let (_, value) = project.json(&["check", ".claude/agents/bare.md"]);
    let tree = value["tree"].as_str().unwrap();
    project.write(
        "policy.yaml",
        format!(
            "{grant}overlays: [{{definition: bare, digest: \"{tree}\", allow: [tool:bash, tool:read]}}]\n"
        ),
    );
    let read = serde_json::json!(["tool:read"]);
    assert_eq!(plan(&project, "bare"), ("granted".to_owned(), read.clone()));
    assert_eq!(check(&project, ".claude/agents/bare.md").2, read);
    // A changed file voids it, in the same words.
    project.write(".claude/agents/bare.md", "---\ndescription: e\ndisallowedTools: Bash\n---\nb\n");
    let args = ["--policy", "policy.yaml", "check", ".claude/agents/bare.md"];
    let (_, value) = project.json(&args);
    assert_eq!((value["state"].as_str(), value["rule"].as_str()), (Some("undeclared"), Some("void-overlay")));
    let (_, planned) =
        project.json(&["--policy", "policy.yaml", "plan", "bare", "--task", "x", "--trust-workspace"]);
    assert_eq!(planned["refusal"]["message"], format!("`bare` {}", value["message"].as_str().unwrap()));
    // A file in a root of the policy is what the root says it is.
    let shared = project.home().join("shared");
    write(&shared.join("kk.md"), "---\ndescription: d\ntools: Read\n---\nb\n");
    project.write("policy.yaml", format!("{grant}roots: [{}]\n", shared.display()));
    assert_eq!(plan(&project, "kk").0, "UNDECLARED_TOOLS");
    assert_eq!(check(&project, shared.join("kk.md").to_str().unwrap()).0, "undeclared");
}

#[test]
fn check_reports_what_it_cannot_look_at_and_goes_on() {
    let project = Project::new();
    project
        .skill("good", "Read")
        .write(".claude/skills/bad/SKILL.md", "---\ndescription: Use when: x\n---\n");
    symlink("nowhere", project.root().join(".claude/skills/gone")).unwrap();
    nix::unistd::mkfifo(&project.root().join("policy.yaml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let ran = project.run(&["check", ".claude", ".claude/skills/good/SKILL.md", "policy.yaml"]);
    assert_eq!(ran.code, 82);
    assert_eq!(
        ran.stdout.matches("good/SKILL.md").count(),
        1,
        "a file given twice is reported once:\n{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("4 checked, 3 not in order"), "{}", ran.stdout);
    assert!(ran.stdout.contains(".claude/skills/gone"), "{}", ran.stdout);
    assert!(ran.stdout.contains("it is no regular file"), "{}", ran.stdout);
    let ran = project.run(&["check", "nowhere"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("`nowhere`") && ran.stderr.contains("fix:"), "{}", ran.stderr);
}

#[test]
fn a_file_that_discovery_passes_over_is_not_spawnable() {
    let project = Project::new();
    let nested = ".claude/skills/group/deep/SKILL.md";
    let beside = ".claude/skills/good/notes.md";
    let top = ".claude/skills/SKILL.md";
    let other = ".claude/skills/both/AGENT.md";
    let loose = "drafts/deep/SKILL.md";
    for path in [nested, beside, top, loose] {
        project.write(path, skill("Read"));
    }
    project.skill("good", "Read").write(other, "---\ndescription: d\ntools: Read\n---\nb\n");
    for path in [nested, beside, top, other] {
        assert_eq!(rows(&project, &[path]), [row(path, "refused", "UNKNOWN_DEFINITION")]);
    }
    // Positive control: one in its place, and one where no root is.
    let good = ".claude/skills/good/SKILL.md";
    assert_eq!(rows(&project, &[good, loose]), [row(good, "spawnable", "-"), row(loose, "spawnable", "-")]);
    // A file in the root itself hides none of the others.
    let all: Vec<String> = rows(&project, &[".claude"]).into_iter().map(|(path, ..)| path).collect();
    assert_eq!(all, [top, other, good, nested]);
}

#[test]
fn links_are_reported_as_the_planner_takes_them() {
    let project = Project::new();
    project.skill("real", "Read").write("shared/one.md", "---\ndescription: d\ntools: Read\n---\nb\n");
    write(&project.home().join("outside/SKILL.md"), skill("Read"));
    let place = project.root().join(".claude");
    std::fs::create_dir(place.join("agents")).unwrap();
    symlink("real", place.join("skills/alias")).unwrap();
    symlink(project.home().join("outside"), place.join("skills/out")).unwrap();
    symlink("nowhere", place.join("skills/gone")).unwrap();
    symlink("nowhere", place.join("agents/gone.md")).unwrap();
    symlink("own.md", place.join("agents/link.md")).unwrap();
    project.write(".claude/agents/own.md", "---\ndescription: d\ntools: Read\n---\nb\n");
    symlink("nowhere", place.join("unrelated")).unwrap();
    // A circle is walked once.
    symlink("..", place.join("skills/circle")).unwrap();
    assert_eq!(
        rows(&project, &[".claude"]),
        [
            row(".claude/agents/gone.md", "refused", "DEFINITION_UNREADABLE"),
            row(".claude/agents/link.md", "spawnable", "-"),
            row(".claude/agents/own.md", "spawnable", "-"),
            row(".claude/skills/alias/SKILL.md", "spawnable", "-"),
            row(".claude/skills/gone", "refused", "IO"),
            row(".claude/skills/out/SKILL.md", "refused", "DEFINITION_UNREADABLE"),
            row(".claude/skills/real/SKILL.md", "spawnable", "-"),
        ]
    );
    // A root that leads out of the workspace is not in force, whatever lies there.
    let away = Project::new();
    write(&away.home().join("outside/skills/leak/SKILL.md"), skill("Read"));
    symlink(away.home().join("outside"), away.root().join(".claude")).unwrap();
    let path = ".claude/skills/leak/SKILL.md";
    let (_, value) = away.json(&["check", path]);
    assert_eq!(
        (value["state"].as_str(), value["code"].as_str()),
        (Some("refused"), Some("UNKNOWN_DEFINITION"))
    );
    assert!(value["message"].as_str().unwrap().contains("a link that leads out"), "{value}");
}

#[test]
fn what_is_given_twice_is_reported_once() {
    let project = Project::new();
    project.skill("a", "Read");
    symlink("a", project.root().join(".claude/skills/b")).unwrap();
    let (a, b) = (".claude/skills/a/SKILL.md", ".claude/skills/b/SKILL.md");
    let whole = project.root().canonicalize().unwrap().join(a);
    let winding = ".claude/../.claude/skills/a/SKILL.md";
    assert_eq!(
        rows(&project, &[a, "./.claude/skills/a/SKILL.md", winding, whole.to_str().unwrap(), b, ".claude"]),
        [row(a, "spawnable", "-"), row(b, "spawnable", "-")],
        "and two names of one file are two definitions"
    );
}

#[test]
fn a_directory_that_is_too_deep_is_said() {
    let project = Project::new();
    let deep = vec!["d"; 14].join("/");
    project.write(&format!("{deep}/skills/x.md"), skill("Read")).skill("good", "Read");
    let found = rows(&project, &["."]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0], row("./.claude/skills/good/SKILL.md", "spawnable", "-"));
    assert_eq!((found[1].1.as_str(), found[1].2.as_str()), ("refused", "IO"));
    assert_eq!(rows(&project, &["d/d/d"]), [row(&format!("{deep}/skills/x.md"), "spawnable", "-")]);
}

#[test]
fn a_policy_or_profile_that_is_no_regular_file_is_refused_without_waiting() {
    let project = Project::new();
    let pipe = |path: &str| {
        std::fs::create_dir_all(project.root().join(path).parent().unwrap()).unwrap();
        nix::unistd::mkfifo(&project.root().join(path), nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    pipe("policies/pipe.yaml");
    pipe("runtimes/pipe.yaml");
    project
        .write("policies/large.yaml", vec![b'#'; 1024 * 1024 + 1])
        .write("policies/good.yaml", "version: 1\ngrant: [tool:read]\n")
        .write("runtimes/good.yaml", include_str!("../../policies/runtimes/scripted.yaml"));
    assert_eq!(
        rows(&project, &["policies", "runtimes"]),
        [
            row("policies/good.yaml", "valid", "-"),
            row("policies/large.yaml", "refused", "POLICY_INVALID"),
            row("policies/pipe.yaml", "refused", "POLICY_INVALID"),
            row("runtimes/good.yaml", "valid", "-"),
            row("runtimes/pipe.yaml", "refused", "PROFILE_INVALID"),
        ]
    );
    // The policy in force is read in the same way.
    for path in ["policies/pipe.yaml", "policies/large.yaml"] {
        let (exit, value) = project.json(&["--policy", path, "check", "policies/good.yaml"]);
        assert_eq!((exit, value["error"]["code"].as_str()), (82, Some("POLICY_INVALID")), "{path}");
    }
}
