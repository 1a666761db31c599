//! What a replay found of one policy: one JSON object whose keys later versions add to and never rename.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Dataset, Order, Protocol, Rule, Worth};
use crate::round::{ArmId, Domain};

/// Points of a regret curve at most.
const POINTS_MAX: usize = 200;

/// One policy over one dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyReport {
    /// The dataset's name.
    pub dataset: String,
    /// The split replayed; `all` for all.
    pub split: String,
    /// The policy as it was asked for, such as `fixed:gpt-5-mini`.
    pub policy: String,
    /// How many orders were replayed.
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
    /// Share of the rounds that each arm's answer was kept in, over all orders; every arm is listed.
    pub share_by_arm: BTreeMap<ArmId, f64>,
    /// Wall seconds of the whole replay.
    pub seconds: f64,
    /// Which rows count.
    pub rule: Rule,
    /// In which order the tasks came.
    pub order: Order,
    /// One attempt a task or several.
    pub protocol: Protocol,
    /// The splits that it was shown whole before.
    pub warm: Vec<String>,
    /// Mean attempts per round; 1 without a cascade.
    pub attempts_mean: f64,
    /// The same numbers by domain.
    pub domains: BTreeMap<Domain, DomainReport>,
    /// Cumulative regret after so many rounds, mean over the orders; at most 200 points.
    pub curve: Vec<(usize, f64)>,
}

/// One policy in one domain; sums are of one order, means over the orders.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DomainReport {
    /// Rounds.
    pub n: usize,
    /// Mean score.
    pub mean_score: f64,
    /// Regret.
    pub cum_regret: f64,
    /// Dollars.
    pub total_cost_usd: f64,
    /// Share of its rounds by arm; only those that were kept at all.
    pub share_by_arm: BTreeMap<ArmId, f64>,
}

/// What is the same for all policies of one replay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    pub dataset: &'a Dataset,
    pub rule: Rule,
    pub order: Order,
    pub protocol: Protocol,
    pub warm: &'a [String],
}

/// Who was run in a round.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ran {
    /// These models, in order, and whose answer was kept.
    Models { attempts: Vec<usize>, kept: usize },
    /// Any one, each with the same probability; what it was worth is the mean.
    Any,
}

/// One round of a replay.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub task: usize,
    pub ran: Ran,
    /// The probability of these attempts, as the policy stated it.
    pub propensity: f64,
    pub worth: Worth,
    pub regret: f64,
}

impl Ran {
    pub(super) fn one(model: usize) -> Self {
        Self::Models { attempts: vec![model], kept: model }
    }
}

/// Sums over rounds.
#[derive(Debug, Clone, Default)]
struct Sums {
    rounds: usize,
    attempts: usize,
    score: f64,
    regret: f64,
    cost_usd: f64,
    by_model: Vec<f64>,
}

impl Sums {
    fn of<'a>(models: usize, steps: impl Iterator<Item = &'a Step>) -> Self {
        let mut sums = Self { by_model: vec![0.0; models], ..Self::default() };
        for step in steps {
            sums.rounds += 1;
            sums.score += step.worth.score;
            sums.regret += step.regret;
            sums.cost_usd += step.worth.cost_usd;
            match &step.ran {
                Ran::Models { attempts, kept } => {
                    sums.attempts += attempts.len();
                    sums.by_model[*kept] += 1.0;
                }
                Ran::Any => {
                    sums.attempts += 1;
                    sums.by_model.iter_mut().for_each(|sum| *sum += 1.0 / models as f64);
                }
            }
        }
        sums
    }

    fn shares<'a>(&'a self, dataset: &'a Dataset) -> impl Iterator<Item = (ArmId, f64)> + 'a {
        let share = |sum: &f64| sum / self.rounds.max(1) as f64;
        dataset.models.iter().zip(&self.by_model).map(move |(model, sum)| (model.arm.clone(), share(sum)))
    }
}

impl PolicyReport {
    /// Joins the orders, at least one; the caller says how long they took.
    pub(super) fn join(setting: Setting<'_>, policy: &str, orders: &[Vec<Step>], seconds: f64) -> Self {
        let dataset = setting.dataset;
        let (seeds, models) = (orders.len() as f64, dataset.models.len());
        let regrets: Vec<f64> = orders.iter().map(|steps| steps.iter().map(|step| step.regret).sum()).collect();
        let cum_regret = regrets.iter().sum::<f64>() / seeds;
        let squares: f64 = regrets.iter().map(|regret| (regret - cum_regret).powi(2)).sum();
        let all = Sums::of(models, orders.iter().flatten());
        let mut domains: BTreeMap<&Domain, Vec<&Step>> = BTreeMap::new();
        for step in orders.iter().flatten() {
            domains.entry(&dataset.tasks[step.task].domain).or_default().push(step);
        }
        let of_domain = |(domain, steps): (&Domain, Vec<&Step>)| {
            let sums = Sums::of(models, steps.into_iter());
            let report = DomainReport {
                n: sums.rounds / orders.len(),
                mean_score: sums.score / sums.rounds as f64,
                cum_regret: sums.regret / seeds,
                total_cost_usd: sums.cost_usd / seeds,
                share_by_arm: sums.shares(dataset).filter(|(_, share)| *share > 0.0).collect(),
            };
            (domain.clone(), report)
        };
        Self {
            dataset: dataset.name.clone(),
            split: dataset.split.clone().unwrap_or_else(|| "all".into()),
            policy: policy.into(),
            seeds: orders.len(),
            n: dataset.tasks.len(),
            mean_score: all.score / all.rounds.max(1) as f64,
            cum_regret,
            cum_regret_sd: if orders.len() > 1 { (squares / (seeds - 1.0)).sqrt() } else { 0.0 },
            total_cost_usd: all.cost_usd / seeds,
            share_by_arm: all.shares(dataset).collect(),
            seconds,
            rule: setting.rule,
            order: setting.order,
            protocol: setting.protocol,
            warm: setting.warm.to_vec(),
            attempts_mean: all.attempts as f64 / all.rounds.max(1) as f64,
            domains: domains.into_iter().map(of_domain).collect(),
            curve: curve(orders),
        }
    }
}

/// The mean cumulative regret at evenly spaced rounds, the last one among them.
fn curve(orders: &[Vec<Step>]) -> Vec<(usize, f64)> {
    let rounds = orders.first().map_or(0, Vec::len);
    let stride = rounds.div_ceil(POINTS_MAX).max(1);
    let mut sum = 0.0;
    let mut points = Vec::new();
    for round in 0..rounds {
        sum += orders.iter().map(|steps| steps[round].regret).sum::<f64>() / orders.len() as f64;
        if (round + 1) % stride == 0 || round + 1 == rounds {
            points.push((round + 1, sum));
        }
    }
    points
}
