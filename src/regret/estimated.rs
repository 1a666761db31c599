//! Estimated regret of one domain, from logged propensities.
//!
//! Each round gives every arm that could be drawn a doubly robust pseudo-reward m(a) + 1{a = taken} (r - m(a)) / p (Dudik,
//! Langford and Li, Doubly Robust Policy Evaluation and Learning, 2011), with m(a) the arm's mean before the round, so that its
//! expectation is the arm's true value whatever m is. What it is above the reward got is the arm's gain; the regret is the best
//! arm's sum of gains. A round in which an arm could not be drawn says nothing of it and counts as no gain: the best fixed arm is
//! taken wherever it may be, and what was done elsewhere.
//!
//! How far gains will be from their means is known before they come: r - m(a) is weighed with 1 / p - 1 where a is taken, which
//! has probability p, and r is got of another arm else. Intervals count with the larger of that and of what was seen, which is too
//! small while an arm that is hardly ever drawn was not (`confidence`).
//!
//! The highest sum is too high on average while rounds are few, and can be negative; the interval allows for both (`gains`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::gains::{Best, Gains, Spread, Term};
use crate::round::ArmId;

/// Where intervals are tightest, in rounds.
const TIGHTEST_AT: u64 = 2_000;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct ArmSums {
    n: f64,
    reward: f64,
}

/// Sums of one domain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Kept")]
pub(super) struct Estimated {
    rounds: f64,
    reward: f64,
    arms: BTreeMap<ArmId, ArmSums>,
    gains: Gains,
    /// Of rewards about the mean of their arm.
    spread: Spread,
    /// Rounds that the gains are of.
    covered: u64,
    /// The regret of those before, of which no interval is known.
    #[serde(skip_serializing_if = "is_nothing")]
    carried: f64,
}

/// As it is kept. Before there were intervals each arm had a sum of pseudo-rewards over all rounds, and there were no gains.
#[derive(Deserialize)]
struct Kept {
    rounds: f64,
    reward: f64,
    arms: BTreeMap<ArmId, KeptArm>,
    #[serde(default)]
    gains: Gains,
    #[serde(default)]
    spread: Spread,
    #[serde(default)]
    covered: u64,
    #[serde(default)]
    carried: f64,
}

#[derive(Deserialize)]
struct KeptArm {
    n: f64,
    reward: f64,
    #[serde(default)]
    doubly_robust: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_nothing(carried: &f64) -> bool {
    *carried == 0.0
}

impl From<Kept> for Estimated {
    fn from(Kept { rounds, reward, arms, gains, spread, covered, carried }: Kept) -> Self {
        let best = arms.values().filter_map(|arm| arm.doubly_robust).fold(f64::NEG_INFINITY, f64::max);
        let carried = if best.is_finite() { best - reward } else { carried };
        let sums = |(id, KeptArm { n, reward, .. })| (id, ArmSums { n, reward });
        Self { rounds, reward, arms: arms.into_iter().map(sums).collect(), gains, spread, covered, carried }
    }
}

impl Estimated {
    /// Adds a round in which `arm` was drawn with probability `propensity` of the candidates, each with its own, and gave
    /// `reward`.
    pub(super) fn observe(&mut self, candidates: &[(ArmId, f64)], arm: &ArmId, propensity: f64, reward: f64) {
        let domain_mean = if self.rounds > 0.0 { self.reward / self.rounds } else { 0.0 };
        let mean = |id: &ArmId| {
            let (n, sum) = self.arms.get(id).map_or((0.0, 0.0), |sums| (sums.n, sums.reward));
            (sum + domain_mean) / (n + 1.0)
        };
        let drawable: Vec<_> = candidates.iter().filter(|(_, p)| *p > 0.0).map(|(id, p)| (id, *p, mean(id))).collect();
        let (square, fourth) = self.spread.expected();
        let all = Moments::of(&drawable);
        let terms = drawable.iter().map(|&(id, p, mean)| {
            let correction = if id == arm { (reward - mean) / propensity } else { 0.0 };
            // Where it is taken, with probability p, (1 / p - 1) (r - m); else m less what another arm brings.
            let weight = 1.0 / p - 1.0;
            let (squares, fourths) = all.without(p, mean, square);
            Term {
                arm: id,
                gain: mean + correction - reward,
                expected: Some((p * weight.powi(2) * square + squares, p * weight.powi(4) * fourth + fourths)),
            }
        });
        let (terms, residual) = (terms.collect::<Vec<_>>(), reward - mean(arm));
        self.gains.observe(&terms, TIGHTEST_AT);
        self.spread.add(residual);
        let sums = self.arms.entry(arm.clone()).or_default();
        sums.n += 1.0;
        sums.reward += reward;
        self.rounds += 1.0;
        self.reward += reward;
        self.covered += 1;
    }

    pub(super) fn cum_regret(&self) -> f64 {
        self.carried + self.gains.sum()
    }

    /// The arm that would have been best for all rounds.
    pub(super) fn best_arm(&self) -> Option<&ArmId> {
        self.gains.best_arm()
    }

    /// The rounds that an interval is about, and what it is of them.
    pub(super) fn best(&self, alpha: f64) -> (u64, Best) {
        (self.covered, self.gains.best(alpha))
    }
}

/// Sums of p m^k over the arms that could be drawn, k from 0 to 4: what is asked of every pair of arms is had from them in one
/// pass.
struct Moments([f64; 5]);

impl Moments {
    fn of(drawable: &[(&ArmId, f64, f64)]) -> Self {
        let mut sums = [0.0; 5];
        for &(_, p, mean) in drawable {
            let mut power = p;
            for sum in &mut sums {
                *sum += power;
                power *= mean;
            }
        }
        Self(sums)
    }

    /// Sums of q (s + (m - n)^2) and q (s + (m - n)^2)^2 over the arms, each with probability q and mean n, other than one with
    /// probability p and mean m.
    fn without(&self, p: f64, m: f64, s: f64) -> (f64, f64) {
        let [m0, m1, m2, m3, m4] = self.0;
        let second = (m2 - 2.0 * m * m1 + m * m * m0).max(0.0);
        let fourth = (m4 - 4.0 * m * m3 + 6.0 * m * m * m2 - 4.0 * m.powi(3) * m1 + m.powi(4) * m0).max(0.0);
        (s * (m0 - p) + second, s * s * (m0 - p) + 2.0 * s * second + fourth)
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn arms() -> [(ArmId, f64); 3] {
        [("a", 0.5), ("b", 0.3), ("c", 0.2)].map(|(id, p)| (ArmId::new(id).unwrap(), p))
    }

    #[test]
    fn agrees_with_the_truth_on_a_seeded_log() {
        let (candidates, values) = (arms(), [0.8, 0.5, 0.3]);
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let mut estimated = Estimated::default();
        let rounds = 20_000;
        for _ in 0..rounds {
            let u: f64 = rng.random();
            let taken = if u < 0.5 {
                0
            } else if u < 0.8 {
                1
            } else {
                2
            };
            let reward = if rng.random::<f64>() < values[taken] { 1.0 } else { 0.0 };
            let (arm, p) = &candidates[taken];
            estimated.observe(&candidates, arm, *p, reward);
        }
        let value: f64 = candidates.iter().zip(values).map(|((_, p), value)| p * value).sum();
        let truth = f64::from(rounds) * (0.8 - value);
        assert!((estimated.cum_regret() / truth - 1.0).abs() < 0.05, "{} against {truth}", estimated.cum_regret());
        let (covered, best) = estimated.best(0.05);
        let interval = best.interval.unwrap();
        assert!(covered == 20_000 && interval.contains(truth) && interval.width() < 0.2 * truth, "{interval:?}");
    }

    /// As it stands in the states that compaction left.
    #[test]
    fn a_state_from_before_there_were_intervals_is_taken_over_with_its_regret() {
        let kept = r#"{"rounds":200.0,"reward":120.0,"arms":{"a":{"n":150.0,"reward":110.0,"doubly_robust":150.0},"b":{"n":50.0,"reward":10.0,"doubly_robust":40.0}}}"#;
        let mut estimated: Estimated = serde_json::from_str(kept).unwrap();
        assert_eq!(estimated.cum_regret(), 30.0);
        let candidates = arms();
        for round in 0..200 {
            estimated.observe(&candidates, &candidates[0].0, 0.5, f64::from(round % 2));
        }
        let (covered, _) = estimated.best(0.05);
        assert_eq!(covered, 200, "the interval is of the rounds since");
        let text = serde_json::to_string(&estimated).unwrap();
        let again: Estimated = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        assert_eq!(again.cum_regret().to_bits(), estimated.cum_regret().to_bits());
    }

    #[test]
    fn sums_over_pairs_are_those_of_a_loop_over_them() {
        let ids = arms();
        let drawable: Vec<_> = ids.iter().zip([0.7, -0.2, 0.4]).map(|((id, p), mean)| (id, *p, mean)).collect();
        let all = Moments::of(&drawable);
        for &(id, p, m) in &drawable {
            let apart =
                drawable.iter().filter(|(other, ..)| *other != id).map(|&(_, q, n)| (q, 0.2 + (m - n) * (m - n)));
            let (squares, fourths) =
                apart.fold((0.0, 0.0), |(a, b), (q, apart)| (a + q * apart, b + q * apart * apart));
            let found = all.without(p, m, 0.2);
            assert!((found.0 - squares).abs() < 1e-12 && (found.1 - fourths).abs() < 1e-12, "{found:?}");
        }
    }

    #[test]
    fn an_arm_that_could_not_be_drawn_is_given_what_was_got() {
        let mut candidates = arms().to_vec();
        candidates[0].1 = 1.0;
        candidates[1].1 = 0.0;
        candidates.pop();
        let mut estimated = Estimated::default();
        for _ in 0..300 {
            estimated.observe(&candidates, &candidates[0].0, 1.0, 0.2);
        }
        assert!(estimated.cum_regret().abs() < 1e-9);
    }
}
