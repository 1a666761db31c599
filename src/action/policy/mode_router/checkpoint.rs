//! A trained mode-router in a file: safetensors, with a card of JSON in its header that says what it is and where it comes from.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    Descriptor,
    packed::{pack, unpack},
    piece::{NODES_MAX, PLACES, ROWS},
    weights::{EMBEDDING, Shape, Weights},
};

/// The tokens, the pieces and what workers are described by. Raised when one of them changes.
const GRAMMAR: &str = "pointsman-modes-1";
/// The header's key of the card.
const CARD: &str = "card";
/// The largest file that is read.
const BYTES_MAX: u64 = 256 << 20;

/// What a checkpoint is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The grammar that it writes.
    pub grammar: String,
    /// The network's size.
    pub shape: Shape,
    /// Numbers of a worker's descriptor.
    pub descriptor: usize,
    /// Numbers of an embedding.
    pub embedding: usize,
    /// The model that embedded the tasks; any of as many numbers is read, no other understands it.
    pub embedding_model: String,
    /// The alphas that it was trained on, in [0, 1].
    pub alpha: [f64; 2],
    /// Dollars at which a trajectory's cost halves its reward.
    pub cost_reference_usd: f64,
    /// The datasets.
    pub trained_on: String,
    /// The command.
    pub command: String,
    /// Its seed.
    pub seed: u64,
    /// Steps.
    pub steps: u64,
}

impl Card {
    /// The card of a network of this program.
    pub fn new(shape: Shape, embedding_model: String, alpha: [f64; 2]) -> Self {
        Self {
            grammar: GRAMMAR.into(),
            shape,
            descriptor: Descriptor::NUMBERS,
            embedding: EMBEDDING,
            embedding_model,
            alpha,
            cost_reference_usd: 0.0,
            trained_on: String::new(),
            command: String::new(),
            seed: 0,
            steps: 0,
        }
    }
}

/// A trained network with its card.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// What it is.
    pub card: Card,
    /// Its numbers.
    pub weights: Weights,
    /// The first digits of the BLAKE3 hash of the file.
    pub hash: String,
}

/// Why a checkpoint cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The file cannot be read or written.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What went wrong.
        reason: String,
    },
    /// Not a checkpoint.
    #[error("{path} is no mode-router's checkpoint: {reason}; make one with `pointsman train mode-router`")]
    Shape {
        /// The file.
        path: String,
        /// What is missing or wrong.
        reason: String,
    },
    /// Of another version of the grammar, or of other inputs.
    #[error("{path} was trained for {what} {found}, this program has {wanted}: train it again")]
    Other {
        /// The file.
        path: String,
        /// What differs.
        what: &'static str,
        /// In the file.
        found: String,
        /// Here.
        wanted: String,
    },
}

/// The checkpoint that comes with the program.
const SHIPPED: &[u8] = include_bytes!("../../../../policies/mode-router/model.safetensors");

impl Checkpoint {
    /// The one that comes with the program; `policies/mode-router/README.md` says what it was trained on.
    pub fn shipped() -> Result<Self, CheckpointError> {
        Self::from_bytes(SHIPPED, "the mode-router that comes with the program")
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        let shown = path.display().to_string();
        let file = |reason: String| CheckpointError::File { path: shown.clone(), reason };
        let size = fs::metadata(path).map_err(|error| file(error.to_string()))?.len();
        if size > BYTES_MAX {
            return Err(file(format!("{size} bytes, at most {BYTES_MAX} are read")));
        }
        let bytes = fs::read(path).map_err(|error| file(error.to_string()))?;
        Self::from_bytes(&bytes, &shown)
    }

    /// Reads what a file holds; `path` is for messages.
    pub fn from_bytes(bytes: &[u8], path: &str) -> Result<Self, CheckpointError> {
        let wrong = |reason: String| CheckpointError::Shape { path: path.into(), reason };
        let (text, mut found) = unpack(CARD, bytes).map_err(wrong)?;
        let card: Card = serde_json::from_str(&text).map_err(|error| wrong(format!("its card: {error}")))?;
        card.check(path)?;
        let mut numbers = BTreeMap::new();
        for (name, shape) in card.shape.names() {
            let (found, read) = found.remove(&name).ok_or_else(|| wrong(format!("{name} is missing")))?;
            if found != shape {
                return Err(wrong(format!("{name} has the shape {found:?}, not {shape:?}")));
            }
            numbers.insert(name, read);
        }
        if let Some(name) = found.keys().next() {
            return Err(wrong(format!("{name} is none of its parts")));
        }
        let weights = Weights { shape: card.shape, numbers };
        Ok(Self { card, weights, hash: blake3::hash(bytes).to_hex()[..12].to_owned() })
    }

    /// The file's bytes.
    pub fn to_bytes(card: &Card, weights: &Weights) -> Result<Vec<u8>, CheckpointError> {
        let wrong = |reason: String| CheckpointError::Shape { path: "the trained network".into(), reason };
        let text = serde_json::to_string(card).map_err(|error| wrong(error.to_string()))?;
        let numbers = weights.shape.names().into_iter().map(|(name, shape)| {
            let numbers = weights.get(&name).to_vec();
            (name, (shape.to_vec(), numbers))
        });
        pack(CARD, &text, &numbers.collect()).map_err(wrong)
    }
}

impl Card {
    fn check(&self, path: &str) -> Result<(), CheckpointError> {
        let other =
            |what, found: String, wanted: String| CheckpointError::Other { path: path.into(), what, found, wanted };
        if self.grammar != GRAMMAR {
            return Err(other("the grammar", self.grammar.clone(), GRAMMAR.into()));
        }
        if self.descriptor != Descriptor::NUMBERS {
            return Err(other(
                "workers described by so many numbers:",
                self.descriptor.to_string(),
                Descriptor::NUMBERS.to_string(),
            ));
        }
        if self.embedding != EMBEDDING {
            return Err(other("embeddings of so many numbers:", self.embedding.to_string(), EMBEDDING.to_string()));
        }
        let [low, high] = self.alpha;
        if !self.shape.is_sound() || !(0.0 <= low && low <= high && high <= 1.0) {
            return Err(CheckpointError::Shape {
                path: path.into(),
                reason: "its card has a shape or an alpha out of range".into(),
            });
        }
        debug_assert!(ROWS > NODES_MAX && PLACES > NODES_MAX);
        Ok(())
    }
}
