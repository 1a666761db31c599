//! SquareCB: probabilities inversely proportional to how far an arm is behind the best, on the linear model.
//!
//! It turns any regression into a bandit with a regret bound and needs no width, so it also works where widths are
//! wrong. It never stops trying what looks nearly as good, and learns nothing from an arm being unknown.

use serde::Deserialize;

use super::{
    Opinion, Policy, PolicyError, card::Checks, features::FeatureSettings, learns_with::learns_with, linear::Linear,
};
use crate::{
    action::explore::{square_cb, with_floor},
    round::Context,
};

/// SquareCB on disjoint ridge regressions.
///
/// p_a = 1 / (K + gamma_t (best - mean_a)) for all but the best arm, which gets the rest; gamma_t = gamma_scale
/// t^gamma_exponent, t the rounds learnt. The gap is in utilities. The regression is [`LinUcb`](super::LinUcb)'s.
///
/// Reference: Foster and Rakhlin, Beyond UCB: Optimal and Efficient Contextual Bandits with Regression Oracles, 2020.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, SquareCb};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let settings = PolicySettings::default();
/// let mut policy = SquareCb::new(settings.square_cb, settings.features, 0.0);
/// for round in 0..400 {
///     let place = round % 2;
///     policy.learn(&LearntRound::new(&context, place, place as f64));
/// }
/// let pmf = policy.decide(&context, 1).unwrap().pmf;
/// // gamma = 10 * sqrt(400) = 200, the gap is nearly 1.
/// assert!((pmf[0] - 1.0 / 202.0).abs() < 1e-3);
/// ```
#[derive(Debug, Clone)]
pub struct SquareCb {
    settings: SquareCbSettings,
    floor: f64,
    linear: Linear,
}

/// Settings of [`SquareCb`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SquareCbSettings {
    /// gamma of the first round, at least 0; 0 is uniform.
    pub gamma_scale: f64,
    /// How fast gamma grows, in [0, 1].
    pub gamma_exponent: f64,
    /// Ridge, above 0.
    pub l2: f64,
    /// g: the score expected of an arm never tried, in [0, 1].
    pub prior_mean: f64,
}

impl SquareCbSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("gamma_scale", self.gamma_scale, 0.0, 1e6);
        checks.number("gamma_exponent", self.gamma_exponent, 0.0, 1.0);
        checks.ridge(self.l2, self.prior_mean);
    }

    /// gamma_t after `rounds` learnt rounds.
    pub(super) fn gamma(&self, rounds: u64) -> f64 {
        self.gamma_scale * (rounds as f64).powf(self.gamma_exponent)
    }
}

impl SquareCb {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: SquareCbSettings, features: FeatureSettings, floor: f64) -> Self {
        Self { settings, floor, linear: Linear::new(features, settings.l2, settings.prior_mean) }
    }
}

impl Policy for SquareCb {
    fn name(&self) -> &'static str {
        "square_cb"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        let gamma = self.settings.gamma(self.linear.rounds());
        let estimates = self.linear.estimates(context, 0.0);
        estimates.explore(self.name(), |means, _| with_floor(square_cb(means, gamma)?, self.floor))
    }

    learns_with!(linear);
}
