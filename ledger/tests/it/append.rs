//! What appending promises when nothing goes wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use depute_ledger::record::*;
use depute_ledger::{AppendError, Body, Code, OpenError, OpenOptions, Reader, Severity};
use uuid::Uuid;

use crate::support::*;

#[test]
fn a_new_ledger_is_private_and_holds_only_its_genesis() {
    let place = Place::new();
    let nested = place.dir.join("a/b");
    let ledger = open(&nested).unwrap();
    for (path, mode) in [
        (place.dir.clone(), 0o700),
        (nested.clone(), 0o700),
        (nested.join("objects"), 0o700),
        (nested.join(SEGMENT), 0o600),
        (nested.join("lock"), 0o600),
        (nested.join("head"), 0o600),
        (nested.join("key"), 0o600),
    ] {
        let found = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{}", path.display());
    }
    let records: Vec<_> = Reader::open(&nested).unwrap().map(Result::unwrap).collect();
    assert_eq!(records.len(), 1);
    let Body::Genesis(genesis) = &records[0].record.body else {
        panic!("first record is {:?}", records[0].record);
    };
    assert_eq!(genesis.log, ledger.id());
    assert_eq!(fs::metadata(nested.join("key")).unwrap().len(), 32);
}

#[test]
fn opening_again_writes_nothing_and_the_session_comes_with_the_first_record() {
    let place = Place::new();
    let id = place.open().id();
    let before = place.segment();
    let ledger = place.open();
    assert_eq!(ledger.id(), id);
    assert_eq!(place.segment(), before);

    let receipt = ledger.append(OP, note("one")).unwrap();
    ledger.append(OP, note("two")).unwrap();
    let records = place.records();
    let kinds: Vec<_> = records.iter().map(|r| r.body.kind()).collect();
    assert_eq!(kinds, [Kind::Genesis, Kind::Session, Kind::Close, Kind::Close]);
    let Body::Session(session) = &records[1].body else {
        panic!("{:?}", records[1]);
    };
    assert_eq!(session.pid, std::process::id());
    assert_eq!(session.login.as_deref(), Some("tester"));
    assert_eq!(records[1].op, ledger.writer());
    assert_eq!((records[2].op, records[2].w), (OP, ledger.writer()));
    assert_eq!(receipt.seq, 2);
}

#[test]
fn a_receipt_leads_to_the_line() {
    let place = Place::new();
    let ledger = place.open();
    let recorded = ledger.record(OP, "plan", |plan| note(*plan).into()).unwrap();
    let receipt = recorded.receipt();
    let line = Reader::open(&place.dir).unwrap().map(Result::unwrap).last().unwrap();
    assert_eq!((line.seq, line.offset, line.leaf), (receipt.seq, receipt.offset, receipt.leaf));
    let from = usize::try_from(receipt.offset).unwrap();
    assert_eq!(place.segment()[from..].strip_suffix(b"\n"), Some(&line.bytes[..]));
    assert_eq!(*recorded.value(), "plan");
    assert_eq!(recorded.into_inner(), "plan");
}

#[test]
fn two_handles_on_one_ledger_take_turns() {
    let place = Place::new();
    let (a, b) = (place.open(), place.open());
    for i in 0..4 {
        a.append(OP, note(format!("a{i}"))).unwrap();
        b.append(OP, note(format!("b{i}"))).unwrap();
    }
    assert_eq!(place.notes(), ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]);
    assert!(place.verify().is_intact());
}

#[test]
fn what_does_not_fit_a_line_is_refused_before_anything_is_written() {
    let place = Place::new();
    let ledger = place.open();
    ledger.append(OP, note("first")).unwrap();
    let before = place.segment();

    let error = ledger.append(OP, note("x".repeat(LINE_LIMIT))).unwrap_err();
    assert!(matches!(error, AppendError::TooLong { kind: Kind::Close, len } if len > 65_535));
    // The good record before it in the same call is not written either.
    let both = vec![note("good").into(), note("x".repeat(LINE_LIMIT)).into()];
    assert!(matches!(ledger.append_all(OP, both), Err(AppendError::TooLong { .. })));
    let mut exit = exit(node(1));
    exit.duration_ms = INTEGER_LIMIT;
    assert!(matches!(ledger.append(OP, exit.clone()), Err(AppendError::Integer { kind: Kind::Exit, .. })));
    let recovery =
        Recovery { line: 0, len: 0, sha256: depute_ledger::Digest::of(b""), reason: RecoveryReason::Torn };
    assert!(matches!(ledger.append(OP, recovery), Err(AppendError::Reserved { kind: Kind::Recovery })));
    assert_eq!(place.segment(), before);

    // The very limits are fine, and the writer is none the worse.
    exit.duration_ms = INTEGER_LIMIT - 1;
    ledger.append(OP, exit).unwrap();
    let empty = place.segment().len();
    ledger.append(OP, note("")).unwrap();
    let overhead = place.segment().len() - empty - 1;
    // `seq` and `mono` may have grown a digit by then.
    ledger.append(OP, note("x".repeat(LINE_LIMIT - overhead - 2))).unwrap();
    assert!(place.verify().is_intact());
}

#[test]
fn disturbing_characters_are_escaped_in_the_file_and_come_back_whole() {
    let place = Place::new();
    let ledger = place.open();
    let text = "a\u{0}\u{1b}[31m\u{7f}\u{85}\u{2028}\u{202e}\u{2066}\u{200f}\"\\é日本";
    ledger.append(OP, note(text)).unwrap();
    let raw = String::from_utf8(place.segment()).unwrap();
    for escaped in ["\\u0000", "\\u001b", "\\u007f", "\\u0085", "\\u2028", "\\u202e", "\\u2066"] {
        assert!(raw.contains(escaped), "{escaped}");
    }
    assert!(raw.contains("é日本"));
    assert!(raw.chars().all(|c| c == '\n' || !c.is_control()));
    assert_eq!(place.notes(), [text]);
    assert!(place.verify().is_intact());
}

#[test]
fn the_lock_is_waited_for_and_no_longer_than_allowed() {
    let place = Place::new();
    let ledger =
        OpenOptions::new().reserve(0).lock_wait(Duration::from_millis(20)).open(&place.dir, &who()).unwrap();
    let lock = fs::File::open(place.path("lock")).unwrap();
    lock.lock().unwrap();
    let before = place.segment();
    let error = ledger.append(OP, note("kept out")).unwrap_err();
    assert!(matches!(&error, AppendError::Busy { path, .. } if *path == place.path("lock")));
    let options = OpenOptions::new().lock_wait(Duration::from_millis(20));
    assert!(matches!(options.open(&place.dir, &who()), Err(OpenError::Busy { .. })));
    assert_eq!(place.segment(), before);

    lock.unlock().unwrap();
    ledger.append(OP, note("let in")).unwrap();
    assert_eq!(place.notes(), ["let in"]);
}

#[test]
fn a_head_that_somebody_holds_stops_nobody() {
    let place = Place::new();
    let ledger = place.open();
    ledger.append(OP, note("before")).unwrap();
    let head = fs::File::open(place.path("head")).unwrap();
    head.lock().unwrap();
    let before = fs::read(place.path("head")).unwrap();
    ledger.append(OP, note("meanwhile")).unwrap();
    assert_eq!(fs::read(place.path("head")).unwrap(), before);
    head.unlock().unwrap();
    ledger.append(OP, note("after")).unwrap();
    assert_ne!(fs::read(place.path("head")).unwrap(), before);
    assert_eq!(place.verify().findings, []);
}

#[test]
fn the_report_tells_what_the_records_say() {
    let place = Place::new();
    let ledger = place.open();
    let append = |body: Body| ledger.append(OP, body).unwrap().seq;
    let granted = append(decision(node(1), Verdict::Granted).into());
    append(decision(node(2), Verdict::Refused).into());
    append(decision(node(3), Verdict::Held).into());
    append(spawn(node(1), granted).into());
    append(exit(node(1)).into());
    let clean = place.verify();
    assert_eq!(clean.findings, []);
    let s = &clean.semantics;
    assert_eq!((s.granted, s.held, s.refused, s.spawns, s.sessions), (1, 1, 1, 1, 1));
    assert_eq!(clean.leaf, Reader::open(&place.dir).unwrap().last().map(|l| l.unwrap().leaf));

    // The same decision again, a decision about another node, and a refused one.
    append(spawn(node(1), granted).into());
    let other = append(decision(node(4), Verdict::Granted).into());
    append(spawn(node(5), other).into());
    let refused = append(decision(node(6), Verdict::Refused).into());
    let last = append(spawn(node(6), refused).into());
    let report = place.verify();
    assert!(report.is_intact());
    assert_eq!(report.semantics.spawns_undecided, 3);
    let unknown: Vec<_> = report.semantics.outcome_unknown.iter().map(|s| s.node).collect();
    assert_eq!(unknown, [node(1), node(5), node(6)]);
    assert!(
        report.findings.iter().any(|f| f.code == Code::SpawnUndecided
            && f.severity == Severity::Warning
            && f.seq == Some(last))
    );
}

#[test]
fn a_key_makes_digests_that_only_it_can_repeat() {
    let (one, two) = (Place::new(), Place::new());
    let digest = one.open().keyed_digest(b"task");
    assert_eq!(one.open().keyed_digest(b"task"), digest);
    assert_ne!(one.open().keyed_digest(b"other"), digest);
    assert_ne!(two.open().keyed_digest(b"task"), digest);
}

#[test]
fn a_call_larger_than_a_batch_and_many_small_ones_all_arrive() {
    let place = Place::new();
    let ledger = place.open();
    let many: Vec<Body> = (0..300).map(|i| note(format!("{i} {}", "x".repeat(1000))).into()).collect();
    let receipts = ledger.append_all(Uuid::now_v7(), many).unwrap();
    assert_eq!(receipts.len(), 300);
    assert!(receipts.windows(2).all(|w| w[0].seq + 1 == w[1].seq));
    assert_eq!(ledger.append_all(OP, Vec::new()).unwrap(), []);
    assert_eq!(place.notes().len(), 300);
}
