//! Baselines that need no learning: the bounds and the habits that a policy is compared with.
//!
//! They read the whole matrix, so all but `random` and `always` know what no router can know. Each is exact (no
//! sampling) and comes as the same report as a policy's, with one seed.

use std::collections::BTreeMap;

use super::{
    Dataset, Order, PolicyReport, Protocol, Scoring, Worth,
    dataset::DatasetTask,
    report::{Ran, Setting, Step},
};
use crate::round::Domain;

/// A fixed chain stops once an answer is right.
pub(super) const SOLVED: f64 = 1.0 - 1e-9;
/// The most models whose orders are all tried for the best chain: ten have ten million.
const CHAIN_MODELS_MAX: usize = 9;

/// The best model of every single task: regret 0 by definition, its score the ceiling.
pub fn oracle(dataset: &Dataset, scoring: Scoring) -> PolicyReport {
    pure(dataset, scoring, "oracle", |task| scoring.best(task).0)
}

/// A uniform choice, in expectation.
pub fn random(dataset: &Dataset, scoring: Scoring) -> PolicyReport {
    let models = dataset.models.len() as f64;
    let step = |(place, task): (usize, &DatasetTask)| {
        let mut mean = Worth::default();
        for result in &task.results {
            let worth = scoring.worth(result);
            mean.score += worth.score / models;
            mean.cost_usd += worth.cost_usd / models;
        }
        step(scoring, (place, task), Ran::Any, mean)
    };
    join(dataset, scoring, Protocol::Single, "random", dataset.tasks.iter().enumerate().map(step).collect())
}

/// Always the same model, one report per model, in the dataset's order.
pub fn always(dataset: &Dataset, scoring: Scoring) -> Vec<PolicyReport> {
    let report =
        |(index, model): (usize, &super::Model)| pure(dataset, scoring, &format!("fixed:{}", model.arm), |_| index);
    dataset.models.iter().enumerate().map(report).collect()
}

/// The model that is best over all tasks, in hindsight.
pub fn best_fixed(dataset: &Dataset, scoring: Scoring) -> PolicyReport {
    let model = best(&sums(dataset, scoring, |_| ())[&()]);
    pure(dataset, scoring, "best_fixed", |_| model)
}

/// The model that is best in each domain, in hindsight (DimensionBest): the bound of policies that know only domains.
pub fn domain_best(dataset: &Dataset, scoring: Scoring) -> PolicyReport {
    let sums: BTreeMap<Domain, Vec<f64>> = sums(dataset, scoring, |task| task.domain.clone());
    pure(dataset, scoring, "domain_best", |task| sums.get(&task.domain).map_or(0, |sums| best(sums)))
}

/// The model that is best on each source benchmark, in hindsight; a live router does not know the source.
pub fn source_best(dataset: &Dataset, scoring: Scoring) -> PolicyReport {
    let sums = sums(dataset, scoring, |task| task.source.clone());
    pure(dataset, scoring, "source_best", |task| sums.get(&task.source).map_or(0, |sums| best(sums)))
}

/// The chain of models that is best over all tasks, in hindsight: each is run until one is right. None for more than nine
/// models, whose orders are too many to try.
pub fn best_chain(dataset: &Dataset, scoring: Scoring) -> Option<(Vec<usize>, PolicyReport)> {
    if dataset.models.len() > CHAIN_MODELS_MAX {
        return None;
    }
    let mut search = Chains { dataset, scoring, chain: Vec::new(), best: (Vec::new(), f64::NEG_INFINITY) };
    let open: Vec<(usize, Worth)> = (0..dataset.tasks.len()).map(|task| (task, Worth::default())).collect();
    search.extend(&open, 0.0);
    let chain = search.best.0;
    let report = fixed_chain(dataset, scoring, "best_chain", &chain);
    Some((chain, report))
}

/// The same chain of models on every task, each run until one is right; the best answer is kept.
pub fn fixed_chain(dataset: &Dataset, scoring: Scoring, name: &str, chain: &[usize]) -> PolicyReport {
    let of_task = |(place, task): (usize, &DatasetTask)| {
        let mut kept = chain[0];
        let mut ran = 0;
        for model in chain {
            ran += 1;
            if scoring.worth(&task.results[*model]).score > scoring.worth(&task.results[kept]).score {
                kept = *model;
            }
            if scoring.worth(&task.results[kept]).score >= SOLVED {
                break;
            }
        }
        let worth = scoring.chain(task, &chain[..ran], kept);
        let attempts = chain[..ran].to_vec();
        step(scoring, (place, task), Ran::Models { attempts, kept }, worth)
    };
    let steps = dataset.tasks.iter().enumerate().map(of_task).collect();
    join(dataset, scoring, Protocol::Cascade, name, steps)
}

/// ACRouter's cascade: a fixed chain, each model run until one is right; where none is and at least `applied_min` of their
/// patches applied, one more model. A patch of which that is not known did not apply.
///
/// Reference: Agent-as-a-Router (arXiv 2606.22902), verify and escalate.
pub fn escalating_chain(
    dataset: &Dataset,
    scoring: Scoring,
    name: &str,
    chain: &[usize],
    escalate_to: usize,
    applied_min: usize,
) -> PolicyReport {
    let score = |task: &DatasetTask, model: usize| scoring.worth(&task.results[model]).score;
    let of_task = |(place, task): (usize, &DatasetTask)| {
        let mut attempts = Vec::new();
        for model in chain {
            attempts.push(*model);
            if score(task, *model) >= SOLVED {
                break;
            }
        }
        let mut kept = attempts[attempts.len() - 1];
        let applied = attempts.iter().filter(|model| task.results[**model].applied == Some(true)).count();
        if score(task, kept) < SOLVED && applied >= applied_min {
            attempts.push(escalate_to);
            if score(task, escalate_to) > score(task, kept) {
                kept = escalate_to;
            }
        }
        let worth = scoring.chain(task, &attempts, kept);
        step(scoring, (place, task), Ran::Models { attempts, kept }, worth)
    };
    let steps = dataset.tasks.iter().enumerate().map(of_task).collect();
    join(dataset, scoring, Protocol::Cascade, name, steps)
}

/// A search over all chains, one model more at a time, on the tasks that are not solved yet.
struct Chains<'a> {
    dataset: &'a Dataset,
    scoring: Scoring,
    chain: Vec<usize>,
    best: (Vec<usize>, f64),
}

impl Chains<'_> {
    /// `open` are the tasks without a right answer, with what was got so far; `solved` the reward of all others.
    fn extend(&mut self, open: &[(usize, Worth)], solved: f64) {
        let reward = solved + open.iter().map(|(_, worth)| self.scoring.reward(*worth)).sum::<f64>();
        if !self.chain.is_empty() && reward > self.best.1 {
            self.best = (self.chain.clone(), reward);
        }
        for model in 0..self.dataset.models.len() {
            if self.chain.contains(&model) {
                continue;
            }
            let (mut still, mut done) = (Vec::with_capacity(open.len()), solved);
            for (task, got) in open {
                let one = self.scoring.worth(&self.dataset.tasks[*task].results[model]);
                let got = Worth { score: got.score.max(one.score), cost_usd: got.cost_usd + one.cost_usd };
                if got.score >= SOLVED { done += self.scoring.reward(got) } else { still.push((*task, got)) }
            }
            self.chain.push(model);
            self.extend(&still, done);
            self.chain.pop();
        }
    }
}

fn sums<K: Ord>(dataset: &Dataset, scoring: Scoring, key: impl Fn(&DatasetTask) -> K) -> BTreeMap<K, Vec<f64>> {
    let mut sums = BTreeMap::new();
    for task in &dataset.tasks {
        let group = sums.entry(key(task)).or_insert_with(|| vec![0.0; dataset.models.len()]);
        group.iter_mut().zip(scoring.rewards(task)).for_each(|(sum, reward)| *sum += reward);
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

fn pure(dataset: &Dataset, scoring: Scoring, name: &str, choose: impl Fn(&DatasetTask) -> usize) -> PolicyReport {
    let of_task = |(place, task): (usize, &DatasetTask)| {
        let model = choose(task);
        step(scoring, (place, task), Ran::one(model), scoring.worth(&task.results[model]))
    };
    let steps = dataset.tasks.iter().enumerate().map(of_task).collect();
    join(dataset, scoring, Protocol::Single, name, steps)
}

/// The round of a task in which this was got.
pub(super) fn step(scoring: Scoring, (place, task): (usize, &DatasetTask), ran: Ran, worth: Worth) -> Step {
    let propensity = match ran {
        Ran::Models { .. } => 1.0,
        Ran::Any => 1.0 / task.results.len() as f64,
    };
    Step { task: place, ran, propensity, worth, regret: scoring.best(task).1 - scoring.reward(worth) }
}

fn join(dataset: &Dataset, scoring: Scoring, protocol: Protocol, name: &str, steps: Vec<Step>) -> PolicyReport {
    let setting = Setting { dataset, rule: scoring.rule, order: Order::Released, protocol, warm: &[] };
    PolicyReport::join(setting, name, &[steps], 0.0)
}
