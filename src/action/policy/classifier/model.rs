//! What a classifier learnt offline: per arm, one weight per feature and per domain, and an intercept.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    super::{
        Action,
        trained::{self, TrainedError, TrainedKind},
    },
    vocabulary::Vocabulary,
};
use crate::round::{ArmId, Context, Domain, Mode};

/// Domains with weights of their own.
pub const MODEL_DOMAINS_MAX: usize = 256;
/// The largest dimension of an embedding.
const DIMENSION_MAX: usize = 16_384;
/// No sound training of unit-length features ends beyond this.
const WEIGHT_MAX: f64 = 1e6;

/// A trained classifier: P(success) = 1 / (1 + exp(-(b_a + w_a x + v_ad))), x the features and d the domain.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifierModel {
    /// What it looks at.
    pub features: Features,
    /// What it was trained on, for people.
    pub trained_on: String,
    /// When, in milliseconds since 1970.
    pub trained_at_ms: i64,
    /// The domains with weights, ascending.
    pub domains: Vec<Domain>,
    /// The arms.
    pub arms: BTreeMap<Action, ArmModel>,
    /// Arms of the file whose weights make no sense.
    pub left_out: Vec<Action>,
}

/// What a classifier looks at.
#[derive(Debug, Clone, PartialEq)]
pub enum Features {
    /// The embedding of one model.
    Embedding {
        /// Its id.
        model: String,
        /// Its dimension.
        dimension: usize,
    },
    /// The TF-IDF weights of the text.
    Tfidf(Vocabulary),
}

/// One arm's part.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmModel {
    /// Rounds that it was trained on.
    pub rounds: u64,
    /// How many of them scored at least 0.5.
    pub successes: u64,
    /// The strength of the regularisation; None for an arm that is a constant.
    pub alpha: Option<f64>,
    /// b_a, the log odds where nothing else is known.
    pub intercept: f32,
    /// w_a, one per feature; empty for a constant.
    pub weights: Vec<f32>,
    /// v_ad, one per domain; empty for a constant.
    pub domain_weights: Vec<f32>,
    /// How it did on rounds that it had not seen; None where there were too few to try.
    pub held_out: Option<HeldOut>,
}

/// Figures on rounds held out of the training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// How many.
    pub rounds: u64,
    /// The share whose success was called right, in [0, 1].
    pub accuracy: f64,
    /// Mean log loss, in nats.
    pub log_loss: f64,
    /// The accuracy of always saying what is more frequent.
    pub base_accuracy: f64,
    /// The log loss of always saying the rate of success.
    pub base_log_loss: f64,
}

/// What a model sees of one context.
pub(super) enum Seen<'a> {
    Dense(&'a [f32]),
    Sparse(Vec<(usize, f32)>),
}

#[derive(Serialize, Deserialize)]
struct Stored<N> {
    trained_on: String,
    trained_at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    embedding_model: Option<String>,
    dimension: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    vocabulary: Vec<(String, f32)>,
    domains: Vec<Domain>,
    arms: Vec<StoredArm<N>>,
}

/// JSON has no NaN: it is written as null, which costs the arm and not the file. Numbers are written as f32, the shorter
/// way, and read as f64, so that one too large for f32 costs no more than the arm either.
#[derive(Serialize, Deserialize)]
struct StoredArm<N> {
    mode: Mode,
    arm: ArmId,
    rounds: u64,
    successes: u64,
    alpha: Option<f64>,
    intercept: Option<N>,
    weights: Vec<Option<N>>,
    domain_weights: Vec<Option<N>>,
    held_out: Option<HeldOut>,
}

impl Features {
    /// The kind of the model's file.
    pub fn kind(&self) -> TrainedKind {
        match self {
            Self::Embedding { .. } => TrainedKind::Classifier,
            Self::Tfidf(_) => TrainedKind::TfidfClassifier,
        }
    }

    /// How many there are.
    pub fn dimension(&self) -> usize {
        match self {
            Self::Embedding { dimension, .. } => *dimension,
            Self::Tfidf(vocabulary) => vocabulary.terms().len(),
        }
    }
}

impl ClassifierModel {
    /// Reads a file of a kind.
    pub fn read(path: &Path, kind: TrainedKind) -> Result<Self, TrainedError> {
        trained::read(path, kind, |stored| Self::check(stored, kind))
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        let (embedding_model, vocabulary) = match &self.features {
            Features::Embedding { model, .. } => (Some(model.clone()), Vec::new()),
            Features::Tfidf(vocabulary) => (None, vocabulary.terms().to_vec()),
        };
        let stored = Stored {
            trained_on: self.trained_on.clone(),
            trained_at_ms: self.trained_at_ms,
            embedding_model,
            dimension: self.features.dimension(),
            vocabulary,
            domains: self.domains.clone(),
            arms: self.arms.iter().map(|(action, arm)| StoredArm::new(action, arm)).collect(),
        };
        trained::write(self.features.kind(), &stored)
    }

    fn check(stored: Stored<f64>, kind: TrainedKind) -> Result<Self, String> {
        let Stored { trained_on, trained_at_ms, embedding_model, dimension, vocabulary, domains, arms } = stored;
        let features = match kind {
            TrainedKind::Classifier => {
                let model = embedding_model.ok_or("it names no embedding_model")?;
                if !(1..=DIMENSION_MAX).contains(&dimension) {
                    return Err(format!("its dimension is {dimension}, it must be from 1 to {DIMENSION_MAX}"));
                }
                Features::Embedding { model, dimension }
            }
            TrainedKind::TfidfClassifier => Features::Tfidf(Vocabulary::new(vocabulary)?),
            TrainedKind::Probing => return Err("a probing set is no classifier".into()),
            TrainedKind::ModeRouter => return Err("a mode-router is no classifier".into()),
        };
        if features.dimension() != dimension {
            return Err(format!("its dimension is {dimension}, but it has {} terms", features.dimension()));
        }
        if domains.len() > MODEL_DOMAINS_MAX || !domains.is_sorted_by(|one, next| one < next) {
            return Err(format!("its domains must be ascending and at most {MODEL_DOMAINS_MAX}"));
        }
        let (mut sound, mut left_out) = (BTreeMap::new(), Vec::new());
        for stored in arms {
            let action = (stored.mode, stored.arm.clone());
            let lengths = (stored.weights.len(), stored.domain_weights.len());
            if lengths != (0, 0) && lengths != (dimension, domains.len()) {
                let (weights, domain_weights) = lengths;
                return Err(format!(
                    "arm {} has {weights} weights and {domain_weights} for domains, wanted are {dimension} and {}",
                    action.1,
                    domains.len()
                ));
            }
            match stored.checked() {
                None => left_out.push(action),
                Some(arm) => {
                    if sound.insert(action, arm).is_some() {
                        return Err(format!("arm {} is there twice", stored.arm));
                    }
                }
            }
        }
        Ok(Self { features, trained_on, trained_at_ms, domains, arms: sound, left_out })
    }

    /// The arms that were left out, as a sentence to show; None when there are none.
    pub fn warning(&self) -> Option<String> {
        let names: Vec<_> = self.left_out.iter().map(|(mode, arm)| format!("{arm} ({mode:?})")).collect();
        (!names.is_empty()).then(|| {
            let (kind, names) = (self.features.kind(), names.join(", "));
            format!("the {} leaves out arms whose weights make no sense: {names}; {}", kind.name(), kind.remedy())
        })
    }

    /// What the model sees; None when it sees nothing, or an embedding of another dimension.
    pub(super) fn observe<'a>(&self, context: &'a Context) -> Option<Seen<'a>> {
        match &self.features {
            Features::Embedding { dimension, .. } => {
                let vector = context.embedding.as_slice();
                (vector.len() == *dimension).then_some(Seen::Dense(vector))
            }
            Features::Tfidf(vocabulary) => {
                (!context.text.is_empty()).then(|| Seen::Sparse(vocabulary.weigh(&context.text)))
            }
        }
    }

    /// The probability that an action succeeds; None for one that the model does not know.
    pub(super) fn probability(&self, seen: &Seen<'_>, domain: &Domain, action: &Action) -> Option<f64> {
        let arm = self.arms.get(action)?;
        let mut log_odds = f64::from(arm.intercept);
        if !arm.weights.is_empty() {
            log_odds += f64::from(match seen {
                Seen::Dense(vector) => vector.iter().zip(&arm.weights).map(|(x, w)| x * w).sum::<f32>(),
                Seen::Sparse(weights) => weights.iter().map(|(place, x)| x * arm.weights[*place]).sum::<f32>(),
            });
        }
        let place = self.domains.binary_search(domain).ok();
        log_odds += f64::from(place.and_then(|place| arm.domain_weights.get(place)).copied().unwrap_or_default());
        Some(1.0 / (1.0 + (-log_odds).exp()))
    }
}

impl StoredArm<f32> {
    fn new((mode, arm): &Action, model: &ArmModel) -> Self {
        let numbers = |numbers: &[f32]| numbers.iter().copied().map(Some).collect();
        Self {
            mode: *mode,
            arm: arm.clone(),
            rounds: model.rounds,
            successes: model.successes,
            alpha: model.alpha,
            intercept: Some(model.intercept),
            weights: numbers(&model.weights),
            domain_weights: numbers(&model.domain_weights),
            held_out: model.held_out,
        }
    }
}

impl StoredArm<f64> {
    /// The arm, unless a number is missing, not finite or absurd.
    fn checked(&self) -> Option<ArmModel> {
        let number = |number: &Option<f64>| number.filter(|x| x.abs() <= WEIGHT_MAX).map(|x| x as f32);
        Some(ArmModel {
            rounds: self.rounds,
            successes: self.successes,
            alpha: self.alpha,
            intercept: number(&self.intercept)?,
            weights: self.weights.iter().map(number).collect::<Option<_>>()?,
            domain_weights: self.domain_weights.iter().map(number).collect::<Option<_>>()?,
            held_out: self.held_out,
        })
    }
}
