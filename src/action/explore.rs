//! From scores to probabilities: pure functions that any policy can end with.
//!
//! Each returns a distribution or says why it cannot; none draws an action. Thompson sampling's propensity has no
//! closed form, so it is counted over draws from the posterior (the literature's shortcut of stating 1 or 1/n for the
//! drawn arm ruins every later off-policy estimate).

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::cholesky::Cholesky;
use super::sample::{PmfError, Stream, stream};

/// All mass on the highest score, shared equally between ties.
///
/// ```
/// use pointsman::action::explore::greedy;
/// assert_eq!(greedy(&[0.2, 0.9, 0.9]).unwrap(), [0.0, 0.5, 0.5]);
/// ```
pub fn greedy(scores: &[f64]) -> Result<Vec<f64>, PmfError> {
    let best = highest(scores)?;
    let ties = scores.iter().filter(|score| **score == best).count() as f64;
    Ok(scores.iter().map(|score| if *score == best { 1.0 / ties } else { 0.0 }).collect())
}

/// Epsilon-greedy: p = (1 - epsilon) greedy + epsilon / K, epsilon in [0, 1].
///
/// Reference: Sutton and Barto, Reinforcement Learning, 2nd ed., section 2.2.
///
/// ```
/// use pointsman::action::explore::epsilon_greedy;
/// assert_eq!(epsilon_greedy(&[1.0, 0.0], 0.2).unwrap(), [0.9, 0.1]);
/// ```
pub fn epsilon_greedy(scores: &[f64], epsilon: f64) -> Result<Vec<f64>, PmfError> {
    with_floor(greedy(scores)?, epsilon)
}

/// Optimism: all mass on the highest upper bound mean + width, then the floor.
///
/// Reference: Auer, Cesa-Bianchi and Fischer, Finite-time Analysis of the Multiarmed Bandit Problem, 2002.
///
/// ```
/// use pointsman::action::explore::optimistic;
/// assert_eq!(optimistic(&[0.5, 0.4], &[0.1, 0.3], 0.0).unwrap(), [0.0, 1.0]);
/// ```
pub fn optimistic(means: &[f64], widths: &[f64], floor: f64) -> Result<Vec<f64>, PmfError> {
    let bounds: Vec<f64> = means.iter().zip(widths).map(|(mean, width)| mean + width).collect();
    epsilon_greedy(&bounds, floor)
}

/// SquareCB, inverse gap weighting: p_a = 1 / (K + gamma (best - score_a)) for all but the best, which gets the rest.
///
/// `gamma` at least 0; 0 is uniform, and it should grow like the square root of the rounds.
/// Reference: Foster and Rakhlin, Beyond UCB: Optimal and Efficient Contextual Bandits with Regression Oracles, 2020.
///
/// ```
/// use pointsman::action::explore::square_cb;
/// assert_eq!(square_cb(&[1.0, 0.0], 2.0).unwrap(), [0.75, 0.25]);
/// ```
pub fn square_cb(scores: &[f64], gamma: f64) -> Result<Vec<f64>, PmfError> {
    let best = highest(scores)?;
    if !gamma.is_finite() {
        return Err(PmfError::NotFinite);
    }
    if gamma < 0.0 {
        return Err(PmfError::Negative);
    }
    let arms = scores.len() as f64;
    let mut pmf: Vec<f64> = scores.iter().map(|score| 1.0 / (arms + gamma * (best - score))).collect();
    let greedy_arm = scores.iter().position(|score| *score == best).ok_or(PmfError::Empty)?;
    pmf[greedy_arm] = 0.0;
    pmf[greedy_arm] = (1.0 - pmf.iter().sum::<f64>()).max(0.0);
    Ok(pmf)
}

/// Thompson sampling's distribution, counted: the share of `draws` posterior draws in which each arm scores highest.
///
/// `draw` fills one joint draw of all arms' scores; equal scores share the count. `draws` is about 64 to 256.
/// Reference: Russo et al., A Tutorial on Thompson Sampling, 2018.
pub fn counted_draws(
    arms: usize,
    draws: u32,
    seed: u64,
    mut draw: impl FnMut(&mut ChaCha8Rng, &mut [f64]),
) -> Result<Vec<f64>, PmfError> {
    let mut rng = stream(seed, Stream::Posterior);
    let mut scores = vec![0.0; arms];
    let mut pmf = vec![0.0; arms];
    for _ in 0..draws.max(1) {
        draw(&mut rng, &mut scores);
        let best = highest(&scores)?;
        let ties = scores.iter().filter(|score| **score == best).count() as f64;
        for (p, score) in pmf.iter_mut().zip(&scores) {
            if *score == best {
                *p += 1.0 / ties;
            }
        }
    }
    pmf.iter_mut().for_each(|p| *p /= f64::from(draws.max(1)));
    Ok(pmf)
}

/// [`counted_draws`] from a joint normal posterior: each draw's deviations from the mean have the covariance that `factor` is
/// of, and `score` makes an arm's score of its place and its deviation.
pub(super) fn joint_draws(
    arms: usize,
    factor: &Cholesky,
    draws: u32,
    seed: u64,
    score: impl Fn(usize, f64) -> f64,
) -> Result<Vec<f64>, PmfError> {
    let mut normals = vec![0.0; arms];
    counted_draws(arms, draws, seed, |rng, scores| {
        normals.iter_mut().for_each(|normal| *normal = StandardNormal.sample(rng));
        factor.multiply(&normals, scores);
        scores.iter_mut().enumerate().for_each(|(place, deviation)| *deviation = score(place, *deviation));
    })
}

/// [`counted_draws`] from independent normal posteriors, one mean and one standard deviation per arm.
///
/// ```
/// use pointsman::action::explore::gaussian_draws;
/// let pmf = gaussian_draws(&[0.0, 1.0], &[0.1, 0.1], 100, 7).unwrap();
/// assert_eq!(pmf, [0.0, 1.0]);
/// ```
pub fn gaussian_draws(means: &[f64], deviations: &[f64], draws: u32, seed: u64) -> Result<Vec<f64>, PmfError> {
    counted_draws(means.len(), draws, seed, |rng, scores| {
        for ((score, mean), deviation) in scores.iter_mut().zip(means).zip(deviations) {
            let normal: f64 = StandardNormal.sample(rng);
            *score = mean + deviation * normal;
        }
    })
}

/// Mixes with uniform, so that each of K entries has at least floor / K: p = (1 - floor) p + floor / K.
///
/// `floor` in [0, 1]: the share of rounds spent on uniform exploration, and what bounds an importance weight by
/// K / floor.
pub fn with_floor(mut pmf: Vec<f64>, floor: f64) -> Result<Vec<f64>, PmfError> {
    if pmf.is_empty() {
        return Err(PmfError::Empty);
    }
    if !floor.is_finite() {
        return Err(PmfError::NotFinite);
    }
    let floor = floor.clamp(0.0, 1.0);
    let share = floor / pmf.len() as f64;
    pmf.iter_mut().for_each(|p| *p = (1.0 - floor) * *p + share);
    Ok(pmf)
}

fn highest(scores: &[f64]) -> Result<f64, PmfError> {
    if scores.is_empty() {
        return Err(PmfError::Empty);
    }
    if scores.iter().any(|score| !score.is_finite()) {
        return Err(PmfError::NotFinite);
    }
    Ok(scores.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::normalised;
    use super::*;

    #[test]
    fn refuses_no_score_and_scores_that_are_not_finite() {
        for (scores, error) in [(vec![], PmfError::Empty), (vec![0.1, f64::NAN], PmfError::NotFinite)] {
            assert_eq!(greedy(&scores), Err(error));
            assert_eq!(epsilon_greedy(&scores, 0.1), Err(error));
            assert_eq!(square_cb(&scores, 1.0), Err(error));
            assert_eq!(gaussian_draws(&scores, &[0.1, 0.1], 8, 1), Err(error));
        }
        assert_eq!(square_cb(&[0.0], -1.0), Err(PmfError::Negative));
    }

    #[test]
    fn counted_draws_agree_with_the_normal_probability() {
        // P(N(0.1, 1) > N(0, 1)) = Phi(0.1 / sqrt 2) = 0.52819.
        let pmf = gaussian_draws(&[0.0, 0.1], &[1.0, 1.0], 200_000, 3).unwrap();
        assert!((pmf[1] - 0.52819).abs() < 0.004, "{pmf:?}");
    }

    proptest! {
        #[test]
        fn every_result_is_a_distribution_and_respects_its_floor(
            scores in prop::collection::vec(-5.0_f64..5.0, 1..12),
            floor in 0.0_f64..1.0,
            gamma in 0.0_f64..500.0,
            seed: u64,
        ) {
            let least = floor / scores.len() as f64 - 1e-12;
            let deviations = vec![0.3; scores.len()];
            for pmf in [
                epsilon_greedy(&scores, floor).unwrap(),
                with_floor(square_cb(&scores, gamma).unwrap(), floor).unwrap(),
                with_floor(gaussian_draws(&scores, &deviations, 32, seed).unwrap(), floor).unwrap(),
            ] {
                prop_assert!(normalised(pmf.clone()).is_ok());
                prop_assert!(pmf.iter().all(|p| *p >= least));
            }
        }

        #[test]
        fn a_higher_score_is_never_less_probable(scores in prop::collection::vec(-1.0_f64..1.0, 2..9)) {
            let pmf = square_cb(&scores, 20.0).unwrap();
            for a in 0..scores.len() {
                for b in 0..scores.len() {
                    prop_assert!(scores[a] <= scores[b] || pmf[a] >= pmf[b] - 1e-12);
                }
            }
        }
    }
}
