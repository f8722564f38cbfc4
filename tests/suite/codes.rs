//! Every code, and every rule that only the whole program finds broken, shows its message and its fix.

use depute::plan::Code;
use insta::assert_snapshot;

use super::project::{Project, redacted, write};
use super::source::{raised, rust_files};
use super::support::{LAB, manifest_dir};

#[test]
fn what_the_program_finds_has_a_rule_and_a_fix_too() {
    let project = Project::new();
    project.skill("reader", "Read").skill("misspelt", "Read, Reed").skill("outer", "Read");
    project.skill("outer/inner/deep", "Read").write(".claude/commands/ship.md", "Ship it.\n");
    project.write("tested.yaml", "version: 1\ngrant: [tool:read]\nruntime: {default: scripted}\ntests: [{name: reads, request: {use: [tool:bash]}, expect: granted}]\n");
    let digest = format!("sha256:{}", "0".repeat(64));
    project.write(
        "voided.yaml",
        format!("version: 1\ngrant: []\noverlays: [{{definition: reader, digest: '{digest}', allow: []}}]\n"),
    );
    project.write("wide.yaml", "version: 1\ngrant: [tool:read, tool:bash]\n");
    nix::unistd::mkfifo(&project.root().join(".claude/agents.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    write(&project.config().join("runtimes/mine.yaml"), LAB);
    let plan =
        |policy, runtime| vec!["--policy", policy, "plan", "reader", "--task", "x", "--runtime", runtime];
    let mut text = String::new();
    let mut show = |args: &[&str]| {
        let ran = project.run(args);
        let (root, config) = (project.root().display().to_string(), project.config().display().to_string());
        text += &format!("$ depute {}\n{}{}\n", args.join(" "), ran.stdout, ran.stderr)
            .replace(&root, "ROOT")
            .replace(&config, "CONFIG");
        assert_ne!(ran.code, 0, "{args:?}");
    };
    show(&["check", ".claude/skills/misspelt"]);
    show(&["check", ".claude/skills/outer/inner"]);
    show(&["check", ".claude/commands/ship.md"]);
    show(&["check", ".claude/agents.md"]);
    show(&["check", "tested.yaml"]);
    show(&["--policy", "voided.yaml", "check", ".claude/skills/reader"]);
    show(&plan("nowhere.yaml", "scripted"));
    show(&plan("wide.yaml", "scriptd"));
    show(&plan("wide.yaml", "mine"));
    write(&project.config().join("policy.yaml"), "version: 1\ngrant: [tool:read]\nlocked: [grant]\n");
    show(&plan("wide.yaml", "scripted"));
    for rule in raised(&["plan", "broker", "discover", "cli"]).keys().filter(|rule| *rule != "undeclared") {
        assert!(text.contains(rule.as_str()), "`{rule}` is not shown");
    }
    assert_snapshot!(redacted(&text), @r"
    $ depute check .claude/skills/misspelt
    1 checked: 1 with unknown tools
    refused    skill    .claude/skills/misspelt/SKILL.md  tool:read, tool:reed
      error[UNKNOWN_TOOL]: `tool:reed` is a tool that no runtime knows
       --> .claude/skills/misspelt/SKILL.md:4:22
        |
      4 | allowed-tools: Read, Reed
        |                      ^^^^ unknown-tool
        |
        = help: did you mean `tool:read`?
    1 file would be mended by `--fix --names --allow-widening`: look at its diff before you say yes

    $ depute check .claude/skills/outer/inner
    1 checked: 1 refused
    refused    skill    .claude/skills/outer/inner/deep/SKILL.md
      error[UNKNOWN_DEFINITION]: is not where a definition stands below ROOT/.claude/skills
       |
       = note: .claude/skills/outer/inner/deep/SKILL.md:1:1 (not-in-force)
       = help: put it into `skills/NAME/SKILL.md` or `agents/NAME.md` of a root

    $ depute check .claude/commands/ship.md
    1 checked: 1 unreadable
    refused    other    .claude/commands/ship.md
      error[DEFINITION_UNREADABLE]: is a slash command, which is no definition
       |
       = note: .claude/commands/ship.md:1:1 (not-a-definition)
       = help: rename it, or leave it out

    $ depute check .claude/agents.md
    1 checked: 1 unreadable
    refused    agent    .claude/agents.md
      error[DEFINITION_UNREADABLE]: is no regular file
       |
       = note: .claude/agents.md:1:1 (unreadable)
       = help: put a regular file there, or remove it

    $ depute check tested.yaml
    1 checked: 1 refused
    refused    policy   tested.yaml
      error[POLICY_TEST_FAILED]: its test `reads` expects granted, and it is refused (DEFINITION_NOT_AUTHORIZED)
       --> tested.yaml:4:9
        |
      4 | tests: [{name: reads, request: {use: [tool:bash]}, expect: granted}]
        |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ policy-test
        |
        = help: correct the rule or the test

    $ depute --policy voided.yaml check .claude/skills/reader
    1 checked: 1 undeclared
    undeclared skill    .claude/skills/reader/SKILL.md
      error[UNDECLARED_TOOLS]: declares tools, but the overlay that bounds it is void since the file has changed
       --> .claude/skills/reader/SKILL.md:4:16
        |
      4 | allowed-tools: Read
        |                ^^^^ void-overlay
        |
        = help: look at what has changed, then put the new digest into the overlay
    1 file may be given a ceiling in your policy: `--overlay` for none, `--overlay=read` for reading

    $ depute --policy nowhere.yaml plan reader --task x --runtime scripted
    error[POLICY_INVALID]: cannot be read: No such file or directory (os error 2)
     |
     = note: nowhere.yaml:1:1 (unreadable)
     = help: let this user read it, or name one that is there

    $ depute --policy wide.yaml plan reader --task x --runtime scriptd
    error[REQUEST_MALFORMED]: there is no runtime `scriptd`
     |
     = note: --runtime:1:1 (unknown-runtime)
     = help: did you mean `scripted`?

    $ depute --policy wide.yaml plan reader --task x --runtime mine
    error[REQUEST_MALFORMED]: says that it is `lab`, and is asked for as `mine`
     --> CONFIG/runtimes/mine.yaml:1:1
      |
    1 | version: 1
      | ^ profile-name
      |
      = help: let `runtime` and the file name agree

    $ depute --policy wide.yaml plan reader --task x --runtime scripted
    error[POLICY_INVALID]: `grant` is locked at CONFIG/policy.yaml:3:10, and `tool:bash` goes beyond it
     --> wide.yaml:2:20
      |
    2 | grant: [tool:read, tool:bash]
      |                    ^^^^^^^^^ locked
      |
      = help: remove `tool:bash` from `grant`, or take `grant` out of `locked` there
    ");
}

/// Codes that nothing raises: what they are for is not built.
const NOT_RAISED: [&str; 2] = ["WORKSPACE_WRITE_CONFLICT", "RUNTIME_ATTESTATION_FAILED"];
/// Codes that are raised where no request leads.
const NOT_REACHED: [(&str, &str); 1] =
    [("RESOURCE_NOT_FOUND", "skills and extensions stop at step 9, which a test of its own says")];

/// A snapshot of a code is the verdict and the code, then its message and its fix; or the code, its
/// message and its fix on one line.
#[test]
fn every_code_shows_its_message_and_its_fix() {
    let tests: Vec<String> = ["refused_requests", "refused_grants", "running", "refused_input"]
        .map(|file| std::fs::read_to_string(manifest_dir().join(format!("tests/suite/{file}.rs"))).unwrap())
        .into();
    let product: String = rust_files("src").into_iter().map(|(_, text)| text).collect();
    for code in Code::ALL {
        let text = code.as_str();
        let shown = tests.iter().flat_map(|test| test.lines()).any(|line| {
            let line = line.trim().trim_start_matches("refused ").trim_start_matches("held ");
            let line = line.split_once('"').map_or(line, |(_, line)| line);
            line.starts_with(&format!("{text} ("))
                || line.strip_prefix(text).is_some_and(|rest| rest.starts_with(' ') && rest.contains("; "))
                || line.contains(&format!("error[{text}]: "))
        });
        let excused = NOT_RAISED.contains(&text) || NOT_REACHED.iter().any(|(code, _)| *code == text);
        assert_eq!(shown, !excused, "{text}: a code has a snapshot, or a reason why it has none");
        let raised = product.matches(&format!("Code::{code:?}")).count();
        assert_eq!(raised == 0, NOT_RAISED.contains(&text), "{text} is raised in {raised} places");
    }
}
