//! One batch at a time, from the lock to the disk; and what has to be settled before it.
//!
//! Does not wait for anything but the lock and the disk, and never repairs: a line that is wrong
//! stops the writer for good.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::statvfs::fstatvfs;
use nix::unistd::getuid;
use uuid::Uuid;

use crate::chain::{Chain, Frontier, TornLine};
use crate::clock::{BootId, Reading};
use crate::digest::Digest;
use crate::durable::{self, Identity};
use crate::error::{AppendError, Newer, Poison};
use crate::finding::Finding;
use crate::head::{Head, HeadFile, State};
use crate::layout::Layout;
use crate::lines::{RawLine, leaf_hash};
use crate::record::{
    Body, EncodeError, LINE_LIMIT, Recovery, RecoveryReason, Segment, Session, VERSION, Verdict, Wire,
};
use crate::scan::scan;
use crate::writer::{Job, OpenOptions, Receipt, Who};

/// The size in bytes at which a batch takes no further call, to bound what a caller waits for.
const BATCH_BYTES: usize = 256 << 10;

/// Why a batch did not happen.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The lock was not to be had in time. Nothing was written; the writer stays good.
    Busy(Duration),
    /// The writer is finished.
    Poison(Poison),
}

impl From<Poison> for Stop {
    fn from(poison: Poison) -> Self {
        Self::Poison(poison)
    }
}

/// The lock, held until dropped.
///
/// Unlocks explicitly: a child forked while it was held keeps a copy of the descriptor, and closing
/// ours would leave the lock with it.
#[derive(Debug)]
pub(crate) struct Held(Arc<File>);

impl Drop for Held {
    fn drop(&mut self) {
        // Fails only for a descriptor that is not one.
        let _ = self.0.unlock();
    }
}

/// Takes the lock, or gives up after `wait`.
pub(crate) fn acquire(lock: &Arc<File>, path: &Path, wait: Duration) -> Result<Held, Stop> {
    // A batch holds the lock for tens of microseconds, so short naps cost little and waste little.
    const NAP: Duration = Duration::from_micros(20);
    const LONGEST_NAP: Duration = Duration::from_millis(2);
    let start = Instant::now();
    let mut nap = NAP;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(Held(Arc::clone(lock))),
            Err(TryLockError::WouldBlock) if start.elapsed() >= wait => {
                return Err(Stop::Busy(wait));
            }
            Err(TryLockError::WouldBlock) => {
                thread::sleep(nap);
                nap = (nap * 2).min(LONGEST_NAP);
            }
            Err(TryLockError::Error(source)) => return Err(Stop::Poison(io_at(path)(source))),
        }
    }
}

pub(crate) fn io_at(path: &Path) -> impl Fn(io::Error) -> Poison {
    move |source| Poison::Io { path: path.to_owned(), source: Arc::new(source) }
}

fn damaged(finding: Finding) -> Poison {
    match Newer::of(&finding) {
        Some(newer) => Poison::Newer(newer),
        None => Poison::Damaged(Arc::new(finding)),
    }
}

/// The open files of a writer.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) layout: Layout,
    pub(crate) dir: File,
    pub(crate) lock: Arc<File>,
    pub(crate) segment: File,
    /// Where the segment is.
    pub(crate) path: PathBuf,
    pub(crate) head: HeadFile,
}

/// A writer's whole state. INVARIANT: used by one caller at a time.
pub(crate) struct Committer {
    files: Files,
    chain: Chain,
    options: OpenOptions,
    who: Who,
    writer: Uuid,
    boot: BootId,
    /// Whether the `session` record is written.
    introduced: bool,
    poison: Option<Poison>,
}

impl Committer {
    pub(crate) fn new(files: Files, chain: Chain, options: OpenOptions, who: Who) -> Self {
        Self {
            files,
            chain,
            options,
            who,
            writer: Uuid::now_v7(),
            boot: BootId::current(),
            introduced: false,
            poison: None,
        }
    }

    pub(crate) const fn writer(&self) -> Uuid {
        self.writer
    }

    pub(crate) const fn log(&self) -> Option<Uuid> {
        self.chain.log()
    }

    /// Commits jobs from the front, as many as fit one batch, and returns their results.
    pub(crate) fn commit(&mut self, jobs: &[Job]) -> Vec<Result<Vec<Receipt>, AppendError>> {
        let committed = self.unless_poisoned(|committer| committer.try_commit(jobs));
        committed.unwrap_or_else(|error| jobs.iter().map(|_| Err(error.clone())).collect())
    }

    /// Closes the newest segment and begins another one, where it holds records.
    pub(crate) fn rotate(&mut self) -> Result<bool, AppendError> {
        self.unless_poisoned(|committer| {
            let held = committer.hold()?;
            Ok(committer.holds_records() && committer.begin_segment(&held)?)
        })
    }

    /// Does something that may be the last that this writer does.
    fn unless_poisoned<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, AppendError> {
        let worked = match self.poison.clone() {
            Some(poison) => Err(Stop::Poison(poison)),
            None => work(self),
        };
        worked.map_err(|stop| match stop {
            Stop::Busy(waited) => AppendError::Busy { path: self.files.layout.lock.clone(), waited },
            Stop::Poison(poison) => {
                self.poison = Some(poison.clone());
                AppendError::Poisoned(poison)
            }
        })
    }

    /// Takes the lock, and takes into account what others did.
    fn hold(&mut self) -> Result<Held, Stop> {
        let held = acquire(&self.files.lock, &self.files.layout.lock, self.options.lock_wait)?;
        self.check_lock()?;
        self.check_segment()?;
        self.settle(&held)?;
        Ok(held)
    }

    fn try_commit(&mut self, jobs: &[Job]) -> Result<Vec<Result<Vec<Receipt>, AppendError>>, Stop> {
        let held = self.hold()?;
        if self.chain.frontier().offset >= self.options.segment_bytes && self.holds_records() {
            self.begin_segment(&held)?;
        }

        let mut batch = Batch::new(self.chain.frontier(), self.writer, self.boot);
        if !self.introduced
            && let Err(error) = batch.add(self.writer, &[self.session()])
        {
            return Ok(jobs.iter().map(|_| Err(error.clone())).collect());
        }
        let free = self.free();
        let mut results = Vec::with_capacity(jobs.len());
        for job in jobs {
            results.push(match self.refuse_for_space(job, free) {
                Some(error) => Err(error),
                None => batch.add(job.op, &job.bodies),
            });
            if batch.bytes.len() >= BATCH_BYTES {
                break;
            }
        }
        if results.iter().all(Result::is_err) {
            return Ok(results);
        }

        write_once(&self.files.segment, &batch.bytes)?;
        self.introduced = true;
        self.chain.advance(batch.frontier);
        drop(held);
        self.files.segment.sync_data().map_err(|error| Poison::Sync(Arc::new(error)))?;
        // What was written to a file that was moved away meanwhile is on disk, but not in the
        // ledger.
        self.check_segment()?;
        self.remember();
        Ok(results)
    }

    /// Reads what other writers appended, in the segment and in those that they began, and declares
    /// what a crashed one left unfinished.
    ///
    /// `held` is the proof that nobody else appends meanwhile.
    pub(crate) fn settle(&mut self, held: &Held) -> Result<(), Poison> {
        loop {
            let head = self.settle_segment(held)?;
            if self.follow()? {
                continue;
            }
            return match head {
                State::Known(head) if head.segment > self.chain.segment() => Err(damaged(head.missing())),
                State::Known(_) | State::Absent | State::Unreadable => Ok(()),
            };
        }
    }

    fn settle_segment(&mut self, _held: &Held) -> Result<State, Poison> {
        let path = &self.files.path;
        let segment = &self.files.segment;
        let len = segment.metadata().map_err(io_at(path))?.len();
        let from = self.chain.frontier().offset;
        if len < from {
            return Err(Poison::Shrunk { from, to: len });
        }
        let state = self.read_head()?;
        let untouched = len == from && self.chain.unsettled().is_none();
        if let State::Known(head) = &state
            && head.segment == self.chain.segment()
            // What this writer made or read itself needs no second look, unless another writer
            // got further and its lines are gone.
            && (!untouched || head.size > len)
            && let Some(finding) = head.check(segment).map_err(io_at(path))?
        {
            return Err(damaged(finding.in_segment(head.segment)));
        }
        if untouched {
            return Ok(state);
        }
        let mut line = Vec::new();
        let scanned = scan(&mut self.chain, segment, len, &mut line).map_err(io_at(path))?;
        if let Some(finding) = scanned.finding {
            return Err(damaged(finding));
        }
        let row = self.chain.unsettled();
        match (scanned.tail, row) {
            (None, None) => {}
            (tail, row) => self.recover(tail, &line, row, &state)?,
        }
        Ok(state)
    }

    /// Goes on to the segment behind this one, where somebody has begun it.
    fn follow(&mut self) -> Result<bool, Poison> {
        let first = self.chain.frontier().seq;
        if first == self.chain.segment() {
            // Nothing is in it, so nothing follows it.
            return Ok(false);
        }
        let path = self.files.layout.segment(first);
        let segment = match durable::open_append(&path) {
            Ok(segment) => segment,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(io_at(&path)(error)),
        };
        durable::check_private_file(&path, &segment)
            .map_err(|error| io_at(&path)(io::Error::other(error)))?;
        // Whoever began it may have ended before its name was on disk.
        durable::sync_dir(&self.files.layout.dir).map_err(|error| Poison::Sync(Arc::new(error)))?;
        if let Some(finding) = self.chain.turn(first).into_iter().next() {
            return Err(damaged(finding));
        }
        // A guard against accidents; nothing relies on it.
        let _ = durable::make_read_only(&self.files.segment);
        self.files.segment = segment;
        self.files.path = path;
        Ok(true)
    }

    /// Whether the segment holds more than its first line.
    fn holds_records(&self) -> bool {
        self.chain.frontier().seq > self.chain.segment().saturating_add(1)
    }

    /// Closes the segment and begins another. Both happen at once: the moment when the file that goes
    /// on from it has its name. Where there is no room for it, the old one goes on.
    fn begin_segment(&mut self, _held: &Held) -> Result<bool, Poison> {
        self.files.segment.sync_data().map_err(|error| Poison::Sync(Arc::new(error)))?;
        self.remember();
        let frontier = self.chain.frontier();
        let log = self.chain.log().ok_or(Poison::Abandoned)?;
        let body = Segment { log, previous: self.chain.segment(), size: frontier.offset };
        let mut batch = Batch::new(Frontier { offset: 0, ..frontier }, self.writer, self.boot);
        // A few hundred bytes of small numbers: it always fits.
        batch.add(self.writer, &[body.into()]).map_err(|_| Poison::Abandoned)?;
        let path = self.files.layout.segment(frontier.seq);
        let published = durable::publish(&Layout::tmp(&path), &path, &batch.bytes, 0o600);
        match (published, self.follow()?) {
            (Ok(()), true) => {}
            (Err(_), false) => return Ok(false),
            // It has its name, and may not keep it.
            (Err(error), true) => return Err(io_at(&path)(error)),
            (Ok(()), false) => return Err(Poison::Moved(path)),
        }
        self.chain.advance(batch.frontier);
        self.remember();
        Ok(true)
    }

    /// Holds `head`, which may know more than what was read so far, against the segment.
    pub(crate) fn check_head(&self) -> Result<(), Poison> {
        match self.read_head()? {
            State::Known(head) if head.segment == self.chain.segment() => {
                let finding = head.check(&self.files.segment).map_err(io_at(&self.files.path))?;
                finding.map_or(Ok(()), |finding| Err(damaged(finding.in_segment(head.segment))))
            }
            State::Known(_) | State::Absent | State::Unreadable => Ok(()),
        }
    }

    fn read_head(&self) -> Result<State, Poison> {
        match self.files.head.read() {
            // Whoever can read the file can hold its lock; that must not stop the ledger.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(State::Unreadable),
            read => read.map_err(io_at(&self.files.layout.head)),
        }
    }

    /// Makes the name of the segment durable, where `head` does not know of it: whoever began it may have
    /// ended before that.
    pub(crate) fn ensure_name(&self) -> Result<(), Poison> {
        match self.read_head()? {
            State::Known(head) if head.segment == self.chain.segment() => Ok(()),
            State::Known(_) | State::Absent | State::Unreadable => {
                durable::sync_dir(&self.files.layout.dir).map_err(|error| Poison::Sync(Arc::new(error)))
            }
        }
    }

    /// Makes the newest lines durable and says so in `head`, where `head` does not know.
    pub(crate) fn ensure_head(&self) -> io::Result<()> {
        match self.files.head.read()? {
            State::Known(head) if head.segment == self.chain.segment() => Ok(()),
            State::Known(_) | State::Absent | State::Unreadable => {
                self.files.segment.sync_data()?;
                self.remember();
                Ok(())
            }
        }
    }

    /// Declares unfinished lines: `tail`, whose bytes are `line`, and before it those that an
    /// interrupted recovery already ended, the first of which is `row`.
    fn recover(
        &mut self,
        tail: Option<RawLine>,
        line: &[u8],
        row: Option<TornLine>,
        head: &State,
    ) -> Result<(), Poison> {
        let sync = |error| Poison::Sync(Arc::new(error));
        let announced = |row| matches!(head, State::Known(head) if head.announces(row));
        if row.is_some_and(|row| !announced(row)) {
            // It ends in a line feed and nobody announced it: not the remains of a crash, but
            // something that was appended.
            return Err(self.condemn());
        }
        // From here on, every line before the unfinished ones is on disk.
        self.files.segment.sync_data().map_err(sync)?;
        let mut bytes = Vec::new();
        let mut completed = None;
        if let Some(tail) = tail {
            completed = self.end(tail, line, row.is_some())?;
            bytes.push(b'\n');
        }
        let torn = self.chain.undeclared().map(|torn| Recovery {
            line: torn.seq,
            len: torn.len,
            sha256: torn.sha256,
            reason: RecoveryReason::Torn,
        });
        let mut records: Vec<Recovery> = torn.collect();
        if records.is_empty() {
            records.extend(completed);
        }
        for record in records {
            bytes.extend_from_slice(&self.declare(record)?);
        }
        write_once(&self.files.segment, &bytes)?;
        self.files.segment.sync_data().map_err(sync)?;
        self.remember();
        Ok(())
    }

    /// Takes the unfinished last line into account as it will be with its line feed. A whole one
    /// gives the record that says so; a torn one that begins a row is announced.
    fn end(&mut self, tail: RawLine, line: &[u8], resumed: bool) -> Result<Option<Recovery>, Poison> {
        let before = self.chain.frontier();
        let whole = self.chain.accepts(line);
        let step = self.chain.step(&tail.completed(), line);
        if let Some(finding) = step.findings.into_iter().next() {
            return Err(damaged(finding));
        }
        if whole {
            return Ok(Some(Recovery {
                line: before.seq,
                len: tail.len,
                sha256: Digest::of(line),
                reason: RecoveryReason::Completed,
            }));
        }
        if !resumed {
            let good = Head::at(self.chain.segment(), before);
            let row = self.chain.unsettled().filter(|row| row.offset > 0);
            let (Some(good), Some(row)) = (good, row) else {
                return Err(self.condemn());
            };
            let announce = self.files.head.announce(&good.before(row));
            announce.map_err(io_at(&self.files.layout.head))?;
        }
        Ok(None)
    }

    /// Makes the line of a recovery record and takes it into account.
    fn declare(&mut self, record: Recovery) -> Result<Vec<u8>, Poison> {
        let mut batch = Batch::new(self.chain.frontier(), self.writer, self.boot);
        let offset = batch.frontier.offset;
        // A few hundred bytes of small numbers: it always fits.
        if batch.add(self.writer, &[record.into()]).is_err() {
            return Err(Poison::Abandoned);
        }
        let line = batch.bytes.strip_suffix(b"\n").unwrap_or_default();
        let step = self.chain.step(&RawLine::written(offset, line), line);
        match step.findings.into_iter().next() {
            Some(finding) => Err(damaged(finding)),
            None => Ok(batch.bytes),
        }
    }

    fn condemn(&mut self) -> Poison {
        let finding = self.chain.finish().into_iter().next();
        finding.map_or(Poison::Abandoned, damaged)
    }

    /// Whether others still meet us at the lock.
    pub(crate) fn check_lock(&self) -> Result<(), Poison> {
        let path = &self.files.layout.lock;
        let metadata = self.files.lock.metadata().map_err(io_at(path))?;
        if Identity::of(&metadata).is_at(path) { Ok(()) } else { Err(Poison::Moved(path.clone())) }
    }

    /// Whether the segment is still the one that the path names, and not shorter than it was.
    pub(crate) fn check_segment(&self) -> Result<(), Poison> {
        let path = &self.files.path;
        let metadata = self.files.segment.metadata().map_err(io_at(path))?;
        if metadata.nlink() == 0 || !Identity::of(&metadata).is_at(path) {
            return Err(Poison::Moved(path.clone()));
        }
        let (from, to) = (self.chain.frontier().offset, metadata.len());
        if to < from {
            return Err(Poison::Shrunk { from, to });
        }
        Ok(())
    }

    /// Notes in `head` how far the disk is good.
    fn remember(&self) {
        if let Some(head) = Head::at(self.chain.segment(), self.chain.frontier()) {
            // The lines are on disk whether or not this convenience could be brought up to date.
            let _ = self.files.head.advance(&head);
        }
    }

    fn session(&self) -> Body {
        let who = self.who.clone();
        Session {
            tool: who.tool,
            uid: getuid().as_raw(),
            login: who.login,
            host: who.host,
            tty: who.tty,
            ci: who.ci,
            pid: std::process::id(),
        }
        .into()
    }

    /// Bytes free on the ledger's disk; none if that cannot be known.
    fn free(&self) -> u64 {
        #[expect(clippy::useless_conversion, reason = "the width of these types differs between targets")]
        fstatvfs(&self.files.dir).map_or(0, |stat| {
            u64::from(stat.blocks_available()).saturating_mul(u64::from(stat.fragment_size()))
        })
    }

    /// Refuses what would start something while there is too little room to record its end.
    fn refuse_for_space(&self, job: &Job, free: u64) -> Option<AppendError> {
        let reserve = self.options.reserve;
        let starts = |body: &Body| match body {
            Body::Decision(decision) => decision.verdict == Verdict::Granted,
            Body::Spawn(_) => true,
            Body::Genesis(_)
            | Body::Session(_)
            | Body::Segment(_)
            | Body::Approval(_)
            | Body::Spawned(_)
            | Body::Caged(_)
            | Body::Denied(_)
            | Body::Exit(_)
            | Body::Recovery(_)
            | Body::Close(_) => false,
        };
        (free < reserve && job.bodies.iter().any(starts)).then_some(AppendError::NoSpace { free, reserve })
    }
}

/// Writes `bytes` with one call, so that lines are never interleaved; anything less is final.
fn write_once(mut segment: &File, bytes: &[u8]) -> Result<(), Poison> {
    match segment.write(bytes) {
        Ok(written) if written == bytes.len() => Ok(()),
        Ok(written) => Err(Poison::ShortWrite { written: written as u64, wanted: bytes.len() as u64 }),
        Err(error) => Err(Poison::Write(Arc::new(error))),
    }
}

/// Lines on their way to the segment.
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    frontier: Frontier,
    writer: Uuid,
    boot: BootId,
}

impl Batch {
    /// Nothing yet, to be appended at the frontier.
    pub(crate) fn new(frontier: Frontier, writer: Uuid, boot: BootId) -> Self {
        Self { bytes: Vec::new(), frontier, writer, boot }
    }

    /// Adds records one behind the other: all of them, or none.
    pub(crate) fn add(&mut self, op: Uuid, bodies: &[Body]) -> Result<Vec<Receipt>, AppendError> {
        let (len, frontier) = (self.bytes.len(), self.frontier);
        let receipts = bodies.iter().map(|body| self.add_one(op, body));
        let result: Result<Vec<_>, _> = receipts.collect();
        if result.is_err() {
            self.bytes.truncate(len);
            self.frontier = frontier;
        }
        result
    }

    fn add_one(&mut self, op: Uuid, body: &Body) -> Result<Receipt, AppendError> {
        let kind = body.kind();
        let start = self.bytes.len();
        let Reading { ts, mono } = Reading::now();
        let Frontier { seq, offset, leaf } = self.frontier;
        let wire =
            Wire { v: VERSION, prev: leaf, seq, ts, mono, boot: self.boot, w: self.writer, op, kind, body };
        wire.encode(&mut self.bytes)
            .map_err(|EncodeError(message)| AppendError::Integer { kind, message })?;
        let line = self.bytes.get(start..).unwrap_or_default();
        let len = line.len() as u64;
        if line.len() > LINE_LIMIT {
            return Err(AppendError::TooLong { kind, len });
        }
        let leaf = leaf_hash(line);
        self.bytes.push(b'\n');
        self.frontier = Frontier {
            seq: seq.saturating_add(1),
            offset: offset.saturating_add(len).saturating_add(1),
            leaf,
        };
        Ok(Receipt { seq, offset, leaf })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Close, decode_line};

    #[test]
    fn a_call_that_does_not_fit_leaves_no_trace_in_the_batch() {
        let note = |len| Body::from(Close { reason: "x".repeat(len) });
        let mut batch = Batch::new(Chain::new().frontier(), Uuid::nil(), BootId::default());
        let first = batch.add(Uuid::nil(), &[note(1)]).unwrap();
        let refused = batch.add(Uuid::nil(), &[note(2), note(LINE_LIMIT)]);
        assert!(matches!(refused, Err(AppendError::TooLong { .. })));
        let next = batch.add(Uuid::nil(), &[note(3)]).unwrap();

        let lines: Vec<_> = batch.bytes.split(|byte| *byte == b'\n').collect();
        assert_eq!(lines.len(), 3);
        let last = decode_line(lines[1]).unwrap();
        assert_eq!((last.seq, last.prev), (1, first[0].leaf));
        assert_eq!((next[0].seq, next[0].offset), (1, lines[0].len() as u64 + 1));
        assert_eq!(batch.frontier.offset, batch.bytes.len() as u64);
    }
}
