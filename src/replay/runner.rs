//! Turns the loop over a dataset: recall, decide, draw, reward, learn, remember.
//!
//! Each seed is one order with its own policy, memory and draws; seeds run on the machine's cores and the result does not
//! depend on how many there are. A policy that fails ends the replay: a silent fallback would be counted as the policy's
//! own.
//!
//! Honesty. A policy sees the context, decides, and is then told the outcome of what it took, and of nothing else: the other
//! cells of the matrix are read only to compute regret, after the draw. `leak` proves that of a policy and of this file.

use std::{
    fmt,
    str::FromStr,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{
    PolicyReport, Rule, Scoring, Worth,
    prepared::Prepared,
    report::{Ran, Setting, Step},
};
use crate::{
    action::{
        policy::{Attempt, Cascade, NextStep, Policy, PolicyError, Standings, observe},
        sample::{PmfError, Stream, normalised, sample, stream},
    },
    memory::{CAP, Entry, Filter, MIN_SIMILARITY, Memory, MemoryError, RECALL_K, ScanMemory},
    round::{Candidate, Context, RewardWeights, TriedArm},
};

/// Rounds between two calls of the progress callback.
const PROGRESS_EVERY: usize = 100;

/// In which order tasks come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// As in the file, whatever the seed.
    Released,
    /// By the seed.
    #[default]
    Shuffled,
}

/// How many models a task may get.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// One.
    #[default]
    Single,
    /// One after another, each one's verdict known before the next is chosen; the best answer is kept, all are paid.
    Cascade,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Released => "released",
            Self::Shuffled => "shuffled",
        })
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "released" => Ok(Self::Released),
            "shuffled" => Ok(Self::Shuffled),
            other => Err(format!("{other:?} is no order; choose released or shuffled")),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Single => "single",
            Self::Cascade => "cascade",
        })
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "single" => Ok(Self::Single),
            "cascade" => Ok(Self::Cascade),
            other => Err(format!("{other:?} is no protocol; choose single or cascade")),
        }
    }
}

/// How to replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayOptions {
    /// The policy's name in the report.
    pub policy: String,
    /// One order each; at least one.
    pub seeds: Vec<u64>,
    /// In which order tasks come.
    pub order: Order,
    /// Which rows count.
    pub rule: Rule,
    /// The reward.
    pub weights: RewardWeights,
    /// Entries that memory keeps.
    pub memory_cap: u64,
    /// Neighbours that a task recalls.
    pub recall: usize,
}

/// A learner, of one protocol or the other.
pub enum Learner {
    /// Takes one model a task.
    Single(Box<dyn Policy>),
    /// Takes one after another.
    Cascade(Box<dyn Cascade>),
}

/// How far one seed is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The seed.
    pub seed: u64,
    /// Rounds done.
    pub round: usize,
    /// Rounds to do.
    pub rounds: usize,
    /// Regret so far.
    pub cum_regret: f64,
}

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// There must be one embedding per task.
    #[error("{embeddings} embeddings were given for {tasks} tasks")]
    Embeddings {
        /// Given.
        embeddings: usize,
        /// Needed.
        tasks: usize,
    },
    /// What was learnt before must be of the same models.
    #[error("the tasks to learn from before are of other models than those to replay")]
    OtherModels,
    /// There is nothing to run.
    #[error("at least one seed is needed")]
    NoSeed,
    /// The policy had no opinion.
    #[error("the policy failed in round {round} of seed {seed}: {source}")]
    Policy {
        /// The seed.
        seed: u64,
        /// The round, from 0.
        round: usize,
        /// Why.
        source: PolicyError,
    },
    /// The policy stated something that is no distribution.
    #[error("the policy's distribution in round {round} of seed {seed} is wrong: {source}")]
    Pmf {
        /// The seed.
        seed: u64,
        /// The round, from 0.
        round: usize,
        /// Why.
        source: PmfError,
    },
    /// Memory refused an entry.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl ReplayOptions {
    /// Seeds 0 to `seeds` - 1, shuffled, with the default reward and memory, on the full table.
    pub fn new(policy: impl Into<String>, seeds: u64) -> Self {
        Self {
            policy: policy.into(),
            seeds: (0..seeds).collect(),
            order: Order::default(),
            rule: Rule::default(),
            weights: RewardWeights::default(),
            memory_cap: CAP,
            recall: RECALL_K,
        }
    }

    /// The rule and the reward.
    pub fn scoring(&self) -> Scoring {
        Scoring { rule: self.rule, weights: self.weights }
    }
}

impl Learner {
    /// How many models it takes for a task.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Single(_) => Protocol::Single,
            Self::Cascade(_) => Protocol::Cascade,
        }
    }

    /// A copy of it as it is now.
    pub fn snapshot(&self) -> Self {
        match self {
            Self::Single(policy) => Self::Single(policy.snapshot()),
            Self::Cascade(cascade) => Self::Cascade(cascade.snapshot()),
        }
    }
}

/// Replays one learner, which learnt nothing yet; what is to be learnt before comes from `prepared`. `progress` is called
/// from several threads, every hundred rounds and at each seed's end.
pub fn run(
    prepared: &Prepared<'_>,
    learner: Learner,
    options: &ReplayOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<PolicyReport, ReplayError> {
    let (started, protocol) = (Instant::now(), learner.protocol());
    let orders = orders(prepared, learner, options, progress)?;
    let setting = Setting {
        dataset: prepared.dataset,
        rule: options.rule,
        order: options.order,
        protocol,
        warm: prepared.warm_splits(),
    };
    Ok(PolicyReport::join(setting, &options.policy, &orders, started.elapsed().as_secs_f64()))
}

/// Every seed's rounds.
pub(super) fn orders(
    prepared: &Prepared<'_>,
    mut learner: Learner,
    options: &ReplayOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Vec<Step>>, ReplayError> {
    if options.seeds.is_empty() {
        return Err(ReplayError::NoSeed);
    }
    prepared.teach(&mut learner);
    let bests = options.scoring().bests(prepared.dataset);
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    // Guards the seeds' results, by place; each worker writes once per seed.
    let results = Mutex::new(Vec::new());
    let worker = || {
        while let Some((place, seed)) = claim(&next, &failed, &options.seeds) {
            let mut pass = Pass {
                prepared,
                options,
                bests: &bests,
                seed,
                learner: learner.snapshot(),
                standings: prepared.standings().clone(),
                memory: ScanMemory::new(options.memory_cap),
            };
            let result = pass.run(progress);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((place, result));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(options.seeds.len());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

fn claim(next: &AtomicUsize, failed: &AtomicBool, seeds: &[u64]) -> Option<(usize, u64)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    seeds.get(place).filter(|_| !failed.load(Ordering::Relaxed)).map(|seed| (place, *seed))
}

/// One seed's pass over the tasks, and what it has taught so far.
struct Pass<'a> {
    prepared: &'a Prepared<'a>,
    options: &'a ReplayOptions,
    bests: &'a [f64],
    seed: u64,
    learner: Learner,
    standings: Standings,
    memory: ScanMemory,
}

impl Pass<'_> {
    fn run(&mut self, progress: &(dyn Fn(Progress) + Sync)) -> Result<Vec<Step>, ReplayError> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut order: Vec<usize> = (0..self.prepared.dataset.tasks.len()).collect();
        match self.options.order {
            Order::Shuffled => order.shuffle(&mut rng),
            Order::Released => {}
        }
        let mut steps = Vec::with_capacity(order.len());
        let mut cum_regret = 0.0;
        for (round, task) in order.iter().enumerate() {
            let step = self.turn(round, *task, rng.random())?;
            cum_regret += step.regret;
            steps.push(step);
            let (done, rounds) = (round + 1, order.len());
            if done % PROGRESS_EVERY == 0 || done == rounds {
                progress(Progress { seed: self.seed, round: done, rounds, cum_regret });
            }
        }
        Ok(steps)
    }

    /// One turn of the loop.
    fn turn(&mut self, round: usize, task: usize, seed: u64) -> Result<Step, ReplayError> {
        let context = self.context(task)?;
        let attempts = match &self.learner {
            Learner::Single(policy) => vec![self.attempt(policy.as_ref(), &context, round, task, seed)?],
            Learner::Cascade(cascade) => self.attempts(cascade.as_ref(), &context, round, task, seed)?,
        };
        self.remember(round, task, &context, &attempts)?;
        let (kept, worth) = kept(&attempts);
        let regret = self.bests[task] - self.options.scoring().reward(worth);
        let propensity = attempts.iter().map(|attempt| attempt.propensity).product();
        let ran = Ran::Models { attempts: attempts.iter().map(|attempt| attempt.place).collect(), kept };
        Ok(Step { task, ran, propensity, worth, regret })
    }

    /// What is known of a task before anything is decided.
    fn context(&self, task: usize) -> Result<Context, ReplayError> {
        let prepared = self.prepared;
        let of_task = &prepared.dataset.tasks[task];
        let embedding = &prepared.embeddings[task];
        let recent = self.memory.query(embedding, prepared.recall, MIN_SIMILARITY, &Filter::default())?;
        let mut context = Context {
            neighbours: prepared.neighbours(task, recent),
            weights: self.options.weights,
            text: of_task.text().into(),
            ..Context::new(embedding.clone(), of_task.domain.clone(), prepared.candidates(task).to_vec())
        };
        observe(&mut context, &self.standings);
        Ok(context)
    }

    /// What a model made of a task: the one place where a pass reads outcomes.
    fn outcome(&self, task: usize, place: usize) -> Worth {
        self.options.scoring().worth(&self.prepared.dataset.tasks[task].results[place])
    }

    /// The one attempt of a policy.
    fn attempt(
        &self,
        policy: &dyn Policy,
        context: &Context,
        round: usize,
        task: usize,
        seed: u64,
    ) -> Result<Attempt, ReplayError> {
        let failed = |source| ReplayError::Policy { seed: self.seed, round, source };
        let wrong = |source| ReplayError::Pmf { seed: self.seed, round, source };
        let opinion = policy.decide(context, seed).map_err(failed)?;
        let pmf = normalised(opinion.pmf).map_err(wrong)?;
        let place = sample(&pmf, seed).map_err(wrong)?;
        let Worth { score, cost_usd } = self.outcome(task, place);
        Ok(Attempt { place, propensity: pmf[place], seed, voters: opinion.voters, score, cost_usd })
    }

    /// The attempts of a cascade, until it stops or nothing is left to try.
    fn attempts(
        &self,
        cascade: &dyn Cascade,
        context: &Context,
        round: usize,
        task: usize,
        seed: u64,
    ) -> Result<Vec<Attempt>, ReplayError> {
        let failed = |source| ReplayError::Policy { seed: self.seed, round, source };
        let wrong = |source| ReplayError::Pmf { seed: self.seed, round, source };
        let mut attempts: Vec<Attempt> = Vec::new();
        let mut seeds = stream(seed, Stream::Cascade);
        while attempts.len() < context.candidates.len() {
            let seed: u64 = seeds.random();
            let NextStep { mut pmf, stop, voters } = cascade.next(context, &attempts, seed).map_err(failed)?;
            // The end is one more thing that may be drawn, once something was tried.
            if !attempts.is_empty() {
                pmf.push(stop);
            }
            let pmf = normalised(pmf).map_err(wrong)?;
            let place = sample(&pmf, seed).map_err(wrong)?;
            if place == context.candidates.len() {
                break;
            }
            let Worth { score, cost_usd } = self.outcome(task, place);
            attempts.push(Attempt { place, propensity: pmf[place], seed, voters, score, cost_usd });
        }
        Ok(attempts)
    }

    /// Learns what the attempts gave, and nothing else.
    fn remember(
        &mut self,
        round: usize,
        task: usize,
        context: &Context,
        attempts: &[Attempt],
    ) -> Result<(), ReplayError> {
        for attempt in attempts {
            let learnt = attempt.round(context, &context.candidates[attempt.place]);
            if let Learner::Single(policy) = &mut self.learner {
                policy.learn(&learnt);
            }
            self.standings.learn(&learnt);
        }
        if let Learner::Cascade(cascade) = &mut self.learner {
            cascade.learn(context, attempts);
        }
        let of_task = &self.prepared.dataset.tasks[task];
        let entry = Entry {
            task_id: of_task.id.clone(),
            domain: of_task.domain.clone(),
            // A replay has no clock.
            at_ms: 0,
            embedding: context.embedding.clone(),
            outcomes: attempts.iter().map(|attempt| tried(&context.candidates[attempt.place], attempt)).collect(),
        };
        Ok(self.memory.put(round as u64, &[entry])?)
    }
}

fn tried(candidate: &Candidate, attempt: &Attempt) -> TriedArm {
    TriedArm {
        mode: candidate.mode,
        arm: candidate.arm.clone(),
        score: attempt.score,
        cost_usd: attempt.cost_usd,
        trace: String::new(),
    }
}

/// The best answer, the first of those that are as good, and what all attempts were worth; at least one.
fn kept(attempts: &[Attempt]) -> (usize, Worth) {
    let mut kept = &attempts[0];
    for attempt in attempts {
        if attempt.score > kept.score {
            kept = attempt;
        }
    }
    let cost_usd = attempts.iter().map(|attempt| attempt.cost_usd).sum();
    (kept.place, Worth { score: kept.score, cost_usd })
}

#[cfg(test)]
mod tests;
