//! The hash chain: how lines are cut from a stream, hashed, and held against one another.
//!
//! [`Chain::step`] is the only judge of a line's place. The writer, the reader and the verifier
//! all ask it; they differ in what they do with a finding, not in what counts as one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::digest::Digest;
use crate::durable::Range;
use crate::finding::{Code, Finding};
use crate::record::{
    Body, Genesis, HashName, LINE_LIMIT, LineError, Record, Recovery, RecoveryReason, Segment, decode_line,
    printable,
};

/// The `prev` of the first line.
pub(crate) const NO_LEAF: Digest = Digest::from_bytes([0; 32]);

/// How many undeclared lines may stand before their recovery records. Each interrupted recovery
/// adds one.
const RUN_LIMIT: usize = 64;

/// Returns the leaf hash of a line: SHA-256 of a zero byte and the line without its line feed.
///
/// The zero byte keeps a leaf from being mistaken for an inner node of a tree over the lines
/// (RFC 6962).
#[must_use]
pub fn leaf_hash(line: &[u8]) -> Digest {
    let mut hash = Sha256::new_with_prefix([0]);
    hash.update(line);
    Digest::from_bytes(hash.finalize().into())
}

/// A line as cut from the file, whatever it says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawLine {
    /// Where it starts.
    pub(crate) offset: u64,
    /// Its length without the line feed.
    pub(crate) len: u64,
    /// Whether a line feed ends it.
    pub(crate) ended: bool,
    pub(crate) leaf: Digest,
    /// The plain digest, present where the line was too long to be kept.
    overlong: Option<Digest>,
}

impl RawLine {
    /// The line as it will stand once a line feed ends it.
    pub(crate) const fn completed(self) -> Self {
        Self { ended: true, ..self }
    }

    /// A line about to be written at `offset`.
    pub(crate) fn written(offset: u64, line: &[u8]) -> Self {
        Self { offset, len: line.len() as u64, ended: true, leaf: leaf_hash(line), overlong: None }
    }

    /// The offset behind the line and its line feed.
    pub(crate) const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len).saturating_add(self.ended as u64)
    }
}

/// Cuts a stream into lines in bounded memory.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    offset: u64,
}

impl<R: BufRead> Lines<R> {
    /// Starts at a stream whose first byte is at `offset` of the file.
    pub(crate) const fn new(reader: R, offset: u64) -> Self {
        Self { reader, offset }
    }

    /// Reads the next line into `line`, or hashes it away if it is too long to be kept.
    pub(crate) fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Option<RawLine>> {
        line.clear();
        self.read_piece(line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let offset = self.offset;
        let mut ended = line.pop_if(|byte| *byte == b'\n').is_some();
        let raw = if line.len() <= LINE_LIMIT {
            RawLine { ended, ..RawLine::written(offset, line) }
        } else {
            let mut leaf = Sha256::new_with_prefix([0]);
            let mut plain = Sha256::new();
            let mut len = 0_u64;
            loop {
                leaf.update(&line);
                plain.update(&line);
                len = len.saturating_add(line.len() as u64);
                if ended {
                    break;
                }
                line.clear();
                if self.read_piece(line)? == 0 {
                    break;
                }
                ended = line.pop_if(|byte| *byte == b'\n').is_some();
            }
            line.clear();
            RawLine {
                offset,
                len,
                ended,
                leaf: Digest::from_bytes(leaf.finalize().into()),
                overlong: Some(Digest::from_bytes(plain.finalize().into())),
            }
        };
        self.offset = raw.end();
        Ok(Some(raw))
    }

    fn read_piece(&mut self, line: &mut Vec<u8>) -> io::Result<usize> {
        // One byte for the line feed and one to tell a line at the limit from a longer one.
        let limit = LINE_LIMIT as u64 + 2;
        self.reader.by_ref().take(limit).read_until(b'\n', line)
    }
}

/// A line that a crash left unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TornLine {
    /// The number it occupies.
    pub seq: u64,
    /// Where it starts, in bytes from the start of its segment.
    pub offset: u64,
    /// Its length in bytes, without the line feed.
    pub len: u64,
    /// The plain SHA-256 of its bytes.
    pub sha256: Digest,
}

/// Where the next line has to link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frontier {
    /// The number of the next line.
    pub(crate) seq: u64,
    /// Where it starts.
    pub(crate) offset: u64,
    /// The leaf hash of the line before.
    pub(crate) leaf: Digest,
}

/// A line that was not accepted, until what follows tells whether it was declared.
#[derive(Debug)]
struct Suspect {
    torn: TornLine,
    findings: Vec<Finding>,
    /// The number the line gives itself, where it can be read at all.
    own_seq: Option<u64>,
}

/// What one line turned out to be.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// The record, if the line is one and links.
    pub(crate) record: Option<Record>,
    /// The torn line that this record declares.
    pub(crate) declared: Option<TornLine>,
    /// What is now known to be wrong, with this line or with lines before it.
    pub(crate) findings: Vec<Finding>,
}

/// The state of the chain behind the lines seen so far.
#[derive(Debug)]
pub(crate) struct Chain {
    frontier: Frontier,
    suspects: Vec<Suspect>,
    /// The torn line with which the suspects began, itself perhaps declared by now.
    row: Option<TornLine>,
    /// The line before, which a `completed` record may speak of.
    last: Option<Whole>,
    log: Option<Uuid>,
    /// The number of the first line of the segment.
    segment: u64,
    /// The segment before, where its lines were seen.
    before: Option<Closed>,
}

/// A segment to which nothing is appended any more.
#[derive(Debug, Clone, Copy)]
struct Closed {
    first: u64,
    size: u64,
}

/// An accepted line. Only the rare `completed` records ask for its plain digest, so the bytes are
/// kept and not hashed twice.
#[derive(Debug)]
struct Whole {
    seq: u64,
    bytes: Vec<u8>,
}

impl Chain {
    pub(crate) fn new() -> Self {
        Self {
            frontier: Frontier { seq: 0, offset: 0, leaf: NO_LEAF },
            suspects: Vec::new(),
            row: None,
            last: None,
            log: None,
            segment: 0,
            before: None,
        }
    }

    /// A chain that begins with a later segment, behind a line of this leaf hash.
    pub(crate) fn resume(first: u64, leaf: Digest, log: Uuid) -> Self {
        Self {
            frontier: Frontier { seq: first, offset: 0, leaf },
            log: Some(log),
            segment: first,
            ..Self::new()
        }
    }

    /// The number of the first line of the segment.
    pub(crate) const fn segment(&self) -> u64 {
        self.segment
    }

    /// Goes on to the segment whose first line has this number. What was not declared in the segment
    /// before is damage.
    pub(crate) fn turn(&mut self, first: u64) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.condemn(&mut findings);
        let next = self.frontier.seq;
        if first != next {
            findings.push(
                Finding::damage(Code::SegmentMissing, "segments do not follow one another").but(
                    format_args!("a segment that begins with line {next}"),
                    format_args!("line {first}"),
                ),
            );
            self.frontier.seq = first;
        }
        self.before = Some(Closed { first: self.segment, size: self.frontier.offset });
        self.segment = first;
        self.frontier.offset = 0;
        self.last = None;
        findings
    }

    pub(crate) const fn frontier(&self) -> Frontier {
        self.frontier
    }

    /// The ledger's id, once the first line is known.
    pub(crate) const fn log(&self) -> Option<Uuid> {
        self.log
    }

    /// The lines that are not records and were not declared so far.
    pub(crate) fn undeclared(&self) -> impl Iterator<Item = TornLine> {
        self.suspects.iter().map(|suspect| suspect.torn)
    }

    /// The first line of the row in which some are not declared so far, if there is such a row.
    pub(crate) fn unsettled(&self) -> Option<TornLine> {
        self.row.filter(|_| !self.suspects.is_empty())
    }

    /// Whether `line` would be the next record if a line feed ended it.
    pub(crate) fn accepts(&self, line: &[u8]) -> bool {
        decode_line(line).is_ok_and(|record| {
            record.prev == self.frontier.leaf
                && record.seq == self.frontier.seq
                && (self.suspects.is_empty() || self.declares(&record))
        })
    }

    /// Takes the next line into account. `line` is empty where `raw` was too long to be kept.
    pub(crate) fn step(&mut self, raw: &RawLine, line: &[u8]) -> Step {
        let decoded = match raw.overlong {
            None => decode_line(line),
            Some(_) => Err(LineError::TooLong { len: raw.len }),
        };
        let mut step = Step::default();
        match decoded {
            Ok(record) => self.step_record(raw, line, record, &mut step),
            Err(error) => self.suspect(raw, line, None, vec![decode_finding(&error)], &mut step),
        }
        self.frontier.leaf = raw.leaf;
        self.frontier.offset = raw.end();
        step
    }

    /// Moves on behind lines that this process itself made and wrote.
    pub(crate) fn advance(&mut self, to: Frontier) {
        self.frontier = to;
        self.last = None;
    }

    /// Ends the stream: whatever was not declared is damage.
    pub(crate) fn finish(&mut self) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.condemn(&mut findings);
        if self.frontier.seq == 0 {
            findings.push(Finding::damage(Code::GenesisMissing, "segment is empty").at(0, 0));
        }
        findings
    }

    fn step_record(&mut self, raw: &RawLine, line: &[u8], record: Record, step: &mut Step) {
        if self.declares(&record) {
            step.declared = Some(self.suspects.remove(0).torn);
            return self.accept(line, record, step);
        }
        let mut findings = Vec::new();
        // After a line that was not accepted, its own number is the better guide: a line taken out
        // is then one finding and not one for each line behind it.
        let expected = self
            .suspects
            .last()
            .and_then(|suspect| suspect.own_seq)
            .map_or(self.frontier.seq, |seq| seq.saturating_add(1));
        if record.prev != self.frontier.leaf {
            findings.push(
                Finding::damage(Code::LinkBroken, "line does not link to the line before it")
                    .but(record.prev.to_hex(), self.frontier.leaf.to_hex()),
            );
        }
        if record.seq != expected {
            findings.push(
                Finding::damage(Code::SeqBroken, "line has a number that does not follow")
                    .but(expected, record.seq),
            );
        }
        if !findings.is_empty() {
            return self.suspect(raw, line, Some(record.seq), findings, step);
        }
        self.condemn(&mut step.findings);
        self.frontier.seq = record.seq;
        if let Some(finding) = self.check_content(&record, raw.offset) {
            step.findings.push(finding.at(record.seq, raw.offset).in_segment(self.segment));
        }
        self.accept(line, record, step);
    }

    fn accept(&mut self, line: &[u8], record: Record, step: &mut Step) {
        if let (0, Body::Genesis(genesis)) = (record.seq, &record.body) {
            self.log = Some(genesis.log);
        }
        let mut bytes = self.last.take().map(|last| last.bytes).unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(line);
        self.last = Some(Whole { seq: record.seq, bytes });
        self.frontier.seq = record.seq.saturating_add(1);
        step.record = Some(record);
    }

    /// Checks what a record says about the ledger itself.
    fn check_content(&self, record: &Record, offset: u64) -> Option<Finding> {
        match (&record.body, record.seq) {
            (Body::Segment(segment), 1..) if offset == 0 => self.check_segment(segment),
            (Body::Segment(_), _) => {
                let message = "segment record is not on the first line of a further segment";
                Some(Finding::damage(Code::SegmentInvalid, message))
            }
            (_, 1..) if offset == 0 => {
                let message = "segment does not begin with a record of what it goes on from";
                Some(Finding::damage(Code::SegmentInvalid, message))
            }
            (Body::Genesis(genesis), 0) => {
                let Genesis { log: _, hash: HashName::Sha256, line_limit, tool: _ } = **genesis;
                (line_limit != LINE_LIMIT as u64).then(|| {
                    Finding::damage(Code::GenesisInvalid, "genesis names another line limit")
                        .but(LINE_LIMIT, line_limit)
                })
            }
            (_, 0) => Some(Finding::damage(Code::GenesisMissing, "first line is not a genesis record")),
            (Body::Genesis(_), _) => {
                Some(Finding::damage(Code::GenesisInvalid, "genesis record is not on the first line"))
            }
            (Body::Recovery(recovery), _) => (!self.completed(recovery)).then(|| {
                Finding::damage(Code::RecoveryFalse, "recovery record declares a line that is not so")
            }),
            (
                Body::Session(_)
                | Body::Decision(_)
                | Body::Approval(_)
                | Body::Spawn(_)
                | Body::Spawned(_)
                | Body::Exit(_)
                | Body::Close(_),
                _,
            ) => None,
        }
    }

    fn check_segment(&self, segment: &Segment) -> Option<Finding> {
        let Segment { log, previous, size } = *segment;
        let invalid =
            |what: &str| Finding::damage(Code::SegmentInvalid, format!("segment record names {what}"));
        if self.log.is_some_and(|own| own != log) {
            return Some(invalid("another ledger"));
        }
        let before = self.before?;
        if previous != before.first {
            return Some(invalid("another segment before it").but(before.first, previous));
        }
        (size != before.size)
            .then(|| invalid("another length of the segment before it").but(size, before.size))
    }

    fn completed(&self, recovery: &Recovery) -> bool {
        recovery.reason == RecoveryReason::Completed
            && self.last.as_ref().is_some_and(|last| {
                recovery.line == last.seq
                    && recovery.len == last.bytes.len() as u64
                    && recovery.sha256 == Digest::of(&last.bytes)
            })
    }

    /// Whether `record` stands right behind the suspects and declares the first of them.
    fn declares(&self, record: &Record) -> bool {
        let (Body::Recovery(recovery), Some(first)) = (&record.body, self.suspects.first()) else {
            return false;
        };
        recovery.reason == RecoveryReason::Torn
            && record.prev == self.frontier.leaf
            && record.seq == self.frontier.seq
            && recovery.line == first.torn.seq
            && recovery.len == first.torn.len
            && recovery.sha256 == first.torn.sha256
    }

    fn suspect(
        &mut self,
        raw: &RawLine,
        line: &[u8],
        own_seq: Option<u64>,
        findings: Vec<Finding>,
        step: &mut Step,
    ) {
        if self.suspects.len() >= RUN_LIMIT {
            self.condemn(&mut step.findings);
        }
        let seq = self.frontier.seq;
        let torn = TornLine {
            seq,
            offset: raw.offset,
            len: raw.len,
            sha256: raw.overlong.unwrap_or_else(|| Digest::of(line)),
        };
        if self.suspects.is_empty() {
            self.row = Some(torn);
        }
        self.suspects.push(Suspect {
            torn,
            findings: findings
                .into_iter()
                .map(|finding| finding.at(seq, raw.offset).in_segment(self.segment))
                .collect(),
            own_seq,
        });
        self.frontier.seq = seq.saturating_add(1);
    }

    /// Gives up hope that the suspects are declared.
    fn condemn(&mut self, findings: &mut Vec<Finding>) {
        for suspect in self.suspects.drain(..) {
            findings.extend(suspect.findings);
            if let Some(seq) = suspect.own_seq {
                self.frontier.seq = seq.saturating_add(1);
            }
        }
    }
}

fn decode_finding(error: &LineError) -> Finding {
    let code = match error {
        LineError::TooLong { .. } => Code::LineTooLong,
        LineError::Version { .. } => Code::LineVersion,
        LineError::Malformed(_) => Code::LineMalformed,
        LineError::NotCanonical { .. } => Code::LineNotCanonical,
    };
    Finding::damage(code, printable(&error.to_string()))
}

/// Where a [`scan`] ended.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// The unfinished last line, whose bytes are in the caller's buffer.
    pub(crate) tail: Option<RawLine>,
    /// The first thing that is wrong. The scan stops there.
    pub(crate) finding: Option<Finding>,
}

/// Takes all ended lines of `segment` up to byte `end` into account.
pub(crate) fn scan(chain: &mut Chain, segment: &File, end: u64, line: &mut Vec<u8>) -> io::Result<Scanned> {
    let from = chain.frontier().offset;
    let range = Range::new(segment, from, end);
    let mut lines = Lines::new(BufReader::with_capacity(LINE_LIMIT, range), from);
    while let Some(raw) = lines.next(line)? {
        if !raw.ended {
            return Ok(Scanned { tail: Some(raw), finding: None });
        }
        if let Some(finding) = chain.step(&raw, line).findings.into_iter().next() {
            return Ok(Scanned { tail: None, finding: Some(finding) });
        }
    }
    Ok(Scanned { tail: None, finding: None })
}
