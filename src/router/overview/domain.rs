//! One domain: what is believed of its arms, how its voters' weights went, and how its verifiers do.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ArmState, Bounds, Router, RouterError, interval, locked, state_of};
use crate::{
    feedback::verifier::VerifierReport,
    history::{ArmRecord, DomainHistory, Posterior, VerifierRecord, WeightsReport},
    regret::{Kind, VoterWeight},
    round::{ArmId, Domain},
};

/// Arms that are listed.
const ARMS_SHOWN: usize = 500;

/// One domain.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct DomainDetail {
    /// Its name.
    pub domain: Domain,
    /// Verified rounds.
    pub rounds: u64,
    /// Those whose worker gave no answer.
    pub failures: u64,
    /// Mean score.
    pub score_mean: Option<f64>,
    /// Mean reward.
    pub reward_mean: Option<f64>,
    /// Dollars.
    pub cost_usd: f64,
    /// How regret was found.
    pub kind: Kind,
    /// Cumulative regret.
    pub cum_regret: f64,
    /// Its interval.
    pub regret_interval: Option<Bounds>,
    /// What is believed of the arms, the best first: 500 at most.
    pub arms: Vec<ArmBelief>,
    /// How many arms there are, those that were removed and did something included.
    pub arms_total: usize,
    /// The voters' weights at the last decision.
    pub voters: Vec<VoterWeight>,
    /// The same over time.
    pub weights: WeightsReport,
    /// Whether the verifiers are those of all domains without a set of their own.
    pub inherited: bool,
    /// How its verifiers do: those that judge now first, in the order in which they judge.
    pub verifiers: Vec<VerifierStanding>,
}

/// What an arm did in a domain, and what is believed of it.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ArmBelief {
    /// The arm.
    pub arm: ArmId,
    /// How it is.
    pub state: ArmState,
    /// Its rounds.
    pub rounds: u64,
    /// Their part of the domain's.
    pub share: f64,
    /// The same over the last 200 rounds.
    pub share_recent: f64,
    /// Mean score; null without rounds.
    pub score_mean: Option<f64>,
    /// Dollars a round.
    pub cost_mean_usd: Option<f64>,
    /// Whether it truly is the best; null where that is not known.
    pub best: Option<bool>,
    /// The mean reward that is believed of it.
    pub posterior: Posterior,
}

/// A verifier of a domain, and how it did.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct VerifierStanding {
    /// Its name in the set.
    pub name: String,
    /// Whether it judges no more.
    pub removed: bool,
    /// The number of the version that judges.
    pub version: Option<u32>,
    /// The version that the component states.
    pub stated_version: Option<String>,
    /// Its weight.
    pub weight: Option<f64>,
    /// Whether a score of 0 forces the whole to 0.
    pub gate: Option<bool>,
    /// The component.
    pub sha256: Option<String>,
    /// When this version was put in place, in milliseconds since 1970; 0 for one of the configuration.
    pub installed_at_ms: Option<i64>,
    #[serde(flatten)]
    record: VerifierRecord,
}

impl Router {
    /// One domain that is configured or was seen.
    pub fn domain_detail(&self, domain: &Domain) -> Result<DomainDetail, RouterError> {
        let states = self.arm_states();
        let shown = locked(&self.shown);
        let report = shown.tracker.summary();
        let of = report.domains.iter().find(|of| of.domain == *domain);
        if of.is_none() && !self.is_known(domain) {
            return Err(RouterError::unknown_domain(domain, &self.domains_seen(&shown)));
        }
        let nothing = DomainHistory::default();
        let history = shown.history.domain(domain).unwrap_or(&nothing);
        let shares = of.map(|of| of.arms.iter().map(|arm| (&arm.work.arm, arm)).collect::<BTreeMap<_, _>>());
        let prior = history.arms().reward_mean().unwrap_or_default();
        let unused = ArmRecord::default();
        let belief = |arm: &ArmId, state: ArmState| {
            let record = history.arms().record(arm).unwrap_or(&unused);
            let work = shares.as_ref().and_then(|shares| shares.get(arm));
            ArmBelief {
                arm: arm.clone(),
                state,
                rounds: record.rounds,
                share: work.map_or(0.0, |arm| arm.work.share),
                share_recent: work.map_or(0.0, |arm| arm.work.share_recent),
                score_mean: (record.rounds > 0).then(|| record.score / record.rounds as f64),
                cost_mean_usd: record.cost_mean_usd(),
                best: work.and_then(|arm| arm.best),
                posterior: record.posterior(prior),
            }
        };
        // Arms that are gone, and other ways of running those that are there.
        let others = history.arms().records().filter(|(arm, _)| !states.contains_key(*arm));
        let mut arms: Vec<_> = states.iter().map(|(arm, state)| belief(arm, *state)).collect();
        arms.extend(others.map(|(arm, _)| belief(arm, state_of(&states, arm))));
        arms.sort_by(|a, b| b.posterior.mean.total_cmp(&a.posterior.mean));
        let arms_total = arms.len();
        arms.truncate(ARMS_SHOWN);
        let totals = history.timeline().totals();
        let set = Some(domain.clone());
        Ok(DomainDetail {
            domain: domain.clone(),
            rounds: totals.rounds,
            failures: totals.failures,
            score_mean: totals.mean(totals.score),
            reward_mean: totals.mean(totals.reward),
            cost_usd: totals.cost_usd,
            kind: report.kind,
            cum_regret: of.map_or(0.0, |of| of.cum_regret),
            regret_interval: interval(&report, Some(domain)),
            arms,
            arms_total,
            voters: of.map(|of| of.voters.clone()).unwrap_or_default(),
            weights: history.weights(),
            inherited: !self.registry.has_own(&set),
            verifiers: standings(&self.registry.list(&set), history),
        })
    }
}

fn standings(installed: &[VerifierReport], history: &DomainHistory) -> Vec<VerifierStanding> {
    let mut records: BTreeMap<&str, VerifierRecord> = history.verifiers().collect();
    let mut standings: Vec<_> = installed
        .iter()
        .map(|known| VerifierStanding {
            name: known.name.to_string(),
            removed: false,
            version: Some(known.version),
            stated_version: Some(known.manifest.version.clone()),
            weight: Some(known.current.settings.weight),
            gate: Some(known.current.settings.gate),
            sha256: Some(known.current.sha256.clone()),
            installed_at_ms: Some(known.current.at_ms),
            record: records.remove(known.name.as_str()).unwrap_or_default(),
        })
        .collect();
    standings.extend(records.into_iter().map(|(name, record)| VerifierStanding {
        name: name.to_owned(),
        removed: true,
        version: None,
        stated_version: None,
        weight: None,
        gate: None,
        sha256: None,
        installed_at_ms: None,
        record,
    }));
    standings
}
