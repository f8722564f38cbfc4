//! `depute ledger query`: the records that these conditions pick out.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use depute_ledger::record::{Body, Decision, GrantLists, Record, Verdict};
use depute_ledger::{Kind, Reader, Timestamp};
use uuid::Uuid;

use crate::capability::Capability;
use crate::cli::out::Output;
use crate::cli::{Failure, parse_age};
use crate::exit::Exit;
use crate::host;
use crate::nearest::nearest;
use crate::plan::Code;

use super::{print, read_failure, unreadable};

/// Which records. All conditions must hold; one that is given twice holds for either value.
#[derive(Debug, Args)]
pub(in crate::cli) struct QueryArgs {
    /// The ledger; without it, the one of `--ledger`, then this project's
    pub(super) dir: Option<PathBuf>,
    /// Of this kind: `decision`, `approval`, `spawn`, `spawned`, `exit`, …
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Vec<Kind>,
    /// About a node of this definition
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// About the node whose id begins so
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    /// A decision that came out so
    #[arg(long, value_name = "VERDICT")]
    verdict: Vec<Answer>,
    /// A decision with this code
    #[arg(long, value_name = "CODE", value_parser = code)]
    code: Vec<&'static str>,
    /// A decision or approval in which this capability stands, exactly as it is written
    #[arg(long, value_name = "ID")]
    capability: Vec<Capability>,
    /// By the writer whose id begins so
    #[arg(long, value_name = "ID")]
    writer: Option<String>,
    /// Not before this time: `2026-09-24T12:00:00Z`, or `2h` for the last two hours
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<i64>,
    /// Before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<i64>,
    /// Only the last so many of them
    #[arg(long, value_name = "N")]
    last: Option<usize>,
}

/// A verdict, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Answer {
    Granted,
    Held,
    Refused,
}

fn kind(text: &str) -> Result<Kind, String> {
    serde_json::from_value(serde_json::Value::from(text)).map_err(|_| {
        let names = Kind::ALL.iter().map(ToString::to_string).collect::<Vec<_>>();
        match nearest(text, names.iter().map(String::as_str)) {
            Some(near) => format!("there is no such kind; did you mean `{near}`?"),
            None => format!("the kinds are {}", names.join(", ")),
        }
    })
}

fn code(text: &str) -> Result<&'static str, String> {
    let names = || Code::ALL.iter().map(|code| code.as_str());
    names().find(|name| *name == text).ok_or_else(|| match nearest(text, names()) {
        Some(near) => format!("there is no such code; did you mean `{near}`?"),
        None => "there is no such code; `depute explain` names the one of a decision".to_owned(),
    })
}

/// Microseconds since 1970.
fn time(text: &str) -> Result<i64, String> {
    let now = i64::try_from(host::now_ms().saturating_mul(1000)).unwrap_or(i64::MAX);
    if let Some(ms) = parse_age(text) {
        return Ok(now.saturating_sub(i64::try_from(ms.saturating_mul(1000)).unwrap_or(i64::MAX)));
    }
    let at: Result<Timestamp, _> = text.parse();
    at.map(Timestamp::as_microsecond)
        .map_err(|_| "write a time such as `2026-09-24T12:00:00Z`, or an age such as `2h` or `7d`".to_owned())
}

pub(super) fn main(args: &QueryArgs, dir: &Path, out: &mut Output) -> Result<Exit, Failure> {
    let mut picked = Picked { args, nodes: HashSet::new() };
    let mut last = VecDeque::new();
    let mut found = 0_u64;
    for line in Reader::open(dir).map_err(|error| unreadable(&error))? {
        let line = line.map_err(read_failure)?;
        if !picked.holds(&line.record) {
            continue;
        }
        found += 1;
        match args.last {
            None => print(&line, out)?,
            Some(most) => {
                last.push_back(line);
                if last.len() > most {
                    last.pop_front();
                }
            }
        }
    }
    for line in &last {
        print(line, out)?;
    }
    if found == 0 {
        out.say("no record is so");
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// What was asked for, and the nodes that are meant by it.
struct Picked<'a> {
    args: &'a QueryArgs,
    /// The nodes of the definition that is asked for, as their decisions name it.
    nodes: HashSet<Uuid>,
}

impl Picked<'_> {
    fn holds(&mut self, record: &Record) -> bool {
        let args = self.args;
        let at = record.ts.as_microsecond();
        let starts = |id: Uuid, wanted: &String| id.to_string().starts_with(&wanted.to_ascii_lowercase());
        let node = node(record);
        if let (Body::Decision(decision), Some(agent)) = (&record.body, &args.agent)
            && decision.definition.as_ref() == Some(agent)
        {
            self.nodes.insert(decision.node);
        }
        (args.kind.is_empty() || args.kind.contains(&record.body.kind()))
            && (args.agent.is_none() || node.is_some_and(|node| self.nodes.contains(&node)))
            && args.node.as_ref().is_none_or(|wanted| node.is_some_and(|node| starts(node, wanted)))
            && args.writer.as_ref().is_none_or(|wanted| starts(record.w, wanted))
            && args.since.is_none_or(|since| at >= since)
            && args.until.is_none_or(|until| at < until)
            && (args.verdict.is_empty()
                || decision(record).is_some_and(|d| args.verdict.contains(&answer(d))))
            && (args.code.is_empty() || decision(record).is_some_and(|d| self.has_code(d)))
            && args.capability.iter().all(|id| names(record, id.as_str()))
    }

    fn has_code(&self, decision: &Decision) -> bool {
        decision.code.as_deref().is_some_and(|code| self.args.code.contains(&code))
    }
}

fn decision(record: &Record) -> Option<&Decision> {
    if let Body::Decision(decision) = &record.body { Some(decision) } else { None }
}

fn answer(decision: &Decision) -> Answer {
    match decision.verdict {
        Verdict::Granted => Answer::Granted,
        Verdict::Held => Answer::Held,
        Verdict::Refused => Answer::Refused,
    }
}

/// The node that a record is about. What an approval is about is the operation's node.
fn node(record: &Record) -> Option<Uuid> {
    match &record.body {
        Body::Decision(body) => Some(body.node),
        Body::Spawn(body) => Some(body.node),
        Body::Spawned(body) => Some(body.node),
        Body::Exit(body) => Some(body.node),
        Body::Approval(_) => Some(record.op),
        Body::Genesis(_) | Body::Segment(_) | Body::Session(_) | Body::Recovery(_) | Body::Close(_) => None,
    }
}

/// Whether an id stands in a record.
fn names(record: &Record, id: &str) -> bool {
    let has = |ids: &[String]| ids.iter().any(|named| named == id);
    let asked = |lists: &GrantLists| has(&lists.r#use) || lists.delegate.as_deref().is_some_and(has);
    match &record.body {
        Body::Approval(body) => body.capability == id,
        Body::Decision(body) => {
            asked(&body.requested)
                || [&body.effective, &body.delegate, &body.denied, &body.clipped, &body.gated]
                    .into_iter()
                    .any(|ids| has(ids))
        }
        Body::Genesis(_)
        | Body::Segment(_)
        | Body::Session(_)
        | Body::Spawn(_)
        | Body::Spawned(_)
        | Body::Exit(_)
        | Body::Recovery(_)
        | Body::Close(_) => false,
    }
}
