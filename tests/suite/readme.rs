//! Every command and output in the README is what happens.

use std::process::Command;

use super::pack;
use super::project::{self, Project, redacted};

const README: &str = include_str!("../../README.md");

/// A fenced block: what follows the opening fence, and the lines inside.
fn blocks() -> Vec<(&'static str, String)> {
    let mut blocks = Vec::new();
    let mut lines = README.lines();
    while let Some(line) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((info, body.join("\n") + "\n"));
        }
    }
    blocks
}

/// Whether an output is the expected one, where a line `…` stands for any lines.
fn agrees(found: &str, expected: &str) -> bool {
    let found = format!("\n{found}\n");
    let expected = format!("\n{expected}\n");
    let pieces: Vec<&str> = expected.split("\n…\n").collect();
    let [first, .., last] = pieces[..] else { return found == expected };
    let mut rest = found.strip_prefix(first).unwrap_or_default();
    for piece in &pieces[1..pieces.len() - 1] {
        let Some((_, after)) = rest.split_once(&format!("\n{piece}\n")) else { return false };
        rest = after;
    }
    found.starts_with(first) && rest.ends_with(last)
}

#[test]
fn the_session_is_what_happens() {
    let shop = Project::new();
    pack::make(&shop);
    let mut commands = 0;
    for (info, body) in blocks() {
        if let Some((_, path)) = info.split_once("file=") {
            shop.write(path, body);
        } else if info == "console" {
            for step in body.trim_start_matches("$ ").split("\n$ ") {
                let (command, expected) = step.split_once('\n').unwrap();
                let output = shop
                    .surround(Command::new("setsid"), &["--wait", "sh", "-c", &format!("{command} 2>&1")])
                    .output();
                let found = project::ran(&output.unwrap()).stdout;
                // Talk and data arrive in the order in which they were flushed.
                let found = redacted(&found);
                assert!(agrees(&found, expected.trim_end()), "`{command}` prints\n{found}");
                commands += 1;
            }
        }
    }
    assert_eq!(commands, 11);
}

#[test]
fn its_first_two_commands_are_the_demo_and_the_tests() {
    let commands: Vec<&str> = README.lines().filter_map(|line| line.strip_prefix("    ")).take(2).collect();
    assert_eq!(commands, ["cargo run -- demo", "cargo test --workspace"]);
}

#[test]
fn the_policy_in_it_is_a_policy() {
    let (_, policy) = blocks().into_iter().find(|(info, _)| *info == "yaml").unwrap();
    let read = depute::policy::Policy::read(policy.as_bytes()).unwrap();
    assert_eq!(read.accept.len(), 1);
    // Every key that a policy may have is shown.
    let shown = policy.lines().filter(|line| !line.starts_with(' ') && line.contains(':')).count();
    assert_eq!(shown, 16);
}

#[test]
fn its_exit_codes_are_those_of_the_program() {
    for (exit, meaning) in depute::exit::Exit::TABLE {
        let row = format!("| {} | {meaning} |", exit.code());
        assert!(README.lines().any(|line| line == row), "{row}");
    }
}

/// What is said of each tier is what the program says of it.
#[test]
fn its_table_of_tiers_is_that_of_the_program() {
    let (_, doctor) = Project::new().json(&["doctor"]);
    let tiers = doctor["tiers"].as_array().unwrap();
    let (_, section) = README.split_once("\n## What is enforced, by what, and what is not\n").unwrap();
    let table = section.lines().skip_while(|line| !line.starts_with("| tier |")).skip(2);
    let table: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
    let rows: Vec<String> = tiers
        .iter()
        .map(|tier| {
            let word = |key: &str| tier[key].as_str().unwrap();
            format!("| {} | {} | {} |", word("tier"), word("needs"), word("holds"))
        })
        .collect();
    assert_eq!(table, rows);
    // The machine's own is one of them.
    assert!(tiers.iter().any(|tier| tier["tier"] == doctor["tier"]), "{doctor}");
}

#[test]
fn its_json_keys_are_those_of_the_program() {
    let shop = Project::new();
    shop.skill("reviewer", "Read");
    let (_, plan) =
        shop.json(&["plan", "reviewer", "--task", "x", "--runtime", "scripted", "--trust-workspace"]);
    let (_, run) =
        shop.json(&["run", "reviewer", "--task", "say x", "--runtime", "scripted", "--trust-workspace"]);
    let (_, output) = shop.json(&["output"]);
    let (_, gc) = shop.json(&["gc"]);
    let (_, check) = shop.json(&["check", ".claude"]);
    let (_, init) = shop.json(&["init"]);
    let (_, list) = shop.json(&["list"]);
    let (_, trust) = shop.json(&["trust", "--show"]);
    let (_, doctor) = shop.json(&["doctor"]);
    shop.json(&["run", "nobody", "--task", "x", "--runtime", "scripted"]);
    let (_, explain) = shop.json(&["explain"]);
    let (_, error) = shop.json(&["plan", "reviewer", "--task", "x"]);
    for (command, value, also) in [
        ("`plan`", &plan, vec![]),
        ("`run`", &run, plan.as_object().unwrap().keys().collect()),
        ("`check`", &check, vec![]),
        ("`init`", &init, vec![]),
        ("`list`", &list, vec![]),
        ("`trust`", &trust, vec![]),
        ("`doctor`", &doctor, vec![]),
        ("`explain`", &explain, vec![]),
        ("`output`", &output, vec![]),
        ("`gc`", &gc, vec![]),
        ("any", &error, vec![]),
    ] {
        let row = README.lines().find(|line| line.starts_with(&format!("| {command}"))).unwrap();
        for key in value.as_object().unwrap().keys().filter(|key| *key != "v" && !also.contains(key)) {
            assert!(
                row.contains(&format!("`{key}`")),
                "{command} prints `{key}`, and the README does not say so"
            );
        }
    }
}
