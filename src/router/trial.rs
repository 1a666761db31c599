//! What a policy on trial would have brought.

use serde::{Deserialize, Serialize};

use crate::{
    journal::Decided,
    regret::{ALPHA, ConfidenceSequence, Interval},
    round::{Channel, Feedback},
};

/// What a policy on trial would have brought, by the rounds that the champion decided while it looked on.
///
/// The estimate is self-normalised importance sampling: sum w r / sum w with w = the shadow's probability of what was
/// taken / its propensity. `effective_rounds` = (sum w)^2 / sum w^2: with few of them the estimate says little.
///
/// Reference: Swaminathan and Joachims, The Self-Normalized Estimator for Counterfactual Learning, 2015.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub struct TrialReport {
    /// Verified rounds seen.
    pub rounds: u64,
    /// The champion's mean reward over them.
    pub champion_reward: Option<f64>,
    /// The shadow's, estimated.
    pub shadow_reward: Option<f64>,
    /// How many rounds the estimate is worth.
    pub effective_rounds: f64,
    /// What the shadow brings more a round than the champion; null while too little is known.
    pub difference: Option<Difference>,
}

/// A difference of mean rewards with an interval that holds at every round at once with probability 0.95.
///
/// It is the mean of r (w - 1), w as above without normalising, with the asymptotic confidence sequence of `GET /v1/regret`.
/// How far w is from 1 follows from both policies' probabilities before anything is drawn, and the interval counts with
/// the larger of that and of what was seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = TrialDifference)]
pub struct Difference {
    /// The estimate.
    pub mean: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The sums behind it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Trial {
    rounds: u64,
    reward_sum: f64,
    weight_sum: f64,
    weight_squares: f64,
    weighted_reward_sum: f64,
    /// Absent in states of before there was one.
    #[serde(default)]
    difference: ConfidenceSequence,
}

impl Trial {
    /// Adds a verified round; one that this shadow did not look on at changes nothing.
    pub fn learn(&mut self, card: &str, policy: &str, decided: &Decided, feedback: &Feedback) {
        let decision = &decided.decision;
        let Some((view, reward)) = decision.shadow.as_ref().zip(feedback.reward) else { return };
        let taken = decision.pmf.iter().position(|entry| entry.mode == decision.mode && entry.arm == decision.arm);
        let p = taken.and_then(|place| view.pmf.get(place)).copied();
        let ours = view.policy.card == card && view.policy.name == policy;
        let (Some(p), true, Channel::Verified) = (p, ours, feedback.source.channel()) else { return };
        let weight = p / decision.propensity.get();
        self.rounds += 1;
        self.reward_sum += reward;
        self.weight_sum += weight;
        self.weight_squares += weight * weight;
        self.weighted_reward_sum += weight * reward;
        let apart = decision.pmf.iter().zip(&view.pmf).filter(|(entry, _)| entry.p > 0.0);
        let (squares, fourths) = apart.fold((0.0, 0.0), |(squares, fourths), (entry, q)| {
            let square = (q / entry.p - 1.0).powi(2);
            (squares + entry.p * square, fourths + entry.p * square * square)
        });
        self.difference.add_expecting(reward * (weight - 1.0), squares, fourths);
    }

    fn difference(&self) -> Option<Difference> {
        let Interval { low, high } = self.difference.interval(ALPHA)?;
        Some(Difference { mean: self.difference.mean()?, low, high })
    }

    pub fn report(&self) -> TrialReport {
        let judged = self.weight_sum > 0.0;
        TrialReport {
            rounds: self.rounds,
            champion_reward: (self.rounds > 0).then(|| self.reward_sum / self.rounds as f64),
            shadow_reward: judged.then(|| self.weighted_reward_sum / self.weight_sum),
            difference: self.difference(),
            effective_rounds: if judged { self.weight_sum * self.weight_sum / self.weight_squares } else { 0.0 },
        }
    }
}
