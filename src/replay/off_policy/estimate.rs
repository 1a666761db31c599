//! Means with their standard errors and their confidence sequences, kept round by round.

use serde::Serialize;

use super::logged::Checked;
use crate::regret::{ConfidenceSequence, EmpiricalBernstein, Interval};

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
    /// Where the true mean is, at every round at once: absent while too little is known to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// How the interval was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_kind: Option<IntervalKind>,
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

/// How an interval was made; both hold at every round at once, so that people may look while data comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalKind {
    /// Exact at any number of rounds and for any weights: for rewards known to be from 0 to 1.
    EmpiricalBernstein,
    /// In the limit of many rounds, as the central limit theorem holds.
    Asymptotic,
}

impl IntervalKind {
    /// Its name in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::EmpiricalBernstein => "exact",
            Self::Asymptotic => "asymptotic",
        }
    }
}

impl Estimate {
    fn with(self, interval: Option<Interval>, kind: IntervalKind) -> Self {
        Self { interval, interval_kind: interval.map(|_| kind), ..self }
    }

    /// Warns where few of `rounds` logged rounds carry the estimate.
    pub(super) fn warn(&mut self, rounds: u64) {
        let effective = self.effective_rounds;
        let few = effective < EFFECTIVE_MIN || effective < EFFECTIVE_SHARE_MIN * rounds as f64;
        self.warning = few.then(|| {
            format!("worth {effective:.0} of {rounds} rounds, so it says little: log more exploration, or more rounds")
        });
    }
}

/// A weight that was drawn, and what was known of it before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weight {
    pub value: f64,
    /// The means of its second and fourth powers over what could have been drawn.
    square: f64,
    fourth: f64,
    /// What a score of 1 is worth.
    unit: f64,
}

impl Weight {
    /// The weight of what was taken, where each action was drawn with its probability in `pmf` and would have got its weight
    /// by `wanted`, one probability or the difference of two for each action: w = wanted / p.
    pub fn of(wanted: impl Iterator<Item = f64> + Clone, logged: &Checked<'_>) -> Self {
        let power = |exponent: i32| {
            let pairs = wanted.clone().zip(&logged.pmf).filter(|(_, p)| **p > 0.0);
            pairs.map(|(wanted, p)| wanted.powi(exponent) / p.powi(exponent - 1)).sum()
        };
        let value = wanted.clone().nth(logged.taken).unwrap_or_default() / logged.propensity;
        Self { value, square: power(2), fourth: power(4), unit: logged.context.weights.e1 }
    }

    /// A weight that could not have been another.
    pub fn certain(value: f64, logged: &Checked<'_>) -> Self {
        Self { value, square: value.powi(2), fourth: value.powi(4), unit: logged.context.weights.e1 }
    }

    /// What the second and fourth powers of w y are on average, for y of this mean square.
    pub fn powers(&self, square: f64) -> (f64, f64) {
        (square * self.square, square * square * self.fourth)
    }
}

/// The mean square of what weights are applied to, over the rounds so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MeanSquare {
    n: f64,
    sum: f64,
}

impl MeanSquare {
    /// Rounds that a score of one half off counts for before there are any.
    const MASS: f64 = 4.0;

    pub fn expected(&self, unit: f64) -> f64 {
        (self.sum + Self::MASS * 0.25 * unit * unit) / (self.n + Self::MASS)
    }

    pub fn add(&mut self, value: f64) {
        self.n += 1.0;
        self.sum += value * value;
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
            interval: None,
            interval_kind: None,
            rounds: self.used,
            effective_rounds: if self.squares > 0.0 { self.sum * self.sum / self.squares } else { 0.0 },
            weight_max: self.max,
            warning: None,
        }
    }
}

/// A plain mean of terms x that were made with weights; its variance is the sample variance of x over n.
#[derive(Debug, Clone, Default)]
pub(super) struct Mean {
    weights: Weights,
    sum: f64,
    squares: f64,
    sequence: ConfidenceSequence,
}

impl Mean {
    /// Adds a term, a weighed value of this expected square and something known before.
    pub fn add(&mut self, weight: &Weight, term: f64, expected: f64) {
        self.weights.add(weight.value);
        self.sum += term;
        self.squares += term * term;
        let (square, fourth) = weight.powers(expected);
        self.sequence.add_expecting(term, square, fourth);
    }

    pub fn rounds(&self) -> u64 {
        self.weights.rounds
    }

    pub fn estimate(&self, alpha: f64) -> Estimate {
        let n = self.weights.rounds as f64;
        let value = (n > 0.0).then(|| self.sum / n);
        let variance = (n > 1.0).then(|| (self.squares - self.sum * self.sum / n) / (n - 1.0) / n);
        self.weights.estimate(value, variance).with(self.sequence.interval(alpha), IntervalKind::Asymptotic)
    }
}

/// The mean of w r, for weights whose mean is 1. While every reward was known beforehand to be from 0 to 1 its interval is
/// the exact one.
#[derive(Debug, Clone)]
pub(super) struct RewardMean {
    mean: Mean,
    rewards: MeanSquare,
    exact: Option<EmpiricalBernstein>,
}

impl Default for RewardMean {
    fn default() -> Self {
        Self { mean: Mean::default(), rewards: MeanSquare::default(), exact: Some(EmpiricalBernstein::default()) }
    }
}

impl RewardMean {
    pub fn add(&mut self, weight: &Weight, reward: f64, bounded: bool) {
        self.mean.add(weight, weight.value * reward, self.rewards.expected(weight.unit));
        self.rewards.add(reward);
        match &mut self.exact {
            Some(exact) if bounded => exact.add(weight.value, reward),
            _ => self.exact = None,
        }
    }

    pub fn rounds(&self) -> u64 {
        self.mean.rounds()
    }

    pub fn estimate(&self, alpha: f64) -> Estimate {
        let estimate = self.mean.estimate(alpha);
        match &self.exact {
            Some(exact) => estimate.with(exact.interval(alpha), IntervalKind::EmpiricalBernstein),
            None => estimate,
        }
    }
}

/// v = sum w r / sum w over the n rounds of weight above 0. Its variance, by the delta method, is
/// n / (n - 1) * sum w^2 (r - v)^2 / (sum w)^2. Its confidence sequence is that of the terms w (r - v before the round), over
/// the mean weight: what v is off by, to first order.
#[derive(Debug, Clone, Default)]
pub(super) struct WeightedMean {
    weights: Weights,
    rewards: f64,
    square_rewards: f64,
    square_square_rewards: f64,
    deviations: ConfidenceSequence,
    unweighed: MeanSquare,
}

impl WeightedMean {
    pub fn add(&mut self, weight: &Weight, reward: f64) {
        let before = if self.weights.sum > 0.0 { self.rewards / self.weights.sum } else { reward };
        let (square, fourth) = weight.powers(self.unweighed.expected(weight.unit));
        self.deviations.add_expecting(weight.value * (reward - before), square, fourth);
        self.unweighed.add(reward - before);
        let weight = weight.value;
        self.weights.add(weight);
        self.rewards += weight * reward;
        self.square_rewards += weight * weight * reward;
        self.square_square_rewards += weight * weight * reward * reward;
    }

    pub fn estimate(&self, alpha: f64) -> Estimate {
        let Weights { sum, squares, used, rounds, .. } = self.weights;
        let value = (sum > 0.0).then(|| self.rewards / sum);
        let variance = value.filter(|_| used > 1).map(|v| {
            let deviations = self.square_square_rewards - 2.0 * v * self.square_rewards + v * v * squares;
            used as f64 / (used as f64 - 1.0) * deviations / (sum * sum)
        });
        let interval = value.zip(self.deviations.interval(alpha)).map(|(v, deviations)| {
            let half = deviations.width() / 2.0 * rounds as f64 / sum;
            Interval { low: v - half, high: v + half }
        });
        self.weights.estimate(value, variance).with(interval, IntervalKind::Asymptotic)
    }
}
