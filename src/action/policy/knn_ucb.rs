//! kNN-UCB: the mean over the most similar past tasks, and an upper bound from how many of them tried the arm.
//!
//! Like `memory_knn`, but optimistic instead of randomised: an arm that no neighbour tried is tried there. Without
//! neighbours it bounds the domain's mean. Its bound narrows with the domain's rounds too, since recall brings a fixed
//! number of neighbours however long the history.

use serde::Deserialize;

use super::{
    Estimates, Opinion, Policy, PolicyError, ShrinkageSettings, Standings,
    card::{Checks, LARGE, TINY},
    learns_with::learns_with,
    recalled::{Recalled, nearness},
};
use crate::{
    action::explore::optimistic,
    round::{Candidate, Context},
};

/// Upper confidence bounds on similarity-weighted kNN regressions, shrunk to the domain's mean.
///
/// w_i = similarity_i^power over the neighbours that tried arm a, W = sum w_i; bound = (sum w_i y_i + m base) / (W + m)
/// + alpha / sqrt(W + n~_ad), with base the shrunk mean of [`ShrinkageSettings`] and n~_ad the rounds it is worth.
///
/// Reference: Guan and Jiang, Nonparametric Stochastic Contextual Bandits, 2018 (algorithm 1, with recall's fixed k, so
/// that the logarithm is left to alpha and the domain's rounds stand in for the growing k).
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{KnnUcb, Policy, PolicySettings};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let mut context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// # let tried = |name, score| TriedArm {
/// #     mode: Mode::Single, arm: ArmId::new(name).unwrap(), score, cost_usd: 0.001, trace: String::new(),
/// # };
/// context.neighbours = (0..10).map(|seq| Neighbour {
///     seq, task_id: TaskId::new("t").unwrap(), similarity: 1.0, domain: None, outcomes: vec![tried("a", 0.0), tried("b", 1.0)],
/// }).collect();
/// let settings = PolicySettings::default();
/// let policy = KnnUcb::new(settings.knn_ucb, settings.shrinkage, 0.0);
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.0, 1.0]);
/// ```
#[derive(Debug, Clone)]
pub struct KnnUcb {
    settings: KnnUcbSettings,
    shrinkage: ShrinkageSettings,
    floor: f64,
    standings: Standings,
}

/// Settings of [`KnnUcb`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnnUcbSettings {
    /// Width of the confidence bound, at least 0.
    pub alpha: f64,
    /// m: neighbours of similarity 1 that the domain's mean counts for, above 0.
    pub neighbour_mass: f64,
    /// How much faster than the similarity a neighbour's weight falls, 0 to 64.
    pub power: f64,
}

impl KnnUcbSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("alpha", self.alpha, 0.0, 100.0);
        checks.number("neighbour_mass", self.neighbour_mass, TINY, LARGE);
        checks.number("power", self.power, 0.0, 64.0);
    }
}

impl KnnUcb {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: KnnUcbSettings, shrinkage: ShrinkageSettings, floor: f64) -> Self {
        Self { settings, shrinkage, floor, standings: Standings::default() }
    }

    fn bound(&self, context: &Context, candidate: &Candidate) -> (f64, f64) {
        let KnnUcbSettings { alpha, neighbour_mass, power } = self.settings;
        let base = self.shrinkage.shrunk(&self.standings, &context.domain, candidate);
        let near = Recalled::of(&context.neighbours, candidate, |near| nearness(near.similarity.into(), power));
        let mean = (near.sum + neighbour_mass * base.mean) / (near.mass + neighbour_mass);
        (mean, alpha / (near.mass + base.rounds).sqrt())
    }
}

impl Policy for KnnUcb {
    fn name(&self) -> &'static str {
        "knn_ucb"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        let estimates = Estimates::of(context, |candidate| self.bound(context, candidate));
        estimates.explore(self.name(), |means, widths| optimistic(means, widths, self.floor))
    }

    learns_with!(standings);
}
