//! What a check of a ledger can find.

use std::fmt;

use serde::Serialize;

/// One thing found, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The line it is about.
    pub seq: Option<u64>,
    /// The segment it is in, by the number of its first line.
    pub segment: Option<u64>,
    /// Where that line starts, in bytes from the start of its segment.
    pub offset: Option<u64>,
    /// What to tell a person; safe to print.
    pub message: String,
    /// What should have been there.
    pub expected: Option<String>,
    /// What was there.
    pub actual: Option<String>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Worth looking into; the lines are what was written.
    Warning,
    /// The ledger is not what was written.
    Damage,
}

/// What was found. The names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Code {
    /// The segment or its first line is missing.
    GenesisMissing,
    /// A genesis record elsewhere than on the first line, or one that names other limits.
    GenesisInvalid,
    /// A line is longer than a line may be.
    LineTooLong,
    /// A line is of a version this program does not know.
    LineVersion,
    /// A line is a record of a kind this program does not know.
    LineKind,
    /// A line is not a record.
    LineMalformed,
    /// A line is not in canonical form.
    LineNotCanonical,
    /// A line does not name the hash of the line before it.
    LinkBroken,
    /// A line does not have the number that follows.
    SeqBroken,
    /// A recovery record declares what is not so.
    RecoveryFalse,
    /// A segment is missing, or one is there that does not follow.
    SegmentMissing,
    /// A segment does not begin with a record that says what it goes on from, or says what is not so.
    SegmentInvalid,
    /// The segment ends before a line that was known to be on disk.
    Truncated,
    /// The line that was known to be on disk is another one now.
    HeadMismatch,
    /// There is no `head`, so a cut at the end could not be noticed.
    HeadAbsent,
    /// `head` cannot be read, so a cut at the end could not be noticed.
    HeadUnreadable,
    /// The last line is unfinished. It is being written, or the next writer declares it.
    TailUnfinished,
    /// A recovery was interrupted. The next writer finishes it.
    RecoveryUnfinished,
    /// An object that a line names is not there.
    ObjectMissing,
    /// An object's content is not what its name says.
    ObjectDamaged,
    /// An object could not be read.
    ObjectUnreadable,
    /// The wall clock went back.
    ClockBackward,
    /// A spawn names no granted decision about its node, or one that was used before.
    SpawnUndecided,
    /// A spawn whose exit was not recorded: its outcome is unknown.
    OutcomeUnknown,
}

impl Finding {
    pub(crate) fn new(code: Code, severity: Severity, message: impl Into<String>) -> Self {
        Self {
            code,
            severity,
            seq: None,
            segment: None,
            offset: None,
            message: message.into(),
            expected: None,
            actual: None,
        }
    }

    pub(crate) fn damage(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Damage, message)
    }

    pub(crate) fn at(mut self, seq: u64, offset: u64) -> Self {
        self.seq = Some(seq);
        self.offset = Some(offset);
        self
    }

    /// Names the segment that the offset is in.
    pub(crate) fn in_segment(mut self, segment: u64) -> Self {
        self.segment = Some(segment);
        self
    }

    /// What was there, where nothing in particular was expected.
    pub(crate) fn found(mut self, actual: impl fmt::Display) -> Self {
        self.actual = Some(actual.to_string());
        self
    }

    pub(crate) fn but(mut self, expected: impl fmt::Display, actual: impl fmt::Display) -> Self {
        self.expected = Some(expected.to_string());
        self.actual = Some(actual.to_string());
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match (self.seq, self.offset) {
            (Some(seq), Some(offset)) => match self.segment {
                Some(segment) if segment > 0 => {
                    write!(f, " (line {seq}, byte {offset} of the segment that begins with line {segment})")?;
                }
                Some(_) | None => write!(f, " (line {seq}, byte {offset})")?,
            },
            (Some(seq), None) => write!(f, " (line {seq})")?,
            (None, Some(offset)) => write!(f, " (byte {offset})")?,
            (None, None) => {}
        }
        if let (Some(expected), Some(actual)) = (&self.expected, &self.actual) {
            write!(f, ": expected `{expected}`, found `{actual}`")?;
        }
        Ok(())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
