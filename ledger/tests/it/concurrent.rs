//! Many writers at once.

use std::collections::HashSet;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use crate::support::*;

const PROCESSES: usize = 2;
const THREADS: usize = 16;
const APPENDS: usize = 200;

/// A handle may be shared and moved between threads.
const _: fn() = || {
    fn is_shared<T: Send + Sync + Clone>() {}
    is_shared::<depute_ledger::Ledger>();
};

pub fn append_from_threads(dir: &Path) {
    let ledger = open(dir).unwrap();
    thread::scope(|scope| {
        for t in 0..THREADS {
            let ledger = ledger.clone();
            scope.spawn(move || {
                for i in 0..APPENDS {
                    let text = format!("{}-{t}-{i}", std::process::id());
                    let receipt = ledger.append(OP, note(text.as_str())).unwrap();
                    tell(&format!("{} {text}", receipt.seq));
                }
            });
        }
    });
}

#[test]
fn two_processes_of_sixteen_threads_lose_nothing_and_tear_nothing() {
    lose_nothing(64 << 20, 1);
}

#[test]
fn they_lose_nothing_either_while_segments_are_closed() {
    lose_nothing(16 << 10, 50);
}

fn lose_nothing(segment_bytes: u64, segments: usize) {
    let place = Place::new();
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| {
            let mut command = child("append from threads", &place.dir);
            command.env(SEGMENT_BYTES, segment_bytes.to_string());
            command.stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut acknowledged = HashSet::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        for line in String::from_utf8(output.stdout).unwrap().lines().filter_map(told) {
            let (seq, text) = line.split_once(' ').unwrap();
            assert!(acknowledged.insert((seq.parse::<u64>().unwrap(), text.to_owned())));
        }
    }
    assert_eq!(acknowledged.len(), PROCESSES * THREADS * APPENDS);
    let records = place.records();
    let further = place.segments().len() - 1;
    assert!(further + 1 >= segments, "{further} segments after the first");
    assert_eq!(records.len(), 1 + further + PROCESSES + PROCESSES * THREADS * APPENDS);
    for (i, record) in records.iter().enumerate() {
        assert_eq!(record.seq, i as u64);
        if let depute_ledger::Body::Close(close) = &record.body {
            assert!(acknowledged.remove(&(record.seq, close.reason.clone())));
        }
    }
    assert!(acknowledged.is_empty());
    let report = place.verify();
    assert!(report.is_intact());
    assert_eq!((report.torn.len(), report.findings.len()), (0, 0));
}
