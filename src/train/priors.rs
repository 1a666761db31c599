//! The probing set: counts and mean scores per domain and arm.

use std::collections::BTreeMap;

use super::{Provenance, TrainingSet};
use crate::action::policy::{ProbingCell, ProbingSet};

/// Every (domain, action) that was scored, in order.
pub fn probing_set(set: &TrainingSet, provenance: &Provenance) -> ProbingSet {
    let mut sums: BTreeMap<_, (u64, f64)> = BTreeMap::new();
    for (action, scores) in &set.scores {
        for (place, score) in scores {
            let (rounds, sum) = sums.entry((&set.domains[*place], action)).or_default();
            *rounds += 1;
            *sum += score;
        }
    }
    let cell = |((domain, action), (rounds, sum)): ((&_, &_), (u64, f64))| ProbingCell {
        domain: Clone::clone(domain),
        action: Clone::clone(action),
        rounds,
        mean_score: (sum / rounds as f64).clamp(0.0, 1.0),
    };
    ProbingSet {
        trained_on: provenance.trained_on.clone(),
        trained_at_ms: provenance.trained_at_ms,
        cells: sums.into_iter().map(cell).collect(),
        left_out: Vec::new(),
    }
}
