//! The planner: `decide(policy, request, situation) → decision`.
//!
//! Pure: no file, no clock, no environment, no network. All it needs arrives as a value, and the
//! same input always gives the same output. Read [`decide()`] for the order of checks.

#![forbid(unsafe_code)]

mod ceiling;
mod decide;
mod decision;
mod enforcement;
mod example;
mod kernel;
mod refusal;
mod request;
mod situation;

pub use ceiling::{ceiling, undeclared};
pub use decide::decide;
pub use decision::{Budget, Considered, Decision, Digests, Hold, Plan, Refused};
pub use enforcement::{Enforcement, Enforcer};
pub use example::example;
pub use kernel::{SYSTEM, compile, places};
pub use refusal::{Code, Details, Disposition, Refusal};
pub use request::{
    AskedDelegate, AskedUse, BudgetRequest, DefinitionRef, MAX_IDS, MAX_TASK, NoDefinitionRef, Origin,
    Request, Subject, TaskFacts, Which,
};
pub use situation::{
    Approval, DefinitionFact, Facts, NodeFacts, PlaceFact, Scope, Situation, Strength, Usage,
};
