//! Arms while the router runs: added, changed and removed, journaled, under stable ids.
//!
//! A change is durable before it counts, and is made again at every start on top of the configured arms. Deciding reads one
//! immutable catalogue, so a change touches no round that is under way: an arm that is removed still finishes what it has.

use std::sync::Arc;

use super::{ArmMaker, Router, RouterError};
use crate::{
    action::policy::Action,
    arms::{Arm, Catalogue, CatalogueError},
    journal::{ArmChange, Event, NewEvent, now_ms},
    round::{ArmId, ArmPatch, Domain},
    telemetry::Metric,
};

/// An arm as operators see it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, utoipa::ToSchema)]
#[schema(as = Arm)]
pub struct ArmReport {
    /// Its name.
    pub id: ArmId,
    /// Whether it may be chosen.
    pub enabled: bool,
    /// Whether its statistics are in doubt.
    pub quarantined: bool,
    /// Whether it failed several times in a row and rests.
    pub resting: bool,
    /// Dollars per million tokens read.
    pub input_usd_per_1m: f64,
    /// Dollars per million tokens written.
    pub output_usd_per_1m: f64,
    /// What it can do that tasks may ask for.
    pub capabilities: Vec<String>,
    /// Rounds learnt of it, each counted by its trust.
    pub rounds: f64,
    /// Its mean score over them.
    pub mean_score: Option<f64>,
}

/// The catalogue after a change.
pub(super) fn changed(
    catalogue: &Catalogue,
    arm: &ArmId,
    change: &ArmChange,
    maker: &ArmMaker,
) -> Result<Catalogue, RouterError> {
    Ok(match change {
        ArmChange::Added(table) => catalogue.with(maker(table).map_err(RouterError::BadArm)?),
        ArmChange::Changed(patch) => catalogue.patched(arm, patch)?,
        ArmChange::Removed => catalogue.without(arm)?,
    })
}

impl Router {
    /// The names of all arms, in listing order.
    pub fn arm_ids(&self) -> Vec<ArmId> {
        self.catalogue.load().arms().map(|arm| arm.id.clone()).collect()
    }

    /// The domains that tasks may name, or those that were seen where none are configured.
    pub fn domains(&self) -> Vec<Domain> {
        let known = &self.settings.domains;
        if known.is_empty() {
            self.seen_domains.load().iter().cloned().collect()
        } else {
            known.iter().cloned().collect()
        }
    }

    /// All arms, in listing order.
    pub fn arms(&self) -> Vec<ArmReport> {
        let snapshot = self.policy.load();
        let now = now_ms();
        let report = |arm: &Arm| {
            let total = snapshot.standings.total(&(crate::round::Mode::Single, arm.id.clone()));
            ArmReport {
                id: arm.id.clone(),
                enabled: arm.enabled,
                quarantined: arm.quarantined,
                resting: self.health.rests(&arm.id, now),
                input_usd_per_1m: arm.prices.input_usd_per_1m,
                output_usd_per_1m: arm.prices.output_usd_per_1m,
                capabilities: arm.capabilities.iter().map(ToString::to_string).collect(),
                rounds: total.n,
                mean_score: (total.n > 0.0).then(|| total.sum / total.n),
            }
        };
        self.catalogue.load().arms().map(report).collect()
    }

    /// Adds an arm, given as in an `[[arms]]` table of the configuration.
    pub async fn add_arm(&self, table: serde_json::Value) -> Result<ArmReport, RouterError> {
        let arm = (self.arm_maker)(&table).map_err(RouterError::BadArm)?.id;
        Catalogue::admits(&arm)?;
        let _one_at_a_time = self.policies.changing.lock().await;
        if self.catalogue.load().get(&arm).is_ok() {
            return Err(CatalogueError::Twice(arm).into());
        }
        self.change_arm(&arm, ArmChange::Added(table)).await?;
        self.arm(&arm)
    }

    /// Changes an arm.
    pub async fn patch_arm(&self, arm: &ArmId, patch: ArmPatch) -> Result<ArmReport, RouterError> {
        patch.validate()?;
        let _one_at_a_time = self.policies.changing.lock().await;
        self.change_arm(arm, ArmChange::Changed(patch)).await?;
        self.arm(arm)
    }

    /// Removes an arm. Its statistics stay under its name.
    pub async fn remove_arm(&self, arm: &ArmId) -> Result<(), RouterError> {
        let _one_at_a_time = self.policies.changing.lock().await;
        self.change_arm(arm, ArmChange::Removed).await
    }

    /// Keeps arms from being chosen whose statistics make no sense, until an operator says otherwise.
    pub(super) async fn quarantine(&self, poisoned: Vec<Action>) {
        for (_, arm) in poisoned {
            let known = self.catalogue.load().get(&arm).map(|arm| arm.quarantined);
            if known != Ok(false) {
                continue;
            }
            metrics::counter!(Metric::Quarantined.name(), "arm" => arm.to_string()).increment(1);
            tracing::error!(%arm, "the arm's statistics make no sense: it is quarantined; see GET /v1/arms");
            let patch = ArmPatch { quarantined: Some(true), ..ArmPatch::default() };
            if let Err(error) = self.patch_arm(&arm, patch).await {
                tracing::error!(%arm, %error, "the quarantine could not be journaled");
            }
        }
    }

    fn arm(&self, id: &ArmId) -> Result<ArmReport, RouterError> {
        self.catalogue.load().get(id)?;
        self.arms().into_iter().find(|arm| arm.id == *id).ok_or_else(|| RouterError::Internal("the arm left".into()))
    }

    /// Makes a change that is durable first; the caller holds the lock of changes.
    async fn change_arm(&self, arm: &ArmId, change: ArmChange) -> Result<(), RouterError> {
        let next = changed(&self.catalogue.load(), arm, &change, &self.arm_maker)?;
        self.append(vec![NewEvent::alone(Event::ArmChanged { arm: arm.clone(), change })]).await?;
        self.catalogue.store(Arc::new(next));
        // A policy on one arm is left without it, and falls back: worth a word.
        let snapshot = self.policy.load();
        let only = snapshot.champion.name.split_once("fixed:").is_some_and(|(_, fixed)| fixed == arm.as_str());
        if only {
            tracing::warn!(%arm, "the policy takes only this arm");
        }
        Ok(())
    }
}
