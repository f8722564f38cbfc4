//! The scripted agent: deterministic, inside this binary, for demos and tests.
//!
//! It reads a list of steps on standard input and tries each. Tool steps go through its own
//! allowlist, as in any agent program. Raw steps ignore the allowlist on purpose: they are what a
//! program does that no longer asks, so a test of them proves the kernel and not a flag.
//!
//! One step a line; blank lines and lines that begin with `#` are passed over:
//!
//! ```text
//! read PATH                  raw_open read PATH
//! write PATH TEXT            raw_open write PATH
//! edit PATH OLD => NEW       raw_connect HOST:PORT
//! ls PATH                    raw_exec PROGRAM ARGUMENT…
//! glob PATTERN               say TEXT
//! grep TEXT PATH
//! bash COMMAND
//! ```
//!
//! Every step prints one line: `ok`, `denied` or `failed`, the step, and what came of it. A denied
//! or failed step does not end the script, as it does not end an agent.

#![forbid(unsafe_code)]

mod steps;
mod tools;

use std::io::{Read, Write};

use crate::capability::{Capability, CapabilitySet};
use crate::diagnostic::printable;
use crate::exit::Exit;

pub use steps::{Step, StepError};

/// The largest script, in bytes.
const MAX_SCRIPT: u64 = 16 * 1024 * 1024;

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done; what came of it.
    Done(String),
    /// The allowlist does not hold it.
    Denied(Capability),
    /// It was tried and did not work; why.
    Failed(String),
}

/// Runs a script to its end with this allowlist, in the current directory.
///
/// The whole script is read before its first step runs; a script that cannot be read runs nothing.
///
/// # Errors
/// Only where input cannot be read or output not written.
pub fn run(allow: &[Capability], input: impl Read, mut output: impl Write) -> std::io::Result<Exit> {
    let mut script = String::new();
    input.take(MAX_SCRIPT).read_to_string(&mut script)?;
    let steps = match steps::parse(&script) {
        Ok(steps) => steps,
        Err(error) => {
            writeln!(output, "cannot read the script: {error}")?;
            return Ok(Exit::Usage);
        }
    };
    let allow: CapabilitySet = allow.iter().cloned().collect();
    for step in &steps {
        let (word, rest) = match tools::attempt(step, &allow) {
            Outcome::Done(what) => ("ok", what),
            Outcome::Denied(id) => ("denied", format!("`{id}` is not in the allowlist")),
            Outcome::Failed(why) => ("failed", why),
        };
        writeln!(output, "{word:<7} {}: {}", printable(&step.to_string()), printable(&rest))?;
    }
    output.flush()?;
    Ok(Exit::Done)
}
