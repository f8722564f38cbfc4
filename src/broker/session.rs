//! A session: one ledger, one policy, one root.

use std::io;
use std::path::{Path, PathBuf};

use depute_ledger::{AppendError, Ledger, OpenError, record};
use uuid::Uuid;

use crate::host;
use crate::plan::{Approval, Decision, Hold, Plan, Request, Scope, Strength, decide};
use crate::policy::Policy;
use crate::runtime::{Profile, Starts};

use super::assemble::{Place, assemble};
use super::executor::{self, Ending, Outcome};
use super::gate::Terminal;
use super::inputs::Inputs;
use super::record as lines;

/// Why a session could not go on. Nothing was started that is not on the ledger.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The ledger could not be opened.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// The ledger could not be written.
    #[error("{0}")]
    Append(#[from] AppendError),
    /// The system said no.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// An input has no stored form.
    #[error("{0}")]
    Encode(#[from] serde_json::Error),
}

/// What came of a request.
#[derive(Debug)]
pub struct Ended {
    /// The node's id.
    pub node: Uuid,
    /// The decision, as recorded.
    pub decision: Decision,
    /// The line of the decision.
    pub seq: u64,
    /// Definitions that the one found goes before.
    pub shadowed: Vec<PathBuf>,
    /// What came of the child; nothing where none was started.
    pub outcome: Option<Outcome>,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    ledger: Ledger,
    policy: Policy,
    place: Place,
    id: Uuid,
    directory: PathBuf,
}

impl Session {
    /// Opens the ledger and makes the session's id. `sessions` is where private directories go.
    ///
    /// # Errors
    /// [`SessionError::Open`].
    pub fn open(ledger: &Path, sessions: &Path, policy: Policy, place: Place) -> Result<Self, SessionError> {
        // A write beyond a file size limit is to be an error, not the end of this process. A blocked
        // signal does that, and children start with an empty mask.
        let mut limit = nix::sys::signal::SigSet::empty();
        limit.add(nix::sys::signal::Signal::SIGXFSZ);
        limit.thread_block().map_err(io::Error::from)?;
        let ledger = Ledger::open(ledger, &host::who())?;
        let id = host::new_id();
        Ok(Self { ledger, policy, place, id, directory: sessions.join(id.to_string()) })
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Decides a request, records the decision, and runs what was granted. Where a gate waits and a
    /// terminal is there, asks first.
    ///
    /// # Errors
    /// [`SessionError`]; then nothing was started, or it was ended.
    pub fn run(
        &self,
        request: &Request,
        task: Vec<u8>,
        profile: &Profile,
        terminal: Option<Terminal>,
    ) -> Result<Ended, SessionError> {
        let node = host::new_id();
        let first = self.decide(request, &task, profile, node, Vec::new())?;
        let (decided, shadowed) = match (&first.decision, terminal) {
            (Decision::Held(hold), Some(terminal)) if profile.starts == Starts::Yes => {
                let approvals = self.ask(terminal, hold, node)?;
                if approvals.is_empty() {
                    (
                        Decided {
                            decision: first.decision,
                            recorded: None,
                            seq: first.seq,
                            shadowed: Vec::new(),
                        },
                        first.shadowed,
                    )
                } else {
                    (self.decide(request, &task, profile, node, approvals)?, first.shadowed)
                }
            }
            _ => {
                let shadowed = first.shadowed.clone();
                (first, shadowed)
            }
        };
        let outcome = match (decided.recorded, &profile.starts) {
            (None, _) => None,
            (Some(_), Starts::PlannedOnly(why)) => {
                let why = format!("the runtime `{}` can only be planned yet: {why}", profile.runtime);
                Some(Outcome {
                    ending: Ending::NotLaunched(why),
                    output: Vec::new(),
                    output_bytes: 0,
                    output_file: None,
                    duration_ms: 0,
                })
            }
            (Some(plan), Starts::Yes) => Some(executor::run(&self.ledger, node, &plan, task)?),
        };
        Ok(Ended { node, decision: decided.decision, seq: decided.seq, shadowed, outcome })
    }

    fn decide(
        &self,
        request: &Request,
        task: &[u8],
        profile: &Profile,
        node: Uuid,
        approvals: Vec<Approval>,
    ) -> Result<Decided, SessionError> {
        let private = self.directory.join(node.to_string());
        let digest = Some(self.ledger.keyed_digest(task));
        let assembled =
            assemble(&self.policy, request, profile.clone(), &self.place, &private, digest, approvals)?;
        let situation = &assembled.situation;
        let decision = decide(&self.policy, request, situation);
        let inputs = Inputs::of(&self.policy, request, situation)?.store(&self.ledger)?;
        let line = lines::decision(node, request, situation, &decision, inputs);
        let plan: Option<Box<Plan>> = match &decision {
            Decision::Granted(plan) => Some(plan.clone()),
            Decision::Held(_) | Decision::Refused(_) => None,
        };
        let (recorded, seq) = match plan {
            Some(plan) => {
                let recorded = self.ledger.record(node, plan, |_| line.into())?;
                let seq = recorded.receipt().seq;
                (Some(recorded), seq)
            }
            None => (None, self.ledger.append(node, line)?.seq),
        };
        Ok(Decided { decision, recorded, seq, shadowed: assembled.shadowed })
    }

    /// Asks at the terminal, and records the answer for each id before it counts.
    fn ask(&self, mut terminal: Terminal, hold: &Hold, node: Uuid) -> Result<Vec<Approval>, SessionError> {
        let yes = terminal.ask(hold)?;
        let digests = hold.considered.digests;
        let who = host::who();
        let approver = format!(
            "uid {} ({}) at {}",
            host::uid(),
            who.login.unwrap_or_default(),
            who.tty.unwrap_or_else(|| "/dev/tty".to_owned())
        );
        let mut approvals = Vec::new();
        for id in &hold.considered.gated {
            let outcome =
                if yes { record::ApprovalOutcome::Granted } else { record::ApprovalOutcome::Denied };
            let line = record::Approval {
                capability: id.to_string(),
                subject: hold.subject.clone(),
                tree: digests.tree,
                plan: digests.plan,
                scope: record::ApprovalScope::Once,
                outcome,
                approver: Some(approver.clone()),
                strength: Some(record::ApprovalStrength::SameUid),
            };
            self.ledger.append(node, line)?;
            if let (true, Some(plan)) = (yes, digests.plan) {
                approvals.push(Approval {
                    capability: id.clone(),
                    subject: hold.subject.clone(),
                    tree: digests.tree,
                    scope: Scope::Once { plan },
                    expires_ms: None,
                    approver: approver.clone(),
                    strength: Strength::SameUid,
                });
            }
        }
        Ok(approvals)
    }

    /// Ends the session with a `close` line.
    ///
    /// # Errors
    /// [`SessionError::Append`].
    pub fn close(self) -> Result<(), SessionError> {
        self.ledger.append(self.id, record::Close { reason: "session ended".to_owned() })?;
        Ok(())
    }
}

/// A decision on the ledger.
struct Decided {
    decision: Decision,
    recorded: Option<depute_ledger::Recorded<Box<Plan>>>,
    seq: u64,
    shadowed: Vec<PathBuf>,
}
