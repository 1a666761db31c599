//! Vector memory: the verified outcomes of past tasks, recalled by similarity.
//!
//! A ring of `cap` slots in order of arrival (FIFO): entry `seq` lives in slot `seq % cap`, so that one write also
//! evicts the oldest, in the same step. The journal is the truth; memory can always be rebuilt from it. Hits are
//! scored again from the vector that came with the payload, since a store may pair an old score with a new payload
//! while a slot is overwritten.

mod edge;
mod scan;

use serde::{Deserialize, Serialize};

use crate::round::{ArmId, Domain, Embedding, Neighbour, TaskId, TriedArm};

pub use edge::EdgeMemory;
pub use scan::ScanMemory;

/// The default number of entries kept.
pub const CAP: u64 = 20_000;

/// How many neighbours a task recalls.
pub const RECALL_K: usize = 10;

/// The least cosine similarity of a recalled neighbour.
pub const MIN_SIMILARITY: f32 = 0.5;

/// One past task: its embedding and the outcome of every arm tried on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The task.
    pub task_id: TaskId,
    /// Its domain.
    pub domain: Domain,
    /// Its embedding, the key.
    pub embedding: Embedding,
    /// What each arm tried on it gave.
    pub outcomes: Vec<TriedArm>,
}

/// Which entries a query looks at; both parts must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Only this domain.
    pub domain: Option<Domain>,
    /// Only entries on which this arm was tried.
    pub arm: Option<ArmId>,
}

/// A store of the newest `cap` entries.
pub trait Memory: Send + Sync {
    /// Stores an entry under its sequence number and evicts `seq - cap`. Idempotent per `seq`; visible when it returns.
    fn put(&self, seq: u64, entry: &Entry) -> Result<(), MemoryError>;

    /// The at most `k` entries with cosine similarity of at least `min_similarity`, most similar first.
    fn query(
        &self,
        embedding: &Embedding,
        k: usize,
        min_similarity: f32,
        filter: &Filter,
    ) -> Result<Vec<Neighbour>, MemoryError>;

    /// One above the highest sequence number stored; 0 when empty.
    fn next_seq(&self) -> Result<u64, MemoryError>;

    /// How many entries are held; never above the cap.
    fn count(&self) -> Result<u64, MemoryError>;

    /// Makes everything stored survive a crash of the machine.
    fn sync(&self) -> Result<(), MemoryError>;
}

/// Why memory did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The entry or query cannot be right.
    #[error("invalid memory request: {0}")]
    Invalid(String),
    /// Another process holds the folder.
    #[error("the memory folder {0} is used by another process; stop it or choose another --data-dir")]
    Locked(std::path::PathBuf),
    /// The store on disk is damaged or of another shape. It can be deleted: the journal rebuilds it.
    #[error("the memory folder {path} cannot be read ({reason}); delete it and start again: the journal rebuilds it")]
    Corrupt {
        /// The folder.
        path: std::path::PathBuf,
        /// What the store said.
        reason: String,
    },
    /// Memory holds more than the journal tells of.
    #[error(
        "memory holds {entries} entries but the journal only {rounds} rounds, so they do not belong together; delete the \
         memory folder and start again: the journal rebuilds it"
    )]
    Ahead {
        /// One above the highest sequence number in memory.
        entries: u64,
        /// Rounds learnt from the journal.
        rounds: u64,
    },
    /// Anything else that the store said.
    #[error("memory failed: {0}")]
    Other(String),
}

#[cfg(test)]
mod tests;
