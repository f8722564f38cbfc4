//! `depute` lets an AI agent hand work to a sub-agent without handing over its keys.

pub mod broker;
pub mod capability;
pub mod cli;
pub mod definition;
pub mod diagnostic;
pub mod discover;
pub mod exit;
pub mod host;
pub mod nearest;
pub mod plan;
pub mod policy;
pub mod runtime;
pub mod scripted;
pub mod yaml;
