//! What each arm of a domain brought, and what is to be believed of its mean reward.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::Lived;
use crate::round::ArmId;

/// What an interval leaves out.
const ALPHA: f64 = 0.05;
/// Rounds that the prior's mean counts for.
const MASS: f64 = 1.0;
/// The prior of the variance: degrees of freedom, and the most that a reward between 0 and 1 can vary.
const FREEDOM: f64 = 2.0;
const VARIANCE: f64 = 0.25;

/// What is known of a mean reward: with a probability of 0.95 it is between both ends.
///
/// The reward of an arm is taken as normal with unknown mean and variance, with the conjugate prior: mean the domain's mean
/// reward m, worth one round, and variance 1/4 with two degrees of freedom. After n rewards with mean x and sum of squared
/// distances from it s, the mean is (m + n x) / (n + 1), and the interval that mean -+ t sqrt(v / (n + 1)), with
/// v = (2/4 + s + n (x - m)^2 / (n + 1)) / (n + 2) and t the 97.5th percentile of Student's distribution with n + 2 degrees of
/// freedom. It describes rewards of arms that the policy picked, on the tasks for which it picked them: it is not what
/// the arm would bring on all tasks, which is what regret is estimated by.
///
/// Reference: Murphy, Conjugate Bayesian analysis of the Gaussian distribution, 2007, section 3 and 4.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Posterior {
    /// Its mean.
    pub mean: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Sums of one arm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u64, f64, f64, f64, f64)", into = "(u64, f64, f64, f64, f64)")]
pub struct ArmRecord {
    /// Rounds.
    pub rounds: u64,
    /// The mean reward.
    pub reward_mean: f64,
    /// The sum of squared distances of rewards from it.
    pub reward_squares: f64,
    /// Scores.
    pub score: f64,
    /// Dollars.
    pub cost_usd: f64,
}

/// The arms of a domain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Arms {
    reward: f64,
    rounds: u64,
    records: BTreeMap<ArmId, ArmRecord>,
}

type Row = (u64, f64, f64, f64, f64);

impl From<Row> for ArmRecord {
    fn from((rounds, reward_mean, reward_squares, score, cost_usd): Row) -> Self {
        Self { rounds, reward_mean, reward_squares, score, cost_usd }
    }
}

impl From<ArmRecord> for Row {
    fn from(record: ArmRecord) -> Self {
        let ArmRecord { rounds, reward_mean, reward_squares, score, cost_usd } = record;
        (rounds, reward_mean, reward_squares, score, cost_usd)
    }
}

impl ArmRecord {
    fn add(&mut self, lived: &Lived<'_>) {
        self.rounds += 1;
        // Welford's update.
        let apart = lived.reward - self.reward_mean;
        self.reward_mean += apart / self.rounds as f64;
        self.reward_squares += apart * (lived.reward - self.reward_mean);
        self.score += lived.score;
        self.cost_usd += lived.cost_usd;
    }

    /// Dollars a round.
    pub fn cost_mean_usd(&self) -> Option<f64> {
        (self.rounds > 0).then(|| self.cost_usd / self.rounds as f64)
    }

    /// What is to be believed of its mean reward, where those of all arms have this mean.
    pub fn posterior(&self, prior: f64) -> Posterior {
        let n = self.rounds as f64;
        let mean = (MASS * prior + n * self.reward_mean) / (MASS + n);
        let apart = self.reward_mean - prior;
        let squares = FREEDOM * VARIANCE + self.reward_squares + MASS * n * apart * apart / (MASS + n);
        let freedom = FREEDOM + n;
        let t = StudentsT::new(0.0, 1.0, freedom).map_or(1.96, |student| student.inverse_cdf(1.0 - ALPHA / 2.0));
        let half = t * (squares / freedom / (MASS + n)).sqrt();
        Posterior { mean, low: mean - half, high: mean + half }
    }
}

impl Arms {
    pub(super) fn add(&mut self, lived: &Lived<'_>) {
        self.rounds += 1;
        self.reward += lived.reward;
        self.records.entry(lived.arm.clone()).or_default().add(lived);
    }

    /// The domain's mean reward; nothing without rounds.
    pub fn reward_mean(&self) -> Option<f64> {
        (self.rounds > 0).then(|| self.reward / self.rounds as f64)
    }

    /// The arms that were ever taken.
    pub fn records(&self) -> impl Iterator<Item = (&ArmId, &ArmRecord)> {
        self.records.iter()
    }

    /// One arm's.
    pub fn record(&self, arm: &ArmId) -> Option<&ArmRecord> {
        self.records.get(arm)
    }
}
