//! Files at the edge of what can be read, and beyond it.

use depute::capability::DefinitionName;
use depute::definition::{Ceiling, Definition, DefinitionKind, MAX_FILE, MAX_FRONTMATTER};
use depute::diagnostic::Diagnostic;
use depute::policy::Policy;
use depute::runtime::Profile;
use proptest::prelude::*;

fn read(bytes: impl Into<Vec<u8>>) -> Result<Definition, &'static str> {
    let name = DefinitionName::parse("probe").unwrap();
    Definition::read(bytes.into(), DefinitionKind::Skill, name).map_err(|problem| problem.rule)
}

fn skill(keys: &str) -> Result<Definition, &'static str> {
    read(format!("---\ndescription: d\n{keys}\n---\nbody\n"))
}

fn ceiling(definition: &Definition) -> Vec<String> {
    match definition.ceiling() {
        Ceiling::Declared(set) => set.texts(),
        Ceiling::Undeclared(_) => vec!["undeclared".to_owned()],
    }
}

#[test]
fn no_key_is_smuggled_past_a_line_reader() {
    for separator in ["\u{2028}", "\u{2029}", "\u{85}", "\r"] {
        let found = skill(&format!("x: a{separator}allowed-tools: Bash"));
        assert_eq!(found.err(), Some("control-character"), "{separator:?}");
    }
    // Control: on a line of its own it is the declaration.
    assert_eq!(ceiling(&skill("x: a\nallowed-tools: Bash").unwrap()), ["tool:bash"]);
    assert_eq!(
        ceiling(&read("---\r\ndescription: d\r\nallowed-tools: Read\r\n---\r\nb").unwrap()),
        ["tool:read"]
    );
}

#[test]
fn size_and_depth_are_bounded_and_the_bound_itself_is_read() {
    let padded = |to: usize| {
        let head = "---\ndescription: d\nallowed-tools: Read\n---\n";
        format!("{head}{}", "x".repeat(to - head.len()))
    };
    assert!(read(padded(MAX_FILE)).is_ok());
    assert_eq!(read(padded(MAX_FILE + 1)).err(), Some("too-large"));
    let comment = |bytes: usize| format!("allowed-tools: Read\n#{}", "x".repeat(bytes));
    assert!(skill(&comment(MAX_FRONTMATTER - 100)).is_ok());
    assert_eq!(skill(&comment(MAX_FRONTMATTER + 1)).err(), Some("frontmatter-too-large"));
    assert!(skill(&format!("x: {}a{}", "[".repeat(10), "]".repeat(10))).is_ok());
    for deep in ["[".repeat(20_000), format!("{}a{}", "[".repeat(40), "]".repeat(40))] {
        assert!(matches!(skill(&format!("x: {deep}")).err(), Some("yaml" | "yaml-depth")), "{}", deep.len());
    }
    let many: String = (0..5000).map(|n| format!("k{n}: v\n")).collect();
    assert_eq!(skill(&many).err(), Some("yaml-size"));
}

#[test]
fn features_that_change_what_a_value_is_are_refused() {
    for (keys, rule) in [
        ("a: &x [1]\nb: [*x, *x]", "yaml-anchor"),
        ("allowed-tools: *x", "yaml"),
        ("allowed-tools: !!str Read", "yaml-tag"),
        ("<<: {allowed-tools: Read}", "yaml-merge"),
        ("? [a]\n: b", "yaml-key"),
        ("1: b", "yaml-key"),
        ("a: 1\na: 2", "duplicate-key"),
        ("\"a\": 1\na: 2", "duplicate-key"),
        ("allowed-tools: no", "wrong-type"),
        ("allowed-tools: 42", "wrong-type"),
        ("allowed-tools: 1.10", "wrong-type"),
        ("allowed-tools: 2026-01-01", "wrong-type"),
        ("allowed-tools: {Read: true}", "wrong-type"),
        ("allowed-tools: [Read, 1]", "wrong-type"),
        ("allowed-tools: \"Read\\0\"", "control-character"),
        ("x: \"a\\e[2Jb\"", "control-character"),
        ("x: \"a\\rallowed-tools: Bash\"", "control-character"),
        ("x: \"\\ud800\"", "yaml"),
        ("x: \"\\udc00\\ud800\"", "yaml"),
        ("a: &a [1, 1]\nb: &b [*a, *a]\nc: &c [*b, *b]\nallowed-tools: *c", "yaml-anchor"),
        ("allowed-tools: Read\n\u{feff}allowed-tools: Bash", "yaml"),
    ] {
        assert_eq!(skill(keys).err(), Some(rule), "{keys}");
    }
    assert_eq!(ceiling(&skill("allowed-tools: \"no\"").unwrap()), ["tool:no"]);
    assert_eq!(ceiling(&skill("allowed-tools: ~").unwrap()), [""; 0]);
}

#[test]
fn no_spelling_of_a_restriction_is_dropped() {
    let agent = |keys: &str| {
        let source = format!("---\ndescription: d\ntools: Read, Bash\n{keys}\n---\nb\n");
        Definition::read(source.into_bytes(), DefinitionKind::Agent, DefinitionName::parse("probe").unwrap())
            .map(|definition| ceiling(&definition))
            .map_err(|problem| problem.rule)
    };
    for exact in ["disallowedTools", "disallowed-tools", "disallowed_tools", "excludeTools", "exclude-tools"]
    {
        assert_eq!(agent(&format!("{exact}: Bash")), Ok(vec!["tool:read".to_owned()]), "{exact}");
    }
    for near in [
        "disallowedtools",
        "Disallowed-Tools",
        "disallowedTool",
        "denyTools",
        "deniedTools",
        "deny_tools",
        "excludedTools",
        "exclude_tools",
        "disabledTools",
        "blocked-tools",
        "tools_disallowed",
        "forbiddenTools",
        "not-allowed-tools",
        "permission",
        "Permissions",
        "deny",
    ] {
        assert_eq!(agent(&format!("{near}: Bash")), Err("unsupported-restriction"), "{near}");
    }
    assert_eq!(agent("metadata: {disallowedTools: Bash}"), Err("unsupported-restriction"));
    assert_eq!(agent("disallowedTools: Write"), Err("unsupported-restriction"), "a shell writes anyway");
    assert_eq!(agent("disallowedTools: mcp__github__*"), Err("wildcard"));
    // Controls: keys that only sound alike.
    for harmless in ["metadata: {tools: many}", "disable-model-invocation: true", "license: none"] {
        assert_eq!(agent(harmless), Ok(vec!["tool:bash".to_owned(), "tool:read".to_owned()]), "{harmless}");
    }
}

#[test]
fn the_body_is_what_stands_after_the_fence_trimmed() {
    let body = |text: &str| {
        read(format!("---\ndescription: d\nallowed-tools: Read\n---\n{text}"))
            .map(|d| String::from_utf8(d.body().to_vec()).unwrap())
    };
    assert_eq!(body("\u{feff}\u{a0}\r\n a\r\n\u{7}b \u{2003}\n").as_deref(), Ok("a\r\n\u{7}b"));
    assert_eq!(body("").as_deref(), Ok(""));
    assert_eq!(body("a\0b").err(), Some("control-character"));
    let definition = read("---\ndescription: d\nallowed-tools: Read\n---\n\n hi \n").unwrap();
    assert_eq!(definition.body_digest(), depute_ledger::Digest::of(b"hi"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(bytes.clone());
        let _ = Policy::read(&bytes);
        let _ = Profile::read(&bytes);
    }

    #[test]
    fn every_problem_can_be_drawn(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in "[-:a-z\\[\\]{}&*\"\\\\é\u{2028} \n\t\r]{0,60}") {
        let text = format!("\u{feff}---\n{text}");
        for source in [bytes.as_slice(), text.as_bytes()] {
            let name = DefinitionName::parse("probe").unwrap();
            let problems = [
                Definition::read(source.to_vec(), DefinitionKind::Skill, name).err(),
                Policy::read(source).err(),
                Profile::read(source).err(),
            ];
            for problem in problems.into_iter().flatten() {
                let shown = Diagnostic::new("a\u{1b}b", source, problem).render("CODE", false);
                prop_assert!(!shown.contains(['\u{1b}', '\r', '\0', '\u{2028}']), "{:?}", shown);
            }
        }
    }

    #[test]
    fn no_text_in_the_frontmatter_makes_a_reader_panic(text in "[-:a-z\\[\\]{}&*!|>'\"#%@,?\\\\ \n\t(),]{0,200}") {
        let _ = read(format!("---\n{text}\n---\n{text}"));
        let _ = Policy::read(text.as_bytes());
        let _ = skill(&format!("allowed-tools: {text}"));
    }
}
