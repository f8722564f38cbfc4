//! Children that run: what they get, what they do not, and how they end.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::project::{Project, ran, why};

/// A policy that lets a shell run, in a cage.
const SHELL: &str = "\
version: 1
grant: [tool:bash, agent:*]
runtime: {default: command}
";

fn shell() -> Project {
    let project = Project::new();
    project.skill("worker", "Bash").write("policy.yaml", SHELL);
    project
}

const RUN: [&str; 5] = ["--policy", "policy.yaml", "run", "worker", "--trust-workspace"];

fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args: Vec<&str> = RUN.to_vec();
    args.extend(more);
    args
}

#[test]
fn the_demo_shows_a_grant_a_refusal_and_a_ledger_that_verifies() {
    let project = Project::new();
    let scratch = tempfile::tempdir().unwrap();
    let output = project.command(&["demo"]).env("TMPDIR", scratch.path()).output().unwrap();
    let demo = ran(&output);
    assert_eq!(demo.code, 0, "{}{}", demo.stdout, demo.stderr);
    for line in [
        "allowed-tools: Read, Grep",
        "use          tool:grep, tool:read",
        "denied  write README.txt",
        "failed  raw_open write README.txt: Permission denied",
        "files        as they were",
        "network      nobody connected",
        "CAPABILITY_ESCALATION",
        "`--use tool:read` would pass now",
        "intact",
        "1 granted, 0 held, 1 refused",
        "2 by its own list of tools and 3 by the kernel were stopped",
    ] {
        assert!(demo.stdout.contains(line), "`{line}` is not in\n{}", demo.stdout);
    }
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "the demo leaves nothing behind");
}

#[test]
fn a_child_gets_its_tools_and_no_more() {
    let project = Project::new();
    project.skill("reader", "Read").write("in.txt", "before").write(
        "policy.yaml",
        "version: 1\ngrant: [tool:read, tool:write, agent:*]\nruntime: {default: scripted}\n",
    );
    let steps = "read in.txt\nwrite in.txt after\nread ../outside\n";
    project.write("../outside", "secret");
    let narrow =
        project.run(&["--policy", "policy.yaml", "run", "reader", "--trust-workspace", "--task", steps]);
    assert_eq!(narrow.code, 0, "{}", narrow.stderr);
    assert!(narrow.stdout.contains("ok      read in.txt: 6 bytes"), "{}", narrow.stdout);
    assert!(narrow.stdout.contains("denied  write in.txt"), "{}", narrow.stdout);
    assert!(narrow.stdout.contains("failed  read ../outside"), "{}", narrow.stdout);
    assert_eq!(std::fs::read_to_string(project.root().join("in.txt")).unwrap(), "before");
    // The same steps with the tool granted do write.
    project.skill("writer", "Read, Write");
    let wide =
        project.run(&["--policy", "policy.yaml", "run", "writer", "--trust-workspace", "--task", steps]);
    assert!(wide.stdout.contains("ok      write in.txt"), "{}", wide.stdout);
    assert_eq!(std::fs::read_to_string(project.root().join("in.txt")).unwrap(), "after\n");
}

#[test]
fn a_path_scope_bounds_the_tool_that_it_narrows() {
    let project = Project::new();
    project
        .skill("scribe", "Write(notes/**)")
        .write("notes/.keep", "")
        .write("policy.yaml", "version: 1\ngrant: [tool:write, agent:*]\nruntime: {default: scripted}\n");
    let ran = project.run(&[
        "--policy",
        "policy.yaml",
        "run",
        "scribe",
        "--trust-workspace",
        "--task",
        "write notes/a.md yes\nwrite a.md no\nwrite notes/../b.md no",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(project.root().join("notes/a.md").exists(), "{}", ran.stdout);
    assert!(!project.root().join("a.md").exists());
    assert!(!project.root().join("b.md").exists());
}

#[test]
fn raw_steps_ignore_the_allowlist_and_the_kernel_stops_them() {
    let project = Project::new();
    project.skill("reader", "Read");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let steps = format!(
        "write tool.txt x\nraw_open write raw.txt\nraw_exec /bin/touch exec.txt\nraw_connect {}\n",
        listener.local_addr().unwrap()
    );
    let run = |tier: &str| {
        project.write(
            "policy.yaml",
            format!(
                "version: 1\ngrant: [tool:read, agent:*]\nruntime: {{default: scripted}}\ntier: {tier}\n"
            ),
        );
        let args = ["--policy", "policy.yaml", "run", "reader", "--trust-workspace", "--task", &steps];
        let (code, value) = project.json(&args);
        assert_eq!((code, value["tier"].as_str()), (0, Some(tier)));
        assert!(!project.root().join("tool.txt").exists());
        value["enforcement"][0]["by"].as_str().unwrap().to_owned()
    };
    let there = |file: &str| project.root().join(file).exists();
    assert_eq!(run("K"), "kernel");
    assert!(!there("raw.txt") && !there("exec.txt"));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err());
    // The control: the same steps without a cage, where the record claims no more than holds.
    assert_eq!(run("0"), "runtime");
    assert!(there("raw.txt") && there("exec.txt"));
    listener.set_nonblocking(false).unwrap();
    assert!(listener.accept().is_ok());
}

#[test]
fn the_environment_is_built_from_nothing() {
    let project = shell();
    let secret = |policy: &str| {
        project.write("policy.yaml", policy);
        let output = project
            .command(&run(&["--task", "env"]))
            .env("SECRET_TOKEN", "hunter2")
            .env("LD_PRELOAD_X", "x")
            .output()
            .unwrap();
        ran(&output)
    };
    let without = secret(SHELL);
    let mut names: Vec<&str> =
        without.stdout.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    // The shell itself sets PWD.
    assert_eq!(
        names,
        [
            "DEPUTE_NODE",
            "HOME",
            "LANG",
            "PATH",
            "PWD",
            "PYTHONDONTWRITEBYTECODE",
            "TERM",
            "TMPDIR",
            "XDG_CONFIG_HOME"
        ]
    );
    let with = secret(&format!("{SHELL}env: [SECRET_TOKEN]\n"));
    assert!(with.stdout.contains("SECRET_TOKEN=hunter2"), "{}", with.stdout);
    // The name is recorded, the value is not.
    let ledger = every_byte_below(&project.ledger());
    assert!(ledger.contains("SECRET_TOKEN"));
    assert!(!ledger.contains("hunter2"));
}

#[test]
fn private_directories_are_private_and_gone_afterwards() {
    let project = shell();
    let ran = project.run(&run(&["--task", "stat -c '%a %n' $HOME $TMPDIR $HOME/..; echo x > $HOME/left"]));
    let modes: Vec<&str> =
        ran.stdout.lines().filter_map(|line| line.split_once(' ')).map(|(mode, _)| mode).collect();
    assert_eq!(modes, ["700", "700", "700"], "{}", ran.stdout);
    let home = ran.stdout.lines().next().unwrap().split_once(' ').unwrap().1;
    assert!(!std::path::Path::new(home).exists());
}

#[test]
fn a_task_is_input_and_never_an_argument() {
    let project = shell();
    for task in ["-n", "--help", "@policy.yaml", "/bin/true", "$(touch pwned)x", "echo 'a b'; exit 7"] {
        let (_, value) = project.json(&run(&["--task", task]));
        assert_eq!(value["argv"], serde_json::json!(["/bin/sh", "-c", "eval \"$(cat)\""]), "{task}");
    }
    // It does reach the child, whole.
    let mut big = "#".repeat(10 * 1024 * 1024);
    big.push_str("\necho whole; exit 7\n");
    project.write("task", big);
    let ran = project.run(&run(&["--task-file", "task"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (7, "whole\n"), "{}", ran.stderr);
    // What the command starts finds no task on its own input.
    let ran = project.run(&run(&["--task", "cat; echo end"]));
    assert_eq!(ran.stdout, "end\n");
}

#[test]
fn neither_task_nor_answer_nor_talk_is_on_the_ledger() {
    let project = shell();
    let ran = project.run(&run(&["--task", "echo ans$((40+2))wer; echo ta$((40+2))lk >&2 # tasktext"]));
    assert_eq!(ran.stdout, "ans42wer\n");
    assert!(ran.stderr.contains("| ta42lk"));
    let ledger = every_byte_below(&project.ledger());
    for text in ["tasktext", "ans42wer", "ta42lk"] {
        assert!(!ledger.contains(text), "{text}");
    }
    assert!(ledger.contains("hmac-sha256:"));
}

#[test]
fn a_childs_end_is_told_and_recorded() {
    let project = shell();
    let mut whys = String::new();
    for (task, code, ending, recorded) in [
        ("exit 0", 0, "exited", "exited"),
        ("exit 3", 3, "exited", "exited"),
        ("kill -9 $$", 137, "signalled", "signalled"),
    ] {
        let (found, value) = project.json(&run(&["--task", task]));
        assert_eq!((found, value["outcome"]["ending"].as_str()), (code, Some(ending)), "{task}");
        let records = project.records(&project.ledger());
        let exit = records.iter().rev().find(|record| record["kind"] == "exit").unwrap();
        assert_eq!(exit["body"]["outcome"], recorded, "{task}");
        whys += &format!("{}\n", why(&value));
    }
    insta::assert_snapshot!(whys, @r"
    nothing nothing; nothing
    CHILD_EXIT_NONZERO exited with 3; read its answer with `depute output`
    CHILD_EXIT_NONZERO ended by signal 9; read its answer with `depute output`
    ");
}

#[test]
fn a_deadline_ends_the_whole_group() {
    let project = shell();
    // A child that ignores the polite signal, with another in its group that would write later.
    let pipe = Alive::new(&project);
    let task = "trap '' TERM; (trap '' TERM; exec 3<>alive; while :; do sleep 1; done) & exec 3<>alive; while :; do sleep 1; done";
    let (code, value) = project.json(&run(&["--task", task, "--deadline", "300ms"]));
    assert_eq!(code, 85);
    insta::assert_snapshot!(why(&value), @"CHILD_TIMED_OUT still running at its deadline, and was ended; give it more time with `--deadline`, or less to do");
    assert!(!pipe.is_held());
}

#[test]
fn what_a_child_leaves_behind_ends_with_it_and_its_answer_is_kept() {
    let project = shell();
    let pipe = Alive::new(&project);
    // One in the child's group, one in a session of its own that holds the answer's pipe open.
    let left = "(exec 3<>alive; while :; do sleep 1; done) & setsid sh -c 'exec 3<>alive; echo up; while :; do sleep 1; done' & \
                while ! (exec 4>alive) 2>/dev/null; do :; done; echo done";
    let (code, value) = project.json(&run(&["--task", left]));
    assert_eq!(code, 0);
    assert!(value["outcome"]["output"]["text"].as_str().unwrap().contains("done\n"), "{value}");
    assert_eq!(value["outcome"]["output"]["truncated"], false);
    assert!(value["outcome"]["outlived"].as_u64().unwrap() >= 1, "{value}");
    assert!(!pipe.is_held());
}

#[test]
fn a_signal_to_the_broker_ends_its_child() {
    use nix::sys::signal::{Signal, kill};
    for signal in
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGALRM]
    {
        let project = shell();
        let pipe = Alive::new(&project);
        let mut command = project.command(&run(&[
            "--json",
            "--task",
            "exec 3<>alive; echo ready >&2; while :; do sleep 1; done",
        ]));
        let mut broker = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until_ready(&mut broker);
        assert!(pipe.is_held(), "the child is running");
        kill(nix::unistd::Pid::from_raw(broker.id() as i32), signal).unwrap();
        let ran = ran(&broker.wait_with_output().unwrap());
        let value: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let cancelled = "CHILD_CANCELLED ended on request; run it again, if it is still wanted";
        assert_eq!((ran.code, why(&value).as_str()), (85, cancelled), "{signal}");
        assert!(!pipe.is_held(), "{signal}");
    }
}

#[test]
fn a_broker_that_is_killed_takes_its_child_along() {
    let project = shell();
    let pipe = Alive::new(&project);
    let mut command = project.command(&run(&["--task", "exec 3<>alive; echo ready >&2; read x <alive"]));
    let mut broker = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_ready(&mut broker);
    assert!(pipe.is_held(), "the child is running");
    broker.kill().unwrap();
    broker.wait().unwrap();
    pipe.wait_until_let_go();
}

#[test]
fn a_child_inherits_no_descriptor_and_no_terminal() {
    let project = shell();
    project.write("secret", "hunter2");
    let through = |task: &str| {
        let script = format!(
            "exec 9<secret; cat <&9 >/dev/null && exec depute --policy policy.yaml run worker --trust-workspace --task '{task}'"
        );
        let pty = nix::pty::openpty(None, None).unwrap();
        let mut command =
            project.surround(Command::new("setsid"), &["--ctty", "--wait", "sh", "-c", &script]);
        let ran = ran(&command.stdin(Stdio::from(pty.slave)).output().unwrap());
        drop(pty.master);
        ran.stdout
    };
    // Positive control: the descriptor and the terminal are there for whoever asks.
    let mut control = project.surround(Command::new("sh"), &["-c", "exec 9<secret; cat <&9"]);
    assert_eq!(ran(&control.output().unwrap()).stdout, "hunter2");
    assert_eq!(through("cat <&9; echo end"), "end\n");
    assert_eq!(through("(echo x >/dev/tty) 2>/dev/null && echo terminal || echo none"), "none\n");
    let open = r#"for n in 3 4 5 6 7 8 9; do eval "(: <&$n)" 2>/dev/null && echo $n; done; echo end"#;
    assert_eq!(through(open), "end\n", "three, and no other");
}

#[test]
fn nobody_approves_from_inside_a_node() {
    let project = shell();
    // No cage gives a terminal to be lied to at, so without one.
    let uncaged = format!("{SHELL}tier: 0\naccept: [{{id: tool:bash, as: advisory, why: a test}}]\n");
    project.write("policy.yaml", &uncaged).write("gated.yaml", format!("{uncaged}gates: [tool:bash]\n"));
    let inner = "depute --policy gated.yaml run worker --trust-workspace --task \"touch started\"";
    for marker in ["", "env -u DEPUTE_NODE "] {
        let task = format!(
            "(echo y; sleep 1; echo y) | PATH=$PATH:{} script -qec '{marker}{inner}' /dev/null",
            super::project::binary_directory().display()
        );
        let ran = project.run(&run(&["--task", &task]));
        assert!(ran.stdout.contains("GATED_UNAPPROVED"), "{}{}", ran.stdout, ran.stderr);
        assert!(!project.root().join("started").exists());
    }
}

#[test]
fn a_ledger_that_fills_up_under_way_starts_nothing_unrecorded() {
    let mut ends = std::collections::BTreeMap::new();
    for room in (0..5200).step_by(200) {
        let project = shell();
        assert_eq!(project.run(&run(&["--task", "true"])).code, 0);
        let ledger = project.ledger();
        let segment = ledger.join("seg-00000000000000000000.jsonl");
        let limit = std::fs::metadata(&segment).unwrap().len() + room;
        let mut all =
            vec!["--wait".to_owned(), "prlimit".to_owned(), format!("--fsize={limit}"), "depute".to_owned()];
        all.extend(run(&["--task", "touch started"]).iter().map(ToString::to_string));
        let args: Vec<&str> = all.iter().map(String::as_str).collect();
        let ran = ran(&project.surround(Command::new("setsid"), &args).output().unwrap());
        assert!(ran.code == 83 || ran.code == 0, "{room}: {} {}", ran.code, ran.stderr);
        *ends.entry(ran.code).or_insert(0) += 1;
        let started = project.root().join("started").exists();
        let records = project.run(&["ledger", "show", "--json"]).stdout;
        assert!(
            !started || records.matches("\"kind\":\"spawned\"").count() == 2,
            "{room}: started, and not recorded"
        );
        assert!(ran.code == 83 || started);
    }
    println!("ledgers that filled up: {} refused, {} had room", ends[&83], ends[&0]);
}

#[test]
fn the_exit_code_does_not_depend_on_a_reader() {
    let project = shell();
    for (task, code) in [("exit 3", 3), ("exit 0", 0), ("", 82)] {
        let mut command = project.command(&run(&["--task", task]));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(command.stdout(writer).status().unwrap().code(), Some(code), "{task}");
    }
}

/// What a child says, and what is said about it, may find no reader: it is not worth a child without
/// its broker.
#[test]
fn talk_that_nobody_reads_ends_nothing() {
    let project = shell();
    let unheard = |args: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        project.command(args).stderr(writer).output().unwrap()
    };
    let task = "echo up >&2; echo down >&2; touch ended; echo done";
    let output = unheard(&run(&["--task", task]));
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"done\n".as_slice()));
    assert!(project.root().join("ended").exists());
    let records = project.records(&project.ledger());
    assert!(records.iter().any(|record| record["kind"] == "exit"), "its end is recorded: {records:?}");
    assert_eq!(unheard(&["check", "nothing-of-this-name"]).status.code(), Some(1));
    assert_eq!(unheard(&["--policy", "nowhere.yaml", "list"]).status.code(), Some(82));
    assert_eq!(unheard(&["no-such-command"]).status.code(), Some(2));
}

#[test]
fn malformed_ids_and_answers_are_on_the_ledger_as_keyed_digests_only() {
    let project = shell();
    project.run(&run(&["--use", "my password is hunter2", "--task", "x"]));
    project.run(&run(&["--task", "echo the answer"]));
    let ledger = every_byte_below(&project.ledger());
    assert!(!ledger.contains("hunter2"));
    assert!(ledger.contains("malformed:hmac-sha256:"));
    assert!(!ledger.contains(&depute_ledger::Digest::of(b"the answer\n").to_hex()));
}

/// A pipe that shows whether anybody has it open.
struct Alive {
    path: std::path::PathBuf,
}

impl Alive {
    fn new(project: &Project) -> Self {
        let path = project.root().join("alive");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        Self { path }
    }

    /// Opening it to write without waiting fails where nobody reads it.
    fn is_held(&self) -> bool {
        use nix::fcntl::{OFlag, open};
        open(&self.path, OFlag::O_WRONLY | OFlag::O_NONBLOCK, nix::sys::stat::Mode::empty()).is_ok()
    }

    /// Reads to the end, which comes when the last one that could write has gone.
    fn wait_until_let_go(&self) {
        use nix::fcntl::{OFlag, open};
        let reader =
            open(&self.path, OFlag::O_RDONLY | OFlag::O_NONBLOCK, nix::sys::stat::Mode::empty()).unwrap();
        let mut reader = std::fs::File::from(reader);
        nix::fcntl::fcntl(&reader, nix::fcntl::FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        reader.read_to_end(&mut Vec::new()).unwrap();
    }
}

/// Waits until the child has said that it is up.
fn until_ready(broker: &mut std::process::Child) {
    let mut said = Vec::new();
    let talk = broker.stderr.as_mut().unwrap();
    while !String::from_utf8_lossy(&said).contains("| ready") {
        let mut byte = [0];
        talk.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
    }
}

#[test]
fn an_answer_is_bounded_and_what_was_cut_is_said() {
    let project = shell();
    let (code, value) = project.json(&run(&["--task", "head -c 3000000 /dev/zero | tr '\\0' x"]));
    assert_eq!(code, 0);
    let output = &value["outcome"]["output"];
    assert_eq!((output["bytes"].as_u64(), output["truncated"].as_bool()), (Some(3_000_000), Some(true)));
    assert_eq!(output["text"].as_str().unwrap().len(), 1024 * 1024);
    let kept = std::fs::read(output["file"].as_str().unwrap()).unwrap();
    assert_eq!(kept.len(), 1024 * 1024);
    assert_eq!(output["digest"], depute_ledger::Digest::of(&kept).to_string());
}

#[test]
fn two_runs_at_once_are_both_recorded() {
    let project = shell();
    let children: Vec<_> = (0..8)
        .map(|n| {
            project
                .command(&run(&["--quiet", "--task", &format!("echo {n}")]))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut answers: Vec<String> =
        children.into_iter().map(|child| ran(&child.wait_with_output().unwrap()).stdout).collect();
    answers.sort();
    assert_eq!(answers.concat(), "0\n1\n2\n3\n4\n5\n6\n7\n");
    let report = depute_ledger::verify(&project.ledger(), &depute_ledger::VerifyOptions::new()).unwrap();
    assert!(report.is_intact());
    assert_eq!((report.semantics.granted, report.semantics.spawns), (8, 8));
    assert!(report.semantics.outcome_unknown.is_empty());
}

#[test]
fn a_gate_asks_at_the_terminal_and_nowhere_else() {
    let gated = format!("{SHELL}gates: [tool:bash]\n");
    let answer = |text: &str| {
        let project = shell();
        project.write("policy.yaml", &gated);
        let pty = nix::pty::openpty(None, None).unwrap();
        let mut all = vec!["--ctty", "--wait", env!("CARGO_BIN_EXE_depute")];
        let args = run(&["--task", "touch started"]);
        all.extend(args);
        let mut command = project.surround(Command::new("setsid"), &all);
        command.stdin(Stdio::from(pty.slave)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut terminal = std::fs::File::from(pty.master);
        // What is typed before the question is no answer to it.
        terminal.write_all(b"y\n").unwrap();
        let child = command.spawn().unwrap();
        drop(command);
        let mut shown = Vec::new();
        while !String::from_utf8_lossy(&shown).contains("[y/N] ") {
            let mut byte = [0];
            terminal.read_exact(&mut byte).unwrap();
            shown.push(byte[0]);
        }
        terminal.write_all(text.as_bytes()).unwrap();
        let ran = ran(&child.wait_with_output().unwrap());
        let records = project.records(&project.ledger());
        let approvals: Vec<serde_json::Value> =
            records.into_iter().filter(|record| record["kind"] == "approval").collect();
        (ran.code, project.root().join("started").exists(), approvals)
    };
    let (code, started, approvals) = answer("y\n");
    assert_eq!((code, started), (0, true));
    assert_eq!(approvals[0]["body"]["outcome"], "granted");
    assert_eq!(approvals[0]["body"]["scope"], "once");
    assert!(approvals[0]["body"]["plan"].as_str().unwrap().starts_with("sha256:"));
    for no in ["n\n", "\n", "yep\n"] {
        let (code, started, approvals) = answer(no);
        assert_eq!((code, started), (81, false), "{no:?}");
        assert_eq!(approvals[0]["body"]["outcome"], "denied");
    }
    // Without a terminal nobody is asked, whatever is on standard input.
    let project = shell();
    project.write("policy.yaml", &gated);
    let ran = project.run(&run(&["--task", "touch started"]));
    assert_eq!((ran.code, project.root().join("started").exists()), (81, false));
    assert!(ran.stdout.contains("GATED_UNAPPROVED"), "{}", ran.stdout);
}

#[test]
fn a_runtime_that_is_only_planned_is_not_started() {
    let project = Project::new();
    project.skill("reader", "Read").write("policy.yaml", "version: 1\ngrant: [tool:read, agent:*]\naccept: [{id: tool:read, as: advisory, why: a test}]\nruntime: {default: pi, model: mock/mock-model}\n");
    let args =
        |command| vec!["--policy", "policy.yaml", command, "reader", "--trust-workspace", "--task", "x"];
    assert_eq!(project.json(&args("plan")).0, 0);
    let (code, value) = project.json(&args("run"));
    assert_eq!(code, 85);
    insta::assert_snapshot!(why(&value), @"EXECUTOR_UNAVAILABLE the runtime `pi` can only be planned yet: its output, attestation and credentials are not read yet; name another runtime with `--runtime`, or install the program that is missing");
}

#[test]
fn talk_cannot_move_the_cursor() {
    let project = shell();
    let ran = project.run(&run(&["--task", "printf '\\033[2Jboo\\n' >&2"]));
    assert!(ran.stderr.contains("| \\u{1b}[2Jboo"), "{}", ran.stderr);
}

fn every_byte_below(dir: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&every_byte_below(&path));
        } else if path.file_name().unwrap() != "key" {
            text.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        }
    }
    text
}
