//! The papers' routers: fitted once on full information (every model's outcome on the tasks of some splits), then frozen.
//!
//! They are what an online policy is compared with on the same stream. Each is fitted here as its paper describes it, on
//! what a live router sees of a task: its text, its embedding and its domain. What the papers leave open (layers, rates,
//! neighbours) is a constant with its reason in the router's file. None of them explores, so their propensities are 1.
//!
//! What can go wrong: a frozen router is only as good as its splits are like the stream; that is the point of comparing.

mod acrouter;
mod dimension_best;
mod knn_retrieval;
mod matrix_factorisation;
mod network;

use std::sync::Arc;

use crate::{
    action::{
        explore::greedy,
        policy::{LearntRound, Opinion, Policy, PolicyError},
    },
    replay::{Dataset, Scoring},
    round::{ArmId, Context, Domain, Embedding},
};

/// The names that [`fit`] knows.
pub const NAMES: [&str; 6] =
    ["dimension_best", "knn_retrieval", "logreg", "tfidf_mlp", "routellm_mf", "acrouter_ensemble"];

/// Why a router cannot be fitted.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// The name is not registered.
    #[error("there is no offline router {0:?}; choose one of {names}", names = NAMES.join(", "))]
    Unknown(String),
    /// There is nothing to learn from.
    #[error("{0} is fitted on tasks whose outcomes are all known: name their splits (--warm train,val)")]
    NothingKnown(String),
    /// The texts have no words.
    #[error("no vocabulary can be made of the texts: {0}")]
    Vocabulary(String),
    /// The optimiser failed.
    #[error("the network could not be fitted: {0}")]
    Network(#[from] candle_core::Error),
}

/// All that is known of some tasks.
#[derive(Debug, Clone)]
pub struct Known {
    arms: Vec<ArmId>,
    tasks: Vec<KnownTask>,
}

/// One task and what each arm gave.
#[derive(Debug, Clone)]
struct KnownTask {
    text: Arc<str>,
    embedding: Embedding,
    domain: Domain,
    scores: Vec<f64>,
    rewards: Vec<f64>,
}

impl Known {
    /// Every outcome on a dataset's tasks, under a rule; one embedding per task, in order.
    pub fn of(dataset: &Dataset, embeddings: &[Embedding], scoring: Scoring) -> Self {
        let task = |(task, embedding): (&crate::replay::DatasetTask, &Embedding)| KnownTask {
            text: task.text().into(),
            embedding: embedding.clone(),
            domain: task.domain.clone(),
            scores: task.results.iter().map(|result| scoring.worth(result).score).collect(),
            rewards: scoring.rewards(task),
        };
        Self {
            arms: dataset.models.iter().map(|model| model.arm.clone()).collect(),
            tasks: dataset.tasks.iter().zip(embeddings).map(task).collect(),
        }
    }
}

impl KnownTask {
    /// The arm with the highest reward, the first of those that are as good.
    fn best(&self) -> usize {
        highest(&self.rewards)
    }
}

/// Fits one of [`NAMES`].
pub fn fit(name: &str, known: &Known) -> Result<Box<dyn Policy>, RouterError> {
    let Some(&name) = NAMES.iter().find(|known| **known == name) else {
        return Err(RouterError::Unknown(name.into()));
    };
    if known.tasks.is_empty() {
        return Err(RouterError::NothingKnown(name.into()));
    }
    let judge = judge(name, known)?;
    Ok(Box::new(Frozen { name, arms: known.arms.clone().into(), judge }))
}

fn judge(name: &str, known: &Known) -> Result<Arc<dyn Judge>, RouterError> {
    Ok(match name {
        "dimension_best" => Arc::new(dimension_best::DimensionBest::fit(known)),
        "knn_retrieval" => Arc::new(knn_retrieval::KnnRetrieval::fit(known)),
        "logreg" => Arc::new(network::Network::fit(known, network::LOGREG)?),
        "tfidf_mlp" => Arc::new(network::Network::fit(known, network::MLP)?),
        "routellm_mf" => Arc::new(matrix_factorisation::MatrixFactorisation::fit(known)?),
        _ => Arc::new(acrouter::Ensemble::fit(known)?),
    })
}

/// Says how good each known arm would be; higher is better.
trait Judge: Send + Sync {
    fn scores(&self, context: &Context) -> Vec<f64>;
}

/// A fitted router: all mass on the candidate that its judge rates highest.
#[derive(Clone)]
struct Frozen {
    name: &'static str,
    arms: Arc<[ArmId]>,
    judge: Arc<dyn Judge>,
}

impl Policy for Frozen {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        let scores = self.judge.scores(context);
        // An arm that came later is taken only where no known one may be.
        let of = |arm: &ArmId| self.arms.iter().position(|known| known == arm).map_or(f64::MIN, |place| scores[place]);
        let rated: Vec<f64> = context.candidates.iter().map(|candidate| of(&candidate.arm)).collect();
        let pmf = greedy(&rated).map_err(|_| PolicyError::NoCandidate)?;
        Ok(Opinion { pmf, ..Opinion::default() })
    }

    fn learn(&mut self, _round: &LearntRound<'_>) {}

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

/// The first place of the highest number.
fn highest(numbers: &[f64]) -> usize {
    let mut best = 0;
    for (place, number) in numbers.iter().enumerate() {
        if *number > numbers[best] {
            best = place;
        }
    }
    best
}

/// Mean scores by arm.
fn means<'a>(arms: usize, scores: impl Iterator<Item = &'a [f64]>) -> Vec<f64> {
    let (mut sums, mut rounds) = (vec![0.0; arms], 0_usize);
    for scores in scores {
        sums.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score);
        rounds += 1;
    }
    sums.iter_mut().for_each(|sum| *sum /= rounds.max(1) as f64);
    sums
}

#[cfg(test)]
mod tests;
