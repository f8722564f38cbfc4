//! `depute gen`: what is made from this program for others: schemas, completions, manual pages.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::durable;
use crate::exit::Exit;
use crate::schema::Document;

use super::out::Output;
use super::{Failure, manual};

/// What to make.
#[derive(Debug, Subcommand)]
pub(super) enum GenCommand {
    /// Print the JSON Schema of a kind of file, for an editor or a check elsewhere
    Schema(SchemaArgs),
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print a manual page, or write all of them
    Man(ManArgs),
}

/// Which page, and where to.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The command whose page is printed; without it, the program's own
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    command: Vec<String>,
    /// Write every page into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Which schema, and where to.
#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// The kind of file
    #[arg(value_name = "KIND", required_unless_present = "dir")]
    kind: Option<Kind>,
    /// Write the schemas of every kind into this directory, as KIND.json
    #[arg(long, value_name = "DIR", conflicts_with = "kind")]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A policy
    Policy,
    /// A policy inside a workspace, which only narrows
    WorkspacePolicy,
    /// A runtime profile
    Runtime,
}

pub(super) fn main(command: &GenCommand, out: &mut Output) -> Result<Exit, Failure> {
    match command {
        GenCommand::Schema(args) => schemas(args, out)?,
        GenCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut manual::shown(), "depute", &mut script);
            out.bytes(&script)?;
        }
        GenCommand::Man(args) => pages(args, out)?,
    }
    Ok(Exit::Done)
}

fn pages(args: &ManArgs, out: &mut Output) -> Result<(), Failure> {
    if let Some(dir) = &args.dir {
        for (name, page) in manual::pages()? {
            write(dir, &name, &page, out)?;
        }
        return Ok(());
    }
    let page = manual::page(&args.command)?.ok_or_else(|| {
        Failure::new(Exit::Usage, "USAGE", format!("there is no command `{}`", args.command.join(" ")))
            .fix("`depute --help` lists the commands")
    })?;
    Ok(out.bytes(&page)?)
}

fn schemas(args: &SchemaArgs, out: &mut Output) -> Result<(), Failure> {
    if let Some(dir) = &args.dir {
        for document in Document::ALL {
            write(dir, &format!("{}.json", document.as_str()), schema(document)?.as_bytes(), out)?;
        }
    }
    if let Some(kind) = args.kind {
        let document = match kind {
            Kind::Policy => Document::Policy,
            Kind::WorkspacePolicy => Document::WorkspacePolicy,
            Kind::Runtime => Document::Runtime,
        };
        out.bytes(schema(document)?.as_bytes())?;
    }
    Ok(())
}

fn schema(document: Document) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(&document.schema())? + "\n")
}

/// Writes one file into a directory, which is made where it is not there.
fn write(dir: &Path, name: &str, content: &[u8], out: &mut Output) -> Result<(), Failure> {
    let place = dir.join(name);
    std::fs::create_dir_all(dir).and_then(|()| durable::publish(&place, content)).map_err(|error| {
        std::io::Error::other(format!("`{}` cannot be written: {error}", place.display()))
    })?;
    Ok(out.line(&place.display().to_string())?)
}
