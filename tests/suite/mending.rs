//! What `check` would change in a definition, and what it leaves to its author.

use depute::capability::{Capability, ToolName};
use depute::definition::{Ceiling, Definition, DefinitionKind, Mend, mends};
use proptest::prelude::*;

use super::project::Project;
use super::support::{data, name};

const SKILL: DefinitionKind = DefinitionKind::Skill;

fn of(text: &str) -> Vec<Mend> {
    mends(text.as_bytes(), SKILL, &name("probe"), None)
}

/// The lines that differ between a file and what it would become, without widening.
fn changed(text: &str) -> String {
    let Some(mend) = of(text).into_iter().take_while(|mend| !mend.widens).last() else {
        return String::new();
    };
    let after = String::from_utf8(mend.bytes).unwrap();
    let mut lines: Vec<&str> = after.lines().filter(|line| !text.lines().any(|old| old == *line)).collect();
    // A fence differs from nothing else.
    lines.dedup();
    lines.join("\n")
}

fn skill(tools: &str) -> String {
    format!("---\ndescription: d\nallowed-tools: {tools}\n---\nDo it.\n")
}

#[test]
fn a_form_that_is_not_read_becomes_one_that_is() {
    let describe = |text: &str| changed(&format!("---\ndescription: {text}\nallowed-tools: Read\n---\nb\n"));
    assert_eq!(describe("Use when: asked"), r#"description: "Use when: asked""#);
    assert_eq!(describe(r#"Says "hi": \o/"#), r#"description: "Says \"hi\": \\o/""#);
    assert_eq!(describe("**Bold** move"), r#"description: "**Bold** move""#);
    assert_eq!(describe("[WIP] a thing"), r#"description: "[WIP] a thing""#);
    assert_eq!(describe(r#""Quoted" and more"#), r#"description: "\"Quoted\" and more""#);
    let tools = |text: &str| changed(&skill(text)).replace("allowed-tools: ", "");
    assert_eq!(tools("Read Grep, Glob"), "Read, Grep, Glob");
    assert_eq!(tools("'Read', 'Bash(git log:*)'"), "Read, Bash(git log:*)");
    assert_eq!(tools("\"[Read, Grep]\""), "Read, Grep");
    assert_eq!(tools("[Read, Grep"), "Read, Grep");
    assert_eq!(tools("[\"Read, Grep\"]"), "Read, Grep");
    assert_eq!(tools("\n  - Read, Grep\n  - Glob"), "  - Read\n  - Grep");
    assert_eq!(changed("--- \ndescription: d\nallowed-tools: Read\n---\t\nb\n"), "---");
}

#[test]
fn what_wants_its_author_is_left_alone() {
    // The control: one mistake that can be mended, in a file like the others.
    assert_eq!(of(&skill("Read Grep, Glob")).len(), 1);
    for text in [
        skill("Read, Web Search"),
        skill("*"),
        skill("Read(, Grep"),
        skill("mcp__server__*, Read"),
        skill("{read: true}"),
        "---\ndescription: \"\"\nallowed-tools: Read\n---\nb\n".to_owned(),
        "---\ndescription: \"one\n---\ntwo\"\nallowed-tools: Read\n---\nb\n".to_owned(),
        "---\ndescription: a: b\n  and more\nallowed-tools: Read\n---\nb\n".to_owned(),
        "---\nhooks: a: b\ndescription: d\nallowed-tools: Read\n---\nb\n".to_owned(),
        "---\ndescription: d\nallowed-tools: Read\n--- and so on\nb\n".to_owned(),
        // A restriction is never rewritten: a word lost there would widen.
        "---\ndescription: d\nallowed-tools: Read\ndisallowedTools: Bash Write, Edit\n---\nb\n".to_owned(),
        // One mistake that can be mended does not make the other one readable.
        "---\ndescription: a: b\nallowed-tools: '*'\n---\nb\n".to_owned(),
        // In order: nothing to do.
        skill("Read, Serch"),
    ] {
        assert_eq!(of(&text), [], "{text}");
    }
}

#[test]
fn what_widens_is_marked_and_comes_last() {
    let text = "---\ndescription: Use when: x\nallowed_tools: Read Grep, Glob\n---\nb\n";
    let words: Vec<(String, bool)> = of(text).into_iter().map(|mend| (mend.message, mend.widens)).collect();
    let words: Vec<(&str, bool)> =
        words.iter().map(|(message, widens)| (message.as_str(), *widens)).collect();
    assert_eq!(
        words,
        [
            ("quotes the value of `description`", false),
            ("renames `allowed_tools` to `allowed-tools`, which declares its tools", true),
            ("writes `allowed-tools` as names with commas", true),
        ]
    );
    let known = |tool: &ToolName| tool.as_str() == "browse";
    let named = |tools: &str| {
        let mends = mends(skill(tools).as_bytes(), SKILL, &name("probe"), Some(&known));
        mends.iter().map(|mend| (mend.message.clone(), mend.widens)).collect::<Vec<_>>()
    };
    assert_eq!(named("Reed(docs/**)"), [("writes `read` for `reed`".to_owned(), true)]);
    assert_eq!(named("Read, browse"), [], "some runtime has it");
    assert_eq!(named("bsh"), [], "never the shell");
    assert_eq!(named("and"), [], "another word is no slip of the pen");
}

/// Whether a file that is mended without widening lets a child use only what its own words name.
fn keeps_to_its_words(text: &str, kind: DefinitionKind) -> Result<(), String> {
    let Some(mend) = mends(text.as_bytes(), kind, &name("probe"), None).into_iter().rfind(|m| !m.widens)
    else {
        return Ok(());
    };
    let definition = Definition::read(mend.bytes, kind, name("probe")).map_err(|p| p.message)?;
    let Ceiling::Declared(declared) = definition.ceiling() else { return Ok(()) };
    let words: Vec<String> = text
        .lines()
        .flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c))))
        .map(str::to_ascii_lowercase)
        .collect();
    let named = |id: &Capability| {
        let neutral = |word: &String| {
            ToolName::parse(word)
                .is_ok_and(|word| depute::capability::vocabulary::neutral(&word) == *id.tool_name().unwrap())
        };
        id.tool_name().is_none() || words.iter().any(neutral)
    };
    match declared.iter().find(|id| !named(id)) {
        Some(id) => Err(format!("{id} is in no word of {text:?}")),
        None => Ok(()),
    }
}

#[test]
fn no_file_of_the_corpus_gains_what_it_does_not_name() {
    let mut mended = 0;
    for entry in std::fs::read_dir(data("corpus/min")).unwrap() {
        let Ok(text) = std::fs::read_to_string(entry.unwrap().path().join("probe/SKILL.md")) else {
            continue;
        };
        for kind in [DefinitionKind::Skill, DefinitionKind::Agent] {
            keeps_to_its_words(&text, kind).unwrap();
            mended +=
                usize::from(mends(text.as_bytes(), kind, &name("probe"), None).iter().any(|m| !m.widens));
        }
    }
    assert!(mended > 10, "{mended} files were mended");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn no_file_gains_what_it_does_not_name(
        description in "[ a-z:\"'*\\[\\]#-]{0,12}",
        tools in "[ ,\"'\\[\\]()*:a-z]{0,6}(Read|Bash|Grep|mcp__a__b|Write)[ ,\"'\\[\\]()*:a-z]{0,12}(Edit|Glob)?[\"'\\])]{0,2}",
        fence in "[ \t]{0,2}",
    ) {
        let text = format!("---{fence}\ndescription: d{description}\nallowed-tools: {tools}\n---{fence}\nb\n");
        prop_assert_eq!(keeps_to_its_words(&text, SKILL), Ok(()));
    }
}

#[test]
fn nothing_is_written_unasked_and_what_is_written_is_what_was_shown() {
    let project = Project::new();
    let before = "---\ndescription: Use when: x\nallowed-tools: Read\n---\nb\n";
    let path = project.root().join(".claude/skills/a/SKILL.md");
    project.write(".claude/skills/a/SKILL.md", before);
    project.skill("fine", "Read");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let ran = project.run(&["check", ".claude", "--fix"]);
    assert_eq!((ran.code, std::fs::read_to_string(&path).unwrap().as_str()), (82, before));
    insta::assert_snapshot!(ran.stderr, @r#"
    --- .claude/skills/a/SKILL.md
    +++ .claude/skills/a/SKILL.md
    @@ -1,3 +1,3 @@
     ---
    -description: Use when: x
    +description: "Use when: x"
     allowed-tools: Read
    .claude/skills/a/SKILL.md: quotes the value of `description`
    nothing is written; `--yes` writes without asking
    1 file would be mended by `--fix`, which cannot widen
    "#);
    let ran = project.run(&["check", ".claude", "--fix", "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let after = std::fs::read_to_string(&path).unwrap();
    assert_eq!(after, before.replace("Use when: x", "\"Use when: x\""));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640, "the mode is kept");
    let beside: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(beside.len(), 1, "nothing is left beside it");
    // The same again changes nothing.
    let ran = project.run(&["check", ".claude", "--fix", "--yes"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "nothing to mend\n"));
}

#[test]
fn what_widens_is_written_only_where_that_is_allowed() {
    let project = Project::new();
    let before = "---\ndescription: d\nallowed_tools: Read\n---\nb\n";
    project.write(".claude/skills/a/SKILL.md", before);
    let path = project.root().join(".claude/skills/a/SKILL.md");
    let ran = project.run(&["check", ".claude", "--fix", "--yes"]);
    assert_eq!((ran.code, std::fs::read_to_string(&path).unwrap().as_str()), (82, before));
    insta::assert_snapshot!(ran.stderr, @r#"
    .claude/skills/a/SKILL.md: renames `allowed_tools` to `allowed-tools`, which declares its tools: WIDENS, so it is not made without `--allow-widening`
    nothing to mend
    1 file would be mended by `--fix --names --allow-widening`: look at its diff before you say yes
    "#);
    let ran = project.run(&["check", ".claude", "--fix", "--yes", "--allow-widening"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("WIDENS"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before.replace("allowed_tools", "allowed-tools"));
}

#[test]
fn a_link_is_left_as_it_is() {
    let project = Project::new();
    let before = "---\ndescription: Use when: x\nallowed-tools: Read\n---\nb\n";
    project.write(".claude/skills/a/real.md", before);
    std::os::unix::fs::symlink("real.md", project.root().join(".claude/skills/a/SKILL.md")).unwrap();
    project.write(".claude/skills/b/SKILL.md", before);
    let ran = project.run(&["check", ".claude", "--fix", "--yes"]);
    assert!(ran.stderr.contains("is a link"), "{}", ran.stderr);
    let read = |path: &str| std::fs::read_to_string(project.root().join(path)).unwrap();
    assert_eq!(read(".claude/skills/a/real.md"), before);
    assert_ne!(read(".claude/skills/b/SKILL.md"), before, "one that is no link is mended");
}
