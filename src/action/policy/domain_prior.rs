//! Domain prior: each arm's mean per domain, shrunk toward the arm's mean everywhere, explored by Thompson sampling.
//!
//! ACRouter's DimensionBest (the best arm per domain) learnt online instead of from a probing set. Shrinking lets a
//! new domain start from what its arms did elsewhere. It cannot tell two tasks of one domain apart.

use serde::Deserialize;

use super::{Action, LearntRound, Opinion, Policy, PolicyError, cells::Cells};
use crate::{
    action::explore::{gaussian_draws, with_floor},
    round::Context,
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
/// # let arm = |name| Candidate { mode: Mode::Single, arm: ArmId::new(name).unwrap(), cost_usd: 0.001 };
/// # let context = Context {
/// #     embedding: Embedding::new(vec![1.0, 0.0]).unwrap(), domain: Domain::unknown(), neighbours: vec![],
/// #     recall: Recall::Ok, candidates: vec![arm("a"), arm("b")],
/// # };
/// let mut policy = DomainPrior::new(PolicySettings::default().domain_prior, 0.02);
/// for (candidate, score) in context.candidates.iter().zip([0.0, 1.0]).cycle().take(40) {
///     policy.learn(&LearntRound {
///         context: &context, mode: candidate.mode, arm: &candidate.arm, propensity: 0.5, voters: &[],
///         score, reward: score, weights: RewardWeights { e1: 1.0, e2: 0.0 },
///     });
/// }
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.01, 0.99]);
/// ```
#[derive(Debug, Clone)]
pub struct DomainPrior {
    settings: DomainPriorSettings,
    floor: f64,
    cells: Cells,
}

/// Settings of [`DomainPrior`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainPriorSettings {
    /// g: the utility expected of an arm never tried, in [-1, 1].
    pub prior_mean: f64,
    /// M: rounds that the expectation counts for, above 0.
    pub arm_mass: f64,
    /// m: rounds that an arm's mean everywhere counts for in a domain, above 0; 4 to 10 work.
    pub domain_mass: f64,
    /// Variance of one round's utility around its mean, above 0.
    pub noise: f64,
    /// Exploration: 1 is Thompson sampling, 0 greedy.
    pub scale: f64,
    /// Posterior draws counted per decision, 1 to 4096.
    pub draws: u32,
}

impl DomainPrior {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: DomainPriorSettings, floor: f64) -> Self {
        Self { settings, floor, cells: Cells::default() }
    }

    /// The mean and the rounds (the prior's mass included) behind it.
    fn posterior(&self, context: &Context, action: &Action) -> (f64, f64) {
        let DomainPriorSettings { prior_mean, arm_mass, domain_mass, .. } = self.settings;
        let everywhere = self.cells.total(action).shrunk_mean(prior_mean, arm_mass);
        let here = self.cells.cell(&context.domain, action);
        (here.shrunk_mean(everywhere, domain_mass), here.n + domain_mass)
    }
}

impl Policy for DomainPrior {
    fn name(&self) -> &'static str {
        "domain_prior"
    }

    fn decide(&self, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        let posterior = |candidate: &crate::round::Candidate| {
            let (mean, rounds) = self.posterior(context, &(candidate.mode, candidate.arm.clone()));
            (mean, self.settings.scale * (self.settings.noise / rounds).sqrt())
        };
        let (means, deviations): (Vec<f64>, Vec<f64>) = context.candidates.iter().map(posterior).unzip();
        let pmf = gaussian_draws(&means, &deviations, self.settings.draws, seed);
        Opinion::of(self.name(), pmf.and_then(|pmf| with_floor(pmf, self.floor)))
    }

    fn learn(&mut self, round: &LearntRound<'_>) {
        if let Some(utility) = round.utility() {
            self.cells.learn(&round.context.domain, round.action(), utility);
        }
    }

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
