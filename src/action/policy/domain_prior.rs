//! Domain prior: each arm's mean per domain, shrunk toward the arm's mean everywhere, explored by Thompson sampling.
//!
//! ACRouter's DimensionBest (the best arm per domain) learnt online instead of from a probing set. Shrinking lets a
//! new domain start from what its arms did elsewhere. It cannot tell two tasks of one domain apart.
//!
//! A probing set (what arms scored before) can be what it starts from. Such priors mislead where new work differs, so
//! each cell counts for few rounds, whatever was probed: a warm start that is wrong is unlearnt in as many.

use std::{path::PathBuf, sync::Arc};

use serde::Deserialize;

use super::{
    Estimates, Opinion, Policy, PolicyError, ProbingSet, ShrinkageSettings, Standings,
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
#[derive(Debug, Clone, PartialEq, Deserialize)]
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
    /// The probing set's file, as `pointsman train priors` writes it; relative to the card's folder.
    pub probing: Option<PathBuf>,
    /// Rounds that all that was probed of an arm in a domain counts for at most, above 0.
    pub probing_mass: f64,
    /// What the file holds, once read.
    #[serde(skip)]
    pub probed: Option<Arc<ProbingSet>>,
}

impl DomainPriorSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("prior_mean", self.prior_mean, 0.0, 1.0);
        checks.number("arm_mass", self.arm_mass, TINY, LARGE);
        checks.number("domain_mass", self.domain_mass, TINY, LARGE);
        checks.number("noise", self.noise, TINY, LARGE);
        checks.number("scale", self.scale, 0.0, 100.0);
        checks.number("draws", self.draws.into(), 1.0, 4096.0);
        checks.number("probing_mass", self.probing_mass, TINY, LARGE);
    }
}

impl DomainPrior {
    /// Without any rounds learnt but the probing set's. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: DomainPriorSettings, floor: f64) -> Self {
        let probed = settings.probed.as_ref().map(|set| set.standings(settings.probing_mass));
        Self { settings, floor, standings: probed.unwrap_or_default() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        action::policy::{LearntRound, PolicySettings, ProbingCell, environment::context},
        round::{Domain, Mode},
    };

    /// A hundred rounds of each of two arms; the first looked good.
    fn probed(mass: f64) -> DomainPriorSettings {
        let cell = |(place, mean_score)| {
            let action = (Mode::Single, context(2).candidates[place as usize].arm.clone());
            ProbingCell { domain: Domain::unknown(), action, rounds: 100, mean_score }
        };
        let cells = [(0, 0.9), (1, 0.2)].map(cell).to_vec();
        let set = ProbingSet { trained_on: "made up".into(), trained_at_ms: 0, cells, left_out: vec![] };
        let probed = Some(Arc::new(set));
        DomainPriorSettings { probed, probing_mass: mass, ..PolicySettings::default().domain_prior }
    }

    fn first(policy: &DomainPrior) -> f64 {
        policy.decide(&context(2), 3).unwrap().pmf[0]
    }

    #[test]
    fn a_probing_set_decides_the_first_rounds_and_is_unlearnt() {
        let mut cold = DomainPrior::new(PolicySettings::default().domain_prior, 0.0);
        let mut warm = DomainPrior::new(probed(20.0), 0.0);
        assert!((0.3..0.7).contains(&first(&cold)) && first(&warm) > 0.95);
        // The world is the other way round: within twice the mass the prior no longer decides.
        for round in 0..80 {
            let place = round % 2;
            for policy in [&mut cold, &mut warm] {
                policy.learn(&LearntRound::new(&context(2), place, [0.2, 0.9][place]));
            }
        }
        assert!(first(&cold) < 0.05 && first(&warm) < 0.2, "{} {}", first(&cold), first(&warm));
    }

    #[test]
    fn a_warm_state_comes_back_without_its_probing_set() {
        let warm = DomainPrior::new(probed(20.0), 0.0);
        let mut again = DomainPrior::new(PolicySettings::default().domain_prior, 0.0);
        again.restore(&warm.state()).unwrap();
        assert_eq!(first(&again).to_bits(), first(&warm).to_bits());
    }
}
