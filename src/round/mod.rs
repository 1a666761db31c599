//! The five records of a round: Task, Context, Decision, Outcome, Feedback.
//!
//! Pure data, imported by every other module and importing none. Each record can be written to the journal as
//! JSON and read back for ever, so fields are only ever added, with a default.

mod arm;
mod audit;
mod context;
mod decision;
mod feedback;
mod ids;
mod kept;
mod key;
mod outcome;
mod proposal;
mod task;
mod trajectory;
mod unit;
mod verifier;

pub use arm::ArmPatch;
pub use audit::{Audited, Coin, Found, Missing, Probe, ProbeEnd, ProbedArm};
pub use context::{ArmFeatures, Candidate, Context, Embedding, MaskReason, Masked, Neighbour, Recall, Taken, TriedArm};
pub use decision::{Decision, PolicyRef, Probability, Reason, ShadowView, VoterView};
pub use feedback::{Channel, Feedback, FeedbackSource, Signal, Verdict, VerdictStatus};
pub use ids::{
    ArmId, Capability, DecisionId, Domain, IdempotencyKey, KeyName, SessionId, TaskId, TenantId, VerifierName,
    WebhookName,
};
pub use kept::Kept;
pub use key::{KeyChange, KeyHash, KeyId, KeyRecord, KeyRole};
pub use outcome::{Call, CallStatus, Outcome, OutcomeStatus, ToolCall};
pub use proposal::{Dialect, Proposal};
pub use task::{Constraints, Message, Metadata, PROMPT_BYTES_MAX, Task};
pub use trajectory::{Guardrail, ModeFallback, SAID_BYTES_MAX, Trajectory, TurnTaken};
pub use unit::{Mode, Propensity, RewardWeights, Score};
pub use verifier::{
    ComponentSource, OnError, VerifierChange, VerifierPatch, VerifierSettings, VerifierVersion, VersionOrigin,
};

/// Why a record was refused. The text says what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The field as the client writes it.
    pub field: &'static str,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl Invalid {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}
