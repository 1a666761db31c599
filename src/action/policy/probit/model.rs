//! A Bayesian probit regression of named effects: one joint normal, updated by moment matching.
//!
//! P(success) = Phi(sum of effects). The posterior after an observation is no normal; the normal with the same mean and
//! covariance takes its place (assumed-density filtering), which is closed form and one rank-one update. Covariances between
//! effects are kept: that is how a failure on one arm says something of another.

use std::collections::BTreeMap;

use ndarray::{Array1, Array2, s};
use serde::{Deserialize, Serialize};

use crate::{
    action::{cholesky::Cholesky, policy::Action},
    round::Domain,
};

/// The most effects: an update costs their square.
const EFFECTS_MAX: usize = 256;
/// Below this, the ratio of density and distribution is taken from its asymptote.
const TAIL: f64 = -8.0;

/// One effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::action::policy) enum Effect {
    /// All arms on all tasks.
    Mean,
    /// Of an arm's price among the candidates.
    Price,
    /// Of a kind of task on all arms.
    Kind(Feature),
    /// Of an arm on all tasks.
    Arm(Action),
    /// Of an arm on a kind of task.
    Cell(Action, Feature),
    /// How easy the present task is for all arms; never stored.
    Task,
}

/// What is seen of a task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::action::policy) enum Feature {
    /// Its domain.
    Domain(Domain),
    /// The length of its text.
    Length,
}

/// An effect's prior.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::action::policy) struct Prior {
    pub mean: f64,
    pub variance: f64,
}

/// The joint posterior.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::action::policy) struct Model {
    places: BTreeMap<Effect, usize>,
    mean: Array1<f64>,
    covariance: Array2<f64>,
}

/// A sum of effects: their places and values.
pub(in crate::action::policy) type Terms = Vec<(usize, f64)>;

/// The model as stored; null is NaN.
#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    effects: Vec<Effect>,
    mean: Vec<Option<f64>>,
    covariance: Vec<Option<f64>>,
}

/// The standard normal distribution function.
pub(in crate::action::policy) fn phi(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// phi(z) / Phi(z), density over distribution.
fn hazard(z: f64) -> f64 {
    if z < TAIL {
        return -z;
    }
    (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt() / phi(z)
}

impl Model {
    /// The places of effects, which get their priors where they are new; effects for which there is no room are left out.
    pub fn terms(
        &mut self,
        effects: impl IntoIterator<Item = (Effect, f64)>,
        prior: impl Fn(&Effect) -> Prior,
    ) -> Terms {
        effects.into_iter().filter_map(|(effect, value)| Some((self.place(effect, &prior)?, value))).collect()
    }

    fn place(&mut self, effect: Effect, prior: impl Fn(&Effect) -> Prior) -> Option<usize> {
        if let Some(place) = self.places.get(&effect) {
            return Some(*place);
        }
        let n = self.mean.len();
        if n >= EFFECTS_MAX {
            return None;
        }
        let Prior { mean, variance } = prior(&effect);
        // A new effect is independent of all others, so this is exact.
        let mut covariance = Array2::zeros((n + 1, n + 1));
        covariance.slice_mut(s![..n, ..n]).assign(&self.covariance);
        covariance[[n, n]] = variance;
        self.covariance = covariance;
        self.mean = self.mean.iter().copied().chain([mean]).collect();
        self.places.insert(effect, n);
        Some(n)
    }

    /// Takes the task's own effect out again, summed over.
    pub fn drop_task(&mut self) {
        *self = self.only(|effect| *effect != Effect::Task);
    }

    /// The model of some of its effects, the others summed over.
    fn only(&self, keeps: impl Fn(&Effect) -> bool) -> Self {
        let mut kept: Vec<(&Effect, usize)> =
            self.places.iter().filter(|(effect, _)| keeps(effect)).map(|(effect, place)| (effect, *place)).collect();
        kept.sort_by_key(|(_, place)| *place);
        let from = |place: usize| kept[place].1;
        Self {
            places: kept.iter().enumerate().map(|(place, (effect, _))| ((*effect).clone(), place)).collect(),
            mean: Array1::from_shape_fn(kept.len(), |i| self.mean[from(i)]),
            covariance: Array2::from_shape_fn((kept.len(), kept.len()), |(i, j)| self.covariance[[from(i), from(j)]]),
        }
    }

    /// The mean of a sum.
    pub fn mean(&self, terms: &[(usize, f64)]) -> f64 {
        terms.iter().map(|(place, value)| value * self.mean[*place]).sum()
    }

    /// The covariance of two sums.
    pub fn covariance(&self, a: &[(usize, f64)], b: &[(usize, f64)]) -> f64 {
        let pairs = a.iter().flat_map(|(i, x)| b.iter().map(move |(j, y)| (*i, *j, x * y)));
        pairs.map(|(i, j, product)| product * self.covariance[[i, j]]).sum()
    }

    /// The probability that a sum is above a standard normal: its uncertainty pulls it toward a half.
    pub fn success(&self, terms: &[(usize, f64)]) -> f64 {
        phi(self.mean(terms) / (1.0 + self.covariance(terms, terms)).sqrt())
    }

    /// Learns a score of a sum's effects, which counts for `trust` rounds.
    ///
    /// With v = S x, s^2 = 1 + x'v, z = y x'm / s and r = phi(z) / Phi(z): m += y r / s v, S -= r (r + z) / s^2 v v', where y is
    /// 1 for a success and -1 for a failure; a score between them counts as both, in that ratio.
    pub fn observe(&mut self, terms: &[(usize, f64)], score: f64, trust: f64) {
        let mut along = Array1::zeros(self.mean.len());
        for (place, value) in terms {
            // The covariance is symmetric: a row is a column.
            along.scaled_add(*value, &self.covariance.row(*place));
        }
        let variance = 1.0 + terms.iter().map(|(place, value)| value * along[*place]).sum::<f64>();
        let deviation = variance.sqrt();
        let at = self.mean(terms) / deviation;
        let (mut step, mut shrink) = (0.0, 0.0);
        for (sign, weight) in [(1.0, score), (-1.0, 1.0 - score)] {
            let rate = hazard(sign * at);
            step += weight * sign * rate;
            shrink += weight * rate * (rate + sign * at);
        }
        self.mean.scaled_add(trust * step / deviation, &along);
        let shrink = -(trust * shrink).min(1.0) / variance;
        for (mut row, factor) in self.covariance.rows_mut().into_iter().zip(&along) {
            row.scaled_add(shrink * factor, &along);
        }
    }

    /// Leaves `keep` of the weight of all that was learnt: the precision, and what it speaks for, move to the prior's.
    pub fn forget(&mut self, keep: f64, prior: impl Fn(&Effect) -> Prior) {
        let Some(precision) = Cholesky::of(self.covariance.view()).map(|factor| factor.inverse()) else { return };
        let mut moment = precision.dot(&self.mean) * keep;
        let mut precision = precision * keep;
        for (effect, place) in &self.places {
            let Prior { mean, variance } = prior(effect);
            precision[[*place, *place]] += (1.0 - keep) / variance;
            moment[*place] += (1.0 - keep) * mean / variance;
        }
        // Rounding may say that it is not positive definite; then what is known stays.
        let Some(covariance) = Cholesky::of(precision.view()).map(|factor| factor.inverse()) else { return };
        self.covariance = (&covariance + &covariance.t()) / 2.0;
        self.mean = self.covariance.dot(&moment);
    }

    pub(super) fn stored(&self) -> Stored {
        let mut effects: Vec<(&Effect, &usize)> = self.places.iter().collect();
        effects.sort_by_key(|(_, place)| **place);
        Stored {
            effects: effects.into_iter().map(|(effect, _)| effect.clone()).collect(),
            mean: self.mean.iter().map(|number| Some(*number)).collect(),
            covariance: self.covariance.iter().map(|number| Some(*number)).collect(),
        }
    }

    /// The model as it was stored, without the arms whose numbers make no sense, which are returned; none where the
    /// numbers do not fit together, or where an effect of all arms makes no sense.
    pub(super) fn read(stored: Stored) -> Option<(Self, Vec<Action>)> {
        let Stored { effects, mean, covariance } = stored;
        let n = effects.len();
        let read =
            |numbers: Vec<Option<f64>>| -> Vec<f64> { numbers.into_iter().map(|x| x.unwrap_or(f64::NAN)).collect() };
        let places: BTreeMap<Effect, usize> = effects.into_iter().zip(0..).collect();
        let covariance = Array2::from_shape_vec((n, n), read(covariance)).ok()?;
        let model = Self { places, mean: read(mean).into(), covariance };
        if n > EFFECTS_MAX || model.places.len() < n || model.mean.len() < n || model.places.contains_key(&Effect::Task)
        {
            return None;
        }
        model.without_poisoned()
    }

    fn without_poisoned(self) -> Option<(Self, Vec<Action>)> {
        let of_arm = |effect: &Effect| match effect {
            Effect::Arm(action) | Effect::Cell(action, _) => Some(action.clone()),
            Effect::Mean | Effect::Price | Effect::Kind(_) | Effect::Task => None,
        };
        // A poisoned row poisons every other row's column, so arms are told by their own numbers.
        let sound = |place: usize| self.mean[place].abs() < 1e6 && self.covariance[[place, place]] > 0.0;
        let unsound = self.places.iter().filter(|(_, place)| !sound(**place));
        let mut poisoned: Vec<Action> = unsound.filter_map(|(effect, _)| of_arm(effect)).collect();
        poisoned.sort();
        poisoned.dedup();
        let model = self.only(|effect| of_arm(effect).is_none_or(|action| !poisoned.contains(&action)));
        let finite = model.mean.iter().all(|x| x.is_finite()) && model.covariance.iter().all(|x| x.is_finite());
        let sound = finite && Cholesky::of(model.covariance.view()).is_some() || model.places.is_empty();
        sound.then_some((model, poisoned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prior(_: &Effect) -> Prior {
        Prior { mean: 0.0, variance: 1.0 }
    }

    #[test]
    fn the_normal_distribution_and_its_hazard_are_right() {
        for (z, expected) in [(0.0, 0.5), (1.0, 0.841_344_746_068_543), (-2.5, 0.006_209_665_325_776_1)] {
            assert!((phi(z) - expected).abs() < 1e-14, "{z}");
        }
        // phi(-8) / Phi(-8), from its asymptotic series.
        assert!((hazard(-8.0) - 8.121_365).abs() < 1e-3 && hazard(-40.0) >= 40.0 - 1e-9);
        assert!((hazard(0.0) - (2.0 / std::f64::consts::PI).sqrt()).abs() < 1e-14);
    }

    #[test]
    fn one_observation_gives_the_moments_of_the_exact_posterior() {
        // N(0, 1) times Phi(x): by numeric integration.
        let density = |x: f64| (-0.5 * x * x).exp() * phi(x);
        let step = 1e-3;
        let moment = |power: i32| -> f64 {
            (-10_000..10_000).map(|k| f64::from(k) * step).map(|x| x.powi(power) * density(x) * step).sum()
        };
        let (mass, mean) = (moment(0), moment(1) / moment(0));
        let variance = moment(2) / mass - mean * mean;
        let mut model = Model::default();
        let terms = model.terms([(Effect::Mean, 1.0)], prior);
        model.observe(&terms, 1.0, 1.0);
        assert!((model.mean(&terms) - mean).abs() < 1e-6 && (model.covariance(&terms, &terms) - variance).abs() < 1e-6);
    }

    #[test]
    fn a_failure_on_a_task_makes_it_harder_for_all_and_is_summed_over_afterwards() {
        let mut model = Model::default();
        let one = |model: &mut Model, effect| model.terms([(effect, 1.0), (Effect::Task, 1.0)], prior);
        let (a, b) = (one(&mut model, Effect::Mean), one(&mut model, Effect::Price));
        let before = model.success(&b);
        model.observe(&a, 0.0, 1.0);
        assert!(model.success(&b) < before);
        model.drop_task();
        let b = model.terms([(Effect::Price, 1.0)], prior);
        assert!((model.success(&b) - 0.5).abs() < 1e-12 && model.covariance.nrows() == 2);
    }

    #[test]
    fn forgetting_everything_gives_the_prior_back() {
        let mut model = Model::default();
        let terms = model.terms([(Effect::Mean, 1.0), (Effect::Price, 0.5)], prior);
        (0..20).for_each(|_| model.observe(&terms, 1.0, 1.0));
        let learnt = model.mean(&terms);
        model.forget(0.5, prior);
        assert!(model.mean(&terms) < learnt && model.mean(&terms) > 0.0);
        model.forget(1e-12, prior);
        assert!(model.mean(&terms).abs() < 1e-6 && (model.covariance(&terms, &terms) - 1.25).abs() < 1e-6);
    }
}
