//! Means with their standard errors, kept round by round.

use serde::Serialize;

/// Below so many effective rounds an estimate comes with a warning.
const EFFECTIVE_MIN: f64 = 100.0;
/// The same, as a share of all rounds.
const EFFECTIVE_SHARE_MIN: f64 = 0.05;

/// An estimate of the mean reward per round.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean reward; absent where no round speaks for it.
    pub value: Option<f64>,
    /// Its standard error; absent with fewer than two rounds.
    pub standard_error: Option<f64>,
    /// Rounds used: those of weight above 0.
    pub rounds: u64,
    /// (sum w)^2 / sum w^2: how many rounds of equal weight would say as much.
    pub effective_rounds: f64,
    /// The largest weight.
    pub weight_max: f64,
    /// What to know before believing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl Estimate {
    /// Warns where few of `rounds` logged rounds carry the estimate.
    pub(super) fn warn(&mut self, rounds: u64) {
        let effective = self.effective_rounds;
        let few = effective < EFFECTIVE_MIN || effective < EFFECTIVE_SHARE_MIN * rounds as f64;
        self.warning = few.then(|| {
            format!("worth {effective:.0} of {rounds} rounds, so it says little: log more exploration, or more rounds")
        });
    }
}

/// Sums of weights.
#[derive(Debug, Clone, Copy, Default)]
struct Weights {
    rounds: u64,
    used: u64,
    sum: f64,
    squares: f64,
    max: f64,
}

impl Weights {
    fn add(&mut self, weight: f64) {
        self.rounds += 1;
        self.used += u64::from(weight > 0.0);
        self.sum += weight;
        self.squares += weight * weight;
        self.max = self.max.max(weight);
    }

    fn estimate(&self, value: Option<f64>, variance: Option<f64>) -> Estimate {
        Estimate {
            value,
            standard_error: variance.map(|variance| variance.max(0.0).sqrt()),
            rounds: self.used,
            effective_rounds: if self.squares > 0.0 { self.sum * self.sum / self.squares } else { 0.0 },
            weight_max: self.max,
            warning: None,
        }
    }
}

/// A plain mean of terms x that were made with weights; its variance is the sample variance of x over n.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mean {
    weights: Weights,
    sum: f64,
    squares: f64,
}

impl Mean {
    pub fn add(&mut self, weight: f64, term: f64) {
        self.weights.add(weight);
        self.sum += term;
        self.squares += term * term;
    }

    pub fn rounds(&self) -> u64 {
        self.weights.rounds
    }

    pub fn estimate(&self) -> Estimate {
        let n = self.weights.rounds as f64;
        let value = (n > 0.0).then(|| self.sum / n);
        let variance = (n > 1.0).then(|| (self.squares - self.sum * self.sum / n) / (n - 1.0) / n);
        self.weights.estimate(value, variance)
    }
}

/// v = sum w r / sum w over the n rounds of weight above 0. Its variance, by the delta method, is
/// n / (n - 1) * sum w^2 (r - v)^2 / (sum w)^2.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WeightedMean {
    weights: Weights,
    rewards: f64,
    square_rewards: f64,
    square_square_rewards: f64,
}

impl WeightedMean {
    pub fn add(&mut self, weight: f64, reward: f64) {
        self.weights.add(weight);
        self.rewards += weight * reward;
        self.square_rewards += weight * weight * reward;
        self.square_square_rewards += weight * weight * reward * reward;
    }

    pub fn estimate(&self) -> Estimate {
        let Weights { sum, squares, used, .. } = self.weights;
        let value = (sum > 0.0).then(|| self.rewards / sum);
        let variance = value.filter(|_| used > 1).map(|v| {
            let deviations = self.square_square_rewards - 2.0 * v * self.square_rewards + v * v * squares;
            used as f64 / (used as f64 - 1.0) * deviations / (sum * sum)
        });
        self.weights.estimate(value, variance)
    }
}
