//! The vocabulary of texts: the terms that are in the most of them, with their inverse document frequencies.

use std::sync::Arc;

use super::{TrainError, fit::frequent_terms};
use crate::action::policy::{Vocabulary, words};

/// Terms kept: a weight per arm each, and a column of the matrix that is fitted.
const TERMS_MAX: usize = 2_000;
/// A term must be in at least so many texts; what is rarer is a name or a number.
const TEXTS_MIN: usize = 3;

/// The vocabulary of some texts; idf = ln((1 + n) / (1 + df)) + 1, as if one more text held every term.
pub(super) fn vocabulary(texts: &[Arc<str>]) -> Result<Vocabulary, TrainError> {
    let documents: Vec<String> = texts.iter().map(|text| words(text).join(" ")).collect();
    // linfa rounds the least count down.
    let frequency_min = (TEXTS_MIN as f32 + 0.5) / documents.len().max(TEXTS_MIN + 1) as f32;
    let terms = frequent_terms(documents, TERMS_MAX, frequency_min).map_err(TrainError::Vocabulary)?;
    let unweighted = Vocabulary::new(terms.into_iter().map(|term| (term, 1.0)).collect());
    let unweighted = unweighted.map_err(TrainError::Vocabulary)?;
    let mut frequencies = vec![0_u32; unweighted.terms().len()];
    for text in texts {
        let mut found = unweighted.find(text);
        found.dedup();
        found.into_iter().for_each(|place| frequencies[place] += 1);
    }
    let idf = |frequency: u32| (((1 + texts.len()) as f64 / f64::from(1 + frequency)).ln() + 1.0) as f32;
    let terms = unweighted.terms().iter().zip(frequencies);
    Vocabulary::new(terms.map(|((term, _), frequency)| (term.clone(), idf(frequency))).collect())
        .map_err(TrainError::Vocabulary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_terms_are_left_out_and_frequent_ones_weigh_less() {
        let texts: Vec<Arc<str>> =
            (0..40).map(|n| format!("sort the list{} x{n}", if n < 10 { " twice" } else { "" }).into()).collect();
        let vocabulary = vocabulary(&texts).unwrap();
        let idf = |term: &str| vocabulary.terms().iter().find(|(known, _)| known == term).map(|(_, idf)| *idf);
        assert_eq!((idf("sort the"), idf("x7")), (Some(1.0), None));
        assert!((idf("list twice").unwrap() - ((41.0_f32 / 11.0).ln() + 1.0)).abs() < 1e-6);
        assert!(super::vocabulary(&["?".into(), "".into()]).is_err());
    }
}
