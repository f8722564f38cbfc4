//! Disks and files that are full.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use depute_ledger::record::Verdict;
use depute_ledger::{AppendError, Body, Ledger, OpenError, OpenOptions, Poison};
use nix::sys::resource::{Resource, setrlimit};

use crate::support::*;

/// Appends until something gives, and returns what was acknowledged.
fn fill(ledger: &Ledger) -> (Vec<String>, AppendError) {
    let mut acknowledged = Vec::new();
    loop {
        let text = format!("{}-{}", acknowledged.len(), "x".repeat(1000));
        match ledger.append(OP, note(text.as_str())) {
            Ok(_) => acknowledged.push(text),
            Err(error) => return (acknowledged, error),
        }
    }
}

pub fn fill_to_the_limit(dir: &Path) {
    let limit = 100_000;
    setrlimit(Resource::RLIMIT_FSIZE, limit, limit).unwrap();
    let ledger = open(dir).unwrap();
    let (acknowledged, error) = fill(&ledger);
    tell(&format!("{} {error:?}", acknowledged.len()));
    // Poisoned for good, even for what would fit.
    let error = ledger.append(OP, note("")).unwrap_err();
    assert!(matches!(error, AppendError::Poisoned(Poison::ShortWrite { .. })));
}

/// Runs a child as a process that ignores SIGXFSZ and so sees the error; a shell can arrange that
/// without unsafe code.
fn ignoring_the_signal(play: &Command) -> Output {
    Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(play.get_program())
        .args(play.get_args())
        .envs(play.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .stderr(Stdio::inherit())
        .output()
        .unwrap()
}

pub fn recover_within_a_limit(dir: &Path) {
    let limit = std::env::var("LEDGER_TEST_LIMIT").unwrap().parse().unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, limit, limit).unwrap();
    match open(dir) {
        Ok(_) => tell("opened"),
        Err(OpenError::Recovery(Poison::ShortWrite { .. } | Poison::Write(_))) => tell("stopped"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_recovery_that_finds_no_room_is_taken_up_later() {
    let torn = Place::with_notes(3);
    let base = [&torn.segment()[..], br#"{"v":0,"prev":"00"#].concat();
    torn.write(SEGMENT, &base);
    // Room for nothing, for the line feed alone, for pieces of the record, for all of it.
    for (room, expected, lines) in
        [(0, "stopped", 1), (1, "stopped", 1), (2, "stopped", 2), (200, "stopped", 2), (2000, "opened", 1)]
    {
        let place = torn.copy();
        let mut command = child("recover within a limit", &place.dir);
        command.env("LEDGER_TEST_LIMIT", (base.len() + room).to_string());
        let output = ignoring_the_signal(&command);
        let out = String::from_utf8(output.stdout).unwrap();
        assert_eq!(out.lines().find_map(told), Some(expected), "room for {room}");
        let left = place.segment();
        if expected == "stopped" {
            assert_eq!(left.len(), base.len() + room);
        }
        assert!(place.verify().is_intact());

        place.open().append(OP, note("afterwards")).unwrap();
        let report = place.verify();
        assert_eq!(report.findings, [], "room for {room}");
        assert_eq!(report.torn.len(), lines, "room for {room}");
        assert!(place.segment().starts_with(&left));
    }
}

#[test]
fn a_file_size_limit_tears_a_line_that_the_next_writer_declares() {
    let place = Place::new();
    let output = ignoring_the_signal(&child("fill to the file size limit", &place.dir));
    assert!(output.status.success(), "{output:?}");
    let out = String::from_utf8(output.stdout).unwrap();
    let (count, error) = out.lines().find_map(told).unwrap().split_once(' ').unwrap();
    assert!(error.contains("ShortWrite"), "{error}");
    let count: usize = count.parse().unwrap();
    assert!(count > 50);

    place.open().append(OP, note("afterwards")).unwrap();
    let report = place.verify();
    assert!(report.is_intact());
    assert_eq!(report.torn.len(), 1);
    let notes = place.notes();
    assert_eq!((notes.len(), notes.last().unwrap().as_str()), (count + 1, "afterwards"));
}

/// A small file system that goes away with the test.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    /// `None` where mounting is not allowed.
    fn mount(options: &str) -> Option<Self> {
        let dir = tempfile::TempDir::new().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(dir.path())
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(dir))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_stops_the_writer_and_loses_nothing() {
    // In one segment, and where segments are closed all the time; also with room for only so many files.
    for segment_bytes in [64 << 20, 20_000, 3_000, 1] {
        fill_a_disk(segment_bytes, "size=256k,mode=700");
    }
    for inodes in 8..24 {
        fill_a_disk(1, &format!("size=256k,mode=700,nr_inodes={inodes}"));
    }
}

fn fill_a_disk(segment_bytes: u64, disk: &str) {
    let Some(disk) = Tmpfs::mount(disk) else {
        println!("skipped: no right to mount a small disk");
        return;
    };
    let open = |dir: &Path| options().segment_bytes(segment_bytes).open(dir, &who());
    let dir = disk.0.path().join("ledger");
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![1; 64 << 10]).unwrap();
    let ledger = open(&dir).unwrap();
    let (acknowledged, error) = fill(&ledger);
    assert!(matches!(error, AppendError::Poisoned(Poison::ShortWrite { .. } | Poison::Write(_))), "{error}");
    // A file a record takes more room than its bytes.
    assert!(acknowledged.len() > if segment_bytes > 4096 { 50 } else { 20 }, "{}", acknowledged.len());

    // Still full: the torn line cannot be declared, and nothing is made worse by trying.
    for _ in 0..3 {
        match open(&dir) {
            Ok(_) | Err(OpenError::Recovery(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    fs::remove_file(ballast).unwrap();
    open(&dir).unwrap().append(OP, note("afterwards")).unwrap();
    let report = depute_ledger::verify(&dir, &depute_ledger::VerifyOptions::new()).unwrap();
    assert!(report.is_intact(), "{report:#?}");
    let reader = depute_ledger::Reader::open(&dir).unwrap();
    let notes: Vec<_> = reader
        .filter_map(|line| match line.unwrap().record.body {
            Body::Close(close) => Some(close.reason),
            _ => None,
        })
        .collect();
    assert_eq!(notes[..acknowledged.len()], acknowledged);
    assert_eq!(notes.last().unwrap(), "afterwards");
}

#[test]
fn a_read_only_disk_is_read_and_not_written() {
    let Some(disk) = Tmpfs::mount("size=256k,mode=700") else {
        println!("skipped: no right to mount a small disk");
        return;
    };
    let dir = disk.0.path().join("ledger");
    open(&dir).unwrap().append(OP, note("before")).unwrap();
    let remount = |how: &str| {
        let status = Command::new("mount").args(["-o", how]).arg(disk.0.path()).status();
        assert!(status.unwrap().success());
    };
    remount("remount,ro");
    assert!(matches!(open(&dir), Err(OpenError::Io { .. })));
    let report = depute_ledger::verify(&dir, &depute_ledger::VerifyOptions::new()).unwrap();
    assert_eq!(report.findings, []);
    remount("remount,rw");
    open(&dir).unwrap().append(OP, note("after")).unwrap();
}

#[test]
fn below_the_reserve_only_endings_and_refusals_are_written() {
    let place = Place::new();
    let options = OpenOptions::new().reserve(u64::MAX);
    let full = options.open(&place.dir, &who()).unwrap();
    for body in [Body::from(decision(node(1), Verdict::Granted)), spawn(node(1), 0).into()] {
        let error = full.append(OP, body).unwrap_err();
        assert!(matches!(error, AppendError::NoSpace { reserve: u64::MAX, .. }), "{error}");
    }
    assert_eq!(place.records().len(), 1);
    full.append(OP, decision(node(1), Verdict::Refused)).unwrap();
    full.append(OP, decision(node(1), Verdict::Held)).unwrap();
    full.append(OP, exit(node(1))).unwrap();

    let roomy = place.open();
    let seq = roomy.append(OP, decision(node(1), Verdict::Granted)).unwrap().seq;
    roomy.append(OP, spawn(node(1), seq)).unwrap();
}
