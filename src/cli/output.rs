//! `depute output`: the answer of a node, as it was kept and recorded.

use clap::Args;
use depute_ledger::record::{Body, OutputRef};
use depute_ledger::{OpenError, Reader};
use uuid::Uuid;

use crate::broker::{Answer, MAX_OUTPUT, answers};
use crate::discover::read_regular;
use crate::exit::Exit;
use crate::host::Project;

use super::out::Output;
use super::{Failure, Global, ledger};

/// Whose answer.
#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// The node's id or the beginning of it, as `depute run --json` and the ledger name it; without
    /// it, the newest node of this project
    node: Option<String>,
}

pub(super) fn main(args: &OutputArgs, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let kept = answers(&Project::here()?.state.join("sessions"))?;
    let Answer { node, path } = find(kept, args.node.as_deref())?;
    let content = read_regular(&path, MAX_OUTPUT)?;
    let dir = ledger::directory(None, global)?;
    let mut reader = Reader::open(&dir).map_err(|error| ledger::unreadable(&error))?;
    let recorded = recorded(&mut reader, node)?;
    let differs = || {
        Failure::new(
            Exit::Ledger,
            "ANSWER_NOT_RECORDED",
            format!("`{}` is not the answer that the ledger records of {node}", path.display()),
        )
        .fix("it was changed after the run; do not rely on it")
    };
    let Some(recorded) = recorded else {
        return Err(Failure::new(
            Exit::Ledger,
            "ANSWER_NOT_RECORDED",
            format!("the ledger `{}` records no end of {node}", dir.display()),
        )
        .fix("name the ledger of that run with `--ledger`"));
    };
    let unread = |error: OpenError| {
        Failure::new(Exit::Ledger, "LEDGER_UNREADABLE", error.to_string()).fix(ledger::READ)
    };
    let checked = match reader.keyed_digest(&content).map_err(unread)? {
        Some(digest) if digest != recorded.digest => return Err(differs()),
        Some(_) => true,
        None => false,
    };
    if out.json {
        out.json(&serde_json::json!({
            "v": 1, "node": node, "file": path, "text": String::from_utf8_lossy(&content),
            "bytes": recorded.bytes, "truncated": recorded.truncated, "checked": checked,
        }))?;
        return Ok(Exit::Done);
    }
    out.answer(&content)?;
    if recorded.truncated {
        out.say_cut(recorded.bytes, content.len());
    }
    if !checked {
        out.say("note: the key of this ledger is gone, so the answer cannot be checked against it");
    }
    Ok(Exit::Done)
}

/// The answer that is meant.
fn find(mut kept: Vec<Answer>, wanted: Option<&str>) -> Result<Answer, Failure> {
    let none = |message: String| {
        Failure::new(Exit::Invalid, "NO_SUCH_ANSWER", message)
            .fix("`depute ledger show --json` has the nodes in `exit` lines; `depute gc` removes old answers")
    };
    let Some(wanted) = wanted else {
        return kept.pop().ok_or_else(|| none("no answer is kept for this project".to_owned()));
    };
    let wanted = wanted.to_ascii_lowercase();
    let mut meant = kept.into_iter().filter(|answer| answer.node.to_string().starts_with(&wanted));
    match (meant.next(), meant.next()) {
        (Some(answer), None) => Ok(answer),
        (Some(_), Some(_)) => {
            Err(none(format!("several nodes begin with `{wanted}`")).fix("write more of the id"))
        }
        (None, _) => Err(none(format!("no answer of `{wanted}` is kept"))),
    }
}

/// What the ledger says of a node's answer.
fn recorded(reader: &mut Reader, node: Uuid) -> Result<Option<OutputRef>, Failure> {
    let mut found = None;
    for line in reader {
        if let Body::Exit(exit) = line.map_err(ledger::read_failure)?.record.body
            && exit.node == node
        {
            found = exit.output;
        }
    }
    Ok(found)
}
