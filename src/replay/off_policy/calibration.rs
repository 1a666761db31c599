//! Whether arms were taken as often as the log says they would be.
//!
//! With p the stated probability of an arm in a round and x = 1 where it was taken, x - p has conditional mean 0 if the log
//! tells the truth, so sum (x - p) is a martingale of variance sum p (1 - p), and stays within the empirical-Bernstein
//! boundary of sum (x - p)^2 at every round at once. An arm outside it is told: a wrong propensity is worse than none.
//!
//! Only verified rounds are seen, so an arm is told as well whose answers get their scores more often, or sooner, than
//! others': what the estimates are made of is a choice of rounds then, and they are as wrong.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::logged::Checked;
use crate::{
    regret::furthest,
    round::{ArmId, Mode},
};

/// The chance that any arm of a true log is ever told.
const ALPHA: f64 = 0.01;

/// An arm that was not taken as often as was stated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Miscalibrated {
    /// How it was run.
    pub mode: Mode,
    /// The arm.
    pub arm: ArmId,
    /// Verified rounds in which it could have been taken.
    pub rounds: u64,
    /// How often it was.
    pub taken: u64,
    /// The sum of the probabilities that were stated.
    pub expected: f64,
    /// (sum p (1 - p))^0.5.
    pub standard_error: f64,
    /// How far the two might ever be apart by chance.
    pub allowed: f64,
}

impl fmt::Display for Miscalibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arm, rounds, taken, expected, standard_error, allowed, .. } = self;
        write!(
            f,
            "{arm} was taken {taken} times in {rounds} verified rounds, but its stated probabilities sum to {expected:.1} (standard \
             error {standard_error:.1}; chance explains {allowed:.1} at most): either it was not drawn with them, or its \
             answers get a score more or less often than others'. No estimate from this log can be trusted"
        )
    }
}

/// What is known of each arm.
#[derive(Debug, Clone, Default)]
pub(super) struct Calibration {
    arms: BTreeMap<(Mode, ArmId), Cell>,
}

#[derive(Debug, Clone)]
struct Cell {
    /// From 1, in the order in which arms were first seen.
    place: u64,
    rounds: u64,
    taken: u64,
    expected: f64,
    variance: f64,
    variation: f64,
}

impl Calibration {
    pub fn add(&mut self, logged: &Checked<'_>) {
        for (at, (candidate, p)) in logged.context.candidates.iter().zip(&logged.pmf).enumerate() {
            let place = self.arms.len() as u64 + 1;
            let cell = self.arms.entry((candidate.mode, candidate.arm.clone())).or_insert(Cell {
                place,
                rounds: 0,
                taken: 0,
                expected: 0.0,
                variance: 0.0,
                variation: 0.0,
            });
            let taken = at == logged.taken;
            let deviation = f64::from(u8::from(taken)) - p;
            cell.rounds += 1;
            cell.taken += u64::from(taken);
            cell.expected += p;
            cell.variance += p * (1.0 - p);
            cell.variation += deviation * deviation;
        }
    }

    /// The arms outside of what chance explains, by name. The k-th arm has the share 1 / (k (k + 1)) of the level, so that
    /// arms may come and go.
    pub fn wrong(&self) -> Vec<Miscalibrated> {
        let wrong = |((mode, arm), cell): (&(Mode, ArmId), &Cell)| {
            let place = cell.place as f64;
            let allowed = furthest(cell.variation, ALPHA / (place * (place + 1.0)));
            ((cell.taken as f64 - cell.expected).abs() > allowed).then(|| Miscalibrated {
                mode: *mode,
                arm: arm.clone(),
                rounds: cell.rounds,
                taken: cell.taken,
                expected: cell.expected,
                standard_error: cell.variance.sqrt(),
                allowed,
            })
        };
        self.arms.iter().filter_map(wrong).collect()
    }
}
