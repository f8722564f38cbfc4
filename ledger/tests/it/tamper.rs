//! Changes made behind the ledger's back, without making the links good again.

use depute_ledger::{Finding, ReadError, Reader, Severity, VerifyError, VerifyOptions, verify};
use proptest::prelude::*;

use crate::support::*;

const LINES: usize = 60;
const MUTATIONS: usize = 60;

fn first_damage(place: &Place) -> Finding {
    let report = place.verify();
    let mut damage = report.findings.into_iter().filter(|f| f.severity == Severity::Damage);
    damage.next().expect("damage is found")
}

/// Changes the lines and expects the damage at line `seq`, at the byte where it now starts.
fn expect(place: &Place, lines: &[Vec<u8>], seq: usize, offset_of: usize) {
    place.write(SEGMENT, &join(lines));
    let finding = first_damage(place);
    assert_eq!(finding.seq, Some(seq as u64), "{finding}");
    let offset = join(&lines[..offset_of]).len() as u64;
    assert_eq!(finding.offset, Some(offset), "{finding}");
    assert!(place.try_open().is_err());
    let read: Result<Vec<_>, ReadError> = Reader::open(&place.dir).unwrap().collect();
    assert!(matches!(read, Err(ReadError::Damaged(_))));
}

fn each(mut change: impl FnMut(&Place, &[Vec<u8>], usize, &mut Random)) {
    let whole = Place::with_notes(LINES);
    let lines = whole.lines();
    let copy = whole.copy();
    let mut random = Random(42);
    for _ in 0..MUTATIONS {
        let k = 1 + random.below(lines.len() - 2);
        change(&copy, &lines, k, &mut random);
    }
    copy.write(SEGMENT, &whole.segment());
    assert!(copy.verify().is_intact());
    assert!(copy.try_open().is_ok());
}

#[test]
fn a_flipped_bit_is_found_in_its_line_or_by_the_next() {
    each(|copy, lines, k, random| {
        let mut changed = lines.to_vec();
        let at = random.below(changed[k].len());
        changed[k][at] ^= 1 << random.below(8);
        copy.write(SEGMENT, &join(&changed));
        let seq = first_damage(copy).seq.unwrap();
        assert!([k as u64, k as u64 + 1].contains(&seq), "line {k}, found at {seq}");
        assert!(copy.try_open().is_err());
    });
}

#[test]
fn a_deleted_line_is_found() {
    each(|copy, lines, k, _| {
        let mut changed = lines.to_vec();
        changed.remove(k);
        expect(copy, &changed, k, k);
    });
}

#[test]
fn swapped_lines_are_found() {
    each(|copy, lines, k, _| {
        let mut changed = lines.to_vec();
        changed.swap(k, k + 1);
        expect(copy, &changed, k, k);
    });
}

#[test]
fn a_duplicated_line_is_found() {
    each(|copy, lines, k, _| {
        let mut changed = lines.to_vec();
        changed.insert(k, lines[k].clone());
        expect(copy, &changed, k + 1, k + 1);
    });
}

#[test]
fn a_forged_line_is_found() {
    each(|copy, lines, k, _| {
        // Linked to what is before it, but what is behind it does not link to it.
        let k = k.max(2);
        let mut changed = lines.to_vec();
        let forged = String::from_utf8(lines[k].clone()).unwrap();
        let forged = forged.replace("note", "fake").into_bytes();
        assert_ne!(forged, lines[k]);
        changed.insert(k, forged);
        expect(copy, &changed, k + 1, k + 1);
    });
}

#[test]
fn a_cut_in_the_middle_of_a_line_is_found() {
    each(|copy, lines, k, random| {
        let mut changed = lines.to_vec();
        let keep = 1 + random.below(changed[k].len() - 1);
        changed[k].truncate(keep);
        expect(copy, &changed, k, k);
    });
}

#[test]
fn one_deleted_line_is_one_finding_and_not_one_for_each_line_behind_it() {
    let place = Place::with_notes(LINES);
    let mut lines = place.lines();
    lines.remove(10);
    place.write(SEGMENT, &join(&lines));
    place.forget_head();
    assert!(place.verify().damage <= 2, "{:#?}", place.verify());
}

#[test]
fn findings_beyond_the_limit_are_counted() {
    let place = Place::with_notes(2);
    let mut lines = place.lines();
    lines.extend(vec![b"garbage".to_vec(); 200]);
    place.write(SEGMENT, &join(&lines));
    let report = verify(&place.dir, &VerifyOptions::new().max_findings(10)).unwrap();
    assert_eq!((report.damage, report.omitted, report.findings.len()), (200, 190, 10));
    assert_eq!(report.lines, lines.len() as u64);
    assert_eq!(place.verify().findings.len(), 200);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_changed_byte_of_two_hundred_lines_is_found(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        use std::sync::OnceLock;
        static PLACE: OnceLock<(Place, Vec<u8>)> = OnceLock::new();
        let (place, whole) = PLACE.get_or_init(|| {
            let place = Place::with_notes(198);
            let whole = place.segment();
            (place, whole)
        });
        let at = at.index(whole.len());
        prop_assume!(whole[at] != to);
        let mut changed = whole.clone();
        changed[at] = to;
        place.write(SEGMENT, &changed);
        match verify(&place.dir, &VerifyOptions::new()) {
            Ok(report) => prop_assert!(!report.is_intact(), "byte {at} to {to}"),
            // The version digit of the first line.
            Err(VerifyError::Newer(_)) => prop_assert_eq!(at, 5),
            Err(error) => panic!("{error}"),
        }
        place.write(SEGMENT, whole);
        prop_assert!(verify(&place.dir, &VerifyOptions::new()).unwrap().is_intact());
    }
}
