//! A session: one ledger, one policy, one root.

use std::io;
use std::path::{Path, PathBuf};

use depute_ledger::{AppendError, Ledger, OpenError, Recorded, record};
use uuid::Uuid;

use crate::host;
use crate::plan::{Approval, Decision, Hold, Plan, Refused, Request, Scope, Strength, decide};
use crate::policy::Policy;
use crate::runtime::{Profile, Starts};

use super::assemble::{Place, assemble};
use super::executor::{self, Outcome};
use super::gate::Terminal;
use super::inputs::Inputs;
use super::record::Line;
use super::sessions::Home;

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
    home: Home,
}

/// A decision on the ledger. Only a granted one holds something that can be started.
struct Decided {
    decision: Decision,
    plan: Option<Recorded<Box<Plan>>>,
    seq: u64,
    shadowed: Vec<PathBuf>,
}

impl Session {
    /// Opens the ledger and makes the session's id. `sessions` is where private directories go.
    ///
    /// Changes this whole process as [`host::harden`] says. While a child of the session ends, other
    /// children that this process has started meanwhile would be taken for what it left behind: a
    /// session wants a process of its own.
    ///
    /// # Errors
    /// [`SessionError::Open`], and [`SessionError::Io`] where the session's directory cannot be made.
    pub fn open(ledger: &Path, sessions: &Path, policy: Policy, place: Place) -> Result<Self, SessionError> {
        host::harden()?;
        let ledger = Ledger::open(ledger, &host::who())?;
        let id = host::new_id();
        let home = Home::make(sessions, id)?;
        Ok(Self { ledger, policy, place, id, home })
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
        let mut decided = self.decide(request, &task, profile, node, Vec::new())?;
        if let (Decision::Held(hold), Some(terminal), Starts::Yes) =
            (&mut decided.decision, terminal, &profile.starts)
        {
            let approvals = self.ask(terminal, hold, node)?;
            if !approvals.is_empty() {
                decided = self.decide(request, &task, profile, node, approvals)?;
            }
        }
        let outcome = match (decided.plan, &profile.starts) {
            (None, _) => None,
            (Some(_), Starts::PlannedOnly(why)) => Some(Outcome::not_launched(format!(
                "the runtime `{}` can only be planned yet: {why}",
                profile.runtime
            ))),
            (Some(plan), Starts::Yes) => Some(executor::run(&self.ledger, node, &plan, task)?),
        };
        Ok(Ended { node, decision: decided.decision, seq: decided.seq, shadowed: decided.shadowed, outcome })
    }

    fn decide(
        &self,
        request: &Request,
        task: &[u8],
        profile: &Profile,
        node: Uuid,
        approvals: Vec<Approval>,
    ) -> Result<Decided, SessionError> {
        let private = self.home.path.join(node.to_string());
        let digest = Some(self.ledger.keyed_digest(task));
        let assembled =
            assemble(&self.policy, request, profile.clone(), &self.place, &private, digest, approvals)?;
        let (situation, shadowed) = (&assembled.situation, assembled.shadowed);
        let decision = decide(&self.policy, request, situation);
        let inputs = Inputs::of(&self.policy, request, situation, &self.ledger)?.store(&self.ledger)?;
        let line = Line { node, request, situation, inputs, ledger: &self.ledger };
        let appended = match &decision {
            Decision::Granted(plan) => {
                self.ledger.record(node, plan.clone(), |plan| line.granted(plan).into()).map(|recorded| {
                    let seq = recorded.receipt().seq;
                    (Some(recorded), seq)
                })
            }
            Decision::Held(hold) => self
                .ledger
                .append(node, line.stopped(record::Verdict::Held, &hold.considered, &hold.refusal))
                .map(|receipt| (None, receipt.seq)),
            Decision::Refused(refused) => self
                .ledger
                .append(node, line.stopped(record::Verdict::Refused, &refused.considered, &refused.refusal))
                .map(|receipt| (None, receipt.seq)),
        };
        match appended {
            Ok((plan, seq)) => Ok(Decided { decision, plan, seq, shadowed }),
            // What cannot be recorded whole is not granted. That is recorded, and the stored inputs
            // hold what the line cannot.
            Err(AppendError::TooLong { len, .. }) => {
                let refused = Refused::too_long_to_record(len);
                let short = line.stopped(record::Verdict::Refused, &refused.considered, &refused.refusal);
                let seq = self
                    .ledger
                    .append(node, record::Decision { parent_grant: record::GrantLists::default(), ..short })?
                    .seq;
                Ok(Decided { decision: Decision::Refused(Box::new(refused)), plan: None, seq, shadowed })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Asks at the terminal, and records the answer for each id before it counts. A no stays with the
    /// hold, in words.
    fn ask(
        &self,
        mut terminal: Terminal,
        hold: &mut Hold,
        node: Uuid,
    ) -> Result<Vec<Approval>, SessionError> {
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
            let line = record::Approval {
                capability: id.to_string(),
                subject: hold.subject.clone(),
                tree: digests.tree,
                plan: digests.plan,
                scope: record::ApprovalScope::Once,
                outcome: if yes { record::ApprovalOutcome::Granted } else { record::ApprovalOutcome::Denied },
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
        if !yes {
            hold.refusal.message = format!("{approver} said no");
            hold.refusal.fix = "ask for less with `--use`".to_owned();
        }
        Ok(approvals)
    }

    /// Ends the session with a `close` line.
    ///
    /// # Errors
    /// [`SessionError::Append`].
    pub fn close(self) -> Result<(), SessionError> {
        self.ledger.append(self.id, record::Close { reason: "session ended".to_owned() })?;
        self.home.close();
        Ok(())
    }
}
