//! Memory kNN: what the arms did on the most similar past tasks, over what they did in the domain.
//!
//! The neighbours come with the context (the loop recalls them). Online a past task was tried on one arm, so ten
//! neighbours say little of each arm: the domain's mean is the prior, and near duplicates outweigh it. Without
//! neighbours (memory down, or nothing alike) it is the domain prior.

use serde::Deserialize;

use super::{Action, LearntRound, Opinion, Policy, PolicyError, cells::Cells, utility};
use crate::{
    action::explore::{gaussian_draws, with_floor},
    round::{Candidate, Context, RewardWeights},
};

/// Similarity-weighted kNN regression per arm, shrunk to the arm's domain mean, explored by Thompson sampling.
///
/// w_i = similarity_i^power over the neighbours that tried arm a; mean = (sum w_i u_i + m base) / (sum w_i + m) with
/// base the arm's domain mean shrunk toward its mean everywhere;
/// score ~ N(mean, scale^2 * noise / (sum w_i + m_d + n_ad)), m_d the domain mass.
///
/// Reference: Guan and Jiang, Nonparametric Stochastic Contextual Bandits, 2018 (kNN regression in a bandit); retrieval
/// over verified outcomes as in the memory of Agent-as-a-Router (arXiv 2606.22902).
///
/// The neighbours' rewards are formed with the weights of the latest learnt round, since memory keeps scores and costs.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{MemoryKnn, Policy, PolicySettings};
/// # let arm = |name| Candidate { mode: Mode::Single, arm: ArmId::new(name).unwrap(), cost_usd: 0.001 };
/// # let tried = |name, score| TriedArm {
/// #     mode: Mode::Single, arm: ArmId::new(name).unwrap(), score, cost_usd: 0.001, trace: String::new(),
/// # };
/// # let mut context = Context {
/// #     embedding: Embedding::new(vec![1.0, 0.0]).unwrap(), domain: Domain::unknown(), neighbours: vec![],
/// #     recall: Recall::Ok, candidates: vec![arm("a"), arm("b")],
/// # };
/// context.neighbours = (0..10).map(|seq| Neighbour {
///     seq, task_id: TaskId::new("t").unwrap(), similarity: 1.0, outcomes: vec![tried("a", 0.0), tried("b", 1.0)],
/// }).collect();
/// let policy = MemoryKnn::new(PolicySettings::default().memory_knn, 0.0);
/// let pmf = policy.decide(&context, 1).unwrap().pmf;
/// assert!(pmf[1] > 0.9);
/// ```
#[derive(Debug, Clone)]
pub struct MemoryKnn {
    settings: MemoryKnnSettings,
    floor: f64,
    cells: Cells,
    weights: RewardWeights,
}

/// Settings of [`MemoryKnn`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryKnnSettings {
    /// The utility expected of an arm never tried, in [-1, 1].
    pub prior_mean: f64,
    /// Rounds that the expectation counts for, above 0.
    pub arm_mass: f64,
    /// Rounds that an arm's mean everywhere counts for in a domain, above 0.
    pub domain_mass: f64,
    /// m: neighbours of similarity 1 that the domain's mean counts for, above 0.
    pub neighbour_mass: f64,
    /// How much faster than the similarity a neighbour's weight falls, 0 to 64.
    pub power: f64,
    /// Variance of one round's utility around its mean, above 0.
    pub noise: f64,
    /// Exploration: 1 is Thompson sampling, 0 greedy.
    pub scale: f64,
    /// Posterior draws counted per decision, 1 to 4096.
    pub draws: u32,
}

impl MemoryKnn {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: MemoryKnnSettings, floor: f64) -> Self {
        Self { settings, floor, cells: Cells::default(), weights: RewardWeights::default() }
    }

    /// The neighbours' weight and weighted utility of one candidate.
    fn neighbours(&self, context: &Context, candidate: &Candidate) -> (f64, f64) {
        let mut mass = 0.0;
        let mut sum = 0.0;
        for neighbour in &context.neighbours {
            let weight = f64::from(neighbour.similarity).clamp(0.0, 1.0).powf(self.settings.power);
            for tried in &neighbour.outcomes {
                if tried.mode == candidate.mode && tried.arm == candidate.arm {
                    let reward = self.weights.reward(tried.score, tried.cost_usd);
                    if let Some(utility) = utility(reward, &self.weights, context) {
                        mass += weight;
                        sum += weight * utility;
                    }
                }
            }
        }
        (mass, sum)
    }

    fn posterior(&self, context: &Context, candidate: &Candidate) -> (f64, f64) {
        let settings = &self.settings;
        let action: Action = (candidate.mode, candidate.arm.clone());
        let everywhere = self.cells.total(&action).shrunk_mean(settings.prior_mean, settings.arm_mass);
        let here = self.cells.cell(&context.domain, &action);
        let base = here.shrunk_mean(everywhere, settings.domain_mass);
        let (mass, sum) = self.neighbours(context, candidate);
        let mean = (sum + settings.neighbour_mass * base) / (mass + settings.neighbour_mass);
        let deviation = settings.scale * (settings.noise / (mass + settings.domain_mass + here.n)).sqrt();
        (mean, deviation)
    }
}

impl Policy for MemoryKnn {
    fn name(&self) -> &'static str {
        "memory_knn"
    }

    fn decide(&self, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        let posteriors = context.candidates.iter().map(|candidate| self.posterior(context, candidate));
        let (means, deviations): (Vec<f64>, Vec<f64>) = posteriors.unzip();
        let pmf = gaussian_draws(&means, &deviations, self.settings.draws, seed);
        Opinion::of(self.name(), pmf.and_then(|pmf| with_floor(pmf, self.floor)))
    }

    fn learn(&mut self, round: &LearntRound<'_>) {
        if let Some(utility) = round.utility() {
            self.weights = round.weights;
            self.cells.learn(&round.context.domain, round.action(), utility);
        }
    }

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
