//! UCB1 per domain: the arm of the highest upper confidence bound on its mean.
//!
//! Deterministic but for the floor, so it explores by plan: every arm again and again, the worse the more seldom. A new
//! domain does not start over, since rounds elsewhere count for some here. Its bound holds for any scores in
//! [0, 1], which is wide for most: `width` narrows it.

use serde::Deserialize;

use super::{
    Estimates, Opinion, Policy, PolicyError, ShrinkageSettings, Standings, card::Checks, learns_with::learns_with,
    shrinkage::Shrunk,
};
use crate::{action::explore::optimistic, round::Context};

/// UCB1 on counts that are shrunk toward the arm's totals.
///
/// index_a = mean_ad + width sqrt(2 ln(1 + t) / n~_ad), t = sum_a n~_ad; mean_ad and n~_ad = n_ad + 1 / (1 / m +
/// 1 / (n_a + M)) are those of [`ShrinkageSettings`]. In the paper an arm never tried has an infinite index, so that
/// each is tried once. Here n~ of such an arm is 1 / (1 / m + 1 / M), not 0: its index is finite, the largest that its
/// prior mean allows, and it goes first unless another arm's mean is out of reach. As M goes to 0 it is the paper's.
/// With forgetting the counts fall and the widths grow again (discounted UCB).
///
/// References: Auer, Cesa-Bianchi and Fischer, Finite-time Analysis of the Multiarmed Bandit Problem, 2002; Garivier and
/// Moulines, On Upper-Confidence Bound Policies for Switching Bandit Problems, 2011.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, Ucb1};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let settings = PolicySettings::default();
/// let mut policy = Ucb1::new(settings.ucb1, settings.shrinkage, 0.02);
/// for round in 0..40 {
///     let place = round % 2;
///     policy.learn(&LearntRound::new(&context, place, place as f64));
/// }
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.01, 0.99]);
/// ```
#[derive(Debug, Clone)]
pub struct Ucb1 {
    settings: Ucb1Settings,
    shrinkage: ShrinkageSettings,
    floor: f64,
    standings: Standings,
}

/// Settings of [`Ucb1`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ucb1Settings {
    /// Width of the confidence bound, at least 0; 1 is the paper's.
    pub width: f64,
}

impl Ucb1Settings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("width", self.width, 0.0, 100.0);
    }
}

impl Ucb1 {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: Ucb1Settings, shrinkage: ShrinkageSettings, floor: f64) -> Self {
        Self { settings, shrinkage, floor, standings: Standings::default() }
    }
}

impl Policy for Ucb1 {
    fn name(&self) -> &'static str {
        "ucb1"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        let shrunk = |candidate| self.shrinkage.shrunk(&self.standings, &context.domain, candidate);
        let arms: Vec<Shrunk> = context.candidates.iter().map(shrunk).collect();
        let rounds: f64 = arms.iter().map(|arm| arm.rounds).sum();
        let width = self.settings.width * (2.0 * (1.0 + rounds).ln()).sqrt();
        let estimates = Estimates::of_scores(context, arms.iter().map(|arm| (arm.mean, width / arm.rounds.sqrt())));
        estimates.explore(self.name(), |means, widths| optimistic(means, widths, self.floor))
    }

    learns_with!(standings);
}

#[cfg(test)]
mod tests {
    use super::{
        super::{LearntRound, PolicySettings, environment::context},
        *,
    };

    #[test]
    fn every_arm_is_tried_before_one_that_always_fails_is_tried_again() {
        let PolicySettings { ucb1, shrinkage, .. } = PolicySettings::default();
        let mut policy = Ucb1::new(ucb1, shrinkage, 0.0);
        let context = context(4);
        let mut tried = Vec::new();
        for _ in 0..4 {
            let pmf = policy.decide(&context, 1).unwrap().pmf;
            let place = pmf.iter().position(|p| *p > 0.0).unwrap();
            tried.push(place);
            policy.learn(&LearntRound::new(&context, place, 0.0));
        }
        assert_eq!(tried, [0, 1, 2, 3]);
    }

    #[test]
    fn with_hardly_any_prior_the_index_is_the_papers() {
        let shrinkage = ShrinkageSettings { prior_mean: 0.5, arm_mass: 1e-9, domain_mass: 1e-9 };
        let mut policy = Ucb1::new(Ucb1Settings { width: 1.0 }, shrinkage, 0.0);
        let context = context(2);
        // Arm 0 gets 6 of 10, arm 1 gets 1 of 2: .6 + sqrt(2 ln 13 / 10) = 1.316 < .5 + sqrt(2 ln 13 / 2) = 2.102.
        for round in 0..10_u8 {
            policy.learn(&LearntRound::new(&context, 0, f64::from(u8::from(round < 6))));
        }
        for score in [0.0, 1.0] {
            policy.learn(&LearntRound::new(&context, 1, score));
        }
        assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.0, 1.0]);
        // After 20 more at .6 it is .6 + sqrt(2 ln 133 / 130) = .874 against .5 + sqrt(2 ln 133 / 2) = 2.711.
        for round in 0..120 {
            policy.learn(&LearntRound::new(&context, 1, f64::from(round % 2)));
        }
        assert_eq!(policy.decide(&context, 1).unwrap().pmf, [1.0, 0.0]);
    }
}
