//! Lines as they are cut from a stream and hashed, whatever they say.

use std::io::{self, BufRead, Read};

use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::record::{LINE_LIMIT, LineError, Record, decode_line};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawLine {
    /// Where it starts.
    pub(crate) offset: u64,
    /// Its length without the line feed.
    pub(crate) len: u64,
    /// Whether a line feed ends it.
    pub(crate) ended: bool,
    pub(crate) leaf: Digest,
    /// The plain digest, present where the line was too long to be kept.
    pub(crate) overlong: Option<Digest>,
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

    /// Decodes the line, given as it was kept.
    pub(crate) fn decode(&self, line: &[u8]) -> Result<Record, LineError> {
        match self.overlong {
            None => decode_line(line),
            Some(_) => Err(LineError::TooLong { len: self.len }),
        }
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

    /// Where the next line starts.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
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
