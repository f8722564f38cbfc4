//! Lines that link perfectly and are still not what the format allows.

use std::path::Path;

use depute_ledger::{Code, OpenError, ReadError, Reader, VerifyOptions, decode_line, verify};

use crate::support::*;

const AT: usize = 4;

/// Puts `line` in the place of a good one, links everything behind it, and expects it refused.
fn refused(line: &[u8]) -> Code {
    let mut lines = Place::with_notes(6).lines();
    lines[AT] = line.to_vec();
    relink(&mut lines, AT);
    let line = lines[AT].clone();
    let place = Place::with_segment(&join(&lines));
    let shown = String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned();
    assert!(decode_line(&line).is_err(), "{shown}");
    let report = place.verify();
    assert_eq!(report.damage, 1, "{shown}: {report:#?}");
    let finding = report.findings.iter().find(|f| f.seq.is_some()).unwrap().clone();
    assert_eq!(finding.seq, Some(AT as u64), "{shown}");
    assert_eq!(finding.offset, Some(join(&lines[..AT]).len() as u64));
    assert!(!finding.message.chars().any(char::is_control), "{finding}");
    match place.try_open() {
        Err(OpenError::Damaged(found)) => assert_eq!(*found, finding),
        other => panic!("{shown}: {other:?}"),
    }
    let read: Vec<_> = Reader::open(&place.dir).unwrap().collect();
    assert_eq!(read.iter().filter(|line| line.is_ok()).count(), AT);
    assert!(matches!(read.last(), Some(Err(ReadError::Damaged(_)))));
    finding.code
}

fn good_line() -> String {
    String::from_utf8(Place::with_notes(6).lines()[AT].clone()).unwrap()
}

fn changed(from: &str, to: &str) -> Code {
    let line = good_line();
    assert!(line.contains(from), "{line}");
    refused(line.replacen(from, to, 1).as_bytes())
}

#[test]
fn a_relinked_ledger_without_a_change_is_intact() {
    let mut lines = Place::with_notes(6).lines();
    let before = lines.clone();
    relink(&mut lines, 1);
    assert_eq!(lines, before);
    let place = Place::with_segment(&join(&lines));
    assert!(place.verify().is_intact());
    place.open().append(OP, note("control")).unwrap();
}

#[test]
fn what_a_lenient_parser_would_pass_is_refused() {
    for (from, to, code) in [
        // The three that canonical form alone closes.
        ("\"kind\"", "\"extra\":1,\"kind\"", Code::LineMalformed),
        ("\"kind\"", "\"\\u006bind\"", Code::LineNotCanonical),
        ("}}", "}}\r", Code::LineNotCanonical),
        // Keys.
        ("\"kind\"", "\"seq\":4,\"kind\"", Code::LineMalformed),
        ("\"reason\":", "\"reason\":\"a\",\"reason\":", Code::LineMalformed),
        ("\"reason\":", "\"extra\":null,\"reason\":", Code::LineMalformed),
        // Whitespace and escapes.
        ("\"kind\":", "\"kind\": ", Code::LineNotCanonical),
        ("}}", "}} ", Code::LineNotCanonical),
        ("{\"v\"", " {\"v\"", Code::LineNotCanonical),
        ("note 2", "n\\u006fte 2", Code::LineNotCanonical),
        ("note 2", "n\\/te 2", Code::LineNotCanonical),
        ("note 2", "note\u{2028}2", Code::LineNotCanonical),
        ("note 2", "note\u{85}2", Code::LineNotCanonical),
        ("note 2", "note\u{202e}2", Code::LineNotCanonical),
        ("note 2", "note\\u001B2", Code::LineNotCanonical),
        ("note 2", "note\u{1}2", Code::LineMalformed),
        ("note 2", "\\ud800", Code::LineMalformed),
        // Numbers.
        ("\"seq\":4", "\"seq\":4.0", Code::LineMalformed),
        ("\"seq\":4", "\"seq\":4e0", Code::LineMalformed),
        ("\"seq\":4", "\"seq\":04", Code::LineMalformed),
        ("\"seq\":4", "\"seq\":-4", Code::LineMalformed),
        ("\"seq\":4", "\"seq\":9007199254740992", Code::LineMalformed),
        ("\"seq\":4", "\"seq\":99999999999999999999999", Code::LineMalformed),
        ("\"seq\":4", "\"seq\":NaN", Code::LineMalformed),
        // Forms that mean the same.
        ("Z\",\"mono\"", "0Z\",\"mono\"", Code::LineNotCanonical),
        ("Z\",\"mono\"", "+00:00\",\"mono\"", Code::LineNotCanonical),
        ("{\"reason\":\"note 2\"}", "[\"note 2\"]", Code::LineNotCanonical),
        // Values.
        ("\"close\"", "\"Unheard of\"", Code::LineMalformed),
        ("\"close\"", "\"exit\"", Code::LineMalformed),
        ("}}", "}}{}", Code::LineMalformed),
        ("}}", "}", Code::LineMalformed),
        ("{\"v\":0", "\u{feff}{\"v\":0", Code::LineMalformed),
        ("{\"v\":0", "{\"v\":00", Code::LineMalformed),
    ] {
        assert_eq!(changed(from, to), code, "`{from}` to `{to}`");
    }
}

#[test]
fn a_number_that_does_not_follow_is_refused_though_all_links_are_good() {
    for wrong in [3, 5, 0] {
        let mut lines = Place::with_notes(6).lines();
        let line = good_line().replace("\"seq\":4", &format!("\"seq\":{wrong}"));
        assert!(decode_line(line.as_bytes()).is_ok());
        lines[AT] = line.into_bytes();
        relink(&mut lines, AT);
        let place = Place::with_segment(&join(&lines));
        let findings = place.verify().findings;
        let found = findings.iter().find(|f| f.code == Code::SeqBroken).unwrap();
        assert_eq!((found.seq, found.actual.clone()), (Some(4), Some(wrong.to_string())));
        assert!(place.try_open().is_err());
    }
}

#[test]
fn reordered_keys_are_refused() {
    let line = good_line();
    let (w, rest) = line.split_once("\"w\":").unwrap().1.split_once(',').unwrap();
    let (op, _) = rest.split_once("\"op\":").unwrap().1.split_once(',').unwrap();
    let from = format!("\"w\":{w},\"op\":{op}");
    let to = format!("\"op\":{op},\"w\":{w}");
    assert_eq!(refused(line.replace(&from, &to).as_bytes()), Code::LineNotCanonical);
}

#[test]
fn an_absent_key_is_not_a_null_one() {
    let place = Place::new();
    place.open().append(OP, note("x")).unwrap();
    let session = String::from_utf8(place.lines()[1].clone()).unwrap();
    assert!(decode_line(session.as_bytes()).is_ok());
    let without = session.replace("\"tty\":null,", "");
    assert_ne!(without, session);
    assert!(decode_line(without.as_bytes()).is_err());
}

#[test]
fn lines_that_are_no_text_at_all_are_refused() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep_body = good_line().replace("\"note 2\"", &deep);
    let long = good_line().replace("note 2", &"x".repeat(70_000));
    for (line, code) in [
        (&b""[..], Code::LineMalformed),
        (b"\0", Code::LineMalformed),
        (&[0; 4096], Code::LineMalformed),
        (b"\xff\xfe", Code::LineMalformed),
        (b"\r", Code::LineMalformed),
        (b"null", Code::LineMalformed),
        (deep.as_bytes(), Code::LineMalformed),
        (deep_body.as_bytes(), Code::LineMalformed),
        (long.as_bytes(), Code::LineTooLong),
    ] {
        assert_eq!(refused(line), code);
    }
}

#[test]
fn genesis_stands_first_and_only_there() {
    let lines = Place::with_notes(3).lines();
    let text = |i: usize| String::from_utf8(lines[i].clone()).unwrap();

    let mut twice = lines.clone();
    twice[3] = text(0).replace("\"seq\":0", "\"seq\":3").into_bytes();
    relink(&mut twice, 3);
    let found = Place::with_segment(&join(&twice)).verify().findings;
    assert!(found.iter().any(|f| f.code == Code::GenesisInvalid && f.seq == Some(3)));

    let mut none = lines[1..2].to_vec();
    none[0] = text(1).replace("\"seq\":1", "\"seq\":0").into_bytes();
    none[0][15..79].fill(b'0');
    let place = Place::with_segment(&join(&none));
    assert!(place.verify().findings.iter().any(|f| f.code == Code::GenesisMissing));
    assert!(place.try_open().is_err());

    let mut other = lines.clone();
    other[0] = text(0).replace("65535", "65536").into_bytes();
    relink(&mut other, 1);
    let found = Place::with_segment(&join(&other)).verify().findings;
    assert!(found.iter().any(|f| f.code == Code::GenesisInvalid && f.seq == Some(0)));
}

#[test]
fn a_recovery_record_excuses_nothing_but_the_torn_line_before_it() {
    let place = Place::with_notes(3);
    let good = place.segment();
    place.write(SEGMENT, &[&good[..], b"torn"].concat());
    drop(place.open());
    let lines = place.lines();
    assert!(place.verify().is_intact());
    let at = lines.len() - 1;
    let record = String::from_utf8(lines[at].clone()).unwrap();
    for (from, to) in
        [("\"len\":4", "\"len\":5"), ("\"line\":5", "\"line\":4"), ("\"torn\"", "\"completed\"")]
    {
        let mut changed = lines.clone();
        changed[at] = record.replace(from, to).into_bytes();
        assert_ne!(changed[at], lines[at]);
        let place = Place::with_segment(&join(&changed));
        assert!(!place.verify().is_intact(), "{from}");
        assert!(place.try_open().is_err());
    }
    // The same record where nothing is torn.
    let mut changed = lines.clone();
    changed.remove(at - 1);
    changed[at - 1] = record.replace("\"seq\":6", "\"seq\":5").into_bytes();
    relink(&mut changed, at - 1);
    let found = Place::with_segment(&join(&changed)).verify().findings;
    assert!(found.iter().any(|f| f.code == Code::RecoveryFalse), "{found:#?}");
}

#[test]
fn a_recovery_record_excuses_no_first_line_of_a_segment() {
    // Of the first segment, and of a further one: no crash leaves one without its first line.
    let place = Place::with_notes(2);
    let torn = [&place.segment()[..], b"torn"].concat();
    place.write(SEGMENT, &torn);
    assert!(place.open().rotate().unwrap());
    let lines = place.lines();
    let recovery = String::from_utf8(lines.last().unwrap().clone()).unwrap();
    assert!(recovery.contains("\"reason\":\"torn\""));
    let declares = |seq: usize, first: &[u8]| {
        let mut line = recovery.replace("\"seq\":5", &format!("\"seq\":{}", seq + 1));
        line = line.replace("\"line\":4", &format!("\"line\":{seq}"));
        let digest = depute_ledger::Digest::of(b"torn").to_string();
        line = line.replace(&digest, &depute_ledger::Digest::of(first).to_string());
        line = line.replace("\"len\":4", &format!("\"len\":{}", first.len()));
        let mut lines = vec![first.to_vec(), line.into_bytes()];
        relink(&mut lines, 1);
        join(&lines)
    };
    let forged = Place::with_segment(&declares(0, b"garbage"));
    assert!(!forged.verify().is_intact(), "{:#?}", forged.verify());
    assert!(forged.try_open().is_err());
    assert!(Reader::open(&forged.dir).unwrap().any(|line| line.is_err()));

    let next = place.segments().pop().unwrap();
    let forged = place.copy();
    forged.forget_head();
    forged.write(&next, &declares(lines.len(), b"garbage"));
    assert!(!forged.verify().is_intact(), "{:#?}", forged.verify());
    assert!(forged.try_open().is_err());
    assert!(Reader::open(&forged.dir).unwrap().any(|line| line.is_err()));
    // Neither is a piece of one, or nothing.
    for piece in [&b"{\"v\":0"[..], b""] {
        forged.write(&next, piece);
        assert!(!forged.verify().is_intact(), "{:#?}", forged.verify());
        assert!(forged.try_open().is_err());
        assert_eq!(std::fs::read(forged.path(&next)).unwrap(), piece);
    }
    // The control: as it was.
    forged.write(&next, &std::fs::read(place.path(&next)).unwrap());
    forged.open().append(OP, note("control")).unwrap();
}

#[test]
fn a_clock_that_goes_back_is_a_warning() {
    let place = Place::with_notes(3);
    let mut lines = place.lines();
    let text = String::from_utf8(lines[3].clone()).unwrap();
    let (before, rest) = text.split_once("\"ts\":\"").unwrap();
    let after = &rest[27..];
    lines[3] = format!("{before}\"ts\":\"1970-01-01T00:00:00.000001Z{after}").into_bytes();
    relink(&mut lines, 4);
    let place = Place::with_segment(&join(&lines));
    let report = place.verify();
    assert!(report.is_intact());
    assert_eq!(report.semantics.backward_steps, 1);
    assert!(report.findings.iter().any(|f| f.code == Code::ClockBackward && f.seq == Some(3)));
    place.open().append(OP, note("control")).unwrap();
}

pub fn verify_and_tell_memory(dir: &Path) {
    let report = verify(dir, &VerifyOptions::new()).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    tell(&format!("{kib} {}", report.damage));
}

#[test]
fn a_line_of_ten_megabytes_costs_no_memory() {
    let measure = |segment: &[u8]| {
        let place = Place::with_segment(segment);
        let output = child("verify", &place.dir).output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        let (kib, damage) = out.lines().find_map(told).unwrap().split_once(' ').unwrap();
        (kib.parse::<u64>().unwrap(), damage.parse::<u64>().unwrap())
    };
    let small = Place::with_notes(3).segment();
    let (base, damage) = measure(&small);
    assert_eq!(damage, 0);
    let mut large = small;
    large.resize(large.len() + 10_000_000, b'x');
    large.push(b'\n');
    let (peak, damage) = measure(&large);
    assert_eq!(damage, 1);
    println!("peak memory {base} KiB for small lines, {peak} KiB for one of 10 MB");
    assert!(peak < base + 2048, "{peak} KiB after {base} KiB");
}
