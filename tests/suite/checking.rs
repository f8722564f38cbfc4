//! What `check` says of files, and that it is what the planner would say.

use std::os::unix::fs::symlink;

use super::project::{Project, write};

fn skill(tools: &str) -> String {
    format!("---\ndescription: for a test\nallowed-tools: {tools}\n---\nDo it.\n")
}

/// Path, state and code of each file, in the order of the report.
fn rows(project: &Project, paths: &[&str]) -> Vec<(String, String, String)> {
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
    let (_, values) = project.json_lines(&[&["check"], paths].concat());
    values.iter().map(|value| (word(&value["path"]), word(&value["state"]), word(&value["code"]))).collect()
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
    assert!(ran.stdout.starts_with("4 checked: 1 spawnable, 2 unreadable, 1 refused\n"), "{}", ran.stdout);
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

#[test]
fn a_summary_counts_each_file_once_and_says_what_would_help() {
    let project = Project::new();
    project
        .skill("plain", "Read")
        .skill("scoped", "Bash(git log:*)")
        .skill("unknown", "Serchh")
        .write(".claude/skills/silent/SKILL.md", "---\ndescription: d\n---\nb\n")
        .write(".claude/skills/near/SKILL.md", "---\ndescription: d\nallowed_tools: Read\n---\nb\n")
        .write(".claude/skills/broken/SKILL.md", "---\ndescription: a: b\nallowed-tools: Read\n---\nb\n")
        .write(".claude/agents/plain.md", "---\ndescription: d\ntools: Read\n---\nb\n")
        .write("policies/mine.yaml", "version: 1\ngrant: []\n");
    let ran = project.run(&["check", "."]);
    assert_eq!(ran.code, 82);
    insta::assert_snapshot!(ran.stdout, @r"
    8 checked: 3 spawnable, 1 valid, 2 undeclared, 1 unreadable, 1 with unknown tools; 1 with patterns, 1 with the name of another
    spawnable  agent    ./.claude/agents/plain.md  tool:read
      note: 2:1 has no `name`
    refused    skill    ./.claude/skills/broken/SKILL.md
      error[DEFINITION_UNREADABLE]: is not YAML: mapping values are not allowed in this context
       --> ./.claude/skills/broken/SKILL.md:2:15
        |
      2 | description: a: b
        |               ^ yaml
        |
        = help: put the whole value in double quotes: a colon and a blank end a plain value
    undeclared skill    ./.claude/skills/near/SKILL.md
      error[UNDECLARED_TOOLS]: has `allowed_tools`, which does not declare the tools of a skill
       --> ./.claude/skills/near/SKILL.md:3:1
        |
      3 | allowed_tools: Read
        | ^^^^^^^^^^^^^ near-miss-key
        |
        = help: write `allowed-tools` at the top level of the frontmatter
      note: 2:1 has no `name`
    spawnable  skill    ./.claude/skills/plain/SKILL.md  tool:read
      note: 1:1 has the name of ./.claude/agents/plain.md
    spawnable  skill    ./.claude/skills/scoped/SKILL.md  tool:bash(git log:*)
    undeclared skill    ./.claude/skills/silent/SKILL.md
      error[UNDECLARED_TOOLS]: declares no tools: there is no `allowed-tools`
       --> ./.claude/skills/silent/SKILL.md:2:1
        |
      2 | description: d
        | ^ undeclared
        |
        = help: add `allowed-tools: Read, Grep`, or `allowed-tools: []` for none, or the operator gives it a ceiling by an overlay
      note: 2:1 has no `name`
    refused    skill    ./.claude/skills/unknown/SKILL.md  tool:serchh
      error[UNKNOWN_TOOL]: `tool:serchh` is a tool that no runtime knows
       --> ./.claude/skills/unknown/SKILL.md:4:16
        |
      4 | allowed-tools: Serchh
        |                ^^^^^^ unknown-tool
        |
        = help: name a tool that some runtime has, or remove it
    valid      policy   ./policies/mine.yaml  has no tests of its own
    ");
    insta::assert_snapshot!(ran.stderr, @r#"
    1 file would be mended by `--fix`, which cannot widen
    1 file would be mended by `--fix --names --allow-widening`: look at its diff before you say yes
    1 file may be given a ceiling in your policy: `--overlay` for none, `--overlay=read` for reading
    "#);
    // Asked to say less it prints what is not in order.
    let quiet = project.run(&["check", ".", "-q"]);
    assert_eq!((quiet.stdout.matches("spawnable  ").count(), quiet.stderr.as_str()), (0, ""));
    assert!(quiet.stdout.contains("undeclared skill"), "{}", quiet.stdout);
    // The same as JSON: one object a file, then the numbers.
    let json = project.run(&["check", ".", "--json"]);
    let last: serde_json::Value = serde_json::from_str(json.stdout.lines().last().unwrap()).unwrap();
    insta::assert_snapshot!(last, @r#"{"summary":{"checked":8,"conflicts":1,"mendable":1,"patterns":1,"refused":0,"spawnable":3,"undeclared":2,"unknown_tools":1,"unreadable":1,"valid":1,"widening":1},"v":1}"#);
    assert_eq!(json.stdout.lines().count(), 9);
}

#[test]
fn many_files_are_reported_in_their_order() {
    let project = Project::new();
    let names: Vec<String> = (0..2500).map(|at| format!("s{at:04}")).collect();
    for name in &names {
        project.write(&format!("pack/{name}/SKILL.md"), skill("Read"));
    }
    let (code, reports) = project.json_lines(&["check", "pack"]);
    assert_eq!(code, 0);
    let reported: Vec<&str> = reports.iter().map(|report| report["name"].as_str().unwrap()).collect();
    assert_eq!(reported, names);
}

#[test]
fn sarif_says_what_the_text_says() {
    let project = Project::new();
    project
        .skill("good one", "Read")
        .skill("good", "Read")
        .write(".claude/skills/silent/SKILL.md", "---\nname: silent\ndescription: d\n---\nb\n")
        .write(".claude/skills/broken/SKILL.md", "---\nname: other\ndescription: a: b\n---\nb\n");
    let ran = project.run(&["check", ".claude", "--format", "sarif"]);
    assert_eq!(ran.code, 82);
    let sarif: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&sarif["version"], &sarif["runs"][0]["tool"]["driver"]["name"]),
        (&"2.1.0".into(), &"depute".into())
    );
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let rows: Vec<String> = results
        .iter()
        .map(|result| {
            let place = &result["locations"][0]["physicalLocation"];
            let (uri, region) = (&place["artifactLocation"]["uri"], &place["region"]);
            let at = (&region["startLine"], &region["startColumn"]);
            format!(
                "{} {} {uri} {}:{} {}",
                result["level"], result["ruleId"], at.0, at.1, result["message"]["text"]
            )
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r#"
    "error" "yaml" ".claude/skills/broken/SKILL.md" 3:15 "is not YAML: mapping values are not allowed in this context. Fix: put the whole value in double quotes: a colon and a blank end a plain value."
    "error" "not-a-definition" ".claude/skills/good%20one/SKILL.md" 1:1 "has a name that no definition may have; names hold letters, digits, `.`, `_` and `-`, and begin with a letter or digit. Fix: rename it, or leave it out."
    "warning" "undeclared" ".claude/skills/silent/SKILL.md" 2:1 "declares no tools: there is no `allowed-tools`. Fix: add `allowed-tools: Read, Grep`, or `allowed-tools: []` for none, or the operator gives it a ceiling by an overlay."
    "#);
    let rules: Vec<&str> = sarif["runs"][0]["tool"]["driver"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["id"].as_str().unwrap())
        .collect();
    for result in results {
        assert!(rules.contains(&result["ruleId"].as_str().unwrap()), "{result}");
    }
    // With nothing to say it is a whole document too.
    let ran = project.run(&["check", ".claude/skills/good", "--format", "sarif"]);
    let sarif: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, sarif["runs"][0]["results"].as_array().unwrap().len()), (0, 0));
}

#[test]
fn every_file_below_a_directory_of_policies_is_looked_at() {
    let project = Project::new();
    let policy = "version: 1\ngrant: []\n";
    project.write("policies/mine.yaml", policy).write("policies/more/deep/other.yaml", policy);
    project.write("policies/more/notes.txt", "x").write("config/other.yaml", "no: policy\n");
    let found: Vec<String> = rows(&project, &["."]).into_iter().map(|(path, ..)| path).collect();
    assert_eq!(found, ["./policies/mine.yaml", "./policies/more/deep/other.yaml"]);
}
