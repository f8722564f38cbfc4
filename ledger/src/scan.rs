//! Reading a stretch of a segment for the chain alone.
//!
//! To cut, hash and decode the lines is nearly all the work, and no line of it needs another one, so a
//! long stretch is shared between threads; the chain then judges the lines in the order of the file.
//! Memory is bounded by a few pieces of [`PIECE`] bytes for each thread.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range as Span;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::chain::{Chain, Claim};
use crate::durable::Range;
use crate::finding::Finding;
use crate::lines::{Lines, RawLine};
use crate::record::{LINE_LIMIT, LineError};

/// How many bytes a thread takes at a time. Lines belong to the piece in which they start.
const PIECE: u64 = 256 << 10;

/// What is shorter than this is read by the calling thread.
const SHARED_FROM: u64 = 4 * PIECE;

/// More threads than this find nothing to do: the one that judges is then the slowest.
const MOST_THREADS: usize = 4;

/// Where a [`scan`] ended.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// The unfinished last line, whose bytes are in the caller's buffer.
    pub(crate) tail: Option<RawLine>,
    /// The first thing that is wrong. The scan stops there.
    pub(crate) finding: Option<Finding>,
}

/// Takes all ended lines of `segment` up to byte `end` into account.
pub(crate) fn scan(chain: &mut Chain, segment: &File, end: u64, tail: &mut Vec<u8>) -> io::Result<Scanned> {
    let from = chain.frontier().offset;
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let mut scanned = Scanned { tail: None, finding: None };
    let mut judge = |cut: Cut, line: &[u8]| {
        let Some(decoded) = cut.decoded else {
            tail.clear();
            tail.extend_from_slice(line);
            scanned.tail = Some(cut.raw);
            return false;
        };
        let (step, _) = chain.judge(&cut.raw, line, decoded);
        scanned.finding = step.findings.into_iter().next();
        scanned.finding.is_none()
    };
    if end.saturating_sub(from) < SHARED_FROM || threads < 2 {
        read_alone(segment, from..end, &mut judge)?;
    } else {
        read_shared(segment, from..end, threads, &mut judge)?;
    }
    Ok(scanned)
}

/// A line with all that can be known of it by itself.
#[derive(Debug)]
struct Cut {
    raw: RawLine,
    /// What it says; an unfinished line says nothing yet.
    decoded: Option<Result<Claim, LineError>>,
}

impl Cut {
    fn new(raw: RawLine, line: &[u8]) -> Self {
        let decoded = raw.ended.then(|| raw.decode(line).map(|record| Claim::from(&record)));
        Self { raw, decoded }
    }
}

/// Gives the lines to `judge` until it wants no more.
fn read_alone(
    segment: &File,
    stretch: Span<u64>,
    judge: &mut impl FnMut(Cut, &[u8]) -> bool,
) -> io::Result<()> {
    let mut lines = lines(segment, stretch.start, stretch.end);
    let mut line = Vec::new();
    while let Some(raw) = lines.next(&mut line)? {
        if !judge(Cut::new(raw, &line), &line) {
            break;
        }
    }
    Ok(())
}

/// The same with threads that take pieces in turns.
fn read_shared(
    segment: &File,
    stretch: Span<u64>,
    threads: usize,
    judge: &mut impl FnMut(Cut, &[u8]) -> bool,
) -> io::Result<()> {
    thread::scope(|scope| {
        // Without its receiver a thread ends with the piece it is at, so leaving early waits for little.
        let mut receivers = Vec::new();
        for turn in 0..threads {
            let (sender, receiver) = sync_channel(1);
            let (stretch, turns) = (stretch.clone(), (turn as u64, threads as u64));
            let work = move || cut_pieces(segment, &stretch, turns, &sender);
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                // Where no more threads can be had, one is enough.
                receivers.clear();
                break;
            }
            receivers.push(receiver);
        }
        if receivers.is_empty() {
            return read_alone(segment, stretch, judge);
        }
        let pieces = stretch.end.saturating_sub(stretch.start).div_ceil(PIECE);
        let in_turn = receivers.iter().cycle();
        for (_, receiver) in (0..pieces).zip(in_turn) {
            let piece = receiver.recv().map_err(|_| io::Error::other("a reading thread ended early"))??;
            for (cut, at) in piece.lines {
                if !judge(cut, piece.bytes.get(at).unwrap_or_default()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

fn lines(segment: &File, from: u64, end: u64) -> Lines<BufReader<Range<'_>>> {
    Lines::new(BufReader::with_capacity(LINE_LIMIT, Range::new(segment, from, end)), from)
}

/// The lines that start in one piece of a stretch.
#[derive(Debug, Default)]
struct Piece {
    bytes: Vec<u8>,
    /// Each with where its bytes are.
    lines: Vec<(Cut, Span<usize>)>,
}

/// Takes every piece whose turn it is, until there are no more or nobody wants them.
fn cut_pieces(
    segment: &File,
    stretch: &Span<u64>,
    (turn, threads): (u64, u64),
    sender: &SyncSender<io::Result<Piece>>,
) {
    let mut start = stretch.start.saturating_add(turn.saturating_mul(PIECE));
    while start < stretch.end {
        let piece = cut_piece(segment, stretch, start);
        let failed = piece.is_err();
        if sender.send(piece).is_err() || failed {
            return;
        }
        start = start.saturating_add(threads.saturating_mul(PIECE));
    }
}

fn cut_piece(segment: &File, stretch: &Span<u64>, start: u64) -> io::Result<Piece> {
    let end = start.saturating_add(PIECE).min(stretch.end);
    let mut piece = Piece::default();
    let Some(first) = first_line(segment, stretch.start, start..end)? else { return Ok(piece) };
    let mut lines = lines(segment, first, stretch.end);
    let mut line = Vec::new();
    while lines.offset() < end {
        let Some(raw) = lines.next(&mut line)? else { break };
        let from = piece.bytes.len();
        piece.bytes.extend_from_slice(&line);
        piece.lines.push((Cut::new(raw, &line), from..piece.bytes.len()));
    }
    Ok(piece)
}

/// Where the first line of a piece starts, if one does: at the start of the stretch, or behind a line feed.
fn first_line(segment: &File, stretch: u64, piece: Span<u64>) -> io::Result<Option<u64>> {
    if piece.start == stretch {
        return Ok(Some(stretch));
    }
    // The line feed may be the last byte of the piece before.
    let mut at = piece.start.saturating_sub(1);
    let mut reader = BufReader::new(Range::new(segment, at, piece.end));
    loop {
        let bytes = reader.fill_buf()?;
        let length = bytes.len();
        if let Some(feed) = bytes.iter().position(|byte| *byte == b'\n') {
            let start = at.saturating_add(feed as u64).saturating_add(1);
            return Ok((start < piece.end).then_some(start));
        }
        if length == 0 {
            return Ok(None);
        }
        reader.consume(length);
        at = at.saturating_add(length as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    type Seen = Vec<(RawLine, Vec<u8>)>;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// Lines that end before, at and behind the ends of pieces, fill several, and are too long to keep.
    fn stretches() -> Vec<Vec<u8>> {
        let piece = usize::try_from(PIECE).unwrap();
        let line = |len: usize| [vec![b'x'; len], b"\n".to_vec()].concat();
        let mut all = vec![vec![b'\n'; piece + 9], vec![b'x'; 5 * piece]];
        for around in [piece - 2, piece - 1, piece, piece + 1] {
            let short: Vec<u8> = (0..around / 100).flat_map(|_| line(99)).collect();
            let rest = line(around - short.len() - 1);
            let end = b"unfinished";
            all.push(
                [&short[..], &rest, &line(0), &line(3 * piece), &short, &rest, &line(70_000), end].concat(),
            );
        }
        all
    }

    #[test]
    fn what_threads_read_is_what_one_reads() {
        for bytes in stretches() {
            let (file, end) = (file(&bytes), bytes.len() as u64);
            let alone = |from| {
                let mut seen = Seen::new();
                read_alone(&file, from..end, &mut |cut, line| {
                    seen.push((cut.raw, line.to_vec()));
                    true
                })
                .unwrap();
                seen
            };
            let all = alone(0);
            for (raw, _) in all.iter().step_by(1 + all.len() / 3) {
                let expected = alone(raw.offset);
                for threads in [2, 3] {
                    let mut seen = Seen::new();
                    read_shared(&file, raw.offset..end, threads, &mut |cut, line| {
                        assert_eq!(cut.decoded.is_some(), cut.raw.ended);
                        seen.push((cut.raw, line.to_vec()));
                        true
                    })
                    .unwrap();
                    assert!(seen == expected, "{} bytes from {} by {threads}", end, raw.offset);
                }
            }
        }
    }

    #[test]
    fn reading_stops_where_no_more_is_wanted() {
        let bytes = vec![b'\n'; usize::try_from(20 * PIECE).unwrap()];
        let mut given = 0;
        let stop = &mut |_: Cut, _: &[u8]| {
            given += 1;
            given < 5
        };
        read_shared(&file(&bytes), 0..bytes.len() as u64, 3, stop).unwrap();
        assert_eq!(given, 5);
    }
}
