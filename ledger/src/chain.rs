//! The hash chain: how lines, and segments, are held against one another.
//!
//! [`Chain::step`] is the only judge of a line's place. The writer, the reader and the verifier
//! all ask it; they differ in what they do with a finding, not in what counts as one.

use serde::Serialize;
use uuid::Uuid;

use crate::digest::Digest;
use crate::finding::{Code, Finding};
use crate::lines::RawLine;
use crate::record::{
    Body, Genesis, HashName, LINE_LIMIT, LineError, Record, Recovery, RecoveryReason, Segment, decode_line,
    printable, unknown,
};

/// The `prev` of the first line.
pub(crate) const NO_LEAF: Digest = Digest::from_bytes([0; 32]);

/// How many undeclared lines may stand before their recovery records. Each interrupted recovery
/// adds one.
const RUN_LIMIT: usize = 64;

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

/// What a record says about its own place, and about the ledger itself: all that the chain asks.
#[derive(Debug)]
pub(crate) struct Claim {
    prev: Digest,
    seq: u64,
    role: Role,
}

#[derive(Debug)]
enum Role {
    Genesis(Box<Genesis>),
    Segment(Box<Segment>),
    Recovery(Box<Recovery>),
    Other,
}

impl From<&Record> for Claim {
    fn from(record: &Record) -> Self {
        let role = match &record.body {
            Body::Genesis(genesis) => Role::Genesis(genesis.clone()),
            Body::Segment(segment) => Role::Segment(segment.clone()),
            Body::Recovery(recovery) => Role::Recovery(recovery.clone()),
            Body::Session(_)
            | Body::Decision(_)
            | Body::Approval(_)
            | Body::Spawn(_)
            | Body::Spawned(_)
            | Body::Caged(_)
            | Body::Denied(_)
            | Body::Exit(_)
            | Body::Close(_) => Role::Other,
        };
        Self { prev: record.prev, seq: record.seq, role }
    }
}

/// What one line turned out to be.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// The record, if the line is one and links, and was handed over whole.
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
                && (self.suspects.is_empty() || self.declares(&Claim::from(&record)))
        })
    }

    /// Takes the next line into account. `line` is empty where `raw` was too long to be kept.
    pub(crate) fn step(&mut self, raw: &RawLine, line: &[u8]) -> Step {
        match raw.decode(line) {
            Ok(record) => {
                let (mut step, accepted) = self.judge(raw, line, Ok(Claim::from(&record)));
                step.record = accepted.then_some(record);
                step
            }
            Err(error) => self.judge(raw, line, Err(error)).0,
        }
    }

    /// Takes a line into account that is decoded already, and says whether it is a record that links.
    pub(crate) fn judge(
        &mut self,
        raw: &RawLine,
        line: &[u8],
        decoded: Result<Claim, LineError>,
    ) -> (Step, bool) {
        let mut step = Step::default();
        let accepted = match decoded {
            Ok(claim) => self.step_record(raw, line, &claim, &mut step),
            Err(error) => {
                let (own_seq, finding) = self.judge_unread(line, &error);
                self.suspect(raw, line, own_seq, vec![finding], &mut step);
                false
            }
        };
        self.frontier.leaf = raw.leaf;
        self.frontier.offset = raw.end();
        (step, accepted)
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
        if self.frontier.offset == 0 {
            let code = if self.segment == 0 { Code::GenesisMissing } else { Code::SegmentInvalid };
            let finding = Finding::damage(code, "segment is empty").at(self.segment, 0);
            findings.push(finding.in_segment(self.segment));
        }
        findings
    }

    fn step_record(&mut self, raw: &RawLine, line: &[u8], claim: &Claim, step: &mut Step) -> bool {
        if self.declares(claim) {
            step.declared = Some(self.suspects.remove(0).torn);
            self.accept(line, claim);
            return true;
        }
        let mut findings = Vec::new();
        // After a line that was not accepted, its own number is the better guide: a line taken out
        // is then one finding and not one for each line behind it.
        let expected = self
            .suspects
            .last()
            .and_then(|suspect| suspect.own_seq)
            .map_or(self.frontier.seq, |seq| seq.saturating_add(1));
        if claim.prev != self.frontier.leaf {
            findings.push(
                Finding::damage(Code::LinkBroken, "line does not link to the line before it")
                    .but(claim.prev.to_hex(), self.frontier.leaf.to_hex()),
            );
        }
        if claim.seq != expected {
            findings.push(
                Finding::damage(Code::SeqBroken, "line has a number that does not follow")
                    .but(expected, claim.seq),
            );
        }
        if !findings.is_empty() {
            self.suspect(raw, line, Some(claim.seq), findings, step);
            return false;
        }
        self.condemn(&mut step.findings);
        self.frontier.seq = claim.seq;
        if let Some(finding) = self.check_content(claim, raw.offset) {
            step.findings.push(finding.at(claim.seq, raw.offset).in_segment(self.segment));
        }
        self.accept(line, claim);
        true
    }

    fn accept(&mut self, line: &[u8], claim: &Claim) {
        if let (0, Role::Genesis(genesis)) = (claim.seq, &claim.role) {
            self.log = Some(genesis.log);
        }
        let mut bytes = self.last.take().map(|last| last.bytes).unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(line);
        self.last = Some(Whole { seq: claim.seq, bytes });
        self.frontier.seq = claim.seq.saturating_add(1);
    }

    /// What is wrong with a line that is no record, and the number that it gives itself.
    fn judge_unread(&self, line: &[u8], error: &LineError) -> (Option<u64>, Finding) {
        let finding = decode_finding(error);
        let LineError::Kind { .. } = error else { return (None, finding) };
        // Something newer wrote it, if it is in its place. If not, that is what is wrong with it.
        match unknown(line) {
            Some((_, prev, seq)) if prev == self.frontier.leaf && seq == self.frontier.seq => {
                (Some(seq), finding)
            }
            Some((_, prev, seq)) => {
                let message = "line does not link to the line before it";
                let broken = Finding::damage(Code::LinkBroken, message);
                (Some(seq), broken.but(prev.to_hex(), self.frontier.leaf.to_hex()))
            }
            None => (None, finding),
        }
    }

    /// Checks what a record says about the ledger itself.
    fn check_content(&self, claim: &Claim, offset: u64) -> Option<Finding> {
        match (&claim.role, claim.seq) {
            (Role::Segment(segment), 1..) if offset == 0 => self.check_segment(segment),
            (Role::Segment(_), _) => {
                let message = "segment record is not on the first line of a further segment";
                Some(Finding::damage(Code::SegmentInvalid, message))
            }
            (_, 1..) if offset == 0 => {
                let message = "segment does not begin with a record of what it goes on from";
                Some(Finding::damage(Code::SegmentInvalid, message))
            }
            (Role::Genesis(genesis), 0) => {
                let Genesis { log: _, hash: HashName::Sha256, line_limit, tool: _ } = **genesis;
                (line_limit != LINE_LIMIT as u64).then(|| {
                    Finding::damage(Code::GenesisInvalid, "genesis names another line limit")
                        .but(LINE_LIMIT, line_limit)
                })
            }
            (_, 0) => Some(Finding::damage(Code::GenesisMissing, "first line is not a genesis record")),
            (Role::Genesis(_), _) => {
                Some(Finding::damage(Code::GenesisInvalid, "genesis record is not on the first line"))
            }
            (Role::Recovery(recovery), _) => (!self.completed(recovery)).then(|| {
                Finding::damage(Code::RecoveryFalse, "recovery record declares a line that is not so")
            }),
            (Role::Other, _) => None,
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

    /// Whether the record stands right behind the suspects and declares the first of them.
    fn declares(&self, claim: &Claim) -> bool {
        let (Role::Recovery(recovery), Some(first)) = (&claim.role, self.suspects.first()) else {
            return false;
        };
        recovery.reason == RecoveryReason::Torn
            // A segment has its name with its first line, so no crash leaves a torn one there.
            && first.torn.offset > 0
            && claim.prev == self.frontier.leaf
            && claim.seq == self.frontier.seq
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
        LineError::Kind { .. } => Code::LineKind,
        LineError::Malformed(_) => Code::LineMalformed,
        LineError::NotCanonical { .. } => Code::LineNotCanonical,
    };
    let finding = Finding::damage(code, printable(&error.to_string()));
    match error {
        LineError::Version { found } => finding.found(found),
        LineError::Kind { kind } => finding.found(kind),
        LineError::TooLong { .. } | LineError::Malformed(_) | LineError::NotCanonical { .. } => finding,
    }
}
