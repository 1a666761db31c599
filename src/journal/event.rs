//! What the journal holds: events as JSON, with the embedding beside them as raw bytes.

use serde::{Deserialize, Serialize};

use super::ContextRecord;
use crate::round::{
    ArmId, ArmPatch, Audited, Decision, DecisionId, Domain, Feedback, KeyChange, KeyId, Outcome, Probe, Task, TenantId,
    VerifierChange, VerifierName,
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
    /// The answer was judged before it was there: feedback that waits to be joined to the outcome, and its cost.
    Early {
        /// By whom and how; the cost is the expected one.
        feedback: Feedback,
    },
    /// Nobody said what became of a decision before its lease ended. Nothing is learnt from it, unless somebody says so later.
    Abandoned {
        /// The decision.
        decision_id: DecisionId,
    },
    /// Memory's content was replaced by a snapshot's. Rounds learnt later follow it.
    MemoryRestored {
        /// What was restored.
        restored: Restored,
    },
    /// A snapshot of memory was taken, or deleted.
    SnapshotChanged {
        /// Its name.
        snapshot: String,
        /// What became of it.
        change: SnapshotChange,
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
    /// An API key was made or revoked.
    KeyChanged {
        /// Its public part.
        key: KeyId,
        /// What became of it.
        change: KeyChange,
    },
    /// A tenant's dollars were spent on a decision; once for each.
    Spent {
        /// How much, and whose.
        spent: Spent,
    },
    /// A task is going to be run on every arm that could have been taken.
    Probed {
        /// Which one, and what that may cost.
        probe: Probe,
    },
    /// It was, or it could not be.
    Audited {
        /// What every arm brought.
        audited: Audited,
    },
    /// Texts were taken out of earlier records because somebody asked for it.
    Erased {
        /// How much.
        erased: Erased,
    },
    /// Old records were taken out; what was learnt from them is kept.
    Compacted {
        /// How much.
        compacted: Compacted,
    },
}

impl Event {
    /// The decision that the event is about, if it is about one.
    pub fn decision_id(&self) -> Option<DecisionId> {
        match self {
            Self::Decided { decision, .. } => Some(decision.id),
            Self::Ran { outcome } => Some(outcome.decision_id),
            Self::Judged { feedback } | Self::Early { feedback } => Some(feedback.decision_id),
            Self::Abandoned { decision_id } => Some(*decision_id),
            Self::Spent { spent } => Some(spent.decision_id),
            Self::Probed { probe } => Some(probe.decision_id),
            Self::Audited { audited } => Some(audited.decision_id),
            Self::MemoryRestored { .. }
            | Self::SnapshotChanged { .. }
            | Self::PolicyChanged { .. }
            | Self::VerifierChanged { .. }
            | Self::ArmChanged { .. }
            | Self::KeyChanged { .. }
            | Self::Erased { .. }
            | Self::Compacted { .. } => None,
        }
    }

    /// Its kind, as stored.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Decided { .. } => DECIDED,
            Self::Ran { .. } => RAN,
            Self::Judged { .. } => JUDGED,
            Self::Early { .. } => "early",
            Self::Abandoned { .. } => ABANDONED,
            Self::MemoryRestored { .. } => "memory_restored",
            Self::SnapshotChanged { .. } => "snapshot_changed",
            Self::PolicyChanged { .. } => "policy_changed",
            Self::VerifierChanged { .. } => "verifier_changed",
            Self::ArmChanged { .. } => "arm_changed",
            Self::KeyChanged { .. } => "key_changed",
            Self::Spent { .. } => "spent",
            Self::Probed { .. } => "probed",
            Self::Audited { .. } => "audited",
            Self::Erased { .. } => "erased",
            Self::Compacted { .. } => "compacted",
        }
    }
}

/// The kind of a decided task.
pub(super) const DECIDED: &str = "decided";
/// The kind of an outcome.
pub(super) const RAN: &str = "ran";
/// The kind of feedback on an outcome.
pub(super) const JUDGED: &str = "judged";
/// The kind of a decision that nobody closed.
pub(super) const ABANDONED: &str = "abandoned";

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyRole {
    /// It decides.
    Champion,
    /// It is on trial: it says what it would do, and nobody acts on it.
    Shadow,
}

/// Why a policy came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
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

/// What a decision cost a tenant. Whole billionths of a dollar: their sum does not depend on the order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// The decision.
    pub decision_id: DecisionId,
    /// Whose money.
    pub tenant: TenantId,
    /// Billionths of a dollar.
    pub nano_usd: u64,
}

/// What became of a snapshot of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotChange {
    /// It was taken.
    Created {
        /// The SHA-256 of its manifest.
        digest: String,
        /// How many entries it holds.
        entries: u64,
    },
    /// It is gone.
    Deleted,
}

/// An erasure: what was asked for is not named, or it would not be erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erased {
    /// What it went by.
    pub by: ErasedBy,
    /// How many decisions it was about.
    pub decisions: u64,
    /// How many records were written anew.
    pub records: u64,
}

/// What an erasure goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErasedBy {
    /// One task's id.
    Task,
    /// A tenant's name.
    Tenant,
}

/// A compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// The place up to which what was learnt is kept as one state.
    pub up_to: i64,
    /// How many records were taken out.
    pub records: u64,
}
