//! Bad input through the program: one clear error, the right exit code, and nothing started.

use std::os::unix::fs::PermissionsExt;

use super::project::Project;

const POLICY: &str = "version: 1\ntier: 0\ngrant: [tool:bash, agent:*]\naccept: [{id: tool:bash, as: advisory, why: a test}]\nruntime: {default: command}\n";

fn shell() -> Project {
    let project = Project::new();
    project.skill("worker", "Bash").write("policy.yaml", POLICY);
    project
}

fn run<'a>(policy: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["--policy", policy, "run", "worker", "--trust-workspace"];
    args.extend(more);
    args
}

const TOUCH: [&str; 2] = ["--task", "touch started"];

#[test]
fn a_broken_policy_names_its_place_and_starts_nothing() {
    let project = shell();
    for (policy, place, word) in [
        (
            "version: 1\ngrant: [tool:bash, agent:*]\ngate: [tool:bash]\n",
            "bad.yaml:3:1",
            "did you mean `gates`?",
        ),
        ("version: 1\ngrant: tool:bash\n", "bad.yaml:2:8", "`grant` is a map, not text"),
        ("version: 1\ngrant: [tool:ba*]\n", "bad.yaml:2:9", "`tool:ba*`"),
        ("version: 2\ngrant: []\n", "bad.yaml:1:10", "which reads version 1"),
        ("version: 1\ngrant: []\ngrant: [tool:bash]\n", "bad.yaml:3:1", "written twice"),
    ] {
        project.write("bad.yaml", policy);
        let ran = project.run(&run("bad.yaml", &TOUCH));
        assert_eq!(ran.code, 82, "{policy}");
        assert!(ran.stderr.contains(place), "{place} is not in {}", ran.stderr);
        assert!(ran.stderr.contains(word), "{word} is not in {}", ran.stderr);
        let (code, value) = project.json(&["check", "bad.yaml"]);
        assert_eq!((code, value["state"].as_str()), (82, Some("refused")));
        let (line, column) = (value["line"].as_u64().unwrap(), value["column"].as_u64().unwrap());
        assert_eq!(format!("bad.yaml:{line}:{column}"), place);
    }
    assert!(!project.root().join("started").exists());
    assert_eq!(project.run(&run("policy.yaml", &TOUCH)).code, 0);
    assert!(project.root().join("started").exists());
}

#[test]
fn a_policys_own_tests_are_run() {
    let project = shell();
    let policy = |expect: &str| {
        format!(
            "{POLICY}tests:\n  - name: a shell\n    request: {{use: [tool:bash]}}\n    expect: {expect}\n"
        )
    };
    project.write("right.yaml", policy("granted")).write("wrong.yaml", policy("refused"));
    assert_eq!(project.run(&["check", "right.yaml"]).code, 0);
    let (code, value) = project.json(&["check", "wrong.yaml"]);
    assert_eq!(
        (code, value["code"].as_str(), value["line"].as_u64()),
        (82, Some("POLICY_TEST_FAILED"), Some(7))
    );
    assert_eq!(value["message"], "its test `a shell` expects refused, and it is granted");
}

#[test]
fn the_policies_that_are_shipped_pass_their_tests() {
    let project = Project::new();
    let policies = concat!(env!("CARGO_MANIFEST_DIR"), "/policies");
    let ran = project.run(&["check", policies]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    for name in [
        "default.yaml",
        "command.yaml",
        "pi.yaml",
        "scripted.yaml",
        "demo/policy.yaml",
        "reviewer/SKILL.md",
        "fixer/SKILL.md",
    ] {
        assert!(ran.stdout.contains(name), "{name} was not checked:\n{}", ran.stdout);
    }
}

#[test]
fn tasks_that_are_none_are_refused() {
    let project = shell();
    project
        .write("nul", b"touch started\0")
        .write("blank", " \n\t\n")
        .write("huge", vec![b'#'; 16 * 1024 * 1024 + 1]);
    for (args, code) in [
        (vec!["--task", ""], "TASK_MISSING"),
        (vec![], "TASK_MISSING"),
        (vec!["--task-file", "blank"], "TASK_MISSING"),
        (vec!["--task-file", "nul"], "REQUEST_MALFORMED"),
        (vec!["--task-file", "huge"], "REQUEST_MALFORMED"),
    ] {
        let (exit, value) = project.json(&run("policy.yaml", &args));
        assert_eq!((exit, value["refusal"]["code"].as_str()), (82, Some(code)), "{args:?}");
        assert_eq!(value["outcome"], serde_json::Value::Null);
    }
    assert!(!project.root().join("started").exists());
    // Refusals are on the ledger too, each with its code.
    let refused = project
        .records(&project.ledger())
        .iter()
        .filter(|record| record["body"]["verdict"] == "refused")
        .count();
    assert_eq!(refused, 5);
}

#[test]
fn an_unknown_agent_gets_the_nearest_names_first() {
    let project = shell();
    project.skill("review", "Read").skill("reviewer", "Read");
    let (code, value) = project.json(&["plan", "reviewr", "--task", "x", "--runtime", "scripted"]);
    assert_eq!((code, value["refusal"]["code"].as_str()), (80, Some("UNKNOWN_DEFINITION")));
    assert_eq!(value["refusal"]["details"]["near"], serde_json::json!(["review", "reviewer"]));
    let (_, value) = project.json(&["plan", "zzz", "--task", "x", "--runtime", "scripted"]);
    assert_eq!(value["refusal"]["details"]["near"], serde_json::json!([]));
}

#[test]
fn a_ledger_that_cannot_be_written_starts_nothing_and_loses_nothing() {
    let project = shell();
    assert_eq!(project.run(&run("policy.yaml", &["--task", "true"])).code, 0);
    let ledger = project.ledger();
    let segment = ledger.join("seg-00000000000000000000.jsonl");
    let good = std::fs::read(&segment).unwrap();
    let refused = |what: &str| {
        let before = std::fs::read(&segment).ok();
        let ran = project.run(&run("policy.yaml", &TOUCH));
        assert_eq!(ran.code, 83, "{what}: {}{}", ran.stdout, ran.stderr);
        assert!(
            ran.stderr.contains("LEDGER_WRITE_FAILED") && ran.stderr.contains("nothing was started"),
            "{what}: {}",
            ran.stderr
        );
        assert!(!project.root().join("started").exists(), "{what}");
        assert_eq!(std::fs::read(&segment).ok(), before, "{what}: the file is as it was");
        super::project::redacted(&ran.stderr.replace(&ledger.display().to_string(), "LEDGER"))
    };
    let mut changed = good.clone();
    let middle = good.len() / 2;
    changed[middle] ^= 1;
    std::fs::write(&segment, &changed).unwrap();
    refused("a flipped bit");
    std::fs::write(&segment, &good[..middle]).unwrap();
    refused("a lost half");
    let future = String::from_utf8(good.clone()).unwrap().replacen("{\"v\":0", "{\"v\":7", 1);
    std::fs::write(&segment, future).unwrap();
    refused("a future version");
    std::fs::write(&segment, &good).unwrap();
    std::fs::set_permissions(&ledger, std::fs::Permissions::from_mode(0o755)).unwrap();
    insta::assert_snapshot!(refused("a directory that others may enter"), @r"
    error[LEDGER_WRITE_FAILED]: refusing `LEDGER`: its mode 0755 lets others in; remove the group and other bits; nothing was started
      fix: name another directory with `--ledger`, or look at this one with `depute ledger verify`
    ");
    std::fs::set_permissions(&ledger, std::fs::Permissions::from_mode(0o700)).unwrap();
    // Mended, it goes on.
    assert_eq!(project.run(&run("policy.yaml", &TOUCH)).code, 0);
    assert!(project.root().join("started").exists());
    assert!(depute_ledger::verify(&ledger, &depute_ledger::VerifyOptions::new()).unwrap().is_intact());
    // A place where none can be made.
    std::fs::remove_file(project.root().join("started")).unwrap();
    project.write("file", "");
    let ran = project.run(&[
        "--ledger",
        "file",
        "--policy",
        "policy.yaml",
        "run",
        "worker",
        "--trust-workspace",
        "--task",
        "touch started",
    ]);
    assert_eq!((ran.code, project.root().join("started").exists()), (83, false));
}

#[test]
fn a_full_ledger_starts_nothing() {
    let project = shell();
    assert_eq!(project.run(&run("policy.yaml", &["--task", "true"])).code, 0);
    let size = std::fs::metadata(project.ledger().join("seg-00000000000000000000.jsonl")).unwrap().len();
    // A file size limit just above what is there stands for a full disk.
    let limit = size.div_ceil(512).to_string();
    let script = format!(
        "ulimit -f {limit}; exec depute --policy policy.yaml run worker --trust-workspace --task 'touch started'"
    );
    let mut command =
        project.surround(std::process::Command::new("setsid"), &["--wait", "sh", "-c", &script]);
    let ran = super::project::ran(&command.output().unwrap());
    assert_eq!(ran.code, 83, "{}{}", ran.stdout, ran.stderr);
    assert!(!project.root().join("started").exists());
    assert_eq!(project.run(&run("policy.yaml", &TOUCH)).code, 0);
    assert!(project.root().join("started").exists());
}

#[test]
fn a_decision_too_long_for_a_line_starts_nothing() {
    let project = shell();
    project.skill("scribe", "Write").write(
        "write.yaml",
        "version: 1\ngrant: [tool:write, agent:*]\nruntime: {default: scripted}\ntier: 0\n",
    );
    let scribe = |ids: &str| {
        project.run(&[
            "--policy",
            "write.yaml",
            "run",
            "scribe",
            "--trust-workspace",
            "--task",
            "raw_open write started",
            "--use",
            ids,
        ])
    };
    let ids = |most: usize| {
        (0..most).map(|n| format!("tool:write({n}/{})", "x".repeat(380))).collect::<Vec<_>>().join(",")
    };
    let ran = scribe(&ids(128));
    assert_eq!(ran.code, 82, "{}", ran.stderr);
    assert!(!project.root().join("started").exists());
    // It is on the ledger as refused, though its lists could not be.
    let records = project.records(&project.ledger());
    let decision = records.iter().find(|record| record["kind"] == "decision").unwrap();
    assert_eq!(
        (decision["body"]["verdict"].as_str(), decision["body"]["code"].as_str()),
        (Some("refused"), Some("REQUEST_MALFORMED"))
    );
    assert!(decision["body"]["inputs"]["request"].is_string());
    assert_eq!(scribe(&ids(8)).code, 0);
    assert!(project.root().join("started").exists());
    let (code, value) = project.json(&run("policy.yaml", &["--task", "x", "--use", &ids(129)]));
    assert_eq!((code, value["refusal"]["code"].as_str()), (82, Some("REQUEST_MALFORMED")));
}

#[test]
fn usage_errors_are_two_and_malformed_requests_are_eighty_two() {
    let project = shell();
    for args in [
        vec!["nonsense"],
        vec!["plan"],
        vec!["run", "worker", "--deadline", "soon", "--runtime", "command", "--task", "x"],
    ] {
        assert_eq!(project.run(&args).code, 2, "{args:?}");
    }
    for args in [
        vec!["plan", "worker", "--task", "x"],
        vec!["plan", "worker", "--task", "x", "--runtime", "comand"],
        vec!["plan", "a b", "--task", "x", "--runtime", "command"],
        vec!["plan", "worker@nowhere", "--task", "x", "--runtime", "command"],
    ] {
        let (code, value) = project.json(&args);
        assert_eq!((code, value["error"]["code"].as_str()), (82, Some("REQUEST_MALFORMED")), "{args:?}");
        assert!(value["error"]["fix"].is_string() || args[1] == "a b" || args[1].contains('@'), "{args:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let project = shell();
    let mut command = project.surround(std::process::Command::new("sh"), &["-c", "depute demo | head -n 1"]);
    let ran = super::project::ran(&command.output().unwrap());
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

#[test]
fn resolve_reads_lines_and_says_which_is_wrong() {
    let project = Project::new();
    let resolve = |input: &str| {
        // From a file: a pipe that is filled before the answers are read would fill both ways.
        project.write("lines", input);
        let lines = std::fs::File::open(project.root().join("lines")).unwrap();
        super::project::ran(&project.command(&["resolve"]).stdin(lines).output().unwrap())
    };
    let data =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/conformance/resolve.jsonl"))
            .unwrap();
    let rows: Vec<serde_json::Value> = data
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|row: &serde_json::Value| row["fn"] == "resolve")
        .collect();
    let input: String = rows.iter().map(|row| format!("{}\n", row["input"])).collect();
    let ran = resolve(&input);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let answers: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), rows.len());
    for (answer, row) in answers.iter().zip(&rows) {
        assert_eq!(*answer, row["expect"], "{}", row["input"]);
    }
    println!("resolve: {} rows agree through the program", rows.len());
    let ran = resolve("{\"requested\": [], \"parentGrant\": []}\n{\"requested\": [], \"parentgrant\": []}\n");
    assert_eq!((ran.code, ran.stdout.lines().count()), (82, 1));
    assert!(ran.stderr.contains("line 2"), "{}", ran.stderr);
}

#[test]
fn a_policy_inside_the_workspace_narrows_and_cannot_widen() {
    let project = shell();
    let narrow = |text: &str| {
        project.write(".depute/policy.yaml", text);
        project.run(&run("policy.yaml", &TOUCH))
    };
    for (text, code) in [
        ("version: 1\ngrant: []\n", 80),
        ("version: 1\ngrant: [tool:read, agent:*]\n", 80),
        ("version: 1\ngates: [tool:bash]\n", 81),
        ("version: 1\naccept: []\n", 84),
        ("version: 1\nlimits: {agents: 0}\n", 80),
        ("version: 1\nuniversal: [tool:bash]\n", 80),
        // What could widen is refused, and so is what cannot be read.
        ("version: 1\nsubsumption: {read: [bash]}\n", 82),
        ("version: 1\nruntime: {default: scripted}\n", 82),
        ("nonsense", 82),
    ] {
        let ran = narrow(text);
        assert_eq!(ran.code, code, "{text}: {}{}", ran.stdout, ran.stderr);
        assert!(!project.root().join("started").exists(), "{text}");
    }
    // It states more than the operator's policy and adds nothing to it.
    let ran = narrow(
        "version: 1\ngrant: [tool:*, agent:*]\nlimits: {depth: 9, deadline: 9h}\nenv: [SECRET]\ninline: true\n",
    );
    assert_eq!((ran.code, project.root().join("started").exists()), (0, true), "{}", ran.stderr);
    let policy = depute::policy::Policy::read(POLICY.as_bytes()).unwrap();
    let by =
        depute::policy::Narrowing::read(&std::fs::read(project.root().join(".depute/policy.yaml")).unwrap())
            .unwrap();
    let narrowed = policy.narrowed(&by);
    assert_eq!(
        (&narrowed.grant, narrowed.limits, narrowed.inline),
        (&policy.grant, policy.limits, policy.inline)
    );
    assert!(narrowed.env.is_empty());
}

#[test]
fn a_profile_that_leaves_out_what_matters_is_refused() {
    let project = shell();
    let profile = |bash: &str| {
        format!(
            "version: 1\nruntime: mine\nabout: x\nfind: /bin/sh\nprobe: []\nversions: null\ntools:\n  bash: {{native: bash{bash}}}\nallowlist: none\nargv:\n  - [-c, 'eval \"$(cat)\"']\nenv: {{}}\nkeys: []\nconfig_files: []\nbody: unused\ntask: stdin\nmodel: none\nmcp: null\noutput: text\nattestation: null\nusage: null\nexit: code\ncannot: {{}}\n"
        )
    };
    let path = project.config().join("runtimes/mine.yaml");
    let args = run("policy.yaml", &["--task", "touch started", "--runtime", "mine"]);
    super::project::write(&path, profile(""));
    let ran = project.run(&args);
    assert_eq!((ran.code, project.root().join("started").exists()), (82, false), "{}", ran.stderr);
    super::project::write(&path, profile(", runs_programs: true"));
    let ran = project.run(&args);
    assert_eq!((ran.code, project.root().join("started").exists()), (0, true), "{}", ran.stderr);
}
