//! Outcome: what running the action gave, failures included.

use serde::{Deserialize, Serialize};

use super::{ArmId, DecisionId, Kept};

/// What running a decision gave; one per decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The decision that was run.
    pub decision_id: DecisionId,
    /// Whether there is an answer.
    pub status: OutcomeStatus,
    /// The answer; empty when it failed.
    pub output: String,
    /// What is kept of the answer.
    #[serde(default, skip_serializing_if = "Kept::is_whole")]
    pub kept: Kept,
    /// Each worker call, in order.
    pub calls: Vec<Call>,
    /// Dollars of all calls together.
    pub cost_usd: f64,
    /// From the decision to the answer, in milliseconds.
    pub latency_ms: f64,
}

/// Whether a decision led to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeStatus {
    /// There is an answer.
    Done,
    /// No worker answered.
    Failed,
}

/// One worker call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The worker called.
    pub arm: ArmId,
    /// The part it played; `worker` in single mode.
    pub role: String,
    /// How it ended.
    pub status: CallStatus,
    /// Tokens read, as the worker reported or as estimated from bytes.
    pub input_tokens: u64,
    /// Tokens written, as the worker reported or as estimated from bytes.
    pub output_tokens: u64,
    /// Dollars at the arm's prices.
    pub cost_usd: f64,
    /// In milliseconds.
    pub latency_ms: f64,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It answered.
    Ok,
    /// It did not; the text says how, without secrets.
    Error(String),
}
