//! `doctor`: what it measures, what it takes for a problem, and that it changes nothing.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;

use super::project::{Project, write};

const IN_ORDER: &str = "version: 1\ngrant: [tool:read, agent:*]\nruntime: {default: scripted}\n";

/// A project with a policy, a definition, trust and a ledger, where nothing is a problem.
fn in_order() -> Project {
    let project = Project::new();
    write(&project.config().join("policy.yaml"), IN_ORDER);
    for path in [project.config(), project.config().join("policy.yaml")] {
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    project.skill("reader", "Read");
    assert_eq!(project.run(&["trust"]).code, 0);
    assert_eq!(project.run(&["run", "reader", "--task", "say hello"]).code, 0);
    project
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The exit code, and each problem as `name: message; fix`.
fn problems(project: &Project, args: &[&str]) -> (i32, Vec<String>) {
    let mut all = args.to_vec();
    all.push("doctor");
    let (exit, value) = project.json(&all);
    let problems: Vec<String> = value["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["state"] == "problem")
        .map(|check| {
            let word = |key: &str| check[key].as_str().unwrap();
            format!("{}: {}; {}", word("name"), word("message"), word("fix"))
        })
        .collect();
    assert_eq!(value["state"], if problems.is_empty() { "ok" } else { "problem" });
    (exit, problems)
}

/// The state and message of the one check of this name.
fn check(project: &Project, args: &[&str], name: &str) -> String {
    let mut all = args.to_vec();
    all.push("doctor");
    let (_, value) = project.json(&all);
    let named: Vec<&Value> =
        value["checks"].as_array().unwrap().iter().filter(|check| check["name"] == name).collect();
    assert_eq!(named.len(), 1, "{name}: {value}");
    format!("{} {}", named[0]["state"].as_str().unwrap(), named[0]["message"].as_str().unwrap())
}

/// What it says to a person, without what differs from machine to machine.
macro_rules! assert_said {
    ($project:expr, $args:expr, @$snapshot:literal) => {{
        let project: &Project = $project;
        let scratch = project.root().parent().unwrap().to_owned();
        let real = scratch.canonicalize().unwrap();
        let uid = std::fs::metadata(&scratch).unwrap().uid();
        let binary = env!("CARGO_BIN_EXE_depute");
        let machine = r"(?m)^\w+ +(file system|kernel|tier [KNC]|git|runtime pi) .*\n( +fix: .*\n)?";
        insta::with_settings!({filters => vec![
            (machine, ""),
            (scratch.to_str().unwrap(), "…"),
            (real.to_str().unwrap(), "…"),
            (binary, "…/depute"),
            ("shop-[0-9a-f]{16}", "shop-KEY"),
            (format!("uid {uid},").as_str(), "uid ME,"),
            (r"\d+ notes", "N notes"),
            ("up to [KNC] holds", "up to T holds"),
        ]}, {
            let ran = project.run($args);
            insta::assert_snapshot!(ran.stdout, @$snapshot);
            ran.code
        })
    }};
}

/// Every path of a test's scratch directory, with its size and time of change.
fn everything(project: &Project) -> Vec<String> {
    fn walk(dir: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let changed = (metadata.ctime(), metadata.ctime_nsec());
            found.push(format!("{} {} {changed:?}", path.display(), metadata.len()));
            if metadata.is_dir() {
                walk(&path, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(project.root().parent().unwrap(), &mut found);
    found.sort();
    found
}

#[test]
fn where_nothing_is_yet_nothing_is_a_problem_and_nothing_is_made() {
    let project = Project::new();
    let before = everything(&project);
    let code = assert_said!(&project, &["doctor"], @r"
    ok       policy            built-in, in order
    ok       tier              K is in force, and up to T holds here
    ok       runtime command   /bin/sh can be started
    ok       runtime scripted  …/depute can be started
    note     runtime           the policy has no default, so each request has to name one
                               fix: add `runtime: {default: scripted}` to the policy, or `--runtime` to requests
    ok       keys              none is set here that the policy does not pass
    ok       definitions       none found
    note     configuration     …/config/depute is not there; `depute init` makes it
    note     state             …/state/depute is not there; the first run makes it
    note     trust             …/shop is not trusted: its definitions are refused
                               fix: read them, then run `depute trust`
    note     ledger            …/state/depute/projects/shop-KEY/ledger is not there; the first run makes it
    no problem, N notes
    ");
    assert_eq!(code, 0);
    assert_eq!(everything(&project), before);
}

#[test]
fn where_all_is_in_order_it_says_what_it_found_and_changes_nothing() {
    let project = in_order();
    let before = everything(&project);
    let code = assert_said!(&project, &["doctor"], @r#"
    ok       policy            …/config/depute/policy.yaml, in order
    ok       tier              K is in force, and up to T holds here
    ok       runtime command   /bin/sh can be started
    ok       runtime scripted  …/depute can be started
    ok       keys              none is set here that the policy does not pass
    ok       definitions       1 file; `depute list` says what each could do
    ok       policy file       …/config/depute/policy.yaml, uid ME, mode 0600
    ok       configuration     …/config/depute, uid ME, mode 0700
    ok       state             …/state/depute, uid ME, mode 0700
    ok       trust             …/shop is trusted: its definitions may be spawned
    ok       ledger            …/state/depute/projects/shop-KEY/ledger, its newest lines intact
    no problem, N notes
    "#);
    assert_eq!(code, 0);
    assert_eq!(everything(&project), before);
}

#[test]
fn a_policy_that_cannot_be_read_is_a_problem_and_the_rest_is_still_measured() {
    let project = in_order();
    write(&project.config().join("policy.yaml"), "version: 1\ngrants: [tool:read]\n");
    let code = assert_said!(&project, &["doctor"], @r#"
    problem  policy            …/config/depute/policy.yaml:2:1 `grants` is not a key of a policy
                               fix: did you mean `grant`?
    ok       runtime command   /bin/sh can be started
    ok       runtime scripted  …/depute can be started
    ok       policy file       …/config/depute/policy.yaml, uid ME, mode 0600
    ok       configuration     …/config/depute, uid ME, mode 0700
    ok       state             …/state/depute, uid ME, mode 0700
    ok       trust             …/shop is trusted: its definitions may be spawned
    ok       ledger            …/state/depute/projects/shop-KEY/ledger, its newest lines intact
    1 problem, N notes
    "#);
    assert_eq!(code, 82);
    // A named one goes before it, and has to be in order too.
    project.write("named.yaml", "version: 1\n");
    assert_eq!(problems(&project, &["--policy", "named.yaml"]).0, 82);
}

/// The same program on a kernel that says it has no Landlock; nothing where that cannot be made here.
fn without_landlock(project: &Project, args: &[&str]) -> Option<(i32, Value)> {
    let mut all = vec!["-f", "-qq", "-o", "/dev/null", "-e", "inject=landlock_create_ruleset:error=ENOSYS"];
    all.extend(["-e", "trace=landlock_create_ruleset", "depute", "--json"]);
    all.extend(args);
    let output = project.surround(std::process::Command::new("strace"), &all).output();
    let ran = super::project::ran(&output.ok()?);
    Some((ran.code, serde_json::from_str(&ran.stdout).ok()?))
}

#[test]
fn a_tier_that_the_machine_does_not_give_is_a_problem_as_the_planner_says_it() {
    let project = in_order();
    assert_eq!(problems(&project, &[]), (0, Vec::new()), "the control");
    let Some((exit, value)) = without_landlock(&project, &["doctor"]) else {
        println!("SKIPPED: strace is not here, so no kernel can be made to lack Landlock");
        return;
    };
    assert_eq!((exit, value["tier"].as_str()), (84, Some("0")), "{value}");
    let checks = value["checks"].as_array().unwrap();
    let problem = checks.iter().find(|check| check["state"] == "problem").unwrap();
    assert_eq!(
        problem["message"],
        "the policy demands tier K, and tier 0 is what holds on this machine: `landlock`: the kernel was built \
         without Landlock, so every grant is refused"
    );
    assert_eq!(
        problem["fix"],
        "get what the line on tier K below says is missing; or write `tier: 0` in the policy, if that is enough"
    );
    let (exit, planned) = without_landlock(&project, &["plan", "reader", "--task", "x"]).unwrap();
    assert_eq!((exit, planned["refusal"]["code"].as_str()), (84, Some("NOT_ENFORCEABLE")));
    let message = planned["refusal"]["message"].as_str().unwrap();
    assert!(problem["message"].as_str().unwrap().starts_with(message), "{message}");
    // What the operator accepts by name is planned, and says what holds.
    write(&project.config().join("policy.yaml"), format!("{IN_ORDER}tier: 0\n"));
    let (exit, planned) = without_landlock(&project, &["plan", "reader", "--task", "x"]).unwrap();
    assert_eq!((exit, planned["tier"].as_str()), (0, Some("0")), "{planned}");
    assert_eq!(planned["enforcement"][0]["by"], "runtime");
}

#[test]
fn a_ledger_that_would_be_refused_is_a_problem() {
    let project = in_order();
    let ledger = project.ledger();
    mode(&ledger, 0o755);
    let (exit, found) = problems(&project, &[]);
    assert_eq!(exit, 83);
    assert!(found[0].contains("is open to others (mode 0755), so it is refused; mend that"), "{found:?}");
    assert_eq!(project.run(&["run", "reader", "--task", "say x"]).code, 83, "and a run says the same");
    mode(&ledger, 0o700);
    assert_eq!(problems(&project, &[]), (0, Vec::new()));
    // A link is refused, whatever it leads to.
    let elsewhere = ledger.with_file_name("elsewhere");
    std::fs::rename(&ledger, &elsewhere).unwrap();
    symlink(&elsewhere, &ledger).unwrap();
    assert_eq!(problems(&project, &[]).0, 83);
    std::fs::remove_file(&ledger).unwrap();
    std::fs::rename(&elsewhere, &ledger).unwrap();
    // Damage is found.
    let segment = ledger.join("seg-00000000000000000000.jsonl");
    let text = std::fs::read_to_string(&segment).unwrap();
    std::fs::write(&segment, text.replacen("reader", "writer", 1)).unwrap();
    let (exit, found) = problems(&project, &[]);
    assert_eq!(exit, 83);
    assert!(found[0].ends_with("is damaged; `depute ledger verify` lists the damage"), "{found:?}");
    std::fs::write(&segment, text).unwrap();
    assert_eq!(problems(&project, &[]), (0, Vec::new()));
    // A file where the directory should be; a place inside the workspace is worth a note.
    project.write("file", "");
    assert_eq!(problems(&project, &["--ledger", "file"]).0, 83);
    let place = check(&project, &["--ledger", "inside"], "ledger place");
    assert!(place.starts_with("note inside lies inside the workspace"), "{place}");
}

#[test]
fn what_belongs_to_another_is_a_problem() {
    let project = in_order();
    let ledger = project.ledger();
    let me = std::fs::metadata(project.root()).unwrap().uid();
    let other = if me == 1 { 2 } else { 1 };
    if std::os::unix::fs::chown(&ledger, Some(other), None).is_err() {
        println!("skipped: 1 test, only root gives a directory away");
        return;
    }
    let (exit, found) = problems(&project, &[]);
    assert_eq!(exit, 83);
    assert!(found[0].contains(&format!("belongs to uid {other}")), "{found:?}");
    std::os::unix::fs::chown(&ledger, Some(me), None).unwrap();
    assert_eq!(problems(&project, &[]), (0, Vec::new()));
    let policy = project.config().join("policy.yaml");
    std::os::unix::fs::chown(&policy, Some(other), None).unwrap();
    let (exit, found) = problems(&project, &[]);
    assert_eq!(exit, 1);
    assert!(found[0].contains(&format!("can be changed by others: uid {other}")), "{found:?}");
}

#[test]
fn who_else_could_change_the_operators_places_is_said() {
    let project = in_order();
    let policy = project.config().join("policy.yaml");
    mode(&policy, 0o666);
    let (exit, found) = problems(&project, &[]);
    assert_eq!(exit, 1);
    assert!(found[0].starts_with("policy file: ") && found[0].contains("mode 0666"), "{found:?}");
    // Its group may be this user's alone.
    mode(&policy, 0o660);
    assert_eq!(problems(&project, &[]), (0, Vec::new()));
    assert!(check(&project, &[], "policy file").starts_with("note "));
    mode(&policy, 0o600);
    assert!(check(&project, &[], "policy file").starts_with("ok "));
    // Whoever writes in its directory replaces it.
    mode(&project.config(), 0o777);
    let (exit, found) = problems(&project, &[]);
    assert_eq!((exit, found.len()), (1, 2), "the file by its directory, and the directory: {found:?}");
    mode(&project.config(), 0o700);
    let state = project.root().join("../state/depute");
    mode(&state, 0o707);
    let (exit, found) = problems(&project, &[]);
    assert_eq!(exit, 1);
    assert!(found[0].starts_with("state: "), "{found:?}");
    mode(&state, 0o700);
    std::fs::write(state.join("trust.json"), "{").unwrap();
    let (exit, found) = problems(&project, &[]);
    assert_eq!(exit, 1);
    assert!(found[0].starts_with("trust: ") && found[0].contains("no directory is trusted"), "{found:?}");
}

#[test]
fn the_policys_own_runtime_has_to_be_one_that_starts() {
    let project = in_order();
    let default = |name: &str| {
        write(&project.config().join("policy.yaml"), IN_ORDER.replace("scripted", name));
        problems(&project, &[])
    };
    assert_eq!(default("command"), (0, Vec::new()), "positive control");
    let (exit, found) = default("nobody");
    assert_eq!((exit, found.len()), (82, 1), "{found:?}");
    let lab = include_str!("../../policies/runtimes/pi.yaml")
        .replace("runtime: pi", "runtime: lab")
        .replace("find: pi", "find: depute-test-lab");
    let profile = project.config().join("runtimes/lab.yaml");
    write(&profile, lab);
    let (exit, found) = default("lab");
    assert_eq!((exit, found.len()), (85, 1), "{found:?}");
    assert!(found[0].contains("it can only be planned yet; it is the policy's default"), "{found:?}");
    let (exit, found) = default("scripted");
    assert_eq!((exit, found), (0, Vec::new()), "what is no default is worth a note");
    assert!(check(&project, &[], "runtime lab").starts_with("note was not found: it is in none of "));
    std::fs::write(profile, "version: 1\n").unwrap();
    let (exit, found) = problems(&project, &[]);
    assert_eq!((exit, found.len()), (82, 1), "{found:?}");
}

#[test]
fn variables_are_named_and_never_shown() {
    let project = in_order();
    let run = |project: &Project| {
        let mut command = project.command(&["doctor", "--json"]);
        command.env("ANTHROPIC_API_KEY", "sk-secret");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let said = run(&project);
    assert!(said.contains("set here, and passed to no child: ANTHROPIC_API_KEY"), "{said}");
    assert!(said.contains("add `env: [ANTHROPIC_API_KEY]` to the policy"), "{said}");
    assert!(!said.contains("secret"), "{said}");
    write(&project.config().join("policy.yaml"), format!("{IN_ORDER}env: [ANTHROPIC_API_KEY, OTHER]\n"));
    let said = run(&project);
    assert!(!said.contains("passed to no child"), "{said}");
    assert!(said.contains("passed by the policy, and not set here: OTHER"), "{said}");
}

#[test]
fn a_root_that_keeps_names_away_is_a_problem() {
    let project = in_order();
    std::fs::create_dir(project.home().join(".codex")).unwrap();
    symlink("away", project.home().join(".codex/skills")).unwrap();
    let (exit, found) = problems(&project, &[]);
    assert_eq!((exit, found.len()), (82, 1), "{found:?}");
    assert!(found[0].contains(".codex/skills"), "{found:?}");
    let (_, planned) = project.json(&["plan", "reader", "--task", "x"]);
    assert_eq!(planned["refusal"]["code"], "DEFINITION_UNREADABLE");
}

#[test]
fn the_first_problem_says_how_it_ends() {
    let project = in_order();
    mode(&project.ledger(), 0o755);
    mode(&project.config(), 0o777);
    assert_eq!(problems(&project, &[]).0, 1);
    if let Some((exit, _)) = without_landlock(&project, &["doctor"]) {
        assert_eq!(exit, 84);
    }
    write(&project.config().join("policy.yaml"), "version: 2\n");
    assert_eq!(problems(&project, &[]).0, 82);
}

#[test]
fn what_the_machine_offers_is_tried_and_said() {
    let project = Project::new();
    let (_, value) = project.json(&["doctor"]);
    let checks = value["checks"].as_array().unwrap();
    let said = |name: &str| {
        let check = checks.iter().find(|check| check["name"] == name).unwrap();
        (check["state"].as_str().unwrap(), check["message"].as_str().unwrap().to_owned())
    };
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(said("kernel").1.contains(release.trim_end()));
    // Each tier that holds says so, and the strongest of them is the machine's.
    let holding: Vec<&str> = ["K", "N", "C"]
        .into_iter()
        .filter(|tier| {
            let (state, message) = said(&format!("tier {tier}"));
            assert_eq!(state == "ok", message.starts_with("holds here"), "{message}");
            state == "ok"
        })
        .collect();
    let strongest = holding.last().copied();
    assert!(strongest == value["tier"].as_str() || (strongest.is_none() && value["tier"] != "K"), "{value}");
    let git = said("git").1;
    assert!(git.starts_with('/') || git.starts_with("not found"), "{git}");
}
