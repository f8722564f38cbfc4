//! Attacks by not ending: what a node leaves behind, however it hides, and however its run ends.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, setsid};
use serde_json::{Value, json};

use super::attacker::{Attack, Tried, eventually, nap, number, step, text, why};
use super::harness::{Bystander, Lab, Outcome, Place, Ran, finish, wait_until};
use super::processes::{guard_of, is_alive, shared};
use super::raw::{self, Arg, call};

pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("daemon", daemon),
    ("hop", hop),
    ("swarm", swarm),
    ("deaf", |step| {
        let _lock = lock(step)?;
        beat(step);
        SigSet::all().thread_block().map_err(why)?;
        until_stopped(step, || {});
        Ok(json!("stopped"))
    }),
    ("bomb", bomb),
];

/// Takes the lock that tells whether anything of the node is left: all that it starts holds it too.
fn lock(step: &Value) -> Result<File, String> {
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).open(text(step, "lock")).map_err(why)?;
    take(&file).map_err(why)?;
    Ok(file)
}

fn take(file: &File) -> Result<(), nix::errno::Errno> {
    let how = i64::from(libc::LOCK_EX | libc::LOCK_NB);
    call(libc::SYS_flock, &mut [Arg::Num(i64::from(file.as_raw_fd())), Arg::Num(how)]).map(drop)
}

/// Whether nothing is left that holds the lock.
fn is_free(place: &Place<'_>) -> bool {
    File::open(shared(place, "lock")).is_ok_and(|file| take(&file).is_ok())
}

fn beat(step: &Value) {
    let beats = OpenOptions::new().append(true).create(true).open(text(step, "beats"));
    let _ = beats.and_then(|mut beats| beats.write_all(b"."));
}

/// Lives until it is told to stop, which inside of a cage nobody does.
fn until_stopped(step: &Value, mut meanwhile: impl FnMut()) {
    eventually(|| {
        meanwhile();
        Path::new(text(step, "stop")).exists()
    });
}

fn has_begun(step: &Value) -> Tried {
    let begun = eventually(|| fs::metadata(text(step, "beats")).is_ok_and(|beats| beats.len() > 0));
    if begun { Ok(json!("begun")) } else { Err("it never began".to_owned()) }
}

/// An agent that nobody governs: forked twice, in a session of its own, with nothing of what it came from.
fn daemon(step: &Value) -> Tried {
    let lock = lock(step)?;
    let between = raw::fork(|| {
        let _ = setsid();
        let _ = raw::fork(|| {
            for descriptor in (0..256).filter(|fd| *fd != lock.as_raw_fd()) {
                let _ = call(libc::SYS_close, &mut [Arg::Num(i64::from(descriptor))]);
            }
            SigSet::all().thread_block().unwrap();
            until_stopped(step, || harm(step));
            0
        });
        0
    });
    waitpid(between.map_err(why)?, None).map_err(why)?;
    drop(lock);
    has_begun(step)
}

/// What it does all the time.
fn harm(step: &Value) {
    if let Some(port) = step["port"].as_u64() {
        let port = u16::try_from(port).unwrap();
        let _ = TcpStream::connect(("127.0.0.1", port)).and_then(|mut to| to.write_all(b"from a daemon"));
    }
    if let Some(file) = step["outside"].as_str() {
        let _ = fs::write(file, "attacked");
    }
    if let Some(ledger) = step["ledger"].as_str() {
        for file in fs::read_dir(ledger).into_iter().flatten().flatten() {
            let opened = OpenOptions::new().append(true).open(file.path());
            let _ = opened.and_then(|mut file| file.write_all(b"forged\n"));
        }
    }
    beat(step);
}

/// Is a new process all the time, so that whoever looks for it finds one that is gone.
fn hop(step: &Value) -> Tried {
    let lock = lock(step)?;
    let first = raw::fork(|| {
        let _ = setsid();
        close_output();
        loop {
            beat(step);
            if Path::new(text(step, "stop")).exists() {
                return 0;
            }
            match raw::fork_here() {
                Ok(Some(_)) => return 0,
                // Goes on as the child, or tries again.
                Ok(None) | Err(_) => nap(),
            }
        }
    });
    first.map_err(why)?;
    drop(lock);
    has_begun(step)
}

fn swarm(step: &Value) -> Tried {
    const MANY: usize = 40;
    let lock = lock(step)?;
    for _ in 0..MANY {
        raw::fork(|| {
            let _ = setsid();
            close_output();
            until_stopped(step, || beat(step));
            0
        })
        .map_err(why)?;
    }
    drop(lock);
    has_begun(step)
}

/// Nobody waits for what it would say.
fn close_output() {
    for descriptor in 0..3 {
        let _ = call(libc::SYS_close, &mut [Arg::Num(descriptor)]);
    }
}

/// Starts processes that stay, until there can be no more or there are enough.
fn bomb(step: &Value) -> Tried {
    let lock = lock(step)?;
    let most = number(step, "most");
    // They end when the one that holds the other side ends.
    let (mut held, holds) = std::io::pipe().map_err(why)?;
    let mut holds = Some(holds);
    let mut started = 0;
    while started < most {
        let child = raw::fork(|| {
            holds.take();
            close_output();
            let _ = held.read(&mut [0]);
            0
        });
        if child.is_err() {
            break;
        }
        started += 1;
    }
    fs::write(text(step, "count"), format!("{started}\n")).map_err(why)?;
    if step["stays"] == true {
        until_stopped(step, || {});
    }
    drop(lock);
    Ok(started.into())
}

/// What every one of them is told: where it holds its lock, beats, and would stop.
fn about(place: &Place<'_>) -> Value {
    json!({
        "lock": shared(place, "lock"),
        "beats": shared(place, "beats"),
        "stop": shared(place, "stop"),
        "count": shared(place, "count"),
    })
}

fn beats(place: &Place<'_>) -> u64 {
    fs::metadata(shared(place, "beats")).map_or(0, |beats| beats.len())
}

/// How many outlived the program, as the ledger says.
fn outlived(place: &Place<'_>) -> u64 {
    let records = place.records();
    let exit = records.iter().rfind(|record| record["kind"] == "exit").unwrap();
    let message = exit["body"]["message"].as_str().unwrap_or_default();
    message.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[track_caller]
fn nothing_is_left(place: &Place<'_>, ran: &Ran) {
    assert!(is_free(place), "something of the node lives on: {} {}", ran.value, ran.stderr);
    let before = beats(place);
    assert!(before > 0 || ran.output.contains("bomb"), "it never began: {} {}", ran.value, ran.output);
}

/// The control: the same outlives its program, outside of a cage, and ends only when it is told.
#[track_caller]
fn outlives_outside(place: &Place<'_>, steps: &[Value]) -> Ran {
    let _ = fs::remove_file(shared(place, "beats"));
    let ran = place.outside_of_the_cage(steps);
    assert!(!is_free(place), "outside of a cage it has to live on: {}", ran.output);
    let before = beats(place);
    wait_until("another beat", || beats(place) > before);
    stop(place);
    ran
}

fn stop(place: &Place<'_>) {
    place.write("stop", "");
    wait_until("the end of what was told to stop", || is_free(place));
    fs::remove_file(shared(place, "stop")).unwrap();
}

pub(crate) fn ungoverned(lab: &Lab) -> Outcome {
    let place = lab.place();
    let mut bystander = Bystander::start(&place);
    let model = TcpListener::bind("127.0.0.1:0").unwrap();
    model.set_nonblocking(true).unwrap();
    let heard = || {
        let mut heard = Vec::new();
        while let Ok((mut stream, _)) = model.accept() {
            stream.set_nonblocking(false).unwrap();
            let _ = stream.read_to_end(&mut heard);
        }
        heard
    };
    let mut arguments = about(&place);
    arguments["port"] = json!(model.local_addr().unwrap().port());
    arguments["outside"] = json!(place.beside("outside/victim"));
    arguments["ledger"] = json!(place.ledger());
    let steps = [step("daemon", arguments.clone())];
    let ran = place.node("Bash").run(&steps);
    assert_eq!(ran.got("daemon"), "begun", "{} {}", ran.value, ran.stderr);
    nothing_is_left(&place, &ran);
    assert_eq!(outlived(&place), 1, "{}", ran.value);
    assert!(bystander.lives());
    assert!(heard().is_empty());
    assert!(!place.beside("outside/victim").exists());
    assert_eq!(place.verified(), 0);
    assert!(!place.records().iter().any(|record| record.to_string().contains("forged")));
    // The control: outside it does all of this, to a copy of the ledger.
    let copy = place.beside("copy");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(place.ledger()).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    arguments["ledger"] = json!(copy);
    outlives_outside(&place, &[step("daemon", arguments)]);
    assert!(heard().starts_with(b"from a daemon"));
    assert!(place.beside("outside/victim").exists());
    let forged = |entry: fs::DirEntry| fs::read(entry.path()).unwrap().ends_with(b"forged\n");
    assert!(fs::read_dir(&copy).unwrap().flatten().all(forged));
    Ok(())
}

pub(crate) fn survivors(lab: &Lab) -> Outcome {
    for (kind, at_least) in [("daemon", 1), ("hop", 1), ("swarm", 40)] {
        let place = lab.place();
        let mut bystander = Bystander::start(&place);
        let steps = [step(kind, about(&place))];
        let ran = place.node("Bash").run(&steps);
        assert_eq!(ran.got(kind), "begun", "{kind}: {} {}", ran.value, ran.stderr);
        nothing_is_left(&place, &ran);
        assert!(outlived(&place) >= at_least, "{kind}: {}", ran.value);
        assert!(bystander.lives(), "{kind}");
        outlives_outside(&place, &steps);
    }
    // At its deadline, with a daemon and a swarm beside it, and nothing that listens to a request.
    let place = lab.place();
    let mut bystander = Bystander::start(&place);
    let second = |name: &str| {
        let mut about = about(&place);
        about["lock"] = json!(shared(&place, name));
        about
    };
    let steps = [
        step("daemon", second("lock of the daemon")),
        step("swarm", second("lock of the swarm")),
        step("deaf", about(&place)),
    ];
    let ran = place.node("Bash").policy("limits: {child_deadline: 3s}").run(&steps);
    assert_eq!(ran.value["outcome"]["ending"], "timed_out", "{}", ran.value);
    assert_eq!(ran.code, 85);
    nothing_is_left(&place, &ran);
    for name in ["lock of the daemon", "lock of the swarm"] {
        let lock = File::open(shared(&place, name)).unwrap();
        assert!(take(&lock).is_ok(), "the {name} is held");
    }
    assert!(outlived(&place) >= 41, "{}", ran.value);
    assert!(bystander.lives());
    Ok(())
}

/// Starts a node that lives on with a daemon beside it, and waits until both do.
fn started(place: &Place<'_>) -> Child {
    let mut beside = about(place);
    beside["lock"] = json!(shared(place, "second lock"));
    let running = place.node("Bash").start(&[step("daemon", beside), step("deaf", about(place))]);
    wait_until("a node that lives", || {
        File::open(shared(place, "lock")).is_ok_and(|file| take(&file).is_err())
    });
    running
}

pub(crate) fn broker_ends(lab: &Lab) -> Outcome {
    for signal in [Signal::SIGKILL, Signal::SIGINT, Signal::SIGTERM] {
        let place = lab.place();
        let mut bystander = Bystander::start(&place);
        let running = started(&place);
        let guard = guard_of(running.id());
        let second = || File::open(shared(&place, "second lock")).is_ok_and(|file| take(&file).is_ok());
        assert!(!second(), "both live");
        let broker = Pid::from_raw(i32::try_from(running.id()).unwrap());
        kill(broker, signal).unwrap();
        let ran = finish(running);
        // After a request it says so; a broker that is gone is missed by the guard.
        if signal != Signal::SIGKILL {
            assert_eq!(ran.value["outcome"]["ending"], "cancelled", "{signal}: {}", ran.value);
            assert!(is_free(&place) && second(), "{signal}: something lives on");
        }
        wait_until("the end of the node", || is_free(&place) && second());
        wait_until("the end of the guard", || !is_alive(guard));
        assert!(bystander.lives(), "{signal}");
    }
    // A guard that is gone is missed by the broker.
    let place = lab.place();
    let running = started(&place);
    kill(Pid::from_raw(guard_of(running.id())), Signal::SIGKILL).unwrap();
    let ran = finish(running);
    assert_ne!(ran.code, 0, "{}", ran.value);
    let second = File::open(shared(&place, "second lock")).unwrap();
    assert!(is_free(&place) && take(&second).is_ok(), "without its guard something lives on: {}", ran.value);
    // The control: without both, what a program started outlives it.
    let place = lab.place();
    outlives_outside(&place, &[step("daemon", about(&place))]);
    Ok(())
}

pub(crate) fn fork_bomb(lab: &Lab) -> Outcome {
    const MOST: i64 = 1500;
    let place = lab.place();
    let mut bystander = Bystander::start(&place);
    let mut about = about(&place);
    about["most"] = json!(MOST);
    about["stays"] = json!(true);
    let running =
        place.node("Bash").policy("limits: {child_deadline: 5s}").start(&[step("bomb", about.clone())]);
    wait_until("the count", || {
        fs::read_to_string(shared(&place, "count")).is_ok_and(|text| text.ends_with('\n'))
    });
    let count: i64 = fs::read_to_string(shared(&place, "count")).unwrap().trim_end().parse().unwrap();
    // Meanwhile others go on.
    assert!(Command::new("/bin/true").status().unwrap().success());
    assert_eq!(place.verified(), 0);
    let ran = finish(running);
    assert_eq!(ran.value["outcome"]["ending"], "timed_out", "{} {}", ran.value, ran.stderr);
    assert!(is_free(&place), "something of the node lives on: {}", ran.value);
    assert!(bystander.lives());
    let reaped = outlived(&place);
    assert!(reaped >= count.unsigned_abs(), "{count} were started, and {reaped} ended: {}", ran.value);
    // The kernel exempts root from its count, in every user name space.
    if lab.tier == "K" || nix::unistd::geteuid().is_root() {
        assert_eq!(count, MOST, "nothing counts them");
    } else {
        assert!(count < 1024, "{count} could be started");
    }
    // The control: nobody counts them outside.
    about["stays"] = json!(false);
    let control = place.outside_of_the_cage(&[step("bomb", about)]);
    assert_eq!(control.got("bomb"), MOST);
    wait_until("the end of the control", || is_free(&place));
    Ok(())
}
