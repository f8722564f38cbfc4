//! A ledger line holds enough to decide again.

use depute::broker::Inputs;
use depute::plan::decide;
use depute_ledger::Reader;
use depute_ledger::record::Body;

use super::project::Project;

#[test]
fn every_recorded_decision_is_decided_again_from_what_is_stored() {
    let project = Project::new();
    project
        .skill("reader", "Read, Grep")
        .skill("writer", "Read, Write")
        .skill("shell", "Bash")
        .skill("searcher", "WebSearch")
        .write(".claude/skills/broken/SKILL.md", "---\ndescription: a: b\n---\n")
        .write(".claude/skills/bare/SKILL.md", "---\ndescription: d\n---\n")
        .write(".depute/policy.yaml", "version: 1\ngates: [tool:bash]\n")
        .write(
            "policy.yaml",
            "version: 1\ngrant: [tool:read, tool:grep, tool:bash, agent:*]\naccept: [{id: tool:bash, as: advisory, why: a test}]\nruntime: {default: scripted}\ninline: true\n",
        );
    for (args, exit) in [
        (vec!["reader", "--task", "read x"], 0),
        (vec!["writer", "--task", "read x"], 0),
        (vec!["searcher", "--task", "x"], 84),
        (vec!["shell", "--task", "x"], 81),
        (vec!["broken", "--task", "x"], 82),
        (vec!["bare", "--task", "x"], 82),
        (vec!["nobody", "--task", "x"], 80),
        (vec!["reader", "--task", ""], 82),
        (vec!["reader", "--task", "x", "--use", "tool:read\n"], 80),
        (vec!["reader", "--task", "x", "--workspace", "w"], 80),
        (vec!["--inline", "--task", "ls", "--use", "tool:read"], 0),
    ] {
        let mut all = vec!["--policy", "policy.yaml", "run"];
        all.extend(&args);
        all.push("--trust-workspace");
        let ran = project.run(&all);
        assert_eq!(ran.code, exit, "{args:?}: {}{}", ran.stdout, ran.stderr);
    }
    let ledger = project.ledger();
    let objects = Reader::open(&ledger).unwrap();
    let mut again = 0;
    for line in Reader::open(&ledger).unwrap() {
        let Body::Decision(recorded) = line.unwrap().record.body else { continue };
        let load = |digest| objects.get_object(digest).map_err(|error| error.to_string());
        let (policy, request, situation) = Inputs::load(&recorded.inputs, load).unwrap();
        let decision = decide(&policy, &request, &situation);
        let verdict = serde_json::to_value(recorded.verdict).unwrap();
        assert_eq!(decision.verdict(), verdict);
        assert_eq!(decision.refusal().map(|refusal| refusal.code.as_str()), recorded.code.as_deref());
        let considered = decision.considered();
        assert_eq!(considered.effective.texts(), recorded.effective);
        assert_eq!(considered.denied, recorded.denied);
        assert_eq!(considered.gated.texts(), recorded.gated);
        assert_eq!(considered.digests.plan, recorded.digests.plan);
        assert_eq!(considered.digests.body, recorded.digests.body);
        again += 1;
    }
    println!("decided again: {again}");
    assert_eq!(again, 11);
}

#[test]
fn a_spawn_follows_its_decision_and_an_exit_its_spawn() {
    let project = Project::new();
    project.skill("reader", "Read");
    let ran =
        project.run(&["run", "reader", "--task", "say x", "--runtime", "scripted", "--trust-workspace"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let records = project.records(&project.ledger());
    let kinds: Vec<&str> = records.iter().map(|record| record["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["genesis", "session", "decision", "spawn", "caged", "spawned", "exit", "close"]);
    let node = &records[2]["body"]["node"];
    for record in &records[2..7] {
        assert_eq!(record["op"], *node, "one operation joins them");
    }
    assert_eq!(records[3]["body"]["decision"], records[2]["seq"]);
}

#[test]
fn a_refusal_is_explained_from_the_ledger_alone() {
    let project = Project::new();
    project.skill("reader", "Read").skill("writer", "Write");
    let run = |agent: &str| {
        project.json(&["run", agent, "--task", "say x", "--runtime", "scripted", "--trust-workspace"])
    };
    let (code, value) = project.json(&["explain", "--ledger", "nowhere"]);
    assert_eq!((code, value["error"]["code"].as_str()), (1, Some("LEDGER_UNREADABLE")));
    assert_eq!(run("reader").0, 0);
    assert_eq!(project.json(&["explain"]).1["error"]["code"], "NO_SUCH_DECISION");
    let (_, refused) = run("writer");
    // The file may go: what was decided on is stored.
    std::fs::remove_dir_all(project.root().join(".claude")).unwrap();
    let (code, explained) = project.json(&["explain"]);
    assert_eq!((code, &explained["refusal"]), (0, &refused["refusal"]));
    assert_eq!((explained["step"].as_u64(), explained["seq"].as_u64()), (Some(11), refused["seq"].as_u64()));
    let (code, granted) = project.json(&["explain", "2"]);
    assert_eq!((code, granted["verdict"].as_str()), (0, Some("granted")));
    // An input that is gone is said, and nothing is guessed.
    let objects = project.ledger().join("objects");
    for object in std::fs::read_dir(&objects).unwrap() {
        std::fs::remove_file(object.unwrap().path()).unwrap();
    }
    let (code, value) = project.json(&["explain"]);
    assert_eq!((code, value["error"]["code"].as_str()), (83, Some("NOT_REDECIDABLE")));
}
