//! What a policy on trial would have brought.

use serde::{Deserialize, Serialize};

use crate::{
    journal::Decided,
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
}

/// The sums behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Trial {
    rounds: u64,
    reward_sum: f64,
    weight_sum: f64,
    weight_squares: f64,
    weighted_reward_sum: f64,
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
    }

    pub fn report(&self) -> TrialReport {
        let judged = self.weight_sum > 0.0;
        TrialReport {
            rounds: self.rounds,
            champion_reward: (self.rounds > 0).then(|| self.reward_sum / self.rounds as f64),
            shadow_reward: judged.then(|| self.weighted_reward_sum / self.weight_sum),
            effective_rounds: if judged { self.weight_sum * self.weight_sum / self.weight_squares } else { 0.0 },
        }
    }
}
