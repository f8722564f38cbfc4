//! `depute trust`: say whether the definitions of a directory may be spawned.

use std::path::PathBuf;

use clap::Args;

use crate::discover::trust;
use crate::exit::Exit;
use crate::host::Project;

use super::Failure;
use super::out::Output;

/// Which directory, and which way.
#[derive(Debug, Args)]
pub(super) struct TrustArgs {
    /// The directory; without it, this project
    dir: Option<PathBuf>,
    /// Trust it no longer, whatever is said of the directories above it
    #[arg(long)]
    revoke: bool,
    /// Only say whether it is trusted
    #[arg(long, conflicts_with = "revoke")]
    show: bool,
}

pub(super) fn main(args: &TrustArgs, out: &mut Output) -> Result<Exit, Failure> {
    let project = match &args.dir {
        Some(dir) => Project::of(dir).map_err(|error| {
            Failure::new(Exit::Internal, "IO", format!("`{}` cannot be looked at: {error}", dir.display()))
                .fix("name a directory that is there")
        })?,
        None => Project::here()?,
    };
    if !args.show {
        Failure::unless_operator("TRUST_REFUSED", "a child does not decide what is trusted")?;
        trust::record(&project.trust, &project.root, !args.revoke)?;
    }
    let trusted = trust::is_trusted(&project.trust, &project.root);
    if out.json {
        out.json(&serde_json::json!({ "v": 1, "directory": project.root, "trusted": trusted }))?;
    } else {
        let word = if trusted { "trusted" } else { "not trusted" };
        out.line(&format!("{word}  {}", crate::diagnostic::printable(&project.root.display().to_string())))?;
    }
    Ok(Exit::Done)
}
