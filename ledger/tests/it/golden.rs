//! A ledger written once, which must read for as long as version 0 is read.
//!
//! To write it anew while version 0 may still change, remove `tests/data/v0` and run
//! `LEDGER_TEST_ROLE='write the golden ledger' LEDGER_TEST_DIR=tests/data/v0 cargo test play_role`.

use std::fs;
use std::path::Path;

use depute_ledger::record::*;
use depute_ledger::{Digest, Reader, VerifyOptions, verify};

use crate::support::*;

fn dir() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/v0"))
}

pub fn write(dir: &Path) {
    let ledger = open(dir).unwrap();
    let mut body = decision(node(1), Verdict::Granted);
    body.task.digest = Some(ledger.keyed_digest(b"review it"));
    body.inputs.policy = Some(ledger.put_object(b"grants: []\n").unwrap());
    let decided = ledger.append(OP, body).unwrap().seq;
    let approval = Approval {
        capability: "fs.read:src".to_owned(),
        subject: "reviewer".to_owned(),
        tree: Some(Digest::of(b"tree")),
        plan: None,
        scope: ApprovalScope::Session,
        outcome: ApprovalOutcome::NobodyThere,
        approver: None,
        strength: None,
    };
    ledger.append(OP, approval).unwrap();
    ledger.append(OP, spawn(node(1), decided)).unwrap();
    let spawned = Spawned { node: node(1), pid: 4242, start: 123_456 };
    ledger.append(OP, spawned).unwrap();
    ledger.append(OP, exit(node(1))).unwrap();
    ledger.append(OP, note("line\u{2028}é\u{202e}\u{1b}[0m")).unwrap();
    let segment = dir.join(SEGMENT);
    let torn = [&fs::read(&segment).unwrap()[..], b"{\"v\":0,\"pre"].concat();
    fs::write(&segment, torn).unwrap();
    ledger.append(OP, note("after a crash")).unwrap();
    for name in ["lock", "key"] {
        fs::remove_file(dir.join(name)).unwrap();
    }
}

/// Two segments, the first of which is the golden ledger.
pub fn write_segments(dir: &Path) {
    write(dir);
    let ledger = open(dir).unwrap();
    assert!(ledger.rotate().unwrap());
    ledger.append(OP, note("in the second segment")).unwrap();
    for name in ["lock", "key"] {
        fs::remove_file(dir.join(name)).unwrap();
    }
}

#[test]
fn the_golden_segments_read_and_verify() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/v0-segments"));
    let report = verify(dir, &VerifyOptions::new()).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!((report.segments, report.lines, report.torn.len()), (2, 14, 1));
    let lines: Vec<_> = Reader::open(dir).unwrap().map(Result::unwrap).collect();
    let last = &lines[lines.len() - 3..];
    let kinds: Vec<_> = last.iter().map(|line| (line.segment, line.record.body.kind())).collect();
    assert_eq!(kinds, [(11, Kind::Segment), (11, Kind::Session), (11, Kind::Close)]);
}

/// A ledger that a program without segments has written goes on in this one.
#[test]
fn an_older_ledger_goes_on() {
    let place = Place::with_segment(&fs::read(dir().join(SEGMENT)).unwrap());
    place.write("head", &fs::read(dir().join("head")).unwrap());
    let ledger = place.open();
    assert!(ledger.rotate().unwrap());
    ledger.append(OP, note("on")).unwrap();
    assert_eq!(place.segments().len(), 2);
    let report = depute_ledger::verify(&place.dir, &VerifyOptions::new().objects(false)).unwrap();
    assert!(report.is_intact(), "{report:#?}");
}

#[test]
fn the_golden_ledger_reads_and_verifies() {
    let report = verify(dir(), &VerifyOptions::new()).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!((report.lines, report.torn.len()), (11, 1));
    assert_eq!(report.semantics.objects, 1);
    let lines: Vec<_> = Reader::open(dir()).unwrap().map(Result::unwrap).collect();
    let kinds: Vec<_> = lines.iter().map(|line| line.record.body.kind()).collect();
    assert_eq!(
        kinds,
        [
            Kind::Genesis,
            Kind::Session,
            Kind::Decision,
            Kind::Approval,
            Kind::Spawn,
            Kind::Spawned,
            Kind::Exit,
            Kind::Close,
            Kind::Recovery,
            Kind::Close,
        ]
    );
    for line in lines {
        let mut bytes = Vec::new();
        line.record.encode(&mut bytes).unwrap();
        assert_eq!(bytes, line.bytes);
    }
}
