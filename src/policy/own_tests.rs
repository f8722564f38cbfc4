//! A policy's own tests: examples of what it grants and refuses, checked whenever it is.

use std::ops::Range;

use crate::capability::{CapabilitySet, DefinitionName};

/// One example inside a policy. It stands for a definition of this name that declares exactly what
/// is asked for, requested by the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyTest {
    /// What the example shows.
    pub name: String,
    /// The definition's name.
    pub agent: DefinitionName,
    /// What is asked for, as ids; malformed ones are denied.
    pub uses: Vec<String>,
    /// What is asked to be handed down.
    pub delegate: Option<Vec<String>>,
    /// The runtime, where not the policy's default.
    pub runtime: Option<String>,
    /// What a person has approved for the session.
    pub approved: CapabilitySet,
    /// The verdict that must come out.
    pub expect: Expect,
    /// The code that must come out.
    pub code: Option<String>,
    /// Where the example stands.
    pub span: Range<usize>,
}

/// A verdict that an example expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It may start.
    Granted,
    /// It waits for a human.
    Held,
    /// It is refused.
    Refused,
}

impl Expect {
    /// Every verdict.
    pub const ALL: [Self; 3] = [Self::Granted, Self::Held, Self::Refused];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Held => "held",
            Self::Refused => "refused",
        }
    }
}

/// What came out of one example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestOutcome {
    /// The example's name.
    pub name: String,
    /// Whether verdict and code are as expected.
    pub passed: bool,
    /// What came out, in words.
    pub found: String,
    /// Where the example stands.
    pub span: Range<usize>,
}
