//! The reward that a doubly robust estimate expects: m(x, a) = e1 * s(domain, a) + e2 * cost_usd(x, a).
//!
//! s is the mean verified score of the action in the domain over the rounds before this one, shrunk first to its mean
//! everywhere and that to one half; e1 and e2 are the round's weights, and the cost is what the candidate was expected
//! to cost. Using only the rounds before keeps the estimate unbiased whatever m is.

use crate::{
    action::policy::{LearntRound, Standings},
    round::Context,
};

/// The score expected of an action never tried.
const UNKNOWN_MEAN: f64 = 0.5;
/// Rounds that this counts for.
const EVERYWHERE_MASS: f64 = 4.0;
/// Rounds that an action's mean everywhere counts for in a domain.
const DOMAIN_MASS: f64 = 6.0;

#[derive(Debug, Clone, Default)]
pub(super) struct RewardModel {
    standings: Standings,
}

impl RewardModel {
    /// The expected reward of each candidate.
    pub fn rewards(&self, context: &Context) -> Vec<f64> {
        let expected = |candidate: &crate::round::Candidate| {
            let action = (candidate.mode, candidate.arm.clone());
            let everywhere = self.standings.total(&action).shrunk_mean(UNKNOWN_MEAN, EVERYWHERE_MASS);
            let score = self.standings.cell(&context.domain, &action).shrunk_mean(everywhere, DOMAIN_MASS);
            context.weights.reward(score, candidate.cost_usd)
        };
        context.candidates.iter().map(expected).collect()
    }

    pub fn learn(&mut self, round: &LearntRound<'_>) {
        self.standings.learn(round);
    }
}
