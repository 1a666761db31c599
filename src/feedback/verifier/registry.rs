//! Which verifiers check which domain.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use arc_swap::ArcSwap;

use super::{
    combine,
    sandbox::{Compiled, Sandbox, SandboxError},
};
use crate::round::{DecisionId, Domain, Feedback, FeedbackSource, RewardWeights, Task, Verdict};

/// The verifiers that come with the program, by name.
const FIRST_PARTY: [(&str, &[u8]); 3] = [
    ("answer", include_bytes!("../../../verifiers/built/answer.wasm")),
    ("json", include_bytes!("../../../verifiers/built/json.wasm")),
    ("rules", include_bytes!("../../../verifiers/built/rules.wasm")),
];

/// The component of a first-party verifier.
pub fn first_party(name: &str) -> Option<&'static [u8]> {
    FIRST_PARTY.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

/// One verifier of a domain's set, as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifierSpec {
    /// Its name; a first-party one unless `component` is given.
    pub name: String,
    /// A component file of one's own.
    pub component: Option<PathBuf>,
    /// Its weight in the domain, above 0.
    pub weight: f64,
    /// Whether its 0 forces the whole to 0.
    pub gate: bool,
    /// Its configuration, JSON that it understands.
    pub config: String,
}

/// A verifier in place.
#[derive(Clone)]
pub struct Installed {
    spec: VerifierSpec,
    compiled: Arc<Compiled>,
}

/// A domain's verifiers, swapped as one.
pub type DomainSet = Arc<Vec<Installed>>;

/// The sets of all domains.
pub struct Registry {
    sandbox: Arc<Sandbox>,
    // Readers take a snapshot, so a verification in flight ends on the set that it began with.
    sets: ArcSwap<BTreeMap<Domain, DomainSet>>,
    default: DomainSet,
}

/// Why a set could not be put in place.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// There is no first-party verifier of this name.
    #[error("unknown verifier {0:?}; first-party ones are answer, json and rules, others need `component = FILE`")]
    Unknown(String),
    /// The component file cannot be read.
    #[error("cannot read the component {path} of verifier {name:?}: {reason}")]
    Unreadable {
        /// The verifier.
        name: String,
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The component is not a verifier.
    #[error("verifier {name:?}: {source}")]
    Refused {
        /// The verifier.
        name: String,
        /// Why.
        source: SandboxError,
    },
}

impl Registry {
    /// Compiles every verifier named. `default` serves the domains without a set of their own.
    pub fn load(
        sandbox: Arc<Sandbox>,
        default: &[VerifierSpec],
        domains: &BTreeMap<Domain, Vec<VerifierSpec>>,
    ) -> Result<Self, RegistryError> {
        let mut compiled = BTreeMap::new();
        let mut set = |specs: &[VerifierSpec]| -> Result<DomainSet, RegistryError> {
            let installed = specs.iter().map(|spec| {
                let key = (spec.name.clone(), spec.component.clone());
                let compiled = match compiled.get(&key) {
                    Some(compiled) => Arc::clone(compiled),
                    None => {
                        let fresh = Arc::new(compile(&sandbox, spec)?);
                        compiled.insert(key, Arc::clone(&fresh));
                        fresh
                    }
                };
                Ok(Installed { spec: spec.clone(), compiled })
            });
            Ok(Arc::new(installed.collect::<Result<_, _>>()?))
        };
        let default = set(default)?;
        let sets = domains
            .iter()
            .map(|(domain, specs)| Ok((domain.clone(), set(specs)?)))
            .collect::<Result<BTreeMap<_, _>, RegistryError>>()?;
        Ok(Self { sandbox, sets: ArcSwap::from_pointee(sets), default })
    }

    /// Checks an answer with the domain's set.
    pub async fn judge(
        &self,
        decision_id: DecisionId,
        task: &Task,
        answer: &str,
        cost_usd: f64,
        weights: RewardWeights,
    ) -> Feedback {
        let set = self.sets.load().get(&task.domain).map_or_else(|| Arc::clone(&self.default), Arc::clone);
        let mut verdicts = Vec::with_capacity(set.len());
        for Installed { spec, compiled } in set.iter() {
            let verified = self.sandbox.verify(compiled, task, answer, &spec.config).await;
            verdicts.push(Verdict {
                verifier: spec.name.clone(),
                version: compiled.version.clone(),
                sha256: compiled.sha256.clone(),
                status: verified.status,
                score: verified.score,
                weight: spec.weight,
                gate: spec.gate,
                signals: verified.signals,
                trace: verified.trace,
                fuel: verified.fuel,
                duration_us: verified.duration_us,
            });
        }
        let score = combine(&verdicts);
        let reward = score.map(|score| weights.reward(score.get(), cost_usd));
        Feedback { decision_id, source: FeedbackSource::Verifier, score, reward, cost_usd, trust: 1.0, verdicts }
    }
}

fn compile(sandbox: &Sandbox, spec: &VerifierSpec) -> Result<Compiled, RegistryError> {
    let bytes = match (&spec.component, first_party(&spec.name)) {
        (Some(path), _) => std::fs::read(path).map_err(|error| RegistryError::Unreadable {
            name: spec.name.clone(),
            path: path.clone(),
            reason: error.to_string(),
        })?,
        (None, Some(bytes)) => bytes.to_vec(),
        (None, None) => return Err(RegistryError::Unknown(spec.name.clone())),
    };
    sandbox.compile(&bytes).map_err(|source| RegistryError::Refused { name: spec.name.clone(), source })
}
