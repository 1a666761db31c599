//! Why the router did not do as asked.

use crate::{
    arms::CatalogueError,
    context::embedding::EmbeddingError,
    journal::JournalError,
    memory::{MemoryError, snapshot::SnapshotError},
    round::{DecisionId, Domain, IdempotencyKey, Invalid},
};

/// Why the router did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// A field is out of its range.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// An arm that does not exist.
    #[error(transparent)]
    Arm(#[from] CatalogueError),
    /// A domain that does not exist.
    #[error("unknown domain {domain}; the domains are: {known}")]
    UnknownDomain {
        /// What was asked for.
        domain: Domain,
        /// What there is.
        known: String,
    },
    /// A decision that does not exist.
    #[error("unknown decision {0}; use the decision_id that /v1/tasks or /v1/route returned")]
    UnknownDecision(DecisionId),
    /// An idempotency key used for two different tasks.
    #[error("the idempotency key {0} was used for a different task; use a fresh key for each task")]
    KeyReused(IdempotencyKey),
    /// The same request is being worked on.
    #[error("decision {0} is still running; ask again in a moment with the same idempotency key")]
    StillRunning(DecisionId),
    /// The text cannot be embedded, or not now.
    #[error(transparent)]
    Embedding(#[from] EmbeddingError),
    /// The journal failed, so nothing was acknowledged.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Memory cannot be used.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A snapshot of memory cannot be made, read or used.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A defect here.
    #[error("internal error: {0}")]
    Internal(String),
}
