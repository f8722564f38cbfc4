//! The conformance vectors: an independent implementation has to agree with every row.

use std::collections::BTreeMap;

use depute::capability::{DefinitionName, Question};
use depute::definition::{Ceiling, Definition, DefinitionKind};
use serde_json::Value;

use super::support::{data, lines};

#[derive(Debug, PartialEq)]
enum Row {
    Agrees,
    DiffersAsListed(&'static str),
    ReferenceOnly,
    NotYetApplicable,
}

#[test]
fn every_vector_agrees_or_differs_as_listed() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut differing = Vec::new();
    for (number, line) in lines(&data("conformance/resolve.jsonl")).iter().enumerate() {
        let row: Value = serde_json::from_str(line).unwrap();
        let function = row["fn"].as_str().unwrap();
        let (input, expect) = (&row["input"], &row["expect"]);
        let place = format!("line {}: {line}", number + 1);
        let verdict = match function {
            "resolve" => resolve_row(input, expect, &place),
            "ceiling" => ceiling_row(input, expect, &place),
            "split_budget" => Row::ReferenceOnly,
            "inherit_approvals" => Row::NotYetApplicable,
            other => panic!("an unknown function `{other}`, {place}"),
        };
        if let Row::DiffersAsListed(why) = verdict {
            differing.push(format!("{why}: {}", input["allowed_tools"]));
        }
        let class = match verdict {
            Row::Agrees => "agrees",
            Row::DiffersAsListed(_) => "differs as listed",
            Row::ReferenceOnly => "reference only: budgets are pooled here",
            Row::NotYetApplicable => "not yet applicable: nothing here hands approvals down",
        };
        *counts.entry(format!("{function}: {class}")).or_default() += 1;
    }
    for (class, count) in &counts {
        println!("{count:4} {class}");
    }
    for difference in &differing {
        println!("     {difference}");
    }
    let expected = [
        ("ceiling: agrees", 12),
        ("ceiling: differs as listed", 8),
        ("inherit_approvals: not yet applicable: nothing here hands approvals down", 100),
        ("resolve: agrees", 400),
        ("split_budget: reference only: budgets are pooled here", 210),
    ];
    assert_eq!(counts, expected.map(|(class, count)| (class.to_owned(), count)).into());
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

/// The row through the library, as `depute resolve` answers it.
fn resolve_row(input: &Value, expect: &Value, place: &str) -> Row {
    let question: Question = serde_json::from_value(input.clone()).unwrap();
    assert_eq!(serde_json::to_value(question.answer()).unwrap(), *expect, "{place}");
    Row::Agrees
}

/// What a value declares (nothing where undeclared), or the rule that it breaks.
type Declared = Result<Option<Vec<String>>, &'static str>;

/// What the file with this raw value declares: ids, `undeclared`, or the rule that refuses it.
fn declared(value: Option<&str>) -> Declared {
    let key = match value {
        None => String::new(),
        Some(value) => format!("allowed-tools: {}\n", serde_json::to_string(value).unwrap()),
    };
    let text = format!("---\ndescription: A probe.\n{key}---\nBody.\n");
    let name = DefinitionName::parse("probe").unwrap();
    match Definition::read(text.into_bytes(), DefinitionKind::Skill, name) {
        Err(problem) => Err(problem.rule),
        Ok(definition) => Ok(match definition.ceiling() {
            Ceiling::Undeclared(_) => None,
            Ceiling::Declared(set) => Some(set.texts()),
        }),
    }
}

fn ceiling_row(input: &Value, expect: &Value, place: &str) -> Row {
    let raw = input["allowed_tools"].as_str();
    let found = declared(raw);
    let scoped = |ids: &[&str]| Ok(Some(ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()));
    // The differences on purpose, each with what this product gives instead.
    let listed: Option<(&str, Declared)> = match raw {
        Some("Bash(git:*)") => Some(("a pattern is a scope", scoped(&["tool:bash(git:*)"]))),
        Some("Read Bash(git:*) Write") => {
            Some(("a pattern is a scope", scoped(&["tool:bash(git:*)", "tool:read", "tool:write"])))
        }
        Some("Bash(git add:*)") => {
            Some(("blanks in parentheses do not split", scoped(&["tool:bash(git add:*)"])))
        }
        Some("WebFetch(domain:example.com)") => {
            Some(("a pattern is a scope", scoped(&["tool:web_fetch(domain:example.com)"])))
        }
        Some("*" | "agent:*") => Some(("every wildcard is refused", Err("wildcard"))),
        Some("mcp__gh__create_issue") => {
            Some(("names go through the vocabulary", scoped(&["mcp:gh/create_issue"])))
        }
        Some("Task") => Some(("names go through the vocabulary", scoped(&["tool:delegate"]))),
        _ => None,
    };
    if let Some((why, instead)) = listed {
        assert_eq!(found, instead, "{place}");
        return Row::DiffersAsListed(why);
    }
    let undeclared = expect["undeclared"].as_bool().unwrap();
    let expected = if undeclared { None } else { Some(strings(&expect["capabilities"])) };
    assert_eq!(found, Ok(expected), "{place}");
    assert_eq!(expect["patterns"], Value::Array(Vec::new()), "{place}");
    Row::Agrees
}
