//! Context: all that a policy may look at.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ArmId, Domain, Invalid, Mode, TaskId};

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
        if self.0.len() != other.0.len() {
            return 0.0;
        }
        // Sixteen sums side by side, which the processor adds at once; always in this order, so always the same bits.
        let mut lanes = [0.0_f32; 16];
        let (ours, theirs) = (self.0.chunks_exact(16), other.0.chunks_exact(16));
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// How the worker would be run.
    pub mode: Mode,
    /// The worker.
    pub arm: ArmId,
    /// Expected dollars of this task on this arm, from its prices.
    pub cost_usd: f64,
}

/// A similar past task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Memory's sequence number.
    pub seq: u64,
    /// The past task.
    pub task_id: TaskId,
    /// Cosine similarity in [-1, 1].
    pub similarity: f32,
    /// What each arm tried on it gave.
    pub outcomes: Vec<TriedArm>,
}

/// The verified outcome of one arm on one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
