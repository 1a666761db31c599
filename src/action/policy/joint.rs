//! A joint normal posterior of all candidates' scores, explored by Thompson sampling.

use ndarray::{Array1, Array2};

use super::{
    Opinion, PolicyError,
    estimates::{Scale, checked},
};
use crate::{
    action::{
        cholesky::Cholesky,
        explore::{joint_draws, with_floor},
    },
    round::{Candidate, Context},
};

/// The candidates' scores in one domain.
pub(super) struct Posterior {
    /// What is expected of all of them alike: it is told, and cannot change which is best.
    pub(super) common: f64,
    /// What is expected of each beyond that.
    pub(super) mean: Array1<f64>,
    pub(super) covariance: Array2<f64>,
}

/// How posterior draws are made and counted.
pub(super) struct Draws {
    /// What deviations from the mean are multiplied by; 1 is Thompson sampling.
    pub(super) scale: f64,
    /// How many are counted.
    pub(super) number: u32,
    pub(super) seed: u64,
    /// Uniform share.
    pub(super) floor: f64,
}

impl Posterior {
    /// The share of joint draws in which each candidate is best, over the floor.
    pub(super) fn explore(
        &self,
        policy: &'static str,
        context: &Context,
        draws: &Draws,
    ) -> Result<Opinion, PolicyError> {
        let not_finite = || PolicyError::NotFinite { policy, what: "posterior" };
        let factor = Cholesky::of(self.covariance.view()).ok_or_else(not_finite)?;
        let utility = Scale::of(context);
        let means = context.candidates.iter().zip(&self.mean);
        let mean = |(candidate, mean): (&Candidate, &f64)| utility.mean(candidate, self.common + mean);
        let expected: Vec<f64> = means.map(mean).collect();
        let scale = utility.width(draws.scale);
        let score = |place: usize, deviation: f64| expected[place] + scale * deviation;
        let pmf = joint_draws(expected.len(), &factor, draws.number, draws.seed, score);
        let pmf = checked(policy, pmf.and_then(|pmf| with_floor(pmf, draws.floor)))?;
        Ok(Opinion { pmf, expected, ..Opinion::default() })
    }
}

/// Exploration that falls linearly from `start` to `end` over `rounds` rounds.
pub(super) fn falling(start: f64, end: f64, rounds: u64, round: u64) -> f64 {
    start + (round as f64 / rounds.max(1) as f64).min(1.0) * (end - start)
}
