//! Classifiers trained offline: one logistic regression per arm on the embedding (`classifier`) or on TF-IDF weights of
//! the text (`tfidf_classifier`), and the domain.
//!
//! A warm start from outcomes that were recorded before: it decides well from the first round and learns nothing more,
//! so where tasks drift away from what it was trained on it stays wrong until it is trained again. Let it vote beside
//! learners. An arm that its model does not know is worth its prior, as measured while the router runs.
//!
//! Training is in `train`; here is only what deciding needs: lookups and dot products.

mod model;
#[cfg(test)]
pub(super) mod tests;
mod vocabulary;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;

pub use model::{ArmModel, ClassifierModel, Features, HeldOut, MODEL_DOMAINS_MAX};
pub use vocabulary::{Vocabulary, words};

use super::{
    Estimates, LearntRound, Opinion, Policy, PolicyError,
    trained::{TrainedError, TrainedKind},
};
use crate::{
    action::explore::epsilon_greedy,
    round::{Candidate, Context},
};

/// Greedy on P(success) of a model trained offline, with a uniform floor.
///
/// Reference: Cox, The Regression Analysis of Binary Sequences, 1958; as a router, the logistic-regression baseline of
/// RouterBench (Hu et al., 2024).
#[derive(Debug, Clone)]
pub struct Classifier {
    model: Arc<ClassifierModel>,
    floor: f64,
}

/// Settings of `classifier` and of `tfidf_classifier`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassifierSettings {
    /// The model's file, as `pointsman train classifier` writes it; relative to the card's folder.
    pub model: Option<PathBuf>,
    /// What the file holds, once read.
    #[serde(skip)]
    pub loaded: Option<Arc<ClassifierModel>>,
}

impl ClassifierSettings {
    pub(super) fn load(&mut self, folder: &Path, kind: TrainedKind) -> Result<(), TrainedError> {
        if let Some(model) = &self.model {
            self.loaded = Some(Arc::new(ClassifierModel::read(&folder.join(model), kind)?));
        }
        Ok(())
    }
}

impl Classifier {
    /// A model that decides. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(model: Arc<ClassifierModel>, floor: f64) -> Self {
        Self { model, floor }
    }
}

impl Policy for Classifier {
    fn name(&self) -> &'static str {
        self.model.features.kind().name()
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        if context.candidates.is_empty() {
            return Err(PolicyError::NoCandidate);
        }
        if let Features::Embedding { dimension, .. } = &self.model.features {
            let found = context.embedding.as_slice().len();
            if found != *dimension {
                return Err(PolicyError::Dimension { policy: self.name(), wanted: *dimension, found });
            }
        }
        // Without a text there is nothing that the arms could be told apart by, except their priors.
        let seen = self.model.observe(context);
        let score = |candidate: &Candidate| {
            let action = (candidate.mode, candidate.arm.clone());
            let known = seen.as_ref().and_then(|seen| self.model.probability(seen, &context.domain, &action));
            (known.unwrap_or_else(|| candidate.features.prior_mean.into()), 0.0)
        };
        Estimates::of(context, score).explore(self.name(), |means, _| epsilon_greedy(means, self.floor))
    }

    fn learn(&mut self, _round: &LearntRound<'_>) {}

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
