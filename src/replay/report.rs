//! What a replay found of one policy: one JSON object whose keys later versions add to and never rename.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::round::ArmId;

/// One policy over one dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyReport {
    /// The dataset's name.
    pub dataset: String,
    /// The split replayed; `all` for all.
    pub split: String,
    /// The policy as it was asked for, such as `fixed:gpt-5-mini`.
    pub policy: String,
    /// How many shuffled orders were replayed.
    pub seeds: usize,
    /// Rounds per order.
    pub n: usize,
    /// Mean verified score per round, in [0, 1], over all orders.
    pub mean_score: f64,
    /// Sum over the rounds of the best reward on the task minus the reward got; mean over the orders.
    pub cum_regret: f64,
    /// Sample standard deviation of that sum between the orders; 0 for one order.
    pub cum_regret_sd: f64,
    /// Dollars spent in one order; mean over the orders.
    pub total_cost_usd: f64,
    /// Share of the rounds that each arm took, over all orders; every arm is listed.
    pub share_by_arm: BTreeMap<ArmId, f64>,
    /// Wall seconds of the whole replay.
    pub seconds: f64,
}

/// What one order gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SeedResult {
    pub(super) score_sum: f64,
    pub(super) regret_sum: f64,
    pub(super) cost_usd_sum: f64,
    /// Rounds per model, in the dataset's order.
    pub(super) rounds_by_model: Vec<f64>,
}

impl PolicyReport {
    /// Joins the orders; the caller fills in `seconds`.
    pub(super) fn join(dataset: &super::Dataset, policy: &str, results: &[SeedResult], seconds: f64) -> Self {
        let rounds = dataset.tasks.len();
        let seeds = results.len() as f64;
        let mean = |value: fn(&SeedResult) -> f64| results.iter().map(value).sum::<f64>() / seeds;
        let cum_regret = mean(|result| result.regret_sum);
        let squares: f64 = results.iter().map(|result| (result.regret_sum - cum_regret).powi(2)).sum();
        let share = |model: usize| {
            results.iter().map(|result| result.rounds_by_model[model]).sum::<f64>() / (seeds * rounds as f64)
        };
        Self {
            dataset: dataset.name.clone(),
            split: dataset.split.clone().unwrap_or_else(|| "all".into()),
            policy: policy.into(),
            seeds: results.len(),
            n: rounds,
            mean_score: mean(|result| result.score_sum) / rounds as f64,
            cum_regret,
            cum_regret_sd: if results.len() > 1 { (squares / (seeds - 1.0)).sqrt() } else { 0.0 },
            total_cost_usd: mean(|result| result.cost_usd_sum),
            share_by_arm: dataset.models.iter().enumerate().map(|(i, model)| (model.arm.clone(), share(i))).collect(),
            seconds,
        }
    }
}
