//! The handle that appends, and the queue behind it.
//!
//! There is no thread of its own and no timer. Of the callers that wait at one time, the first
//! leads: it takes what has queued up, commits all of it with one `write` and one `fdatasync`,
//! hands out the results and passes the lead to whoever queued meanwhile. A lone caller thus pays
//! for no hand-over, and many callers share each disk flush.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use uuid::Uuid;

use crate::commit::Committer;
use crate::digest::{Digest, KeyedDigest};
use crate::error::{AppendError, OpenError, Poison};
use crate::objects::{OBJECT_LIMIT, Objects};
use crate::open;
use crate::record::Body;

/// The most records that calls share in one commit. A single call may bring more.
const BATCH_RECORDS: usize = 256;

/// Who writes: the ledger's `session` record says this once a writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// The name and version of the writing program.
    pub tool: String,
    /// The login name, where known.
    pub login: Option<String>,
    /// The host name.
    pub host: String,
    /// The terminal, where there is one.
    pub tty: Option<String>,
    /// The CI job's own name for itself, where there is one.
    pub ci: Option<String>,
}

/// How to open a ledger.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    pub(crate) lock_wait: Duration,
    pub(crate) reserve: u64,
    pub(crate) segment_bytes: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Two seconds for the lock, 16 MiB in reserve, segments of 64 MiB.
    #[must_use]
    pub const fn new() -> Self {
        Self { lock_wait: Duration::from_secs(2), reserve: 16 << 20, segment_bytes: 64 << 20 }
    }

    /// Sets how long another process may hold the lock before opening or appending fails.
    #[must_use]
    pub const fn lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = wait;
        self
    }

    /// Sets how many bytes must be free on the ledger's disk for a granted decision or a spawn to
    /// be recorded. What already runs, and refusals, are recorded regardless. Zero turns it off.
    #[must_use]
    pub const fn reserve(mut self, bytes: u64) -> Self {
        self.reserve = bytes;
        self
    }

    /// Sets the length in bytes from which on a segment is closed and another one begun. What opening
    /// reads is bounded by it.
    #[must_use]
    pub const fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Opens the ledger in directory `dir`, creating it with its first line where absent.
    ///
    /// The newest segment of an existing ledger is verified with its link to the one before, and what a crash left unfinished at its end is declared.
    /// Otherwise opening writes nothing: the writer's `session` record comes before its first
    /// record.
    ///
    /// # Errors
    /// See [`OpenError`]. A damaged ledger is left as it is.
    pub fn open(&self, dir: &Path, who: &Who) -> Result<Ledger, OpenError> {
        let opened = open::open(dir, who, self)?;
        Ok(Ledger {
            shared: Arc::new(Shared {
                path: dir.to_owned(),
                id: opened.id,
                writer: opened.committer.writer(),
                key: opened.key,
                objects: Objects::new(dir),
                queue: Mutex::default(),
                committer: Mutex::new(opened.committer),
            }),
        })
    }
}

/// A ledger open to append. Clones share one writer.
///
/// All methods may be called from any thread; they block until the disk has answered, so call them
/// from a thread that may block. The calling program should ignore `SIGXFSZ`: by default the signal
/// ends the process when the segment meets a file size limit, instead of letting the write fail.
#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    id: Uuid,
    writer: Uuid,
    key: [u8; 32],
    objects: Objects,
    queue: Mutex<Queue>,
    committer: Mutex<Committer>,
}

/// Where an acknowledged record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The line's number.
    pub seq: u64,
    /// Where the line starts, in bytes from the start of its segment.
    pub offset: u64,
    /// The line's leaf hash.
    pub leaf: Digest,
}

/// A value whose record is on disk.
///
/// Only [`Ledger::record`] makes one. A function that takes `Recorded<T>` therefore cannot be
/// called before the record is durable.
#[derive(Debug)]
#[must_use]
pub struct Recorded<T> {
    value: T,
    receipt: Receipt,
}

impl<T> Recorded<T> {
    /// Returns the value.
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns where the record is.
    pub const fn receipt(&self) -> Receipt {
        self.receipt
    }
}

impl Ledger {
    /// Opens the ledger in directory `dir` with default options, creating it where absent.
    ///
    /// # Errors
    /// See [`OpenOptions::open`].
    pub fn open(dir: &Path, who: &Who) -> Result<Self, OpenError> {
        OpenOptions::new().open(dir, who)
    }

    /// Appends one record and returns when it is on disk.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn append(&self, op: Uuid, body: impl Into<Body>) -> Result<Receipt, AppendError> {
        let receipts = self.append_all(op, vec![body.into()])?;
        receipts.first().copied().ok_or(AppendError::Poisoned(Poison::Abandoned))
    }

    /// Appends records next to one another, in order, with one flush for all of them.
    ///
    /// Either all are written or none, except that a crash or a full disk in the middle may leave
    /// the first of them, unacknowledged. An empty list writes nothing.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn append_all(&self, op: Uuid, bodies: Vec<Body>) -> Result<Vec<Receipt>, AppendError> {
        if bodies.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(kind) = bodies.iter().map(Body::kind).find(|kind| kind.is_reserved()) {
            return Err(AppendError::Reserved { kind });
        }
        self.shared.submit(op, bodies)
    }

    /// Appends the record that `body` makes of `value`, and returns the value as recorded.
    ///
    /// # Errors
    /// See [`AppendError`]. The value is dropped: it must not be acted on.
    pub fn record<T>(
        &self,
        op: Uuid,
        value: T,
        body: impl FnOnce(&T) -> Body,
    ) -> Result<Recorded<T>, AppendError> {
        let receipt = self.append(op, body(&value))?;
        Ok(Recorded { value, receipt })
    }

    /// Closes the newest segment and begins another one. Says whether it did: a segment without
    /// records stays, and so does one where there is no room for another.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn rotate(&self) -> Result<bool, AppendError> {
        match self.shared.committer.lock() {
            Ok(mut committer) => committer.rotate(),
            Err(_) => Err(AppendError::Poisoned(Poison::Abandoned)),
        }
    }

    /// Stores an input of a decision and returns its digest when it is on disk.
    ///
    /// Equal bytes are stored once.
    ///
    /// # Errors
    /// [`AppendError::ObjectTooLarge`] and [`AppendError::Object`]; the ledger stays usable.
    pub fn put_object(&self, bytes: &[u8]) -> Result<Digest, AppendError> {
        let len = bytes.len() as u64;
        if len > OBJECT_LIMIT {
            return Err(AppendError::ObjectTooLarge { len });
        }
        let digest = Digest::of(bytes);
        let objects = &self.shared.objects;
        objects
            .put(self.shared.writer, digest, bytes)
            .map_err(|source| AppendError::Object { path: objects.path(digest), source: Arc::new(source) })?;
        Ok(digest)
    }

    /// Digests text under the ledger's key.
    #[must_use]
    pub fn keyed_digest(&self, bytes: &[u8]) -> KeyedDigest {
        KeyedDigest::of(&self.shared.key, bytes)
    }

    /// Returns the id of the ledger, as its first line names it.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.shared.id
    }

    /// Returns the id of this writer, which its records carry as `w`.
    #[must_use]
    pub fn writer(&self) -> Uuid {
        self.shared.writer
    }

    /// Returns the ledger's directory, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key stays out of logs.
        f.debug_struct("Ledger")
            .field("path", &self.shared.path)
            .field("id", &self.shared.id)
            .field("writer", &self.shared.writer)
            .finish_non_exhaustive()
    }
}

/// The records of one call.
pub(crate) struct Job {
    pub(crate) op: Uuid,
    pub(crate) bodies: Vec<Body>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Job, mpsc::Sender<Wake>)>,
    /// Whether a caller is committing. INVARIANT: whoever leads passes the lead on or clears this.
    led: bool,
}

enum Wake {
    Lead,
    Done(Result<Vec<Receipt>, AppendError>),
}

/// The duty to commit. Dropping it, however that comes about, passes it on.
struct Lead<'a>(&'a Mutex<Queue>);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut queue = lock(self.0);
        while let Some((_, reply)) = queue.waiting.front() {
            if reply.send(Wake::Lead).is_ok() {
                return;
            }
            queue.waiting.pop_front();
        }
        queue.led = false;
    }
}

impl Shared {
    fn submit(&self, op: Uuid, bodies: Vec<Body>) -> Result<Vec<Receipt>, AppendError> {
        let abandoned = |_| AppendError::Poisoned(Poison::Abandoned);
        let (reply, wake) = mpsc::channel();
        let led = {
            let mut queue = lock(&self.queue);
            queue.waiting.push_back((Job { op, bodies }, reply));
            mem::replace(&mut queue.led, true)
        };
        if led {
            match wake.recv().map_err(abandoned)? {
                Wake::Done(result) => return result,
                Wake::Lead => {}
            }
        }
        self.lead();
        match wake.recv().map_err(abandoned)? {
            Wake::Done(result) => result,
            // INVARIANT: the caller that leads is the first in the queue, so its batch holds its job.
            Wake::Lead => Err(AppendError::Poisoned(Poison::Abandoned)),
        }
    }

    fn lead(&self) {
        let lead = Lead(&self.queue);
        let (jobs, mut replies): (Vec<Job>, Vec<_>) = self.next_batch().into_iter().unzip();
        let results = self.commit(&jobs);
        let left = jobs.into_iter().skip(results.len());
        let left: Vec<_> = left.zip(replies.split_off(results.len())).collect();
        {
            let mut queue = lock(&self.queue);
            for job in left.into_iter().rev() {
                queue.waiting.push_front(job);
            }
        }
        drop(lead);
        for (reply, result) in replies.into_iter().zip(results) {
            // A caller that is gone has no use for its result.
            let _ = reply.send(Wake::Done(result));
        }
    }

    fn next_batch(&self) -> Vec<(Job, mpsc::Sender<Wake>)> {
        let mut queue = lock(&self.queue);
        let mut records = 0;
        let mut batch = Vec::new();
        while let Some(job) = queue.waiting.pop_front() {
            records += job.0.bodies.len();
            if records > BATCH_RECORDS && !batch.is_empty() {
                queue.waiting.push_front(job);
                break;
            }
            batch.push(job);
        }
        batch
    }

    /// Returns the results of the first jobs; those that did not fit the batch have none yet.
    fn commit(&self, jobs: &[Job]) -> Vec<Result<Vec<Receipt>, AppendError>> {
        match self.committer.lock() {
            Ok(mut committer) => committer.commit(jobs),
            Err(_) => jobs.iter().map(|_| Err(AppendError::Poisoned(Poison::Abandoned))).collect(),
        }
    }
}

/// The queue is whole at every point where a holder could panic, so a poisoned mutex is still good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
