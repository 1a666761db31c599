//! Exact regret, from the true expected reward of every candidate.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::round::ArmId;

/// Sums of true expected rewards.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Exact {
    best: f64,
    chosen: f64,
    uniform: f64,
    fixed: BTreeMap<ArmId, f64>,
}

impl Exact {
    /// Adds a round. An arm that was no candidate is given the candidates' mean, so that fixed arms stay comparable.
    pub(super) fn observe(&mut self, truth: &[(ArmId, f64)], arm: &ArmId) {
        let mean = truth.iter().map(|(_, value)| value).sum::<f64>() / truth.len().max(1) as f64;
        for (id, _) in truth {
            // An arm seen for the first time is given the mean of the rounds before.
            let before = self.uniform;
            self.fixed.entry(id.clone()).or_insert(before);
        }
        for (id, sum) in &mut self.fixed {
            *sum += truth.iter().find(|(other, _)| other == id).map_or(mean, |(_, value)| *value);
        }
        self.best += truth.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
        self.chosen += truth.iter().find(|(id, _)| id == arm).map_or(mean, |(_, value)| *value);
        self.uniform += mean;
    }

    pub(super) fn cum_regret(&self) -> f64 {
        self.best - self.chosen
    }

    pub(super) fn uniform(&self) -> f64 {
        self.best - self.uniform
    }

    pub(super) fn best_fixed(&self) -> f64 {
        self.best - self.fixed.values().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// The arm with the highest true value so far.
    pub(super) fn best_arm(&self) -> Option<&ArmId> {
        self.fixed.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_the_best_arm_of_each_round_would_have_given() {
        let (a, b) = (ArmId::new("a").unwrap(), ArmId::new("b").unwrap());
        let mut exact = Exact::default();
        exact.observe(&[(a.clone(), 0.9), (b.clone(), 0.5)], &b);
        exact.observe(&[(a.clone(), 0.2), (b.clone(), 0.8)], &b);
        assert!((exact.cum_regret() - 0.4).abs() < 1e-12);
        assert!((exact.uniform() - 0.5).abs() < 1e-12);
        assert!((exact.best_fixed() - 0.4).abs() < 1e-12);
        assert_eq!(exact.best_arm(), Some(&b));
    }
}
