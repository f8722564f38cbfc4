//! `depute run`: decide, record, start, and see the child to its end.

use depute_ledger::OpenError;

use crate::broker::{Ended, Ending, Outcome, Session, SessionError, Terminal};
use crate::diagnostic::printable;
use crate::exit::Exit;
use crate::host;
use crate::plan::{Code, Decision};

use super::out::Output;
use super::request::RequestArgs;
use super::{Failure, Global, ledger, plan};

pub(super) fn main(args: &RequestArgs, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let ready = args.ready(global)?;
    let state = &ready.place.project.state;
    let ledger = &ready.place.ledger;
    if host::real_path(ledger).starts_with(&ready.place.project.root) {
        out.say("warning: the ledger lies inside the workspace, where a child may read it");
    }
    let session = Session::open(ledger, &state.join("sessions"), ready.policy.clone(), ready.place.clone())
        .map_err(failure)?;
    let terminal = Terminal::controlling();
    let ended = session.run(&ready.request, ready.task.clone(), &ready.profile, terminal).map_err(failure)?;
    if let (Decision::Granted(plan), Some(policy)) = (&ended.decision, &global.policy) {
        let real = host::real_path(policy);
        if real.to_str().is_none_or(|real| plan.spec().access_at(real).write) {
            out.say(
                "warning: the child could write the policy of the next run; keep it outside of the workspace",
            );
        }
    }
    let closed = session.close();
    let printed = if out.json {
        let mut value = plan::document(&ended.decision, &ready, &ended.shadowed);
        value.insert("node", serde_json::json!(ended.node));
        value.insert("seq", serde_json::json!(ended.seq));
        value.insert("outcome", outcome_document(&ended));
        out.json(&value).map_err(Failure::from)
    } else {
        human(&ended, &ready, out)
    };
    // The answer comes first: what follows says that the child's end is not on the ledger.
    if let Some(error) = ended.outcome.as_ref().and_then(|outcome| outcome.unrecorded.as_ref()) {
        out.flush()?;
        return Err(Failure::new(
            Exit::Ledger,
            Code::LedgerWriteFailed.as_str(),
            format!("{error}; the child ran, and its end could not be recorded"),
        )
        .fix("make room there; the ledger will show this run as one whose outcome is unknown"));
    }
    closed.map_err(failure)?;
    out.settle(printed, exit(&ended))
}

/// What a failing ledger means for the one who asked.
pub(super) fn failure(error: SessionError) -> Failure {
    let code = Code::LedgerWriteFailed.as_str();
    match error {
        SessionError::Open(error) => {
            let source =
                std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
            let fix = if let OpenError::Newer(_) = error {
                ledger::UPDATE
            } else {
                "name another directory with `--ledger`, or look at this one with `depute ledger verify`"
            };
            Failure::new(Exit::Ledger, code, format!("{error}{source}; nothing was started")).fix(fix)
        }
        SessionError::Append(error) => {
            Failure::new(Exit::Ledger, code, format!("{error}; nothing runs that is not on the ledger"))
                .fix("make room there, or name another directory with `--ledger`")
        }
        SessionError::Io(error) => error.into(),
        SessionError::Encode(error) => error.into(),
    }
}

/// Why an outcome is no success.
struct Failed {
    code: Code,
    message: String,
    fix: &'static str,
}

fn failed(outcome: &Outcome) -> Option<Failed> {
    const READ: &str = "read its answer with `depute output`";
    let (code, message, fix) = match &outcome.ending {
        Ending::Exited(0) => return None,
        Ending::Exited(code) => (Code::ChildExitNonzero, format!("exited with {code}"), READ),
        Ending::Signalled(signal) => (Code::ChildExitNonzero, format!("ended by signal {signal}"), READ),
        Ending::TimedOut => (
            Code::ChildTimedOut,
            "still running at its deadline, and was ended".to_owned(),
            "give it more time with `--deadline`, or less to do",
        ),
        Ending::Cancelled => {
            (Code::ChildCancelled, "ended on request".to_owned(), "run it again, if it is still wanted")
        }
        Ending::NotLaunched(why) => (
            Code::ExecutorUnavailable,
            why.clone(),
            "name another runtime with `--runtime`, or install the program that is missing",
        ),
        Ending::NotHeld { feature, message } => (
            Code::NotEnforceable,
            format!("`{feature}` is missing or does not hold: {message}"),
            "`depute doctor` says what this machine lacks; a policy accepts less by naming a lower `tier`",
        ),
    };
    Some(Failed { code, message, fix })
}

fn exit(ended: &Ended) -> Exit {
    let Some(outcome) = &ended.outcome else { return plan::exit(&ended.decision) };
    let byte = |code: i32| u8::try_from(code).unwrap_or(u8::MAX);
    match outcome.ending {
        Ending::Exited(0) => Exit::Done,
        Ending::Exited(code) => Exit::Child(byte(code)),
        Ending::Signalled(signal) => Exit::Child(byte(signal.saturating_add(128))),
        Ending::TimedOut | Ending::Cancelled | Ending::NotLaunched(_) => Exit::LaunchFailed,
        Ending::NotHeld { .. } => Exit::NotEnforceable,
    }
}

fn outcome_document(ended: &Ended) -> serde_json::Value {
    let Some(outcome) = &ended.outcome else { return serde_json::Value::Null };
    let (ending, number) = match &outcome.ending {
        Ending::Exited(code) => ("exited", Some(*code)),
        Ending::Signalled(signal) => ("signalled", Some(*signal)),
        Ending::TimedOut => ("timed_out", None),
        Ending::Cancelled => ("cancelled", None),
        Ending::NotLaunched(_) | Ending::NotHeld { .. } => ("not_launched", None),
    };
    let failed = failed(outcome);
    serde_json::json!({
        "ending": ending,
        "number": number,
        "code": failed.as_ref().map(|failed| failed.code),
        "message": failed.as_ref().map(|failed| &failed.message),
        "fix": failed.as_ref().map(|failed| failed.fix),
        "outlived": outcome.outlived,
        "denied": outcome.denied,
        "duration_ms": outcome.duration_ms,
        "output": {
            "text": String::from_utf8_lossy(&outcome.output),
            "bytes": outcome.output_bytes,
            "truncated": outcome.truncated,
            "digest": depute_ledger::Digest::of(&outcome.output),
            "file": outcome.output_file,
        },
    })
}

fn human(ended: &Ended, ready: &super::request::Ready, out: &mut Output) -> Result<(), Failure> {
    let Some(outcome) = &ended.outcome else {
        return plan::human(&ended.decision, &ready.request, &ended.shadowed, out);
    };
    let use_list = ended.decision.considered().effective.texts().join(", ");
    for path in &ended.shadowed {
        out.say(&format!("note: it goes before {}", printable(&path.display().to_string())));
    }
    out.say(&format!(
        "granted  {} (line {} of the ledger)",
        if use_list.is_empty() { "no tools" } else { &use_list },
        ended.seq
    ));
    out.answer(&outcome.output)?;
    if outcome.outlived > 0 {
        out.say(&format!("note: {} processes outlived the child and were ended", outcome.outlived));
    }
    for denied in &outcome.denied {
        let name = denied.name.as_deref().unwrap_or("a program");
        let times = if denied.count == 1 { String::new() } else { format!(", {} times", denied.count) };
        out.say(&format!("denied   {} {}{times}", printable(name), denied.why));
        out.say(&format!("  fix: {}", denied.fix));
    }
    if outcome.truncated {
        out.say_cut(outcome.output_bytes, outcome.output.len());
    }
    let after = outcome.duration_ms;
    match failed(outcome) {
        None => out.say(&format!("child    exited with 0 after {after} ms")),
        // What it ends with is its own affair.
        Some(Failed { code: Code::ChildExitNonzero, message, .. }) => {
            out.say(&format!("child    {message} after {after} ms"));
        }
        Some(Failed { code, message, fix }) => {
            out.say(&format!("child    {code} {} after {after} ms", printable(&message)));
            out.say(&format!("  fix: {fix}"));
        }
    }
    Ok(())
}
