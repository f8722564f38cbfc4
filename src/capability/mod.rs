//! Capabilities: what an agent may do, as values that cannot be malformed.
//!
//! Pure: no file, clock, environment or network. Start at [`Capability`] for the ids, at
//! [`CapabilitySet`] and [`Grant`] for what a node holds, and at [`resolve()`] for the arithmetic, which
//! a [`Question`] asks for as one object.

#![forbid(unsafe_code)]

mod cover;
mod id;
mod name;
mod question;
mod resolve;
pub mod scope;
mod set;
pub mod vocabulary;

pub use cover::{Cover, Subsumption};
pub use id::{Capability, IdError, Kind, Reach};
pub use name::{DefinitionName, MAX_NAME, Name, PackageName, ToolName, WorkspaceId};
pub use question::{Answer, Question};
pub use resolve::{AskedId, Bound, Resolution, builtin_universal, resolve};
pub use scope::{CommandScope, HostScope, PathScope, Scope};
pub use set::{CapabilitySet, Grant};
