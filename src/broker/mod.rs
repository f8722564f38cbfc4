//! One session: from a request to a recorded decision to a running child.
//!
//! The order is fixed: assemble the [`Situation`](crate::plan::Situation), decide, record, and only
//! then act. The executor takes nothing but a [`Recorded`](depute_ledger::Recorded) plan, and
//! only the ledger's append returns one.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "the broker acts on files and starts programs")]

mod assemble;
mod denied;
mod drive;
mod executor;
mod gate;
mod inputs;
mod program;
mod proxy;
mod record;
mod session;
mod sessions;

pub use assemble::{
    Assembled, Place, assemble, load_policy, load_profile, policy_file, profiles, runtimes, user_policy,
    within_locks,
};
pub use denied::{Denied, What};
pub use drive::MAX_OUTPUT;
pub use executor::{Ending, Outcome};
pub use gate::Terminal;
pub use inputs::{Inputs, catalog};
pub use program::{locate, program};
pub use proxy::DeniedHost;
pub use session::{Ended, Session, SessionError};
pub use sessions::{Answer, Garbage, Waste, answers, collect};
