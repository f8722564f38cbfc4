//! Attacks on other processes: their descriptors, memory, limits and lives.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;

use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use serde_json::{Value, json};

use super::attacker::{Attack, Tried, apart, awaited, number, step, text, why};
use super::harness::{Bystander, Lab, Outcome, Place, SECRET, children_of, finish, status, wait_until};
use super::raw::{self, Arg, call};

pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("take a descriptor", take_a_descriptor),
    ("trace", trace),
    ("read memory", |step| {
        let address = u64::try_from(number(step, "address")).unwrap();
        let read = raw::memory_of(pid(step), address, SECRET.len()).map_err(why)?;
        Ok(String::from_utf8_lossy(&read).into())
    }),
    ("limit", |step| {
        let limit = [64_u64, 64].map(u64::to_ne_bytes).concat();
        numbers(libc::SYS_prlimit64, &mut [of(step), Arg::Num(7), Arg::Bytes(&limit), Arg::Num(0)])
    }),
    ("affinity", |step| {
        numbers(libc::SYS_sched_setaffinity, &mut [of(step), Arg::Num(8), Arg::Bytes(&1_u64.to_ne_bytes())])
    }),
    ("priority", |step| numbers(libc::SYS_setpriority, &mut [Arg::Num(0), of(step), Arg::Num(19)])),
    ("disk priority", |step| numbers(libc::SYS_ioprio_set, &mut [Arg::Num(1), of(step), Arg::Num(3 << 13)])),
    ("scheduler", |step| {
        const IDLE: i64 = 5;
        let none = 0_i32.to_ne_bytes();
        numbers(libc::SYS_sched_setscheduler, &mut [of(step), Arg::Num(IDLE), Arg::Bytes(&none)])
    }),
    ("kill", |step| numbers(libc::SYS_kill, &mut [of(step), signal(step)])),
    ("kill a thread", |step| numbers(libc::SYS_tgkill, &mut [of(step), of(step), signal(step)])),
    ("kill by a descriptor", |step| {
        let process = process(step)?;
        let descriptor = Arg::Num(i64::from(std::os::fd::AsRawFd::as_raw_fd(&process)));
        let none = Arg::Num(0);
        numbers(libc::SYS_pidfd_send_signal, &mut [descriptor, signal(step), none, Arg::Num(0)])
    }),
    ("kill by a pipe", kill_by_a_pipe),
    ("kill the parent", |step| {
        numbers(libc::SYS_kill, &mut [Arg::Num(i64::from(getppid().as_raw())), signal(step)])
    }),
    ("all that is told", |step| {
        let told = awaited(text(step, "path").as_ref()).ok_or("nobody told")?;
        let steps: Vec<Value> = serde_json::from_str(&told).unwrap();
        Ok(steps.iter().map(super::attacker::attempt).collect::<Vec<_>>().into())
    }),
    ("descriptors", |_| {
        let is_open = |fd: &i64| call(libc::SYS_fcntl, &mut [Arg::Num(*fd), Arg::Num(1)]).is_ok();
        Ok((0..4096).filter(is_open).collect::<Vec<_>>().into())
    }),
    ("processes", |_| {
        let entries = fs::read_dir("/proc").map_err(why)?.flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i64>().ok());
        Ok(pids.collect::<Vec<_>>().into())
    }),
];

fn pid(step: &Value) -> i32 {
    i32::try_from(number(step, "pid")).unwrap()
}

fn of(step: &Value) -> Arg<'static> {
    Arg::Num(number(step, "pid"))
}

fn signal(step: &Value) -> Arg<'static> {
    Arg::Num(number(step, "signal"))
}

fn numbers(number: i64, arguments: &mut [Arg<'_>]) -> Tried {
    call(number, arguments).map(Value::from).map_err(why)
}

fn process(step: &Value) -> Result<std::os::fd::OwnedFd, String> {
    call(libc::SYS_pidfd_open, &mut [of(step), Arg::Num(0)]).map(raw::owned).map_err(why)
}

fn take_a_descriptor(step: &Value) -> Tried {
    let process = process(step)?;
    let from = Arg::Num(i64::from(std::os::fd::AsRawFd::as_raw_fd(&process)));
    let theirs = Arg::Num(number(step, "descriptor"));
    let taken = call(libc::SYS_pidfd_getfd, &mut [from, theirs, Arg::Num(0)]).map(raw::owned).map_err(why)?;
    let mut text = [0; 256];
    let len = nix::sys::uio::pread(taken.as_fd(), &mut text, 0).map_err(why)?;
    Ok(String::from_utf8_lossy(&text[..len]).into())
}

fn trace(step: &Value) -> Tried {
    const SEIZE: i64 = 0x4206;
    // Whoever traces and ends lets go.
    apart(|| numbers(libc::SYS_ptrace, &mut [Arg::Num(SEIZE), of(step), Arg::Num(0), Arg::Num(0)]))
}

/// Names a process as the one that is told when a pipe can be read, and writes to it.
fn kill_by_a_pipe(step: &Value) -> Tried {
    let (ours, mut theirs) = std::io::pipe().map_err(why)?;
    let fd = i64::from(std::os::fd::AsRawFd::as_raw_fd(&ours));
    let set = |what: i32, value: Arg<'static>| {
        call(libc::SYS_fcntl, &mut [Arg::Num(fd), Arg::Num(i64::from(what)), value]).map_err(why)
    };
    const SET_SIGNAL: i32 = 10;
    set(libc::F_SETOWN, of(step))?;
    set(SET_SIGNAL, signal(step))?;
    set(libc::F_SETFL, Arg::Num(i64::from(libc::O_ASYNC | libc::O_NONBLOCK)))?;
    theirs.write_all(b"x").map_err(why)?;
    Ok(json!("done"))
}

/// Lets every process of this user trace this one, also where Yama asks for it.
pub(crate) fn allow_tracing() {
    let _ = call(libc::SYS_prctl, &mut [Arg::Num(i64::from(libc::PR_SET_PTRACER)), Arg::Num(-1)]);
}

pub(crate) fn stealing(lab: &Lab) -> Outcome {
    let place = lab.place();
    let steps = |of: &Bystander| {
        let proc = |name: &str| format!("/proc/{}/{name}", of.pid);
        let all = json!({"pid": of.pid, "descriptor": of.descriptor, "address": of.address});
        vec![
            step("take a descriptor", all.clone()),
            step("read memory", all.clone()),
            step("trace", all),
            step("read", json!({"path": proc(&format!("fd/{}", of.descriptor))})),
            step("read", json!({"path": proc("environ")})),
            step("list", json!({"path": proc("fd")})),
            step("open to write", json!({"path": proc("mem")})),
        ]
    };
    for tools in ["Read", "Bash"] {
        let mut bystander = Bystander::start(&place);
        let ran = place.node(tools).run(&steps(&bystander));
        ran.none_works_but("");
        assert!(!ran.output.contains(SECRET), "{tools}: {}", ran.output);
        assert!(bystander.lives());
        let control = place.outside_of_the_cage(&steps(&bystander));
        control.all_work();
        assert_eq!(control.output.matches(SECRET).count(), 4, "{}", control.output);
    }
    Ok(())
}

pub(crate) fn limits(lab: &Lab) -> Outcome {
    let place = lab.place();
    let steps = |pid: i32| {
        ["limit", "affinity", "priority", "disk priority", "scheduler"]
            .map(|attack| step(attack, json!({"pid": pid})))
    };
    let about = |pid: i32| {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
        let stat = read("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // Nice value and scheduling policy.
        (read("limits"), status(pid, "Cpus_allowed"), fields[16].to_owned(), fields[38].to_owned())
    };
    for tools in ["Read", "Bash"] {
        let bystander = Bystander::start(&place);
        let before = about(bystander.pid);
        // The broker is there when its node is, and its numbers are told then.
        let told = place.root().join("told");
        let node = place.node(tools);
        let running = node.start(&[step("all that is told", json!({"path": told}))]);
        let broker = i32::try_from(running.id()).unwrap();
        let guard = guard_of(running.id());
        let broker_before = about(broker);
        let all: Vec<Value> = [bystander.pid, broker, guard].into_iter().flat_map(steps).collect();
        fs::write(&told, format!("{}\n", json!(all))).unwrap();
        let ran = finish(running);
        fs::remove_file(&told).unwrap();
        let answers = ran.got("all that is told");
        let answers = answers.as_array().unwrap();
        assert_eq!(answers.len(), 15, "{}", ran.output);
        assert!(answers.iter().all(|answer| answer.get("err").is_some()), "{tools}: {}", ran.output);
        assert_eq!(before, about(bystander.pid), "{tools}: {}", ran.output);
        assert_ne!(broker_before.2, "", "the broker was there");
        place.outside_of_the_cage(&steps(bystander.pid)).all_work();
        let (after, affinity, nice, policy) = about(bystander.pid);
        assert_ne!(before.0, after);
        assert!(before.1 != affinity || affinity.is_some_and(|mask| mask.ends_with('1')));
        assert_ne!(before.2, nice);
        assert_ne!(before.3, policy);
    }
    Ok(())
}

/// The guard of a run, once the attacker runs below it: another one may have been there for a trial.
pub(crate) fn guard_of(broker: u32) -> i32 {
    let mut found = Vec::new();
    wait_until("the guard", || {
        found = children_of(broker);
        found.retain(|pid| below(*pid).iter().any(|pid| is_attacker(*pid)));
        !found.is_empty()
    });
    found[0]
}

/// The children of a process, and theirs.
pub(crate) fn below(pid: i32) -> Vec<i32> {
    let mut found = children_of(pid.unsigned_abs());
    let next: Vec<i32> = found.iter().flat_map(|pid| children_of(pid.unsigned_abs())).collect();
    found.extend(next);
    found
}

fn is_attacker(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|arguments| arguments.ends_with(b"\0--attack\0"))
}

pub(crate) fn signals(lab: &Lab) -> Outcome {
    let place = lab.place();
    let told = place.root().join("told");
    let kinds = ["kill", "kill a thread", "kill by a descriptor", "kill by a pipe"];
    let number = |signal: Signal| signal as i32;
    for tools in ["Read", "Bash"] {
        let mut bystander = Bystander::start(&place);
        let running = place.node(tools).start(&[
            step("all that is told", json!({"path": told})),
            step("list", json!({"path": place.root()})),
        ]);
        let broker = i32::try_from(running.id()).unwrap();
        let guard = guard_of(running.id());
        let mut steps: Vec<Value> = Vec::new();
        for (at, kind) in kinds.iter().enumerate() {
            // Of the bystander each sort has its own signal, so that one that came through is known.
            let quiet = number(Signal::SIGUSR1) + i32::try_from(at).unwrap() * 2;
            steps.push(step(kind, json!({"pid": bystander.pid, "signal": quiet})));
            for pid in [bystander.pid, broker, guard] {
                steps.push(step(kind, json!({"pid": pid, "signal": number(Signal::SIGKILL)})));
            }
        }
        // One that nobody minds who is reached by mistake.
        steps.push(step("kill", json!({"pid": -1, "signal": number(Signal::SIGURG)})));
        if lab.tier == "K" {
            steps.push(step("kill the parent", json!({"signal": number(Signal::SIGKILL)})));
        }
        fs::write(&told, format!("{}\n", json!(steps))).unwrap();
        let ran = finish(running);
        fs::remove_file(&told).unwrap();
        assert_eq!(ran.code, 0, "{tools}: {} {}", ran.value, ran.stderr);
        assert!(ran.error("list").is_none(), "the node lives to its own end: {}", ran.output);
        assert!(bystander.lives(), "{tools}: {}", ran.output);
        assert_eq!(bystander.signals(), Vec::<u32>::new(), "{tools}: {}", ran.output);
        // The control: each sort reaches a bystander.
        for (at, kind) in kinds.iter().enumerate() {
            let quiet = number(Signal::SIGUSR1) + i32::try_from(at).unwrap() * 2;
            let steps = [step(kind, json!({"pid": bystander.pid, "signal": quiet}))];
            place.outside_of_the_cage(&steps).all_work();
            assert!(bystander.signals().contains(&quiet.unsigned_abs()), "{kind}: {:?}", bystander.signals());
        }
        // All that may be signalled are some, outside: asked without a signal.
        place.outside_of_the_cage(&[step("kill", json!({"pid": -1, "signal": 0}))]).all_work();
        let last = [step("kill", json!({"pid": bystander.pid, "signal": number(Signal::SIGKILL)}))];
        place.outside_of_the_cage(&last).all_work();
        wait_until("the end of the bystander", || !bystander.lives());
    }
    Ok(())
}

pub(crate) fn broker(lab: &Lab) -> Outcome {
    let place = lab.place();
    let told = place.root().join("told");
    let names = ["environ", "mem", "maps", "cmdline"];
    let read = |pid: &str, name: &str| step("read", json!({"path": format!("/proc/{pid}/{name}")}));
    let secret = "a key that only the broker has";
    let marker = "what the task says and no argument does";
    for tools in ["Read", "Bash"] {
        let steps = [step("all that is told", json!({"path": told, "besides": marker}))];
        let mut command = place.node(tools).command(&steps);
        command.env("KEY", secret).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let running = command.spawn().unwrap();
        let guard = guard_of(running.id());
        let mut pids = vec![i32::try_from(running.id()).unwrap(), guard];
        pids.extend(below(guard));
        // No argument of anyone says what the task is, or the key.
        for pid in &pids {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&arguments);
            assert!(!arguments.contains(marker) && !arguments.contains(secret), "{arguments}");
        }
        let mut all: Vec<Value> = Vec::new();
        for pid in &pids {
            all.extend(names.iter().map(|name| read(&pid.to_string(), name)));
        }
        for pid in [running.id(), guard.unsigned_abs()] {
            all.push(step("trace", json!({"pid": pid})));
            all.push(step("take a descriptor", json!({"pid": pid, "descriptor": 0})));
        }
        all.push(step("list", json!({"path": format!("/proc/{}/fd", running.id())})));
        all.push(step("list", json!({"path": format!("/proc/{}/task", running.id())})));
        fs::write(&told, format!("{}\n", json!(all))).unwrap();
        let ran = finish(running);
        fs::remove_file(&told).unwrap();
        let answers = ran.got("all that is told");
        assert_eq!(answers.as_array().unwrap().len(), all.len(), "{}", ran.output);
        for answer in answers.as_array().unwrap() {
            assert!(answer.get("err").is_some(), "{tools}: {answer}");
        }
        assert!(!ran.output.contains(secret), "{tools}: {}", ran.output);
        // The control: a process of this user that guards nothing can be read.
        let bystander = Bystander::start(&place);
        let control = place.outside_of_the_cage(&[
            read(&bystander.pid.to_string(), "environ"),
            read(&bystander.pid.to_string(), "maps"),
        ]);
        control.all_work();
        assert!(control.output.contains(SECRET), "{}", control.output);
    }
    Ok(())
}

pub(crate) fn proc(lab: &Lab) -> Outcome {
    let place = lab.place();
    let bystander = Bystander::start(&place);
    let steps = [
        step("processes", json!({})),
        step("read", json!({"path": "/proc/1/cmdline"})),
        step("open to write", json!({"path": "/proc/sys/kernel/hostname"})),
        step("open to write", json!({"path": "/proc/sysrq-trigger"})),
        step("read", json!({"path": format!("/proc/{}/cmdline", bystander.pid)})),
    ];
    for tools in ["Read", "Bash"] {
        let ran = place.node(tools).run(&steps);
        let wrote = |answers: &[Value]| {
            answers.iter().any(|answer| answer["attack"] == "open to write" && answer.get("ok").is_some())
        };
        assert!(!wrote(&ran.answers), "{tools}: {}", ran.output);
        assert!(!ran.output.contains("--bystander"), "{tools}: {}", ran.output);
        if lab.tier == "K" {
            ran.none_works_but("");
        } else {
            // Its own, and the first one of its space.
            let seen = ran.got("processes");
            assert!(seen.as_array().is_some_and(|seen| seen.len() <= 2), "{tools}: {seen}");
        }
        let control = place.outside_of_the_cage(&steps);
        let seen = control.got("processes");
        assert!(seen.as_array().unwrap().contains(&json!(bystander.pid)), "{seen}");
        assert!(control.output.contains("--bystander"), "{}", control.output);
        if nix::unistd::geteuid().is_root() {
            assert!(wrote(&control.answers), "{}", control.output);
        }
    }
    Ok(())
}

/// Whether a process is there, and is more than what its parent has not yet taken.
pub(crate) fn is_alive(pid: i32) -> bool {
    nix::sys::signal::kill(Pid::from_raw(pid), None).is_ok()
        && status(pid, "State").is_some_and(|state| !state.starts_with('Z'))
}

/// The place of a file that both sides know.
pub(crate) fn shared(place: &Place<'_>, name: &str) -> String {
    place.root().join(name).display().to_string()
}
