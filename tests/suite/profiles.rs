//! Runtimes as data: the shipped profiles, and what a profile may not say.

use depute::runtime::{EnvValue, Launch, NodePaths, Profile, Starts};

use super::support::{LAB, placed, set, shipped};

fn launch(runtime: &str, granted: &[&str], model: Option<&str>) -> Launch {
    let paths = NodePaths {
        private: "/abs".into(),
        workspace: "/workspace".into(),
        itself: "/usr/bin/depute".into(),
    };
    shipped(runtime).launch(&set(granted), model, &[], &[], &paths, false).unwrap()
}

#[test]
fn pi_is_started_exactly_as_it_was_measured() {
    let common = "pi --provider mock --model mock-model --no-session --no-extensions --no-mcp --no-skills \
                  --no-prompt-templates --no-themes --no-context-files --no-approve --offline --system-prompt '' \
                  --append-system-prompt /abs/body.md";
    for (granted, tools) in [
        (vec!["tool:read"], "--tools read"),
        (vec!["tool:read", "tool:grep"], "--tools read,grep"),
        (vec![], "--no-tools"),
    ] {
        let launch = launch("pi", &granted, Some("mock/mock-model"));
        let argv: Vec<&str> = launch.argv.iter().map(|a| if a.is_empty() { "''" } else { a }).collect();
        assert_eq!(argv.join(" "), format!("{common} {tools} --mode json -p"));
        let own: Vec<(&str, &EnvValue)> = launch
            .env
            .iter()
            .filter(|(name, _)| name.starts_with("PI_"))
            .map(|(name, value)| (name.as_str(), value))
            .collect();
        let set_to = |text: &str| EnvValue::Set(text.to_owned());
        assert_eq!(own, [("PI_CODING_AGENT_DIR", &set_to("/abs/config")), ("PI_TELEMETRY", &set_to("0"))]);
    }
    assert!(matches!(shipped("pi").starts, Starts::PlannedOnly(_)));
}

#[test]
fn a_model_is_mapped_or_refused_and_never_replaced() {
    let paths = NodePaths { private: "/abs".into(), workspace: "/w".into(), itself: "/d".into() };
    let with =
        |runtime: &str, model| shipped(runtime).launch(&set(&[]), model, &[], &[], &paths, false).map(drop);
    assert_eq!(with("pi", Some("mock/large")), Ok(()));
    for bad in [
        None,
        Some("large"),
        Some("mock/"),
        Some("/large"),
        Some("--x/y"),
        Some("mock/--tools"),
        Some("a b/c"),
    ] {
        assert!(with("pi", bad).is_err(), "{bad:?}");
    }
    assert_eq!(with("scripted", None), Ok(()));
    assert!(with("scripted", Some("mock/large")).is_err());
}

#[test]
fn a_shell_and_a_scripted_agent_get_their_grant_and_nothing_of_the_task() {
    assert_eq!(launch("command", &["tool:bash"], None).argv, ["/bin/sh", "-c", "eval \"$(cat)\""]);
    assert_eq!(
        launch("scripted", &["tool:read", "tool:write(docs/**)"], None).argv,
        ["/usr/bin/depute", "scripted-agent", "--allow", "tool:read", "--allow", "tool:write(docs/**)"]
    );
    assert_eq!(launch("scripted", &[], None).argv, ["/usr/bin/depute", "scripted-agent"]);
}

#[test]
fn a_value_is_never_read_as_a_template() {
    let paths = NodePaths { private: "/abs/{tools}".into(), workspace: "/w".into(), itself: "/d".into() };
    let launch = shipped("pi").launch(&set(&["tool:read"]), Some("mock/m"), &[], &[], &paths, false).unwrap();
    assert!(launch.argv.contains(&"/abs/{tools}/body.md".to_owned()), "{:?}", launch.argv);
}

/// Profiles that are refused, each for one thing.
pub(crate) fn not_to_be_said() -> Vec<String> {
    let changed = |from: &str, to: &str| {
        let source = LAB.replacen(from, to, 1);
        assert_ne!(source, LAB, "{from} is there");
        source
    };
    [
        changed("about:", "abut:"),
        changed("version: 1", "version: 2"),
        changed("body: file", "body: stdin"),
        changed("{id}", "{task}"),
        changed("native: read,", "native: \"*\","),
        changed("native: read,", "native: +grep,"),
        changed("read: {native: read, files: workspace, scopes: true}", "read: {native: read}"),
        changed("runs_programs: true, scopes: true", "scopes: true"),
        changed("delegate: {native: delegate}", "launch: {native: launch}"),
        changed("probe: []", "probe: none"),
        changed("env: {}", "env: {X: 1}"),
        changed("{id}", "{mo{tools}del}"),
        changed("  grep:", "  Read: {native: bash, files: workspace}\n  grep:"),
        changed("version: 1", "version: 0"),
        changed("about:", "# x\rkeys2: y\nabout:"),
    ]
    .to_vec()
}

#[test]
fn what_a_profile_may_not_say_has_a_place() {
    assert!(Profile::read(LAB.as_bytes()).is_ok());
    let said = |source: &String| match Profile::read(source.as_bytes()) {
        Ok(_) => "fine".to_owned(),
        Err(problem) => placed("lab.yaml", source.as_bytes(), problem),
    };
    let found = not_to_be_said().iter().map(said).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(found, @r"
    lab.yaml:3:1: `abut` is not a key of a runtime profile; did you mean `about`?
    lab.yaml:1:10: is of version 2, written for a newer depute than this one, which reads version 1; use a newer depute, or rewrite the profile for version 1
    lab.yaml:26:7: `body` cannot be `stdin`; write one of file, unused
    lab.yaml:22:16: `{task}` holds an unknown placeholder; the placeholders are {tools}, {id}, {body}, {config}, {home}, {tmp}, {workspace}, {provider}, {model}
    lab.yaml:8:18: `*` is no plain name of a tool; keep to letters, digits and `_`, with a letter first
    lab.yaml:8:18: `+grep` is no plain name of a tool; keep to letters, digits and `_`, with a letter first
    lab.yaml:8:9: the tool `read` does not say `files`; write `files: workspace` or `files: whole-disk`, as measured
    lab.yaml:14:9: the tool `bash` does not say `runs_programs: true`; write it: a shell runs programs
    lab.yaml:17:11: the tool `launch` does not say `runs_programs`; write `runs_programs: true`, or `false` where it cannot start any program
    lab.yaml:5:8: `probe` is a list, not text; write it as `[…]`
    lab.yaml:23:10: `env` is text, not a number or date; quote it
    lab.yaml:22:16: `{mo{tools}del}` holds an unknown placeholder; the placeholders are {tools}, {id}, {body}, {config}, {home}, {tmp}, {workspace}, {provider}, {model}
    lab.yaml:11:3: `Read` is not in lower case; write `read`
    lab.yaml:1:10: is of version 0, older than what this depute reads, which is version 1; rewrite the profile for version 1
    lab.yaml:3:4: holds the character U+000D; remove it
    ");
}
