//! Offline training: from recorded outcomes to the files that policies start from.
//!
//! A [`TrainingSet`] is what was seen of past tasks and what each arm scored on them: every arm on every task where it
//! comes from a dataset, the one that was taken where it comes from a journal. `classifier` fits one logistic regression
//! per arm, over embeddings or over words (`tfidf`); `priors` counts. `fit` is the only file that speaks to linfa.
//!
//! A journal's rounds are not weighted by their propensities. An arm was drawn by what the policy saw, and the
//! regression is on just that, so what it estimates is the same either way; weights would only add variance. Where a
//! policy almost never drew an arm on some kind of task, nothing can be learnt of it there, weighted or not.
//!
//! The same set gives the same file bit for bit, on any number of cores. Nothing here reads a clock or picks a place.

mod classifier;
mod fit;
pub mod mode_router;
mod priors;
pub mod routers;
#[cfg(test)]
mod tests;
mod tfidf;

use std::{collections::BTreeMap, io, io::Write, path::Path, sync::Arc};

pub use classifier::{Constant, Trained, train};
pub use priors::probing_set;

use crate::{
    action::policy::Action,
    replay::Dataset,
    round::{Domain, Embedding, Mode},
};

/// What was seen of each task.
#[derive(Debug, Clone)]
pub enum Inputs {
    /// Its embedding, all by one model.
    Embeddings {
        /// The model's id.
        model: String,
        /// One per task.
        vectors: Vec<Embedding>,
    },
    /// Its text.
    Texts(Vec<Arc<str>>),
}

/// Past tasks and what arms scored on them.
#[derive(Debug, Clone)]
pub struct TrainingSet {
    inputs: Inputs,
    domains: Vec<Domain>,
    /// Each action's scores, with the tasks' places.
    scores: BTreeMap<Action, Vec<(usize, f64)>>,
}

/// Where a set comes from, for whoever reads the trained file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// What it was made of.
    pub trained_on: String,
    /// Now, in milliseconds since 1970.
    pub trained_at_ms: i64,
}

/// Why nothing could be trained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrainError {
    /// There is nothing to train on.
    #[error("there is no scored round to train on: give a dataset with results, or a journal with verified rounds")]
    Empty,
    /// One input per task is needed.
    #[error("{inputs} inputs were given for {tasks} tasks")]
    Inputs {
        /// Given.
        inputs: usize,
        /// Needed.
        tasks: usize,
    },
    /// Embeddings are of several models.
    #[error("embeddings of {0} and of {1} numbers cannot be trained on together: embed all tasks by one model")]
    Dimensions(usize, usize),
    /// A score is out of range.
    #[error("a score of {arm} is {score}, it must be from 0 to 1")]
    Score {
        /// The arm.
        arm: String,
        /// The score, as text.
        score: String,
    },
    /// The texts have no words.
    #[error("no vocabulary can be made of the texts: {0}")]
    Vocabulary(String),
}

impl Inputs {
    fn len(&self) -> usize {
        match self {
            Self::Embeddings { vectors, .. } => vectors.len(),
            Self::Texts(texts) => texts.len(),
        }
    }
}

impl TrainingSet {
    /// Every model's score on every task of a dataset; one input per task, in order.
    pub fn of_dataset(dataset: &Dataset, inputs: Inputs) -> Result<Self, TrainError> {
        let domains = dataset.tasks.iter().map(|task| task.domain.clone()).collect();
        let scores = dataset.models.iter().enumerate().map(|(place, model)| {
            let scores = dataset.tasks.iter().map(|task| task.results[place].score);
            ((Mode::Single, model.arm.clone()), (0..).zip(scores).collect())
        });
        Self { inputs, domains, scores: scores.collect() }.checked()
    }

    /// Rounds of one action each, oldest first; one input per round.
    pub fn of_rounds(inputs: Inputs, rounds: Vec<(Domain, Action, f64)>) -> Result<Self, TrainError> {
        let mut scores: BTreeMap<Action, Vec<(usize, f64)>> = BTreeMap::new();
        let mut domains = Vec::with_capacity(rounds.len());
        for (place, (domain, action, score)) in rounds.into_iter().enumerate() {
            domains.push(domain);
            scores.entry(action).or_default().push((place, score));
        }
        Self { inputs, domains, scores }.checked()
    }

    /// How many tasks there are.
    pub fn tasks(&self) -> usize {
        self.domains.len()
    }

    fn checked(self) -> Result<Self, TrainError> {
        let (inputs, tasks) = (self.inputs.len(), self.domains.len());
        if inputs != tasks {
            return Err(TrainError::Inputs { inputs, tasks });
        }
        if tasks == 0 || self.scores.is_empty() {
            return Err(TrainError::Empty);
        }
        if let Inputs::Embeddings { vectors, .. } = &self.inputs {
            let mut lengths = vectors.iter().map(|vector| vector.as_slice().len());
            let first = lengths.next().unwrap_or_default();
            if let Some(other) = lengths.find(|length| *length != first) {
                return Err(TrainError::Dimensions(first, other));
            }
        }
        for ((_, arm), scores) in &self.scores {
            if let Some((_, score)) = scores.iter().find(|(_, score)| !(0.0..=1.0).contains(score)) {
                return Err(TrainError::Score { arm: arm.to_string(), score: score.to_string() });
            }
        }
        Ok(self)
    }
}

/// Writes a trained file whole or not at all: through a temporary file beside it.
pub fn store(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
