//! One figure of regret, marked as what it is: how it was found, against whom, and how sure it is.

use serde::Serialize;

use super::Interval;
use crate::round::{ArmId, Domain};

/// How often an interval may ever miss: 1 in 20 of the sequences, each looked at after every round.
pub const ALPHA: f64 = 0.05;

/// How regret was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = RegretKind)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// From the true expected reward of every arm.
    Exact,
    /// From logged propensities.
    Estimated,
    /// From a random share of tasks that were run on every arm.
    Audited,
}

/// Against whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = RegretTarget)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The one arm of each domain that would have been best for all of its rounds, known in hindsight.
    BestFixedPerDomain,
    /// The arm of each task that was to be expected to be best, by what is truly known of the arms.
    BestExpectedPerTask,
    /// The arm of each task that proved best: more than any policy could have, since answers are partly chance.
    BestPerTask,
}

/// One figure of regret.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = RegretMeasure)]
pub struct Measure {
    /// How it was found.
    pub kind: Kind,
    /// Against whom.
    pub target: Target,
    /// The same in one sentence.
    pub method: &'static str,
    /// Rounds that it is about.
    pub rounds: u64,
    /// Their cumulative regret; null before anything is known.
    pub cum_regret: Option<f64>,
    /// Its mean over them.
    pub per_round: Option<f64>,
    /// An interval that holds at every round at once with probability 0.95; null while too little is known, and where
    /// regret is exact.
    pub interval: Option<Bounds>,
    /// The same per domain; each domain's interval holds by itself with probability 0.95.
    pub domains: Vec<DomainMeasure>,
}

/// An interval of a cumulative regret. It is about the rounds of those domains in which one is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = RegretBounds)]
pub struct Bounds {
    /// Those rounds.
    pub rounds: u64,
    /// Their cumulative regret.
    pub cum_regret: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// One domain's part.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = DomainMeasure)]
pub struct DomainMeasure {
    /// The domain.
    pub domain: Domain,
    /// Its rounds.
    pub rounds: u64,
    /// Their cumulative regret.
    pub cum_regret: Option<f64>,
    /// The interval's lower end.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// Arms of which too little is known for an interval.
    pub unsettled: Vec<ArmId>,
}

/// A cumulative regret's mean.
pub(super) fn per_round(cum_regret: Option<f64>, rounds: u64) -> Option<f64> {
    cum_regret.filter(|_| rounds > 0).map(|regret| regret / rounds as f64)
}

impl Bounds {
    /// Adds a domain's.
    pub(super) fn add(total: &mut Option<Self>, rounds: u64, cum_regret: f64, Interval { low, high }: Interval) {
        let total = total.get_or_insert(Self { rounds: 0, cum_regret: 0.0, low: 0.0, high: 0.0 });
        total.rounds += rounds;
        total.cum_regret += cum_regret;
        total.low += low;
        total.high += high;
    }
}
