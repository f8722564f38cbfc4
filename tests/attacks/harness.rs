//! What every row is tried with: a project of its own, the program run in it, and those who only stand by.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};

use super::attacker::eventually;

/// What came of a row: why it could not be tried, where it could not. Who fails panics.
pub(crate) type Outcome = Result<(), String>;

/// Where and how a row is tried.
pub(crate) struct Lab {
    /// The tier that must hold.
    pub(crate) tier: &'static str,
    /// The program under test, where this user may run it.
    pub(crate) depute: PathBuf,
    /// This binary, where this user and a node may run it.
    pub(crate) attacker: PathBuf,
}

/// A project with surroundings of its own.
pub(crate) struct Place<'l> {
    pub(crate) lab: &'l Lab,
    scratch: tempfile::TempDir,
}

impl Lab {
    /// Why this tier cannot be had here; nothing where it can.
    pub(crate) fn lacks(&self) -> Option<String> {
        const NOT_ENFORCEABLE: i32 = 84;
        let ran = self.place().node("Read").run(&[]);
        (ran.code == NOT_ENFORCEABLE).then(|| {
            let message = |of: &str| ran.value[of]["message"].as_str().map(str::to_owned);
            let why =
                message("refusal").or_else(|| message("outcome")).unwrap_or_else(|| ran.value.to_string());
            format!("tier {} is not here: {why}", self.tier)
        })
    }

    pub(crate) fn place(&self) -> Place<'_> {
        let scratch = tempfile::tempdir().unwrap();
        for dir in ["shop/.git", "outside", "home", "config", "state"] {
            fs::DirBuilder::new().recursive(true).mode(0o755).create(scratch.path().join(dir)).unwrap();
        }
        Place { lab: self, scratch }
    }
}

impl Place<'_> {
    /// The workspace.
    pub(crate) fn root(&self) -> PathBuf {
        self.beside("shop")
    }

    /// A place beside the workspace, which no node is granted.
    pub(crate) fn beside(&self, path: &str) -> PathBuf {
        self.scratch.path().canonicalize().unwrap().join(path)
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.beside("ledger")
    }

    /// Writes a file of the workspace.
    pub(crate) fn write(&self, path: &str, content: &str) -> &Self {
        put(&self.root().join(path), content);
        self
    }

    /// Writes a file that no node is granted.
    pub(crate) fn outside(&self, path: &str, content: &str) -> &Self {
        put(&self.beside("outside").join(path), content);
        self
    }

    /// A node with these tools.
    pub(crate) fn node(&self, tools: &str) -> Node<'_> {
        Node {
            place: self,
            tools: tools.to_owned(),
            tier: self.lab.tier,
            policy: String::new(),
            cage: String::new(),
            run: vec![self.lab.attacker.clone()],
        }
    }

    /// The control: the same steps, outside of any cage.
    pub(crate) fn outside_of_the_cage(&self, steps: &[Value]) -> Ran {
        let mut command = self.surround(Command::new(&self.lab.attacker));
        command.arg("--attack").env("TMPDIR", self.beside("home"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(json!(steps).to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ran::of(output.status.code().unwrap_or(-1), Value::Null, text)
    }

    /// The program under test.
    pub(crate) fn depute(&self, arguments: &[&str]) -> Command {
        let mut command = self.surround(Command::new(&self.lab.depute));
        command.arg("--ledger").arg(self.ledger()).args(arguments);
        command
    }

    pub(crate) fn surround(&self, mut command: Command) -> Command {
        command.current_dir(self.root()).stdin(Stdio::null()).env_clear();
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.beside("home"))
            .env("XDG_CONFIG_HOME", self.beside("config"))
            .env("XDG_STATE_HOME", self.beside("state"));
        command
    }

    /// The records of the ledger.
    pub(crate) fn records(&self) -> Vec<Value> {
        let shown = self.depute(&["ledger", "show", "--json"]).output().unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Their kinds.
    pub(crate) fn kinds(&self) -> Vec<String> {
        self.records().iter().map(|record| record["kind"].as_str().unwrap().to_owned()).collect()
    }

    /// What the check of the ledger ends with.
    pub(crate) fn verified(&self) -> i32 {
        self.depute(&["ledger", "verify"]).output().unwrap().status.code().unwrap()
    }
}

fn put(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A node that is to be started: its program is the attacker.
pub(crate) struct Node<'p> {
    place: &'p Place<'p>,
    tools: String,
    tier: &'static str,
    policy: String,
    cage: String,
    run: Vec<PathBuf>,
}

impl Node<'_> {
    /// A line of the policy besides.
    pub(crate) fn policy(mut self, line: &str) -> Self {
        self.policy = format!("{}{line}\n", self.policy);
        self
    }

    /// What the attacker's profile says that it needs of a cage.
    pub(crate) fn cage(mut self, needs: &str) -> Self {
        self.cage = format!("cage: {{{needs}}}\n");
        self
    }

    /// Another tier than the row's.
    pub(crate) fn tier(mut self, tier: &'static str) -> Self {
        self.tier = tier;
        self
    }

    /// Programs that may be run, instead of the attacker alone.
    pub(crate) fn runs(mut self, programs: &[&Path]) -> Self {
        self.run = programs.iter().map(|path| (*path).to_owned()).collect();
        self
    }

    /// Puts everything in its place, and names the arguments that start it.
    pub(crate) fn arguments(&self, steps: &[Value]) -> Vec<String> {
        let place = self.place;
        place.write(
            ".claude/skills/attacker/SKILL.md",
            &format!(
                "---\nname: attacker\ndescription: for a test\nallowed-tools: {}\n---\nDo it.\n",
                self.tools
            ),
        );
        put(
            &place.beside("config/depute/runtimes/attacking.yaml"),
            &format!(
                "version: 1\nruntime: attacking\nabout: an attacker\nfind: {}\nprobe: []\nversions: null\n\
                 tools:\n  read: {{native: read, files: whole-disk}}\n  write: {{native: write, files: whole-disk}}\n\
                 \x20 bash: {{native: bash, runs_programs: true}}\n  web_fetch: {{native: web_fetch}}\n\
                 allowlist: nothing\nargv:\n  - [--attack]\nenv: {{}}\nkeys: []\nconfig_files: []\nbody: unused\n\
                 task: stdin\nmodel: none\nmcp: null\noutput: text\nattestation: null\nusage: null\nexit: code\n\
                 cannot: {{}}\n{}",
                place.lab.attacker.display(),
                self.cage
            ),
        );
        let run: Vec<String> = self.run.iter().map(|path| path.display().to_string()).collect();
        let exec =
            if run.is_empty() { String::new() } else { format!("paths: {{exec: [{}]}}\n", run.join(", ")) };
        put(
            &place.beside("policy.yaml"),
            &format!(
                "version: 1\ntier: {}\ngrant: [tool:read, tool:write, tool:bash, tool:web_fetch, agent:*]\n\
                 runtime: {{default: attacking}}\n{exec}{}",
                self.tier, self.policy
            ),
        );
        put(&place.beside("task.json"), &json!(steps).to_string());
        let [policy, task] =
            ["policy.yaml", "task.json"].map(|name| place.beside(name).display().to_string());
        ["--policy", &policy, "run", "attacker", "--trust-workspace", "--task-file", &task, "--json"]
            .map(str::to_owned)
            .to_vec()
    }

    /// The command that starts it.
    pub(crate) fn command(&self, steps: &[Value]) -> Command {
        let arguments = self.arguments(steps);
        self.place.depute(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Starts it, and leaves it running.
    pub(crate) fn start(&self, steps: &[Value]) -> Child {
        self.command(steps).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(&self, steps: &[Value]) -> Ran {
        let ran = finish(self.start(steps));
        let is_whole = ran.code != 0 || ran.answers.len() == steps.len();
        assert!(is_whole, "every step was tried: {} {}", ran.value, ran.output);
        ran
    }
}

/// Waits for the end of a run.
pub(crate) fn finish(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    // What says how it ended; the rest is the plan.
    let value = match printed {
        Value::Null => json!({"said": stderr}),
        printed => json!({"outcome": printed["outcome"], "refusal": printed["refusal"]}),
    };
    let text = value["outcome"]["output"]["text"].as_str().unwrap_or_default().to_owned();
    let mut ran = Ran::of(output.status.code().unwrap_or(-1), value, text);
    ran.stderr = stderr;
    ran
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    /// What the program printed, as JSON.
    pub(crate) value: Value,
    /// What the attacker answered, as it is.
    pub(crate) output: String,
    /// The same, one value a step.
    pub(crate) answers: Vec<Value>,
    pub(crate) stderr: String,
}

impl Ran {
    fn of(code: i32, value: Value, output: String) -> Self {
        let answers = output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Self { code, value, output, answers, stderr: String::new() }
    }

    #[track_caller]
    fn answer(&self, attack: &str) -> &Value {
        let found = self.answers.iter().find(|answer| answer["attack"] == attack);
        found.unwrap_or_else(|| {
            panic!("`{attack}` was not tried: {} {} {}", self.code, self.value, self.output)
        })
    }

    /// What the first step of this name got; null where it failed.
    #[track_caller]
    pub(crate) fn got(&self, attack: &str) -> Value {
        self.answer(attack)["ok"].clone()
    }

    /// Why the first step of this name failed.
    #[track_caller]
    pub(crate) fn error(&self, attack: &str) -> Option<String> {
        self.answer(attack)["err"].as_str().map(str::to_owned)
    }

    /// A control in which something did not work shows nothing.
    #[track_caller]
    pub(crate) fn all_work(&self) {
        assert!(!self.answers.is_empty(), "nothing was tried: {} {}", self.code, self.output);
        for answer in &self.answers {
            assert!(answer.get("err").is_none(), "outside of a cage this has to work: {answer}");
        }
    }

    /// Whatever was tried was denied, but for the attack of this name.
    #[track_caller]
    pub(crate) fn none_works_but(&self, but: &str) {
        assert_eq!(self.code, 0, "it was through: {} {}", self.value, self.stderr);
        assert!(!self.answers.is_empty(), "nothing was tried: {} {}", self.code, self.value);
        for answer in self.answers.iter().filter(|answer| answer["attack"] != but) {
            assert!(answer.get("ok").is_none(), "this must not work in a cage: {answer}");
        }
    }
}

/// A process of this user that does nothing, lets itself be traced, and holds a secret.
pub(crate) struct Bystander {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Its process.
    pub(crate) pid: i32,
    /// The descriptor of a file with its secret.
    pub(crate) descriptor: i64,
    /// Where its secret lies in memory.
    pub(crate) address: u64,
}

/// What only the bystander knows.
pub(crate) const SECRET: &str = "hush, the bystander's own secret";

impl Bystander {
    pub(crate) fn start(place: &Place<'_>) -> Self {
        let mut command = place.surround(Command::new(&place.lab.attacker));
        command.arg("--bystander").env("SECRET", SECRET).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        Self {
            stdin: child.stdin.take(),
            pid: i32::try_from(child.id()).unwrap(),
            child,
            descriptor: said["descriptor"].as_i64().unwrap(),
            address: said["address"].as_u64().unwrap(),
        }
    }

    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The number of a signal that waits to be delivered to it, for each such one: it blocks them all.
    pub(crate) fn signals(&self) -> Vec<u32> {
        let mask = |name| u64::from_str_radix(&status(self.pid, name).unwrap(), 16).unwrap();
        let waiting = mask("ShdPnd") | mask("SigPnd");
        (1..=64).filter(|signal| waiting & (1 << (signal - 1)) != 0).collect()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A bystander's life: until its standard input ends.
pub(crate) fn stand_by() {
    nix::sys::signal::SigSet::all().thread_block().unwrap();
    super::processes::allow_tracing();
    let secret = std::env::var("SECRET").unwrap().into_bytes();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&secret).unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    let address = secret.as_ptr() as u64;
    let mut out = std::io::stdout();
    writeln!(out, "{}", json!({"descriptor": descriptor, "address": address})).unwrap();
    out.flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
    // Still there for whoever looked meanwhile.
    drop((file, secret));
}

/// A line of `/proc/PID/status`.
pub(crate) fn status(pid: i32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// The processes whose parent this is.
pub(crate) fn children_of(pid: u32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|child| status(*child, "PPid") == Some(pid.to_string())).collect()
}

/// Waits for a condition, and fails where it does not come.
#[track_caller]
pub(crate) fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    assert!(eventually(holds), "{what}: it never came");
}
