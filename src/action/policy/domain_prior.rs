//! Domain prior: each arm's mean per domain, shrunk toward the arm's mean everywhere, explored by Thompson sampling.
//!
//! ACRouter's DimensionBest (the best arm per domain) learnt online instead of from a probing set. Shrinking lets a
//! new domain start from what its arms did elsewhere. It cannot tell two tasks of one domain apart.

use serde::Deserialize;

use super::{
    Estimates, Opinion, Policy, PolicyError, ShrinkageSettings, Standings,
    card::{Checks, LARGE, TINY},
    learns_with::learns_with,
};
use crate::{
    action::explore::{gaussian_draws, with_floor},
    round::{Candidate, Context},
};

/// Hierarchical Thompson sampling with normal posteriors.
///
/// global_a = (sum_a + M g) / (n_a + M); mean_ad = (sum_ad + m global_a) / (n_ad + m);
/// score ~ N(mean_ad, scale^2 * noise / (n_ad + m)).
///
/// Reference: Hong et al., Hierarchical Bayesian Bandits, 2022; the shrinkage is the normal model's posterior mean with
/// n_a in place of the exact hierarchical weights, which is what makes it two divisions.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{DomainPrior, LearntRound, Policy, PolicySettings};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let mut policy = DomainPrior::new(PolicySettings::default().domain_prior, 0.02);
/// for round in 0..40 {
///     let place = round % 2;
///     policy.learn(&LearntRound::new(&context, place, place as f64));
/// }
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.01, 0.99]);
/// ```
#[derive(Debug, Clone)]
pub struct DomainPrior {
    settings: DomainPriorSettings,
    floor: f64,
    standings: Standings,
}

/// Settings of [`DomainPrior`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainPriorSettings {
    /// g: the score expected of an arm never tried, in [0, 1].
    pub prior_mean: f64,
    /// M: rounds that the expectation counts for, above 0.
    pub arm_mass: f64,
    /// m: rounds that an arm's mean everywhere counts for in a domain, above 0; 4 to 10 work.
    pub domain_mass: f64,
    /// Variance of one round's score around its mean, above 0.
    pub noise: f64,
    /// Exploration: 1 is Thompson sampling, 0 greedy.
    pub scale: f64,
    /// Posterior draws counted per decision, 1 to 4096.
    pub draws: u32,
}

impl DomainPriorSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("prior_mean", self.prior_mean, 0.0, 1.0);
        checks.number("arm_mass", self.arm_mass, TINY, LARGE);
        checks.number("domain_mass", self.domain_mass, TINY, LARGE);
        checks.number("noise", self.noise, TINY, LARGE);
        checks.number("scale", self.scale, 0.0, 100.0);
        checks.number("draws", self.draws.into(), 1.0, 4096.0);
    }
}

impl DomainPrior {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: DomainPriorSettings, floor: f64) -> Self {
        Self { settings, floor, standings: Standings::default() }
    }

    /// The mean and the standard deviation of one candidate's score.
    fn posterior(&self, context: &Context, candidate: &Candidate) -> (f64, f64) {
        let DomainPriorSettings { prior_mean, arm_mass, domain_mass, noise, scale, .. } = self.settings;
        let shrinkage = ShrinkageSettings { prior_mean, arm_mass, domain_mass };
        let expected = shrinkage.shrunk(&self.standings, &context.domain, candidate);
        (expected.mean, scale * (noise / (expected.here.n + domain_mass)).sqrt())
    }
}

impl Policy for DomainPrior {
    fn name(&self) -> &'static str {
        "domain_prior"
    }

    fn decide(&self, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        let estimates = Estimates::of(context, |candidate| self.posterior(context, candidate));
        estimates.explore(self.name(), |means, deviations| {
            with_floor(gaussian_draws(means, deviations, self.settings.draws, seed)?, self.floor)
        })
    }

    learns_with!(standings);
}
