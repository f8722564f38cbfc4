//! A line: the envelope, its typed body, and the one way to write both.
//!
//! [`decode_line`] accepts exactly the bytes that [`Record::encode`] produces. Whatever a lenient
//! JSON parser would let pass (another key order, an escape that was not needed, a carriage return
//! before the line feed) is a different line, and is refused.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::ser::{CompactFormatter, Formatter};
use serde_json::value::RawValue;
use uuid::Uuid;

pub use crate::body::*;
use crate::clock::{BootId, Timestamp};
use crate::digest::{Digest, bare_hex};

/// The schema version that this crate writes and reads.
pub const VERSION: u64 = 0;

/// The longest line in bytes, without its line feed.
pub const LINE_LIMIT: usize = 65_535;

/// The first integer that is too large for a line: 2^53, where other JSON readers lose digits.
pub const INTEGER_LIMIT: u64 = 1 << 53;

/// One record of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The leaf hash of the line before; zeros for the first line.
    pub prev: Digest,
    /// The line's number in the ledger, from 0.
    pub seq: u64,
    /// The wall clock when the record was written.
    pub ts: Timestamp,
    /// Microseconds since boot, including time asleep.
    pub mono: u64,
    /// Which boot.
    pub boot: BootId,
    /// The writer.
    pub w: Uuid,
    /// The operation that the record belongs to. Records that the ledger writes about itself
    /// carry the writer's id.
    pub op: Uuid,
    /// What happened.
    pub body: Body,
}

/// Defines [`Body`] and [`Kind`] from one list.
macro_rules! kinds {
    ($($(#[$meta:meta])* $kind:ident,)*) => {
        /// The kind of a record.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Kind { $($(#[$meta])* $kind,)* }

        /// The typed content of a record.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Body { $($(#[$meta])* $kind(Box<$kind>),)* }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];
        }

        impl Body {
            /// Returns the body's kind.
            #[must_use]
            pub const fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind,)* }
            }

            fn parse(kind: Kind, json: &str) -> Result<Self, serde_json::Error> {
                Ok(match kind { $(Kind::$kind => Self::$kind(serde_json::from_str(json)?),)* })
            }
        }

        impl Serialize for Body {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self { $(Self::$kind(body) => body.serialize(serializer),)* }
            }
        }

        $(impl From<$kind> for Body {
            fn from(body: $kind) -> Self {
                Self::$kind(Box::new(body))
            }
        })*
    };
}

kinds! {
    /// The first line.
    Genesis,
    /// A writer's introduction.
    Session,
    /// What was decided, before it is acted on.
    Decision,
    /// An answer to a question.
    Approval,
    /// The intent to start a program.
    Spawn,
    /// The program runs.
    Spawned,
    /// What holds a node.
    Caged,
    /// What a node was denied.
    Denied,
    /// The program is gone.
    Exit,
    /// The first line of a further segment.
    Segment,
    /// A declaration about an unfinished line.
    Recovery,
    /// A writer's goodbye.
    Close,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Kind {
    /// Whether only the ledger itself writes records of this kind.
    #[must_use]
    pub const fn is_reserved(self) -> bool {
        match self {
            Self::Genesis | Self::Session | Self::Segment | Self::Recovery => true,
            Self::Decision
            | Self::Approval
            | Self::Spawn
            | Self::Spawned
            | Self::Caged
            | Self::Denied
            | Self::Exit
            | Self::Close => false,
        }
    }
}

/// The envelope as it stands in the file. The order of the fields is the order of the keys.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wire<K, B> {
    pub(crate) v: u64,
    #[serde(with = "bare_hex")]
    pub(crate) prev: Digest,
    pub(crate) seq: u64,
    pub(crate) ts: Timestamp,
    pub(crate) mono: u64,
    pub(crate) boot: BootId,
    pub(crate) w: Uuid,
    pub(crate) op: Uuid,
    pub(crate) kind: K,
    pub(crate) body: B,
}

impl Wire<Kind, &Body> {
    /// Appends the line to `out`, without a line feed. On error `out` may hold a part.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut serializer = serde_json::Serializer::with_formatter(out, Strict);
        self.serialize(&mut serializer).map_err(|error| EncodeError(printable(&error.to_string())))
    }
}

/// Why some bytes are not a line of a ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// Longer than [`LINE_LIMIT`].
    #[error("line of {len} bytes is longer than {LINE_LIMIT}")]
    TooLong {
        /// The length in bytes, without the line feed.
        len: u64,
    },
    /// Of a version that this program does not know.
    #[error("line has format version {found}, this program reads {VERSION}")]
    Version {
        /// The version found.
        found: u64,
    },
    /// A record of a kind that this program does not know.
    #[error("line is a record of kind `{kind}`, which this program does not know")]
    Kind {
        /// The kind found, a word in lower case.
        kind: String,
    },
    /// Not a record. The text is safe to print.
    #[error("line is not a record: {0}")]
    Malformed(String),
    /// A record, but not written the one way there is.
    #[error("line is not in canonical form: byte {at} differs from `{expected}`")]
    NotCanonical {
        /// The first byte that differs, counted from the start of the line.
        at: u64,
        /// What stands there in canonical form; safe to print.
        expected: String,
    },
}

/// Why a record cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record cannot be written: {0}")]
pub struct EncodeError(pub(crate) String);

impl Record {
    /// Appends the record's line to `out`, without a line feed. On error `out` may hold a part.
    ///
    /// # Errors
    /// An integer of [`INTEGER_LIMIT`] or beyond. The length is not checked here.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let wire = Wire {
            v: VERSION,
            prev: self.prev,
            seq: self.seq,
            ts: self.ts,
            mono: self.mono,
            boot: self.boot,
            w: self.w,
            op: self.op,
            kind: self.body.kind(),
            body: &self.body,
        };
        let mut serializer = serde_json::Serializer::with_formatter(out, Strict);
        wire.serialize(&mut serializer).map_err(|error| EncodeError(printable(&error.to_string())))
    }
}

/// Decodes one line, given without its line feed.
///
/// Never panics, needs memory in proportion to the line, and accepts only canonical lines:
/// encoding the result gives the same bytes.
///
/// # Errors
/// See [`LineError`].
pub fn decode_line(line: &[u8]) -> Result<Record, LineError> {
    if line.len() > LINE_LIMIT {
        return Err(LineError::TooLong { len: line.len() as u64 });
    }
    if let Some(found) = version_of(line).filter(|v| *v != VERSION) {
        return Err(LineError::Version { found });
    }
    let malformed = |error: &dyn fmt::Display| LineError::Malformed(printable(&error.to_string()));
    let text = str::from_utf8(line).map_err(|error| malformed(&error))?;
    let wire: Wire<Kind, &RawValue> = serde_json::from_str(text).map_err(|error| match unknown(line) {
        Some((kind, ..)) => LineError::Kind { kind },
        None => malformed(&error),
    })?;
    let body = Body::parse(wire.kind, wire.body.get()).map_err(|error| malformed(&error))?;
    let record = Record {
        prev: wire.prev,
        seq: wire.seq,
        ts: wire.ts,
        mono: wire.mono,
        boot: wire.boot,
        w: wire.w,
        op: wire.op,
        body,
    };
    let mut canonical = Vec::with_capacity(line.len());
    record.encode(&mut canonical).map_err(|EncodeError(error)| malformed(&error))?;
    if canonical == line { Ok(record) } else { Err(first_difference(line, &canonical)) }
}

/// Reads a record of this version whose kind is not known: the kind, and the place that the record
/// claims. What does not look like the name of a kind is none.
pub(crate) fn unknown(line: &[u8]) -> Option<(String, Digest, u64)> {
    const LONGEST: usize = 40;
    let text = str::from_utf8(line).ok()?;
    let wire: Wire<String, &RawValue> = serde_json::from_str(text).ok()?;
    let is_word =
        wire.kind.len() <= LONGEST && wire.kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let known: Result<Kind, serde::de::value::Error> =
        Kind::deserialize(serde::de::value::StrDeserializer::new(&wire.kind));
    (is_word && known.is_err()).then_some((wire.kind, wire.prev, wire.seq))
}

/// Reads the version off the fixed start of a line, so that a line of another version is reported
/// as such however else it differs.
pub(crate) fn version_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"{\"v\":")?;
    let digits = rest.split(|byte| *byte == b',').next()?;
    if digits.is_empty() || digits.len() > 16 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

fn first_difference(line: &[u8], canonical: &[u8]) -> LineError {
    let at = line.iter().zip(canonical).take_while(|(found, wanted)| found == wanted).count();
    let expected = canonical.get(at..).unwrap_or_default();
    let expected = expected.get(..16).unwrap_or(expected);
    LineError::NotCanonical { at: at as u64, expected: printable(&String::from_utf8_lossy(expected)) }
}

/// Whether `c` could disturb a terminal, a line-based tool or the order in which text is read.
pub(crate) const fn is_disturbing(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

/// Escapes what [`is_disturbing`], for messages.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_disturbing(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// The writer's side of the canonical form: escapes what [`is_disturbing`] beyond what JSON asks
/// for, and refuses numbers that other readers would change.
struct Strict;

impl Formatter for Strict {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Nearly all text is of this kind, and every line that is read is written again to be compared.
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return writer.write_all(fragment.as_bytes());
        }
        for piece in fragment.split_inclusive(is_disturbing) {
            match piece.chars().next_back().filter(|c| is_disturbing(*c)) {
                None => writer.write_all(piece.as_bytes())?,
                Some(last) => {
                    let before = piece.strip_suffix(last).unwrap_or_default();
                    writer.write_all(before.as_bytes())?;
                    write!(writer, "\\u{:04x}", u32::from(last))?;
                }
            }
        }
        Ok(())
    }

    fn write_u64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        if value >= INTEGER_LIMIT {
            return Err(io::Error::other(format!("integer {value} is beyond 2^53")));
        }
        CompactFormatter.write_u64(writer, value)
    }

    fn write_i64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: i64) -> io::Result<()> {
        if value.unsigned_abs() >= INTEGER_LIMIT {
            return Err(io::Error::other(format!("integer {value} is beyond 2^53")));
        }
        CompactFormatter.write_i64(writer, value)
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, _: &mut W, _: f64) -> io::Result<()> {
        Err(io::Error::other("a ledger holds no fractions"))
    }
}
