//! Attacks on what the kernel offers besides: other roads for calls, terminals, name spaces, descriptors.

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sched::CloneFlags;
use nix::sys::wait::waitpid;
use serde_json::{Value, json};

use super::attacker::{Attack, Tried, apart, number, step, text, why};
use super::harness::{Lab, Outcome, finish, status};
use super::processes::{below, guard_of};
use super::raw::{self, Arg, call};

pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("io_uring", |_| {
        let mut parameters = [0; 120];
        let made = call(libc::SYS_io_uring_setup, &mut [Arg::Num(4), Arg::Buffer(&mut parameters)]);
        made.map(|fd| drop(raw::owned(fd))).map(|()| json!("made")).map_err(why)
    }),
    ("shared memory", |_| {
        let made = &mut [Arg::Num(0), Arg::Num(4096), Arg::Num(0o1600)];
        made_and_removed(call(libc::SYS_shmget, made), libc::SYS_shmctl)
    }),
    ("a queue", |_| {
        let made = &mut [Arg::Num(0), Arg::Num(0o1600)];
        made_and_removed(call(libc::SYS_msgget, made), libc::SYS_msgctl)
    }),
    ("semaphores", |_| {
        let made = &mut [Arg::Num(0), Arg::Num(1), Arg::Num(0o1600)];
        let id = call(libc::SYS_semget, made).map_err(why)?;
        let _ = call(libc::SYS_semctl, &mut [Arg::Num(id), Arg::Num(0), Arg::Num(0)]);
        Ok(json!("made"))
    }),
    ("a key", |_| {
        // Of this process alone, so that it goes with the control.
        let (kind, name) = (Arg::Text(c"user"), Arg::Text(c"depute-attacks"));
        let added = &mut [kind, name, Arg::Bytes(b"x"), Arg::Num(1), Arg::Num(-2)];
        call(libc::SYS_add_key, added).map(|_| json!("made")).map_err(why)
    }),
    ("own user space", |_| apart(|| unshare(CloneFlags::CLONE_NEWUSER))),
    ("own mounts", |_| {
        apart(|| {
            let _ = unshare(CloneFlags::CLONE_NEWUSER);
            unshare(CloneFlags::CLONE_NEWNS)
        })
    }),
    ("own network", |_| {
        apart(|| {
            let _ = unshare(CloneFlags::CLONE_NEWUSER);
            unshare(CloneFlags::CLONE_NEWNET)
        })
    }),
    ("mount", |step| {
        apart(|| {
            let _ = unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS);
            let none: Option<&str> = None;
            let flags = nix::mount::MsFlags::empty();
            nix::mount::mount(Some("none"), text(step, "path"), Some("tmpfs"), flags, none).map_err(why)?;
            Ok(json!("mounted"))
        })
    }),
    ("change root", |step| {
        apart(|| {
            let _ = unshare(CloneFlags::CLONE_NEWUSER);
            nix::unistd::chroot(text(step, "path")).map_err(why)?;
            Ok(json!("changed"))
        })
    }),
    ("join a space", |_| {
        apart(|| {
            let _ = unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWUTS);
            let own = Arg::Num(i64::from(std::process::id()));
            let process = call(libc::SYS_pidfd_open, &mut [own, Arg::Num(0)]).map(raw::owned).map_err(why)?;
            nix::sched::setns(process, CloneFlags::CLONE_NEWUTS).map_err(why)?;
            Ok(json!("joined"))
        })
    }),
    ("clone into a user space", |_| {
        apart(|| {
            let flags = i64::from(CloneFlags::CLONE_NEWUSER.bits() | libc::SIGCHLD);
            born(call(libc::SYS_clone, &mut [Arg::Num(flags)]))
        })
    }),
    ("clone3 into a user space", |_| {
        apart(|| {
            let flags = u64::from(CloneFlags::CLONE_NEWUSER.bits().cast_unsigned());
            let mut arguments = [0_u64; 8];
            (arguments[0], arguments[4]) = (flags, u64::from(libc::SIGCHLD.unsigned_abs()));
            let bytes = arguments.map(u64::to_ne_bytes).concat();
            born(call(libc::SYS_clone3, &mut [Arg::Bytes(&bytes), Arg::Num(64)]))
        })
    }),
    ("capabilities", |_| Ok(capabilities().into())),
    ("capabilities in an own user space", |_| {
        apart(|| {
            let _ = unshare(CloneFlags::CLONE_NEWUSER);
            Ok(capabilities().into())
        })
    }),
    ("type", |step| {
        let typed = |device: &File| {
            for byte in text(step, "text").bytes() {
                let fd = Arg::Num(i64::from(device.as_raw_fd()));
                const TIOCSTI: i64 = 0x5412;
                call(libc::SYS_ioctl, &mut [fd, Arg::Num(TIOCSTI), Arg::Bytes(&[byte])]).map_err(why)?;
            }
            Ok(json!("typed"))
        };
        match step["path"].as_str() {
            Some(path) => File::open(path).map_err(why).and_then(|device| typed(&device)),
            None => {
                let fd = Arg::Num(number(step, "descriptor"));
                let own = call(libc::SYS_dup, &mut [fd]).map(raw::owned).map_err(why)?;
                typed(&own.into())
            }
        }
    }),
    ("read a descriptor", |step| {
        let mut bytes = [0; 64];
        let fd = Arg::Num(number(step, "descriptor"));
        let read = call(libc::SYS_pread64, &mut [fd, Arg::Buffer(&mut bytes), Arg::Num(64), Arg::Num(0)]);
        let len = usize::try_from(read.map_err(why)?).unwrap();
        Ok(String::from_utf8_lossy(&bytes[..len]).into())
    }),
];

fn unshare(flags: CloneFlags) -> Tried {
    nix::sched::unshare(flags).map(|()| json!("made")).map_err(why)
}

/// What a call that makes something answered. That it was made counts, also where it cannot be removed.
fn made_and_removed(answer: Result<i64, nix::errno::Errno>, remove: i64) -> Tried {
    let id = answer.map_err(why)?;
    let _ = call(remove, &mut [Arg::Num(id), Arg::Num(0), Arg::Num(0)]);
    Ok(json!("made"))
}

/// What a call that makes a process answered: the child ends at once.
fn born(answer: Result<i64, nix::errno::Errno>) -> Tried {
    match answer {
        Ok(0) => raw::leave(0),
        Ok(child) => {
            let _ = waitpid(nix::unistd::Pid::from_raw(i32::try_from(child).unwrap()), None);
            Ok(json!("born"))
        }
        Err(error) => Err(why(error)),
    }
}

/// Every capability that this process holds, could gain by a program, or is bounded by: their numbers.
fn capabilities() -> Vec<i64> {
    let header = [0x2008_0522_u32, 0].map(u32::to_ne_bytes).concat();
    let mut sets = [0; 24];
    call(libc::SYS_capget, &mut [Arg::Bytes(&header), Arg::Buffer(&mut sets)])
        .expect("they can be asked for");
    let word = |at: usize| u32::from_ne_bytes(sets[at * 4..at * 4 + 4].try_into().unwrap());
    // Effective, permitted, inheritable: low words, then high ones.
    let held = |number: i64| {
        let base = usize::try_from(number / 32).unwrap() * 3;
        (base..base + 3).any(|at| word(at) & (1 << (number % 32)) != 0)
    };
    (0..64).filter(|number| held(*number)).collect()
}

pub(crate) fn io_uring(lab: &Lab) -> Outcome {
    let place = lab.place();
    let steps = [step("io_uring", json!({}))];
    for tools in ["Read", "Bash"] {
        place.node(tools).run(&steps).none_works_but("");
    }
    match place.outside_of_the_cage(&steps).error("io_uring") {
        None => Ok(()),
        Some(error) => Err(format!("this kernel lets nobody make one here ({error})")),
    }
}

pub(crate) fn leftovers(lab: &Lab) -> Outcome {
    let place = lab.place();
    let steps = ["shared memory", "a queue", "semaphores", "a key"].map(|attack| step(attack, json!({})));
    for tools in ["Read", "Bash"] {
        place.node(tools).run(&steps).none_works_but("");
    }
    place.outside_of_the_cage(&steps).all_work();
    Ok(())
}

pub(crate) fn spaces(lab: &Lab) -> Outcome {
    let place = lab.place();
    fs::create_dir(place.root().join("mounted")).unwrap();
    let steps: Vec<Value> = [
        "own user space",
        "own mounts",
        "own network",
        "mount",
        "change root",
        "join a space",
        "clone into a user space",
        "clone3 into a user space",
    ]
    .map(|attack| step(attack, json!({"path": "mounted"})))
    .to_vec();
    for tools in ["Read", "Bash"] {
        place.node(tools).run(&steps).none_works_but("");
    }
    place.outside_of_the_cage(&steps).all_work();
    Ok(())
}

pub(crate) fn powers(lab: &Lab) -> Outcome {
    let place = lab.place();
    let told = place.root().join("told");
    let steps = [
        step("capabilities", json!({})),
        step("capabilities in an own user space", json!({})),
        step("all that is told", json!({"path": told})),
    ];
    for tools in ["Read", "Bash"] {
        let running = place.node(tools).start(&steps);
        // As it is seen from outside: of the guard, and of all below it.
        let mut seen = vec![guard_of(running.id())];
        seen.extend(below(seen[0]));
        let all: Vec<String> = seen.iter().flat_map(|pid| outside_view(*pid)).collect();
        assert!(all.len() >= 8, "{tools}: guard and program were there: {all:?}");
        assert!(all.iter().all(|set| set == "0000000000000000"), "{tools}: {all:?}");
        fs::write(&told, "[]\n").unwrap();
        let ran = finish(running);
        fs::remove_file(&told).unwrap();
        assert_eq!(ran.got("capabilities"), json!([]), "{tools}: {}", ran.output);
        assert_eq!(ran.got("capabilities in an own user space"), json!([]), "{tools}: {}", ran.output);
    }
    let control = place.outside_of_the_cage(&steps[..2]);
    assert_ne!(control.got("capabilities in an own user space"), json!([]), "{}", control.output);
    if nix::unistd::geteuid().is_root() {
        assert_ne!(control.got("capabilities"), json!([]), "{}", control.output);
    }
    Ok(())
}

/// The sets of a process. The bound counts where there is something to bound: for root.
fn outside_view(pid: i32) -> Vec<String> {
    let bound = nix::unistd::geteuid().is_root().then_some("CapBnd");
    let names = ["CapInh", "CapPrm", "CapEff", "CapAmb"].into_iter().chain(bound);
    names.filter_map(|name| status(pid, name)).collect()
}

pub(crate) fn descriptors(lab: &Lab) -> Outcome {
    const MANY: usize = 100;
    let place = lab.place();
    place.outside("secret", "secret of the outside");
    let secret = File::open(place.beside("outside/secret")).unwrap();
    let directory = File::open(place.beside("outside")).unwrap();
    let socket = UnixListener::bind(place.beside("outside/socket")).unwrap();
    let mut inherited = Vec::new();
    for _ in 0..MANY {
        for of in [secret.as_fd(), directory.as_fd(), socket.as_fd()] {
            inherited.push(nix::unistd::dup(of).unwrap());
        }
    }
    for descriptor in &inherited {
        fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    }
    let first = i64::from(inherited[0].as_raw_fd());
    let steps = [step("descriptors", json!({})), step("read a descriptor", json!({"descriptor": first}))];
    for tools in ["Read", "Bash"] {
        let ran = place.node(tools).run(&steps);
        assert_eq!(ran.got("descriptors"), json!([0, 1, 2]), "{tools}: {}", ran.value);
        assert_eq!(ran.error("read a descriptor").as_deref(), Some("EBADF"), "{tools}");
    }
    let control = place.outside_of_the_cage(&steps);
    let seen = control.got("descriptors");
    assert!(seen.as_array().is_some_and(|seen| seen.len() >= MANY * 3), "{seen}");
    assert_eq!(control.got("read a descriptor"), "secret of the outside");
    Ok(())
}

pub(crate) fn typing(lab: &Lab) -> Outcome {
    let place = lab.place();
    let steps: Vec<Value> = (0..3)
        .map(|descriptor| json!({"descriptor": descriptor}))
        .chain([json!({"path": "/dev/tty"})])
        .map(|mut at| {
            at["text"] = json!("attacked\n");
            step("type", at)
        })
        .collect();
    let typed = |slave: &File| {
        let mut waiting = [0; 4];
        const FIONREAD: i64 = 0x541b;
        let fd = Arg::Num(i64::from(slave.as_raw_fd()));
        call(libc::SYS_ioctl, &mut [fd, Arg::Num(FIONREAD), Arg::Buffer(&mut waiting)]).unwrap();
        u32::from_ne_bytes(waiting)
    };
    for tools in ["Read", "Bash"] {
        let (_master, slave) = raw::terminal().unwrap();
        let slave = File::from(slave);
        let mut command = place.node(tools).command(&steps);
        raw::on_its_terminal(&mut command);
        command.stdin(slave.try_clone().unwrap()).stdout(Stdio::piped()).stderr(slave.try_clone().unwrap());
        let ran = finish(command.spawn().unwrap());
        ran.none_works_but("");
        assert_eq!(typed(&slave), 0, "{tools}: {}", ran.output);
    }
    // The control: who keeps the terminal types into it, where the kernel lets anybody.
    let (_master, slave) = raw::terminal().unwrap();
    let slave = File::from(slave);
    let mut command = place.surround(std::process::Command::new(&lab.attacker));
    raw::on_its_terminal(&mut command);
    command.arg("--attack-from").arg(place.beside("task.json"));
    command.stdin(slave.try_clone().unwrap()).stdout(Stdio::piped()).stderr(Stdio::null());
    let ran = command.spawn().unwrap().wait_with_output().unwrap();
    if typed(&slave) > 0 {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(!output.is_empty(), "the control was run");
    Err(format!("this kernel lets nobody type for others, so nothing shows that it is denied: {output}"))
}
