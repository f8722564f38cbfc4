//! Verification: every line held against the format and the chain, and what the records say held
//! against one another.
//!
//! Streams, so memory is bounded by the longest line and by what is open at one time: findings up
//! to a limit, granted decisions not yet acted on, programs not yet ended. A report says what is
//! wrong; it never says that records are true, or that nothing happened beside the ledger.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;
use uuid::Uuid;

use crate::chain::{Chain, TornLine};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::error::Newer;
use crate::finding::{Code, Finding, Severity};
use crate::head::{Head, State};
use crate::objects::{ObjectError, Objects, Seen};
use crate::reader::{Stream, VerifyError};
use crate::record::{Body, Record, Spawn, Verdict};

/// What to check.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    objects: bool,
    max_findings: usize,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl VerifyOptions {
    /// Everything, and up to 1,000 findings in the report.
    #[must_use]
    pub const fn new() -> Self {
        Self { objects: true, max_findings: 1_000 }
    }

    /// Sets whether the objects that decisions name are read and hashed.
    #[must_use]
    pub const fn objects(mut self, check: bool) -> Self {
        self.objects = check;
        self
    }

    /// Sets how many findings the report holds. Those beyond are counted.
    #[must_use]
    pub const fn max_findings(mut self, limit: usize) -> Self {
        self.max_findings = limit;
        self
    }
}

/// What verification found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The version of this report's form, 0.
    pub v: u64,
    /// The id of the ledger; `None` if its first line cannot be read.
    pub log: Option<Uuid>,
    /// The files that the lines are in.
    pub segments: u64,
    /// Ended lines, torn ones included.
    pub lines: u64,
    /// The length of those lines in bytes, line feeds included.
    pub bytes: u64,
    /// The leaf hash of the newest line. Kept elsewhere, it shows later that the ledger still
    /// begins with these lines.
    pub leaf: Option<Digest>,
    /// How many findings are damage, whether listed or not.
    pub damage: u64,
    /// What was found, in the order of the file.
    pub findings: Vec<Finding>,
    /// How many findings are not listed.
    pub omitted: u64,
    /// Torn lines that a recovery record declares.
    pub torn: Vec<TornLine>,
    /// What the records say, taken together.
    pub semantics: Semantics,
}

/// What the records say, taken together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Semantics {
    /// Writers that introduced themselves.
    pub sessions: u64,
    /// Decisions that granted.
    pub granted: u64,
    /// Decisions that wait for an approval.
    pub held: u64,
    /// Decisions that refused.
    pub refused: u64,
    /// Recorded answers to questions.
    pub approvals: u64,
    /// Recorded intents to start a program.
    pub spawns: u64,
    /// Spawns that name no granted decision about their node, or one that was used before.
    pub spawns_undecided: u64,
    /// Spawns whose exit was not recorded, oldest first. They may still run.
    pub outcome_unknown: Vec<OpenSpawn>,
    /// Objects read and found good.
    pub objects: u64,
    /// Objects that a line names and that are not there.
    pub objects_missing: u64,
    /// Objects whose content is not what their name says, or that cannot be read.
    pub objects_damaged: u64,
    /// How often the wall clock went back.
    pub backward_steps: u64,
    /// The longest step back in microseconds.
    pub backward_max_us: u64,
    /// How often the machine was started anew between two records.
    pub reboots: u64,
}

/// A spawn without an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OpenSpawn {
    /// The number of the spawn's line.
    pub seq: u64,
    /// The node that was to start.
    pub node: Uuid,
}

impl Report {
    /// Whether every line is what was written. Warnings and notes do not count.
    #[must_use]
    pub const fn is_intact(&self) -> bool {
        self.damage == 0
    }
}

/// Verifies the ledger in directory `dir`, as it is when the call begins.
///
/// Creates nothing and needs no write permission. A line that is being written meanwhile shows as
/// [`Code::TailUnfinished`], a warning.
///
/// # Errors
/// Only when the ledger cannot be read: see [`VerifyError`]. Damage is in the report.
pub fn verify(dir: &Path, options: &VerifyOptions) -> Result<Report, VerifyError> {
    let mut stream = Stream::open(dir)?;
    let mut findings = Findings::new(options.max_findings);
    let mut audit = Audit::new(options.objects.then(|| Objects::new(dir)));
    let mut chain = Chain::new();
    let mut torn = Vec::new();
    let (mut count, mut bytes, mut segments) = (0, 0, 1);
    let (mut line, mut turned) = (Vec::new(), stream.begin(&mut chain));
    while let Some(raw) = stream.next(&mut chain, &mut line, &mut turned)? {
        findings.extend(turned.drain(..));
        if !raw.ended {
            let message = "last line is unfinished: it is being written, or its writer crashed";
            let finding = Finding::new(Code::TailUnfinished, Severity::Warning, message);
            findings.push(finding.at(chain.frontier().seq, raw.offset).in_segment(chain.segment()));
            break;
        }
        count += 1;
        bytes += raw.end() - raw.offset;
        segments += u64::from(raw.offset == 0 && count > 1);
        let step = chain.step(&raw, &line);
        torn.extend(step.declared);
        findings.extend(step.findings);
        if let Some(record) = &step.record {
            audit.take(record, chain.segment(), raw.offset, &mut findings);
        }
    }
    findings.extend(turned);
    let leaf = (count > 0).then_some(chain.frontier().leaf);
    finish(&mut chain, &stream, &mut findings)?;
    let report = Report {
        v: 0,
        log: chain.log(),
        segments,
        lines: count,
        bytes,
        leaf,
        torn,
        semantics: audit.finish(&mut findings),
        damage: findings.damage,
        findings: findings.list,
        omitted: findings.omitted,
    };
    match findings.newer {
        // Nothing is wrong but that this version does not know all of it.
        Some((newer, count)) if count == report.damage => Err(VerifyError::Newer(newer)),
        Some(_) | None => Ok(report),
    }
}

/// Holds the end of the chain against `head`.
fn finish(chain: &mut Chain, stream: &Stream, findings: &mut Findings) -> Result<(), VerifyError> {
    let note = |code, message: &str| Finding::new(code, Severity::Note, message);
    let head: Option<&Head> = match &stream.head {
        Ok(State::Known(head)) => Some(head),
        Ok(State::Absent) => {
            let message = "there is no `head`, so lines cut off at the end would not be missed";
            findings.push(note(Code::HeadAbsent, message));
            None
        }
        Ok(State::Unreadable) | Err(_) => {
            let message = "`head` cannot be read, so lines cut off at the end would not be missed";
            findings.push(note(Code::HeadUnreadable, message));
            None
        }
    };
    let interrupted = chain.unsettled().filter(|torn| head.is_some_and(|head| head.announces(*torn)));
    match interrupted {
        Some(torn) => {
            let message = "recovery of an unfinished line was interrupted";
            let finding = Finding::new(Code::RecoveryUnfinished, Severity::Warning, message);
            findings.push(finding.at(torn.seq, torn.offset).in_segment(chain.segment()));
        }
        None => findings.extend(chain.finish()),
    }
    if let Some(head) = head {
        findings.extend(stream.check_head(head)?);
    }
    Ok(())
}

struct Findings {
    list: Vec<Finding>,
    limit: usize,
    omitted: u64,
    damage: u64,
    /// What first showed a newer version, and how many findings did.
    newer: Option<(Newer, u64)>,
}

impl Findings {
    const fn new(limit: usize) -> Self {
        Self { list: Vec::new(), limit, omitted: 0, damage: 0, newer: None }
    }

    fn push(&mut self, finding: Finding) {
        if finding.severity == Severity::Damage {
            self.damage += 1;
        }
        if let Some(newer) = Newer::of(&finding) {
            self.newer.get_or_insert((newer, 0)).1 += 1;
        }
        if self.list.len() < self.limit {
            self.list.push(finding);
        } else {
            self.omitted += 1;
        }
    }

    fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|finding| self.push(finding));
    }
}

/// Reads the records as one story.
struct Audit {
    objects: Option<Objects>,
    seen: Seen,
    /// Granted decisions that no spawn has used, by `seq`.
    granted: HashMap<u64, Uuid>,
    /// The line of the spawn of each node that has not ended.
    open: HashMap<Uuid, u64>,
    last: Option<(Timestamp, crate::BootId)>,
    semantics: Semantics,
}

impl Audit {
    fn new(objects: Option<Objects>) -> Self {
        Self {
            objects,
            seen: Seen::default(),
            granted: HashMap::new(),
            open: HashMap::new(),
            last: None,
            semantics: Semantics::default(),
        }
    }

    fn take(&mut self, record: &Record, segment: u64, offset: u64, findings: &mut Findings) {
        let found = |finding: Finding| finding.at(record.seq, offset).in_segment(segment);
        findings.extend(self.clock(record).map(found));
        match &record.body {
            Body::Session(_) => self.semantics.sessions += 1,
            Body::Decision(decision) => {
                match decision.verdict {
                    Verdict::Granted => {
                        self.semantics.granted += 1;
                        self.granted.insert(record.seq, decision.node);
                    }
                    Verdict::Held => self.semantics.held += 1,
                    Verdict::Refused => self.semantics.refused += 1,
                }
                for digest in decision.inputs.iter() {
                    findings.extend(self.object(digest).map(found));
                }
            }
            Body::Approval(_) => self.semantics.approvals += 1,
            Body::Spawn(spawn) => {
                findings.extend(self.spawn(record.seq, spawn).map(found));
            }
            Body::Exit(exit) => {
                self.open.remove(&exit.node);
            }
            Body::Genesis(_)
            | Body::Segment(_)
            | Body::Spawned(_)
            | Body::Caged(_)
            | Body::Denied(_)
            | Body::Recovery(_)
            | Body::Close(_) => {}
        }
    }

    fn clock(&mut self, record: &Record) -> Option<Finding> {
        let (last, boot) = self.last.replace((record.ts, record.boot))?;
        if boot != record.boot {
            self.semantics.reboots += 1;
        }
        let back = last.as_microsecond().saturating_sub(record.ts.as_microsecond());
        let back = u64::try_from(back).ok().filter(|back| *back > 0)?;
        self.semantics.backward_steps += 1;
        self.semantics.backward_max_us = self.semantics.backward_max_us.max(back);
        let message = format!("wall clock went back by {back} microseconds");
        Some(Finding::new(Code::ClockBackward, Severity::Warning, message).but(last, record.ts))
    }

    fn spawn(&mut self, seq: u64, spawn: &Spawn) -> Option<Finding> {
        self.semantics.spawns += 1;
        self.open.insert(spawn.node, seq);
        let decided = self.granted.remove(&spawn.decision);
        if decided == Some(spawn.node) {
            return None;
        }
        self.semantics.spawns_undecided += 1;
        let message = format!(
            "spawn rests on line {}, which is no unused granted decision about its node",
            spawn.decision
        );
        Some(Finding::new(Code::SpawnUndecided, Severity::Warning, message))
    }

    fn object(&mut self, digest: Digest) -> Option<Finding> {
        let objects = self.objects.as_ref()?;
        if !self.seen.insert(digest) {
            return None;
        }
        let error = match objects.get(digest) {
            Ok(_) => {
                self.semantics.objects += 1;
                return None;
            }
            Err(error) => error,
        };
        let finding = |code| Finding::damage(code, error.to_string());
        Some(match &error {
            ObjectError::Missing(_) => {
                self.semantics.objects_missing += 1;
                finding(Code::ObjectMissing)
            }
            ObjectError::Damaged { expected, actual } => {
                self.semantics.objects_damaged += 1;
                finding(Code::ObjectDamaged).but(expected, actual)
            }
            ObjectError::Io { .. } => {
                self.semantics.objects_damaged += 1;
                finding(Code::ObjectUnreadable)
            }
        })
    }

    fn finish(mut self, findings: &mut Findings) -> Semantics {
        let open = self.open.into_iter().map(|(node, seq)| OpenSpawn { seq, node });
        self.semantics.outcome_unknown = open.collect();
        self.semantics.outcome_unknown.sort_by_key(|spawn| spawn.seq);
        for spawn in &self.semantics.outcome_unknown {
            let message = format!("spawn of node `{}` has no exit: outcome unknown", spawn.node);
            let mut finding = Finding::new(Code::OutcomeUnknown, Severity::Note, message);
            finding.seq = Some(spawn.seq);
            findings.push(finding);
        }
        self.semantics
    }
}
