//! A world made of recorded outcomes: every model's score, cost and time on every task.
//!
//! What is recorded: the score S, the cost and, where it was measured, the time of one call of each worker on each task, so a worker that is called again says the same again. What is
//! simulated, and declared in [`VerifierSettings`]: the verifier between the calls of rounds says PASS where S >= tau, wrongly with two stated probabilities; a team's
//! verifier tells S with noise, in five bins; its summarizer gives the output with the highest noisy score among those that it refers to, taking what verifiers told into
//! account; planners cost and bring nothing. Planners, verifiers and summarizers are billed for stated numbers of tokens at their worker's prices. All noise is drawn once per (task, worker, role, output,
//! seed), so that the rollouts of a group share one world.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::{Environment, Failed, Made, Outcome, Query, World};
use crate::{
    action::policy::mode_router::{Descriptor, Raw, Seen, WORKERS_MAX},
    grammar::Role,
    replay::{Dataset, Model, TaskResult},
    round::Embedding,
    train::mode_router::rollout::stream,
};

/// Characters of a text per token, roughly.
const CHARS_PER_TOKEN: f64 = 4.0;

/// The simulated verifier, and what parts of a team are billed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierSettings {
    /// The score from which an output is right.
    pub tau: f64,
    /// The probability that a right output is failed.
    pub false_negative: f64,
    /// The probability that a wrong output is passed.
    pub false_positive: f64,
    /// Standard deviation of what a team's verifiers and summarizers see of a score.
    pub noise: f64,
    /// Tokens that a planner writes.
    pub planner_tokens: f64,
    /// Tokens that a verifier writes.
    pub verifier_tokens: f64,
    /// Tokens that a summarizer writes, and that it and verifiers read of each output that they refer to.
    pub answer_tokens: f64,
}

impl Default for VerifierSettings {
    fn default() -> Self {
        Self {
            tau: 0.5,
            false_negative: 0.1,
            false_positive: 0.3,
            noise: 0.5,
            planner_tokens: 100.0,
            verifier_tokens: 50.0,
            answer_tokens: 200.0,
        }
    }
}

/// One worker's recorded outcome on one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worth {
    /// In [0, 1].
    pub score: f64,
    /// Dollars.
    pub cost_usd: f64,
    /// Milliseconds; those that the worker usually takes where they were not measured, 0 where they never were.
    pub latency_ms: f64,
}

/// Why no world can be made of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    /// Nothing to choose from.
    #[error("{0} has the outcomes of one model: choosing needs at least two")]
    OneModel(String),
    /// More than a policy can tell apart.
    #[error("{name} has {found} models, a mode-router tells {WORKERS_MAX} apart: name fewer with --models")]
    TooMany {
        /// The dataset.
        name: String,
        /// How many it has.
        found: usize,
    },
    /// Costs are all 0.
    #[error("{0} has no costs, so nothing can be learnt of what they weigh: train with --alpha-range 0,0")]
    NoCosts(String),
    /// No task.
    #[error("{0} has no task to train on")]
    NoTasks(String),
}

/// The world of one dataset, or of a part of one.
#[derive(Clone)]
pub struct Matrix {
    domains: Vec<String>,
    workers: Vec<String>,
    models: Vec<Model>,
    queries: Vec<Query>,
    outcomes: Vec<Vec<Worth>>,
    verifier: VerifierSettings,
    /// What each worker usually takes, in milliseconds; 0 where unknown.
    usual_ms: Vec<f64>,
}

impl Matrix {
    /// The tasks of `of` (places in the dataset), with workers described by those of `known` alone.
    pub fn new(
        dataset: &Dataset,
        embeddings: &[Embedding],
        known: &[usize],
        of: &[usize],
        verifier: VerifierSettings,
        with_cost: bool,
    ) -> Result<Self, MatrixError> {
        let name = dataset.name.clone();
        match dataset.models.len() {
            0 | 1 => return Err(MatrixError::OneModel(name)),
            found if found > WORKERS_MAX => return Err(MatrixError::TooMany { name, found }),
            _ => {}
        }
        if known.is_empty() || of.is_empty() {
            return Err(MatrixError::NoTasks(name));
        }
        if with_cost && dataset.tasks.iter().flat_map(|task| &task.results).all(|result| result.cost_usd <= 0.0) {
            return Err(MatrixError::NoCosts(name));
        }
        let mut domains: Vec<String> = dataset.tasks.iter().map(|task| task.domain.to_string()).collect();
        domains.sort();
        domains.dedup();
        let described = described(dataset, known);
        let query = |place: &usize| {
            let task = &dataset.tasks[*place];
            Query {
                pool: 0,
                id: task.id.as_str().into(),
                text: task.text().into(),
                domain: domains.binary_search(&task.domain.to_string()).unwrap_or_default(),
                embedding: embeddings[*place].as_slice().into(),
                workers: described.get(task.domain.as_str()).unwrap_or(&described[""]).clone(),
            }
        };
        let usual_ms: Vec<f64> = (0..dataset.models.len())
            .map(|worker| median(dataset, known, worker, |result| result.latency_ms))
            .collect();
        let outcomes = |place: &usize| {
            let worth = dataset.tasks[*place].results.iter().zip(&usual_ms).map(|(result, usual_ms)| Worth {
                score: result.score,
                cost_usd: result.cost_usd,
                latency_ms: result.latency_ms.unwrap_or(*usual_ms),
            });
            worth.collect()
        };
        Ok(Self {
            workers: dataset.models.iter().map(|model| model.arm.to_string()).collect(),
            models: dataset.models.clone(),
            queries: of.iter().map(query).collect(),
            outcomes: of.iter().map(outcomes).collect(),
            domains,
            verifier,
            usual_ms,
        })
    }

    /// Every worker's recorded outcome on a query.
    pub fn outcomes(&self, query: usize) -> &[Worth] {
        &self.outcomes[query]
    }

    /// The same tasks under another simulated verifier.
    pub fn with_verifier(&self, verifier: VerifierSettings) -> Self {
        Self { verifier, ..self.clone() }
    }

    /// The simulated verifier.
    pub fn verifier(&self) -> &VerifierSettings {
        &self.verifier
    }
}

/// What workers look like in each domain, and under "" in one that was never seen, by the outcomes of the known tasks.
fn described(dataset: &Dataset, known: &[usize]) -> BTreeMap<String, Arc<[Descriptor]>> {
    let mut sums: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let workers = dataset.models.len();
    for place in known {
        let task = &dataset.tasks[*place];
        for domain in ["", task.domain.as_str()] {
            let sums = sums.entry(domain.to_owned()).or_insert_with(|| vec![(0.0, 0.0); workers]);
            for (sum, result) in sums.iter_mut().zip(&task.results) {
                *sum = (sum.0 + result.score, sum.1 + 1.0);
            }
        }
    }
    let medians = |of: fn(&TaskResult) -> Option<f64>| -> Vec<f32> {
        (0..workers).map(|worker| median(dataset, known, worker, of) as f32).collect()
    };
    let costs = medians(|result| Some(result.cost_usd));
    let tokens = medians(|result| result.output_tokens.map(|tokens| tokens as f64));
    let latencies = medians(|result| result.latency_ms);
    let mean = |(sum, n): (f64, f64)| (sum / f64::max(n, 1.0)) as f32;
    let everywhere = sums[""].clone();
    let of_domain = |(domain, sums): (&String, &Vec<(f64, f64)>)| {
        let raw = (0..workers).map(|worker| Raw {
            domain_mean: mean(sums[worker]),
            mean: mean(everywhere[worker]),
            cost_usd: costs[worker],
            output_tokens: tokens[worker],
            latency_ms: latencies[worker],
        });
        (domain.clone(), Descriptor::relative(&raw.collect::<Vec<_>>()).into())
    };
    sums.iter().map(of_domain).collect()
}

/// The median of what was recorded of a worker; 0 where nothing was.
fn median(dataset: &Dataset, known: &[usize], worker: usize, of: impl Fn(&TaskResult) -> Option<f64>) -> f64 {
    let mut found: Vec<f64> = known.iter().filter_map(|place| of(&dataset.tasks[*place].results[worker])).collect();
    found.sort_by(f64::total_cmp);
    found.get(found.len() / 2).copied().unwrap_or_default()
}

impl Environment for Matrix {
    fn domains(&self) -> &[String] {
        &self.domains
    }

    fn workers(&self) -> &[String] {
        &self.workers
    }

    fn queries(&self) -> &[Query] {
        &self.queries
    }

    fn world(&self, query: usize, seed: u64) -> Box<dyn World + '_> {
        let Query { id, text, .. } = &self.queries[query];
        let prompt_tokens = text.chars().count() as f64 / CHARS_PER_TOKEN;
        Box::new(Recorded { matrix: self, outcomes: &self.outcomes[query], id: id.clone(), prompt_tokens, seed })
    }
}

/// One task's world.
struct Recorded<'a> {
    matrix: &'a Matrix,
    outcomes: &'a [Worth],
    id: Arc<str>,
    prompt_tokens: f64,
    seed: u64,
}

impl Recorded<'_> {
    fn worth(&self, worker: usize) -> Result<Worth, Failed> {
        self.outcomes.get(worker).copied().ok_or(Failed)
    }

    fn draws(&self, role: &[u8], worker: usize, output: usize) -> rand_chacha::ChaCha8Rng {
        let numbers = [self.seed.to_le_bytes(), (worker as u64).to_le_bytes(), (output as u64).to_le_bytes()];
        stream(&[b"matrix", role, self.id.as_bytes(), &numbers.concat()])
    }

    /// Whether the verifier between rounds passes a worker's output.
    fn passes(&self, worker: usize) -> Result<bool, Failed> {
        let VerifierSettings { tau, false_negative, false_positive, .. } = self.matrix.verifier;
        let right = self.worth(worker)?.score >= tau;
        let wrong =
            self.draws(b"check", worker, 0).random::<f64>() < if right { false_negative } else { false_positive };
        Ok(right != wrong)
    }

    /// What a worker in a role sees of another's score.
    fn noisy(&self, role: &[u8], worker: usize, of: usize) -> Result<f64, Failed> {
        let normal: f64 = StandardNormal.sample(&mut self.draws(role, worker, of));
        Ok(self.worth(of)?.score + self.matrix.verifier.noise * normal)
    }

    /// The executors among a call's references, and those of the verifiers among them.
    fn outputs(made: &[Made], call: &Made) -> Vec<usize> {
        let mut outputs: Vec<usize> = Vec::new();
        for node in &call.refs {
            match made[*node].role {
                Some(Role::Executor) | None => outputs.push(*node),
                Some(Role::Verifier) => outputs.extend(Self::outputs(made, &made[*node])),
                Some(Role::Planner | Role::Summarizer) => {}
            }
        }
        outputs.sort_unstable();
        outputs.dedup();
        outputs
    }

    /// The worker whose output a summarizer gives: the best by what it and the verifiers that it refers to saw.
    fn summarized(&self, made: &[Made], call: &Made) -> Result<Option<usize>, Failed> {
        let verifiers: Vec<&Made> =
            call.refs.iter().map(|node| &made[*node]).filter(|made| made.role == Some(Role::Verifier)).collect();
        let mut best: Option<(f64, usize)> = None;
        for node in Self::outputs(made, call) {
            let worker = made[node].worker;
            let mut seen = vec![self.noisy(b"summarizer", call.worker, worker)?];
            for verifier in verifiers.iter().filter(|verifier| Self::outputs(made, verifier).contains(&node)) {
                seen.push(self.noisy(b"verifier", verifier.worker, worker)?);
            }
            let mean = seen.iter().sum::<f64>() / seen.len() as f64;
            if best.is_none_or(|(most, _)| mean > most) {
                best = Some((mean, worker));
            }
        }
        Ok(best.map(|(_, worker)| worker))
    }

    /// Milliseconds of a trajectory: layers one after another, calls of a layer side by side. Calls that bring no output of their own take what their worker usually takes.
    fn latency_ms(&self, made: &[Made]) -> Result<f64, Failed> {
        let mut layers: BTreeMap<usize, f64> = BTreeMap::new();
        for call in made {
            let milliseconds = match call.role {
                None | Some(Role::Executor) => self.worth(call.worker)?.latency_ms,
                Some(Role::Planner | Role::Verifier | Role::Summarizer) => self.matrix.usual_ms[call.worker],
            };
            let longest = layers.entry(call.layer).or_default();
            *longest = longest.max(milliseconds);
        }
        Ok(layers.values().sum())
    }

    /// Dollars of a call; none where a price is not known.
    fn cost_usd(&self, made: &[Made], call: &Made) -> Result<f64, Failed> {
        let VerifierSettings { planner_tokens, verifier_tokens, answer_tokens, .. } = self.matrix.verifier;
        let model = &self.matrix.models[call.worker];
        let read = self.prompt_tokens + answer_tokens * Self::outputs(made, call).len() as f64;
        let billed = |written: f64| (read * model.input_per_1m + written * model.output_per_1m) / 1e6;
        Ok(match call.role {
            None | Some(Role::Executor) => self.worth(call.worker)?.cost_usd,
            Some(Role::Planner) => billed(planner_tokens),
            Some(Role::Verifier) => billed(verifier_tokens),
            Some(Role::Summarizer) => billed(answer_tokens),
        })
    }
}

impl World for Recorded<'_> {
    fn run(&self, made: &[Made], new: Range<usize>) -> Result<Vec<Seen>, Failed> {
        let seen = |call: &Made| {
            self.worth(call.worker)?;
            Ok(match call.role {
                None => {
                    if self.passes(call.worker)? {
                        Seen::Pass
                    } else {
                        Seen::Fail
                    }
                }
                Some(Role::Verifier) => {
                    let outputs = Self::outputs(made, call);
                    let mut sum = 0.0;
                    for node in &outputs {
                        sum += self.noisy(b"verifier", call.worker, made[*node].worker)?;
                    }
                    if outputs.is_empty() { Seen::Nothing } else { Seen::bin(sum / outputs.len() as f64) }
                }
                Some(Role::Planner | Role::Executor | Role::Summarizer) => Seen::Nothing,
            })
        };
        made[new].iter().map(seen).collect()
    }

    fn close(&self, made: &[Made], answer: usize) -> Result<Outcome, Failed> {
        let call = made.get(answer).ok_or(Failed)?;
        let worker = match call.role {
            None | Some(Role::Executor) => Some(call.worker),
            // With nothing to sum up it gives nothing.
            Some(Role::Summarizer) => self.summarized(made, call)?,
            Some(Role::Planner | Role::Verifier) => None,
        };
        let score = worker.map_or(Ok(0.0), |worker| self.worth(worker).map(|worth| worth.score))?;
        let mut cost_usd = 0.0;
        for call in made {
            cost_usd += self.cost_usd(made, call)?;
        }
        Ok(Outcome { score, cost_usd: Some(cost_usd), latency_ms: self.latency_ms(made)? })
    }
}
