//! `--fix`: show the changes that would help, and make them.

use std::path::PathBuf;

use crate::capability::ToolName;
use crate::cli::Failure;
use crate::cli::out::Output;
use crate::definition::{MAX_FILE, mends};
use crate::diagnostic::printable;
use crate::discover::{Site, read_regular};
use crate::durable;

use super::judge::{Judge, Subject};
use super::walk::Found;
use super::{CheckArgs, consent, show};

/// A file and what it would become.
struct Change {
    path: PathBuf,
    before: Vec<u8>,
    after: Vec<u8>,
}

/// Mends what can be mended. Says whether anything was written.
pub(super) fn main(
    args: &CheckArgs,
    judge: &Judge,
    files: &[Found],
    out: &mut Output,
) -> Result<bool, Failure> {
    let mut changes = Vec::new();
    for site in files.iter().flatten() {
        changes.extend(change(site, args, judge, out));
    }
    let asked = match changes.len() {
        0 => {
            out.say("nothing to mend");
            return Ok(false);
        }
        1 => "Write this file?".to_owned(),
        count => format!("Write these {count} files?"),
    };
    if !consent(&asked, args, out)? {
        return Ok(false);
    }
    for change in &changes {
        write(change)?;
    }
    out.say(&format!("mended {}", changes.len()));
    Ok(true)
}

/// What would be made of one file, shown. Nothing where it is in order, or cannot be helped.
fn change(site: &Site, args: &CheckArgs, judge: &Judge, out: &mut Output) -> Option<Change> {
    let Subject::Definition(candidate) = judge.subject(site) else { return None };
    let path = site.path();
    // Read as the planner reads it: through no link that leads out of its root.
    let before = candidate.root.read(&candidate.directory.join(&candidate.file)).ok()?;
    let known = |name: &ToolName| judge.knows(name);
    let known: Option<&dyn Fn(&ToolName) -> bool> = if args.names { Some(&known) } else { None };
    let mends = mends(&before, candidate.kind, &candidate.name, known);
    if mends.is_empty() {
        return None;
    }
    let shown = printable(&path.display().to_string());
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
        out.say(&format!("{shown} is a link, so it is left as it is: mend the file that it leads to"));
        return None;
    }
    let made = mends.iter().take_while(|mend| args.allow_widening || !mend.widens).last();
    if let Some(made) = made {
        show(&shown, &before, &made.bytes, out);
    }
    for mend in &mends {
        let rest = match (mend.widens, args.allow_widening) {
            (false, _) => "",
            (true, true) => ": WIDENS",
            (true, false) => ": WIDENS, so it is not made without `--allow-widening`",
        };
        out.say(&format!("{shown}: {}{rest}", printable(&mend.message)));
    }
    Some(Change { path: path.to_owned(), before, after: made?.bytes.clone() })
}

/// Writes a file that is still what it was when its diff was shown.
fn write(change: &Change) -> Result<(), Failure> {
    if read_regular(&change.path, MAX_FILE)? != change.before {
        let shown = change.path.display();
        return Err(Failure::new(
            crate::exit::Exit::Internal,
            "CHANGED_MEANWHILE",
            format!("`{shown}` is not what it was when its diff was shown"),
        )
        .fix("look at it, and run the same again"));
    }
    Ok(durable::rewrite(&change.path, &change.after)?)
}
