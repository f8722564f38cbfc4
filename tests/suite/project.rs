//! A project of its own for one test, and the program run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use depute::schema::Document;

/// A temporary project with home, configuration and state of its own.
pub(crate) struct Project {
    scratch: tempfile::TempDir,
}

/// What a run of the program gave.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Project {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let project = Self { scratch };
        for dir in ["shop/.git", "home", "config", "state"] {
            std::fs::create_dir_all(project.scratch.path().join(dir)).unwrap();
        }
        project
    }

    /// The project's directory.
    pub(crate) fn root(&self) -> PathBuf {
        self.scratch.path().join("shop")
    }

    /// The user's home.
    pub(crate) fn home(&self) -> PathBuf {
        self.scratch.path().join("home")
    }

    /// The operator's configuration.
    pub(crate) fn config(&self) -> PathBuf {
        self.scratch.path().join("config/depute")
    }

    /// The default ledger.
    pub(crate) fn ledger(&self) -> PathBuf {
        let projects = self.scratch.path().join("state/depute/projects");
        let only = std::fs::read_dir(projects).unwrap().next().unwrap().unwrap();
        only.path().join("ledger")
    }

    /// Writes a file of the project, with the directories above it.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        write(&self.root().join(path), content);
        self
    }

    /// A skill of the project.
    pub(crate) fn skill(&self, name: &str, tools: &str) -> &Self {
        self.write(
            &format!(".claude/skills/{name}/SKILL.md"),
            format!("---\nname: {name}\ndescription: for a test\nallowed-tools: {tools}\n---\nDo it.\n"),
        )
    }

    /// The program with this project's surroundings, and no controlling terminal.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.surround(Command::new(env!("CARGO_BIN_EXE_depute")), args)
    }

    pub(crate) fn surround(&self, mut command: Command, args: &[&str]) -> Command {
        command.args(args).current_dir(self.root()).stdin(Stdio::null()).env_clear();
        command
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", binary_directory().display()))
            .env("HOME", self.home())
            .env("XDG_CONFIG_HOME", self.scratch.path().join("config"))
            .env("XDG_STATE_HOME", self.scratch.path().join("state"));
        command
    }

    /// Runs the program to its end, without a terminal.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let mut all = vec!["--wait", env!("CARGO_BIN_EXE_depute")];
        all.extend(args);
        ran(&self.surround(Command::new("setsid"), &all).output().unwrap())
    }

    /// Runs it with `--json` and reads the objects that it prints, without a summary.
    pub(crate) fn json_lines(&self, args: &[&str]) -> (i32, Vec<serde_json::Value>) {
        let mut all = args.to_vec();
        all.push("--json");
        let ran = self.run(&all);
        let read = |line| serde_json::from_str::<serde_json::Value>(line);
        let values: Result<Vec<_>, _> = ran.stdout.lines().map(read).collect();
        let mut values = values.unwrap_or_else(|error| panic!("{error}: {}{}", ran.stdout, ran.stderr));
        values.retain(|value| value.get("summary").is_none());
        (ran.code, values)
    }

    /// The same where it prints one object.
    pub(crate) fn json(&self, args: &[&str]) -> (i32, serde_json::Value) {
        let (code, mut values) = self.json_lines(args);
        assert_eq!(values.len(), 1, "{args:?} prints one object: {values:?}");
        (code, values.remove(0))
    }

    /// The records of a ledger, as JSON.
    pub(crate) fn records(&self, ledger: &Path) -> Vec<serde_json::Value> {
        let ran = self.run(&["ledger", "show", "--json", ledger.to_str().unwrap()]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Why an outcome is no success: its code, its message and its fix.
pub(crate) fn why(value: &serde_json::Value) -> String {
    let text = |key: &str| value["outcome"][key].as_str().unwrap_or("nothing").to_owned();
    format!("{} {}; {}", text("code"), text("message"), text("fix"))
}

pub(crate) fn ran(output: &Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) {
    if path.extension().is_some_and(|extension| extension == "yaml") {
        let document = match path.parent().and_then(Path::file_name) {
            Some(parent) if parent == "runtimes" => Document::Runtime,
            Some(parent) if parent == ".depute" => Document::WorkspacePolicy,
            _ => Document::Policy,
        };
        super::schema::is_never_stricter(document, content.as_ref());
    }
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

pub(crate) fn binary_directory() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_depute")).parent().unwrap().to_owned()
}

/// Replaces what differs from run to run: digests, ids, times, and where the program is.
pub(crate) fn redacted(text: &str) -> String {
    let mut out = Vec::new();
    for line in text.trim_end().lines() {
        let line = line.replace(&binary_directory().display().to_string(), "…");

        let words: Vec<String> = line.split(' ').map(redacted_word).collect();
        let mut line = words.join(" ");
        for (before, after) in [("after ", " ms"), (" (", " bytes)")] {
            line = redact_number(&line, before, after);
        }
        out.push(line);
    }
    out.join("\n")
}

fn redacted_word(word: &str) -> String {
    let hex = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit());
    match word.split_once("sha256:") {
        Some((before, rest)) if rest.len() >= 64 && hex(&rest[..64], 64) => {
            format!("{before}sha256:…{}", &rest[64..])
        }
        _ if word.len() == 36 && hex(&word.replace('-', ""), 32) => "…".to_owned(),
        _ => word.to_owned(),
    }
}

fn redact_number(line: &str, before: &str, after: &str) -> String {
    let Some((head, tail)) = line.rsplit_once(after) else { return line.to_owned() };
    let Some(start) = head.rfind(before).map(|at| at + before.len()) else { return line.to_owned() };
    if head[start..].bytes().all(|b| b.is_ascii_digit()) {
        format!("{}…{after}{tail}", &head[..start])
    } else {
        line.to_owned()
    }
}
