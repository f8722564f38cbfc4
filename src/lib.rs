//! `depute` lets an AI agent hand work to a sub-agent without handing over its keys.
//!
//! A request is decided by a pure function, [`plan::decide()`], out of three values: a
//! [`policy::Policy`], a [`plan::Request`] and a [`plan::Situation`]. What comes out is a
//! [`plan::Decision`]; only its granted form holds a [`plan::Plan`]. A [`broker::Session`] gathers the
//! situation, has it decided, puts the decision on a [ledger](depute_ledger), and starts nothing but
//! a plan that is recorded there. [`cli`] is argument in, result out.
//!
//! Pure: [`capability`], [`definition`], [`policy`], [`runtime`], [`plan`], [`schema`], [`shape`],
//! [`yaml`], [`diagnostic`], [`nearest`], [`exit`]. With effects: [`host`], [`durable`], [`discover`], [`broker`],
//! [`scripted`], [`cli`].

pub mod broker;
pub mod cage;
pub mod capability;
pub mod cli;
pub mod definition;
pub mod diagnostic;
pub mod discover;
pub mod durable;
pub mod exit;
pub mod host;
pub mod kernel_spec;
pub mod nearest;
pub mod plan;
pub mod policy;
pub mod runtime;
pub mod schema;
pub mod scripted;
pub mod shape;
pub mod yaml;
