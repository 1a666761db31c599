//! Baselines that need no learning: the bounds and the habits that a policy is compared with.
//!
//! They read the whole matrix, so all but `random` and `always` know what no router can know. Each is exact (no
//! sampling) and comes as the same report as a policy's, with one seed.

use std::collections::BTreeMap;

use super::{Dataset, PolicyReport, dataset::DatasetTask, report::SeedResult};
use crate::round::{Domain, RewardWeights};

/// The best model of every single task: regret 0 by definition, its score the ceiling.
pub fn oracle(dataset: &Dataset, weights: RewardWeights) -> PolicyReport {
    pure(dataset, weights, "oracle", |task| best(&rewards(task, weights)))
}

/// A uniform choice, in expectation.
pub fn random(dataset: &Dataset, weights: RewardWeights) -> PolicyReport {
    let share = 1.0 / dataset.models.len() as f64;
    mixed(dataset, weights, "random", |_| vec![share; dataset.models.len()])
}

/// Always the same model, one report per model, in the dataset's order.
pub fn always(dataset: &Dataset, weights: RewardWeights) -> Vec<PolicyReport> {
    let report =
        |(index, model): (usize, &super::Model)| pure(dataset, weights, &format!("fixed:{}", model.arm), |_| index);
    dataset.models.iter().enumerate().map(report).collect()
}

/// The model that is best over all tasks, in hindsight.
pub fn best_fixed(dataset: &Dataset, weights: RewardWeights) -> PolicyReport {
    let model = best(&sums(dataset, weights, |_| ())[&()]);
    pure(dataset, weights, "best_fixed", |_| model)
}

/// The model that is best in each domain, in hindsight (DimensionBest): the bound of policies that know only domains.
pub fn domain_best(dataset: &Dataset, weights: RewardWeights) -> PolicyReport {
    let sums: BTreeMap<Domain, Vec<f64>> = sums(dataset, weights, |task| task.domain.clone());
    pure(dataset, weights, "domain_best", |task| sums.get(&task.domain).map_or(0, |sums| best(sums)))
}

/// Every model's reward on a task.
pub(super) fn rewards(task: &DatasetTask, weights: RewardWeights) -> Vec<f64> {
    task.results.iter().map(|result| weights.reward(result.score, result.cost_usd)).collect()
}

fn sums<K: Ord>(dataset: &Dataset, weights: RewardWeights, key: impl Fn(&DatasetTask) -> K) -> BTreeMap<K, Vec<f64>> {
    let mut sums = BTreeMap::new();
    for task in &dataset.tasks {
        let group = sums.entry(key(task)).or_insert_with(|| vec![0.0; dataset.models.len()]);
        group.iter_mut().zip(rewards(task, weights)).for_each(|(sum, reward)| *sum += reward);
    }
    sums
}

/// The first index of the highest value.
fn best(values: &[f64]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best
}

fn pure(dataset: &Dataset, weights: RewardWeights, name: &str, choose: impl Fn(&DatasetTask) -> usize) -> PolicyReport {
    mixed(dataset, weights, name, |task| {
        let mut shares = vec![0.0; dataset.models.len()];
        shares[choose(task)] = 1.0;
        shares
    })
}

fn mixed(
    dataset: &Dataset,
    weights: RewardWeights,
    name: &str,
    shares: impl Fn(&DatasetTask) -> Vec<f64>,
) -> PolicyReport {
    let mut total = SeedResult { rounds_by_model: vec![0.0; dataset.models.len()], ..SeedResult::default() };
    for task in &dataset.tasks {
        let rewards = rewards(task, weights);
        let highest = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (model, share) in shares(task).into_iter().enumerate() {
            total.score_sum += share * task.results[model].score;
            total.cost_usd_sum += share * task.results[model].cost_usd;
            total.regret_sum += share * (highest - rewards[model]);
            total.rounds_by_model[model] += share;
        }
    }
    PolicyReport::join(dataset, name, &[total], 0.0)
}
