//! Reading: the records of a ledger in order, each checked against the chain.
//!
//! Creates nothing, changes nothing, needs no write permission and no key. Memory is bounded by
//! the longest line, not by the ledger.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};

use crate::chain::Chain;
use crate::digest::{Digest, KeyedDigest};
use crate::durable;
use crate::error::{Newer, OpenError, Unsafe};
use crate::finding::Finding;
use crate::head::{self, Head, State};
use crate::key;
use crate::layout::Layout;
use crate::lines::{Lines, RawLine};
use crate::objects::{ObjectError, Objects};
use crate::open::{first_record, first_version};
use crate::record::{Body, LINE_LIMIT, Record, VERSION};

/// Why a ledger cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The operating system said no.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The path in question.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// There is no ledger in this directory.
    #[error("there is no ledger in `{}`", .0.display())]
    Missing(PathBuf),
    /// A segment is not a plain file.
    #[error("refusing `{}`: {why}", path.display())]
    Unsafe {
        /// The path in question.
        path: PathBuf,
        /// What is wrong with it.
        why: Unsafe,
    },
    /// The ledger was written by a newer program.
    #[error("ledger was written by a newer version: {0}")]
    Newer(Newer),
}

/// Why reading stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The ledger cannot be read.
    #[error(transparent)]
    Access(#[from] VerifyError),
    /// The ledger is not what was written. Nothing after this place is reported.
    #[error("ledger is damaged: {0}")]
    Damaged(Box<Finding>),
}

impl From<Finding> for ReadError {
    fn from(finding: Finding) -> Self {
        match Newer::of(&finding) {
            Some(newer) => VerifyError::Newer(newer).into(),
            None => Self::Damaged(Box::new(finding)),
        }
    }
}

/// The segments of a ledger as one stream of lines, as long as they were when it was opened.
#[derive(Debug)]
pub(crate) struct Stream {
    layout: Layout,
    pub(crate) head: io::Result<State>,
    /// Those not yet opened, the oldest first.
    later: VecDeque<u64>,
    current: Segment,
}

#[derive(Debug)]
struct Segment {
    first: u64,
    path: PathBuf,
    file: File,
    lines: Lines<BufReader<Take<File>>>,
}

impl Segment {
    fn open(layout: &Layout, first: u64) -> Result<Self, VerifyError> {
        let path = layout.segment(first);
        let failed = |source| VerifyError::Io { path: path.clone(), source };
        let file = durable::open_read(&path).map_err(|error| match error.raw_os_error() {
            Some(errno) if errno == nix::errno::Errno::ELOOP as i32 => {
                VerifyError::Unsafe { path: path.clone(), why: Unsafe::Symlink }
            }
            _ => failed(error),
        })?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(VerifyError::Unsafe { path, why: Unsafe::NotRegular });
        }
        if let Some(found) = first_version(&file).map_err(failed)?.filter(|found| *found != VERSION) {
            return Err(VerifyError::Newer(Newer::Version { found }));
        }
        let stream = file.try_clone().map_err(failed)?.take(metadata.len());
        let lines = Lines::new(BufReader::with_capacity(LINE_LIMIT, stream), 0);
        Ok(Self { first, path, file, lines })
    }
}

impl Stream {
    pub(crate) fn open(dir: &Path) -> Result<Self, VerifyError> {
        Self::open_last(dir, usize::MAX)
    }

    /// The last `count` segments, and at least the newest.
    fn open_last(dir: &Path, count: usize) -> Result<Self, VerifyError> {
        let layout = Layout::new(dir);
        // `head` first: segments only grow and become more, so they then hold at least what it says.
        let head = head::read(&layout.head);
        let segments = layout.segments().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                VerifyError::Missing(layout.dir.clone())
            }
            _ => VerifyError::Io { path: layout.dir.clone(), source },
        })?;
        let passed_over = segments.len().saturating_sub(count.max(1));
        let mut later: VecDeque<u64> = segments.into_iter().skip(passed_over).collect();
        let Some(first) = later.pop_front() else { return Err(VerifyError::Missing(layout.dir)) };
        let current = Segment::open(&layout, first)?;
        Ok(Self { layout, head, later, current })
    }

    /// The chain before the first line of these segments, as that line gives it.
    fn chain(&self) -> Result<Option<Chain>, VerifyError> {
        let Segment { first, path, file, .. } = &self.current;
        let failed = |source| VerifyError::Io { path: path.clone(), source };
        Ok(match first_record(file).map_err(failed)? {
            Ok(Record { prev, seq, body: Body::Segment(segment), .. }) if seq == *first => {
                Some(Chain::resume(seq, prev, segment.log))
            }
            Ok(_) | Err(_) => None,
        })
    }

    /// Takes what was appended meanwhile into view, behind what was read.
    fn refresh(&mut self, chain: &Chain) -> Result<(), VerifyError> {
        self.head = head::read(&self.layout.head);
        let Segment { first, path, file, lines } = &mut self.current;
        let failed = |source| VerifyError::Io { path: path.clone(), source };
        let from = chain.frontier().offset;
        let len = file.metadata().map_err(failed)?.len();
        let mut stream = file.try_clone().map_err(failed)?;
        stream.seek(SeekFrom::Start(from)).map_err(failed)?;
        *lines =
            Lines::new(BufReader::with_capacity(LINE_LIMIT, stream.take(len.saturating_sub(from))), from);
        let newest = *first;
        let segments = self.layout.segments();
        let segments =
            segments.map_err(|source| VerifyError::Io { path: self.layout.dir.clone(), source })?;
        self.later = segments.into_iter().filter(|first| *first > newest).collect();
        Ok(())
    }

    /// What begins elsewhere than with line 0 is not whole.
    pub(crate) fn begin(&self, chain: &mut Chain) -> Vec<Finding> {
        if self.current.first == 0 { Vec::new() } else { chain.turn(self.current.first) }
    }

    /// Reads the next line into `line`, and takes it through a turn to the next segment: `turned` gets
    /// what is wrong with that.
    pub(crate) fn next(
        &mut self,
        chain: &mut Chain,
        line: &mut Vec<u8>,
        turned: &mut Vec<Finding>,
    ) -> Result<Option<RawLine>, VerifyError> {
        loop {
            let Segment { path, lines, .. } = &mut self.current;
            let raw = lines.next(line).map_err(|source| VerifyError::Io { path: path.clone(), source })?;
            match (raw, self.later.front()) {
                // Nobody goes on with the last line of a segment that another follows.
                (Some(raw), Some(_)) => return Ok(Some(raw.completed())),
                (Some(raw), None) => return Ok(Some(raw)),
                (None, None) => return Ok(None),
                (None, Some(first)) => {
                    let first = *first;
                    turned.extend(chain.turn(first));
                    self.current = Segment::open(&self.layout, first)?;
                    self.later.pop_front();
                }
            }
        }
    }

    /// Holds `head` against the segments read.
    pub(crate) fn check_head(&self, head: &Head) -> Result<Option<Finding>, VerifyError> {
        let Segment { first, path, file, .. } = &self.current;
        let failed = |source| VerifyError::Io { path: path.clone(), source };
        Ok(match head.segment.cmp(first) {
            // The newest segment was begun, and `head` not yet moved there.
            Ordering::Less => None,
            Ordering::Equal => {
                head.check(file).map_err(failed)?.map(|finding| finding.in_segment(head.segment))
            }
            Ordering::Greater => Some(head.missing()),
        })
    }
}

/// A record and the line it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The line's number.
    pub seq: u64,
    /// The segment it is in, by the number of its first line.
    pub segment: u64,
    /// Where it starts, in bytes from the start of its segment.
    pub offset: u64,
    /// Its bytes, without the line feed.
    pub bytes: Vec<u8>,
    /// Its leaf hash.
    pub leaf: Digest,
    /// What it says. The line is in canonical form and links to the line before it.
    pub record: Record,
}

/// An iterator over the records of a ledger, from the first to the newest.
///
/// Reads what was there when it was opened, up to the last line feed. Torn lines are passed over:
/// the recovery records behind them are there to be seen. After the first error there is nothing
/// more; a ledger that was cut at its end gives its remaining records first, and then the error.
#[derive(Debug)]
pub struct Reader {
    stream: Stream,
    chain: Chain,
    /// What was found wrong and is to be said next.
    wrong: Option<Finding>,
    objects: Objects,
    key: PathBuf,
    buffer: Vec<u8>,
    done: bool,
    failed: bool,
}

impl Reader {
    /// Opens the last `count` segments of the ledger in directory `dir`, and at least the newest. The
    /// link of the first of them to what is before is taken as it is written.
    ///
    /// # Errors
    /// See [`VerifyError`].
    pub fn open_last(dir: &Path, count: usize) -> Result<Self, VerifyError> {
        let stream = Stream::open_last(dir, count)?;
        Ok(match stream.chain()? {
            Some(chain) => Self::of(stream, chain, None, dir),
            None => {
                let mut chain = Chain::new();
                let wrong = stream.begin(&mut chain).into_iter().next();
                Self::of(stream, chain, wrong, dir)
            }
        })
    }

    fn of(stream: Stream, chain: Chain, wrong: Option<Finding>, dir: &Path) -> Self {
        Self {
            stream,
            chain,
            wrong,
            objects: Objects::new(dir),
            key: Layout::new(dir).key,
            buffer: Vec::new(),
            done: false,
            failed: false,
        }
    }

    /// Takes what was appended since into view: the iterator goes on with it. After an error there is
    /// nothing more.
    ///
    /// # Errors
    /// See [`VerifyError`].
    pub fn refresh(&mut self) -> Result<(), VerifyError> {
        if self.done && !self.failed {
            self.stream.refresh(&self.chain)?;
            self.done = false;
        }
        Ok(())
    }

    /// Opens the ledger in directory `dir`.
    ///
    /// # Errors
    /// See [`VerifyError`].
    pub fn open(dir: &Path) -> Result<Self, VerifyError> {
        let stream = Stream::open(dir)?;
        let mut chain = Chain::new();
        let wrong = stream.begin(&mut chain).into_iter().next();
        Ok(Self::of(stream, chain, wrong, dir))
    }

    /// Reads an object of at most [`OBJECT_LIMIT`](crate::OBJECT_LIMIT) bytes and checks its
    /// content against its name.
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn get_object(&self, digest: Digest) -> Result<Vec<u8>, ObjectError> {
        self.objects.get(digest)
    }

    /// Digests text under the ledger's key, as its writers did. Nothing where the key was destroyed.
    ///
    /// # Errors
    /// Where the key cannot be read, or others could have changed it.
    pub fn keyed_digest(&self, bytes: &[u8]) -> Result<Option<KeyedDigest>, OpenError> {
        Ok(key::read(&self.key)?.map(|key| KeyedDigest::of(&key, bytes)))
    }

    fn advance(&mut self) -> Result<Option<Line>, ReadError> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong.into());
        }
        let mut turned = Vec::new();
        while let Some(raw) = self.stream.next(&mut self.chain, &mut self.buffer, &mut turned)? {
            if let Some(wrong) = turned.drain(..).next() {
                return Err(wrong.into());
            }
            if !raw.ended {
                break;
            }
            let step = self.chain.step(&raw, &self.buffer);
            if let Some(finding) = step.findings.into_iter().next() {
                return Err(finding.into());
            }
            if let Some(record) = step.record {
                return Ok(Some(Line {
                    seq: record.seq,
                    segment: self.chain.segment(),
                    offset: raw.offset,
                    bytes: self.buffer.clone(),
                    leaf: raw.leaf,
                    record,
                }));
            }
        }
        let head = match &self.stream.head {
            Ok(State::Known(head)) => Some(head),
            Ok(State::Absent | State::Unreadable) | Err(_) => None,
        };
        let recovering = match (head, self.chain.unsettled()) {
            (Some(head), Some(torn)) => head.announces(torn),
            (_, _) => false,
        };
        let mut findings = turned;
        if !recovering {
            findings.extend(self.chain.finish());
        }
        if let (Some(head), true) = (head, findings.is_empty()) {
            findings.extend(self.stream.check_head(head)?);
        }
        match findings.into_iter().next() {
            Some(finding) => Err(finding.into()),
            None => Ok(None),
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Line, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.advance().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}
