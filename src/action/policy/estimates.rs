//! Estimates: what a policy believes of each candidate, and the one place where scores become utilities.
//!
//! A candidate whose estimate is not finite (its statistics are damaged) is left out with probability 0 and named in
//! the opinion; the others are decided among themselves. Only when none is left has the policy no opinion.

use super::{Opinion, PolicyError, scale};
use crate::{
    action::sample::PmfError,
    round::{Candidate, Context},
};

/// The mean and the width of each candidate's expected utility, in candidate order.
pub(super) struct Estimates {
    /// Means; the budget's handicap is taken off.
    pub(super) means: Vec<f64>,
    /// Standard deviations, or whatever width the policy explores by, on the same scale.
    pub(super) widths: Vec<f64>,
}

impl Estimates {
    /// From each candidate's expected score and its width.
    pub(super) fn of(context: &Context, score: impl FnMut(&Candidate) -> (f64, f64)) -> Self {
        Self::of_scores(context, context.candidates.iter().map(score))
    }

    /// From the expected scores and their widths, in candidate order.
    pub(super) fn of_scores(context: &Context, scores: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let scale = Scale::of(context);
        let utility =
            |(candidate, (mean, width)): (&Candidate, (f64, f64))| (scale.mean(candidate, mean), scale.width(width));
        let (means, widths) = context.candidates.iter().zip(scores).map(utility).unzip();
        Self { means, widths }
    }

    /// The opinion that `rule` makes of the finite means and widths.
    pub(super) fn explore(
        self,
        policy: &'static str,
        rule: impl FnOnce(&[f64], &[f64]) -> Result<Vec<f64>, PmfError>,
    ) -> Result<Opinion, PolicyError> {
        self.explore_among(policy, |all, sound| {
            let pick = |values: &[f64]| sound.iter().map(|place| values[*place]).collect::<Vec<_>>();
            rule(&pick(&all.means), &pick(&all.widths))
        })
    }

    /// The opinion that `rule` makes of the candidates at the places that it is given: those with finite estimates.
    pub(super) fn explore_among(
        self,
        policy: &'static str,
        rule: impl FnOnce(&Self, &[usize]) -> Result<Vec<f64>, PmfError>,
    ) -> Result<Opinion, PolicyError> {
        let finite = |place: &usize| self.means[*place].is_finite() && self.widths[*place].is_finite();
        let (sound, poisoned): (Vec<usize>, Vec<usize>) = (0..self.means.len()).partition(finite);
        if sound.is_empty() && !poisoned.is_empty() {
            return Err(PolicyError::NotFinite { policy, what: "score" });
        }
        let among = checked(policy, rule(&self, &sound))?;
        let (mut pmf, mut expected) = (vec![0.0; self.means.len()], self.means);
        sound.iter().zip(among).for_each(|(place, p)| pmf[*place] = p);
        poisoned.iter().for_each(|place| expected[*place] = 0.0);
        Ok(Opinion { pmf, expected, poisoned, voters: Vec::new() })
    }
}

/// How a context's scores become utilities.
pub(super) struct Scale {
    e1: f64,
    e2: f64,
    divisor: f64,
}

impl Scale {
    pub(super) fn of(context: &Context) -> Self {
        let divisor = scale(context);
        // With both weights at 0 every utility is 0.
        let divisor = if divisor > 0.0 { divisor } else { 1.0 };
        Self { e1: context.weights.e1, e2: context.weights.e2, divisor }
    }

    pub(super) fn mean(&self, candidate: &Candidate, score: f64) -> f64 {
        (self.e1 * score + self.e2 * candidate.cost_usd) / self.divisor - candidate.handicap
    }

    pub(super) fn width(&self, width: f64) -> f64 {
        width * self.e1 / self.divisor
    }
}

/// A policy's error for an exploration rule's.
pub(super) fn checked(policy: &'static str, pmf: Result<Vec<f64>, PmfError>) -> Result<Vec<f64>, PolicyError> {
    pmf.map_err(|error| match error {
        PmfError::Empty => PolicyError::NoCandidate,
        PmfError::NotFinite => PolicyError::NotFinite { policy, what: "score" },
        PmfError::Negative | PmfError::Sum(_) => PolicyError::NotFinite { policy, what: "probability" },
    })
}
