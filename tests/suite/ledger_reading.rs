//! `depute ledger query`, `tail` and `rotate`.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::project::{self, Project};

const RUN: [&str; 4] = ["run", "reviewer", "--runtime", "scripted"];

/// Two granted runs, one refused, one of another definition.
fn project() -> Project {
    let project = Project::new();
    project.skill("reviewer", "Read").skill("deployer", "Bash").skill("reader", "Read, Grep");
    for agent in ["reviewer", "deployer", "reader", "reviewer"] {
        project.run(&["run", agent, "--runtime", "scripted", "--trust-workspace", "--task", "say x"]);
    }
    project
}

fn query(project: &Project, args: &[&str]) -> Vec<serde_json::Value> {
    let ran = project.run(&[&["ledger", "query", "--json"], args].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(records: &[serde_json::Value]) -> Vec<&str> {
    records.iter().map(|record| record["kind"].as_str().unwrap()).collect()
}

#[test]
fn conditions_pick_records_out() {
    let project = project();
    let count = |args: &[&str]| query(&project, args).len();
    let all = count(&[]);
    assert_eq!(all, project.run(&["ledger", "show"]).stdout.lines().count());
    assert_eq!(count(&["--kind", "decision"]), 4);
    assert_eq!(count(&["--kind", "decision", "--kind", "exit"]), 7);
    assert_eq!(count(&["--verdict", "refused"]), 1);
    assert_eq!(count(&["--verdict", "refused", "--verdict", "granted"]), 4);
    assert_eq!(count(&["--code", "CAPABILITY_ESCALATION"]), 1);
    assert_eq!(count(&["--verdict", "granted", "--code", "CAPABILITY_ESCALATION"]), 0);
    assert_eq!(count(&["--capability", "tool:grep"]), 1);
    assert_eq!(count(&["--capability", "tool:grep", "--capability", "tool:read"]), 1);
    assert_eq!(count(&["--capability", "tool:bash"]), 1, "where it was refused");
    // All that happened to the nodes of a definition.
    let reader = query(&project, &["--agent", "reader"]);
    assert_eq!(kinds(&reader), ["decision", "spawn", "caged", "spawned", "exit"]);
    let node = reader[0]["body"]["node"].as_str().unwrap();
    assert_eq!(query(&project, &["--node", node]), reader);
    assert_eq!(query(&project, &["--node", &node[..30]]), reader);
    let writer = reader[0]["w"].as_str().unwrap();
    assert_eq!(count(&["--writer", writer]), 7, "with its session and close");
    // The last of them, in their order.
    let last = query(&project, &["--kind", "decision", "--last", "2"]);
    assert_eq!(last, query(&project, &["--kind", "decision"])[2..]);
}

#[test]
fn the_newest_come_first_on_request() {
    let project = project();
    let backwards = |args: &[&str]| {
        let mut records = query(&project, args);
        records.reverse();
        assert_eq!(query(&project, &[args, &["--reverse"]].concat()), records, "{args:?}");
        records.len()
    };
    let all = backwards(&[]);
    // Decisions in one segment, what became of them in another, and one segment with nothing of it.
    for _ in 0..2 {
        project.json(&["ledger", "rotate"]);
        project.run(&[&RUN[..], &["--trust-workspace", "--task", "say x"]].concat());
    }
    project.json(&["ledger", "rotate"]);
    assert_eq!(backwards(&[]), all + 2 * 8 + 1);
    assert_eq!(backwards(&["--agent", "reviewer"]), 20);
    assert_eq!(backwards(&["--agent", "reader", "--kind", "exit"]), 1);
    let newest = query(&project, &["--kind", "decision", "--last", "3", "--reverse"]);
    let mut decisions = query(&project, &["--kind", "decision"]);
    decisions.reverse();
    assert_eq!(newest, decisions[..3]);
    assert_eq!(query(&project, &["--last", "0", "--reverse"]), query(&project, &["--last", "0"]));
    let none = project.run(&["ledger", "query", "--agent", "nobody", "--reverse"]);
    assert_eq!((none.code, none.stdout.as_str(), none.stderr.as_str()), (0, "", "no record is so\n"));
}

#[test]
fn times_bound_what_is_picked() {
    let project = project();
    let count = |args: &[&str]| query(&project, args).len();
    let all = query(&project, &[]);
    let middle = all[all.len() / 2]["ts"].as_str().unwrap();
    let before = count(&["--until", middle]);
    assert!(before > 0);
    assert_eq!(before + count(&["--since", middle]), all.len());
    assert_eq!((count(&["--since", "1h"]), count(&["--until", "1h"])), (all.len(), 0));
    assert_eq!(count(&["--since", "7d", "--until", "2000-01-01T00:00:00Z"]), 0);
}

#[test]
fn what_cannot_be_is_refused_and_what_is_not_there_is_said() {
    let project = project();
    let refused = |args: &[&str], hint: &str| {
        let ran = project.run(&[&["ledger", "query"], args].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ran.stderr.contains(hint), "{}", ran.stderr);
    };
    refused(&["--kind", "decisions"], "did you mean `decision`?");
    refused(&["--code", "CAPABILITY_ESCALATON"], "did you mean `CAPABILITY_ESCALATION`?");
    refused(&["--verdict", "maybe"], "possible values: granted, held, refused");
    refused(&["--capability", "read"], "has no namespace");
    refused(&["--since", "yesterday"], "an age such as `2h`");
    let none = project.run(&["ledger", "query", "--agent", "nobody"]);
    assert_eq!((none.code, none.stdout.as_str(), none.stderr.as_str()), (0, "", "no record is so\n"));
}

#[test]
fn a_ledger_of_several_segments_is_one() {
    let project = project();
    let rotate = || project.json(&["ledger", "rotate"]).1["rotated"] == true;
    let all = query(&project, &[]).len();
    assert!(rotate());
    assert!(!rotate(), "there is nothing in the newest");
    assert_eq!(query(&project, &[]).len(), all + 1);
    project.run(&[&RUN[..], &["--trust-workspace", "--task", "say x"]].concat());
    let (code, report) = project.json(&["ledger", "verify"]);
    assert_eq!((code, report["segments"].as_u64()), (0, Some(2)));
    assert_eq!(project.run(&["explain"]).code, 0, "of a line in the first");
    // The newest lines reach back over the border where they must.
    let tail = |n: &str| project.run(&["ledger", "tail", "-n", n]).stdout.lines().count();
    assert_eq!([tail("0"), tail("3"), tail("9"), tail("1000")], [0, 3, 9, all + 8]);
    let shown = project.run(&["ledger", "show"]).stdout;
    assert!(shown.ends_with(&project.run(&["ledger", "tail", "-n", "9"]).stdout));
}

#[test]
fn a_tail_goes_on_with_what_is_appended() {
    let project = project();
    let mut tail = project.command(&["ledger", "tail", "--follow", "-n", "1"]);
    let mut tail = tail.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |word: &str| {
        // It blocks until there is a line: a tail that says nothing never ends this test well.
        let found: Vec<String> = lines.by_ref().take_while(|line| !line.contains(word)).collect();
        found.len()
    };
    assert_eq!(until("session ended"), 0, "the newest line comes first");
    project.run(&[&RUN[..], &["--trust-workspace", "--task", "say x"]].concat());
    assert_eq!(until("session ended"), 6, "session, decision, spawn, caged, spawned, exit");
    // Into the next segment too.
    project.json(&["ledger", "rotate"]);
    project.run(&[&RUN[..], &["--trust-workspace", "--task", "say x"]].concat());
    assert_eq!(until("session ended"), 7);
    tail.kill().unwrap();
    tail.wait().unwrap();
}

#[test]
fn a_tail_ends_when_it_is_told_to_or_nobody_reads_it() {
    let project = project();
    let follow = || {
        let mut command = project.command(&["ledger", "tail", "--follow", "-n", "2"]);
        let mut tail = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(tail.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.contains("exit"), "{line}");
        (tail, out)
    };
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (tail, mut out) = follow();
        kill(Pid::from_raw(tail.id().try_into().unwrap()), signal).unwrap();
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest.lines().count(), 1, "what was there is there whole: {rest}");
        let ended = project::ran(&tail.wait_with_output().unwrap());
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{signal}");
    }
    // Nothing more is appended that it could fail to print.
    let (tail, out) = follow();
    drop(out);
    let ended = project::ran(&tail.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (141, ""));
}

#[test]
fn a_ledger_that_a_newer_depute_wrote_is_left_alone() {
    let project = project();
    let file = project.ledger().join("seg-00000000000000000000.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    let at = whole.rfind("\"close\"").unwrap();
    let newer = format!("{}\"seal\"{}", &whole[..at], &whole[at + 7..]);
    std::fs::write(&file, &newer).unwrap();
    // Whoever wrote it wrote its `head`, too.
    std::fs::remove_file(project.ledger().join("head")).unwrap();
    let run = [&RUN[..], &["--trust-workspace", "--task", "say x"]].concat();
    for (args, exit) in [
        (&run[..], 83),
        (&["ledger", "verify"], 1),
        (&["ledger", "show"], 1),
        (&["ledger", "query"], 1),
        (&["ledger", "tail"], 1),
        (&["ledger", "rotate"], 83),
        (&["explain", "7"], 1),
    ] {
        let ran = project.run(args);
        assert_eq!(ran.code, exit, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("newer version") && ran.stderr.contains("kind `seal`"), "{}", ran.stderr);
        assert!(ran.stderr.contains("fix: use the depute that wrote it, or a newer one"), "{}", ran.stderr);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), newer);
    }
    // The control: as it was.
    std::fs::write(&file, &whole).unwrap();
    assert_eq!(project.run(&run).code, 0);
}
