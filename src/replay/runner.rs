//! Turns the loop over a dataset: recall, decide, draw, reward, learn, remember.
//!
//! Each seed is one shuffled order with its own policy, memory and draws; seeds run on the machine's cores and the
//! result does not depend on how many there are. A policy that fails ends the replay: a silent fallback would be
//! counted as the policy's own.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::{Dataset, PolicyReport, baselines::rewards, report::SeedResult};
use crate::{
    action::{
        policy::{LearntRound, Policy, PolicyError, Standings, observe},
        sample::{PmfError, normalised, sample},
    },
    memory::{CAP, Entry, Filter, MIN_SIMILARITY, Memory, MemoryError, RECALL_K, ScanMemory},
    round::{Candidate, Context, Embedding, Mode, Recall, RewardWeights, TriedArm},
};

/// Rounds between two calls of the progress callback.
const PROGRESS_EVERY: usize = 100;

/// How to replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayOptions {
    /// The policy's name in the report.
    pub policy: String,
    /// One shuffled order each; at least one.
    pub seeds: Vec<u64>,
    /// The reward.
    pub weights: RewardWeights,
    /// Entries that memory keeps.
    pub memory_cap: u64,
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
    /// Seeds 0 to `seeds` - 1, the default reward and memory.
    pub fn new(policy: impl Into<String>, seeds: u64) -> Self {
        let (policy, seeds) = (policy.into(), (0..seeds).collect());
        Self { policy, seeds, weights: RewardWeights::default(), memory_cap: CAP }
    }
}

/// Replays one policy. `embeddings` are those of the tasks' texts, in order; `factory` makes a fresh policy per seed;
/// `progress` is called from several threads, every hundred rounds and at each seed's end.
pub fn run(
    dataset: &Dataset,
    embeddings: &[Embedding],
    factory: &(dyn Fn() -> Box<dyn Policy> + Sync),
    options: &ReplayOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<PolicyReport, ReplayError> {
    if embeddings.len() != dataset.tasks.len() {
        return Err(ReplayError::Embeddings { embeddings: embeddings.len(), tasks: dataset.tasks.len() });
    }
    if options.seeds.is_empty() {
        return Err(ReplayError::NoSeed);
    }
    let started = Instant::now();
    let candidates = all_candidates(dataset);
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    // Guards the seeds' results, by place; each worker writes once per seed.
    let results = Mutex::new(Vec::new());
    let worker = || {
        while let Some((place, seed)) = claim(&next, &failed, &options.seeds) {
            let order = Order { dataset, embeddings, candidates: &candidates, options, seed };
            let result = order.run(factory(), progress);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((place, result));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(options.seeds.len());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(place, _)| *place);
    let results = results.into_iter().map(|(_, result)| result).collect::<Result<Vec<_>, _>>()?;
    Ok(PolicyReport::join(dataset, &options.policy, &results, started.elapsed().as_secs_f64()))
}

fn claim(next: &AtomicUsize, failed: &AtomicBool, seeds: &[u64]) -> Option<(usize, u64)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    seeds.get(place).filter(|_| !failed.load(Ordering::Relaxed)).map(|seed| (place, *seed))
}

/// Every task's candidates: all models, at the cost that a router would expect.
fn all_candidates(dataset: &Dataset) -> Vec<Vec<Candidate>> {
    let of_task = |task: &super::DatasetTask| {
        let candidate = |model: &super::Model| {
            Candidate::new(Mode::Single, model.arm.clone(), model.expected_cost_usd(task.text()))
        };
        dataset.models.iter().map(candidate).collect()
    };
    dataset.tasks.iter().map(of_task).collect()
}

/// One seed's pass over the tasks.
struct Order<'a> {
    dataset: &'a Dataset,
    embeddings: &'a [Embedding],
    candidates: &'a [Vec<Candidate>],
    options: &'a ReplayOptions,
    seed: u64,
}

/// What one order has taught so far.
struct Learnt {
    policy: Box<dyn Policy>,
    standings: Standings,
}

impl Order<'_> {
    fn run(&self, policy: Box<dyn Policy>, progress: &(dyn Fn(Progress) + Sync)) -> Result<SeedResult, ReplayError> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut order: Vec<usize> = (0..self.dataset.tasks.len()).collect();
        order.shuffle(&mut rng);
        let memory = ScanMemory::new(self.options.memory_cap);
        let mut learnt = Learnt { policy, standings: Standings::default() };
        let mut result = SeedResult { rounds_by_model: vec![0.0; self.dataset.models.len()], ..SeedResult::default() };
        for (round, task) in order.iter().enumerate() {
            self.turn(round, *task, rng.random(), &mut learnt, &memory, &mut result)?;
            let (done, rounds) = (round + 1, order.len());
            if done % PROGRESS_EVERY == 0 || done == rounds {
                progress(Progress { seed: self.seed, round: done, rounds, cum_regret: result.regret_sum });
            }
        }
        Ok(result)
    }

    /// One turn of the loop.
    fn turn(
        &self,
        round: usize,
        index: usize,
        seed: u64,
        learnt: &mut Learnt,
        memory: &ScanMemory,
        result: &mut SeedResult,
    ) -> Result<(), ReplayError> {
        let task = &self.dataset.tasks[index];
        let embedding = &self.embeddings[index];
        let mut context = Context {
            text: task.text().into(),
            embedding: embedding.clone(),
            domain: task.domain.clone(),
            neighbours: memory.query(embedding, RECALL_K, MIN_SIMILARITY, &Filter::default())?,
            recall: Recall::Ok,
            candidates: self.candidates[index].clone(),
            last: None,
            weights: self.options.weights,
        };
        observe(&mut context, &learnt.standings);
        let failed = |source| ReplayError::Policy { seed: self.seed, round, source };
        let wrong = |source| ReplayError::Pmf { seed: self.seed, round, source };
        let opinion = learnt.policy.decide(&context, seed).map_err(failed)?;
        let pmf = normalised(opinion.pmf).map_err(wrong)?;
        let taken = sample(&pmf, seed).map_err(wrong)?;
        let Candidate { mode, arm, .. } = &context.candidates[taken];
        let outcome = task.results[taken];
        let rewards = rewards(task, self.options.weights);
        let learnt_round = LearntRound {
            context: &context,
            mode: *mode,
            arm,
            propensity: pmf[taken],
            seed,
            voters: &opinion.voters,
            score: outcome.score,
            reward: rewards[taken],
            cost_usd: outcome.cost_usd,
            trust: 1.0,
        };
        learnt.policy.learn(&learnt_round);
        learnt.standings.learn(&learnt_round);
        let tried = TriedArm {
            mode: *mode,
            arm: arm.clone(),
            score: outcome.score,
            cost_usd: outcome.cost_usd,
            trace: String::new(),
        };
        let entry = Entry {
            task_id: task.id.clone(),
            domain: task.domain.clone(),
            // A replay has no clock.
            at_ms: 0,
            embedding: embedding.clone(),
            outcomes: vec![tried],
        };
        memory.put(round as u64, &[entry])?;
        result.score_sum += outcome.score;
        result.cost_usd_sum += outcome.cost_usd;
        result.regret_sum += rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max) - rewards[taken];
        result.rounds_by_model[taken] += 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
