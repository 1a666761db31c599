//! From a text to TF-IDF weights: words and pairs of words that a vocabulary knows.
//!
//! Training and deciding share this code, so that they cannot disagree about what a word is. Deciding looks words up
//! and nothing else. Scripts written without spaces yield long words that no vocabulary knows; use the embedding there.

use std::collections::HashMap;

/// Characters of a text that are read: what bounds the time of a decision.
const TEXT_CHARS_MAX: usize = 4_000;
/// Terms that a vocabulary may have.
pub(super) const TERMS_MAX: usize = 10_000;
/// The largest inverse document frequency; that of a term in one of e^49 documents.
const IDF_MAX: f64 = 50.0;

/// Terms with their inverse document frequencies.
#[derive(Debug, Clone, PartialEq)]
pub struct Vocabulary {
    terms: Vec<(String, f32)>,
    places: HashMap<String, usize>,
}

/// A text's words: lower-case runs of at least two letters or digits.
pub fn words(text: &str) -> Vec<String> {
    let lowered = text.chars().take(TEXT_CHARS_MAX).collect::<String>().to_lowercase();
    let runs = lowered.split(|c: char| !c.is_alphanumeric());
    runs.filter(|word| word.chars().nth(1).is_some()).map(Into::into).collect()
}

impl Vocabulary {
    /// Terms (words, or two words with a space between) and their inverse document frequencies, above 0 and finite.
    pub fn new(terms: Vec<(String, f32)>) -> Result<Self, String> {
        if terms.is_empty() || terms.len() > TERMS_MAX {
            return Err(format!("a vocabulary has 1 to {TERMS_MAX} terms, this one has {}", terms.len()));
        }
        if let Some((term, idf)) = terms.iter().find(|(_, idf)| !(*idf > 0.0 && f64::from(*idf) <= IDF_MAX)) {
            return Err(format!("the idf of {term:?} is {idf}, it must be above 0 and at most {IDF_MAX}"));
        }
        let places: HashMap<_, _> = terms.iter().map(|(term, _)| term.clone()).zip(0..).collect();
        if places.len() < terms.len() {
            return Err("a term is there twice".into());
        }
        Ok(Self { terms, places })
    }

    /// The terms, each at its place.
    pub fn terms(&self) -> &[(String, f32)] {
        &self.terms
    }

    /// The places of a text's known terms, ascending, each as often as the term is there.
    pub fn find(&self, text: &str) -> Vec<usize> {
        let words = words(text);
        let mut found: Vec<usize> = words.iter().filter_map(|word| self.places.get(word)).copied().collect();
        let mut pair = String::new();
        for two in words.windows(2) {
            pair.clear();
            pair.push_str(&two[0]);
            pair.push(' ');
            pair.push_str(&two[1]);
            found.extend(self.places.get(&pair));
        }
        found.sort_unstable();
        found
    }

    /// The text's weights, count * idf divided by their Euclidean length, by ascending place; empty where no term is
    /// known.
    ///
    /// Reference: Salton and Buckley, Term-Weighting Approaches in Automatic Text Retrieval, 1988.
    pub fn weigh(&self, text: &str) -> Vec<(usize, f32)> {
        let mut weights: Vec<(usize, f32)> = Vec::new();
        for place in self.find(text) {
            let idf = self.terms[place].1;
            match weights.last_mut() {
                Some((last, weight)) if *last == place => *weight += idf,
                _ => weights.push((place, idf)),
            }
        }
        let length = weights.iter().map(|(_, weight)| weight * weight).sum::<f32>().sqrt();
        weights.iter_mut().for_each(|(_, weight)| *weight /= length);
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_pairs_are_found_whatever_their_case_and_weighed_to_unit_length() {
        let terms = [("sort", 1.0), ("the list", 2.0), ("list", 1.0)];
        let vocabulary = Vocabulary::new(terms.map(|(term, idf)| (term.into(), idf)).to_vec()).unwrap();
        assert_eq!(words("Sort(the_LIST), a 42!"), ["sort", "the", "list", "42"]);
        let weights = vocabulary.weigh("SORT, sort: the list!");
        // 2 * 1, 1 * 2 and 1 * 1, over their length 3.
        assert_eq!(weights.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(weights.iter().zip([2.0, 2.0, 1.0]).all(|((_, found), times)| (found - times / 3.0).abs() < 1e-6));
        assert!(vocabulary.weigh("nothing known").is_empty() && vocabulary.weigh("").is_empty());
    }

    #[test]
    fn a_vocabulary_that_makes_no_sense_is_refused() {
        for terms in [vec![], vec![("a", 1.0), ("a", 1.0)], vec![("a", f32::NAN)], vec![("a", 0.0)]] {
            let terms = terms.into_iter().map(|(term, idf)| (term.into(), idf)).collect();
            assert!(Vocabulary::new(terms).is_err());
        }
    }
}
