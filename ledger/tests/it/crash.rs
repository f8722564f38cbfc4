//! `kill -9` at random moments.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use depute_ledger::Body;

use crate::support::*;

const WRITERS: usize = 8;
/// Kills in one ledger: some while others go on writing, then everyone.
const KILLS_EACH: usize = 20;

pub fn write_until_killed(dir: &Path) {
    let ledger = open(dir).unwrap();
    let mut random = Random(u64::from(std::process::id()) | 1);
    for i in 0.. {
        let filler = "x".repeat(random.below(3000));
        let text = format!("{}-{i}-{filler}", ledger.writer());
        let receipt = ledger.append(OP, note(text.as_str())).unwrap();
        tell(&format!("{} {text}", receipt.seq));
    }
}

struct Writer {
    process: Child,
    listener: JoinHandle<()>,
}

impl Writer {
    fn start(dir: &Path, segment_bytes: u64, acks: &Sender<(u64, String)>) -> Self {
        let mut command = child("write until killed", dir);
        command.env(SEGMENT_BYTES, segment_bytes.to_string());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let acks = acks.clone();
        let listener = thread::spawn(move || {
            // A line cut by the kill was not told; one that is whole was.
            for line in out.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8(line).unwrap();
                if let Some((seq, text)) = told(&line).and_then(|line| line.split_once(' ')) {
                    acks.send((seq.parse().unwrap(), text.to_owned())).unwrap();
                }
            }
        });
        Self { process, listener }
    }

    fn kill(mut self) {
        // A writer that ended by itself has failed at something.
        assert_eq!(self.process.try_wait().unwrap(), None);
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.listener.join().unwrap();
    }
}

#[derive(Debug, Default)]
struct Figures {
    kills: usize,
    acknowledged: usize,
    lost: usize,
    torn: usize,
    segments: usize,
}

#[test]
fn no_acknowledged_record_is_lost_to_kill_9() {
    let kills = std::env::var("LEDGER_TEST_KILLS").map_or(300, |n| n.parse().unwrap());
    let mut figures = Figures::default();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // In one long segment, and in many short ones.
    for segment_bytes in [1 << 20, 8 << 10].into_iter().cycle() {
        if figures.kills >= kills {
            break;
        }
        round(segment_bytes, &mut random, &mut figures);
    }
    println!(
        "{} kills, {} acknowledged, {} lost, {} torn lines declared, {} segments",
        figures.kills, figures.acknowledged, figures.lost, figures.torn, figures.segments
    );
    assert_eq!(figures.lost, 0);
    assert!(figures.acknowledged >= figures.kills);
    assert!(figures.segments > 2 * figures.kills / KILLS_EACH, "segments were closed meanwhile");
}

fn round(segment_bytes: u64, random: &mut Random, figures: &mut Figures) {
    let place = Place::new();
    let (sender, receiver) = mpsc::channel();
    let mut acks: Vec<(u64, String)> = Vec::new();
    let mut writers: Vec<_> =
        (0..WRITERS).map(|_| Writer::start(&place.dir, segment_bytes, &sender)).collect();
    for _ in 0..KILLS_EACH - WRITERS {
        wait_for(random.below(60), &receiver, &mut acks);
        let victim = random.below(WRITERS);
        writers.swap_remove(victim).kill();
        writers.push(Writer::start(&place.dir, segment_bytes, &sender));
    }
    wait_for(WRITERS, &receiver, &mut acks);
    writers.into_iter().for_each(Writer::kill);
    drop(sender);
    acks.extend(receiver);

    // Whatever was left is settled by the next writer, which then goes on.
    place.open().append(OP, note("afterwards")).unwrap();
    let report = place.verify();
    assert!(report.is_intact(), "{report:#?}");
    let on_disk: HashMap<u64, String> = place
        .records()
        .into_iter()
        .filter_map(|record| match record.body {
            Body::Close(close) => Some((record.seq, close.reason)),
            _ => None,
        })
        .collect();
    let unique: HashSet<u64> = acks.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(unique.len(), acks.len(), "a number was given twice");
    figures.kills += KILLS_EACH;
    figures.acknowledged += acks.len();
    figures.lost += acks.iter().filter(|(seq, text)| on_disk.get(seq) != Some(text)).count();
    figures.torn += report.torn.len();
    figures.segments += place.segments().len();
}

/// Lets the writers get on until `n` more records are acknowledged.
fn wait_for(n: usize, receiver: &Receiver<(u64, String)>, acks: &mut Vec<(u64, String)>) {
    acks.extend(receiver.try_iter());
    acks.extend(receiver.iter().take(n));
}
