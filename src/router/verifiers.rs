//! Verifiers while the router runs: installed, weighed, rolled back and removed, journaled, swapped under traffic.
//!
//! A component is compiled and tried before anything changes; then the change is durable; then it counts. Rounds under way
//! end on the set that they began with.

use std::sync::Arc;

use super::{Router, RouterError, run_blocking};
use crate::{
    feedback::verifier::{Judgement, Registry, RegistryError, SetKey, TakenIn, VerifierReport},
    journal::{Event, NewEvent, now_ms},
    round::{
        Domain, Task, VerifierChange, VerifierName, VerifierPatch, VerifierSettings, VerifierVersion, VersionOrigin,
    },
};

/// What to install.
#[derive(Debug, Clone, PartialEq)]
pub enum NewComponent {
    /// A component, or a core module to make one of.
    Bytes(Vec<u8>),
    /// One that comes with the program, by its name there.
    FirstParty(VerifierName),
}

/// A domain's verifiers.
#[derive(Debug, Clone, PartialEq, serde::Serialize, utoipa::ToSchema)]
pub struct SetReport {
    /// The domain; none is the set of all domains without one of their own.
    pub domain: Option<Domain>,
    /// Whether the set is the one of all domains without one of their own.
    pub inherited: bool,
    /// The verifiers, in the order in which they judge.
    pub verifiers: Vec<VerifierReport>,
}

impl Router {
    /// The sets that there are: the default one first.
    pub fn verifier_sets(&self) -> Vec<SetReport> {
        let mut keys = self.registry.keys();
        let known = self.settings.domains.iter().map(|domain| Some(domain.clone()));
        keys.extend(known.filter(|key| !self.registry.has_own(key)));
        keys.sort();
        keys.iter().map(|key| self.report(key)).collect()
    }

    /// One set.
    pub fn verifier_set(&self, key: &SetKey) -> Result<SetReport, RouterError> {
        self.known_set(key)?;
        Ok(self.report(key))
    }

    fn report(&self, key: &SetKey) -> SetReport {
        let verifiers = self.registry.list(key);
        SetReport { domain: key.clone(), inherited: key.is_some() && !self.registry.has_own(key), verifiers }
    }

    /// One verifier of a set.
    pub fn verifier(&self, key: &SetKey, name: &VerifierName) -> Result<VerifierReport, RouterError> {
        self.known_set(key)?;
        Ok(self.registry.show(key, name)?)
    }

    /// Installs a component under a name, or swaps the one that is there for it. What the patch does not say stays as it was, or is
    /// weight 1 and no gate. Installing what is there already changes nothing.
    pub async fn install_verifier(
        &self,
        key: &SetKey,
        name: &VerifierName,
        component: NewComponent,
        patch: &VerifierPatch,
    ) -> Result<VerifierReport, RouterError> {
        self.known_set(key)?;
        patch.over(&VerifierSettings::of_weight(1.0)).validate()?;
        // The slow part is done before others have to wait.
        let (registry, verifier) = (Arc::clone(&self.registry), name.clone());
        let taken = run_blocking(move || match component {
            NewComponent::Bytes(bytes) => registry.take_in(&verifier, &bytes),
            NewComponent::FirstParty(known) => registry.take_first_party(&known),
        })
        .await??;
        let _one_at_a_time = self.policies.changing.lock().await;
        let current = self.registry.current(key, name).ok();
        let before = current.as_ref().map_or(VerifierSettings::of_weight(1.0), |version| version.settings.clone());
        let version = self.registry.version_of(&taken, patch.over(&before), now_ms());
        if current.is_some_and(|current| same(&current, &version)) {
            return self.verifier(key, name);
        }
        self.change_verifier(key, name, VerifierChange::Put(version), Some(taken)).await?;
        self.verifier(key, name)
    }

    /// Changes how a verifier counts.
    pub async fn patch_verifier(
        &self,
        key: &SetKey,
        name: &VerifierName,
        patch: &VerifierPatch,
    ) -> Result<VerifierReport, RouterError> {
        self.known_set(key)?;
        let _one_at_a_time = self.policies.changing.lock().await;
        let current = self.registry.current(key, name)?;
        let settings = patch.over(&current.settings);
        settings.validate()?;
        let version = VerifierVersion { settings, origin: VersionOrigin::Changed, at_ms: now_ms(), ..current.clone() };
        if !same(&current, &version) {
            self.change_verifier(key, name, VerifierChange::Put(version), None).await?;
        }
        self.verifier(key, name)
    }

    /// Brings an earlier version back, component and settings: the one before, or the one of a number.
    pub async fn roll_back_verifier(
        &self,
        key: &SetKey,
        name: &VerifierName,
        version: Option<u32>,
    ) -> Result<VerifierReport, RouterError> {
        self.known_set(key)?;
        let _one_at_a_time = self.policies.changing.lock().await;
        let earlier = self.registry.earlier(key, name, version, now_ms())?;
        self.change_verifier(key, name, VerifierChange::Put(earlier), None).await?;
        self.verifier(key, name)
    }

    /// Removes a verifier from a set.
    pub async fn remove_verifier(&self, key: &SetKey, name: &VerifierName) -> Result<(), RouterError> {
        self.known_set(key)?;
        let _one_at_a_time = self.policies.changing.lock().await;
        self.change_verifier(key, name, VerifierChange::Removed, None).await
    }

    /// What the task's domain would say of an answer. Nothing is journaled or learnt.
    pub async fn dry_run(&self, task: &Task, answer: &str) -> Result<Judgement, RouterError> {
        self.known_set(&Some(task.domain.clone()))?;
        if let Some(waiting) = self.registry.overload() {
            return Err(RouterError::Overloaded { waiting });
        }
        Ok(self.registry.judgement(task, answer).await)
    }

    /// Makes a change that is durable first; the caller holds the lock of changes.
    async fn change_verifier(
        &self,
        key: &SetKey,
        name: &VerifierName,
        change: VerifierChange,
        taken: Option<TakenIn>,
    ) -> Result<(), RouterError> {
        let (registry, of, verifier, wanted) = (Arc::clone(&self.registry), key.clone(), name.clone(), change.clone());
        let prepared = run_blocking(move || registry.prepare(&of, &verifier, wanted, taken)).await??;
        let event = Event::VerifierChanged { domain: key.clone(), verifier: name.clone(), change };
        self.append(vec![NewEvent::alone(event)]).await?;
        self.registry.put_in_place(prepared);
        tracing::info!(domain = key.as_ref().map_or("*", Domain::as_str), verifier = %name, "a verifier was changed");
        Ok(())
    }

    /// Refuses a domain that the configuration does not know.
    fn known_set(&self, key: &SetKey) -> Result<(), RouterError> {
        let Some(domain) = key else { return Ok(()) };
        if self.settings.domains.is_empty() || self.settings.domains.contains(domain) || *domain == Domain::unknown() {
            return Ok(());
        }
        Err(RouterError::unknown_domain(domain, &self.settings.domains))
    }
}

/// Whether two versions judge alike.
fn same(one: &VerifierVersion, other: &VerifierVersion) -> bool {
    (&one.component, &one.sha256, &one.settings) == (&other.component, &other.sha256, &other.settings)
}

impl From<RegistryError> for RouterError {
    fn from(error: RegistryError) -> Self {
        Self::Verifier(Box::new(error))
    }
}

/// Makes the journal's changes to the configured sets.
pub(super) async fn with_verifier_changes(
    registry: Registry,
    changes: Vec<(SetKey, VerifierName, VerifierChange)>,
) -> Result<Arc<Registry>, RouterError> {
    run_blocking(move || {
        registry.replay(changes)?;
        Ok(Arc::new(registry))
    })
    .await?
}
