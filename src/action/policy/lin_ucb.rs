//! LinUCB with disjoint models: one ridge regression per arm, the arm of the highest upper confidence bound.
//!
//! The inverse of each arm's matrix is kept by Sherman-Morrison updates and solved afresh by Cholesky now and then,
//! since rounding drifts (a test bounds the drift). Each arm sits behind an Arc: a snapshot copies pointers, and the
//! next round copies the one arm that it changes. A text dimension costs exploration, hence the short vectors of
//! `features`.

use std::{collections::BTreeMap, sync::Arc};

use ndarray::{Array1, Array2, ArrayView1};
use serde::Deserialize;

use super::{
    Action, LearntRound, Opinion, Policy, PolicyError,
    features::{DIMENSIONS, Features},
};
use crate::{
    action::{cholesky::Cholesky, explore::epsilon_greedy},
    round::Context,
};

/// Updates between two exact solves of an arm's inverse.
const REFRESH_EVERY: u32 = 256;

/// Disjoint LinUCB.
///
/// A_a = l2 I + sum x x^T, b_a = sum (u - g) x, theta_a = A_a^-1 b_a;
/// score = g + theta_a . x + alpha sqrt(x^T A_a^-1 x). g is the prior mean: ridge shrinks toward it, not toward 0.
///
/// Reference: Li, Chu, Langford and Schapire, A Contextual-Bandit Approach to Personalized News Article
/// Recommendation, 2010, algorithm 1.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, LinUcb, Policy, PolicySettings};
/// # let arm = |name| Candidate { mode: Mode::Single, arm: ArmId::new(name).unwrap(), cost_usd: 0.001 };
/// # let context = Context {
/// #     embedding: Embedding::new(vec![1.0, 0.0]).unwrap(), domain: Domain::unknown(), neighbours: vec![],
/// #     recall: Recall::Ok, candidates: vec![arm("a"), arm("b")],
/// # };
/// let mut policy = LinUcb::new(PolicySettings::default().lin_ucb, 0.02);
/// for (candidate, score) in context.candidates.iter().zip([0.0, 1.0]).cycle().take(40) {
///     policy.learn(&LearntRound {
///         context: &context, mode: candidate.mode, arm: &candidate.arm, propensity: 0.5, voters: &[],
///         score, reward: score, weights: RewardWeights { e1: 1.0, e2: 0.0 },
///     });
/// }
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.01, 0.99]);
/// ```
#[derive(Debug, Clone)]
pub struct LinUcb {
    settings: LinUcbSettings,
    floor: f64,
    features: Features,
    arms: BTreeMap<Action, Arc<Ridge>>,
}

/// Settings of [`LinUcb`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinUcbSettings {
    /// Width of the confidence bound, at least 0.
    pub alpha: f64,
    /// Ridge, above 0.
    pub l2: f64,
    /// g: the utility expected of an arm never tried, in [-1, 1].
    pub prior_mean: f64,
    /// Length of the domain's part of the vector, in [0, 10]; the intercept's is 1. Smaller shrinks more.
    pub domain_scale: f64,
    /// Length of the projected embedding, in [0, 10]; 0 leaves the text out.
    pub text_scale: f64,
    /// Seeds the projection's signs.
    pub projection_seed: u64,
}

/// One arm's ridge regression.
#[derive(Debug, Clone)]
struct Ridge {
    gram: Array2<f64>,
    inverse: Array2<f64>,
    moment: Array1<f64>,
    theta: Array1<f64>,
    updates_since_solve: u32,
}

impl Ridge {
    fn new(l2: f64) -> Self {
        let eye = Array2::eye(DIMENSIONS);
        Self {
            gram: &eye * l2,
            inverse: &eye / l2,
            moment: Array1::zeros(DIMENSIONS),
            theta: Array1::zeros(DIMENSIONS),
            updates_since_solve: 0,
        }
    }

    /// Sherman-Morrison: (A + x x^T)^-1 = A^-1 - (A^-1 x)(A^-1 x)^T / (1 + x^T A^-1 x).
    fn learn(&mut self, x: ArrayView1<'_, f64>, target: f64) {
        let direction = self.inverse.dot(&x);
        let divisor = 1.0 + x.dot(&direction);
        for (row, x_row) in x.iter().enumerate() {
            self.gram.row_mut(row).scaled_add(*x_row, &x);
            self.inverse.row_mut(row).scaled_add(-direction[row] / divisor, &direction);
        }
        self.moment.scaled_add(target, &x);
        self.updates_since_solve += 1;
        if self.updates_since_solve >= REFRESH_EVERY {
            self.solve();
        }
        self.theta = self.inverse.dot(&self.moment);
    }

    fn solve(&mut self) {
        // The matrix is l2 I plus squares, so the factor exists; were it not to, the running inverse stays.
        if let Some(factor) = Cholesky::of(self.gram.view()) {
            self.inverse = factor.inverse();
            self.updates_since_solve = 0;
        }
    }

    fn upper_bound(&self, x: ArrayView1<'_, f64>, alpha: f64) -> f64 {
        self.theta.dot(&x) + alpha * x.dot(&self.inverse.dot(&x)).max(0.0).sqrt()
    }
}

impl LinUcb {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: LinUcbSettings, floor: f64) -> Self {
        let features = Features::new(settings.projection_seed, settings.domain_scale, settings.text_scale);
        Self { settings, floor, features, arms: BTreeMap::new() }
    }
}

impl Policy for LinUcb {
    fn name(&self) -> &'static str {
        "lin_ucb"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        let LinUcbSettings { alpha, l2, prior_mean, .. } = self.settings;
        let x = self.features.vector(context);
        // An arm never tried has A = l2 I and theta = 0.
        let untried = alpha * (x.dot(&x) / l2).sqrt();
        let score = |candidate: &crate::round::Candidate| match self.arms.get(&(candidate.mode, candidate.arm.clone()))
        {
            Some(ridge) => prior_mean + ridge.upper_bound(x.view(), alpha),
            None => prior_mean + untried,
        };
        let scores: Vec<f64> = context.candidates.iter().map(score).collect();
        Opinion::of(self.name(), epsilon_greedy(&scores, self.floor))
    }

    fn learn(&mut self, round: &LearntRound<'_>) {
        let Some(utility) = round.utility() else { return };
        self.features.learn(&round.context.domain);
        let x = self.features.vector(round.context);
        let arm = self.arms.entry(round.action()).or_insert_with(|| Arc::new(Ridge::new(self.settings.l2)));
        Arc::make_mut(arm).learn(x.view(), utility - self.settings.prior_mean);
    }

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn the_running_inverse_drifts_less_than_1e_9_from_the_exact_one() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut ridge = Ridge::new(1.0);
        for _ in 0..20 * REFRESH_EVERY - 1 {
            let x = Array1::from_shape_fn(DIMENSIONS, |_| rng.random_range(-1.0..1.0));
            ridge.learn(x.view(), rng.random_range(0.0..1.0));
        }
        assert_eq!(ridge.updates_since_solve, REFRESH_EVERY - 1);
        let exact = Cholesky::of(ridge.gram.view()).unwrap();
        let drift = (&ridge.inverse - &exact.inverse()).iter().fold(0.0, |most: f64, e| most.max(e.abs()));
        assert!(drift < 1e-9, "{drift}");
        let theta = exact.solve(ridge.moment.view());
        assert!((&ridge.theta - &theta).iter().all(|e| e.abs() < 1e-9));
    }
}
