//! Proves that a replayed learner sees the outcomes of what it took, after it took it, and nothing else of the matrix.
//!
//! The stream is replayed twice by learners made in the same way. In between, every outcome that the first pass did not
//! show is replaced by another one. A learner that was told only what it took cannot notice, so it takes the same models
//! with the same probabilities, bit for bit. One that peeks, or a harness that shows it more than it should, is found at the
//! first task where it differs.
//!
//! It cannot find a learner that brings its own copy of the right answers; a policy is pure, and its code is read.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    Dataset, Learner, ReplayError, ReplayOptions,
    prepared::Prepared,
    report::{Ran, Step},
    runner::orders,
};
use crate::round::{Embedding, TaskId};

/// Seeds what hidden outcomes are replaced by.
const SCRAMBLE_SEED: u64 = 31;

/// Where a learner knew more than it was told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "in round {round} (task {task}) the policy decides otherwise when outcomes change that it never saw: it peeks, or the \
     replay shows it more than the outcome of what it took"
)]
pub struct Leak {
    /// The round, from 0.
    pub round: usize,
    /// Its task.
    pub task: TaskId,
}

/// Replays the first of the options' seeds twice. `make` makes a learner for a dataset; what the dataset holds is what it
/// could peek at. `known` are tasks that are shown whole before.
pub fn check(
    dataset: &Dataset,
    embeddings: &[Embedding],
    known: Option<(&Dataset, &[Embedding])>,
    options: &ReplayOptions,
    make: &dyn Fn(&Dataset) -> Learner,
) -> Result<Option<Leak>, ReplayError> {
    let seed = options.seeds.first().ok_or(ReplayError::NoSeed)?;
    let options = ReplayOptions { seeds: vec![*seed], ..options.clone() };
    let pass = |dataset: &Dataset| -> Result<Vec<Step>, ReplayError> {
        let prepared = match known {
            Some(known) => Prepared::warm(dataset, embeddings, known, options.scoring(), options.recall)?,
            None => Prepared::cold(dataset, embeddings, options.recall)?,
        };
        Ok(orders(&prepared, make(dataset), &options, &|_| {})?.swap_remove(0))
    };
    let first = pass(dataset)?;
    let second = pass(&scrambled(dataset, &first))?;
    let differs = |(a, b): (&Step, &Step)| a.ran != b.ran || a.propensity.to_bits() != b.propensity.to_bits();
    let round = first.iter().zip(&second).position(differs);
    Ok(round.map(|round| Leak { round, task: dataset.tasks[first[round].task].id.clone() }))
}

/// The dataset with another outcome wherever the steps did not show one.
fn scrambled(dataset: &Dataset, steps: &[Step]) -> Dataset {
    let mut scrambled = dataset.clone();
    let mut rng = ChaCha8Rng::seed_from_u64(SCRAMBLE_SEED);
    for step in steps {
        for (model, result) in scrambled.tasks[step.task].results.iter_mut().enumerate() {
            let shown = match &step.ran {
                Ran::Models { attempts, .. } => attempts.contains(&model),
                Ran::Any => false,
            };
            if !shown {
                result.score = if result.score >= 0.5 { 0.0 } else { 1.0 };
                // For nothing, or dear: so that hidden answers are now better, now worse than the one shown.
                result.cost_usd = if rng.random() { 0.0 } else { 1.0 + 10.0 * result.cost_usd };
                result.measured = true;
            }
        }
    }
    scrambled
}
