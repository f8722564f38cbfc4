//! The command line: arguments in, requests and results out. One file a command.
//!
//! Data goes to standard output, talk to standard error.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "the command line reads the files that it is given")]

mod check;
mod demo;
mod doctor;
mod explain;
mod gc;
mod r#gen;
mod init;
mod ledger;
mod list;
mod manual;
mod out;
mod output;
mod plan;
mod request;
mod resolve;
mod run;
mod surroundings;
mod trust;

use std::path::PathBuf;

use clap::{Args, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::cage;
use crate::capability::Capability;
use crate::diagnostic::Diagnostic;
use crate::exit::Exit;
use crate::host;
use crate::policy::parse_duration;

use out::Output;

/// Lets an AI agent hand work to a sub-agent without handing over its keys.
#[derive(Debug, Parser)]
#[command(name = "depute", version, max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
struct Global {
    /// The policy; without it, the operator's for this directory, then the user's, then the built-in
    #[arg(long, global = true, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The ledger; without it, one for this project in the user's state directory
    #[arg(long, global = true, value_name = "DIR")]
    ledger: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// When to colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Color,
    /// Say less
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the whole path once: a ceiling, a granted child, a refused one, a verified ledger
    Demo(demo::DemoArgs),
    /// Look at what is here, and write a read-only policy for it
    Init,
    /// Read definitions and policies as the planner would, and say what is wrong with them
    Check(check::CheckArgs),
    /// Say what this machine and each runtime can enforce, and what is wrong with the operator's places
    Doctor,
    /// List the definitions in force here, and what each could do
    List,
    /// Decide and print, without starting or recording anything
    Plan(request::RequestArgs),
    /// Decide, record, start the child, and see it to its end
    Run(request::RequestArgs),
    /// Say whether the definitions of a directory may be spawned
    Trust(trust::TrustArgs),
    /// Explain a recorded decision: made again from what the ledger stored, with the rule and the fix
    Explain(explain::ExplainArgs),
    /// Print the answer of a node, checked against the ledger
    Output(output::OutputArgs),
    /// Remove old answers, and what sessions that died left behind
    Gc(gc::GcArgs),
    /// Resolve sets of capabilities: JSON lines in, JSON lines out
    Resolve,
    /// Read a ledger
    #[command(subcommand)]
    Ledger(ledger::LedgerCommand),
    /// Make what others need of this program
    #[command(subcommand)]
    Gen(r#gen::GenCommand),
    /// Be the scripted agent: tries the steps on standard input
    #[command(hide = true)]
    ScriptedAgent {
        /// A capability that its tools may use
        #[arg(long)]
        allow: Vec<Capability>,
    },
}

/// What ends a command early: said to a person, told to a program, and the exit code for both.
#[derive(Debug)]
struct Failure {
    exit: Exit,
    code: &'static str,
    message: String,
    fix: Option<String>,
    at: Option<Box<Diagnostic>>,
}

impl Failure {
    fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self { exit, code, message: message.into(), fix: None, at: None }
    }

    /// What only the operator does: refused to whatever runs below a node.
    ///
    /// # Errors
    /// Where this runs below one.
    fn unless_operator(code: &'static str, message: &'static str) -> Result<(), Self> {
        if !host::is_inside_node() {
            return Ok(());
        }
        Err(Self::new(Exit::Refused, code, message).fix("run it in a terminal of your own"))
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    /// The documented JSON object.
    fn document(&self) -> serde_json::Value {
        let at = self.at.as_ref();
        serde_json::json!({ "v": 1, "error": {
            "code": self.code,
            "message": self.message,
            "fix": self.fix,
            "path": at.map(|at| &at.path),
            "line": at.map(|at| at.line),
            "column": at.map(|at| at.column),
        }})
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Internal, "IO", error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::new(Exit::Internal, "INTERNAL", error.to_string())
    }
}

/// A policy or profile that cannot be read.
impl From<Box<Diagnostic>> for Failure {
    fn from(at: Box<Diagnostic>) -> Self {
        let (message, fix) = (at.problem.message.clone(), at.problem.fix.clone());
        Self { fix, at: Some(at), ..Self::new(Exit::Invalid, "POLICY_INVALID", message) }
    }
}

/// How a command ends whose reader went away: as SIGPIPE would have it.
const UNREAD: Exit = Exit::Child(141);

/// Milliseconds of an age: a time as a policy writes it, or days such as `30d`.
fn parse_age(text: &str) -> Option<u64> {
    const DAY_MS: u64 = 24 * 3_600_000;
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok()?.checked_mul(DAY_MS));
    days.or_else(|| parse_duration(text))
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> Exit {
    // A node's own start, many a second: before the command line is made.
    match std::env::args_os().nth(1) {
        Some(argument) if argument == cage::GUARD => return cage::guard(),
        Some(_) | None => {}
    }
    let mut command = manual::command();
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            let _ = error.format(&mut command).print();
            return exit;
        }
    };
    let mut out = Output::new(cli.global.json, cli.global.quiet, cli.global.color);
    let result = match cli.command {
        Command::Demo(args) => demo::main(&args, &mut out),
        Command::Init => init::main(&mut out),
        Command::Check(args) => check::main(&args, &cli.global, &mut out),
        Command::Doctor => doctor::main(&cli.global, &mut out),
        Command::List => list::main(&cli.global, &mut out),
        Command::Plan(args) => plan::main(&args, &cli.global, &mut out),
        Command::Run(args) => run::main(&args, &cli.global, &mut out),
        Command::Trust(args) => trust::main(&args, &mut out),
        Command::Explain(args) => explain::main(&args, &cli.global, &mut out),
        Command::Output(args) => output::main(&args, &cli.global, &mut out),
        Command::Gc(args) => gc::main(&args, &mut out),
        Command::Resolve => resolve::main(std::io::stdin().lock(), &mut out),
        Command::Ledger(command) => ledger::main(&command, &cli.global, &mut out),
        Command::Gen(command) => r#gen::main(&command, &mut out),
        Command::ScriptedAgent { allow } => {
            crate::scripted::run(&allow, std::io::stdin().lock(), std::io::stdout().lock())
                .map_err(Failure::from)
        }
    };
    match result.and_then(|exit| out.flush().map(|()| exit).map_err(Failure::from)) {
        Ok(exit) => exit,
        // What was not told is not done.
        Err(_) if out.is_broken_pipe() => UNREAD,
        Err(failure) => {
            out.failure(&failure);
            failure.exit
        }
    }
}
