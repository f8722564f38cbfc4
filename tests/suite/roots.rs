//! The table of roots: each is looked through, one name in two of them, links between them, and the
//! files of other forms that stand in them.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use depute::definition::{Ceiling, Definition, DefinitionKind};
use depute::discover::roots::{Base, RootKind, TABLE, kind_of};
use serde_json::{Value, json};

use super::project::{Project, write};
use super::support;

const README: &str = include_str!("../../README.md");

fn skill(tools: &str) -> String {
    format!("---\ndescription: for a test\nallowed-tools: {tools}\n---\nDo it.\n")
}

fn agent(tools: &str) -> String {
    format!("---\ndescription: for a test\ntools: {tools}\n---\nDo it.\n")
}

/// The rows of `list`.
fn rows(project: &Project) -> Vec<Value> {
    let ran = project.run(&["list", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Name, origin and state of each row, where it is a definition.
fn listed(project: &Project) -> Vec<String> {
    let word = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let rows = rows(project).into_iter().filter(|row| !row["name"].is_null());
    rows.map(|row| format!("{} {} {}", word(&row, "name"), word(&row, "origin"), word(&row, "state")))
        .collect()
}

fn plan(project: &Project, agent: &str) -> Value {
    project.json(&["plan", agent, "--task", "x", "--runtime", "scripted", "--trust-workspace"]).1
}

fn code(project: &Project, agent: &str) -> String {
    plan(project, agent)["refusal"]["code"].as_str().unwrap_or("granted").to_owned()
}

#[test]
fn the_readme_has_every_root() {
    for row in TABLE {
        let written = |paths: Vec<PathBuf>| {
            paths.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(", ")
        };
        let project = written(row.project.iter().map(|(path, _)| path.into()).collect());
        let line = format!("| {} | {project} | {} |", row.runtime, written(row.user_as_written()));
        assert!(README.lines().any(|own| own == line), "{line}");
    }
    let rows = README.lines().skip_while(|line| !line.starts_with("| looks here | in the project |"));
    assert_eq!(rows.take_while(|line| line.starts_with('|')).count(), TABLE.len() + 2, "and no other");
}

#[test]
fn every_root_is_looked_through() {
    let project = Project::new();
    let mut expected = Vec::new();
    let mut put = |root: &Path, kind: RootKind, origin: &str| {
        let name = format!("d{:02}", expected.len());
        match kind {
            RootKind::Skills => write(&root.join(&name).join("SKILL.md"), skill("Read")),
            RootKind::Agents => write(&root.join(format!("{name}.md")), agent("Read")),
        }
        let state = if origin == "user" { "spawnable" } else { "untrusted" };
        expected.push(format!("{name} {origin} {state}"));
    };
    for row in TABLE {
        for (path, kind) in row.project {
            put(&project.root().join(path), *kind, "workspace");
        }
        let base = match row.base {
            Base::Home => project.home(),
            Base::Config => project.config().parent().unwrap().to_owned(),
        };
        for (path, kind) in row.user {
            put(&base.join(path), *kind, "user");
        }
    }
    assert_eq!(expected.len(), 34);
    assert_eq!(listed(&project), expected);
    // Positive control: beside the roots nothing is looked at.
    write(&project.root().join(".opencode/modes/none.md"), agent("Read"));
    write(&project.home().join(".pi/skills/none/SKILL.md"), skill("Read"));
    assert_eq!(listed(&project), expected);
}

#[test]
fn one_name_in_two_roots_of_a_place_is_refused_unless_they_are_copies() {
    for (first, second) in [(".claude/skills", ".agents/skills"), (".pi/skills", ".opencode/skill")] {
        let project = Project::new();
        let (first, second) = (format!("{first}/x/SKILL.md"), format!("{second}/x/SKILL.md"));
        project.write(&first, skill("Read")).write(&second, skill("Read, Grep"));
        let refused = plan(&project, "x");
        assert_eq!(refused["refusal"]["code"], "UNKNOWN_DEFINITION", "{refused}");
        assert_eq!(refused["refusal"]["details"]["near"].as_array().unwrap().len(), 2, "{refused}");
        // Each is what it is, by its path, and the list says so.
        assert_eq!(plan(&project, &first)["effective"], json!(["tool:read"]));
        assert_eq!(plan(&project, &second)["effective"], json!(["tool:grep", "tool:read"]));
        for row in rows(&project) {
            assert_eq!(row["ask"], row["path"]);
            assert_eq!(code(&project, row["ask"].as_str().unwrap()), "granted");
        }
        // Copies are one definition that is there twice, until a byte beside one changes.
        project.write(&second, skill("Read"));
        assert_eq!(plan(&project, "x")["effective"], json!(["tool:read"]));
        assert_eq!(plan(&project, "x")["shadowed"].as_array().unwrap().len(), 1);
        let asks: Vec<Value> = rows(&project).iter().map(|row| row["ask"].clone()).collect();
        assert_eq!(asks[0], "x");
        assert!(asks[1].as_str().unwrap().ends_with("SKILL.md"), "{asks:?}");
        project.write(&second.replace("SKILL.md", "notes.md"), "more");
        assert_eq!(code(&project, "x"), "UNKNOWN_DEFINITION");
    }
}

#[test]
fn a_copy_of_another_kind_or_one_that_cannot_be_read_is_no_copy() {
    let project = Project::new();
    let both = "---\ndescription: d\nallowed-tools: Read\ntools: Read, Grep\n---\nb\n";
    project.write(".claude/skills/x.md", both).write(".claude/agents/x.md", both);
    assert_eq!(code(&project, "x"), "UNKNOWN_DEFINITION");
    project.write(".gemini/agents/y.md", both).write(".cursor/agents/y.md", both);
    assert_eq!(plan(&project, "y")["effective"], json!(["tool:grep", "tool:read"]));
    write(&project.home().join("elsewhere.md"), both);
    std::fs::remove_file(project.root().join(".cursor/agents/y.md")).unwrap();
    symlink(project.home().join("elsewhere.md"), project.root().join(".cursor/agents/y.md")).unwrap();
    assert_eq!(code(&project, "y"), "UNKNOWN_DEFINITION");
}

#[test]
fn a_users_definition_goes_before_the_projects_in_whichever_roots_they_are() {
    let project = Project::new();
    project.skill("x", "Read, Write");
    assert_eq!(code(&project, "x"), "CAPABILITY_ESCALATION");
    write(&project.home().join(".cursor/skills/x/SKILL.md"), skill("Read"));
    let planned = plan(&project, "x");
    assert_eq!((&planned["effective"], &planned["verdict"]), (&json!(["tool:read"]), &json!("granted")));
    assert_eq!(code(&project, "x@workspace"), "CAPABILITY_ESCALATION");
}

#[test]
fn a_root_that_a_link_reaches_again_is_one_root() {
    let project = Project::new();
    project.skill("x", "Read");
    std::fs::create_dir(project.root().join(".agents")).unwrap();
    symlink("../.claude/skills", project.root().join(".agents/skills")).unwrap();
    assert_eq!(listed(&project), ["x workspace untrusted"]);
    assert_eq!(code(&project, "x"), "granted");
    // By its other path it is the same, and what is none there is none.
    assert_eq!(code(&project, ".agents/skills/x/SKILL.md"), "granted");
    assert_eq!(project.json(&["check", ".agents/skills/x/SKILL.md"]).1["state"], "spawnable");
    project.write(".claude/skills/x/deep/SKILL.md", skill("Read"));
    assert_eq!(project.json(&["check", ".agents/skills/x/deep/SKILL.md"]).1["code"], "UNKNOWN_DEFINITION");
    // What the user links into a project is the user's.
    std::fs::create_dir_all(project.home().join(".claude")).unwrap();
    symlink(project.root().join(".claude/skills"), project.home().join(".claude/skills")).unwrap();
    assert_eq!(listed(&project), ["x user spawnable"]);
}

#[test]
fn in_the_home_directory_each_root_is_the_users_or_the_projects_once() {
    let project = Project::new();
    for path in [".claude/skills/mine", ".github/skills/ours"] {
        write(&project.home().join(path).join("SKILL.md"), skill("Read"));
    }
    std::fs::create_dir(project.home().join(".git")).unwrap();
    let mut list = project.command(&["list", "--json"]);
    let output = list.current_dir(project.home()).output().unwrap();
    let found: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|row| json!([row["name"], row["origin"], row["state"]]))
        .collect();
    assert_eq!(found, [json!(["mine", "user", "spawnable"]), json!(["ours", "workspace", "untrusted"])]);
}

#[test]
fn a_definition_that_another_root_links_to_is_one_definition() {
    for base in ["project", "home"] {
        let project = Project::new();
        let base = if base == "home" { project.home() } else { project.root() };
        write(&base.join(".agents/skills/x/SKILL.md"), skill("Read"));
        write(&base.join(".claude/agents/y.md"), agent("Read"));
        for dir in [".claude/skills", ".cursor/agents"] {
            std::fs::create_dir_all(base.join(dir)).unwrap();
        }
        symlink("../../.agents/skills/x", base.join(".claude/skills/x")).unwrap();
        symlink("../../.claude/agents/y.md", base.join(".cursor/agents/y.md")).unwrap();
        assert_eq!(rows(&project).len(), 2, "{:?}", rows(&project));
        for name in ["x", "y"] {
            assert_eq!(plan(&project, name)["effective"], json!(["tool:read"]), "{name}");
            assert_eq!(plan(&project, name)["shadowed"], json!([]));
        }
        let path = base.join(".claude/skills/x/SKILL.md");
        assert_eq!(project.json(&["check", path.to_str().unwrap()]).1["state"], "spawnable");
        // Positive control: a link to what is in no root keeps its name, and is not followed.
        write(&base.join("drafts/z/SKILL.md"), skill("Read"));
        symlink("../../drafts/z", base.join(".claude/skills/z")).unwrap();
        assert_eq!(code(&project, "z"), "DEFINITION_UNREADABLE");
        write(&base.join(".agents/skills/z/SKILL.md"), skill("Read"));
        assert_eq!(code(&project, "z"), "UNKNOWN_DEFINITION", "the two may differ");
    }
}

#[test]
fn a_root_of_the_user_that_is_away_keeps_every_name_and_one_that_is_not_there_keeps_none() {
    let project = Project::new();
    project.skill("x", "Read");
    assert_eq!(code(&project, "x"), "granted");
    // A directory behind a link, with one of the two roots in it, is no doubt.
    std::fs::create_dir_all(project.home().join("dots/agents")).unwrap();
    symlink("dots", project.home().join(".gemini")).unwrap();
    assert_eq!(code(&project, "x"), "granted");
    std::fs::rename(project.home().join("dots"), project.home().join("away")).unwrap();
    assert_eq!(code(&project, "x"), "DEFINITION_UNREADABLE");
    let row = &rows(&project)[0];
    assert_eq!((&row["name"], &row["ask"]), (&json!("x"), &json!("x@workspace")));
    assert_eq!(code(&project, "x@workspace"), "granted");
}

#[test]
fn files_of_other_forms_are_passed_over_with_the_reason() {
    let project = Project::new();
    project
        .write(".codex/agents/auditor.toml", "name = \"auditor\"\n")
        .write(".codex/agents/read.md", agent("Read"))
        .write(".cursor/agents/style.mdc", "---\ndescription: d\n---\n")
        .write(".github/agents/old.chatmode.md", agent("[read]"))
        .write(".github/agents/ask.prompt.md", agent("[read]"))
        .write(".github/agents/js.instructions.md", agent("[read]"))
        .write(".opencode/agents/team/reviewer.md", agent("Read"))
        .write(".agents/skills/odd/skill.md", skill("Read"))
        .write(".agents/skills/notes/readme.txt", "no skill, and nothing to say of it");
    let passed_over: Vec<String> = rows(&project)
        .iter()
        .filter(|row| row["state"] == "passed_over")
        .map(|row| {
            assert!(row["name"].is_null() && row["ask"].is_null(), "{row}");
            let path = Path::new(row["path"].as_str().unwrap());
            let path = path.strip_prefix(project.root().canonicalize().unwrap()).unwrap();
            format!("{} {}", path.display(), row["message"].as_str().unwrap())
        })
        .collect();
    insta::assert_snapshot!(passed_over.join("\n"), @r"
    .agents/skills/odd has its file under another spelling than `SKILL.md`
    .codex/agents/auditor.toml is an agent in TOML, as Codex has them, which is not read; write it as `NAME.md` with `tools`
    .cursor/agents/style.mdc is a rule, as Cursor has them, which is no definition
    .github/agents/ask.prompt.md is a prompt, as Copilot has them, which is no definition
    .github/agents/js.instructions.md is a file of instructions, as Copilot has them, which is no definition
    .github/agents/old.chatmode.md is a chat mode, as Copilot had them, which is not read; rename it to `NAME.agent.md`
    .opencode/agents/team is a directory of agents, which is not looked into; move them up
    ");
    // Positive control: what stands beside them is read.
    assert_eq!(listed(&project), ["read workspace untrusted"]);
    // `check` says the same of a file that is named.
    let (exit, value) = project.json(&["check", ".codex/agents/auditor.toml"]);
    assert_eq!((exit, value["state"].as_str()), (82, Some("refused")));
    assert!(value["message"].as_str().unwrap().contains("in TOML"), "{value}");
    let (_, value) = project.json(&["check", ".cursor/agents/style.mdc"]);
    assert!(value["message"].as_str().unwrap().contains("rule"), "{value}");
    project.write("Cargo.toml", "[package]\n");
    let (_, value) = project.json(&["check", "Cargo.toml"]);
    assert!(value["message"].as_str().unwrap().contains("neither a definition"), "{value}");
}

#[test]
fn a_file_elsewhere_is_what_its_directory_says_by_the_same_table() {
    assert_eq!(kind_of(Path::new("/x/.opencode/skill")), Some(RootKind::Skills));
    assert_eq!(kind_of(Path::new("/x/.opencode/agent")), Some(RootKind::Agents));
    assert_eq!(kind_of(Path::new("/x/pack/skills")), Some(RootKind::Skills));
    assert_eq!(kind_of(Path::new("/x/skill")), None);
    let project = Project::new();
    let both = "---\ndescription: d\nallowed-tools: Read\ntools: Grep\n---\nb\n";
    for (path, ceiling) in [
        ("vendored/.opencode/skill/x.md", json!(["tool:read"])),
        ("vendored/.opencode/agent/x.md", json!(["tool:grep"])),
        ("vendored/.github/agents/x.agent.md", json!(["tool:grep"])),
        ("vendored/.pi/agent/skills/x.md", json!(["tool:read"])),
    ] {
        project.write(path, both);
        let (_, value) = project.json(&["check", path]);
        assert_eq!((&value["ceiling"], &value["name"]), (&ceiling, &json!("x")), "{path}");
    }
}

/// The ceiling of an agent file with these keys, or the rule that refuses it and its fix.
fn ceiling(keys: &str) -> String {
    let text = format!("---\ndescription: d\n{keys}\n---\nb\n");
    match Definition::read(text.into_bytes(), DefinitionKind::Agent, support::name("x")) {
        Err(problem) => format!("refused: {}; {}", problem.rule, problem.fix.unwrap_or_default()),
        Ok(definition) => match definition.ceiling() {
            Ceiling::Undeclared(_) => "undeclared".to_owned(),
            Ceiling::Declared(set) if set.texts().is_empty() => "none".to_owned(),
            Ceiling::Declared(set) => set.texts().join(" "),
        },
    }
}

/// The keys of each runtime's own documentation: read as they are meant, or refused.
#[test]
fn what_other_runtimes_write_is_never_read_as_more() {
    let keys = [
        ("Gemini", "kind: local\ntools:\n  - read_file\n  - grep_search\nmax_turns: 10"),
        ("Gemini, everything", "tools: ['*']"),
        ("Gemini, a server", "tools: [read_file, mcp_files_*]"),
        ("Copilot", "target: vscode\ntools: ['read', 'edit', 'search']"),
        ("Copilot, none", "tools: []"),
        ("Copilot, everything", "tools: ['*']"),
        ("Copilot, a server", "tools: ['read', 'github/*']"),
        ("Copilot, a shell by its alias", "tools: [execute]"),
        ("Cursor", "model: inherit\nis_background: true"),
        ("Cursor, and tools of another", "readonly: false\ntools: Read"),
        ("Cursor, read-only", "readonly: true\ntools: Read, Write, Bash"),
        ("Cursor, by another spelling", "read_only: \"yes\"\ntools: Read, Write"),
        ("OpenCode", "mode: subagent"),
        ("OpenCode, tools", "tools:\n  write: false\n  bash: false"),
        ("OpenCode, permission", "permission:\n  edit: deny\n  bash: {'*': ask, 'git diff': allow}"),
        ("OpenCode 2", "permissions:\n  - {action: edit, resource: '*', effect: deny}\ntools: Read, Edit"),
        ("OpenCode, off", "disable: true\ntools: Read"),
        ("OpenCode, not off", "disable: false\ntools: Read"),
        ("pi", "tools: read, grep, find, ls\nmodel: small"),
    ];
    let found: Vec<String> = keys.iter().map(|(whose, keys)| format!("{whose}: {}", ceiling(keys))).collect();
    insta::assert_snapshot!(found.join("\n"), @r"
    Gemini: tool:grep tool:read
    Gemini, everything: refused: wildcard; name each tool
    Gemini, a server: refused: wildcard; name each tool
    Copilot: tool:edit tool:read tool:search
    Copilot, none: none
    Copilot, everything: refused: wildcard; name each tool
    Copilot, a server: refused: wildcard; name each tool
    Copilot, a shell by its alias: tool:execute
    Cursor: undeclared
    Cursor, and tools of another: tool:read
    Cursor, read-only: refused: unsupported-restriction; name what is allowed in `tools` and remove `readonly`, or write it `disallowedTools`
    Cursor, by another spelling: refused: unsupported-restriction; name what is allowed in `tools` and remove `read_only`, or write it `disallowedTools`
    OpenCode: undeclared
    OpenCode, tools: refused: wrong-type; name each tool that is meant to be on: `tools: Read, Grep`
    OpenCode, permission: refused: unsupported-restriction; name what is allowed in `tools` and remove `permission`, or write it `disallowedTools`
    OpenCode 2: refused: unsupported-restriction; name what is allowed in `tools` and remove `permissions`, or write it `disallowedTools`
    OpenCode, off: refused: switched-off; remove `disable`, if it is meant to be used
    OpenCode, not off: tool:read
    pi: tool:find tool:grep tool:ls tool:read
    ");
}
