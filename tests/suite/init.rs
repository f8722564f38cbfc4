//! `init`: what it finds, what it says where nothing is, and the policy that it writes.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::project::{Project, write};

/// The policy with everything in force that it offers.
fn uncommented(text: &str) -> String {
    let offered = |rest: &&str| ["  - ", "accept:", "env:"].iter().any(|start| rest.starts_with(start));
    let line = |line: &str| line.strip_prefix('#').filter(offered).unwrap_or(line).to_owned() + "\n";
    text.lines().map(line).collect()
}

#[test]
fn init_writes_a_policy_that_reads_and_ends_with_a_command_that_works() {
    let project = Project::new();
    project.skill("shell", "Read, Bash(git log:*), Write(docs/**)").skill("reader", "Read, Grep");
    project.write(".claude/skills/bare/SKILL.md", "---\ndescription: d\n---\nb\n");
    let (exit, value) = project.json(&["init"]);
    assert_eq!(exit, 0, "{value}");
    assert_eq!(value["withheld"], json!(["tool:bash(git log:*)", "tool:write(docs/**)"]));
    let path = std::path::PathBuf::from(value["policy"].as_str().unwrap());
    assert!(!path.starts_with(project.root()), "outside the workspace");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    // The command is run as printed.
    let command = value["command"].as_str().unwrap();
    assert!(command.starts_with("depute run reader "), "{command}");
    let output = project.surround(std::process::Command::new("sh"), &["-c", command]).output().unwrap();
    let ran = super::project::ran(&output);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "ok      say: hello\n"), "{}", ran.stderr);
    // Nothing beyond reading is granted until a line is uncommented, and then exactly that is.
    let grant = |text: &str| depute::policy::Policy::read(text.as_bytes()).unwrap();
    assert!(
        grant(&text)
            .grant
            .uses
            .iter()
            .all(|id| !["tool:bash", "tool:write"].contains(&id.unscoped().as_str()))
    );
    let opened = grant(&uncommented(&text));
    assert_eq!(opened.grant.uses.len(), grant(&text).grant.uses.len() + 2);
    assert_eq!(opened.accept.len(), 3, "beside what runs programs nothing holds, so each has its line");
    // What is there is never overwritten.
    let (exit, value) = project.json(&["init"]);
    assert_eq!((exit, value["error"]["code"].as_str()), (80, Some("ALREADY_THERE")));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

/// A runtime of the operator's own, whose program no machine has, and which can only be planned.
fn lab(project: &Project) {
    let profile = include_str!("../../policies/runtimes/pi.yaml")
        .replace("runtime: pi", "runtime: lab")
        .replace("find: pi", "find: depute-test-lab");
    write(&project.config().join("runtimes/lab.yaml"), profile);
}

/// What `init` says to a person in this environment, without the paths of this test, and without `pi`,
/// which this machine may have.
fn said(project: &Project, env: &[(&str, &str)]) -> String {
    let output = project.command(&["init"]).envs(env.iter().copied()).output().unwrap();
    let text = super::project::ran(&output).stdout;
    let text = text.replace(&project.config().display().to_string(), "CONFIG");
    let key = depute::host::key(&project.root().canonicalize().unwrap());
    let text = text.replace(&key, "KEY");
    let (before, pi) = text.split_once("pi (").unwrap();
    format!("{before}{}", pi.split_once("), ").unwrap().1)
}

#[test]
fn init_where_nothing_is_says_so_of_each() {
    let project = Project::new();
    lab(&project);
    insta::assert_snapshot!(said(&project, &[]), @r"
      definitions  none found, of the project or of the user
      runtimes     command (here), lab (not found), scripted (here)
      models       none found: no definition names one, and none of ANTHROPIC_MODEL, COPILOT_MODEL, GEMINI_MODEL, OPENAI_MODEL is set; no runtime that can be started takes one
      keys         none found: none of ANTHROPIC_API_KEY, OPENAI_API_KEY is set
      granted      agent:*, tool:find, tool:glob, tool:grep, tool:ls, tool:read
      withheld     none
      written      CONFIG/policies/KEY.yaml

    This works now:

        depute demo
    ");
    std::fs::remove_dir_all(project.config().join("policies")).unwrap();
    let (exit, value) = project.json(&["init"]);
    assert_eq!((exit, value["command"].as_str()), (0, Some("depute demo")));
    for key in ["definitions", "withheld", "models", "keys"] {
        assert_eq!(value[key], json!([]), "{key}");
    }
    let states: Vec<String> = value["runtimes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|runtime| format!("{} {}", runtime["name"], runtime["state"]))
        .collect();
    let expected = [r#""command" "ready""#, r#""lab" "missing""#, r#""scripted" "ready""#];
    assert!(expected.iter().all(|state| states.iter().any(|own| own == state)), "{states:?}");
    assert_eq!(value["runtimes"][0]["program"], "/bin/sh");
}

#[test]
fn init_says_what_it_finds_of_each_and_offers_it() {
    let project = Project::new();
    let agent = |keys: &str| format!("---\ndescription: d\n{keys}\n---\nb\n");
    project
        .write(".github/agents/writer.agent.md", agent("tools: [read, edit]\nmodel: large"))
        .write(".claude/agents/shell.md", agent("tools: Read, Bash\nmodel: large"))
        .write(".gemini/agents/plain.md", agent("tools: [read_file]\nmodel: inherit"))
        .write(".cursor/agents/silent.md", agent("readonly: false"));
    let env = [("ANTHROPIC_API_KEY", "sk-secret"), ("GEMINI_MODEL", "flash-secret"), ("OPENAI_API_KEY", "")];
    lab(&project);
    let said = said(&project, &env);
    insta::assert_snapshot!(said, @r"
      definitions  4 found, 3 declare their tools
                   silent: declares no tools
      runtimes     command (here), lab (not found), scripted (here)
      models       large (by shell, writer), what GEMINI_MODEL says; no runtime that can be started takes one
      keys         ANTHROPIC_API_KEY; none is passed until the policy names it in `env`
      granted      agent:*, tool:find, tool:glob, tool:grep, tool:ls, tool:read
      withheld     tool:bash, tool:edit
      written      CONFIG/policies/KEY.yaml

    This works now:

        depute run plain --runtime scripted --trust-workspace --task 'say hello'
    ");
    assert!(!said.contains("secret"), "no value is shown");
    // A runtime where only the caller's PATH leads is not one that a child could be.
    let program = project.home().join("bin/depute-test-lab");
    write(&program, "#!/bin/sh\n");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::fs::read_dir(project.config().join("policies")).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let search = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let output = project.command(&["init", "--json"]).env("PATH", search).output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["runtimes"][1]["state"], "out_of_reach");
    assert_eq!(value["runtimes"][1]["program"], program.to_str().unwrap());
    assert_eq!(value["models"][0], json!({"model": "large", "from": "shell"}));
    // Uncommented, the policy says all that was offered, and a shell waits for nothing but a yes.
    let key = text.lines().find(|line| line.starts_with("#env:")).unwrap();
    assert_eq!(key, "#env: [ANTHROPIC_API_KEY]");
    std::fs::write(&path, uncommented(&text)).unwrap();
    let plan = ["plan", "shell", "--runtime", "scripted", "--task", "x", "--trust-workspace"];
    project.write(".claude/agents/shell.md", agent("tools: Read, Bash"));
    let (exit, value) = project.json(&plan);
    assert_eq!((exit, value["refusal"]["code"].as_str()), (81, Some("GATED_UNAPPROVED")), "{value}");
    // Positive control: as it was written, it is refused for what it does not grant.
    std::fs::write(&path, text).unwrap();
    assert_eq!(project.json(&plan).1["refusal"]["code"], "CAPABILITY_ESCALATION");
}

#[test]
fn init_goes_on_where_a_profile_cannot_be_read_and_says_so() {
    let project = Project::new();
    write(&project.config().join("runtimes/mine.yaml"), "version: 1\n");
    let (exit, value) = project.json(&["init"]);
    assert_eq!(exit, 0, "{value}");
    assert_eq!(value["runtimes"][1]["state"], "unreadable", "{value}");
    assert!(value["runtimes"][1]["message"].as_str().unwrap().contains("mine.yaml"), "{value}");
    std::fs::remove_dir_all(project.config().join("policies")).unwrap();
    let said = said(&project, &[]);
    assert!(said.contains("mine has a profile that cannot be read") && said.contains("correct it"), "{said}");
}

/// Where no whole ceiling is granted, the command asks for what only reads of one.
#[test]
fn the_command_asks_for_less_where_a_definition_wants_more() {
    let project = Project::new();
    project.skill("builder", "Bash, Grep, Read(docs/**), Read");
    let (code, value) = project.json(&["init"]);
    let command = value["command"].as_str().unwrap();
    assert_eq!(code, 0);
    assert!(command.contains("run builder --use tool:grep,tool:read "), "{command}");
    let output = project.surround(std::process::Command::new("sh"), &["-c", command]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
