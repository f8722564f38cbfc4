//! One decision in-process, for a typical definition: the plan with its argv, env and digests.

use std::hint::black_box;
use std::time::Instant;

use depute::capability::DefinitionName;
use depute::definition::{Definition, DefinitionKind};
use depute::plan::{
    Decision, DefinitionFact, DefinitionRef, Facts, NodeFacts, Origin, PlaceFact, Request, Situation, Usage,
    Which, decide,
};
use depute::policy::Policy;
use depute::runtime::{NodePaths, Profile, Tier};

use super::measure;
const POLICY: &str = "version: 1\ngrant: [tool:read, tool:grep, tool:glob, 'tool:write(docs/**)', agent:*]\n";
const FILE: &str = "---
name: reviewer
description: Reads what changed and reports what is missing, with the file and the line of each finding.
allowed-tools: Read, Grep, Glob, Write(docs/**)
---
Read the files that the task names. Report what is missing. Change nothing outside of docs.
";
const ROUNDS: usize = 200;
const EACH: u32 = 200;

pub(super) fn run() {
    let policy = Policy::read(POLICY.as_bytes()).unwrap();
    let profile = Profile::read(include_bytes!("../../policies/runtimes/scripted.yaml")).unwrap();
    let name = DefinitionName::parse("reviewer").unwrap();
    let read = || Definition::read(FILE.as_bytes().to_vec(), DefinitionKind::Skill, name.clone()).unwrap();
    let reference = DefinitionRef { name: name.clone(), which: Which::Nearest };
    let request = Request::of_whole_ceiling(reference, b"review the last change");
    let facts = Facts {
        node: NodeFacts { path: "1".to_owned(), depth: 1 },
        holder: policy.grant.clone(),
        definition: DefinitionFact::Read {
            origin: Origin::User,
            trusted: true,
            name: "reviewer".to_owned(),
            kind: DefinitionKind::Skill,
            place: "reviewer/SKILL.md".to_owned(),
            tree: depute_ledger::Digest::of(FILE.as_bytes()),
        },
        tier: Tier::K,
        lacking: None,
        kept: Vec::new(),
        places: [("docs".to_owned(), PlaceFact::Directory)].into(),
        approvals: Vec::new(),
        now_ms: 1_000_000,
        used: Usage::default(),
        workspaces: Vec::new(),
        paths: NodePaths {
            private: "/node".to_owned(),
            workspace: "/workspace".to_owned(),
            itself: "/usr/bin/depute".to_owned(),
        },
        task_digest: None,
    };
    let situation = Situation { facts, definition: Some(read()), profile };
    let decided = decide(&policy, &request, &situation);
    assert!(matches!(decided, Decision::Granted(_)), "{decided:?}");

    let mut deciding = Vec::new();
    let mut reading = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..EACH {
            let _ = black_box(decide(black_box(&policy), black_box(&request), black_box(&situation)));
        }
        deciding.push(start.elapsed() / EACH);
        let start = Instant::now();
        for _ in 0..EACH {
            black_box(read());
        }
        reading.push(start.elapsed() / EACH);
    }
    deciding.sort_unstable();
    reading.sort_unstable();
    let (decide, p99) = (measure::quantile(&deciding, 0.5), measure::quantile(&deciding, 0.99));
    measure::report(
        "decide one plan",
        "< 20 µs",
        &format!("{:.1} µs (p99 {:.1} µs)", micros(decide), micros(p99)),
        micros(decide) < 20.0,
    );
    println!("read the definition before it: {:.1} µs", micros(measure::quantile(&reading, 0.5)));
}

fn micros(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
