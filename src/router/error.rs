//! Why the router did not do as asked.

use std::collections::BTreeSet;

use crate::{
    access::AccessError,
    action::policy::CardError,
    arms::CatalogueError,
    context::embedding::EmbeddingError,
    feedback::verifier::RegistryError,
    journal::JournalError,
    memory::{MemoryError, snapshot::SnapshotError},
    round::{DecisionId, Domain, IdempotencyKey, Invalid, KeyId, TenantId},
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
    /// None of the modes that a task may be run in is on.
    #[error(
        "no mode is left for this task: it asks for {asked}, and in domain {domain} these are on: {on}; see [modes] of the configuration"
    )]
    ModesOff {
        /// The task's domain.
        domain: Domain,
        /// What is on.
        on: String,
        /// What the task asks for.
        asked: String,
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
    /// A tenant that does not exist.
    #[error("unknown tenant {tenant}; the tenants are: {known}")]
    UnknownTenant {
        /// What was asked for.
        tenant: TenantId,
        /// What there is.
        known: String,
    },
    /// An arm that cannot be made.
    #[error("the arm cannot be made: {0}")]
    BadArm(String),
    /// A policy card that does not exist.
    #[error("unknown policy card {card:?}; the cards are: {known}")]
    UnknownCard {
        /// What was asked for.
        card: String,
        /// What there is.
        known: String,
    },
    /// A policy card that cannot be used.
    #[error("policy card {card:?} cannot be used: {problem}")]
    BadCard {
        /// The card.
        card: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A card without a usable policy.
    #[error(transparent)]
    Card(#[from] CardError),
    /// No other policy decided before.
    #[error("no other policy decided before the present one; promote a card instead")]
    NothingToRollBack,
    /// Verifiers cannot be put in place or changed.
    #[error(transparent)]
    Verifier(Box<RegistryError>),
    /// More answers wait to be verified than may.
    #[error("{waiting} answers wait to be verified; try again in a moment, or give the daemon more cores")]
    Overloaded {
        /// How many wait.
        waiting: usize,
    },
    /// A text that the journal does not keep is needed.
    #[error("the {what} of decision {id} is not kept (journal.prompts, or it was erased): {instead}")]
    NotKept {
        /// The decision.
        id: DecisionId,
        /// Which text.
        what: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// A tenant may not do this, or not now.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// An API key that does not exist.
    #[error("there is no key {0}; `pointsman keys list` or GET /v1/keys shows them")]
    UnknownKey(KeyId),
    /// The first key is one that cannot make others.
    #[error(
        "the first key must be an admin key: once there is a key, nobody without one can administer the daemon (or start it \
         with $POINTSMAN_ADMIN_KEY)"
    )]
    AdminKeyFirst,
    /// A defect here.
    #[error("internal error: {0}")]
    Internal(String),
}

impl RouterError {
    pub(super) fn unknown_domain(domain: &Domain, known: &BTreeSet<Domain>) -> Self {
        let known = known.iter().map(Domain::as_str).collect::<Vec<_>>().join(", ");
        Self::UnknownDomain { domain: domain.clone(), known }
    }
}
