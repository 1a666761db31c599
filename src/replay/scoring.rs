//! What a recorded outcome is worth, and what the best one of its task would have been.
//!
//! Some released rows were filled in and not measured. The paper's regrets count such a row as score 0 and leave it out
//! of the oracle; on the full table the same decisions have other regrets. So the rule is always stated beside the number.
//!
//! A cascade may run several models on a task. Its score is that of the answer it keeps, its cost the sum over all that it
//! ran; regret is still measured against the best single model, which needs one attempt.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{Dataset, DatasetTask, TaskResult};
use crate::round::RewardWeights;

/// How rows count that the source marks as not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Their score is 0, their cost stays, and the oracle does not see them: how CodeRouterBench's numbers were made.
    Measured,
    /// Like every other row.
    #[default]
    Full,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Measured => "measured",
            Self::Full => "full",
        })
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "measured" => Ok(Self::Measured),
            "full" => Ok(Self::Full),
            other => Err(format!("{other:?} is no rule; choose measured or full")),
        }
    }
}

/// A rule and the weights of the reward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scoring {
    /// Which rows count.
    pub rule: Rule,
    /// e1 and e2 of reward = e1 * score + e2 * dollars.
    pub weights: RewardWeights,
}

/// What one attempt or a whole cascade gave.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Worth {
    /// In [0, 1].
    pub score: f64,
    /// Dollars.
    pub cost_usd: f64,
}

impl Scoring {
    /// What a row is worth.
    pub fn worth(&self, result: &TaskResult) -> Worth {
        Worth { score: if self.counts(result) { result.score } else { 0.0 }, cost_usd: result.cost_usd }
    }

    /// The reward of what was got.
    pub fn reward(&self, worth: Worth) -> f64 {
        self.weights.reward(worth.score, worth.cost_usd)
    }

    /// Every model's reward on a task.
    pub fn rewards(&self, task: &DatasetTask) -> Vec<f64> {
        task.results.iter().map(|result| self.reward(self.worth(result))).collect()
    }

    /// The best model of a task among the rows that count, and its reward; all rows, where none counts.
    pub fn best(&self, task: &DatasetTask) -> (usize, f64) {
        let any = task.results.iter().any(|result| self.counts(result));
        let rows = task.results.iter().enumerate().filter(|(_, result)| !any || self.counts(result));
        let mut best = (0, f64::NEG_INFINITY);
        for (model, result) in rows {
            let reward = self.reward(self.worth(result));
            if reward > best.1 {
                best = (model, reward);
            }
        }
        best
    }

    /// What running these models in order gave: the cost of all, and the score of the one kept.
    pub fn chain(&self, task: &DatasetTask, attempts: &[usize], kept: usize) -> Worth {
        let cost_usd = attempts.iter().map(|model| task.results[*model].cost_usd).sum();
        Worth { cost_usd, ..self.worth(&task.results[kept]) }
    }

    fn counts(&self, result: &TaskResult) -> bool {
        match self.rule {
            Rule::Measured => result.measured,
            Rule::Full => true,
        }
    }

    /// Each task's best reward, in order.
    pub(super) fn bests(&self, dataset: &Dataset) -> Vec<f64> {
        dataset.tasks.iter().map(|task| self.best(task).1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::{Domain, TaskId};

    fn task(rows: &[(f64, f64, bool)]) -> DatasetTask {
        let result = |(score, cost_usd, measured): &(f64, f64, bool)| TaskResult {
            score: *score,
            cost_usd: *cost_usd,
            measured: *measured,
            applied: None,
            output_tokens: None,
            latency_ms: None,
        };
        DatasetTask {
            id: TaskId::new("t").unwrap(),
            split: "test".into(),
            domain: Domain::unknown(),
            source: "s".into(),
            prompt: None,
            metadata: Default::default(),
            results: rows.iter().map(result).collect(),
        }
    }

    #[test]
    fn a_row_that_was_filled_in_scores_nothing_still_costs_and_is_no_oracle() {
        let task = task(&[(1.0, 0.5, false), (0.5, 1.0, true)]);
        let [measured, full] =
            [Rule::Measured, Rule::Full].map(|rule| Scoring { rule, weights: RewardWeights::default() });
        assert_eq!(full.worth(&task.results[0]), Worth { score: 1.0, cost_usd: 0.5 });
        assert_eq!(measured.worth(&task.results[0]), Worth { score: 0.0, cost_usd: 0.5 });
        assert_eq!((full.best(&task).0, measured.best(&task).0), (0, 1));
        assert!((measured.best(&task).1 - 0.4).abs() < 1e-12);
        // The reward of a filled-in row may even be above the oracle's, where all measured ones are dear.
        assert_eq!(measured.rewards(&task), [-0.05, 0.4]);
    }

    #[test]
    fn where_nothing_was_measured_all_rows_are_the_oracle() {
        let task = task(&[(1.0, 1.0, false), (1.0, 0.5, false)]);
        let measured = Scoring { rule: Rule::Measured, weights: RewardWeights::default() };
        assert_eq!(measured.best(&task), (1, -0.05));
    }

    #[test]
    fn a_chain_pays_for_all_and_scores_what_it_keeps() {
        let task = task(&[(0.2, 1.0, true), (1.0, 0.5, true), (0.0, 2.0, true)]);
        let full = Scoring { rule: Rule::Full, weights: RewardWeights::default() };
        assert_eq!(full.chain(&task, &[0, 2, 1], 1), Worth { score: 1.0, cost_usd: 3.5 });
        assert_eq!(full.chain(&task, &[0], 0), Worth { score: 0.2, cost_usd: 1.0 });
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        for rule in [Rule::Measured, Rule::Full] {
            assert_eq!(rule.to_string().parse(), Ok(rule));
        }
        assert!("all".parse::<Rule>().unwrap_err().contains("measured or full"));
    }
}
