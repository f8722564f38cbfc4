//! Every rule, every code and every way to misspell an id shows here what it says: the message as a
//! person reads it, its place, and the smallest fix. What is new and not shown fails the test.

use std::collections::{BTreeMap, BTreeSet};

use depute::capability::{Capability, IdError, MAX_NAME};
use depute::definition::{Ceiling, Definition, DefinitionKind, MAX_FILE, MAX_FRONTMATTER};
use depute::diagnostic::{Diagnostic, Problem, printable};
use depute::policy::{Narrowing, Policy, with_overlays};
use depute::runtime::Profile;
use insta::assert_snapshot;

use super::source::raised;
use super::support::{LAB, manifest_dir, name, policy};

/// Messages as they are shown, and those of each rule.
#[derive(Default)]
struct Shown {
    text: String,
    by_rule: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Shown {
    fn add(&mut self, path: &str, source: &[u8], problem: Problem) {
        let fix = problem.fix.clone().unwrap_or_else(|| panic!("{}: {}", problem.rule, problem.message));
        for part in [&problem.message, &fix] {
            assert!(is_fragment(part), "{}: {part}", problem.rule);
        }
        self.by_rule.entry(problem.rule).or_default().insert(problem.message.clone());
        let rule = problem.rule;
        self.text += &format!("{rule}\n  {}\n", Diagnostic::new(path, source, problem));
    }
}

/// In lower case, one line without a full stop, short enough to be read at once, and without the
/// semicolon that stands between a message and its fix.
fn is_fragment(text: &str) -> bool {
    let first = text.chars().next().unwrap_or(' ');
    let one_line = !text.contains(['\n', ';']) && !text.ends_with(['.', ' ']);
    !first.is_uppercase() && !first.is_whitespace() && one_line && text.len() <= 200
}

fn definitions() -> Shown {
    use DefinitionKind::{Agent, Skill};
    let long = "x".repeat(MAX_FILE + 1);
    let mut files: Vec<(DefinitionKind, Vec<u8>)> = vec![
        // Fences and bytes.
        (Skill, long.into_bytes()),
        (Skill, b"---\ndescription: caf\xe9\n---\n".to_vec()),
        (Skill, b"---\ndescription: d\n---\na\0b\n".to_vec()),
        (Skill, b"# A skill\n".to_vec()),
        (Skill, b"--- \ndescription: d\n---\n".to_vec()),
        (Skill, b"---\rdescription: d\r---\r".to_vec()),
        (Skill, format!("---\n#{}\n---\n", "x\n#".repeat(MAX_FRONTMATTER)).into_bytes()),
        (Skill, b"---\ndescription: d\n".to_vec()),
        (Skill, b"---\ndescription: d\n---- \n".to_vec()),
    ];
    let nested = format!("x: {}a{}", "[".repeat(40), "]".repeat(40));
    let many: String = (0..5000).map(|n| format!("k{n}: v\n")).collect();
    let skills = [
        // YAML.
        "description: Use when: asked",
        "description: [d",
        "description: \"a\\eb\"",
        nested.as_str(),
        many.as_str(),
        "description: !!str d",
        "description: &d d",
        "<<: {description: d}",
        "1: d",
        "description: d\ndescription: d",
        "- description",
        // Keys.
        "description: ''",
        "description: 1.0",
        "name: probe",
        "description: d\nmodel: [opus]",
        "description: d\npermission: {edit: deny}\nallowed-tools: Read",
        "description: d\nallowed-tools: Bash\ndisallowedTools: Write",
        "description: d\nallowed-tools: Read\ndisable: true",
        "description: d",
        "description: d\nallowed_tools: Read",
        "description: d\nmetadata: {allowed-tools: Read}",
        // Entries.
        "description: d\nallowed-tools: 42",
        "description: d\nallowed-tools: [Read, 42]",
        "description: d\nallowed-tools: Bash(git log:*",
        "description: d\nallowed-tools: Read, Web Search",
        "description: d\nallowed-tools: [Read, '']",
        "description: d\nallowed-tools: mcp__a__b__ü",
        "description: d\nallowed-tools: tol:read",
        "description: d\nallowed-tools: mcp__github__*",
    ];
    files.extend(skills.map(|keys| (Skill, format!("---\n{keys}\n---\nb\n").into_bytes())));
    files.push((Agent, b"---\ndescription: d\nallowed-tools: Read\n---\nb\n".to_vec()));
    let mut shown = Shown::default();
    for (kind, bytes) in files {
        let problem = match Definition::read(bytes.clone(), kind, name("probe")) {
            Err(problem) => problem,
            Ok(definition) => match definition.ceiling() {
                Ceiling::Undeclared(undeclared) => undeclared.problem.clone(),
                Ceiling::Declared(_) => panic!("is read: {}", String::from_utf8_lossy(&bytes)),
            },
        };
        shown.add("SKILL.md", &bytes, problem);
    }
    shown
}

fn policies() -> Shown {
    let head = "version: 1\ngrant: []\n";
    let digest = format!("sha256:{}", "0".repeat(64));
    let overlay = format!("{{definition: a, digest: '{digest}', allow: []}}");
    let twice = format!("overlays: [{overlay}, {overlay}]");
    let mut shown = Shown::default();
    let mut refused = |source: &str| {
        let problem = Policy::read(source.as_bytes()).map(|_| panic!("is read: {source}")).unwrap_err();
        shown.add("policy.yaml", source.as_bytes(), problem);
    };
    refused(&format!("{head}#{}", "x".repeat(256 * 1024)));
    refused("version: 2\n");
    refused("version: 1\n---\nversion: 1\n");
    refused("version: 1\n");
    refused("version: 1\ngrants: []\n");
    for rest in [
        "gate: []",
        "colour: red",
        "gates: tool:read",
        "inline: maybe",
        "limits: [2]",
        "limits: {depth: two}",
        "limits: {depth: 2.0}",
        "limits: {depth: 9999999}",
        "limits: {deadline: soon}",
        "limits: {usd: cheap}",
        "runtime: {default: 1}",
        "runtime: {default: [pi]}",
        "tier: Q",
        "gates: [bash]",
        "gates: [tool:read(../x)]",
        "gates: [tool:read_file]",
        "universal: ['tool:*']",
        "accept: [{id: tool:bash, as: kernel, why: x}]",
        "env: [A*]",
        "env: [LD_PRELOAD]",
        "roots: [skills]",
        "overlays: [{definition: .a, digest: x, allow: []}]",
        "overlays: [{definition: a, digest: x, allow: []}]",
        &twice,
        "subsumption: {view: [bash]}",
        "subsumption: {mine: [b b]}",
        "locked: [tests]",
        "locked: [colour]",
        "tests: [{name: n, request: {agent: -a, use: []}, expect: granted}]",
        "tests: [{name: n, request: {use: []}, expect: maybe}]",
    ] {
        refused(&format!("{head}{rest}\n"));
    }
    let narrows = b"version: 1\nruntime: {default: pi}\n";
    shown.add(".depute/policy.yaml", narrows, Narrowing::read(narrows).unwrap_err());
    let earlier = policy("version: 1\ngrant: [tool:read]\nlocked: [grant]\n");
    let later = "version: 1\ngrant: [tool:read, tool:bash]\n";
    let widening = policy(later).widening(&earlier).unwrap();
    shown.add("policy.yaml", later.as_bytes(), widening.problem("/etc/policy.yaml:3:10"));
    let form = format!("version: 1\ngrant: []\noverlays: # none yet\n  [\n    {overlay} # the first\n  ]\n");
    let overlays = [policy(&form).overlays[0].clone()];
    shown.add("policy.yaml", form.as_bytes(), with_overlays(form.as_bytes(), &overlays).unwrap_err());
    shown
}

fn profiles() -> Shown {
    let mut shown = Shown::default();
    for (from, to) in [
        ("version: 1", "version: 3"),
        ("runtime: lab\n", ""),
        ("find: itself", "find: bin/lab"),
        ("body: file", "body: stdin"),
        ("tools:\n", "tools:\n  Read: {native: read, files: workspace}\n"),
        ("tools:\n", "tools:\n  -x: {native: x}\n"),
        ("native: grep", "native: '+grep'"),
        ("{native: read, files: workspace, scopes: true}", "{native: read}"),
        ("bash, runs_programs: true", "bash"),
        ("{native: fabric_exec}", "{native: fabric_exec}\n  launch: {native: launch}"),
        ("[lab]", "['{mo}']"),
        ("env: {}", "env: []"),
        ("env: {}", "env: {LD_PRELOAD: /x.so}"),
        ("cannot:", "cage: {endpoints: [example.com]}\ncannot:"),
    ] {
        let source = LAB.replacen(from, to, 1);
        assert_ne!(source, LAB, "{from}");
        shown.add("lab.yaml", source.as_bytes(), Profile::read(source.as_bytes()).unwrap_err());
    }
    shown
}

/// Raised in the sources, but no text leads there.
const UNREACHED: [(&str, &str); 1] =
    [("yaml-alias", "an alias without its anchor is no YAML, and the anchor is refused before it")];

#[test]
fn every_rule_says_what_is_wrong_where_and_what_to_do() {
    let (definitions, policies, profiles) = (definitions(), policies(), profiles());
    let raised = raised(&["capability", "definition", "policy", "runtime", "yaml"]);
    assert!(raised.len() > 35 && raised["wrong-type"] > 5, "the search finds them: {raised:?}");
    for (rule, places) in &raised {
        let all = [&definitions, &policies, &profiles];
        let messages: BTreeSet<&String> =
            all.iter().filter_map(|shown| shown.by_rule.get(rule.as_str())).flatten().collect();
        match UNREACHED.iter().find(|(unreached, _)| unreached == rule) {
            Some((_, why)) => assert!(messages.is_empty(), "{rule} is shown, though {why}"),
            None => assert!(
                messages.len() >= *places,
                "`{rule}` is raised in {places} places and shown in {}: add what raises it",
                messages.len()
            ),
        }
    }
    assert_snapshot!(definitions.text, @r"
    too-large
      SKILL.md:1:1: is 1048577 bytes, and a definition has at most 1048576; move what is not needed at once into files beside it
    not-utf8
      SKILL.md:2:17: is not UTF-8 here; save the file as UTF-8
    control-character
      SKILL.md:4:2: holds a NUL byte; remove it
    no-frontmatter
      SKILL.md:1:1: does not begin with frontmatter; begin with a line `---`, then `description:` and the tools, then `---`
    no-frontmatter
      SKILL.md:1:1: has blanks after the opening `---`; write exactly `---` on the first line
    no-frontmatter
      SKILL.md:1:1: has lone CR line ends; save the file with LF line ends
    frontmatter-too-large
      SKILL.md:2:1: has more than 65536 bytes of frontmatter; move text for the child below the closing `---`
    unclosed-frontmatter
      SKILL.md:1:1: opens frontmatter that nothing closes; add a line `---` after the last key
    unclosed-frontmatter
      SKILL.md:3:1: looks like the closing `---`, but has more on its line; write exactly `---` on a line of its own
    yaml
      SKILL.md:2:22: is not YAML: mapping values are not allowed in this context; put the whole value in double quotes: a colon and a blank end a plain value
    yaml
      SKILL.md:2:14: is not YAML: unclosed bracket '['; quote the value on this line
    control-character
      SKILL.md:2:14: holds the character U+001B; remove it
    yaml-depth
      SKILL.md:2:20: is nested deeper than 16 levels; write it flatter
    yaml-size
      SKILL.md:2049:8: holds more than 4096 values; leave out what is not needed
    yaml-tag
      SKILL.md:2:20: has a tag, and tags are not read; remove the `!…`, or quote the text
    yaml-anchor
      SKILL.md:2:17: has an anchor, and anchors are not read; remove the `&…`, or quote the text
    yaml-merge
      SKILL.md:2:1: is a merge key, and merge keys are not read; write the entries out
    yaml-key
      SKILL.md:2:1: is a key that is not text; quote it
    duplicate-key
      SKILL.md:3:1: `description` is written twice; keep one of the two
    not-a-mapping
      SKILL.md:2:1: has frontmatter that is a list, not keys and values; write `description:` and the tools as keys
    no-description
      SKILL.md:2:1: has an empty description; say in a sentence what it is for
    no-description
      SKILL.md:2:14: has a description that is a number or date, not text; quote it
    no-description
      SKILL.md:2:1: has no `description`; add `description:` with a sentence on what it is for
    wrong-type
      SKILL.md:3:8: `model` is text, not a list; write it as text
    unsupported-restriction
      SKILL.md:3:1: `permission` restricts in a form that is not read here; name what is allowed in `allowed-tools` and remove `permission`, or write it `disallowedTools`
    unsupported-restriction
      SKILL.md:3:16: `tool:write` cannot be taken away exactly while `tool:bash` is declared; remove `tool:bash`, or drop the restriction on `tool:write`
    switched-off
      SKILL.md:4:1: is switched off by its own `disable`; remove `disable`, if it is meant to be used
    undeclared
      SKILL.md:2:1: declares no tools: there is no `allowed-tools`; add `allowed-tools: Read, Grep`, or `allowed-tools: []` for none, or the operator gives it a ceiling by an overlay
    near-miss-key
      SKILL.md:3:1: has `allowed_tools`, which does not declare the tools of a skill; write `allowed-tools` at the top level of the frontmatter
    near-miss-key
      SKILL.md:3:12: has `allowed-tools` inside `metadata`, which declares nothing there; write `allowed-tools` at the top level of the frontmatter
    wrong-type
      SKILL.md:3:16: `allowed-tools` is a number or date, not names of tools; write `allowed-tools: Read, Grep`, or a list
    wrong-type
      SKILL.md:3:23: `allowed-tools` holds a number or date, not a name; write the name of a tool
    unbalanced-parentheses
      SKILL.md:3:16: has unbalanced parentheses; give each parenthesis its partner
    mixed-separators
      SKILL.md:3:16: `Web Search` holds several names; separate all names by commas, or write a list with one name an item
    malformed-entry
      SKILL.md:3:23: `allowed-tools` holds an empty name; remove it
    malformed-entry
      SKILL.md:3:16: the entry `mcp__a__b__ü` names no tool of an MCP server; write `mcp__server__tool`, of letters, digits, `.`, `_` and `-`
    malformed-entry
      SKILL.md:3:16: the entry `tol:read` has the unknown namespace `tol`; did you mean `tool:`?
    wildcard
      SKILL.md:3:16: the entry `mcp__github__*` stands for more than it names, which is no ceiling; name each tool
    near-miss-key
      SKILL.md:3:1: has `allowed-tools`, which does not declare the tools of an agent; write `tools` at the top level of the frontmatter
    ");
    assert_snapshot!(policies.text, @r"
    too-large
      policy.yaml:1:1: is 262166 bytes, and a policy has at most 262144; leave out what is not used, such as overlays of definitions that are gone
    unknown-version
      policy.yaml:1:10: is of version 2, written for a newer depute than this one, which reads version 1; use a newer depute, or rewrite the policy for version 1
    one-document
      policy.yaml:2:1: holds more than one YAML document; keep the first and remove the rest
    missing-key
      policy.yaml:1:1: a policy has no `grant`; add `grant:`
    unknown-key
      policy.yaml:2:1: `grants` is not a key of a policy; did you mean `grant`?
    unknown-key
      policy.yaml:3:1: `gate` is not a key of a policy; did you mean `gates`?
    unknown-key
      policy.yaml:3:1: `colour` is not a key of a policy; the keys of version 1 are version, grant, gates, limits, runtime, tier, accept, env, paths, roots, overlays, inline, subsumption, universal, locked, tests
    wrong-type
      policy.yaml:3:8: `gates` is a list, not text; write it as `[…]`
    wrong-type
      policy.yaml:3:9: `inline` is true or false, not text; write `true` or `false`
    wrong-type
      policy.yaml:3:9: `limits` is a map, not a list; write it as keys and values
    wrong-type
      policy.yaml:3:17: `depth` is a whole number, not text; write it in decimal digits, such as `3`
    wrong-type
      policy.yaml:3:17: `depth` is a whole number, not `2.0`; write it in decimal digits, such as `3`
    out-of-range
      policy.yaml:3:17: `depth` is at most 1000000; write 1000000 or less
    wrong-type
      policy.yaml:3:20: a time is a whole number and a unit; write `1h`, `10m`, `30s` or `500ms`
    wrong-type
      policy.yaml:3:15: `usd` is an amount in dollars; write it like `5` or `2.50`, or `null` for no limit
    wrong-type
      policy.yaml:3:20: `default` is text, not a number or date; quote it
    wrong-type
      policy.yaml:3:20: `default` is text, not a list; write it as text
    unknown-value
      policy.yaml:3:7: `tier` cannot be `Q`; write one of 0, F, K, N, C
    malformed-id
      policy.yaml:3:9: `bash` has no namespace; write `tool:bash`
    malformed-id
      policy.yaml:3:9: `tool:read(../x)` has a path that leaves the workspace; write it relative to the workspace, without `..`
    foreign-name
      policy.yaml:3:9: `tool:read_file` is a runtime's own name; write `tool:read`
    wildcard
      policy.yaml:3:13: `tool:*` is a wildcard, and this list names single capabilities; name each capability
    unknown-value
      policy.yaml:3:30: `as` cannot be `kernel`; write `advisory`
    malformed-name
      policy.yaml:3:7: `A*` is no name of a variable; name each variable, without patterns
    never-passed
      policy.yaml:3:7: `LD_PRELOAD` changes what a child loads or runs, so it is never passed; remove it
    relative-path
      policy.yaml:3:9: `skills` is not an absolute path without `..`; begin it with `/`, and leave out `..`
    malformed-name
      policy.yaml:3:25: `.a` has a name that begins with '.'; begin the name with a letter or a digit
    malformed-digest
      policy.yaml:3:36: `x` is no digest; copy it from `depute check`: `sha256:` and 64 hex digits
    duplicate-overlay
      policy.yaml:3:123: `a` has two overlays for one digest; keep one of the two
    foreign-name
      policy.yaml:3:15: `view` is a runtime's own name; write `read`
    malformed-name
      policy.yaml:3:22: `b b` holds ' ' in a name; keep to letters, digits, `.`, `_` and `-`
    not-lockable
      policy.yaml:3:10: `tests` cannot be locked: they are examples and allow nothing; remove it
    unknown-key
      policy.yaml:3:10: `colour` is not a key of a policy; the keys that can be locked are grant, gates, limits, tier, accept, env, paths, roots, overlays, inline, subsumption, universal
    malformed-name
      policy.yaml:3:36: `-a` has a name that begins with '-'; begin the name with a letter or a digit
    unknown-value
      policy.yaml:3:47: `expect` cannot be `maybe`; write one of granted, held, refused
    only-narrows
      .depute/policy.yaml:2:1: a policy inside the workspace may only narrow, so it cannot state `runtime`; move it to the operator's policy
    locked
      policy.yaml:2:20: `grant` is locked at /etc/policy.yaml:3:10, and `tool:bash` goes beyond it; remove `tool:bash` from `grant`, or take `grant` out of `locked` there
    overlays-form
      policy.yaml:4:3: writes `overlays` in a form that cannot be added to; write it as a list with one overlay a line
    ");
    assert_snapshot!(profiles.text, @r"
    unknown-version
      lab.yaml:1:10: is of version 3, written for a newer depute than this one, which reads version 1; use a newer depute, or rewrite the profile for version 1
    missing-key
      lab.yaml:1:1: a runtime profile has no `runtime`; add `runtime:`
    wrong-type
      lab.yaml:4:7: `find` is neither `itself`, an absolute path nor a bare name; write `itself`, an absolute path or a bare name
    unknown-value
      lab.yaml:26:7: `body` cannot be `stdin`; write one of file, unused
    malformed-name
      lab.yaml:8:3: `Read` is not in lower case; write `read`
    malformed-name
      lab.yaml:8:3: `-x` has a name that begins with '-'; begin the name with a letter or a digit
    malformed-name
      lab.yaml:11:18: `+grep` is no plain name of a tool; keep to letters, digits and `_`, with a letter first
    missing-key
      lab.yaml:8:9: the tool `read` does not say `files`; write `files: workspace` or `files: whole-disk`, as measured
    missing-key
      lab.yaml:14:9: the tool `bash` does not say `runs_programs: true`; write it: a shell runs programs
    missing-key
      lab.yaml:19:11: the tool `launch` does not say `runs_programs`; write `runs_programs: true`, or `false` where it cannot start any program
    unknown-placeholder
      lab.yaml:21:5: `{mo}` holds an unknown placeholder; the placeholders are {tools}, {id}, {body}, {config}, {home}, {tmp}, {workspace}, {provider}, {model}
    wrong-type
      lab.yaml:23:6: `env` is a map, not a list; write it as keys and values
    never-set
      lab.yaml:23:6: `LD_PRELOAD` changes what every program loads, so no profile sets it; remove it
    malformed-endpoint
      lab.yaml:34:20: `example.com` is no host with a port; write it like `api.example.com:443`
    ");
}

#[test]
fn every_way_to_misspell_an_id_says_what_is_wrong_and_what_to_do() {
    let long = format!("tool:{}", "x".repeat(MAX_NAME + 1));
    let ids = [
        "read",
        "tol:read",
        "zzz:read",
        "tool:",
        "tool:.x",
        "tool:a b",
        "mcp:server",
        "ext:tool",
        &long,
        "mcp:*/x",
        "tool:bash(git",
        "tool:bash(git) x",
        "agent:x(y)",
        "tool:bash(*)",
        "tool:write(${HOME}/x)",
        "tool:write(a\u{200b})",
        "tool:write(/etc)",
        "tool:write(docs/)",
        "tool:write(docs/ x)",
        "tool:web_fetch(domain:-)",
    ];
    let mut seen = BTreeSet::new();
    let mut text = String::new();
    for id in ids {
        let error: IdError = id.parse::<Capability>().unwrap_err();
        let variant = format!("{error:?}");
        seen.insert(variant.split(['(', ' ']).next().unwrap().to_owned());
        assert!(is_fragment(&error.fix()) && is_fragment(&error.to_string()), "{id}");
        let shown = if id.len() > 60 { "tool:x…".to_owned() } else { printable(id) };
        text += &format!("`{shown}` {error}; {}\n", error.fix());
    }
    assert_snapshot!(text, @r"
    `read` has no namespace; write `tool:` or another namespace before it
    `tol:read` has the unknown namespace `tol`; did you mean `tool:`?
    `zzz:read` has the unknown namespace `zzz`; the namespaces are tool, mcp, ext, skill, agent, workspace
    `tool:` has an empty name; write the name
    `tool:.x` has a name that begins with '.'; begin the name with a letter or a digit
    `tool:a b` holds ' ' in a name; keep to letters, digits, `.`, `_` and `-`
    `mcp:server` has one part of two; write `mcp:<server>/<tool>`
    `ext:tool` has one part of two; write `ext:<package>/<tool>`
    `tool:x…` has a part of more than 200 bytes; shorten it
    `mcp:*/x` holds a wildcard that does not exist; name one, or write one of `tool:*`, `agent:*`, `workspace:*`, `mcp:<server>/*`
    `tool:bash(git` has unbalanced parentheses; give each parenthesis its partner
    `tool:bash(git) x` has text after its scope; end it with the `)`
    `agent:x(y)` has a scope, which only tools take; remove the parentheses
    `tool:bash(*)` has a scope that narrows nothing; drop the parentheses, or name what is meant
    `tool:write(${HOME}/x)` has a variable in its scope, which nothing expands; write out what `${…}` stands for
    `tool:write(a\u{200b})` holds '\u{200b}' in its scope; remove it
    `tool:write(/etc)` has a path that leaves the workspace; write it relative to the workspace, without `..`
    `tool:write(docs/)` has a path that ends in `/`; write `…/**` for all below it
    `tool:write(docs/ x)` has a path with a blank at an end of a part; remove the blank
    `tool:web_fetch(domain:-)` has a malformed host; write `domain:example.com` or `domain:*.example.com`
    ");
    // The variants, as the source has them.
    let source = &std::fs::read_to_string(manifest_dir().join("src/capability/id.rs")).unwrap();
    let body = source.split_once("pub enum IdError {").unwrap().1.split_once("\n}").unwrap().0;
    let variants: BTreeSet<String> = body
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.split(['(', ',']).next())
        .filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(str::to_owned)
        .collect();
    assert!(variants.len() > 15, "{variants:?}");
    assert_eq!(seen, variants, "each shown, and no other");
}
