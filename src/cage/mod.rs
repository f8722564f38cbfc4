//! The cage: a [`KernelSpec`](crate::kernel_spec::KernelSpec) carried out by the kernel of this machine.
//!
//! The broker starts this binary again as the [`guard()`] of a node, whose copy enters: it closes the cage
//! around itself, tries from inside what must fail, tells, and becomes the program once the broker has that
//! on record. [`Machine::measure`] says what the kernel here offers.
//!
//! It knows nothing of grants or policies.

#![expect(clippy::disallowed_methods, reason = "the cage is made of effects")]

mod cgroup;
mod enter;
mod filter;
mod guard;
mod keeper;
mod landlock;
mod machine;
mod namespaces;
mod seccomp;
mod sockets;
mod sys;
mod wire;

pub use cgroup::Group;
pub use guard::guard;
pub use keeper::{Keeper, Word};
pub use landlock::look;
pub use machine::{About, Groups, LANDLOCK_F, LANDLOCK_K, Machine, Namespaces, TIERS, attempt};
pub use wire::{End, Failure, Observed, Start};

/// The argument that makes this binary the guard of a node.
pub const GUARD: &str = "guard";
