//! What the journal holds: events as JSON, with the embedding beside them as raw bytes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::round::{
    ArmId, ArmPatch, Candidate, Channel, Context, Decision, DecisionId, Domain, Embedding, Feedback, Masked, Neighbour,
    Outcome, Recall, Taken, Task, VerifierChange, VerifierName,
};

/// One event. Fields are only ever added, with a default, so that old journals stay readable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "events live for a moment, one at a time; a box would only move the bytes"
)]
pub enum Event {
    /// A task was decided; written before the decision is acted on.
    Decided {
        /// The task.
        task: Task,
        /// The context as the policy saw it, without the embedding.
        context: ContextRecord,
        /// The decision.
        decision: Decision,
    },
    /// The decision was run.
    Ran {
        /// What it gave.
        outcome: Outcome,
    },
    /// The answer was judged.
    Judged {
        /// By whom and how.
        feedback: Feedback,
    },
    /// Memory's content was replaced by a snapshot's. Rounds learnt later follow it.
    MemoryRestored {
        /// What was restored.
        restored: Restored,
    },
    /// Another policy decides, or is on trial.
    PolicyChanged {
        /// Which one, and why.
        change: PolicyChange,
    },
    /// A verifier of a domain came, changed or left.
    VerifierChanged {
        /// The domain; none is the set of all domains without one of their own.
        domain: Option<Domain>,
        /// The verifier.
        verifier: VerifierName,
        /// What became of it.
        change: VerifierChange,
    },
    /// An arm came, changed or left.
    ArmChanged {
        /// The arm.
        arm: ArmId,
        /// What became of it.
        change: ArmChange,
    },
}

impl Event {
    /// The decision that the event is about, if it is about one.
    pub fn decision_id(&self) -> Option<DecisionId> {
        match self {
            Self::Decided { decision, .. } => Some(decision.id),
            Self::Ran { outcome } => Some(outcome.decision_id),
            Self::Judged { feedback } => Some(feedback.decision_id),
            Self::MemoryRestored { .. }
            | Self::PolicyChanged { .. }
            | Self::VerifierChanged { .. }
            | Self::ArmChanged { .. } => None,
        }
    }
}

/// A snapshot that took the place of memory's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The snapshot's name.
    pub snapshot: String,
    /// The SHA-256 of its manifest: memory's origin from now on.
    pub digest: String,
    /// The sequence number of the next entry.
    pub next_seq: u64,
    /// How many entries it holds.
    pub entries: u64,
}

/// Another policy in one of the two roles. The policy is the fold of all learnt rounds under its card, whenever it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// What it does from now on.
    pub role: PolicyRole,
    /// Why.
    pub origin: PolicyOrigin,
    /// The card's name.
    pub name: String,
    /// The policy of the card that acts, with its wrappers.
    pub policy: String,
    /// The card's text; nothing where a trial ends.
    pub card: Option<String>,
}

/// What a policy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyRole {
    /// It decides.
    Champion,
    /// It is on trial: it says what it would do, and nobody acts on it.
    Shadow,
}

/// Why a policy came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyOrigin {
    /// The configuration names it.
    Configured,
    /// Its card's file changed.
    Reloaded,
    /// An operator asked for it.
    Asked,
    /// An operator asked for the one before.
    RolledBack,
}

/// What became of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArmChange {
    /// It was added, or takes the place of one of this name; as in an `[[arms]]` table of the configuration.
    Added(serde_json::Value),
    /// What was given is different from now on.
    Changed(ArmPatch),
    /// It is gone. Its statistics stay, in case that it comes back.
    Removed,
}

/// How a context came about: for the journal, not for policies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The model that embedded the task. Vectors of different models are never compared.
    #[serde(default = "first_model")]
    pub embedding_model: String,
    /// How alike the task and its domain are, where the domain was found by that and not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_similarity: Option<f32>,
    /// The arms that could not be chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<Masked>,
}

impl Observed {
    /// An embedding of this model, and a domain that was given.
    pub fn of(embedding_model: impl Into<String>) -> Self {
        Self { embedding_model: embedding_model.into(), domain_similarity: None, masked: Vec::new() }
    }
}

/// Starts the `once` keys of restorations.
pub(super) const RESTORED: &str = "memory:";
/// Starts those of changed policies.
pub(super) const POLICY: &str = "policy:";
/// Starts those of changed arms.
pub(super) const ARM: &str = "arm:";

/// Starts those of changed verifiers.
pub(super) const VERIFIER: &str = "verifier:";

/// The only model there was before the journal named it.
pub(super) const FIRST_MODEL: &str = "all-MiniLM-L6-v2";

fn first_model() -> String {
    FIRST_MODEL.into()
}

/// A context without its embedding, which is stored as bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextRecord {
    /// Whether memory answered.
    pub recall: Recall,
    /// What it recalled.
    pub neighbours: Vec<Neighbour>,
    /// What could be chosen.
    pub candidates: Vec<Candidate>,
    /// What the session's last round took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Taken>,
    /// How it came about.
    #[serde(flatten)]
    pub observed: Observed,
}

/// A decided task with all that is needed to run it, judge it and learn from it, at once or days later.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// The task.
    pub task: Task,
    /// The context as it was seen.
    pub context: Context,
    /// How it came about.
    pub observed: Observed,
    /// The decision.
    pub decision: Decision,
}

impl Decided {
    /// Puts a record and its embedding together again.
    pub fn from_parts(task: Task, record: ContextRecord, embedding: Embedding, decision: Decision) -> Self {
        let context = Context {
            text: "".into(),
            embedding,
            domain: task.domain.clone(),
            neighbours: record.neighbours,
            recall: record.recall,
            candidates: record.candidates,
            last: record.last,
            weights: task.reward.unwrap_or_default(),
        };
        Self { task, context, observed: record.observed, decision }
    }

    /// The event that records it.
    pub fn to_event(&self) -> Event {
        Event::Decided {
            task: self.task.clone(),
            context: ContextRecord {
                recall: self.context.recall.clone(),
                neighbours: self.context.neighbours.clone(),
                candidates: self.context.candidates.clone(),
                last: self.context.last.clone(),
                observed: self.observed.clone(),
            },
            decision: self.decision.clone(),
        }
    }
}

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

    /// The key under which this event can exist only once, if any.
    pub(super) fn once(&self) -> Option<String> {
        match &self.event {
            Event::Decided { task, .. } => task.idempotency_key.as_ref().map(|key| format!("task:{key}")),
            Event::Ran { outcome } => Some(format!("ran:{}", outcome.decision_id)),
            Event::Judged { feedback } => {
                let source = feedback.source.as_str();
                Some(format!("judged:{}:{source}", feedback.decision_id))
            }
            // A key of its own, by which it is found again.
            Event::MemoryRestored { .. } => Some(format!("{RESTORED}{}", DecisionId::generate())),
            Event::PolicyChanged { .. } => Some(format!("{POLICY}{}", DecisionId::generate())),
            Event::ArmChanged { .. } => Some(format!("{ARM}{}", DecisionId::generate())),
            Event::VerifierChanged { .. } => Some(format!("{VERIFIER}{}", DecisionId::generate())),
        }
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
