//! `depute ledger query`: the records that these conditions pick out.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use depute_ledger::record::{Body, Decision, GrantLists, Record, Verdict};
use depute_ledger::{Kind, Reader, Timestamp, decode_line};
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
    /// Of this kind: `decision`, `approval`, `spawn`, `spawned`, `caged`, `denied`, `exit`, …
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
    /// The newest first
    #[arg(long)]
    reverse: bool,
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
    let found = if args.reverse {
        newest_first(&mut picked, dir, out)?
    } else {
        oldest_first(&mut picked, dir, out)?
    };
    if !found {
        out.say("no record is so");
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// Prints what is picked in the order of the ledger. Says whether there is anything.
fn oldest_first(picked: &mut Picked, dir: &Path, out: &mut Output) -> Result<bool, Failure> {
    let mut last = VecDeque::new();
    let mut found = false;
    for line in Reader::open(dir).map_err(|error| unreadable(&error))? {
        let line = line.map_err(read_failure)?;
        if !picked.holds(&line.record) {
            continue;
        }
        found = true;
        match picked.args.last {
            None => print(&line.record, &line.bytes, out)?,
            Some(most) => {
                last.push_back(line);
                if last.len() > most {
                    last.pop_front();
                }
            }
        }
    }
    for line in &last {
        print(&line.record, &line.bytes, out)?;
    }
    Ok(found)
}

/// The same in the other order: segments are read from the newest back, each from its start, so that the
/// lines of no more than one are in memory.
fn newest_first(picked: &mut Picked, dir: &Path, out: &mut Output) -> Result<bool, Failure> {
    if picked.args.agent.is_some() {
        // The decision that says which definition a node is of is older than the rest about the node.
        for line in Reader::open(dir).map_err(|error| unreadable(&error))? {
            picked.meet(&line.map_err(read_failure)?.record);
        }
    }
    let mut left = picked.args.last.unwrap_or(usize::MAX);
    let (mut found, mut done) = (false, None);
    for count in 1.. {
        let (mut segment, mut lines) = (None, Vec::new());
        for line in Reader::open_last(dir, count).map_err(|error| unreadable(&error))? {
            let line = line.map_err(read_failure)?;
            if line.segment != *segment.get_or_insert(line.segment) {
                break;
            }
            if picked.holds(&line.record) {
                lines.push(line.bytes);
            }
        }
        let Some(segment) = segment else { break };
        // Where another segment was begun meanwhile, this may be one that was printed already.
        if done.is_none_or(|done| segment < done) {
            found |= !lines.is_empty();
            for line in lines.iter().rev().take(left) {
                let record = decode_line(line).map_err(|error| std::io::Error::other(error.to_string()))?;
                print(&record, line, out)?;
            }
            left = left.saturating_sub(lines.len());
            done = Some(segment);
        }
        if segment == 0 || left == 0 && found {
            break;
        }
    }
    Ok(found)
}

/// What was asked for, and the nodes that are meant by it.
struct Picked<'a> {
    args: &'a QueryArgs,
    /// The nodes of the definition that is asked for, as their decisions name it.
    nodes: HashSet<Uuid>,
}

impl Picked<'_> {
    /// Notes the node of a decision about the definition that is asked for.
    fn meet(&mut self, record: &Record) {
        if let (Body::Decision(decision), Some(agent)) = (&record.body, &self.args.agent)
            && decision.definition.as_ref() == Some(agent)
        {
            self.nodes.insert(decision.node);
        }
    }

    fn holds(&mut self, record: &Record) -> bool {
        let args = self.args;
        self.meet(record);
        let at = record.ts.as_microsecond();
        let starts = |id: Uuid, wanted: &String| id.to_string().starts_with(&wanted.to_ascii_lowercase());
        let node = node(record);
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
        Body::Caged(body) => Some(body.node),
        Body::Denied(body) => Some(body.node),
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
        | Body::Caged(_)
        | Body::Denied(_)
        | Body::Exit(_)
        | Body::Recovery(_)
        | Body::Close(_) => false,
    }
}
