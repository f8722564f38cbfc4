//! `depute explain`: why a recorded decision came out as it did.
//!
//! A line of the ledger has the code, not the words. The inputs of the decision are stored beside it,
//! so it is made again, and must come out the same; what cannot be made again is not guessed.

use clap::Args;
use depute_ledger::Reader;
use depute_ledger::record::{Body, Decision as Recorded};

use crate::broker::Inputs;
use crate::exit::Exit;
use crate::plan::decide;

use super::out::Output;
use super::{Failure, Global, ledger, plan};

/// Which decision.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The line of the decision; without it, the last one that was not granted
    seq: Option<u64>,
}

pub(super) fn main(args: &ExplainArgs, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let dir = ledger::directory(None, global)?;
    let mut reader = Reader::open(&dir).map_err(|error| ledger::unreadable(&error))?;
    let Some((seq, ts, recorded)) = find(&mut reader, args.seq)? else {
        let what = match args.seq {
            Some(seq) => format!("line {seq} of this ledger is no decision"),
            None => "nothing on this ledger was refused or held".to_owned(),
        };
        return Err(Failure::new(Exit::Invalid, "NO_SUCH_DECISION", what)
            .fix("`depute ledger show` lists the lines; name one with `depute explain LINE`"));
    };
    let load = |digest| reader.get_object(digest).map_err(|error| error.to_string());
    let gone = |why: String| {
        Failure::new(Exit::Ledger, "NOT_REDECIDABLE", format!("line {seq} cannot be decided again: {why}"))
            .fix("look at the ledger with `depute ledger verify`")
    };
    let (policy, request, situation) = Inputs::load(&recorded.inputs, load).map_err(gone)?;
    let decision = decide(&policy, &request, &situation);
    let code = decision.refusal().map(|refusal| refusal.code.as_str());
    if code != recorded.code.as_deref() {
        let (was, is) = (recorded.code.as_deref().unwrap_or("granted"), code.unwrap_or("granted"));
        return Err(gone(format!("it was {was}, and this version of depute says {is}")));
    }
    if out.json {
        out.json(&serde_json::json!({
            "v": 1, "seq": seq, "ts": ts, "agent": recorded.definition, "verdict": decision.verdict(),
            "refusal": decision.refusal(),
            "tier": decision.considered().tier.as_str(), "enforcement": decision.considered().enforcement,
            "step": decision.refusal().and_then(|refusal| refusal.code.step()),
            "meaning": decision.refusal().map(|refusal| refusal.code.meaning()),
        }))?;
        return Ok(Exit::Done);
    }
    out.line(&format!("line {seq} of {ts}"))?;
    plan::human(&decision, &request, &[], out)?;
    if let Some(refusal) = decision.refusal() {
        out.field("meaning", refusal.code.meaning())?;
        out.field("held", &situation.facts.holder.delegate.texts().join(", "))?;
    }
    Ok(Exit::Done)
}

type Line = (u64, String, Recorded);

/// The decision on a line, or the last one that was not granted.
fn find(reader: &mut Reader, seq: Option<u64>) -> Result<Option<Line>, Failure> {
    let mut found = None;
    for line in reader {
        let line = line.map_err(ledger::read_failure)?;
        let Body::Decision(decision) = line.record.body else { continue };
        let wanted = seq.map_or(decision.code.is_some(), |seq| seq == line.seq);
        if wanted {
            found = Some((line.seq, line.record.ts.to_string(), *decision));
        }
    }
    Ok(found)
}
