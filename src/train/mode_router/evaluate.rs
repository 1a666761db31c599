//! Before deployment: what a trained policy would do, beside fixed ways of working that were chosen with care.
//!
//! A *fixed way* is a plan that is the same for all tasks of a domain ([`super::plans`]). For each mode and domain the plan with the highest reward on the
//! training tasks is taken. "The best fixed mode" is one mode for all
//! domains, each with its best plan; `dimension_best` takes the best mode per domain too; the oracle knows every score before it calls. All are run in the same worlds as the policy,
//! on tasks that none of them saw, and differences are paired by task.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{
    environment::{Environment, Matrix},
    plans::{Best, Plan, Search, Trial, trial},
    rollout::{Ended, Masked, prefix, roll, stream},
};
use crate::{action::policy::mode_router::Frozen, round::Mode};

/// Resamples of an interval.
const RESAMPLES: usize = 2_000;
/// The share of one mode in one domain from which a report warns.
const CONCENTRATED: f64 = 0.95;

/// Figures of one way of working over some tasks, with 95 % intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Tasks.
    pub tasks: usize,
    /// Mean score.
    pub score: [f64; 3],
    /// Mean dollars.
    pub cost_usd: [f64; 3],
    /// Mean reward.
    pub reward: [f64; 3],
    /// Median and 95th percentile of the milliseconds of a task; 0 where the dataset has none.
    pub latency_ms: [f64; 2],
    /// What part ran in each mode.
    pub modes: [f64; 3],
    /// Mean calls.
    pub calls: f64,
}

/// One alpha's report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What cost weighs.
    pub alpha: f64,
    /// Dollars at which a trajectory's cost halves its reward.
    pub cost_reference_usd: f64,
    /// Every way of working over all tasks: policy, single, multi, agentic, `dimension_best`, oracle.
    pub ways: BTreeMap<String, Figures>,
    /// The same by domain.
    pub domains: BTreeMap<String, BTreeMap<String, Figures>>,
    /// The best plan of each domain and mode.
    pub plans: BTreeMap<String, [Plan; 3]>,
    /// The mode that is best where one is taken for all domains, by the training tasks.
    pub best_fixed_mode: Mode,
    /// The policy's mean reward less that mode's: low end, mean, high end.
    pub over_best_fixed: [f64; 3],
    /// The same task by task, in the dataset's order: several seeds can be compared with the fixed ways together.
    pub over_best_fixed_by_task: Vec<f64>,
    /// The same against the best mode of each domain.
    pub over_dimension_best: [f64; 3],
    /// What to look at before this is deployed.
    pub warnings: Vec<String>,
}

/// What a report is made of.
pub struct Evaluation<'a> {
    /// Tasks on which plans are chosen.
    pub known: &'a Matrix,
    /// Tasks that nothing saw.
    pub held_out: &'a Matrix,
    /// Worlds of each task.
    pub worlds: u64,
    /// Dollars at which a trajectory's cost halves its reward.
    pub cost_reference_usd: f64,
}

impl Evaluation<'_> {
    /// The policy as it is served: under the mask, drawn by its probabilities or, with `greedy`, always the likeliest token.
    pub fn served(&self, network: &Frozen, alpha: f64, greedy: bool) -> Vec<Trial> {
        let matrix = self.held_out;
        let order: Vec<usize> = (0..matrix.workers().len()).collect();
        let run = |query: usize| {
            let prefix = prefix(&matrix.queries()[query], alpha, &order);
            let begun = network.begin(&prefix);
            let trials = (0..self.worlds).map(|seed| {
                let world = matrix.world(query, WORLDS + seed);
                let rng =
                    (!greedy).then(|| stream(&[b"served", &seed.to_le_bytes(), matrix.queries()[query].id.as_bytes()]));
                let rollout = roll(network, &begun, &prefix, &order, &*world, None, &mut Masked::new(network, rng));
                let mut trial = Trial { calls: rollout.made.len() as f64, ..Trial::default() };
                if let Ended::Answered(outcome) = rollout.ended {
                    trial.came_to(outcome);
                }
                if let Some(mode) = rollout.mode {
                    trial.modes[crate::action::policy::mode_router::mode_place(mode)] = 1.0;
                }
                trial
            });
            Trial::mean(&trials.collect::<Vec<_>>())
        };
        (0..matrix.queries().len()).into_par_iter().map(run).collect()
    }

    /// What the policy did beside the fixed ways.
    pub fn report(&self, policy: &[Trial], alpha: f64) -> Report {
        let matrix = self.held_out;
        let plans: Vec<Best> = (0..matrix.domains().len())
            .map(|domain| Search::new(self.known, domain, alpha, self.cost_reference_usd).best())
            .collect();
        let fixed = |mode: usize| self.run(|query| &plans[matrix.queries()[query].domain][mode].0);
        let best_of = |domain: usize| {
            let by_reward = |a: &usize, b: &usize| plans[domain][*a].1.total_cmp(&plans[domain][*b].1);
            (0..3).max_by(by_reward).unwrap_or_default()
        };
        let sizes = self.sizes(self.known);
        let of_mode = |mode: usize| plans.iter().zip(&sizes).map(|(plans, size)| plans[mode].1 * size).sum::<f64>();
        let best = (0..3).max_by(|a, b| of_mode(*a).total_cmp(&of_mode(*b))).unwrap_or_default();
        let mut ways: Vec<(&str, Vec<Trial>)> = vec![("policy", policy.to_vec())];
        ways.extend([("single", fixed(0)), ("multi", fixed(1)), ("agentic", fixed(2))]);
        ways.push((
            "dimension_best",
            self.run(|query| {
                let domain = matrix.queries()[query].domain;
                &plans[domain][best_of(domain)].0
            }),
        ));
        ways.push(("oracle", (0..matrix.queries().len()).map(|query| self.oracle(query, alpha)).collect()));
        let figures = |trials: &[Trial], places: &[usize]| self.figures(trials, places, alpha);
        let all: Vec<usize> = (0..matrix.queries().len()).collect();
        let of_domain = |domain: usize| {
            all.iter().copied().filter(|query| matrix.queries()[*query].domain == domain).collect::<Vec<_>>()
        };
        let domains: BTreeMap<_, _> = matrix
            .domains()
            .iter()
            .enumerate()
            .map(|(domain, name)| (name.clone(), of_domain(domain)))
            .filter(|(_, places)| !places.is_empty())
            .map(|(name, places)| {
                let rows = ways.iter().map(|(way, trials)| ((*way).to_owned(), figures(trials, &places)));
                (name, rows.collect::<BTreeMap<_, _>>())
            })
            .collect();
        let over_best_fixed = self.differences(policy, &ways[1 + best].1, alpha);
        Report {
            alpha,
            cost_reference_usd: self.cost_reference_usd,
            best_fixed_mode: Mode::ALL[best],
            over_best_fixed: bootstrapped(&over_best_fixed),
            over_best_fixed_by_task: over_best_fixed,
            over_dimension_best: bootstrapped(&self.differences(policy, &ways[4].1, alpha)),
            warnings: warnings(&domains),
            ways: ways.iter().map(|(way, trials)| ((*way).to_owned(), figures(trials, &all))).collect(),
            domains,
            plans: matrix
                .domains()
                .iter()
                .zip(plans)
                .map(|(name, plans)| (name.clone(), plans.map(|(plan, _)| plan)))
                .collect(),
        }
    }

    fn sizes(&self, matrix: &Matrix) -> Vec<f64> {
        let mut sizes = vec![0.0; matrix.domains().len()];
        matrix.queries().iter().for_each(|query| sizes[query.domain] += 1.0);
        sizes
    }

    fn run<'p>(&self, plan: impl Fn(usize) -> &'p Plan + Sync) -> Vec<Trial> {
        let of = |query: usize| {
            let trials: Vec<Trial> =
                (0..self.worlds).map(|seed| trial(self.held_out, query, WORLDS + seed, plan(query))).collect();
            Trial::mean(&trials)
        };
        (0..self.held_out.queries().len()).into_par_iter().map(of).collect()
    }

    fn oracle(&self, query: usize, alpha: f64) -> Trial {
        let single = |worker: usize| trial(self.held_out, query, 0, &Plan::Single(worker));
        let trials = (0..self.held_out.workers().len()).map(single);
        let worth = |trial: &Trial| trial.reward(alpha, self.cost_reference_usd);
        trials.max_by(|a, b| worth(a).total_cmp(&worth(b))).unwrap_or_default()
    }

    fn figures(&self, trials: &[Trial], places: &[usize], alpha: f64) -> Figures {
        let of: Vec<Trial> = places.iter().map(|place| trials[*place]).collect();
        let mean = Trial::mean(&of);
        let mut latencies: Vec<f64> = of.iter().map(|trial| trial.latency_ms).collect();
        latencies.sort_by(f64::total_cmp);
        let interval = |value: &dyn Fn(&Trial) -> f64| bootstrapped(&of.iter().map(value).collect::<Vec<_>>());
        Figures {
            tasks: of.len(),
            score: interval(&|trial| trial.score),
            cost_usd: interval(&|trial| trial.cost_usd),
            reward: interval(&|trial| trial.reward(alpha, self.cost_reference_usd)),
            latency_ms: [0.5, 0.95].map(|part| at(&latencies, part)),
            modes: mean.modes,
            calls: mean.calls,
        }
    }

    /// The differences of rewards, task by task.
    fn differences(&self, ours: &[Trial], theirs: &[Trial], alpha: f64) -> Vec<f64> {
        let reward = |trial: &Trial| trial.reward(alpha, self.cost_reference_usd);
        ours.iter().zip(theirs).map(|(ours, theirs)| reward(ours) - reward(theirs)).collect()
    }
}

/// Worlds of evaluations are none of training's.
const WORLDS: u64 = 1 << 40;

/// Low end, mean and high end of a mean, 95 %, by the percentiles of resamples.
pub fn bootstrapped(values: &[f64]) -> [f64; 3] {
    let n = values.len();
    if n == 0 {
        return [0.0; 3];
    }
    let mut rng = ChaCha8Rng::seed_from_u64(n as u64);
    let mut resample = || (0..n).map(|_| values[rng.random_range(0..n)]).sum::<f64>() / n as f64;
    let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    means.sort_by(f64::total_cmp);
    [at(&means, 0.025), values.iter().sum::<f64>() / n as f64, at(&means, 0.975)]
}

/// A quantile of numbers in order; 0 of none.
fn at(sorted: &[f64], part: f64) -> f64 {
    let place = (sorted.len().saturating_sub(1) as f64 * part).round() as usize;
    sorted.get(place).copied().unwrap_or_default()
}

fn warnings(domains: &BTreeMap<String, BTreeMap<String, Figures>>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (domain, ways) in domains {
        let Some(policy) = ways.get("policy") else { continue };
        for (mode, share) in Mode::ALL.into_iter().zip(policy.modes) {
            if share > CONCENTRATED {
                warnings.push(format!("{domain}: {:.0} % of the tasks run in {mode}", 100.0 * share));
            }
        }
    }
    warnings
}
