//! How much each voter counted in a domain's decisions, over its rounds.

use serde::{Deserialize, Serialize};

use super::{Lived, VOTERS_MAX};
use crate::regret::Series;

/// Points of a curve at most.
const POINTS_MAX: usize = 200;

/// The voters' weights at a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WeightPoint {
    /// The domain's rounds so far.
    pub round: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// In [0, 1], in the voters' order; null for one that did not vote, and cut off behind the last that did.
    pub weights: Vec<Option<f32>>,
}

/// The voters' weights over rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = WeightSeries)]
pub struct WeightsReport {
    /// The voters, by their policies' names.
    pub policies: Vec<String>,
    /// At most 200 points, evenly spread over the rounds, and the newest.
    pub points: Vec<WeightPoint>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Weights {
    policies: Vec<String>,
    series: Series<WeightPoint>,
}

impl Default for Weights {
    fn default() -> Self {
        Self { policies: vec![], series: Series::of(POINTS_MAX) }
    }
}

impl Weights {
    /// Adds the `round`-th round of the domain.
    pub fn add(&mut self, lived: &Lived<'_>, round: u64) {
        if lived.voters.is_empty() {
            return;
        }
        for (policy, _) in lived.voters {
            if !self.policies.contains(policy) && self.policies.len() < VOTERS_MAX {
                self.policies.push(policy.clone());
            }
        }
        let of =
            |policy: &String| lived.voters.iter().find(|(name, _)| name == policy).map(|(_, weight)| *weight as f32);
        let mut weights: Vec<_> = self.policies.iter().map(of).collect();
        let last = weights.iter().rposition(Option::is_some).map_or(0, |place| place + 1);
        weights.truncate(last);
        self.series.push(round, WeightPoint { round, at_ms: lived.at_ms, weights });
    }

    pub fn report(&self) -> WeightsReport {
        WeightsReport { policies: self.policies.clone(), points: self.series.points() }
    }
}
