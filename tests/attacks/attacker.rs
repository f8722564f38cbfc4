//! The attacker: what a task names is tried, one step after the other, and what came of each is said.
//!
//! The same code runs in a cage and, as the control, outside of one.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use serde_json::{Value, json};

use super::{ending, files, kernel, network, processes, programs, raw};

/// What came of a step: what was got, or why not, by the name of the error.
pub(crate) type Tried = Result<Value, String>;

/// A step's code.
pub(crate) type Attack = fn(&Value) -> Tried;

/// One step of a task.
pub(crate) fn step(attack: &str, mut arguments: Value) -> Value {
    arguments["attack"] = json!(attack);
    arguments
}

/// Tries every step of a task.
pub(crate) fn main(mut from: impl Read) {
    let mut task = String::new();
    from.read_to_string(&mut task).expect("a task");
    let steps: Vec<Value> = serde_json::from_str(&task).expect("a list of steps");
    for step in &steps {
        say(&attempt(step));
    }
}

pub(crate) fn attempt(step: &Value) -> Value {
    let name = text(step, "attack");
    let tables = [
        files::ATTACKS,
        network::ATTACKS,
        processes::ATTACKS,
        programs::ATTACKS,
        ending::ATTACKS,
        kernel::ATTACKS,
    ];
    let found = tables.iter().flat_map(|table| table.iter()).find(|(known, _)| *known == name);
    let (_, attack) = found.unwrap_or_else(|| panic!("no attack is called {name}"));
    match attack(step) {
        Ok(got) => json!({"attack": name, "ok": got}),
        Err(error) => json!({"attack": name, "err": error}),
    }
}

/// One line, at once: what comes after it may end this process.
fn say(answer: &Value) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{answer}");
    let _ = out.flush();
}

/// An argument that is text.
pub(crate) fn text<'a>(step: &'a Value, key: &str) -> &'a str {
    step[key].as_str().unwrap_or_else(|| panic!("{step} has no {key}"))
}

/// An argument that is a number.
pub(crate) fn number(step: &Value, key: &str) -> i64 {
    step[key].as_i64().unwrap_or_else(|| panic!("{step} has no {key}"))
}

/// An error by its name.
pub(crate) fn why(error: impl Into<std::io::Error>) -> String {
    let error = error.into();
    error.raw_os_error().map_or_else(|| error.to_string(), |code| format!("{:?}", Errno::from_raw(code)))
}

/// Tries this in a process of its own: it may be ended for it, or be another one afterwards.
pub(crate) fn apart(tries: impl FnOnce() -> Tried) -> Tried {
    let (mut answer, said) = std::io::pipe().map_err(why)?;
    let child = raw::fork(|| {
        let tried = match tries() {
            Ok(got) => json!({"ok": got}),
            Err(error) => json!({"err": error}),
        };
        let _ = (&said).write_all(tried.to_string().as_bytes());
        0
    });
    drop(said);
    let mut text = String::new();
    // A child that became another program has closed its end.
    answer.read_to_string(&mut text).map_err(why)?;
    let ended = waitpid(child.map_err(why)?, None).map_err(why)?;
    let Ok(value) = serde_json::from_str::<Value>(&text) else {
        return match ended {
            WaitStatus::Exited(_, 0) => Ok(json!("it ran")),
            other => Err(format!("{other:?}")),
        };
    };
    match value.get("ok") {
        Some(got) => Ok(got.clone()),
        None => Err(text_of(&value["err"])),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Waits until this holds, without end in view only as long as something is clearly wrong.
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    const LONGEST: Duration = Duration::from_secs(20);
    let since = Instant::now();
    while !holds() {
        if since.elapsed() > LONGEST {
            return false;
        }
        nap();
    }
    true
}

/// A moment in which others get the processor.
pub(crate) fn nap() {
    std::thread::sleep(Duration::from_millis(2));
}

/// Whether a file, which the other side writes, is there with an end of line.
pub(crate) fn awaited(path: &Path) -> Option<String> {
    let mut text = String::new();
    eventually(|| {
        text = std::fs::read_to_string(path).unwrap_or_default();
        text.ends_with('\n')
    })
    .then(|| text.trim_end().to_owned())
}

/// Writes all of it to a descriptor.
pub(crate) fn pour(into: impl AsFd, bytes: &[u8]) -> Result<(), String> {
    let written = nix::unistd::write(into, bytes).map_err(why)?;
    if written == bytes.len() { Ok(()) } else { Err("only a part was taken".to_owned()) }
}
