//! Estimated regret of one domain, from logged propensities.
//!
//! Each round gives every arm a doubly robust pseudo-reward m(a) + 1{a = taken} (r - m(a)) / p (Dudik, Langford and Li,
//! 2011), with m(a) the arm's mean before the round, so that its expectation is the arm's true value whatever m is.
//! The regret estimate is the best arm's sum less the reward got. It is noisy while rounds are few and can be
//! negative.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::round::ArmId;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct ArmSums {
    n: f64,
    reward: f64,
    doubly_robust: f64,
}

/// Sums of one domain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Estimated {
    rounds: f64,
    reward: f64,
    arms: BTreeMap<ArmId, ArmSums>,
}

impl Estimated {
    /// Adds a round in which `arm` was drawn with probability `propensity` and gave `reward`.
    pub(super) fn observe(&mut self, arm: &ArmId, propensity: f64, reward: f64) {
        let domain_mean = if self.rounds > 0.0 { self.reward / self.rounds } else { 0.0 };
        // An arm seen for the first time has, for the rounds before, the pseudo-rewards of the domain's mean.
        let before = self.reward;
        self.arms.entry(arm.clone()).or_insert(ArmSums { n: 0.0, reward: 0.0, doubly_robust: before });
        for (id, sums) in &mut self.arms {
            let mean = (sums.reward + domain_mean) / (sums.n + 1.0);
            let correction = if id == arm { (reward - mean) / propensity } else { 0.0 };
            sums.doubly_robust += mean + correction;
        }
        if let Some(sums) = self.arms.get_mut(arm) {
            sums.n += 1.0;
            sums.reward += reward;
        }
        self.rounds += 1.0;
        self.reward += reward;
    }

    pub(super) fn cum_regret(&self) -> f64 {
        let best = self.arms.values().map(|sums| sums.doubly_robust).fold(f64::NEG_INFINITY, f64::max);
        if best.is_finite() { best - self.reward } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn agrees_with_the_truth_on_a_seeded_log() {
        let arms = [(ArmId::new("a").unwrap(), 0.8), (ArmId::new("b").unwrap(), 0.5), (ArmId::new("c").unwrap(), 0.3)];
        let pmf = [0.5, 0.3, 0.2];
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let mut estimated = Estimated::default();
        let rounds = 20_000;
        for _ in 0..rounds {
            let u: f64 = rng.random();
            let taken = if u < pmf[0] {
                0
            } else if u < pmf[0] + pmf[1] {
                1
            } else {
                2
            };
            let reward = if rng.random::<f64>() < arms[taken].1 { 1.0 } else { 0.0 };
            estimated.observe(&arms[taken].0, pmf[taken], reward);
        }
        let value: f64 = arms.iter().zip(pmf).map(|(arm, p)| arm.1 * p).sum();
        let truth = f64::from(rounds) * (0.8 - value);
        assert!((estimated.cum_regret() / truth - 1.0).abs() < 0.05, "{} against {truth}", estimated.cum_regret());
    }
}
