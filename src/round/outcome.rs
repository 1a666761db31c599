//! Outcome: what running the action gave, failures included.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ArmId, DecisionId, Kept, Trajectory};

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
    /// How the calls came about, in modes of more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trajectory: Option<Trajectory>,
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
    /// When it began, in milliseconds after the first one did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub started_ms: f64,
    /// The earlier calls whose outputs it saw, from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<usize>,
    /// What it wrote, in modes of more than one call; empty in single mode, where it is the outcome's output.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// What the verifiers said of that before the next call, in [0, 1], where they could say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Their words, short.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Call {
    /// The role of a call that has none of a team's.
    pub const WORKER: &'static str = "worker";

    /// A call in single mode that read, wrote, cost and took nothing.
    pub fn new(arm: ArmId, status: CallStatus) -> Self {
        Self {
            arm,
            role: Self::WORKER.into(),
            status,
            input_tokens: 0,
            output_tokens: 0,
            cost_usd: 0.0,
            latency_ms: 0.0,
            started_ms: 0.0,
            refs: vec![],
            output: String::new(),
            score: None,
            trace: String::new(),
        }
    }
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
