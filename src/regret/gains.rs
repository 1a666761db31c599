//! How much more each arm brings a round than what was done, and the best of them with an interval.
//!
//! The best arm is known in hindsight only, and the highest of several noisy sums is too high on average. So each arm has a
//! confidence sequence of its own, at a part of alpha such that the parts sum to alpha at most; then, at every round at once, with
//! probability 1 - alpha all of them hold, and the highest true sum is between the highest lower end and the highest
//! upper end. Arms that come together share a part: those of the g-th coming, K of them, have alpha / (g (g + 1) K) each, which
//! sums to alpha however many come.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ConfidenceSequence, Interval};
use crate::round::ArmId;

/// An arm that could be taken in fewer rounds is not compared, as long as there are others.
const ROUNDS_MIN: u64 = 100;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Gain {
    /// Its part of alpha.
    share: f64,
    sequence: ConfidenceSequence,
}

/// What an arm that could be taken would have brought more in a round.
pub(super) struct Term<'a> {
    pub arm: &'a ArmId,
    pub gain: f64,
    /// What the square and the fourth power of its distance from its mean were to be on average, or somewhat more, where
    /// probabilities tell that beforehand.
    pub expected: Option<(f64, f64)>,
}

/// The mean square and fourth power of something, over the rounds so far.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Spread {
    n: f64,
    squares: f64,
    fourths: f64,
}

impl Spread {
    /// Rounds that one half counts for before there are any.
    const MASS: f64 = 4.0;

    pub fn add(&mut self, value: f64) {
        self.n += 1.0;
        self.squares += value * value;
        self.fourths += value.powi(4);
    }

    /// What they are to be next.
    pub fn expected(&self) -> (f64, f64) {
        let n = self.n + Self::MASS;
        ((self.squares + Self::MASS * 0.25) / n, (self.fourths + Self::MASS * 0.0625) / n)
    }
}

/// Each arm's gains, over the rounds in which it could be taken.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Gains {
    arms: BTreeMap<ArmId, Gain>,
    /// How often arms came.
    comings: u64,
}

/// What always taking the best arm would have brought more.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Best {
    /// The highest sum of an arm's gains; 0 before the first.
    pub sum: f64,
    /// The interval of the highest true sum; none while an arm's is not known.
    pub interval: Option<Interval>,
    /// The arms whose interval is not known: they were drawn too seldom, or gave too few answers of some kind.
    pub unsettled: Vec<ArmId>,
}

/// The part of alpha of the n-th, from 1, of things whose number is not known beforehand; the parts sum to 1.
pub(super) fn part(n: u64) -> f64 {
    let n = n.max(1) as f64;
    1.0 / (n * (n + 1.0))
}

impl Gains {
    /// Adds a round: what each arm that could be taken would have brought more. `tightest_at` is for arms that come.
    pub fn observe(&mut self, terms: &[Term<'_>], tightest_at: u64) {
        let new = terms.iter().filter(|term| !self.arms.contains_key(term.arm)).count();
        if new > 0 {
            self.comings += 1;
        }
        for Term { arm, gain, expected } in terms {
            let known = match self.arms.get_mut(*arm) {
                Some(known) => known,
                None => {
                    let sequence = ConfidenceSequence::tightest_at(tightest_at);
                    let share = part(self.comings) / new as f64;
                    self.arms.entry((*arm).clone()).or_insert(Gain { share, sequence })
                }
            };
            match expected {
                Some((square, fourth)) => known.sequence.add_expecting(*gain, *square, *fourth),
                None => known.sequence.add(*gain),
            }
        }
    }

    /// The arm with the highest sum.
    pub fn best_arm(&self) -> Option<&ArmId> {
        self.compared().max_by(|a, b| sum(&a.1.sequence).total_cmp(&sum(&b.1.sequence))).map(|(arm, _)| arm)
    }

    /// The highest sum.
    pub fn sum(&self) -> f64 {
        let most = self.compared().map(|(_, gain)| sum(&gain.sequence)).fold(f64::NEG_INFINITY, f64::max);
        if most.is_finite() { most } else { 0.0 }
    }

    /// The same with its interval.
    pub fn best(&self, alpha: f64) -> Best {
        let (mut unsettled, mut both) = (vec![], None);
        for (arm, Gain { share, sequence }) in self.compared() {
            let Some(interval) = sequence.interval(alpha * share) else {
                unsettled.push(arm.clone());
                continue;
            };
            let n = sequence.rounds() as f64;
            let (low, high) = (interval.low * n, interval.high * n);
            let widest = both.get_or_insert(Interval { low, high });
            (widest.low, widest.high) = (widest.low.max(low), widest.high.max(high));
        }
        Best { sum: self.sum(), interval: both.filter(|_| unsettled.is_empty()), unsettled }
    }

    fn compared(&self) -> impl Iterator<Item = (&ArmId, &Gain)> {
        let long_there = |gain: &Gain| gain.sequence.rounds() >= ROUNDS_MIN;
        let any = self.arms.values().any(long_there);
        self.arms.iter().filter(move |(_, gain)| !any || long_there(gain))
    }
}

fn sum(sequence: &ConfidenceSequence) -> f64 {
    sequence.mean().unwrap_or_default() * sequence.rounds() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(name: &str) -> ArmId {
        ArmId::new(name).unwrap()
    }

    fn term(arm: &ArmId, gain: f64) -> Term<'_> {
        Term { arm, gain, expected: None }
    }

    #[test]
    fn parts_sum_to_no_more_than_the_whole_however_many_come() {
        let mut gains = Gains::default();
        let names: Vec<_> = (0..40).map(|n| arm(&format!("arm-{n}"))).collect();
        for upto in [3, 4, 4, 11, 40] {
            let round: Vec<_> = names[..upto].iter().map(|arm| term(arm, 0.5)).collect();
            gains.observe(&round, 100);
        }
        let shares: Vec<f64> = gains.arms.values().map(|gain| gain.share).collect();
        assert_eq!((gains.comings, shares.len()), (4, 40));
        assert!(shares.iter().sum::<f64>() <= 1.0 && (shares[0] - 1.0 / 6.0).abs() < 1e-12, "{shares:?}");
    }

    #[test]
    fn an_arm_that_came_late_is_compared_once_it_was_there_long_enough() {
        let (old, new) = (arm("old"), arm("new"));
        let mut gains = Gains::default();
        for round in 0..200 {
            let gain = f64::from(round % 2);
            gains.observe(&[term(&old, gain)], 100);
        }
        for _ in 0..99 {
            gains.observe(&[term(&old, 0.0), term(&new, 10.0)], 100);
        }
        assert!((gains.sum() - 100.0).abs() < 1e-9, "{}", gains.sum());
        assert!(gains.best(0.05).interval.is_some(), "nothing is known of the new one, and it is not compared");
        gains.observe(&[term(&old, 0.0), term(&new, 10.0)], 100);
        assert!((gains.sum() - 1_000.0).abs() < 1e-9);
        let best = gains.best(0.05);
        assert_eq!((best.interval, best.unsettled), (None, vec![new]), "its terms were all the same");
    }
}
