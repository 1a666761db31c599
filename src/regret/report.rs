//! What the regret page and `GET /v1/regret` show.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AuditCounts, Kind, Measure, RegretPoint, Target};
use crate::round::{ArmId, Domain};

/// Everything that the regret page shows.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct RegretReport {
    /// How the headline number and its curve were found: exact or estimated.
    pub kind: Kind,
    /// Against whom.
    pub target: Target,
    /// How, in one sentence.
    pub method: &'static str,
    /// Verified rounds.
    pub rounds: u64,
    /// Decisions that nobody closed before their lease ended; their reward is unknown, not 0, and counts nowhere.
    pub abandoned: u64,
    /// Their rewards.
    pub reward_sum: f64,
    /// Their mean score; 0 before the first.
    pub score_mean: f64,
    /// Their dollars.
    pub cost_usd: f64,
    /// The headline number.
    pub cum_regret: f64,
    /// Its curve.
    pub series: Vec<RegretPoint>,
    /// Who did the work.
    pub arms: Vec<ArmReport>,
    /// The same per domain.
    pub domains: Vec<DomainReport>,
    /// Each arm's share over time.
    pub share_series: Vec<SharePoint>,
    /// Every figure of regret that there is, each marked as what it is.
    pub measures: Vec<Measure>,
    /// What audit probes came to; null where there never were any.
    pub audits: Option<AuditCounts>,
}

/// One arm's work.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = ArmWork)]
pub struct ArmReport {
    /// The arm.
    pub arm: ArmId,
    /// Its rounds.
    pub rounds: u64,
    /// Their part of all rounds.
    pub share: f64,
    /// The same over the last 200 rounds.
    pub share_recent: f64,
    /// Mean score; 0 without rounds.
    pub score_mean: f64,
    /// Dollars.
    pub cost_usd: f64,
}

impl ArmReport {
    /// An arm that did nothing.
    pub fn idle(arm: &ArmId) -> Self {
        Self { arm: arm.clone(), rounds: 0, share: 0.0, share_recent: 0.0, score_mean: 0.0, cost_usd: 0.0 }
    }
}

/// One domain's work.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = DomainWork)]
pub struct DomainReport {
    /// The domain.
    pub domain: Domain,
    /// Its rounds.
    pub rounds: u64,
    /// Mean score.
    pub score_mean: f64,
    /// Cumulative regret of its rounds.
    pub cum_regret: f64,
    /// Its arms.
    pub arms: Vec<DomainArmReport>,
    /// The voters' weights at its last decision.
    pub voters: Vec<VoterWeight>,
}

impl DomainReport {
    /// A domain without rounds.
    pub fn unseen(domain: &Domain) -> Self {
        Self { domain: domain.clone(), rounds: 0, score_mean: 0.0, cum_regret: 0.0, arms: vec![], voters: vec![] }
    }
}

/// One arm's work in one domain.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = DomainArmWork)]
pub struct DomainArmReport {
    /// What it did.
    #[serde(flatten)]
    pub work: ArmReport,
    /// Whether it truly is the domain's best arm; unknown when regret is estimated.
    pub best: Option<bool>,
}

/// A voter's weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VoterWeight {
    /// The voter's policy.
    pub policy: String,
    /// In [0, 1].
    pub weight: f64,
}

/// Each arm's share in one window of rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SharePoint {
    /// The window's last round.
    pub round: u64,
    /// Share by arm; they sum to 1.
    pub shares: BTreeMap<ArmId, f64>,
}
