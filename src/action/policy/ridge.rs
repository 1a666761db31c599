//! Ridge regressions, one per action: what the disjoint linear policies learn with.
//!
//! The inverse of each action's matrix is kept by Sherman-Morrison updates and solved afresh by Cholesky now and then,
//! since rounding drifts (a test bounds the drift). Each sits behind an Arc: a snapshot copies pointers, and the next
//! round copies the one that it changes.

use std::{collections::BTreeMap, sync::Arc};

use ndarray::{Array1, Array2, ArrayView1};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Action,
    state::{Row, StateError, read, write},
};
use crate::action::cholesky::Cholesky;

/// Updates between two exact solves of an action's inverse.
const REFRESH_EVERY: u32 = 256;
/// Rounds that are forgotten at once: each time, every inverse has to be solved afresh.
const FORGET_EVERY: u32 = 32;

/// A_a = l2 I + sum w x x^T, b_a = sum w y x, theta_a = A_a^-1 b_a for each action a.
///
/// Forgetting by a factor g a round: A <- g A + (1 - g) l2 I, b <- g b, and beside them the matrix of squared factors,
/// A~ <- g^2 A~ + (1 - g^2) l2 I, which the width then needs: sqrt(x^T A^-1 A~ A^-1 x). It is done for
/// [`FORGET_EVERY`] rounds together.
///
/// References: Li et al., A Contextual-Bandit Approach to Personalized News Article Recommendation, 2010, algorithm 1;
/// Russac, Vernade and Cappe, Weighted Linear Bandits for Non-Stationary Environments, 2019 (D-LinUCB).
#[derive(Debug, Clone)]
pub(super) struct Ridges {
    dimensions: usize,
    l2: f64,
    actions: BTreeMap<Action, Arc<Ridge>>,
    keep: f64,
    forgotten: u32,
}

/// One action's regression.
#[derive(Debug, Clone)]
struct Ridge {
    gram: Array2<f64>,
    inverse: Array2<f64>,
    /// A~; absent until something is forgotten, since it equals A.
    squared: Option<Array2<f64>>,
    moment: Array1<f64>,
    theta: Array1<f64>,
    since_solve: u32,
}

/// Ridges as stored; a row's numbers are `since_solve`, b, theta, A, A^-1, and A~ where there is one.
#[derive(Serialize, Deserialize)]
struct Stored {
    dimensions: usize,
    l2: f64,
    keep: f64,
    forgotten: u32,
    rows: Vec<Row>,
}

impl Ridges {
    /// Nothing learnt yet: theta = 0, A = l2 I. `l2` is above 0.
    pub(super) fn new(dimensions: usize, l2: f64) -> Self {
        Self { dimensions, l2, actions: BTreeMap::new(), keep: 1.0, forgotten: 0 }
    }

    /// theta . x and the width sqrt(x^T A^-1 x) for one action.
    pub(super) fn estimate(&self, action: &Action, x: ArrayView1<'_, f64>) -> (f64, f64) {
        match self.actions.get(action) {
            Some(ridge) => ridge.estimate(x),
            None => (0.0, (x.dot(&x) / self.l2).sqrt()),
        }
    }

    /// theta . x for one action.
    pub(super) fn mean(&self, action: &Action, x: ArrayView1<'_, f64>) -> f64 {
        self.actions.get(action).map_or(0.0, |ridge| ridge.theta.dot(&x))
    }

    /// Forgets one action altogether.
    pub(super) fn remove(&mut self, action: &Action) {
        self.actions.remove(action);
    }

    /// Adds one observation of a weight above 0.
    pub(super) fn learn(&mut self, action: Action, x: ArrayView1<'_, f64>, target: f64, weight: f64) {
        let fresh = || Arc::new(Ridge::new(self.dimensions, self.l2));
        Arc::make_mut(self.actions.entry(action).or_insert_with(fresh)).learn(x, target, weight);
    }

    /// Multiplies the weight of all observations by `keep`, in (0, 1].
    pub(super) fn forget(&mut self, keep: f64) {
        self.keep *= keep;
        self.forgotten += 1;
        if self.forgotten >= FORGET_EVERY {
            self.actions.values_mut().for_each(|ridge| Arc::make_mut(ridge).forget(self.keep, self.l2));
            (self.keep, self.forgotten) = (1.0, 0);
        }
    }

    pub(super) fn state(&self) -> Value {
        let row = |(action, ridge): (&Action, &Arc<Ridge>)| {
            let squared = ridge.squared.iter().flatten();
            let matrices =
                ridge.moment.iter().chain(&ridge.theta).chain(&ridge.gram).chain(&ridge.inverse).chain(squared);
            Row::new(action, std::iter::once(f64::from(ridge.since_solve)).chain(matrices.copied()))
        };
        let Self { dimensions, l2, keep, forgotten, .. } = *self;
        write(&Stored { dimensions, l2, keep, forgotten, rows: self.actions.iter().map(row).collect() })
    }

    /// Reads [`Ridges::state`] of the same shape; actions with numbers that make no sense are left out and returned.
    pub(super) fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError> {
        let stored: Stored = read(state)?;
        let fits = stored.dimensions == self.dimensions && stored.l2 == self.l2;
        if !(fits && stored.keep > 0.0 && stored.keep <= 1.0 && stored.forgotten < FORGET_EVERY) {
            return Err(StateError::Shape(format!("a ridge of {} dimensions", stored.dimensions)));
        }
        let (mut actions, mut poisoned) = (BTreeMap::new(), Vec::new());
        for row in stored.rows {
            match Ridge::from_numbers(&row.values(), self.dimensions, self.l2) {
                Some(ridge) => drop(actions.insert(row.action(), Arc::new(ridge))),
                None => poisoned.push(row.action()),
            }
        }
        (self.actions, self.keep, self.forgotten) = (actions, stored.keep, stored.forgotten);
        Ok(poisoned)
    }
}

impl Ridge {
    fn new(dimensions: usize, l2: f64) -> Self {
        let eye = Array2::eye(dimensions);
        Self {
            gram: &eye * l2,
            inverse: &eye / l2,
            squared: None,
            moment: Array1::zeros(dimensions),
            theta: Array1::zeros(dimensions),
            since_solve: 0,
        }
    }

    fn estimate(&self, x: ArrayView1<'_, f64>) -> (f64, f64) {
        let direction = self.inverse.dot(&x);
        let variance = match &self.squared {
            None => x.dot(&direction),
            Some(squared) => direction.dot(&squared.dot(&direction)),
        };
        (self.theta.dot(&x), variance.max(0.0).sqrt())
    }

    /// Sherman-Morrison: (A + w x x^T)^-1 = A^-1 - w (A^-1 x)(A^-1 x)^T / (1 + w x^T A^-1 x).
    fn learn(&mut self, x: ArrayView1<'_, f64>, target: f64, weight: f64) {
        let direction = self.inverse.dot(&x);
        let divisor = 1.0 + weight * x.dot(&direction);
        for (row, x_row) in x.iter().enumerate() {
            self.gram.row_mut(row).scaled_add(weight * x_row, &x);
            self.inverse.row_mut(row).scaled_add(-weight * direction[row] / divisor, &direction);
            if let Some(squared) = &mut self.squared {
                squared.row_mut(row).scaled_add(weight * weight * x_row, &x);
            }
        }
        self.moment.scaled_add(weight * target, &x);
        // The same step on the solution: A^-1 x of the new matrix is the direction over the divisor.
        let error = target - self.theta.dot(&x);
        self.theta.scaled_add(weight * error / divisor, &direction);
        self.since_solve += 1;
        if self.since_solve >= REFRESH_EVERY {
            self.solve();
        }
    }

    fn forget(&mut self, keep: f64, l2: f64) {
        let prior = |share: f64| Array2::from_diag_elem(self.moment.len(), share * l2);
        let squared = self.squared.as_ref().unwrap_or(&self.gram);
        self.squared = Some(squared * (keep * keep) + prior(1.0 - keep * keep));
        self.gram = &self.gram * keep + prior(1.0 - keep);
        self.moment *= keep;
        self.solve();
    }

    fn solve(&mut self) {
        // The matrix is l2 I plus squares, so the factor exists; were it not to, the running inverse stays.
        if let Some(factor) = Cholesky::of(self.gram.view()) {
            self.inverse = factor.inverse();
            self.theta = self.inverse.dot(&self.moment);
            self.since_solve = 0;
        }
    }

    /// None unless the numbers are finite, the matrix is symmetric and positive definite and the inverse fits it.
    fn from_numbers(numbers: &[f64], dimensions: usize, l2: f64) -> Option<Self> {
        let square = dimensions * dimensions;
        let (since_solve, rest) = numbers.split_first()?;
        if numbers.iter().any(|number| !number.is_finite()) || rest.len() < 2 * dimensions + 2 * square {
            return None;
        }
        let (moment, rest) = rest.split_at(dimensions);
        let (theta, rest) = rest.split_at(dimensions);
        let matrix = |from: &[f64]| Array2::from_shape_vec((dimensions, dimensions), from.to_vec()).ok();
        let (gram, rest) = rest.split_at(square);
        let (inverse, squared) = rest.split_at(square);
        let (gram, inverse) = (matrix(gram)?, matrix(inverse)?);
        let (moment, theta) = (Array1::from(moment.to_vec()), Array1::from(theta.to_vec()));
        let squared = if squared.is_empty() { None } else { Some(matrix(squared)?) };
        let symmetric = (&gram - &gram.t()).iter().all(|gap| gap.abs() <= 1e-6 * (1.0 + gram.diag().sum()));
        let bounded = gram.diag().iter().all(|entry| *entry >= l2 * (1.0 - 1e-6) && *entry < 1e15);
        Cholesky::of(gram.view()).filter(|_| symmetric && bounded)?;
        let unit = gram.dot(&inverse);
        let inverts = (unit - Array2::<f64>::eye(dimensions)).iter().all(|gap| gap.abs() < 1e-3);
        let since_solve = (0.0..f64::from(REFRESH_EVERY)).contains(since_solve).then_some(*since_solve as u32)?;
        let solves = (inverse.dot(&moment) - &theta).iter().all(|gap| gap.abs() < 1e-3);
        (inverts && solves).then_some(Self { gram, inverse, squared, moment, theta, since_solve })
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::round::{ArmId, Mode};

    const DIMENSIONS: usize = 33;

    fn action(name: &str) -> Action {
        (Mode::Single, ArmId::new(name).unwrap())
    }

    fn vector(rng: &mut ChaCha8Rng) -> Array1<f64> {
        Array1::from_shape_fn(DIMENSIONS, |_| rng.random_range(-1.0..1.0))
    }

    #[test]
    fn the_running_inverse_drifts_less_than_1e_9_from_the_exact_one() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut ridge = Ridge::new(DIMENSIONS, 1.0);
        for _ in 0..20 * REFRESH_EVERY - 1 {
            ridge.learn(vector(&mut rng).view(), rng.random_range(0.0..1.0), 1.0);
        }
        assert_eq!(ridge.since_solve, REFRESH_EVERY - 1);
        let exact = Cholesky::of(ridge.gram.view()).unwrap();
        let drift = (&ridge.inverse - &exact.inverse()).iter().fold(0.0, |most: f64, e| most.max(e.abs()));
        assert!(drift < 1e-9, "{drift}");
        let theta = exact.solve(ridge.moment.view());
        assert!((&ridge.theta - &theta).iter().all(|e| e.abs() < 1e-9));
    }

    #[test]
    fn forgetting_is_the_weighted_regression() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let keep = 0.995_f64;
        let mut ridges = Ridges::new(DIMENSIONS, 2.0);
        let mut seen = vec![];
        for _ in 0..4 * FORGET_EVERY {
            let (x, y) = (vector(&mut rng), rng.random_range(0.0..1.0));
            ridges.learn(action("a"), x.view(), y, 1.0);
            ridges.forget(keep);
            seen.push((x, y));
        }
        // All rounds of a block are forgotten together, at its end.
        let factor = |place: usize| keep.powi(((seen.len() - place).div_ceil(32) * 32) as i32);
        let (mut gram, mut squared) = (Array2::<f64>::eye(DIMENSIONS) * 2.0, Array2::<f64>::eye(DIMENSIONS) * 2.0);
        let mut moment = Array1::<f64>::zeros(DIMENSIONS);
        for (place, (x, y)) in seen.iter().enumerate() {
            let outer = Array2::from_shape_fn((DIMENSIONS, DIMENSIONS), |(i, j)| x[i] * x[j]);
            gram.scaled_add(factor(place), &outer);
            squared.scaled_add(factor(place).powi(2), &outer);
            moment.scaled_add(factor(place) * y, x);
        }
        let inverse = Cholesky::of(gram.view()).unwrap().inverse();
        let x = vector(&mut rng);
        let direction = inverse.dot(&x);
        let (mean, width) = ridges.estimate(&action("a"), x.view());
        assert!((mean - direction.dot(&moment)).abs() < 1e-9);
        assert!((width - direction.dot(&squared.dot(&direction)).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn a_state_comes_back_bit_for_bit_and_a_damaged_row_costs_its_action_alone() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut ridges = Ridges::new(DIMENSIONS, 1.0);
        for round in 0..100 {
            ridges.learn(action(["a", "b"][round % 2]), vector(&mut rng).view(), rng.random(), 1.0);
            ridges.forget(0.99);
        }
        let mut state: Value = serde_json::from_str(&ridges.state().to_string()).unwrap();
        let mut again = Ridges::new(DIMENSIONS, 1.0);
        assert!(again.restore(&state).unwrap().is_empty());
        let x = vector(&mut rng);
        for name in ["a", "b", "c"] {
            assert_eq!(again.estimate(&action(name), x.view()), ridges.estimate(&action(name), x.view()));
        }
        state["rows"][0]["numbers"][40] = Value::Null;
        assert_eq!(again.restore(&state).unwrap(), [action("a")]);
        assert_eq!(again.estimate(&action("a"), x.view()).0, 0.0);
        assert_eq!(again.estimate(&action("b"), x.view()), ridges.estimate(&action("b"), x.view()));
        assert!(Ridges::new(DIMENSIONS + 1, 1.0).restore(&state).is_err());
    }
}
