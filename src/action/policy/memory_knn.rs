//! Memory kNN: what the arms did on the most similar past tasks, over what they did in the domain.
//!
//! The neighbours come with the context (the loop recalls them). Online a past task was tried on one arm, so ten
//! neighbours say little of each arm: the domain's mean is the prior, and near duplicates outweigh it. Without
//! neighbours (memory down, or nothing alike) it is the domain prior, or abstains where it is told to.
//!
//! A neighbour on which every arm was tried says how they compare; one of one's own picks says how that arm did, on a task that
//! it was picked for. Where both are there, `picked` says how much the second kind counts.

use serde::Deserialize;

use super::{
    Estimates, Opinion, Policy, PolicyError, ShrinkageSettings, Standings,
    card::{Checks, LARGE, TINY},
    learns_with::learns_with,
    recalled::{Recalled, nearness},
};
use crate::{
    action::explore::{gaussian_draws, with_floor},
    round::{Candidate, Context, Neighbour},
};

/// Similarity-weighted kNN regression per arm, shrunk to the arm's domain mean, explored by Thompson sampling.
///
/// w_i = ((similarity_i + b [same domain]) / (1 + b))^power (times `picked` where not every candidate was tried) over the neighbours that tried arm a; mean = (sum w_i y_i + m base) / (sum w_i + m) with
/// base the arm's domain mean shrunk toward its mean everywhere;
/// score ~ N(mean, scale^2 * noise / (sum w_i + m_d + n_ad)), m_d the domain mass.
///
/// Reference: Guan and Jiang, Nonparametric Stochastic Contextual Bandits, 2018 (kNN regression in a bandit); retrieval
/// over verified outcomes as in the memory of Agent-as-a-Router (arXiv 2606.22902).
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{MemoryKnn, Policy, PolicySettings};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let tried = |name, score| TriedArm {
/// #     mode: Mode::Single, arm: ArmId::new(name).unwrap(), score, cost_usd: 0.001, trace: String::new(),
/// # };
/// # let mut context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// context.neighbours = (0..10).map(|seq| Neighbour {
///     seq, task_id: TaskId::new("t").unwrap(), similarity: 1.0, domain: None, outcomes: vec![tried("a", 0.0), tried("b", 1.0)],
/// }).collect();
/// let policy = MemoryKnn::new(PolicySettings::default().memory_knn, 0.0);
/// let pmf = policy.decide(&context, 1).unwrap().pmf;
/// assert!(pmf[1] > 0.9);
/// ```
#[derive(Debug, Clone)]
pub struct MemoryKnn {
    settings: MemoryKnnSettings,
    floor: f64,
    standings: Standings,
}

/// Settings of [`MemoryKnn`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryKnnSettings {
    /// The score expected of an arm never tried, in [0, 1].
    pub prior_mean: f64,
    /// Rounds that the expectation counts for, above 0.
    pub arm_mass: f64,
    /// Rounds that an arm's mean everywhere counts for in a domain, above 0.
    pub domain_mass: f64,
    /// m: neighbours of similarity 1 that the domain's mean counts for, above 0.
    pub neighbour_mass: f64,
    /// How much faster than the similarity a neighbour's weight falls, 0 to 64.
    pub power: f64,
    /// What being of the task's domain adds to a neighbour's similarity, at least 0; the sum is divided by 1 more than that.
    pub same_domain: f64,
    /// What a neighbour counts for that was tried on some candidates only, in [0, 1].
    pub picked: f64,
    /// Below this sum of weights over the neighbours it abstains, at least 0; 0 never.
    pub mass_min: f64,
    /// Variance of one round's score around its mean, above 0.
    pub noise: f64,
    /// Exploration: 1 is Thompson sampling, 0 greedy.
    pub scale: f64,
    /// Posterior draws counted per decision, 1 to 4096.
    pub draws: u32,
}

impl MemoryKnnSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("prior_mean", self.prior_mean, 0.0, 1.0);
        checks.number("arm_mass", self.arm_mass, TINY, LARGE);
        checks.number("domain_mass", self.domain_mass, TINY, LARGE);
        checks.number("neighbour_mass", self.neighbour_mass, TINY, LARGE);
        checks.number("power", self.power, 0.0, 64.0);
        checks.number("same_domain", self.same_domain, 0.0, 10.0);
        checks.number("picked", self.picked, 0.0, 1.0);
        checks.number("mass_min", self.mass_min, 0.0, LARGE);
        checks.number("noise", self.noise, TINY, LARGE);
        checks.number("scale", self.scale, 0.0, 100.0);
        checks.number("draws", self.draws.into(), 1.0, 4096.0);
    }
}

impl MemoryKnn {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: MemoryKnnSettings, floor: f64) -> Self {
        Self { settings, floor, standings: Standings::default() }
    }

    /// What a neighbour counts for.
    fn weight(&self, context: &Context, near: &Neighbour) -> f64 {
        let MemoryKnnSettings { power, same_domain, picked, .. } = self.settings;
        let bonus = if near.domain.as_ref() == Some(&context.domain) { same_domain } else { 0.0 };
        let similarity = (f64::from(near.similarity) + bonus) / (1.0 + same_domain);
        let counts = if near.outcomes.len() >= context.candidates.len() { 1.0 } else { picked };
        counts * nearness(similarity, power)
    }

    fn posterior(&self, context: &Context, candidate: &Candidate) -> (f64, f64) {
        let MemoryKnnSettings { prior_mean, arm_mass, domain_mass, neighbour_mass, noise, scale, .. } = self.settings;
        let base = ShrinkageSettings { prior_mean, arm_mass, domain_mass };
        let base = base.shrunk(&self.standings, &context.domain, candidate);
        let near = Recalled::of(&context.neighbours, candidate, |near| self.weight(context, near));
        let mean = (near.sum + neighbour_mass * base.mean) / (near.mass + neighbour_mass);
        (mean, scale * (noise / (near.mass + domain_mass + base.here.n)).sqrt())
    }
}

impl Policy for MemoryKnn {
    fn name(&self) -> &'static str {
        "memory_knn"
    }

    fn decide(&self, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        let mass = || context.neighbours.iter().map(|near| self.weight(context, near)).sum::<f64>();
        if self.settings.mass_min > 0.0 && mass() < self.settings.mass_min {
            return Err(PolicyError::Abstains { policy: self.name(), why: "no past task is like this one" });
        }
        let estimates = Estimates::of(context, |candidate| self.posterior(context, candidate));
        estimates.explore(self.name(), |means, deviations| {
            with_floor(gaussian_draws(means, deviations, self.settings.draws, seed)?, self.floor)
        })
    }

    learns_with!(standings);
}
