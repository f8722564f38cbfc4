//! Ledgers of more than one segment.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use depute_ledger::record::Kind;
use depute_ledger::{Code, OpenError, OpenOptions, Reader, Severity};

use crate::support::*;

/// Three segments: lines 0 to 3, 4 to 7, and 8 on. Each note says in which it is.
fn three() -> Place {
    let place = Place::new();
    let ledger = place.open();
    for segment in 0..3 {
        if segment > 0 {
            assert!(ledger.rotate().unwrap());
        }
        let notes = if segment == 0 { 2 } else { 3 };
        ledger.append_all(OP, (0..notes).map(|i| note(format!("{segment}-{i}")).into()).collect()).unwrap();
    }
    assert_eq!(place.segments(), [name(0), name(4), name(8)]);
    place
}

fn name(first: u64) -> String {
    format!("seg-{first:020}.jsonl")
}

fn damage(place: &Place) -> Vec<Code> {
    let findings = place.verify().findings.into_iter();
    findings.filter(|finding| finding.severity == Severity::Damage).map(|finding| finding.code).collect()
}

fn refusal(place: &Place) -> (Code, Option<u64>) {
    match place.try_open() {
        Err(OpenError::Damaged(finding)) => (finding.code, finding.segment),
        other => panic!("not refused as damaged: {other:?}"),
    }
}

/// Changes the bytes of a file that may not be written.
fn change(place: &Place, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(place.path(name)).unwrap();
    change(&mut bytes);
    fs::remove_file(place.path(name)).unwrap();
    place.write(name, &bytes);
}

#[test]
fn the_chain_runs_through_all_segments() {
    let place = three();
    let lines: Vec<_> = Reader::open(&place.dir).unwrap().map(Result::unwrap).collect();
    let places: Vec<_> = lines.iter().map(|line| (line.seq, line.segment)).collect();
    let segment = |seq: u64| seq / 4 * 4;
    assert_eq!(places, (0..12).map(|seq| (seq, segment(seq))).collect::<Vec<_>>());
    for (before, line) in lines.iter().zip(&lines[1..]) {
        assert_eq!(line.record.prev, before.leaf);
    }
    let firsts: Vec<_> = lines.iter().filter(|line| line.offset == 0).map(|l| l.record.body.kind()).collect();
    assert_eq!(firsts, [Kind::Genesis, Kind::Segment, Kind::Segment]);
    let report = place.verify();
    assert_eq!((report.segments, report.lines, report.findings.len()), (3, 12, 0), "{report:#?}");
    let sizes =
        place.segments().iter().map(|name| fs::metadata(place.path(name)).unwrap().len()).sum::<u64>();
    assert_eq!(report.bytes, sizes);
    // A closed segment cannot be opened to write by mistake.
    let mode = |first| fs::metadata(place.path(&name(first))).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(0), mode(4), mode(8)), (0o400, 0o400, 0o600));
    // The next writer goes on in the newest.
    let receipt = place.open().append(OP, note("on")).unwrap();
    assert_eq!(receipt.seq, 13, "behind its session record");
    assert_eq!(damage(&place), []);
}

#[test]
fn a_segment_is_closed_at_its_length_and_never_empty() {
    let place = Place::new();
    let ledger = OpenOptions::new().reserve(0).segment_bytes(1).open(&place.dir, &who()).unwrap();
    assert!(!ledger.rotate().unwrap(), "there is nothing in it");
    for i in 0..5 {
        ledger.append(OP, note(format!("{i}"))).unwrap();
    }
    // Genesis alone is no reason for another segment; each note after the first is.
    assert_eq!(place.segments().len(), 5);
    assert_eq!(place.notes(), ["0", "1", "2", "3", "4"]);
    assert!(ledger.rotate().unwrap());
    assert!(!ledger.rotate().unwrap());
    assert_eq!(damage(&place), []);
}

#[test]
fn a_writer_follows_to_what_another_has_begun() {
    let place = Place::new();
    let (one, other) = (place.open(), place.open());
    one.append(OP, note("one")).unwrap();
    other.append(OP, note("other")).unwrap();
    for round in 0..3 {
        assert!(one.rotate().unwrap());
        other.append(OP, note(format!("other {round}"))).unwrap();
        assert!(other.rotate().unwrap());
        assert!(one.rotate().is_ok_and(|rotated| !rotated), "it has followed, and nothing is there yet");
        one.append(OP, note(format!("one {round}"))).unwrap();
    }
    assert_eq!(place.segments().len(), 7);
    assert_eq!(place.notes(), ["one", "other", "other 0", "one 0", "other 1", "one 1", "other 2", "one 2"]);
    assert_eq!(damage(&place), []);
}

#[test]
fn opening_holds_the_newest_against_the_one_before_and_reads_no_other() {
    // A byte of an old segment is for the verifier to find.
    let place = three();
    change(&place, &name(0), |bytes| bytes[200] ^= 1);
    place.open().append(OP, note("on")).unwrap();
    assert!(!place.verify().is_intact());
    // So is a byte within the segment before the newest.
    let place = three();
    change(&place, &name(4), |bytes| bytes[200] ^= 1);
    place.open();
    assert!(!place.verify().is_intact());
    // Its length and its last line are held against what the newest says of it.
    let place = three();
    change(&place, &name(4), |bytes| bytes.extend_from_slice(b"{}\n"));
    assert_eq!(refusal(&place), (Code::SegmentInvalid, Some(4)));
    let place = three();
    change(&place, &name(4), |bytes| bytes.truncate(bytes.len() - 5));
    assert_eq!(refusal(&place), (Code::Truncated, Some(4)));
    let place = three();
    change(&place, &name(4), |bytes| {
        let at = bytes.len() - 5;
        bytes[at] ^= 1;
    });
    assert_eq!(refusal(&place), (Code::HeadMismatch, Some(4)));
    let place = three();
    fs::remove_file(place.path(&name(4))).unwrap();
    assert_eq!(refusal(&place), (Code::SegmentMissing, Some(8)));
    // The control: untouched, it opens.
    three().open();
}

#[test]
fn a_segment_that_is_missing_or_foreign_is_found() {
    let place = three();
    fs::remove_file(place.path(&name(0))).unwrap();
    assert!(damage(&place).contains(&Code::SegmentMissing));
    let place = three();
    fs::remove_file(place.path(&name(4))).unwrap();
    assert!(damage(&place).contains(&Code::SegmentMissing));
    // Reading gives what is before, and then says so.
    let read: Vec<_> = Reader::open(&place.dir).unwrap().collect();
    assert_eq!((read.len(), read.iter().filter(|line| line.is_err()).count()), (5, 1));
    // The newest one is known by `head`.
    let place = three();
    fs::remove_file(place.path(&name(8))).unwrap();
    assert_eq!(damage(&place), [Code::SegmentMissing]);
    assert_eq!(refusal(&place).0, Code::SegmentMissing);
    // One of another ledger, under a name that fits.
    let (place, other) = (three(), three());
    let foreign = fs::read(other.path(&name(8))).unwrap();
    change(&place, &name(8), |bytes| *bytes = foreign);
    assert!(!place.verify().is_intact());
    place.forget_head();
    assert!(place.try_open().is_err());
    // One between two others.
    let place = three();
    place.write(&name(6), &fs::read(place.path(&name(4))).unwrap());
    assert!(damage(&place).contains(&Code::SegmentMissing));
    // Other names mean nothing.
    let place = three();
    place.write("seg-4.jsonl", b"x");
    place.write("seg-00000000000000000012.tmp", b"x");
    assert_eq!(damage(&place), []);
    place.open().append(OP, note("on")).unwrap();
}

#[test]
fn a_crash_at_any_step_of_closing_loses_nothing() {
    let place = Place::with_notes(3);
    let (segment, head) = (place.segment(), fs::read(place.path("head")).unwrap());
    assert!(place.open().rotate().unwrap());
    let next = place.segments().pop().unwrap();
    let first_line = fs::read(place.path(&next)).unwrap();
    let before = || {
        let copy = Place::with_segment(&segment);
        copy.write("head", &head);
        copy.write("key", &fs::read(place.path("key")).unwrap());
        copy
    };
    // The new segment has no name yet: whatever is of it is forgotten.
    for cut in [0, 1, first_line.len() / 2, first_line.len()] {
        let copy = before();
        copy.write(&next.replace(".jsonl", ".tmp"), &first_line[..cut]);
        assert!(copy.open().rotate().unwrap());
        copy.open().append(OP, note("on")).unwrap();
        assert_eq!((copy.segments().len(), damage(&copy).len()), (2, 0));
    }
    // It has its name, `head` does not know it, and the old one can still be written.
    let copy = before();
    copy.write(&next, &first_line);
    let ledger = copy.open();
    ledger.append(OP, note("on")).unwrap();
    assert_eq!(copy.notes(), ["note 0", "note 1", "note 2", "on"]);
    assert_eq!(copy.segment(), segment, "nothing more is appended to the old one");
    assert_eq!((copy.segments().len(), damage(&copy).len()), (2, 0));
    // An unfinished line is declared before its segment is closed.
    let copy = before();
    copy.write(SEGMENT, &[&segment[..], b"{\"v\":0,\"pre"].concat());
    assert!(copy.open().rotate().unwrap());
    let report = copy.verify();
    assert_eq!((report.is_intact(), report.torn.len(), report.segments), (true, 1, 2), "{report:#?}");
    // One in the newest segment is declared there.
    copy.open().append(OP, note("on")).unwrap();
    let newest = copy.segments().pop().unwrap();
    let whole = fs::read(copy.path(&newest)).unwrap();
    for cut in whole.len() - 20..whole.len() {
        let torn = Place::new();
        fs::create_dir(&torn.dir).unwrap();
        fs::set_permissions(&torn.dir, fs::Permissions::from_mode(0o700)).unwrap();
        torn.write(SEGMENT, &copy.segment());
        torn.write(&newest, &whole[..cut]);
        torn.open().append(OP, note("afterwards")).unwrap();
        assert!(torn.verify().is_intact(), "cut at {cut}");
    }
}

#[test]
fn what_a_segment_record_says_is_held_against_what_is_there() {
    let whole = three();
    let (first, second) = (whole.segment(), fs::read(whole.path(&name(4))).unwrap());
    let forged = |change: &dyn Fn(&str) -> String| {
        let mut lines = split(&second);
        lines[0] = change(str::from_utf8(&lines[0]).unwrap()).into_bytes();
        // The links are whoever's who writes the file.
        relink(&mut lines, 1);
        let place = Place::with_segment(&first);
        place.write(&name(4), &join(&lines));
        damage(&place)
    };
    let size = format!("\"size\":{}", first.len());
    assert_eq!(forged(&str::to_owned), [], "as it is written");
    let other_log = |line: &str| {
        let at = line.find("\"log\":\"").unwrap() + 7;
        format!("{}{}{}", &line[..at], OP, &line[at + 36..])
    };
    for change in [
        &other_log as &dyn Fn(&str) -> String,
        &|line| line.replace("\"previous\":0", "\"previous\":1"),
        &|line| line.replace(&size, "\"size\":1"),
        &|line| {
            line.replace("\"kind\":\"segment\"", "\"kind\":\"close\"")
                .split("\"body\"")
                .next()
                .unwrap()
                .to_owned()
                + "\"body\":{\"reason\":\"x\"}}"
        },
    ] {
        assert_eq!(forged(change), [Code::SegmentInvalid]);
    }
    // Such a record within a segment is none.
    let mut lines = split(&first);
    let inside = String::from_utf8(split(&second)[0].clone()).unwrap().replace("\"seq\":4", "\"seq\":3");
    lines[3] = inside.into_bytes();
    relink(&mut lines, 3);
    assert_eq!(damage(&Place::with_segment(&join(&lines))), [Code::SegmentInvalid]);
}
