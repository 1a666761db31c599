//! The bridge to linfa, which is built on another version of ndarray than the rest: numbers cross as vectors.

use linfa::{DatasetBase, ParamGuard, traits::Fit};
use linfa_logistic::LogisticRegression;
use linfa_preprocessing::{CountVectorizer, Tokenizer};
use ndarray_of_linfa::{Array1, Array2};

/// Steps of the solver at most; it takes 20 to 60.
const STEPS_MAX: u64 = 200;
/// The gradient's length at which it stops. The loss is a sum over rounds, so this is fine enough for any of them.
const GRADIENT_TOLERANCE: f64 = 0.01;

/// A linear function: an intercept and one weight per column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Linear {
    pub intercept: f64,
    pub weights: Vec<f64>,
}

/// A matrix by rows.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    pub cells: Vec<f64>,
    pub columns: usize,
}

impl Linear {
    /// The value at one row.
    pub(super) fn at(&self, row: &[f64]) -> f64 {
        self.intercept + self.weights.iter().zip(row).map(|(w, x)| w * x).sum::<f64>()
    }
}

/// Minimises sum_i log(1 + exp(-y_i (b + w x_i))) + alpha / 2 |w|^2 by L-BFGS, y = 1 for a success and -1 else; the
/// intercept is not shrunk. Starts from `start` where there is one.
///
/// None when the successes are all alike, or when the solver finds no way down.
pub(super) fn logistic(rows: &Matrix, successes: &[bool], alpha: f64, start: Option<&Linear>) -> Option<Linear> {
    let records = Array2::from_shape_vec((successes.len(), rows.columns), rows.cells.clone()).ok()?;
    let dataset = DatasetBase::new(records, Array1::from(successes.to_vec()));
    let regression =
        LogisticRegression::default().alpha(alpha).max_iterations(STEPS_MAX).gradient_tolerance(GRADIENT_TOLERANCE);
    // linfa calls the class that is more frequent positive.
    let sign = |positive: bool| if positive { 1.0 } else { -1.0 };
    let frequent = sign(2 * successes.iter().filter(|success| **success).count() >= successes.len());
    let regression = match start {
        Some(start) => {
            let numbers = start.weights.iter().chain([&start.intercept]).map(|number| frequent * number);
            regression.initial_params(numbers.collect())
        }
        None => regression,
    };
    let fitted = regression.check().ok()?.fit(&dataset).ok()?;
    let sign = sign(fitted.labels().pos.class);
    let weights: Vec<f64> = fitted.params().iter().map(|weight| sign * weight).collect();
    let intercept = sign * fitted.intercept();
    let finite = intercept.is_finite() && weights.iter().all(|weight| weight.is_finite());
    finite.then_some(Linear { intercept, weights })
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
        // One column, three rows: the minimum satisfies sum_i (p_i - y_i) = 0 and sum_i (p_i - y_i) x_i + alpha w = 0.
        let rows = Matrix { cells: vec![-1.0, 0.5, 2.0, 1.0, -0.3], columns: 1 };
        for successes in [[false, true, true, false, true], [true, false, false, false, true]] {
            for alpha in [0.1, 3.0] {
                let fitted = logistic(&rows, &successes, alpha, None).unwrap();
                let error = |place: usize| {
                    let p = 1.0 / (1.0 + (-fitted.at(&rows.cells[place..=place])).exp());
                    p - if successes[place] { 1.0 } else { 0.0 }
                };
                let intercept: f64 = (0..5).map(error).sum();
                let weight = (0..5).map(|place| error(place) * rows.cells[place]).sum::<f64>();
                assert!(intercept.abs() < 0.02 && (weight + alpha * fitted.weights[0]).abs() < 0.02, "{fitted:?}");
                let again = logistic(&rows, &successes, alpha, Some(&fitted)).unwrap();
                assert!((again.weights[0] - fitted.weights[0]).abs() < 0.02, "{again:?} {fitted:?}");
            }
        }
        assert_eq!(logistic(&rows, &[true; 5], 1.0, None), None);
    }

    #[test]
    fn terms_are_counted_by_document() {
        let documents = ["b b b a", "a c", "", "a c d"].map(Into::into).to_vec();
        assert_eq!(frequent_terms(documents, 3, 0.0).unwrap(), ["a", "a c", "c"]);
    }
}
