//! Attacks by starting programs: ones that are not listed, by every road, and this program itself.

use std::ffi::{CStr, CString};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::{execve, execveat};
use serde_json::{Value, json};

use super::attacker::{Attack, Tried, apart, step, text, why};
use super::harness::{Lab, Outcome, Place};
use super::raw::{Arg, call};

pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("copy", copy),
    ("start", start),
    ("shell", |step| {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(text(step, "script")).stdin(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(why)?;
        Ok(status.code().into())
    }),
];

/// A path that may begin in the node's own directory for temporary files.
fn path(step: &Value, key: &str) -> PathBuf {
    let tmp = || std::env::var("TMPDIR").expect("a place for temporary files");
    let text = text(step, key);
    text.strip_prefix("TMPDIR/").map_or_else(|| text.into(), |rest| Path::new(&tmp()).join(rest))
}

/// Copies a program. Its mode is given when the file is made, since modes may not be changed.
fn copy(step: &Value) -> Tried {
    let mut bytes = Vec::new();
    fs::File::open(path(step, "path")).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(why)?;
    let mut options = fs::OpenOptions::new();
    let made = options.write(true).create(true).truncate(true).mode(0o755).open(path(step, "to"));
    made.and_then(|mut file| file.write_all(&bytes)).map(|()| json!("copied")).map_err(why)
}

/// Every way to start a program.
const ROADS: [&str; 8] = [
    "execve",
    "execveat",
    "an open file",
    "a file in memory",
    "the loader",
    "a script",
    "the standard library",
    "calls of x32",
];

/// Has a program leave a mark, by one road. Whether the mark is there is what counts.
fn start(step: &Value) -> Tried {
    let (program, mark) = (path(step, "path"), path(step, "mark"));
    let _ = fs::remove_file(&mark);
    let road = text(step, "by").to_owned();
    let tried = apart(|| by(&road, &program, &mark));
    if mark.exists() {
        Ok(json!("it ran"))
    } else {
        Err(tried.err().unwrap_or_else(|| "nothing ran".to_owned()))
    }
}

fn by(road: &str, program: &Path, mark: &Path) -> Tried {
    let text = |path: &Path| CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    let (name, place) = (text(program), text(mark));
    let arguments: [&CStr; 3] = [&name, c"--mark", &place];
    let nothing: [&CStr; 0] = [];
    let error = match road {
        "execve" => execve(&name, &arguments, &nothing).map_err(why),
        "execveat" => {
            let here = nix::fcntl::AT_FDCWD;
            execveat(here, &name, &arguments, &nothing, nix::fcntl::AtFlags::empty()).map_err(why)
        }
        "an open file" => {
            let file = fs::File::open(program).map_err(why)?;
            execveat(&file, c"", &arguments, &nothing, nix::fcntl::AtFlags::AT_EMPTY_PATH).map_err(why)
        }
        "a file in memory" => {
            let memory = memfd_create(c"memory", MFdFlags::MFD_CLOEXEC).map_err(why)?;
            let mut file = fs::File::from(memory);
            file.write_all(&fs::read(program).map_err(why)?).map_err(why)?;
            execveat(&file, c"", &arguments, &nothing, nix::fcntl::AtFlags::AT_EMPTY_PATH).map_err(why)
        }
        "the loader" => {
            let loader = loader().ok_or("no loader is known here")?;
            let loader = CString::new(loader).unwrap();
            let arguments: [&CStr; 4] = [&loader, &name, c"--mark", &place];
            execve(&loader, &arguments, &nothing).map_err(why)
        }
        "a script" => {
            let script = mark.with_extension("script");
            let mut options = fs::OpenOptions::new();
            let made = options.write(true).create(true).truncate(true).mode(0o755).open(&script);
            let line = format!("#!{} --mark\n", program.display());
            made.and_then(|mut file| file.write_all(line.as_bytes())).map_err(why)?;
            // The script's own name is the argument: it is where the mark is put.
            let script = text(&script);
            execve(&script, &[&script], &nothing).map_err(why)
        }
        "the standard library" => {
            let status = Command::new(program).arg("--mark").arg(mark).status().map_err(why)?;
            return Ok(status.code().into());
        }
        "calls of x32" => {
            const EXECVE: i64 = 0x4000_0000 + 520;
            let came_back = call(EXECVE, &mut [Arg::Text(&name), Arg::Num(0), Arg::Num(0)]);
            return came_back.map(Value::from).map_err(why);
        }
        road => panic!("no road is called {road}"),
    };
    error.map(|never| match never {})
}

/// The loader that this program was started with.
fn loader() -> Option<&'static str> {
    let known = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    known.into_iter().find(|path| Path::new(path).exists())
}

/// Leaves the mark.
pub(crate) fn leave_a_mark(at: &Path) {
    // A script that starts this is where the mark goes with another ending.
    let at = if at.extension().is_some_and(|ending| ending == "script") {
        at.with_extension("")
    } else {
        at.to_owned()
    };
    let _ = fs::write(at, "it ran");
}

/// Every road to this program and to a copy of it at another place.
fn roads(program: &Path, mark: &str) -> Vec<Value> {
    let known = ROADS.iter().filter(|road| **road != "calls of x32" || cfg!(target_arch = "x86_64"));
    // What the loader runs is the loader itself to the kernel, which it does not load again.
    let known = known.filter(|road| **road != "the loader" || program != Path::new("/proc/self/exe"));
    known.map(|road| step("start", json!({"path": program, "mark": mark, "by": road}))).collect()
}

pub(crate) fn unlisted(lab: &Lab) -> Outcome {
    let own = &lab.attacker;
    for (tools, is_reader) in [("Read", true), ("Read, Write", false)] {
        let place = lab.place();
        let root = place.root();
        let directory = if is_reader { "TMPDIR".to_owned() } else { root.display().to_string() };
        let (copied, mark) = (format!("{directory}/copy"), format!("{directory}/mark"));
        let mut steps = vec![step("copy", json!({"path": own, "to": copied}))];
        for program in [own.as_path(), copied.as_ref(), Path::new("/proc/self/exe")] {
            steps.extend(roads(program, &mark));
        }
        let ran = place.node(tools).run(&steps);
        assert_eq!(ran.got("copy"), "copied", "{}", ran.output);
        assert_eq!(ran.answers.len(), steps.len(), "{tools}: every road was tried: {}", ran.output);
        ran.none_works_but("copy");
        assert!(!place.root().join("mark").exists());
        // The control, and with a shell granted the copy may run too.
        let control = place.outside_of_the_cage(&steps);
        works_but_for_x32(&steps, &control.answers);
        let granted = place.node("Bash").run(&steps);
        assert_eq!(granted.answers[1]["ok"], "it ran", "{}", granted.output);
    }
    // A program that may start others still starts none that it has just written.
    let place = lab.place();
    let copied = place.root().join("copy");
    let mut steps = vec![step("copy", json!({"path": own, "to": copied}))];
    steps.extend(roads(&copied, "mark"));
    steps.push(step("start", json!({"path": own, "mark": "mark", "by": "execve"})));
    let ran = place.node("Read, Write").cage("programs: true").run(&steps);
    assert_eq!(ran.answers.last().unwrap()["ok"], "it ran", "what is listed runs: {}", ran.output);
    for (road, answer) in ROADS.iter().zip(&ran.answers[1..]) {
        // A file in memory is at no place. At K the loader reads what it may not start.
        let is_held = match *road {
            "a file in memory" => false,
            "the loader" => lab.tier != "K",
            _ => true,
        };
        assert!(!is_held || answer.get("err").is_some(), "{road}: {}", ran.output);
    }
    Ok(())
}

#[track_caller]
fn works_but_for_x32(steps: &[Value], answers: &[Value]) {
    assert_eq!(steps.len(), answers.len());
    for (step, answer) in steps.iter().zip(answers) {
        // Almost no kernel is built with it.
        let is_x32 = step["by"] == "calls of x32";
        assert!(is_x32 || answer.get("ok").is_some(), "outside of a cage this has to work: {step} {answer}");
    }
}

/// A policy and a definition in the workspace, by which this program would start a shell that may write
/// outside.
fn inner(place: &Place<'_>) {
    place
        .write(
            "inner.yaml",
            &format!(
                "version: 1\ntier: 0\ngrant: [tool:bash, agent:*]\nruntime: {{default: command}}\n\
                 accept:\n  - {{id: tool:bash, as: advisory, why: a test}}\npaths: {{write: [{}]}}\n",
                place.beside("outside").display()
            ),
        )
        .write(
            ".claude/skills/inner/SKILL.md",
            "---\nname: inner\ndescription: for a test\nallowed-tools: Bash\n---\nDo it.\n",
        );
}

fn forgeries(place: &Place<'_>) -> Vec<Value> {
    let depute = place.lab.depute.display();
    let (config, state, ledger) = (place.beside("config"), place.beside("state"), place.ledger());
    let victim = place.beside("outside/victim");
    let real = format!(
        "HOME={} XDG_CONFIG_HOME={} XDG_STATE_HOME={}",
        place.beside("home").display(),
        config.display(),
        state.display()
    );
    let run = |environment: &str, ledger: &str| {
        let script = format!(
            "env {environment} {depute} --ledger {ledger} --policy inner.yaml run inner --trust-workspace \
             --task 'echo attacked > {}'",
            victim.display()
        );
        step("shell", json!({"script": script}))
    };
    let real_ledger = ledger.display().to_string();
    vec![
        run("-u DEPUTE_NODE", &real_ledger),
        run(&format!("DEPUTE_NODE=0 {real}"), &real_ledger),
        run(&format!("DEPUTE_NODE=1.1 {real}"), &real_ledger),
        run(&format!("-i {real}"), &real_ledger),
        run("-i HOME=$TMPDIR XDG_STATE_HOME=$TMPDIR/state", "$TMPDIR/ledger"),
    ]
}

pub(crate) fn forged(lab: &Lab) -> Outcome {
    let place = lab.place();
    inner(&place);
    place.outside("victim", "untouched");
    let victim = || fs::read_to_string(place.beside("outside/victim")).unwrap();
    let sessions = || {
        let projects = fs::read_dir(place.beside("state/depute/projects")).unwrap();
        projects
            .map(|project| fs::read_dir(project.unwrap().path().join("sessions")).unwrap().count())
            .sum::<usize>()
    };
    let node = place.node("Bash").runs(&[&lab.attacker, &lab.depute]);
    let steps = forgeries(&place);
    let ran = node.run(&steps);
    assert_eq!(ran.answers.len(), steps.len(), "{} {}", ran.value, ran.stderr);
    assert_eq!(victim(), "untouched", "{}", ran.output);
    let kinds = place.kinds();
    assert_eq!(kinds.iter().filter(|kind| *kind == "session").count(), 1, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "spawn").count(), 1, "{kinds:?}");
    assert_eq!(place.verified(), 0);
    assert_eq!(sessions(), 1, "no other session was begun");
    // The control: each of them starts something, outside.
    for step in &steps {
        place.outside("victim", "untouched");
        let control = place.outside_of_the_cage(std::slice::from_ref(step));
        assert_eq!(victim(), "attacked\n", "outside of a cage this has to work: {step} {}", control.output);
    }
    assert!(place.kinds().len() > kinds.len());
    Ok(())
}

pub(crate) fn unreadable(lab: &Lab) -> Outcome {
    let place = lab.place();
    let steps = [step("list", json!({"path": "."}))];
    let ran = place.node("Read").runs(&[]).run(&steps);
    assert_eq!(ran.code, 85, "{}", ran.value);
    let message = ran.value["outcome"]["message"].as_str().unwrap().to_owned();
    let line = format!("paths: {{exec: [{}]}}", lab.attacker.parent().unwrap().display());
    assert!(message.contains(&line), "{message}");
    // The line, as it was said, allows it.
    let ran = place.node("Read").runs(&[]).policy(&line).run(&steps);
    assert_eq!(ran.code, 0, "{}", ran.value);
    Ok(())
}
