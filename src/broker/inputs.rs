//! The inputs of a decision as bytes: stored by digest before the line that names them, and read
//! back so that the same decision can be made again.

use depute_ledger::{AppendError, Digest, Ledger, record};

use crate::capability::AskedId;
use crate::definition::{Definition, DefinitionKind};
use crate::plan::{AskedDelegate, AskedUse, DefinitionFact, Facts, Request, Situation, Subject};

use crate::policy::{Narrowing, Policy};
use crate::runtime::Profile;

use super::record::recordable;

/// The bytes that a decision rests on. Texts as read; derived values in one canonical JSON form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs {
    policy: Vec<u8>,
    narrowing: Option<Vec<u8>>,
    definition: Option<Vec<u8>>,
    profile: Vec<u8>,
    catalog: Vec<u8>,
    situation: Vec<u8>,
    request: Vec<u8>,
}

/// Which tools a runtime has, as one canonical value.
#[must_use]
pub fn catalog(profile: &Profile) -> serde_json::Value {
    let tools: Vec<String> = profile.tools.iter().map(|(name, _)| format!("tool:{name}")).collect();
    serde_json::json!({ "v": 0, "runtime": profile.runtime, "versions": profile.versions, "tools": tools })
}

impl Inputs {
    /// The inputs of a decision on this request. Malformed ids are kept by their keyed digests.
    ///
    /// # Errors
    /// Where a value has no JSON form.
    pub fn of(
        policy: &Policy,
        request: &Request,
        situation: &Situation,
        ledger: &Ledger,
    ) -> Result<Self, serde_json::Error> {
        let recorded = |ids: &[AskedId]| ids.iter().map(|id| recordable(id, ledger)).collect();
        let request = Request {
            uses: match &request.uses {
                AskedUse::WholeCeiling => AskedUse::WholeCeiling,
                AskedUse::Exactly(ids) => AskedUse::Exactly(recorded(ids)),
            },
            delegate: match &request.delegate {
                AskedDelegate::Unstated => AskedDelegate::Unstated,
                AskedDelegate::Exactly(ids) => AskedDelegate::Exactly(recorded(ids)),
            },
            ..request.clone()
        };
        Ok(Self {
            policy: policy.source.clone(),
            narrowing: policy.narrowing.clone(),
            definition: situation.definition.as_ref().map(|definition| definition.bytes().to_vec()),
            profile: situation.profile.source.clone(),
            catalog: serde_json::to_vec(&catalog(&situation.profile))?,
            situation: serde_json::to_vec(&situation.facts)?,
            request: serde_json::to_vec(&request)?,
        })
    }

    /// Stores them.
    ///
    /// # Errors
    /// [`AppendError`]: the decision must not be recorded, and nothing may start.
    pub fn store(&self, ledger: &Ledger) -> Result<record::Inputs, AppendError> {
        let optional =
            |bytes: &Option<Vec<u8>>| bytes.as_deref().map(|bytes| ledger.put_object(bytes)).transpose();
        Ok(record::Inputs {
            policy: Some(ledger.put_object(&self.policy)?),
            narrowing: optional(&self.narrowing)?,
            definition: optional(&self.definition)?,
            profile: Some(ledger.put_object(&self.profile)?),
            catalog: Some(ledger.put_object(&self.catalog)?),
            situation: Some(ledger.put_object(&self.situation)?),
            request: Some(ledger.put_object(&self.request)?),
        })
    }

    /// The values of a recorded decision, from its stored inputs.
    ///
    /// # Errors
    /// In words: an input that is gone, damaged or of another form. Nothing is guessed.
    pub fn load(
        inputs: &record::Inputs,
        mut object: impl FnMut(Digest) -> Result<Vec<u8>, String>,
    ) -> Result<(Policy, Request, Situation), String> {
        let mut need = |what: &str, digest: Option<Digest>| {
            digest.ok_or_else(|| format!("no {what} is recorded")).and_then(&mut object)
        };
        let mut policy = Policy::read(&need("policy", inputs.policy)?).map_err(|p| p.message)?;
        if inputs.narrowing.is_some() {
            let by = Narrowing::read(&need("narrowing policy", inputs.narrowing)?).map_err(|p| p.message)?;
            policy = policy.narrowed(&by);
        }
        let profile = Profile::read(&need("profile", inputs.profile)?).map_err(|p| p.message)?;
        let facts: Facts =
            serde_json::from_slice(&need("situation", inputs.situation)?).map_err(|e| e.to_string())?;
        let request: Request =
            serde_json::from_slice(&need("request", inputs.request)?).map_err(|e| e.to_string())?;
        let definition = match (&facts.definition, &request.subject) {
            (DefinitionFact::Read { kind, .. }, Subject::Definition(reference)) => {
                let kind: DefinitionKind = *kind;
                let bytes = need("definition", inputs.definition)?;
                Some(Definition::read(bytes, kind, reference.name.clone()).map_err(|p| p.message)?)
            }
            _ => None,
        };
        Ok((policy, request, Situation { facts, definition, profile }))
    }
}
