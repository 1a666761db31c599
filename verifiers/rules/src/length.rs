//! Length within bounds, and repetition.
//!
//! Repetition is the share of distinct 16-character shingles, measured over the head and over the tail, because a
//! model that falls into a loop does so at the end. Prose has a share above 0.9, tables and code above 0.4; the
//! bar at 0.2 leaves them alone. Windows bound the work whatever the length.

use verdict::Object;

use std::hash::{DefaultHasher, Hash, Hasher};

/// Characters in one shingle.
const SHINGLE: usize = 16;
/// Longest stretch looked at from the start.
const HEAD: usize = 16_384;
/// Stretch looked at from the end.
const TAIL: usize = 2_048;
/// Below this many shingles a repetition says nothing ("ha ha ha").
const SHINGLES_MIN: usize = 256;
/// Share of distinct shingles from which an answer is not repetitive.
const DISTINCT_FINE: f64 = 0.2;

/// Characters allowed, both ends included.
#[derive(Clone, Copy)]
pub struct Bounds {
    min: u64,
    max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { min: 1, max: 100_000 }
    }
}

impl Bounds {
    /// Takes over `min_chars` and `max_chars` where `keys` has them.
    ///
    /// # Errors
    /// Says which key is wrong.
    pub fn with(self, keys: &Object) -> Result<Self, String> {
        let read = |key: &str, default: u64| match keys.get(key) {
            None => Ok(default),
            Some(value) => value.as_u64().ok_or_else(|| format!("{key} is not a whole number >= 0")),
        };
        let bounds = Self { min: read("min_chars", self.min)?, max: read("max_chars", self.max)? };
        if bounds.max == 0 {
            return Err("max_chars is 0".to_owned());
        }
        if bounds.min > bounds.max {
            return Err(format!("min_chars {} is above max_chars {}", bounds.min, bounds.max));
        }
        Ok(bounds)
    }
}

pub struct Found {
    /// In [0, 1].
    pub score: f64,
    pub detail: String,
}

#[must_use]
pub fn score(response: &str, bounds: Bounds) -> Found {
    let text = response.trim();
    let chars = text.chars().count() as u64;
    let fit = if chars < bounds.min {
        chars as f64 / bounds.min as f64
    } else if chars > bounds.max {
        bounds.max as f64 / chars as f64
    } else {
        1.0
    };
    let distinct = distinct_share(text);
    let fresh = (distinct / DISTINCT_FINE).min(1.0);
    Found { score: fit * fresh, detail: format!("{chars} characters, {:.0} % distinct", distinct * 100.0) }
}

/// In [0, 1]; 1 for a short text.
fn distinct_share(text: &str) -> f64 {
    let head: Vec<char> = text.chars().take(HEAD).collect();
    let tail: Vec<char> = text.chars().rev().take(TAIL).collect();
    window_share(&head).min(window_share(&tail))
}

fn window_share(window: &[char]) -> f64 {
    let mut shingles: Vec<u64> = window.windows(SHINGLE).map(hash).collect();
    let total = shingles.len();
    if total < SHINGLES_MIN {
        return 1.0;
    }
    shingles.sort_unstable();
    shingles.dedup();
    shingles.len() as f64 / total as f64
}

fn hash(shingle: &[char]) -> u64 {
    // `DefaultHasher::new` has fixed keys: the same text scores the same everywhere.
    let mut hasher = DefaultHasher::new();
    shingle.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_and_tables_are_not_repetitive() {
        let table: String = (0..200).map(|i| format!("| row {i} | {} | {} |\n", i * 37 % 101, i * i)).collect();
        assert_eq!(score(&table, Bounds::default()).score, 1.0);
        let list: String = (0..300).map(|i| format!("{{\"id\": {i}, \"ok\": true}},\n")).collect();
        assert_eq!(score(&list, Bounds::default()).score, 1.0, "{}", score(&list, Bounds::default()).detail);
    }

    #[test]
    fn a_loop_at_the_end_is_seen_behind_a_good_start() {
        let good: String =
            (0..400u32).map(|i| format!("sentence {} goes on; ", i.wrapping_mul(2_654_435_761))).collect();
        assert_eq!(score(&good, Bounds::default()).score, 1.0);
        assert!(score(&(good + &"and so on ".repeat(300)), Bounds::default()).score < 0.1);
    }

    #[test]
    fn bounds_fall_off_in_proportion() {
        let keys = |text: &str| serde_json::from_str::<Object>(text).unwrap();
        let bounds = Bounds::default().with(&keys(r#"{"min_chars":10,"max_chars":20}"#)).unwrap();
        assert_eq!(score("12345", bounds).score, 0.5);
        assert_eq!(score(&"x".repeat(40), bounds).score, 0.5);
        assert_eq!(score("äöüäöüäöüä", bounds).score, 1.0);
    }
}
