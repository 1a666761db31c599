//! What the neighbours say of one candidate: the sums that recall's features and the kNN policies share.

use crate::round::{Candidate, Neighbour};

/// Sums over the neighbours that tried a candidate, each with its weight.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Recalled {
    /// The sum of their weights.
    pub(super) mass: f64,
    /// The weighted sum of their scores.
    pub(super) sum: f64,
    /// The weighted sum of their squared scores.
    pub(super) squares: f64,
}

impl Recalled {
    /// `weight` is what a neighbour counts for.
    pub(super) fn of(neighbours: &[Neighbour], candidate: &Candidate, weight: impl Fn(&Neighbour) -> f64) -> Self {
        let mut recalled = Self::default();
        for neighbour in neighbours {
            for tried in &neighbour.outcomes {
                if tried.mode == candidate.mode && tried.arm == candidate.arm {
                    let weight = weight(neighbour);
                    recalled.mass += weight;
                    recalled.sum += weight * tried.score;
                    recalled.squares += weight * tried.score * tried.score;
                }
            }
        }
        recalled
    }
}

/// similarity^power; a similarity below 0 counts as 0.
pub(super) fn nearness(similarity: f64, power: f64) -> f64 {
    similarity.clamp(0.0, 1.0).powf(power)
}
