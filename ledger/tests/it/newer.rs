//! Ledgers that a newer version wrote: each is refused as that, and left alone.

use std::fs;

use depute_ledger::{
    AppendError, Code, Newer, OpenError, Poison, ReadError, Reader, VerifyError, VerifyOptions, verify,
};

use crate::support::*;

/// Expects everyone to say that the ledger is newer, and nobody to write.
fn refused(place: &Place, what: &str, expected: &Newer) {
    // Every ledger has one by the time that it is opened.
    place.write("lock", b"");
    let before = place.everything();
    match place.try_open() {
        Err(OpenError::Newer(newer)) => assert_eq!(newer, *expected, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
    assert!(
        matches!(verify(&place.dir, &VerifyOptions::new()), Err(VerifyError::Newer(n)) if n == *expected)
    );
    let read: Result<Vec<_>, ReadError> = match Reader::open(&place.dir) {
        Ok(reader) => reader.collect(),
        Err(error) => Err(error.into()),
    };
    assert!(matches!(read, Err(ReadError::Access(VerifyError::Newer(n))) if n == *expected), "{what}");
    assert!(place.everything() == before, "something was written: {what}");
}

/// The ledger with line `at` changed, linked again behind it, and a `head` that knows all of it.
fn with(place: &Place, at: usize, from: &str, to: &str) -> Place {
    let mut lines = place.lines();
    let line = String::from_utf8(lines[at].clone()).unwrap();
    assert!(line.contains(from), "{line}");
    lines[at] = line.replacen(from, to, 1).into_bytes();
    relink(&mut lines, at + 1);
    let changed = place.copy();
    changed.write(SEGMENT, &join(&lines));
    // A line that is not understood cannot be in `head` either: it knows the one before.
    changed.set_head(&lines, at.saturating_sub(1), None);
    changed
}

#[test]
fn a_newer_version_is_refused_as_one_wherever_it_begins() {
    let place = Place::with_notes(3);
    let last = place.lines().len() - 1;
    let version = Newer::Version { found: 1 };
    for at in 0..=last {
        let mut newer = with(&place, at, "{\"v\":0", "{\"v\":1");
        if at == 0 {
            newer.forget_head();
        }
        refused(&newer, &format!("line {at}"), &version);
        // The same line, as it was.
        newer = with(&place, at, "{\"v\":0", "{\"v\":0");
        newer.open().append(OP, note("control")).unwrap();
    }
    // Also where it begins with a segment.
    let place = Place::with_notes(3);
    assert!(place.open().rotate().unwrap());
    let newest = place.segments().pop().unwrap();
    let line = fs::read(place.path(&newest)).unwrap();
    place.write(&newest, &[b"{\"v\":1", &line[6..]].concat());
    place.forget_head();
    refused(&place, "segment", &version);
    place.write(&newest, &line);
    place.open().append(OP, note("control")).unwrap();
}

#[test]
fn a_segment_that_a_newer_version_began_is_refused_as_newer() {
    let place = Place::with_notes(3);
    assert!(place.open().rotate().unwrap());
    let newest = place.segments().pop().unwrap();
    let line = fs::read_to_string(place.path(&newest)).unwrap();
    place.write(&newest, line.replace("\"kind\":\"segment\"", "\"kind\":\"section\"").as_bytes());
    place.forget_head();
    refused(&place, "segment", &Newer::Kind { seq: 5, kind: "section".to_owned() });
    place.write(&newest, line.as_bytes());
    place.open().append(OP, note("control")).unwrap();
}

#[test]
fn a_kind_that_is_not_known_is_refused_as_newer_and_not_as_damage() {
    let place = Place::with_notes(3);
    for at in 1..place.lines().len() {
        let line = String::from_utf8(place.lines()[at].clone()).unwrap();
        let (_, rest) = line.split_once("\"kind\":\"").unwrap();
        let kind = rest.split_once('"').unwrap().0;
        let (from, to) =
            (format!("\"kind\":\"{kind}\",\"body\":{{"), "\"kind\":\"seal\",\"body\":{\"root\":1,");
        let newer = with(&place, at, &from, to);
        refused(&newer, &line, &Newer::Kind { seq: at as u64, kind: "seal".to_owned() });
        with(&place, at, &from, &from).open().append(OP, note("control")).unwrap();
    }
}

#[test]
fn a_kind_that_is_not_known_excuses_no_damage() {
    // The same change without a link made good behind it is one somebody made.
    let place = Place::with_notes(4);
    let text = String::from_utf8(place.segment()).unwrap();
    place.write(SEGMENT, text.replacen("\"close\"", "\"seals\"", 1).as_bytes());
    assert!(place.try_open().is_err());
    let report = place.verify();
    let codes: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::LineKind, Code::LinkBroken]);
    // Nor is a line in the wrong place excused by its kind.
    let mut lines = Place::with_notes(4).lines();
    lines[3] = String::from_utf8(lines[3].clone()).unwrap().replace("\"close\"", "\"seal\"").into_bytes();
    let digit = &mut lines[3][20];
    *digit = if *digit == b'0' { b'1' } else { b'0' };
    relink(&mut lines, 4);
    let place = Place::with_segment(&join(&lines));
    assert!(matches!(place.try_open(), Err(OpenError::Damaged(f)) if f.code == Code::LinkBroken));
    assert_eq!(place.verify().damage, 1);
}

#[test]
fn a_running_writer_stops_at_what_a_newer_one_appended() {
    let place = Place::with_notes(2);
    let ledger = place.open();
    ledger.append(OP, note("mine")).unwrap();
    place.open().append(OP, note("other")).unwrap();
    let mut lines = place.lines();
    let last = lines.len() - 1;
    lines[last] =
        String::from_utf8(lines[last].clone()).unwrap().replace("\"close\"", "\"seal\"").into_bytes();
    place.write(SEGMENT, &join(&lines));
    place.set_head(&lines, last - 1, None);
    let before = place.segment();
    let error = ledger.append(OP, note("mine again")).unwrap_err();
    let kind = Newer::Kind { seq: last as u64, kind: "seal".to_owned() };
    assert!(matches!(&error, AppendError::Poisoned(Poison::Newer(newer)) if *newer == kind), "{error}");
    assert_eq!(place.segment(), before);
}
