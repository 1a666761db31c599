//! LinUCB with disjoint models: one ridge regression per arm, the arm of the highest upper confidence bound.
//!
//! A text dimension costs exploration, hence the short vectors of `features`.

use serde::Deserialize;

use super::{
    Opinion, Policy, PolicyError, card::Checks, features::FeatureSettings, learns_with::learns_with, linear::Linear,
};
use crate::{action::explore::optimistic, round::Context};

/// Disjoint LinUCB.
///
/// A_a = l2 I + sum x x^T, b_a = sum (y - g) x, theta_a = A_a^-1 b_a;
/// score = g + theta_a . x + alpha sqrt(x^T A_a^-1 x). g is the prior mean: ridge shrinks toward it, not toward 0.
///
/// Reference: Li, Chu, Langford and Schapire, A Contextual-Bandit Approach to Personalized News Article
/// Recommendation, 2010, algorithm 1.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, LinUcb, Policy, PolicySettings};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let settings = PolicySettings::default();
/// let mut policy = LinUcb::new(settings.lin_ucb, settings.features, 0.02);
/// for round in 0..40 {
///     let place = round % 2;
///     policy.learn(&LearntRound::new(&context, place, place as f64));
/// }
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.01, 0.99]);
/// ```
#[derive(Debug, Clone)]
pub struct LinUcb {
    settings: LinUcbSettings,
    floor: f64,
    linear: Linear,
}

/// Settings of [`LinUcb`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinUcbSettings {
    /// Width of the confidence bound, at least 0.
    pub alpha: f64,
    /// Ridge, above 0.
    pub l2: f64,
    /// g: the score expected of an arm never tried, in [0, 1].
    pub prior_mean: f64,
}

impl LinUcbSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("alpha", self.alpha, 0.0, 100.0);
        checks.ridge(self.l2, self.prior_mean);
    }
}

impl LinUcb {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: LinUcbSettings, features: FeatureSettings, floor: f64) -> Self {
        Self { settings, floor, linear: Linear::new(features, settings.l2, settings.prior_mean) }
    }
}

impl Policy for LinUcb {
    fn name(&self) -> &'static str {
        "lin_ucb"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        let estimates = self.linear.estimates(context, self.settings.alpha);
        estimates.explore(self.name(), |means, widths| optimistic(means, widths, self.floor))
    }

    learns_with!(linear);
}
