//! A curve of bounded size: when it is full, every other point goes and the stride doubles.

use serde::{Deserialize, Serialize};

const POINTS_MAX: usize = 512;

/// One point of the regret curve. The oracle's regret is 0 by definition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RegretPoint {
    /// Rounds so far.
    pub round: u64,
    /// Our cumulative regret.
    pub cum_regret: f64,
    /// What drawing uniformly would have lost, in expectation; known only when regret is exact.
    pub uniform: Option<f64>,
    /// What the best fixed arm in hindsight would have lost; known only when regret is exact.
    pub best_fixed: Option<f64>,
}

/// Keeps so many points at most, evenly spread, and always the newest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Series<T> {
    points: Vec<T>,
    stride: u64,
    newest: Option<T>,
    #[serde(default = "points_max")]
    points_max: usize,
}

fn points_max() -> usize {
    POINTS_MAX
}

impl<T: Clone> Series<T> {
    pub(super) fn new() -> Self {
        Self::of(POINTS_MAX)
    }

    /// One that keeps at most `points_max` points besides the newest.
    pub(crate) fn of(points_max: usize) -> Self {
        Self { points: Vec::new(), stride: 1, newest: None, points_max }
    }

    /// Adds the point of `round`, counted from 1.
    pub(crate) fn push(&mut self, round: u64, point: T) {
        if round.is_multiple_of(self.stride) {
            self.points.push(point);
            self.newest = None;
            if self.points.len() > self.points_max {
                let mut odd = false;
                self.points.retain(|_| {
                    odd = !odd;
                    !odd
                });
                self.stride *= 2;
            }
        } else {
            self.newest = Some(point);
        }
    }

    pub(crate) fn points(&self) -> Vec<T> {
        self.points.iter().cloned().chain(self.newest.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_bounded_even_and_current() {
        let mut series = Series::new();
        for round in 1..=10_001 {
            series.push(round, round);
        }
        let points = series.points();
        assert!(points.len() <= POINTS_MAX + 1);
        assert_eq!(points.last(), Some(&10_001));
        let steps: Vec<_> = points.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps[..steps.len() - 1].iter().all(|step| *step == steps[0]), "{steps:?}");
    }
}
