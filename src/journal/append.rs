//! What is appended, under which keys, and what came of it.

use std::sync::Arc;

use super::{Decided, Event};
use crate::round::{Channel, DecisionId, Embedding, Feedback, IdempotencyKey, TenantId};

/// Starts the `once` keys of clients' own keys: of tasks, of tenants' tasks (no tenant's name holds a colon), of feedback, of
/// feedback on tenants' tasks.
pub(super) const TASK: &str = "task:";
pub(super) const TENANT_TASK: &str = "task@";
pub(super) const FEEDBACK: &str = "feedback:";
pub(super) const TENANT_FEEDBACK: &str = "feedback@";
/// Starts the `once` keys of restorations.
pub(super) const RESTORED: &str = "memory:";
/// Starts those of changed policies.
pub(super) const POLICY: &str = "policy:";
/// Starts those of changed arms.
pub(super) const ARM: &str = "arm:";
/// Starts those of changed verifiers.
pub(super) const VERIFIER: &str = "verifier:";
/// Starts those of changed API keys.
pub(super) const KEY: &str = "key:";

/// An event to append.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The event.
    pub event: Event,
    /// The decided task it belongs to, if any, handed on to the learner.
    pub decided: Option<Arc<Decided>>,
}

impl NewEvent {
    /// An event of a decided task.
    pub fn of(decided: &Arc<Decided>, event: Event) -> Self {
        Self { event, decided: Some(Arc::clone(decided)) }
    }

    /// An event of its own.
    pub fn alone(event: Event) -> Self {
        Self { event, decided: None }
    }

    /// The client's key, or one that lets each source judge a decision once.
    fn feedback_key(&self, feedback: &Feedback, kind: &str) -> String {
        let tenant = self.decided.as_ref().and_then(|decided| decided.task.tenant.as_ref());
        match &feedback.idempotency_key {
            Some(key) => by_feedback_key(tenant, key),
            None => format!("{kind}:{}:{}", feedback.decision_id, feedback.source.as_str()),
        }
    }

    /// The key under which this event can exist only once, if any.
    pub(super) fn once(&self) -> Option<String> {
        match &self.event {
            Event::Decided { context, .. } if let Some(failed) = context.observed.instead_of => Some(by_failed(failed)),
            Event::Decided { task, .. } => {
                task.idempotency_key.as_ref().map(|key| by_task_key(task.tenant.as_ref(), key))
            }
            Event::Ran { outcome } => Some(format!("ran:{}", outcome.decision_id)),
            Event::Judged { feedback } => Some(self.feedback_key(feedback, "judged")),
            Event::Early { feedback } => Some(self.feedback_key(feedback, "early")),
            Event::Abandoned { decision_id } => Some(format!("abandoned:{decision_id}")),
            Event::Spent { spent } => Some(format!("spent:{}", spent.decision_id)),
            Event::Probed { probe } => Some(format!("probed:{}", probe.decision_id)),
            Event::Audited { audited } => Some(format!("audited:{}", audited.decision_id)),
            Event::SnapshotChanged { .. } | Event::Erased { .. } | Event::Compacted { .. } => None,
            // A key of its own, by which it is found again.
            Event::MemoryRestored { .. } => Some(format!("{RESTORED}{}", DecisionId::generate())),
            Event::PolicyChanged { .. } => Some(format!("{POLICY}{}", DecisionId::generate())),
            Event::ArmChanged { .. } => Some(format!("{ARM}{}", DecisionId::generate())),
            Event::VerifierChanged { .. } => Some(format!("{VERIFIER}{}", DecisionId::generate())),
            Event::KeyChanged { .. } => Some(format!("{KEY}{}", DecisionId::generate())),
        }
    }

    /// The model that embedded the task, and the embedding, of a decided task.
    pub(super) fn embedded(&self) -> Option<(String, Vec<u8>)> {
        let decided = self.decided.as_ref().filter(|_| matches!(self.event, Event::Decided { .. }))?;
        Some((decided.observed.embedding_model.clone(), decided.context.embedding.to_bytes()))
    }

    /// The lesson that the policies would learn from it, unless it was learnt already: one a decision and channel. A
    /// verified one is the decision's id, a weak one is longer.
    pub(super) fn teaches(&self) -> Option<Vec<u8>> {
        match &self.event {
            Event::Judged { feedback } if feedback.score.is_some() => {
                let id = feedback.decision_id.as_bytes();
                Some(match feedback.source.channel() {
                    Channel::Verified => id.to_vec(),
                    Channel::Weak => [&id[..], b"w"].concat(),
                })
            }
            _ => None,
        }
    }
}

/// The `once` key of a task's idempotency key. Each tenant has keys of its own: one never meets another's tasks.
pub(super) fn by_task_key(tenant: Option<&TenantId>, key: &IdempotencyKey) -> String {
    match tenant {
        Some(tenant) => format!("{TENANT_TASK}{tenant}:{key}"),
        None => format!("{TASK}{key}"),
    }
}

/// The `once` key of the decision that takes the place of one that failed.
pub(super) fn by_failed(id: DecisionId) -> String {
    format!("instead:{id}")
}

/// The `once` key of a feedback's idempotency key, which is its task's tenant's own.
pub(super) fn by_feedback_key(tenant: Option<&TenantId>, key: &IdempotencyKey) -> String {
    match tenant {
        Some(tenant) => format!("{TENANT_FEEDBACK}{tenant}:{key}"),
        None => format!("{FEEDBACK}{key}"),
    }
}

/// What became of an appended event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is durable.
    Stored {
        /// Its place in the journal.
        seq: i64,
        /// Whether the policies learn from it.
        learns: bool,
    },
    /// An event with the same key was there already; nothing was written.
    Duplicate,
}

/// A durable event, handed to the learner in journal order.
#[derive(Debug, Clone)]
pub struct Committed {
    /// Its place in the journal.
    pub seq: i64,
    /// When it was appended, in milliseconds since 1970.
    pub at_ms: i64,
    /// Whether the policies learn from it.
    pub learns: bool,
    /// The event with its decided task.
    pub new: NewEvent,
}

/// An event as read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its place in the journal.
    pub seq: i64,
    /// When it was appended, in milliseconds since 1970.
    pub at_ms: i64,
    /// Whether the policies learnt from it.
    pub learns: bool,
    /// The event.
    pub event: Event,
    /// The embedding of a decided task.
    pub embedding: Option<Embedding>,
}
