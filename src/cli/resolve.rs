//! `depute resolve`: the set arithmetic alone, for controllers in other languages. A line in is a
//! [`Question`], a line out its answer.

use std::io::BufRead;

use crate::capability::Question;
use crate::exit::Exit;

use super::Failure;
use super::out::Output;

/// The code of a line that is no input.
const MALFORMED: &str = "REQUEST_MALFORMED";

/// The longest line, in bytes.
const MAX_LINE: u64 = 1024 * 1024;

pub(super) fn main(mut input: impl BufRead, out: &mut Output) -> Result<Exit, Failure> {
    let mut number = 0_usize;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = std::io::Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            out.flush()?;
            return Ok(Exit::Done);
        }
        number += 1;
        if line.last() != Some(&b'\n') && read as u64 == MAX_LINE {
            return Err(Failure::new(
                Exit::Invalid,
                MALFORMED,
                format!("line {number} is longer than {MAX_LINE} bytes"),
            )
            .fix("write one question a line"));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let question: Question = serde_json::from_slice(&line).map_err(|error| {
            Failure::new(Exit::Invalid, MALFORMED, format!("line {number}: {error}")).fix(
                "write an object with `requested`, `parentGrant`, and optionally `ceiling`, `gated`, `approved`, `subsumption`",
            )
        })?;
        out.json(&question.answer())?;
        out.flush()?;
    }
}
