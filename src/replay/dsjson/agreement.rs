//! What the lines of a log have to agree on: the range of costs, the share that was dropped, the length of embeddings.

use std::ops::ControlFlow;

use super::{DsjsonCounts, DsjsonProblem, line::Line};

/// The costs of the best and of the worst outcome.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostRange {
    /// The score is 1.
    pub low: f64,
    /// The score is 0.
    pub high: f64,
}

impl CostRange {
    /// Costs that are negative scores.
    pub const REWARD: Self = Self { low: -1.0, high: 0.0 };
    /// Costs that are what a score lacks of 1.
    pub const LOSS: Self = Self { low: 0.0, high: 1.0 };

    pub(super) fn contains(&self, cost: f64) -> bool {
        (self.low..=self.high).contains(&cost)
    }

    pub(super) fn score(&self, cost: f64) -> f64 {
        ((self.high - cost) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// What the lines so far have to agree on.
pub(super) struct Agreement {
    costs: Option<CostRange>,
    low: f64,
    high: f64,
    pub dropped: Option<f64>,
    pub dimension: Option<usize>,
}

impl Agreement {
    pub fn new(costs: Option<CostRange>) -> Self {
        Self { costs, low: f64::INFINITY, high: f64::NEG_INFINITY, dropped: None, dimension: None }
    }

    pub fn add(&mut self, line: Line, counts: &mut DsjsonCounts) -> Result<ControlFlow<()>, DsjsonProblem> {
        let example = match line {
            Line::Round(example) => example,
            Line::Unlabelled => return Ok(count(&mut counts.unlabelled)),
            Line::NotToLearn => return Ok(count(&mut counts.not_to_learn)),
            Line::WithoutActions => return Ok(count(&mut counts.without_actions)),
        };
        self.low = self.low.min(example.cost);
        self.high = self.high.max(example.cost);
        let usual = [CostRange::REWARD, CostRange::LOSS]
            .iter()
            .any(|range| range.contains(self.low) && range.contains(self.high));
        let within = self.costs.map_or(usual, |range| range.contains(example.cost));
        if !within {
            return Err(DsjsonProblem::Cost { cost: example.cost });
        }
        let dropped = *self.dropped.get_or_insert(example.dropped_share);
        if dropped != example.dropped_share {
            return Err(DsjsonProblem::Dropped { first: dropped, now: example.dropped_share });
        }
        let (first, now) = (self.dimension, example.embedding.as_slice().len());
        if *self.dimension.get_or_insert(now) != now {
            return Err(DsjsonProblem::Dimension { first: first.unwrap_or_default(), now });
        }
        Ok(count(&mut counts.rounds))
    }

    /// Which of the usual ranges the costs are in; negative scores where all are 0.
    pub fn range(&self) -> CostRange {
        if self.high > 0.0 { CostRange::LOSS } else { CostRange::REWARD }
    }
}

fn count(of: &mut u64) -> ControlFlow<()> {
    *of += 1;
    ControlFlow::Continue(())
}
