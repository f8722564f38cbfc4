//! A rotation stopped at each of its steps: killed before every system call, and every call failing.

use std::collections::HashMap;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use depute_ledger::Ledger;

use crate::support::*;

/// The system calls of a rotation, with an error that each may well give.
const CALLS: [(&str, &str); 9] = [
    ("flock", "ENOLCK"),
    ("openat", "ENOSPC"),
    ("write", "ENOSPC"),
    ("fdatasync", "EIO"),
    ("fsync", "EIO"),
    ("rename", "EIO"),
    ("fchmod", "EPERM"),
    ("unlink", "EIO"),
    ("pwrite64", "ENOSPC"),
];

pub fn rotate_once(dir: &Path) {
    let Ok(ledger) = options().segment_bytes(1).open(dir, &who()) else { return };
    tell("opened");
    if ledger.append(OP, note("in the next")).is_ok() {
        tell("acknowledged");
    }
}

/// Plays under `strace`, which does `what` to the `n`th call, and returns what was told, or nothing
/// where the call was not made so often.
fn play(place: &Place, call: &str, what: &str, n: usize) -> Option<HashMap<String, usize>> {
    let role = child("rotate once", &place.dir);
    let log = place.path("trace");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", &format!("trace={call}"), "-e", "signal=none"])
        .args(["-e", &format!("inject={call}:{what}:when={n}")])
        .arg("-o")
        .arg(&log)
        .arg(role.get_program())
        .args(role.get_args())
        .envs(role.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let trace = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    if output.status.success() && !trace.contains("INJECTED") {
        return None;
    }
    let mut counts = HashMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines().filter_map(told) {
        *counts.entry(line.to_owned()).or_insert(0) += 1;
    }
    Some(counts)
}

/// A writer for which every segment is long enough.
fn small(place: &Place) -> Ledger {
    options().segment_bytes(1).open(&place.dir, &who()).unwrap()
}

fn strace_works() -> bool {
    let status = Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn a_rotation_stopped_at_any_call_is_finished_by_the_next_writer() {
    if !strace_works() {
        println!("skipped: no strace here, or no right to use it");
        return;
    }
    let whole = Place::with_notes(2);
    let (mut stopped, mut half_done) = (0, 0);
    for (call, error) in CALLS {
        let mut calls = 0;
        for what in ["signal=SIGKILL", &format!("error={error}")] {
            for n in 1.. {
                let place = whole.copy();
                let Some(told) = play(&place, call, what, n) else { break };
                calls += 1;
                let acknowledged = told.contains_key("acknowledged");
                half_done += usize::from(place.files() > whole.files() && !acknowledged);
                let at = format!("{call} {n}, {what}");

                assert!(place.verify().is_intact(), "{at}: {:#?}", place.verify());
                small(&place).append(OP, note("afterwards")).unwrap();
                let report = place.verify();
                assert_eq!(report.findings, [], "{at}");
                let notes = place.notes();
                assert_eq!(notes[..2], ["note 0", "note 1"], "{at}");
                assert_eq!(notes.last().unwrap(), "afterwards", "{at}");
                assert!(!acknowledged || notes[2] == "in the next", "{at}");
                assert!(place.segment().starts_with(&whole.segment()), "{at}");
                assert!(place.segments().len() > 1, "{at}");
                for closed in place.segments().iter().rev().skip(1) {
                    let mode = std::fs::metadata(place.path(closed)).unwrap().permissions().mode();
                    assert_eq!(mode & 0o777, 0o400, "{at}: {closed}");
                }
            }
        }
        assert!(calls > 1, "{call} is not called");
        stopped += calls;
    }
    println!("stopped at {stopped} calls, {half_done} times with the rotation under way");
    assert!(half_done > 10);
}

/// The system calls of `play`, each with the paths of its descriptors.
fn trace(place: &Place) -> Vec<String> {
    let role = child("rotate once", &place.dir);
    let log = place.path("trace");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-y", "-e", "trace=fsync,fdatasync,write,flock", "-o"])
        .arg(&log)
        .arg(role.get_program())
        .args(role.get_args())
        .envs(role.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .output()
        .unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().lines().filter_map(told).any(|t| t == "acknowledged"));
    let trace = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    trace.lines().map(str::to_owned).collect()
}

#[test]
fn the_name_of_a_segment_is_on_disk_before_anything_in_it_is_acknowledged() {
    if !strace_works() {
        println!("skipped: no strace here, or no right to use it");
        return;
    }
    // Somebody began the next segment and ended before its name was flushed.
    let place = Place::with_notes(2);
    let whole = place.copy();
    assert!(place.open().rotate().unwrap());
    let next = place.segments().pop().unwrap();
    let begun = std::fs::read(place.path(&next)).unwrap();
    whole.write(&next, &begun);
    // Making this one would flush the directory, too.
    let objects = std::fs::DirBuilder::new().mode(0o700).create(whole.path("objects"));
    objects.unwrap();
    let trace = trace(&whole);
    let dir = format!("<{}>)", whole.dir.display());
    let flushed = trace.iter().position(|call| call.contains("fsync(") && call.contains(&dir));
    let acknowledged = trace.iter().rposition(|call| call.contains("fdatasync(") && call.contains(&next));
    let (flushed, acknowledged) = (flushed.expect("it is flushed"), acknowledged.unwrap());
    assert!(flushed < acknowledged, "{trace:#?}");
}
