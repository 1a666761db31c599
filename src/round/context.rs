//! Context: all that a policy may look at.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ArmId, Capability, Domain, Invalid, Mode, Proposal, RewardWeights, TaskId};

/// A text's embedding: finite, of unit length.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding(Arc<[f32]>);

impl Embedding {
    /// Normalises to unit length. Refuses an empty, zero or non-finite vector.
    pub fn new(mut vector: Vec<f32>) -> Result<Self, Invalid> {
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if !length.is_finite() || length <= f32::MIN_POSITIVE {
            return Err(Invalid::new("embedding", "must be finite and not zero"));
        }
        // A vector that is already of unit length is kept bit for bit, so that storing and reading it changes nothing.
        if (length - 1.0).abs() > 1e-5 {
            vector.iter_mut().for_each(|x| *x /= length);
        }
        Ok(Self(vector.into()))
    }

    /// The coordinates.
    pub fn as_slice(&self) -> &[f32] {
        &self.0
    }

    /// Cosine similarity in [-1, 1]; 0 when the dimensions differ.
    pub fn cosine(&self, other: &Self) -> f32 {
        self.cosine_with(&other.0)
    }

    /// The same with the coordinates of an embedding.
    pub(crate) fn cosine_with(&self, other: &[f32]) -> f32 {
        if self.0.len() != other.len() {
            return 0.0;
        }
        // Sixteen sums side by side, which the processor adds at once; always in this order, so always the same bits.
        let mut lanes = [0.0_f32; 16];
        let (ours, theirs) = (self.0.chunks_exact(16), other.chunks_exact(16));
        let rest: f32 = ours.remainder().iter().zip(theirs.remainder()).map(|(a, b)| a * b).sum();
        for (ours, theirs) in ours.zip(theirs) {
            for (lane, (a, b)) in lanes.iter_mut().zip(ours.iter().zip(theirs)) {
                *lane += a * b;
            }
        }
        (lanes.iter().sum::<f32>() + rest).clamp(-1.0, 1.0)
    }

    /// Little-endian bytes, as stored in the journal.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    /// Reads [`Embedding::to_bytes`] back.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Invalid> {
        let chunks = bytes.chunks_exact(4);
        if !chunks.remainder().is_empty() {
            return Err(Invalid::new("embedding", "its bytes are not whole 32-bit numbers"));
        }
        Self::new(chunks.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }
}

/// What is known when a task is to be decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// The words that were embedded; empty where only the embedding is known.
    pub text: Arc<str>,
    /// The task's embedding.
    pub embedding: Embedding,
    /// The task's domain.
    pub domain: Domain,
    /// Similar past tasks, most similar first.
    pub neighbours: Vec<Neighbour>,
    /// Whether memory answered.
    pub recall: Recall,
    /// The actions that may be taken, in catalogue order; never empty.
    pub candidates: Vec<Candidate>,
    /// What was taken in the session's last round, where the task belongs to a session.
    pub last: Option<Taken>,
    /// What the task's reward weighs.
    pub weights: RewardWeights,
    /// What cost weighs for a policy that was trained on it, in [0, 1]; such a policy brings it into its own range.
    pub alpha: f64,
    /// What a language model that routes says of it, where one was asked.
    pub proposal: Option<Proposal>,
}

impl Context {
    /// A context without text and neighbours, recall having answered, outside any session, with the default reward.
    pub fn new(embedding: Embedding, domain: Domain, candidates: Vec<Candidate>) -> Self {
        Self {
            text: "".into(),
            embedding,
            domain,
            neighbours: Vec::new(),
            recall: Recall::Ok,
            candidates,
            last: None,
            weights: RewardWeights::default(),
            alpha: 0.0,
            proposal: None,
        }
    }
}

/// One action: a worker and how it is run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Taken {
    /// How it was run.
    pub mode: Mode,
    /// The worker.
    pub arm: ArmId,
}

/// How recall went. The loop goes on without memory, and says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recall {
    /// Memory answered.
    Ok,
    /// Memory failed; the text says how.
    Unavailable(String),
}

/// One action that may be taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Candidate {
    /// How the worker would be run.
    pub mode: Mode,
    /// The worker.
    pub arm: ArmId,
    /// Expected dollars of this task on this arm, from its prices.
    pub cost_usd: f64,
    /// What was known of it for this task when it was decided.
    #[serde(default, skip_serializing_if = "ArmFeatures::is_empty")]
    pub features: ArmFeatures,
    /// What a budget takes from its utility while this task is decided; never stored.
    #[serde(skip)]
    pub handicap: f64,
}

impl Candidate {
    /// A candidate of which nothing is known but its price.
    pub fn new(mode: Mode, arm: ArmId, cost_usd: f64) -> Self {
        Self { mode, arm, cost_usd, features: ArmFeatures::default(), handicap: 0.0 }
    }
}

/// What is known of one candidate for one task, as numbers that a model can learn from. Fixed when the task is decided,
/// so that feedback that comes days later is learnt with what the policy saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct ArmFeatures {
    /// Mean score of the neighbours that were tried on this candidate, weighted by similarity; in [0, 1].
    pub recall_mean: f32,
    /// Sum of those neighbours' similarities, at least 0; 0 when there are none.
    pub recall_mass: f32,
    /// Weighted standard deviation of those scores, in [0, 0.5].
    pub recall_spread: f32,
    /// Mean score in the task's domain, shrunk to the mean everywhere, in [0, 1].
    pub prior_mean: f32,
    /// Rounds that the prior rests on; 0 for a candidate never tried in the domain.
    pub prior_rounds: f32,
    /// Mean score everywhere, in [0, 1]; this and what follows is told where tasks may be run in several modes, and 0 elsewhere
    /// and where it is not known yet.
    #[serde(skip_serializing_if = "is_unknown")]
    pub everywhere_mean: f32,
    /// Tokens that a call of the arm mostly writes (geometric mean, the newest counting most).
    #[serde(skip_serializing_if = "is_unknown")]
    pub output_tokens: f32,
    /// Milliseconds that it mostly takes.
    #[serde(skip_serializing_if = "is_unknown")]
    pub latency_ms: f32,
    /// Dollars that it mostly costs.
    #[serde(skip_serializing_if = "is_unknown")]
    pub cost_usd: f32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_unknown(number: &f32) -> bool {
    *number == 0.0
}

impl ArmFeatures {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An arm that was no candidate, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Masked {
    /// The arm.
    pub arm: ArmId,
    /// Why.
    pub why: MaskReason,
}

/// Why an arm is no candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MaskReason {
    /// An operator switched it off.
    Disabled,
    /// Its statistics made no sense, and an operator has to look at it.
    Quarantined,
    /// It failed several times in a row, and rests.
    Unhealthy,
    /// It lacks something that the task needs.
    Lacks(Capability),
    /// It is expected to cost more than the task allows.
    TooDear,
    /// It gave this task no answer a moment ago.
    Failed,
}

impl std::fmt::Display for MaskReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Disabled => f.write_str("is disabled"),
            Self::Quarantined => f.write_str("is quarantined"),
            Self::Unhealthy => f.write_str("failed several times in a row and rests"),
            Self::Lacks(capability) => write!(f, "cannot do {capability}"),
            Self::TooDear => f.write_str("is expected to cost more than constraints.cost_usd_max"),
            Self::Failed => f.write_str("gave the task no answer"),
        }
    }
}

/// A similar past task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Neighbour {
    /// Memory's sequence number.
    pub seq: u64,
    /// The past task.
    pub task_id: TaskId,
    /// Cosine similarity in [-1, 1].
    pub similarity: f32,
    /// Its domain; absent in decisions of before it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Domain>,
    /// What each arm tried on it gave.
    pub outcomes: Vec<TriedArm>,
}

/// The verified outcome of one arm on one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TriedArm {
    /// How it was run.
    pub mode: Mode,
    /// The worker.
    pub arm: ArmId,
    /// The verified score in [0, 1].
    pub score: f64,
    /// Dollars spent.
    pub cost_usd: f64,
    /// The verifiers' words, short.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_are_of_unit_length_and_survive_storage_bit_for_bit() {
        let embedding = Embedding::new(vec![3.0, 4.0]).unwrap();
        assert_eq!(embedding.as_slice(), [0.6, 0.8]);
        assert_eq!(Embedding::from_bytes(&embedding.to_bytes()).unwrap(), embedding);
        let long = |x: f32| Embedding::new((0..37).map(|n| x + n as f32).collect()).unwrap();
        assert!((long(0.0).cosine(&long(0.0)) - 1.0).abs() < 1e-6);
        assert!(long(0.0).cosine(&long(-36.0)) < 0.0);
        assert_eq!(long(0.0).cosine(&embedding), 0.0);
        for bad in [vec![], vec![0.0, 0.0], vec![f32::NAN], vec![f32::INFINITY, 1.0]] {
            assert!(Embedding::new(bad).is_err());
        }
        assert!(Embedding::from_bytes(&[0, 0, 0]).is_err());
    }
}
