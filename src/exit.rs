//! Exit codes: stable, documented in the README. A child's own code is passed through.

#![forbid(unsafe_code)]

use std::process::{ExitCode, Termination};

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// An internal or I/O error.
    Internal,
    /// Wrong usage of the command line.
    Usage,
    /// Refused.
    Refused,
    /// Held for an approval.
    Held,
    /// An invalid definition or policy, or another malformed input.
    Invalid,
    /// The ledger is damaged or cannot be written.
    Ledger,
    /// Nothing here could hold the grant.
    NotEnforceable,
    /// It could not be launched, or did not end by itself.
    LaunchFailed,
    /// The ledger contradicts a trusted checkpoint.
    Tampered,
    /// The evidence covers less than was required.
    Coverage,
    /// The child's own code, or 128 and the signal that ended it.
    Child(u8),
}

impl Exit {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Internal => 1,
            Self::Usage => 2,
            Self::Refused => 80,
            Self::Held => 81,
            Self::Invalid => 82,
            Self::Ledger => 83,
            Self::NotEnforceable => 84,
            Self::LaunchFailed => 85,
            Self::Tampered => 86,
            Self::Coverage => 87,
            Self::Child(code) => code,
        }
    }

    /// Every code of our own, with its meaning, in the order of the numbers.
    pub const TABLE: &'static [(Self, &'static str)] = &[
        (Self::Done, "done"),
        (Self::Internal, "internal or I/O error"),
        (Self::Usage, "wrong usage"),
        (Self::Refused, "refused"),
        (Self::Held, "held for an approval"),
        (Self::Invalid, "invalid definition, policy or request"),
        (Self::Ledger, "ledger damaged or not writable"),
        (Self::NotEnforceable, "not enforceable here"),
        (Self::LaunchFailed, "could not launch, or did not end by itself"),
        (Self::Tampered, "ledger contradicts a trusted checkpoint"),
        (Self::Coverage, "evidence covers less than required"),
    ];
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}
