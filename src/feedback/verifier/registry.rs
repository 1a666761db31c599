//! Which verifiers judge which domain, and how that changes while tasks flow.
//!
//! A version is a component with its settings, and they are swapped as one. Readers take a snapshot of a domain's set, so
//! that a verification ends on the set that it began with and a swap holds nobody up. The sets are the configuration's
//! with all journaled changes made to them, in order.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
};

use arc_swap::ArcSwap;
use futures::future::join_all;
use serde::Serialize;

use super::{
    admission::Refusal,
    combine,
    components::{ComponentError, Components, digest, read},
    manifest::Manifest,
    sandbox::{Compiled, Sandbox},
};
use crate::{
    round::{
        ComponentSource, DecisionId, Domain, Feedback, FeedbackSource, RewardWeights, Score, Task, Verdict,
        VerifierChange, VerifierName, VerifierSettings, VerifierVersion, VersionOrigin,
    },
    telemetry::{Metric, observe_verification},
};

/// Versions of one verifier that are remembered; older ones cannot be rolled back to.
const HISTORY_MAX: usize = 32;

/// One verifier of a set, as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifierSpec {
    /// Its name; a first-party one unless `component` is given.
    pub name: VerifierName,
    /// A component file of one's own.
    pub component: Option<PathBuf>,
    /// How it counts.
    pub settings: VerifierSettings,
}

/// Whose set it is; none is the set of all domains without one of their own.
pub type SetKey = Option<Domain>;

/// A verifier with its versions, the last of which judges.
#[derive(Debug, Clone)]
struct Slot {
    name: VerifierName,
    // Shared by the copies of a set; never empty.
    versions: Arc<Vec<VerifierVersion>>,
    /// How many older ones are forgotten.
    forgotten: u32,
}

type Slots = BTreeMap<SetKey, Vec<Slot>>;

/// A verifier in place: the last of its versions judges.
struct Installed {
    slot: Slot,
    compiled: Arc<Compiled>,
}

/// All sets, swapped as one.
struct Sets {
    installed: BTreeMap<SetKey, Arc<Vec<Installed>>>,
    // Every version that judges and the one before it.
    compiled: HashMap<ComponentSource, Arc<Compiled>>,
}

/// The sets of all domains.
pub struct Registry {
    sandbox: Arc<Sandbox>,
    components: Components,
    sets: ArcSwap<Sets>,
}

/// Why a set could not be put in place, or changed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A component is not there.
    #[error("verifier {verifier}: {source}")]
    Component {
        /// The verifier.
        verifier: VerifierName,
        /// Why.
        source: ComponentError,
    },
    /// A component is not a verifier.
    #[error("verifier {verifier}: {source}")]
    Refused {
        /// The verifier.
        verifier: VerifierName,
        /// Why.
        source: Refusal,
    },
    /// A set has no verifier of this name.
    #[error("there is no verifier {verifier} here; there are {known}")]
    Unknown {
        /// What was asked for.
        verifier: VerifierName,
        /// What there is.
        known: String,
    },
    /// A set without verifiers would score nothing.
    #[error("{0} is the last verifier here, and without any nothing is learnt; install another one first")]
    Last(VerifierName),
    /// A version that is not remembered.
    #[error("verifier {verifier} has no version {version} to go back to; it has {known}")]
    NoVersion {
        /// The verifier.
        verifier: VerifierName,
        /// What was asked for.
        version: u32,
        /// What there is.
        known: String,
    },
}

/// A verifier of a set, as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct VerifierReport {
    /// Its name in the set.
    pub name: VerifierName,
    /// The number of the version that judges.
    pub version: u32,
    /// That version.
    #[serde(flatten)]
    pub current: VerifierVersion,
    /// What the component says of itself.
    #[schema(value_type = Manifest)]
    pub manifest: Arc<Manifest>,
    /// The component's size.
    pub component_bytes: usize,
    /// The versions that can be rolled back to, oldest first.
    pub history: Vec<NumberedVersion>,
}

/// A version with its number.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct NumberedVersion {
    /// Counted from 1.
    pub version: u32,
    /// The version.
    #[serde(flatten)]
    pub of: VerifierVersion,
}

/// What a set says of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Judgement {
    /// The combined score; absent when no verifier applied.
    pub score: Option<Score>,
    /// Each verifier's part.
    pub verdicts: Vec<Verdict>,
}

/// A component that was taken in.
pub struct TakenIn {
    source: ComponentSource,
    compiled: Arc<Compiled>,
}

/// A change that is ready: nothing can fail any more when it is put in place.
pub struct Prepared(Sets);

impl Registry {
    /// Compiles every verifier named. `default` serves the domains without a set of their own.
    pub fn load(
        sandbox: Arc<Sandbox>,
        components: Components,
        default: &[VerifierSpec],
        domains: &BTreeMap<Domain, Vec<VerifierSpec>>,
    ) -> Result<Self, RegistryError> {
        let mut slots = Slots::new();
        let empty = Sets { installed: BTreeMap::new(), compiled: HashMap::new() };
        let registry = Self { sandbox, components, sets: ArcSwap::from_pointee(empty) };
        let own = domains.iter().map(|(domain, specs)| (Some(domain.clone()), specs.as_slice()));
        for (key, specs) in own.chain([(None, default)]) {
            let set = specs.iter().map(|spec| registry.configured(spec)).collect::<Result<_, _>>()?;
            slots.insert(key, set);
        }
        registry.sets.store(Arc::new(registry.compile(slots, None)?));
        Ok(registry)
    }

    fn configured(&self, spec: &VerifierSpec) -> Result<Slot, RegistryError> {
        let failed = |source| RegistryError::Component { verifier: spec.name.clone(), source };
        let (component, sha256) = match &spec.component {
            Some(path) => {
                // Kept, so that this version can be rolled back to when the file has another content.
                let bytes = super::admission::component(&read(path).map_err(failed)?)
                    .map_err(|source| RegistryError::Refused { verifier: spec.name.clone(), source })?
                    .into_owned();
                let sha256 = digest(&bytes);
                (self.components.keep(&sha256, &bytes).map_err(failed)?, sha256)
            }
            None => {
                let source = ComponentSource::FirstParty(spec.name.to_string());
                let bytes = self.components.read(&source).map_err(failed)?;
                let sha256 = digest(&bytes);
                (source, sha256)
            }
        };
        let settings = spec.settings.clone();
        let version = VerifierVersion { component, sha256, settings, origin: VersionOrigin::Configured, at_ms: 0 };
        Ok(Slot { name: spec.name.clone(), versions: Arc::new(vec![version]), forgotten: 0 })
    }

    /// Makes the journal's changes, oldest first, to the configured sets.
    pub fn replay(
        &self,
        changes: impl IntoIterator<Item = (SetKey, VerifierName, VerifierChange)>,
    ) -> Result<(), RegistryError> {
        let mut slots = self.sets.load().slots();
        for (key, name, change) in changes {
            fold(&mut slots, &key, &name, change);
        }
        self.sets.store(Arc::new(self.compile(slots, None)?));
        Ok(())
    }

    /// Compiles a component, tries it and keeps its file. Blocks for as long as compiling takes; nothing judges by it yet.
    pub fn take_in(&self, verifier: &VerifierName, bytes: &[u8]) -> Result<TakenIn, RegistryError> {
        let refused = |source| RegistryError::Refused { verifier: verifier.clone(), source };
        let component = super::admission::component(bytes).map_err(refused)?;
        let sha256 = digest(&component);
        let compiled = match self.sets.load().compiled.get(&ComponentSource::Stored(sha256.clone())) {
            Some(compiled) => Arc::clone(compiled),
            None => Arc::new(self.sandbox.compile(&component).map_err(refused)?),
        };
        let source = self
            .components
            .keep(&sha256, &component)
            .map_err(|source| RegistryError::Component { verifier: verifier.clone(), source })?;
        Ok(TakenIn { source, compiled })
    }

    /// Compiles a first-party component, which then can be put in any set. Blocks for as long as compiling takes.
    pub fn take_first_party(&self, name: &VerifierName) -> Result<TakenIn, RegistryError> {
        let source = ComponentSource::FirstParty(name.to_string());
        let compiled = self.compiled(&self.sets.load().compiled, name, &source)?;
        Ok(TakenIn { source, compiled })
    }

    /// The version that a component would be.
    pub fn version_of(&self, taken: &TakenIn, settings: VerifierSettings, at_ms: i64) -> VerifierVersion {
        let (component, sha256) = (taken.source.clone(), taken.compiled.sha256.clone());
        VerifierVersion { component, sha256, settings, origin: VersionOrigin::Installed, at_ms }
    }

    /// The version of a verifier that judges, where there is one.
    pub fn current(&self, key: &SetKey, name: &VerifierName) -> Result<VerifierVersion, RegistryError> {
        Ok(self.sets.load().find(key, name)?.slot.current().clone())
    }

    /// One verifier of a set.
    pub fn show(&self, key: &SetKey, name: &VerifierName) -> Result<VerifierReport, RegistryError> {
        Ok(self.sets.load().find(key, name)?.report())
    }

    /// The version to go back to: the one before, or the one of a number.
    pub fn earlier(
        &self,
        key: &SetKey,
        name: &VerifierName,
        version: Option<u32>,
        at_ms: i64,
    ) -> Result<VerifierVersion, RegistryError> {
        let sets = self.sets.load();
        let slot = &sets.find(key, name)?.slot;
        let wanted = version.unwrap_or(slot.number().saturating_sub(1));
        let place = wanted.checked_sub(slot.forgotten + 1).and_then(|place| slot.versions.get(place as usize));
        let origin = VersionOrigin::RolledBack { to: wanted };
        place.map(|earlier| VerifierVersion { origin, at_ms, ..earlier.clone() }).ok_or_else(|| {
            let known = format!("{} to {}", slot.forgotten + 1, slot.number());
            RegistryError::NoVersion { verifier: name.clone(), version: wanted, known }
        })
    }

    /// Makes ready for a change; `taken` is the component that it brings, if it brings one. May block to compile.
    pub fn prepare(
        &self,
        key: &SetKey,
        name: &VerifierName,
        change: VerifierChange,
        taken: Option<TakenIn>,
    ) -> Result<Prepared, RegistryError> {
        let sets = self.sets.load();
        if change == VerifierChange::Removed {
            sets.find(key, name)?;
            if sets.of(key).len() == 1 {
                return Err(RegistryError::Last(name.clone()));
            }
        }
        let mut slots = sets.slots();
        fold(&mut slots, key, name, change);
        Ok(Prepared(self.compile(slots, taken)?))
    }

    /// Puts a change in place. Verifications under way end on what they began with.
    pub fn put_in_place(&self, Prepared(sets): Prepared) {
        self.sets.store(Arc::new(sets));
        metrics::counter!(Metric::VerifierSwaps.name()).increment(1);
    }

    /// Finds or compiles what all slots need.
    fn compile(&self, slots: Slots, taken: Option<TakenIn>) -> Result<Sets, RegistryError> {
        let mut known = self.sets.load().compiled.clone();
        known.extend(taken.map(|taken| (taken.source, taken.compiled)));
        let mut kept = HashMap::new();
        let mut installed = BTreeMap::new();
        for (key, set) in slots {
            let mut whole = Vec::with_capacity(set.len());
            for slot in set {
                let component = &slot.current().component;
                let compiled = match kept.get(component) {
                    Some(compiled) => Arc::clone(compiled),
                    None => self.compiled(&known, &slot.name, component)?,
                };
                kept.insert(component.clone(), Arc::clone(&compiled));
                let before = slot.versions.iter().rev().nth(1).map(|before| &before.component);
                if let Some((before, compiled)) = before.and_then(|before| known.get_key_value(before)) {
                    kept.insert(before.clone(), Arc::clone(compiled));
                }
                whole.push(Installed { slot, compiled });
            }
            installed.insert(key, Arc::new(whole));
        }
        Ok(Sets { installed, compiled: kept })
    }

    fn compiled(
        &self,
        known: &HashMap<ComponentSource, Arc<Compiled>>,
        verifier: &VerifierName,
        source: &ComponentSource,
    ) -> Result<Arc<Compiled>, RegistryError> {
        if let Some(compiled) = known.get(source) {
            return Ok(Arc::clone(compiled));
        }
        let failed = |source| RegistryError::Component { verifier: verifier.clone(), source };
        let bytes = self.components.read(source).map_err(failed)?;
        let compiled = self.sandbox.compile(&bytes);
        compiled.map(Arc::new).map_err(|source| RegistryError::Refused { verifier: verifier.clone(), source })
    }

    /// The verifiers of a set, in the order in which they judge.
    pub fn list(&self, key: &SetKey) -> Vec<VerifierReport> {
        self.sets.load().of(key).iter().map(Installed::report).collect()
    }

    /// Whether the domain has a set of its own.
    pub fn has_own(&self, key: &SetKey) -> bool {
        self.sets.load().installed.contains_key(key)
    }

    /// The sets there are.
    pub fn keys(&self) -> Vec<SetKey> {
        self.sets.load().installed.keys().cloned().collect()
    }

    /// Whether so many verifications wait that new tasks should be refused; how many wait.
    pub fn overload(&self) -> Option<usize> {
        self.sandbox.is_overloaded().then(|| self.sandbox.backlog())
    }

    /// What the domain's set says of an answer; all verifiers look at it at one time.
    pub async fn judgement(&self, task: &Task, answer: &str) -> Judgement {
        let set = Arc::clone(self.sets.load().of(&Some(task.domain.clone())));
        let verdicts = join_all(set.iter().map(|installed| self.verdict(installed, task, answer))).await;
        Judgement { score: combine(&verdicts), verdicts }
    }

    async fn verdict(&self, installed: &Installed, task: &Task, answer: &str) -> Verdict {
        let Installed { slot, compiled } = installed;
        let settings = &slot.current().settings;
        let verified = self.sandbox.verify(compiled, task, answer, &settings.config).await;
        observe_verification(slot.name.as_str(), verified.fuel, verified.duration_us);
        Verdict {
            verifier: slot.name.to_string(),
            version: compiled.manifest.version.clone(),
            sha256: compiled.sha256.clone(),
            status: verified.status,
            score: verified.score,
            weight: settings.weight,
            gate: settings.gate,
            on_error: settings.on_error,
            signals: verified.signals,
            trace: verified.trace,
            fuel: verified.fuel,
            duration_us: verified.duration_us,
        }
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
        let Judgement { score, verdicts } = self.judgement(task, answer).await;
        let reward = score.map(|score| weights.reward(score.get(), cost_usd));
        Feedback {
            decision_id,
            source: FeedbackSource::Verifier,
            score,
            reward,
            cost_usd,
            trust: 1.0,
            idempotency_key: None,
            verdicts,
        }
    }
}

impl Sets {
    /// The domain's own set, else the default one.
    fn of(&self, key: &SetKey) -> &Arc<Vec<Installed>> {
        let own = self.installed.get(key).or_else(|| self.installed.get(&None));
        own.expect("a registry is loaded with a default set, and the last verifier of a set stays")
    }

    fn find(&self, key: &SetKey, name: &VerifierName) -> Result<&Installed, RegistryError> {
        let set = self.of(key);
        set.iter().find(|installed| installed.slot.name == *name).ok_or_else(|| {
            let known = set.iter().map(|installed| installed.slot.name.as_str()).collect::<Vec<_>>().join(", ");
            RegistryError::Unknown { verifier: name.clone(), known }
        })
    }

    fn slots(&self) -> Slots {
        let slots = |set: &Vec<Installed>| set.iter().map(|installed| installed.slot.clone()).collect();
        self.installed.iter().map(|(key, set)| (key.clone(), slots(set))).collect()
    }
}

impl Slot {
    fn current(&self) -> &VerifierVersion {
        self.versions.last().expect("a slot is made with a version, and only ever gets more")
    }

    fn number(&self) -> u32 {
        self.forgotten + u32::try_from(self.versions.len()).unwrap_or(u32::MAX)
    }
}

impl Installed {
    fn report(&self) -> VerifierReport {
        let Self { slot, compiled } = self;
        let numbered = |(place, of): (u32, &VerifierVersion)| NumberedVersion { version: place, of: of.clone() };
        VerifierReport {
            name: slot.name.clone(),
            version: slot.number(),
            current: slot.current().clone(),
            manifest: Arc::clone(&compiled.manifest),
            component_bytes: compiled.bytes,
            history: (slot.forgotten + 1..).zip(slot.versions.iter()).map(numbered).collect(),
        }
    }
}

/// Makes one change. A domain without a set of its own gets a copy of the default one first.
fn fold(slots: &mut Slots, key: &SetKey, name: &VerifierName, change: VerifierChange) {
    if !slots.contains_key(key) {
        let copy = slots.get(&None).cloned().unwrap_or_default();
        slots.insert(key.clone(), copy);
    }
    let Some(set) = slots.get_mut(key) else { return };
    match (set.iter_mut().find(|slot| slot.name == *name), change) {
        (_, VerifierChange::Removed) => set.retain(|slot| slot.name != *name),
        (None, VerifierChange::Put(version)) => {
            set.push(Slot { name: name.clone(), versions: Arc::new(vec![version]), forgotten: 0 });
        }
        (Some(slot), VerifierChange::Put(version)) => {
            let versions = Arc::make_mut(&mut slot.versions);
            versions.push(version);
            if versions.len() > HISTORY_MAX {
                versions.remove(0);
                slot.forgotten += 1;
            }
        }
    }
}
