//! Outcome: what running the action gave, failures included.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ArmId, DecisionId, Kept};

/// What running a decision gave; one per decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Outcome {
    /// The decision that was run.
    pub decision_id: DecisionId,
    /// Whether there is an answer.
    pub status: OutcomeStatus,
    /// The answer; empty when it failed.
    pub output: String,
    /// The tools that are to be called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
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

/// A call of a tool that the answer asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolCall {
    /// The worker's id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// JSON as the worker wrote it.
    pub arguments: String,
}

impl Outcome {
    /// What verifiers look at: the text, or the tools that are to be called where there is none.
    pub fn checked(&self) -> Cow<'_, str> {
        if !self.output.is_empty() || self.tool_calls.is_empty() {
            return Cow::Borrowed(&self.output);
        }
        let call = |call: &ToolCall| json!({"name": call.name, "arguments": call.arguments});
        Cow::Owned(Value::Array(self.tool_calls.iter().map(call).collect()).to_string())
    }
}

/// Whether a decision led to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeStatus {
    /// There is an answer.
    Done,
    /// No worker answered.
    Failed,
}

/// One worker call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It answered.
    Ok,
    /// It did not; the text says how, without secrets.
    Error(String),
}
