//! How fast, as ratios against a floor that is measured in the same run and on the same disk:
//! `cargo bench -p depute-ledger --bench ledger`.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark that cannot be made ends")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use depute_ledger::record::*;
use depute_ledger::{Body, Digest, Ledger, Reader, Who};
use uuid::Uuid;

const APPENDS: usize = 3000;
const OPENS: usize = 15;
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

/// A decision as a run of a reviewer leaves it. To decode one takes longer than to decode as many bytes of
/// a record with few fields.
fn decision(node: Uuid) -> Decision {
    let digest = Digest::of(node.as_bytes());
    let ids = ["tool:grep", "tool:glob", "tool:ls", "tool:read"].map(str::to_owned).to_vec();
    let enforced = |id: &String| Enforcement {
        capability: id.clone(),
        by: Enforcer::Runtime,
        how: "the agent's own --allow list".to_owned(),
    };
    Decision {
        node,
        parent: None,
        path: "1".to_owned(),
        depth: 1,
        verdict: Verdict::Granted,
        code: None,
        rule: None,
        definition: Some("reviewer".to_owned()),
        runtime: Some("scripted".to_owned()),
        model: None,
        workspace: None,
        task: task(digest),
        task_from: "command line".to_owned(),
        requested: GrantLists { r#use: ids.clone(), delegate: None },
        parent_grant: GrantLists { r#use: ids.clone(), delegate: Some(ids.clone()) },
        ceiling: Some(ids.clone()),
        effective: ids.clone(),
        delegate: Vec::new(),
        denied: Vec::new(),
        clipped: Vec::new(),
        gated: Vec::new(),
        subsumed: Vec::new(),
        approvals: Vec::new(),
        enforcement: ids.iter().map(enforced).collect(),
        budget: Budget { depth: Some(1), agents: Some(31), ..Budget::default() },
        inputs: Inputs {
            policy: Some(digest),
            narrowing: None,
            definition: Some(digest),
            profile: Some(digest),
            catalog: Some(digest),
            situation: Some(digest),
            request: Some(digest),
        },
        digests: PlanDigests {
            tree: Some(digest),
            body: Some(digest),
            argv: Some(digest),
            plan: Some(digest),
        },
    }
}

fn task(digest: Digest) -> TaskRef {
    TaskRef { bytes: 812, digest: Some(format!("hmac-sha256:{}", digest.to_hex()).parse().unwrap()) }
}

/// All the records of one granted child.
fn child() -> [Body; 4] {
    let node = Uuid::now_v7();
    let digest = Digest::of(node.as_bytes());
    let spawn = Spawn {
        decision: 0,
        node,
        program: "/usr/local/bin/depute".to_owned(),
        argv: digest,
        env: ["DEPUTE_NODE", "HOME", "LANG", "PATH", "TERM", "TMPDIR"].map(str::to_owned).to_vec(),
        cwd: digest,
        stdin: task(digest),
    };
    let exit = Exit {
        node,
        outcome: ExitOutcome::Exited,
        code: Some(0),
        signal: None,
        duration_ms: 4_711,
        output: None,
        message: None,
    };
    [decision(node).into(), spawn.into(), Spawned { node, pid: 4_711, start: 815 }.into(), exit.into()]
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
    let before = ledger.append(op, decision(op)).unwrap();
    let length = ledger.append(op, decision(op)).unwrap().offset - before.offset;
    let line = vec![b'x'; usize::try_from(length).unwrap()];
    let mut raw = OpenOptions::new().create(true).append(true).open(place.join("raw")).unwrap();
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..APPENDS {
        floor.push(timed(|| {
            raw.write_all(&line).unwrap();
            raw.sync_data().unwrap();
        }));
        let record = decision(op);
        ours.push(timed(|| {
            ledger.append(op, record).unwrap();
        }));
    }
    for (share, name, goal) in [(0.5, "p50", 1.15), (0.99, "p99", 1.3)] {
        let (floor, ours) = (quantile(&mut floor, share), quantile(&mut ours, share));
        let ratio = ours.as_secs_f64() / floor.as_secs_f64();
        let found = format!("{ratio:.2} × ({ours:.1?} over {floor:.1?})");
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
            let bodies: Vec<Body> = (0..100).flat_map(|_| child()).collect();
            size = ledger.append_all(Uuid::now_v7(), bodies).unwrap()[399].offset;
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
    ledger.append_all(Uuid::now_v7(), child().to_vec()).unwrap();
    let mut short: Vec<_> = (0..OPENS).map(|_| timed(|| drop(Ledger::open(&dir, &who()).unwrap()))).collect();
    println!("open with a short segment behind two full ones: {:.1?}", quantile(&mut short, 0.5));
    let segments =
        Reader::open(&dir).unwrap().filter(|line| line.as_ref().unwrap().record.body.kind() == Kind::Segment);
    assert_eq!(segments.count(), 2);
}

fn report(what: &str, goal: &str, found: &str, met: bool) {
    println!("{what:<44} goal {goal:<10} {found:<44} {}", if met { "met" } else { "MISSED" });
}
