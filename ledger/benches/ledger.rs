//! How fast, as ratios against a floor that is measured in the same run and on the same disk:
//! `cargo bench -p depute-ledger --bench ledger`.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark that cannot be made ends")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use depute_ledger::record::{Close, Kind};
use depute_ledger::{Digest, Ledger, Reader, Who};
use uuid::Uuid;

const APPENDS: usize = 3000;
const OPENS: usize = 15;
/// About what a decision takes.
const RECORD: usize = 1400;
const SEGMENT: u64 = 64 << 20;

fn main() {
    let place = tempfile::TempDir::new().unwrap();
    append(place.path());
    open(place.path());
}

fn who() -> Who {
    let (tool, host) = ("bench".to_owned(), "here".to_owned());
    Who { tool, login: None, host, tty: None, ci: None }
}

fn note() -> Close {
    Close { reason: "x".repeat(RECORD) }
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share).round() as usize]
}

/// One durable append, and one raw append of as many bytes with an fdatasync, in turn.
fn append(place: &Path) {
    let ledger = Ledger::open(&place.join("append"), &who()).unwrap();
    let op = Uuid::now_v7();
    let before = ledger.append(op, note()).unwrap();
    let length = ledger.append(op, note()).unwrap().offset - before.offset;
    let line = vec![b'x'; usize::try_from(length).unwrap()];
    let mut raw = OpenOptions::new().create(true).append(true).open(place.join("raw")).unwrap();
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..APPENDS {
        floor.push(timed(|| {
            raw.write_all(&line).unwrap();
            raw.sync_data().unwrap();
        }));
        ours.push(timed(|| {
            ledger.append(op, note()).unwrap();
        }));
    }
    for (share, name, goal) in [(0.5, "p50", 1.15), (0.99, "p99", 1.3)] {
        let (floor, ours) = (quantile(&mut floor, share), quantile(&mut ours, share));
        let ratio = ours.as_secs_f64() / floor.as_secs_f64();
        let found = format!("{ratio:.2} × ({ours:.0?} over {floor:.0?})");
        report(
            &format!("one durable append of {length} bytes, {name}"),
            &format!("<= {goal} ×"),
            &found,
            ratio <= goal,
        );
    }
}

/// Opening a ledger whose newest segment is full, and reading and hashing the same bytes, in turn; and
/// opening one with ten times as much before it.
fn open(place: &Path) {
    let dir = place.join("open");
    let fill = |ledger: &Ledger| {
        let mut size = 0;
        while size < SEGMENT - (1 << 20) {
            let receipts = ledger.append_all(Uuid::now_v7(), vec![note().into(); 500]).unwrap();
            size = receipts[499].offset;
        }
    };
    let ledger = Ledger::open(&dir, &who()).unwrap();
    fill(&ledger);
    let segment = dir.join("seg-00000000000000000000.jsonl");
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..OPENS {
        floor.push(timed(|| {
            let mut bytes = Vec::new();
            File::open(&segment).unwrap().read_to_end(&mut bytes).unwrap();
            std::hint::black_box(Digest::of(&bytes));
        }));
        ours.push(timed(|| drop(Ledger::open(&dir, &who()).unwrap())));
    }
    let (floor, ours) = (quantile(&mut floor, 0.5), quantile(&mut ours, 0.5));
    let found = format!("{ours:.0?}, {:.2} × reading and hashing", ours.as_secs_f64() / floor.as_secs_f64());
    report("open with a full segment of 64 MiB", "<= 0.3 s", &found, ours <= Duration::from_millis(300));
    // The same with two full segments before it: the time of opening is that of the newest.
    ledger.rotate().unwrap();
    fill(&ledger);
    ledger.rotate().unwrap();
    ledger.append(Uuid::now_v7(), note()).unwrap();
    let mut short: Vec<_> = (0..OPENS).map(|_| timed(|| drop(Ledger::open(&dir, &who()).unwrap()))).collect();
    println!("open with a short segment behind two full ones: {:.1?}", quantile(&mut short, 0.5));
    let segments =
        Reader::open(&dir).unwrap().filter(|line| line.as_ref().unwrap().record.body.kind() == Kind::Segment);
    assert_eq!(segments.count(), 2);
}

fn report(what: &str, goal: &str, found: &str, met: bool) {
    println!("{what:<44} goal {goal:<10} {found:<44} {}", if met { "met" } else { "MISSED" });
}
