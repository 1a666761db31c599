//! Linear Thompson sampling with disjoint models: one Bayesian regression per arm, drawn from.
//!
//! For one task only each arm's score matters, not its whole coefficient vector: if theta ~ N(theta_a, v^2 A_a^-1), then
//! theta . x ~ N(theta_a . x, v^2 x^T A_a^-1 x), independently across arms since each has a model of its own. So the
//! counted draws are of one number per arm, exactly distributed, and need no Cholesky factor and no vector per draw.

use serde::Deserialize;

use super::{
    Opinion, Policy, PolicyError, card::Checks, features::FeatureSettings, learns_with::learns_with, linear::Linear,
};
use crate::{
    action::explore::{gaussian_draws, with_floor},
    round::Context,
};

/// Linear Thompson sampling.
///
/// A_a and theta_a as in [`LinUcb`](super::LinUcb); score ~ N(g + theta_a . x, v^2 x^T A_a^-1 x). The paper's v =
/// R sqrt(9 d ln(t / delta)) is for the proof; about the noise's standard deviation works (.2 to .5). The paper has one
/// theta for all arms; here each arm has its own, as in its experiments by Chapelle and Li (2011).
///
/// Reference: Agrawal and Goyal, Thompson Sampling for Contextual Bandits with Linear Payoffs, 2013.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, LinThompson};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let settings = PolicySettings::default();
/// let mut policy = LinThompson::new(settings.lin_thompson, settings.features, 0.02);
/// for round in 0..40 {
///     let place = round % 2;
///     policy.learn(&LearntRound::new(&context, place, place as f64));
/// }
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.01, 0.99]);
/// ```
#[derive(Debug, Clone)]
pub struct LinThompson {
    settings: LinThompsonSettings,
    floor: f64,
    linear: Linear,
}

/// Settings of [`LinThompson`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinThompsonSettings {
    /// Width of the posterior, at least 0.
    pub v: f64,
    /// Ridge, above 0.
    pub l2: f64,
    /// g: the score expected of an arm never tried, in [0, 1].
    pub prior_mean: f64,
    /// Posterior draws counted per decision, 1 to 4096.
    pub draws: u32,
}

impl LinThompsonSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("v", self.v, 0.0, 100.0);
        checks.ridge(self.l2, self.prior_mean);
        checks.number("draws", self.draws.into(), 1.0, 4096.0);
    }
}

impl LinThompson {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: LinThompsonSettings, features: FeatureSettings, floor: f64) -> Self {
        Self { settings, floor, linear: Linear::new(features, settings.l2, settings.prior_mean) }
    }
}

impl Policy for LinThompson {
    fn name(&self) -> &'static str {
        "lin_thompson"
    }

    fn decide(&self, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        let estimates = self.linear.estimates(context, self.settings.v);
        estimates.explore(self.name(), |means, deviations| {
            with_floor(gaussian_draws(means, deviations, self.settings.draws, seed)?, self.floor)
        })
    }

    learns_with!(linear);
}
