//! `depute demo`: the whole path once, on files inside this binary, in a directory of its own.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::broker::{Place, Session, load_profile};
use crate::capability::{CapabilitySet, DefinitionName};
use crate::exit::Exit;
use crate::host::{self, Project};
use crate::plan::{DefinitionRef, Request, Which};
use crate::policy::Policy;

use super::out::{Output, Tone, words};
use super::run::failure;
use super::{Failure, ledger};

const POLICY: &str = include_str!("../../policies/demo/policy.yaml");
const SCRIPT: &str = include_str!("../../policies/demo/script.txt");
const SKILLS: [(&str, &str); 2] = [
    ("reviewer", include_str!("../../policies/demo/skills/reviewer/SKILL.md")),
    ("fixer", include_str!("../../policies/demo/skills/fixer/SKILL.md")),
];
const README: &str = "A small project.\ntodo: review me\n";

/// What to keep.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Keep the demo's directory and print where it is
    #[arg(long)]
    keep: bool,
}

pub(super) fn main(args: &DemoArgs, out: &mut Output) -> Result<Exit, Failure> {
    let scratch = Scratch::make(args.keep)?;
    let exit = show(&scratch.path, out);
    if args.keep {
        out.say(&format!("kept in {}", scratch.path.display()));
    }
    exit
}

fn show(scratch: &Path, out: &mut Output) -> Result<Exit, Failure> {
    let workspace = scratch.join("workspace");
    let place = lay_out(scratch, &workspace)?;
    let policy =
        Policy::read(POLICY.as_bytes()).map_err(|p| Failure::new(Exit::Internal, "INTERNAL", p.message))?;
    let profile = load_profile("scripted", &place.project)?;
    let session =
        Session::open(&place.ledger.clone(), &scratch.join("sessions"), policy, place).map_err(failure)?;

    heading(out, 1, "A skill declares a ceiling")?;
    for line in SKILLS[0].1.lines().take(5) {
        out.line(&format!("     {line}"))?;
    }

    heading(out, 2, "The reviewer is granted what its skill and its parent allow")?;
    // Somebody to connect to, who would notice.
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let script = format!("{SCRIPT}raw_connect {}\n", listener.local_addr()?);
    let reviewer = request("reviewer", &script)?;
    let granted = session.run(&reviewer, script.into(), &profile, None).map_err(failure)?;
    let considered = granted.decision.considered();
    out.field("verdict", granted.decision.verdict())?;
    out.field("ceiling", &words(&considered.ceiling.as_ref().map(CapabilitySet::texts).unwrap_or_default()))?;
    out.field("use", &words(&considered.effective.texts()))?;
    for row in &considered.enforcement {
        out.field("held by", &format!("{:<8} {:<10} {}", row.by.as_str(), row.capability, row.how))?;
    }
    if let Some(body) = considered.digests.body {
        out.field("body", &body.to_string())?;
    }

    heading(out, 3, "It does its work, and the kernel stops what does not ask")?;
    let Some(outcome) = &granted.outcome else {
        let Some(refusal) = granted.decision.refusal() else {
            return Err(Failure::new(Exit::Internal, "INTERNAL", "the demo's child was not started"));
        };
        // A machine whose kernel holds nothing is told so, and not shown less.
        let exit = refusal.code.disposition().exit();
        return Err(
            Failure::new(exit, refusal.code.as_str(), refusal.message.clone()).fix(refusal.fix.clone())
        );
    };
    let answer = String::from_utf8_lossy(&outcome.output);
    for line in answer.lines() {
        out.line(&format!("     {}", crate::diagnostic::printable(line)))?;
    }
    let untouched = std::fs::read_to_string(workspace.join("README.txt"))? == README
        && workspace.join("escaped").symlink_metadata().is_err();
    out.field("files", if untouched { "as they were" } else { "CHANGED" })?;
    let unheard = matches!(listener.accept(), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
    out.field("network", if unheard { "nobody connected" } else { "somebody CONNECTED" })?;

    heading(out, 4, "The fixer asks for more than its parent may hand down")?;
    let fixer = request("fixer", "repair it")?;
    let refused = session.run(&fixer, b"repair it".to_vec(), &profile, None).map_err(failure)?;
    out.field("verdict", refused.decision.verdict())?;
    if let Some(refusal) = refused.decision.refusal() {
        out.field("code", refusal.code.as_str())?;
        out.field("why", &refusal.message)?;
        out.field("fix", &refusal.fix)?;
    }

    heading(out, 5, "Both are on a ledger that verifies")?;
    session.close().map_err(failure)?;
    let verified = ledger::verify_one(&scratch.join("ledger"), out)?;

    out.line("")?;
    let count = |word: &str| answer.lines().filter(|line| line.starts_with(word)).count();
    let (by_list, by_kernel) = (count("denied"), count("failed"));
    let (list, kernel) =
        (format!("{by_list} by its own list of tools"), format!("{by_kernel} by the kernel"));
    out.line(&format!("Of what the child tried beyond its grant, {list} and {kernel} were stopped."))?;
    let stopped = by_list == 2 && by_kernel == 3;
    let as_told = untouched && unheard && stopped && refused.outcome.is_none() && verified == Exit::Done;
    Ok(if as_told { Exit::Done } else { Exit::Internal })
}

fn heading(out: &mut Output, number: u32, text: &str) -> Result<(), Failure> {
    let number = out.paint(Tone::Dim, &format!("{number}."));
    let text = out.paint(Tone::Strong, text);
    out.line(&format!("\n{number} {text}"))?;
    Ok(())
}

fn request(agent: &str, task: &str) -> Result<Request, Failure> {
    let name = DefinitionName::parse(agent)
        .map_err(|error| Failure::new(Exit::Internal, "INTERNAL", error.to_string()))?;
    let reference = DefinitionRef { name, which: Which::Nearest };
    Ok(Request::of_whole_ceiling(reference, task.as_bytes()))
}

/// Writes the demo's workspace. Nothing of the user's is read: home and state are in the scratch
/// directory too.
fn lay_out(scratch: &Path, workspace: &Path) -> Result<Place, Failure> {
    for (name, text) in SKILLS {
        let skill = workspace.join(".claude/skills").join(name);
        std::fs::create_dir_all(&skill)?;
        std::fs::write(skill.join("SKILL.md"), text)?;
    }
    std::fs::write(workspace.join("README.txt"), README)?;
    let state = scratch.join("state");
    let project = Project {
        root: workspace.canonicalize()?,
        home: scratch.join("home"),
        config: scratch.join("home/.config"),
        policy: state.join("policy.yaml"),
        user_policy: state.join("user.yaml"),
        trust: state.join("trust.json"),
        state,
    };
    Ok(Place { project, ledger: scratch.join("ledger"), trust_workspace: true })
}

/// A private directory that is removed at the end.
struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    fn make(keep: bool) -> std::io::Result<Self> {
        let path = host::temporary_directory().join(format!("depute-demo-{}", host::new_id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path, keep })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
