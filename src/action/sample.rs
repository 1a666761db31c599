//! One seeded draw from a distribution, and what a distribution must satisfy to be drawn from.
//!
//! A decision has one seed. The posterior draws that made its distribution and the draw from that distribution must
//! not share random numbers: if they did, the stated propensity would be wrong although every part looks right.
//! So each use has its own ChaCha stream under the seed.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How far from 1 a distribution's sum may be, from rounding.
pub const SUM_TOLERANCE: f64 = 1e-9;

/// What a decision's random numbers are used for; each use is independent of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Drawing the action.
    Action,
    /// Drawing from a posterior to find the distribution.
    Posterior,
    /// Giving the voter at this place its own seed.
    Voter(u32),
    /// How often the model at this place of a bag takes the round.
    Bag(u32),
    /// Whether the answer is judged by a model.
    Judge,
    /// Whether an evaluation of another policy keeps the round.
    Rejection,
    /// Giving each step of a cascade its own seed.
    Cascade,
    /// Whether the task is run on every arm.
    Audit,
    /// The tokens of a trajectory.
    Trajectory,
}

/// Why a distribution cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum PmfError {
    /// There is nothing to choose from.
    #[error("there is no entry to choose from")]
    Empty,
    /// A score or a probability is NaN or infinite.
    #[error("an entry is not finite")]
    NotFinite,
    /// A probability is below 0.
    #[error("a probability is below 0")]
    Negative,
    /// The probabilities do not sum to 1.
    #[error("the probabilities sum to {0}, not to 1")]
    Sum(f64),
}

/// The random numbers of one use under a decision's seed.
pub fn stream(seed: u64, stream: Stream) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(match stream {
        Stream::Action => 0,
        Stream::Posterior => 1,
        Stream::Voter(place) => 2 + u64::from(place),
        // Past every voter's.
        Stream::Bag(place) => (1 << 33) + u64::from(place),
        Stream::Judge => 1 << 34,
        Stream::Rejection => 1 << 35,
        Stream::Cascade => 1 << 37,
        Stream::Audit => 1 << 36,
        Stream::Trajectory => 1 << 38,
    });
    rng
}

/// Checks a distribution (finite, not negative, sum within [`SUM_TOLERANCE`] of 1) and removes the rounding.
///
/// ```
/// use pointsman::action::sample::normalised;
/// assert_eq!(normalised(vec![0.25, 0.75]).unwrap(), [0.25, 0.75]);
/// assert!(normalised(vec![0.5, 0.6]).is_err());
/// ```
pub fn normalised(mut pmf: Vec<f64>) -> Result<Vec<f64>, PmfError> {
    if pmf.is_empty() {
        return Err(PmfError::Empty);
    }
    if pmf.iter().any(|p| !p.is_finite()) {
        return Err(PmfError::NotFinite);
    }
    if pmf.iter().any(|p| *p < 0.0) {
        return Err(PmfError::Negative);
    }
    let sum: f64 = pmf.iter().sum();
    if (sum - 1.0).abs() > SUM_TOLERANCE {
        return Err(PmfError::Sum(sum));
    }
    // A sum of exactly 1 is left alone, so that checking twice changes nothing.
    if sum != 1.0 {
        pmf.iter_mut().for_each(|p| *p /= sum);
    }
    Ok(pmf)
}

/// Draws one index with the stated probabilities; an entry of probability 0 is never drawn.
///
/// Inverse transform sampling with one 53-bit uniform number from the seed.
///
/// ```
/// use pointsman::action::sample::sample;
/// assert_eq!(sample(&[0.0, 1.0, 0.0], 7).unwrap(), 1);
/// assert_eq!(sample(&[0.5, 0.5], 7), sample(&[0.5, 0.5], 7));
/// ```
pub fn sample(pmf: &[f64], seed: u64) -> Result<usize, PmfError> {
    let pmf = normalised(pmf.to_vec())?;
    let uniform: f64 = stream(seed, Stream::Action).random();
    let mut below = 0.0;
    for (index, p) in pmf.iter().enumerate() {
        below += p;
        if uniform < below {
            return Ok(index);
        }
    }
    // Rounding left the sum a little under the uniform number: it belongs to the last entry that can be drawn.
    pmf.iter().rposition(|p| *p > 0.0).ok_or(PmfError::Empty)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::Rng as _;

    use super::*;

    #[test]
    fn refuses_what_is_not_a_distribution() {
        assert_eq!(sample(&[], 0), Err(PmfError::Empty));
        assert_eq!(sample(&[f64::NAN, 1.0], 0), Err(PmfError::NotFinite));
        assert_eq!(sample(&[-0.1, 1.1], 0), Err(PmfError::Negative));
        assert_eq!(sample(&[0.5, 0.4], 0), Err(PmfError::Sum(0.9)));
    }

    #[test]
    fn frequencies_match_the_probabilities() {
        let pmf = [0.5, 0.0, 0.3, 0.15, 0.05];
        let draws = 20_000;
        let mut counts = [0_u32; 5];
        for seed in 0..draws {
            counts[sample(&pmf, seed).unwrap()] += 1;
        }
        assert_eq!(counts[1], 0);
        for (count, p) in counts.iter().zip(pmf) {
            let expected = p * draws as f64;
            let deviation = (f64::from(*count) - expected).abs();
            assert!(deviation <= 4.0 * (expected * (1.0 - p)).sqrt(), "{counts:?} against {pmf:?}");
        }
    }

    #[test]
    fn uses_of_one_seed_share_no_random_numbers() {
        let first = |use_of| stream(3, use_of).random::<u64>();
        let numbers = [
            Stream::Action,
            Stream::Posterior,
            Stream::Voter(0),
            Stream::Voter(1),
            Stream::Bag(0),
            Stream::Bag(1),
            Stream::Judge,
            Stream::Rejection,
            Stream::Audit,
        ]
        .map(first);
        for (index, number) in numbers.iter().enumerate() {
            assert!(!numbers[..index].contains(number));
        }
    }

    proptest! {
        #[test]
        fn never_draws_an_entry_of_probability_zero(raw in prop::collection::vec(0_u8..4, 1..12), seed: u64) {
            let total: f64 = raw.iter().map(|x| f64::from(*x)).sum();
            prop_assume!(total > 0.0);
            let pmf: Vec<f64> = raw.iter().map(|x| f64::from(*x) / total).collect();
            prop_assert!(raw[sample(&pmf, seed).unwrap()] > 0);
        }
    }
}
