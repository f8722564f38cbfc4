//! The corpus of definition files: never spawnable with anything outside the expected ceiling.
//!
//! The small files are beside this test; the public ones are read where they lie, and counted as
//! skipped where they do not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use depute::capability::{Capability, DefinitionName, Kind, Reach, ToolName, vocabulary};
use depute::definition::{Ceiling, Definition, DefinitionKind, MAX_FILE};

use super::support::{data, shared};

struct Row {
    path: String,
    kind: String,
    expect: String,
    also: String,
    note: String,
}

#[derive(Debug, PartialEq)]
enum Found {
    Ceiling(BTreeSet<String>),
    Refused(String),
}

/// What the table expects, by the rules of this product.
#[derive(Debug, PartialEq)]
enum Expected {
    Ceiling(BTreeSet<String>),
    Refused,
    /// A ceiling that holds the pattern as a scope, or a refusal.
    Scoped,
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Agrees,
    Allowed(String),
    Wrong(String),
}

#[test]
fn the_small_files_are_never_wider_than_expected() {
    let rows = table(&data("corpus/expect.tsv"));
    assert_eq!(rows.len(), 253);
    let counts = judge_all(&rows, &data("corpus"));
    let expected = [("agrees", 193), ("allowed", 17), ("discovery", 3), ("manifest", 40)];
    assert_eq!(counts, expected.into());
}

#[test]
fn the_public_files_are_never_wider_than_expected() {
    let Some(corpus) = shared("corpus").filter(|dir| dir.join("real").is_dir()) else {
        println!("skipped: 1 test, the public files are not here");
        return;
    };
    let rows: Vec<Row> =
        table(&corpus.join("expect.tsv")).into_iter().filter(|row| row.path.starts_with("real/")).collect();
    let counts = judge_all(&rows, &corpus);
    assert!(counts["agrees"] > 50, "{counts:?}");
}

fn judge_all(rows: &[Row], corpus: &Path) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in rows {
        let class = match row.kind.as_str() {
            "manifest" => "manifest",
            _ if row.expect.starts_with("not discovered") => "discovery",
            _ => match judge(row, &found(row, corpus), corpus) {
                Verdict::Agrees => "agrees",
                Verdict::Allowed(why) => {
                    println!("allowed: {}: {why}", row.path);
                    "allowed"
                }
                Verdict::Wrong(why) => {
                    wrong.push(format!("{}: {why}", row.path));
                    "wrong"
                }
            },
        };
        *counts.entry(class).or_default() += 1;
    }
    println!("{} rows: {counts:?}; manifest and discovery rows are judged elsewhere", rows.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    counts
}

/// Tab-separated, with the quotes of CSV.
fn table(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap();
    let unquoted = |cell: &str| match cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => cell.to_owned(),
    };
    let row = |line: &str| {
        let cells: Vec<String> = line.split('\t').map(unquoted).collect();
        assert!(cells.len() >= 6, "{line}");
        Row {
            path: cells[0].clone(),
            kind: cells[2].clone(),
            expect: cells[3].clone(),
            also: cells[4].clone(),
            note: cells[5].clone(),
        }
    };
    text.lines().skip(1).map(row).collect()
}

/// Kind and name from the path, as discovery takes them.
fn identity(row: &Row) -> Result<(DefinitionKind, DefinitionName), String> {
    let path = Path::new(&row.path);
    let file = path.file_name().unwrap().to_str().unwrap();
    let (kind, name) = match row.kind.as_str() {
        "command" => return Err("a command is no definition".into()),
        "skill" if file == "SKILL.md" => {
            let dir = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
            (DefinitionKind::Skill, dir)
        }
        "skill" => return Err("not exactly SKILL.md".into()),
        "agent" | "agent.md" => {
            let stem = file.strip_suffix(".md").unwrap();
            (DefinitionKind::Agent, stem.strip_suffix(".agent").unwrap_or(stem))
        }
        other => panic!("an unknown kind `{other}`"),
    };
    DefinitionName::parse(name).map(|name| (kind, name)).map_err(|error| format!("unsafe name: it {error}"))
}

fn found(row: &Row, corpus: &Path) -> Found {
    let (kind, name) = match identity(row) {
        Ok(identity) => identity,
        Err(why) => return Found::Refused(why),
    };
    let bytes = if row.path == "min/too-large/probe/SKILL.md" {
        let mut bytes = b"---\nname: probe\ndescription: Minimal probe.\nallowed-tools: Read\n---\n".to_vec();
        bytes.resize(bytes.len() + MAX_FILE + 10, b'x');
        bytes
    } else {
        let path = corpus.join(&row.path);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    match Definition::read(bytes, kind, name) {
        Err(problem) => Found::Refused(problem.rule.into()),
        Ok(definition) => match definition.ceiling() {
            Ceiling::Undeclared(_) => Found::Refused("undeclared".into()),
            Ceiling::Declared(set) => Found::Ceiling(set.texts().into_iter().collect()),
        },
    }
}

fn expected(row: &Row) -> Expected {
    // Judged by the rules of agent files.
    match row.path.as_str() {
        "min/agent-md-claude-tools/probe.md" => return list("[tool:grep,tool:read]"),
        "min/agent-md-pi-empty-tools/probe.md" => return list("[]"),
        "min/agent-md-tools-none/probe.md" => return list("[tool:none]"),
        "min/tok-namespaced-upper/probe/SKILL.md" => return list("[tool:read]"),
        _ => {}
    }
    let imported = row.note.split_once("if `tools:` were imported as the declaration -> ");
    let expect = match imported {
        Some((_, imported)) if row.kind.starts_with("agent") => imported,
        _ => row.expect.as_str(),
    };
    if row.kind == "command" {
        Expected::Refused
    } else if let Some(ids) = expect.strip_prefix("ceiling:") {
        list(ids)
    } else if expect == "refuse:pattern" {
        Expected::Scoped
    } else {
        assert!(expect.starts_with("refuse:"), "{}: {expect}", row.path);
        Expected::Refused
    }
}

fn list(ids: &str) -> Expected {
    let ids = ids.trim_start_matches('[').trim_end_matches(']');
    Expected::Ceiling(ids.split(',').filter(|id| !id.is_empty()).map(mapped).collect())
}

/// An id of the table under this product's vocabulary. MCP names keep their case here, so both
/// sides are compared in lower case.
fn mapped(id: &str) -> String {
    let Some(tool) = id.strip_prefix("tool:") else { return id.to_owned() };
    match vocabulary::mcp_tool(tool) {
        Some(mcp) => mcp.to_string().to_ascii_lowercase(),
        None => match ToolName::parse(tool) {
            Ok(name) => format!("tool:{}", vocabulary::neutral(&name)),
            Err(_) => id.to_owned(),
        },
    }
}

fn comparable(ids: &BTreeSet<String>) -> BTreeSet<String> {
    let lower = |id: &String| if id.starts_with("mcp:") { id.to_ascii_lowercase() } else { id.clone() };
    ids.iter().map(lower).collect()
}

fn judge(row: &Row, found: &Found, corpus: &Path) -> Verdict {
    let expected = expected(row);
    match (&expected, found) {
        (Expected::Refused | Expected::Scoped, Found::Refused(_)) => Verdict::Agrees,
        (Expected::Ceiling(ids), Found::Ceiling(ours)) if comparable(ours) == *ids => Verdict::Agrees,
        (Expected::Scoped, Found::Ceiling(ours)) => {
            match holds_patterns_as_scopes(ours, &written_value(row, corpus)) {
                Ok(()) => Verdict::Allowed(format!("patterns are scopes here: {ours:?}")),
                Err(why) => Verdict::Wrong(why),
            }
        }
        (_, Found::Ceiling(ours)) => {
            let also = row.also.split_once("ceiling:").map(|(_, ids)| list(ids.split(' ').next().unwrap()));
            if also == Some(Expected::Ceiling(comparable(ours))) {
                Verdict::Allowed(format!("also acceptable: {}", row.also))
            } else {
                Verdict::Wrong(format!("{ours:?} where {expected:?} is expected"))
            }
        }
        (Expected::Ceiling(_), Found::Refused(why)) if row.also.contains("refuse:") => {
            Verdict::Allowed(format!("refused ({why}); also acceptable: {}", row.also))
        }
        (Expected::Ceiling(ids), Found::Refused(why)) => match narrower_on_purpose(row, why) {
            Some(because) => Verdict::Allowed(format!("refused ({why}): {because}")),
            None => Verdict::Wrong(format!("refused ({why}) where {ids:?} is expected")),
        },
    }
}

/// Refusals of rows that expect a ceiling, each by a rule of this product.
fn narrower_on_purpose(row: &Row, why: &str) -> Option<&'static str> {
    let agent = row.kind.starts_with("agent");
    match why {
        "undeclared" if agent && row.path == "real/153/test-debugger.md" => {
            Some("`allowed-tools` does not declare in an agent file")
        }
        _ => None,
    }
}

/// Of a file with patterns: something is narrowed, and a tool that is whole here stands without
/// parentheses in the file.
fn holds_patterns_as_scopes(ours: &BTreeSet<String>, value: &str) -> Result<(), String> {
    let ids: Vec<Capability> = ours.iter().map(|id| id.parse().unwrap()).collect();
    let narrowed = |id: &Capability| {
        matches!(id.kind(), Kind::Tool(_, Reach::Within(_)) | Kind::Agent(_) | Kind::Skill(_))
    };
    if !ids.iter().any(narrowed) {
        return Err(format!("no scope is left in {ours:?}"));
    }
    let whole: BTreeSet<String> =
        bare_words(value).iter().map(|word| mapped(&format!("tool:{word}"))).collect();
    let widened = |id: &&Capability| {
        matches!(id.kind(), Kind::Tool(name, Reach::Whole) if name.as_str() != "delegate")
            && !whole.contains(id.as_str())
    };
    match ids.iter().find(widened) {
        Some(id) => Err(format!("{id} is whole here and not in the file")),
        None => Ok(()),
    }
}

/// The words of a text that stand outside parentheses and before none.
fn bare_words(text: &str) -> BTreeSet<String> {
    let (mut words, mut word, mut depth) = (BTreeSet::new(), String::new(), 0_usize);
    for c in text.chars().chain(std::iter::once(' ')) {
        match c {
            '(' => {
                word.clear();
                depth += 1;
            }
            ')' => depth -= 1,
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => word.push(c.to_ascii_lowercase()),
            _ if depth == 0 => {
                words.insert(std::mem::take(&mut word));
            }
            _ => word.clear(),
        }
    }
    words
}

/// The lines of the value that declares the tools, as they are written.
fn written_value(row: &Row, corpus: &Path) -> String {
    let text = std::fs::read_to_string(corpus.join(&row.path)).unwrap();
    let key = if row.kind == "skill" { "allowed-tools:" } else { "tools:" };
    let mut lines = text.lines().skip_while(|line| !line.starts_with(key));
    let first = lines.next().unwrap().strip_prefix(key).unwrap().to_owned();
    let more = lines.take_while(|line| line.starts_with([' ', '-']) && *line != "---");
    std::iter::once(first).chain(more.map(str::to_owned)).collect::<Vec<_>>().join("\n")
}

/// For each small file with a pattern, the ceiling to the letter.
#[test]
fn patterns_become_scopes_and_never_the_whole_tool() {
    let rows = table(&data("corpus/expect.tsv"));
    let mut found_here = BTreeMap::new();
    for row in rows.iter().filter(|row| row.expect == "refuse:pattern") {
        let dir = row.path.split('/').nth(1).unwrap().to_owned();
        let ours = match found(row, &data("corpus")) {
            Found::Ceiling(ids) => ids.into_iter().collect::<Vec<_>>().join(" "),
            Found::Refused(rule) => format!("refused: {rule}"),
        };
        found_here.insert(dir, ours);
    }
    let listed: String = found_here.iter().map(|(dir, ours)| format!("{dir}: {ours}\n")).collect();
    insta::assert_snapshot!(listed, @r#"
    tok-bash-comma-in-parens: agent:a agent:b tool:delegate tool:read
    tok-bash-prefix: tool:bash(git:*)
    tok-bash-space-in-parens: tool:bash(git add:*) tool:read
    tok-bash-star: refused: wildcard
    tok-empty-parens: refused: wildcard
    tok-env-var: refused: malformed-entry
    tok-nested-parens: tool:bash(echo $(id))
    tok-path-scope: tool:write(docs/**)
    tok-prose-sentence: refused: malformed-entry
    tok-quotes-in-parens: tool:bash(git commit -m "a b")
    tok-skill-arg: skill:deploy
    tok-task-arg: agent:x tool:delegate
    tok-webfetch-domain: tool:web_fetch(domain:example.com)
    "#);
}
