//! The bridge to linfa, which is built on another version of ndarray than the rest: numbers cross as vectors.

use std::cmp::Ordering;

use linfa::{DatasetBase, ParamGuard, traits::Fit};
use linfa_logistic::LogisticRegression;
use linfa_preprocessing::{CountVectorizer, Tokenizer};
use ndarray_of_linfa::{Array1, Array2, ShapeBuilder};

/// Steps of the solver at most; it takes 20 to 100.
const STEPS_MAX: u64 = 200;
/// The gradient's length at which it stops. The loss is a sum over rounds, so this is fine enough for any of them.
const GRADIENT_TOLERANCE: f64 = 0.05;

/// A linear function: an intercept and one weight per column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Linear {
    pub intercept: f64,
    pub weights: Vec<f64>,
}

/// Rounds to fit: what was seen, and whether it was a success.
pub(super) struct Problem {
    dataset: DatasetBase<Array2<f64>, Array1<bool>>,
}

impl Problem {
    /// The cells are given column by column, the order in which the solver's gradient reads them. None when there are
    /// not as many cells as rounds times columns.
    pub(super) fn new(cells: Vec<f64>, successes: Vec<bool>) -> Option<Self> {
        let columns = cells.len() / successes.len().max(1);
        let records = Array2::from_shape_vec((successes.len(), columns).f(), cells).ok()?;
        Some(Self { dataset: DatasetBase::new(records, Array1::from(successes)) })
    }

    /// Minimises sum_i log(1 + exp(-y_i (b + w x_i))) + alpha / 2 |w|^2 by L-BFGS, y = 1 for a success and -1 else; the
    /// intercept is not shrunk. Starts from `start` where there is one.
    ///
    /// None when the successes are all alike, or when the solver finds no way down.
    pub(super) fn solve(&self, alpha: f64, start: Option<&Linear>) -> Option<Linear> {
        let successes = self.dataset.targets();
        let regression =
            LogisticRegression::default().alpha(alpha).max_iterations(STEPS_MAX).gradient_tolerance(GRADIENT_TOLERANCE);
        let sign = |positive: bool| if positive { 1.0 } else { -1.0 };
        let regression = match start {
            Some(start) => {
                let sign = sign(Self::positive(successes.iter().copied()));
                let numbers = start.weights.iter().chain([&start.intercept]).map(|number| sign * number);
                regression.initial_params(numbers.collect())
            }
            None => regression,
        };
        let fitted = regression.check().ok()?.fit(&self.dataset).ok()?;
        let sign = sign(fitted.labels().pos.class);
        let weights: Vec<f64> = fitted.params().iter().map(|weight| sign * weight).collect();
        let intercept = sign * fitted.intercept();
        let finite = intercept.is_finite() && weights.iter().all(|weight| weight.is_finite());
        finite.then_some(Linear { intercept, weights })
    }

    /// The class that linfa calls positive: the more frequent one, and of two that are as frequent the one it met first.
    fn positive(mut successes: impl Iterator<Item = bool> + Clone) -> bool {
        let (trues, rounds) =
            successes.clone().fold((0, 0), |(trues, rounds), success| (trues + usize::from(success), rounds + 1));
        match (2 * trues).cmp(&rounds) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => successes.next().unwrap_or(true),
        }
    }
}

/// The words and pairs of words that are in the most documents, at most `terms_max`, in alphabetical order.
/// `documents` are words with spaces between; a term must be in a share of at least `frequency_min` of them.
pub(super) fn frequent_terms(
    documents: Vec<String>,
    terms_max: usize,
    frequency_min: f32,
) -> Result<Vec<String>, String> {
    let counted = CountVectorizer::params()
        .tokenizer(Tokenizer::Function(|document| document.split(' ').filter(|word| !word.is_empty()).collect()))
        .convert_to_lowercase(false)
        .normalize(false)
        .n_gram_range(1, 2)
        .document_frequency(frequency_min, 1.0)
        .max_features(Some(terms_max))
        .fit(&Array1::from(documents))
        .map_err(|error| error.to_string())?;
    let mut terms = counted.vocabulary().clone();
    terms.sort();
    Ok(terms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fit_is_at_the_minimum_whichever_class_is_more_frequent_or_first() {
        // One column: the minimum satisfies sum_i (p_i - y_i) = 0 and sum_i (p_i - y_i) x_i + alpha w = 0.
        let column = [-1.0, 0.5, 2.0, 1.0, -0.3, 0.1];
        for successes in [
            [false, true, true, false, true, true],
            [true, false, false, false, true, false],
            [true, false, true, false, true, false],
            [false, false, true, false, true, true],
        ] {
            let problem = Problem::new(column.to_vec(), successes.to_vec()).unwrap();
            for alpha in [0.1, 3.0] {
                let fitted = problem.solve(alpha, None).unwrap();
                let error = |place: usize| {
                    let log_odds = fitted.intercept + fitted.weights[0] * column[place];
                    1.0 / (1.0 + (-log_odds).exp()) - f64::from(u8::from(successes[place]))
                };
                let intercept: f64 = (0..column.len()).map(error).sum();
                let weight = (0..column.len()).map(|place| error(place) * column[place]).sum::<f64>();
                let gradient = intercept.hypot(weight + alpha * fitted.weights[0]);
                assert!(gradient <= GRADIENT_TOLERANCE, "{fitted:?}");
                // At the minimum already, the solver has nothing to do.
                assert_eq!(problem.solve(alpha, Some(&fitted)), Some(fitted));
            }
        }
        assert_eq!(Problem::new(column.to_vec(), vec![true; 6]).unwrap().solve(1.0, None), None);
        assert!(Problem::new(column.to_vec(), vec![true; 5]).is_none());
    }

    #[test]
    fn terms_are_counted_by_document() {
        let documents = ["b b b a", "a c", "", "a c d"].map(Into::into).to_vec();
        assert_eq!(frequent_terms(documents, 3, 0.0).unwrap(), ["a", "a c", "c"]);
    }
}
