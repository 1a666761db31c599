//! Hybrid UCB: the joint model of `hybrid_linear`, explored by upper confidence bounds.
//!
//! The model and its settings are those of [`HybridLinear`]; only what is done with its posterior differs, so the two
//! always agree on what is expected. Optimism looks at each arm's own width, not at how the arms' errors go together.

use serde::Deserialize;

use super::{
    Estimates, HybridLinear, HybridLinearSettings, Opinion, Policy, PolicyError, card::Checks, learns_with::learns_with,
};
use crate::{action::explore::optimistic, round::Context};

/// LinUCB on the mixed-effects model of [`HybridLinear`].
///
/// bound_a = mean_a + alpha sqrt(var_a), mean and variance being the posterior's of alpha_a + gamma_ad. The domain's
/// effect is the same for all arms and is left out of both: it cannot change which is best, and its
/// uncertainty would only blur the arms' own.
///
/// Reference: Li, Chu, Langford and Schapire, A Contextual-Bandit Approach to Personalized News Article
/// Recommendation, 2010, algorithm 2 (LinUCB with hybrid linear models).
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, HybridUcb};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let settings = PolicySettings::default();
/// let mut policy = HybridUcb::new(settings.hybrid_ucb, settings.hybrid_linear, 0.02);
/// for round in 0..40 {
///     let place = round % 2;
///     policy.learn(&LearntRound::new(&context, place, place as f64));
/// }
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.01, 0.99]);
/// ```
#[derive(Debug, Clone)]
pub struct HybridUcb {
    settings: HybridUcbSettings,
    floor: f64,
    model: HybridLinear,
}

/// Settings of [`HybridUcb`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HybridUcbSettings {
    /// Width of the confidence bound, at least 0.
    pub alpha: f64,
}

impl HybridUcbSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("alpha", self.alpha, 0.0, 100.0);
    }
}

impl HybridUcb {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: HybridUcbSettings, model: HybridLinearSettings, floor: f64) -> Self {
        Self { settings, floor, model: HybridLinear::new(model, 0.0) }
    }
}

impl Policy for HybridUcb {
    fn name(&self) -> &'static str {
        "hybrid_ucb"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        if context.candidates.is_empty() {
            return Err(PolicyError::NoCandidate);
        }
        let posterior = self.model.posterior(&context.domain, &context.candidates);
        let posterior = posterior.ok_or(PolicyError::NotFinite { policy: self.name(), what: "posterior" })?;
        let width = |variance: &f64| self.settings.alpha * variance.sqrt();
        let bounds = posterior
            .mean
            .iter()
            .zip(posterior.covariance.diag())
            .map(|(mean, var)| (posterior.common + mean, width(var)));
        let estimates = Estimates::of_scores(context, bounds);
        estimates.explore(self.name(), |means, widths| optimistic(means, widths, self.floor))
    }

    learns_with!(model);
}
