//! A segment cut at every byte: refused where the cut is known to have lost something, declared
//! where a crash may have left it so.

use depute_ledger::record::{Recovery, RecoveryReason};
use depute_ledger::{Body, Code, Digest, OpenError};

use crate::support::*;

/// Lines of genesis and session, and behind them.
const NOTES: usize = 6;
const CUT_LINES: usize = 3;

fn cut_points(lines: &[Vec<u8>]) -> (usize, usize) {
    let total = join(lines).len();
    let from = join(&lines[..lines.len() - CUT_LINES]).len();
    (from, total)
}

fn assert_damaged(place: &Place, code: Code) {
    let before = place.segment();
    match place.try_open() {
        Err(OpenError::Damaged(finding)) => assert_eq!(finding.code, code, "{finding}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(place.segment(), before, "a refused ledger was changed");
    let report = place.verify();
    assert!(report.findings.iter().any(|f| f.code == code), "{report:#?}");
    assert!(!report.is_intact());
}

fn recoveries(place: &Place) -> Vec<Recovery> {
    let records = place.records().into_iter();
    let recoveries = records.filter_map(|record| match record.body {
        Body::Recovery(recovery) => Some(*recovery),
        _ => None,
    });
    recoveries.collect()
}

#[test]
fn a_cut_through_what_head_knows_is_refused_at_every_byte() {
    let whole = Place::with_notes(NOTES);
    let (from, total) = cut_points(&whole.lines());
    let copy = whole.copy();
    for cut in from..total {
        copy.write(SEGMENT, &whole.segment()[..cut]);
        assert_damaged(&copy, Code::Truncated);
    }
    copy.write(SEGMENT, &whole.segment());
    copy.open().append(OP, note("control")).unwrap();
    println!("{} cuts refused", total - from);
}

#[test]
fn a_cut_beyond_what_head_knows_is_declared_at_every_byte() {
    let whole = Place::with_notes(NOTES);
    let lines = whole.lines();
    let (from, total) = cut_points(&lines);
    let known = lines.len() - CUT_LINES - 1;
    let (mut torn, mut completed) = (0, 0);
    for head_absent in [true, false] {
        for cut in from..=total {
            let copy = whole.copy();
            if head_absent {
                copy.forget_head();
            } else {
                copy.set_head(&lines, known, None);
            }
            let segment = &whole.segment()[..cut];
            copy.write(SEGMENT, segment);
            let kept = segment.iter().filter(|b| **b == b'\n').count();
            let piece = segment.rsplit(|b| *b == b'\n').next().unwrap();

            copy.open().append(OP, note("afterwards")).unwrap();
            let report = copy.verify();
            assert_eq!(report.findings, [], "cut at {cut}");
            assert!(copy.segment().starts_with(segment), "cut at {cut}");
            assert_eq!(copy.lines()[..kept], lines[..kept]);
            assert_eq!(copy.notes().last().unwrap(), "afterwards");
            let expected = Recovery {
                line: kept as u64,
                len: piece.len() as u64,
                sha256: Digest::of(piece),
                reason: if piece == &lines[kept.min(lines.len() - 1)][..] {
                    RecoveryReason::Completed
                } else {
                    RecoveryReason::Torn
                },
            };
            match (piece.is_empty(), expected.reason) {
                (true, _) => assert_eq!(recoveries(&copy), []),
                (false, RecoveryReason::Completed) => {
                    completed += 1;
                    assert_eq!(recoveries(&copy), [expected]);
                    assert_eq!(report.torn, []);
                }
                (false, RecoveryReason::Torn) => {
                    torn += 1;
                    assert_eq!(report.torn.len(), 1);
                    assert_eq!(report.torn[0].seq, expected.line);
                    assert_eq!(recoveries(&copy), [expected]);
                }
            }
        }
    }
    assert_eq!(completed, 2 * CUT_LINES);
    println!("{torn} cuts declared torn, {completed} completed");
}

#[test]
fn a_running_writer_declares_what_another_left() {
    let place = Place::with_notes(2);
    let ledger = place.open();
    ledger.append(OP, note("mine")).unwrap();
    let torn = &br#"{"v":0,"prev":"#[..];
    let mut segment = place.segment();
    segment.extend_from_slice(torn);
    place.write(SEGMENT, &segment);

    ledger.append(OP, note("mine again")).unwrap();
    let report = place.verify();
    assert_eq!((report.findings.len(), report.torn.len()), (0, 1));
    assert_eq!(report.torn[0].sha256, Digest::of(torn));
    assert_eq!(place.notes()[2..], ["mine", "mine again"]);
}

#[test]
fn zeros_of_any_length_at_the_end_are_one_torn_line() {
    for len in [1, 4096, 65_535, 65_536, 65_537, 65_538, 1 << 20] {
        let place = Place::with_notes(2);
        let mut segment = place.segment();
        segment.resize(segment.len() + len, 0);
        place.write(SEGMENT, &segment);
        place.open().append(OP, note("afterwards")).unwrap();
        let report = place.verify();
        assert_eq!(report.findings, [], "{len} zeros");
        assert_eq!(report.torn.len(), 1);
        assert_eq!(report.torn[0].len, len as u64);
        assert_eq!(report.torn[0].sha256, Digest::of(&vec![0; len]));
        assert_eq!(place.notes(), ["note 0", "note 1", "afterwards"]);
    }
}

#[test]
fn a_recovery_cut_at_every_byte_is_taken_up_again() {
    let whole = Place::with_notes(3);
    let lines = whole.lines();
    let torn = &br#"{"v":0,"prev":"00"#[..];
    let base = [&whole.segment()[..], torn].concat();
    whole.write(SEGMENT, &base);
    drop(whole.open());
    let recovered = whole.segment();
    assert!(recovered.starts_with(&[&base[..], b"\n"].concat()));

    let copy = whole.copy();
    let reset = |segment: &[u8], announced: bool| {
        copy.write(SEGMENT, segment);
        copy.set_head(&lines, lines.len() - 1, announced.then_some(torn));
    };
    for cut in base.len()..=recovered.len() {
        reset(&recovered[..cut], true);
        let report = copy.verify();
        assert!(report.is_intact(), "cut at {cut}: {report:#?}");

        copy.open().append(OP, note("afterwards")).unwrap();
        let report = copy.verify();
        assert_eq!(report.findings, [], "cut at {cut}");
        assert_eq!(report.torn[0].sha256, Digest::of(torn));
        assert!(copy.segment().starts_with(&recovered[..cut]));

        // And once more: a crash of the recovery of the recovery.
        let twice = copy.segment();
        for second in (cut..twice.len()).step_by(60 + cut % 13 * 7) {
            reset(&twice[..second], true);
            copy.open().append(OP, note("afterwards")).unwrap();
            assert_eq!(copy.verify().findings, [], "cut at {cut}, then at {second}");
        }

        // Without the announcement an ended line is not the remains of a crash.
        if (base.len() + 1..recovered.len() - 1).contains(&cut) {
            reset(&recovered[..cut], false);
            assert_damaged(&copy, Code::LineMalformed);
        }
    }
}

#[test]
fn an_ended_foreign_line_is_refused_with_and_without_head() {
    let place = Place::with_notes(3);
    let good = place.segment();
    place.write(SEGMENT, &[&good[..], b"{\"evil\":1}\n"].concat());
    assert_damaged(&place, Code::LineMalformed);
    place.forget_head();
    assert_damaged(&place, Code::LineMalformed);
    place.write(SEGMENT, &good);
    place.open().append(OP, note("control")).unwrap();
}

#[test]
fn a_lost_or_garbled_head_is_a_note_and_is_made_anew() {
    for garbled in [None, Some(&b"garbage"[..]), Some(&[0; 512]), Some(&[b'x'; 2000])] {
        let place = Place::with_notes(3);
        let code = match garbled {
            None => {
                place.forget_head();
                Code::HeadAbsent
            }
            Some(bytes) => {
                place.write("head", bytes);
                Code::HeadUnreadable
            }
        };
        let report = place.verify();
        assert_eq!(report.findings.iter().map(|f| f.code).collect::<Vec<_>>(), [code]);
        assert!(report.is_intact());
        place.open().append(OP, note("afterwards")).unwrap();
        assert_eq!(place.verify().findings, []);
    }
}

#[test]
fn a_segment_that_is_gone_or_empty_is_not_made_anew() {
    let place = Place::with_notes(3);
    let segment = place.segment();
    std::fs::remove_file(place.path(SEGMENT)).unwrap();
    assert!(matches!(
        place.try_open(),
        Err(OpenError::Damaged(finding)) if finding.code == Code::GenesisMissing
    ));
    assert!(!place.path(SEGMENT).exists());
    place.write(SEGMENT, b"");
    assert_damaged(&place, Code::Truncated);
    place.forget_head();
    assert!(matches!(
        place.try_open(),
        Err(OpenError::Damaged(finding)) if finding.code == Code::GenesisMissing
    ));
    place.write(SEGMENT, &segment);
    place.open().append(OP, note("control")).unwrap();
}
