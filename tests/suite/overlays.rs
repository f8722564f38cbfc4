//! Overlays that `check --overlay` writes into the operator's policy.

use depute::policy::{DelegateCeiling, Overlay, Policy, with_overlays};

use super::project::Project;
use super::support::{digest, name, set};

fn overlay(definition: &str, uses: &[&str]) -> Overlay {
    Overlay {
        definition: name(definition),
        digest: digest(definition),
        uses: set(uses),
        delegate: DelegateCeiling::Unstated,
    }
}

/// The policy with two overlays more, without their digests.
fn added(policy: &str) -> String {
    let overlays = [overlay("a", &["tool:read"]), overlay("1.10", &["tool:bash(git log:*)"])];
    let text = match with_overlays(policy.as_bytes(), &overlays) {
        Ok(bytes) => String::from_utf8(bytes).unwrap(),
        Err(problem) => return format!("{}: {}", problem.rule, problem.message),
    };
    let read = Policy::read(text.as_bytes()).unwrap();
    assert_eq!(read.overlays[read.overlays.len() - 2..], overlays);
    overlays.iter().fold(text, |text, overlay| text.replace(&overlay.digest.to_string(), "…"))
}

#[test]
fn overlays_are_put_behind_those_that_are_there() {
    let old = format!("{{definition: old, digest: \"{}\", allow: []}}", digest("old"));
    let show = |policy: &str| added(policy).replace(&digest("old").to_string(), "…");
    let items = "{definition: a, digest: \"…\", allow: [tool:read]}";
    let other = "{definition: '1.10', digest: \"…\", allow: [tool:bash(git log:*)]}";
    let kept = "{definition: old, digest: \"…\", allow: []}";
    assert_eq!(
        show("version: 1 # mine\ngrant: []"),
        format!("version: 1 # mine\ngrant: []\n\noverlays:\n  - {items}\n  - {other}\n")
    );
    assert_eq!(
        show("version: 1\noverlays: [] # none yet\ngrant: []\n"),
        format!("version: 1\noverlays: # none yet\n  - {items}\n  - {other}\ngrant: []\n")
    );
    assert_eq!(
        show(&format!("version: 1\noverlays:\n- {old} # reviewed\n\n# more\ngrant: []\n")),
        format!("version: 1\noverlays:\n- {kept} # reviewed\n- {items}\n- {other}\n\n# more\ngrant: []\n")
    );
    assert_eq!(
        show(&format!("version: 1\ngrant: []\noverlays: [{old}]\n")),
        format!("version: 1\ngrant: []\noverlays: [{kept}, {items}, {other}]\n")
    );
    assert_eq!(
        show(&format!("version: 1\ngrant: []\noverlays: [\n  {old},\n]\n")),
        format!("version: 1\ngrant: []\noverlays: [\n  {kept},\n{items}, {other}]\n")
    );
    // Nothing is written that would not read back.
    assert!(show("version: 1\ngrnt: []\n").starts_with("unknown-key"));
}

#[test]
fn what_declares_no_tools_gets_a_ceiling_bound_to_its_bytes() {
    let project = Project::new();
    let silent = "---\ndescription: d\n---\nb\n";
    project.write(".claude/skills/silent/SKILL.md", silent).skill("fine", "Read");
    project.write(".claude/skills/takes/SKILL.md", "---\ndescription: d\ndisallowedTools: Read\n---\nb\n");
    project.write(".claude/skills/near/SKILL.md", "---\ndescription: d\nallowed_tools: Read\n---\nb\n");
    let without = project.run(&["check", ".claude", "--overlay", "--yes"]);
    assert_eq!(without.code, 2);
    assert!(without.stderr.contains("depute init"), "{}", without.stderr);
    let policy = "# mine\nversion: 1\ngrant: [tool:read, tool:grep, tool:glob, tool:ls, agent:*]\n";
    project.write("policy.yaml", policy);
    let read = || std::fs::read_to_string(project.root().join("policy.yaml")).unwrap();
    let args = ["--policy", "policy.yaml", "check", ".claude"];
    let check = |more: &[&str]| project.run(&[&args[..], more].concat());
    check(&["--overlay"]);
    assert_eq!(read(), policy, "nothing is written unasked");
    let refused = check(&["--overlay=read", "--yes"]);
    assert_eq!(read(), policy, "reading is more than the files declare");
    assert_eq!(refused.stderr.matches("WIDENS, so it is not made").count(), 2, "{}", refused.stderr);
    check(&["--overlay=read", "--yes", "--allow-widening"]);
    let overlays = Policy::read(read().as_bytes()).unwrap().overlays;
    let rows: Vec<(String, Vec<String>)> =
        overlays.iter().map(|overlay| (overlay.definition.to_string(), overlay.uses.texts())).collect();
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        rows,
        [
            ("silent".to_owned(), ids(&["tool:glob", "tool:grep", "tool:ls", "tool:read"])),
            ("takes".to_owned(), ids(&["tool:glob", "tool:grep", "tool:ls"])),
        ]
    );
    assert!(read().starts_with(policy), "what the operator wrote stays");
    let plan = [
        "--policy",
        "policy.yaml",
        "plan",
        "silent",
        "--task",
        "x",
        "--runtime",
        "scripted",
        "--trust-workspace",
    ];
    assert_eq!(project.run(&plan).code, 0);
    // The same again adds nothing, and a changed file is not covered.
    let before = read();
    check(&["--overlay=read", "--yes", "--allow-widening"]);
    assert_eq!(read(), before);
    project.write(".claude/skills/silent/SKILL.md", silent.replace('b', "c"));
    assert_eq!(project.run(&plan).code, 82);
}

#[test]
fn no_overlay_is_written_that_an_earlier_policy_locks_out() {
    let write_with = |locked: &str| {
        let project = Project::new();
        project.write(".claude/skills/silent/SKILL.md", "---\ndescription: d\n---\nb\n");
        project.write("policy.yaml", "version: 1\ngrant: [tool:read]\n");
        let user = format!("version: 1\ngrant: [tool:read]\nlocked: [{locked}]\n");
        super::project::write(&project.config().join("policy.yaml"), user);
        let args = ["--policy", "policy.yaml", "check", ".claude", "--overlay", "--yes"];
        let ran = project.run(&args);
        (ran.code, std::fs::read_to_string(project.root().join("policy.yaml")).unwrap(), ran.stderr)
    };
    let (code, policy, _) = write_with("grant");
    assert_eq!((code, policy.contains("silent")), (0, true));
    let (code, policy, said) = write_with("overlays");
    assert_eq!((code, policy.contains("silent")), (82, false), "{said}");
    assert!(said.contains("locked"), "{said}");
}
