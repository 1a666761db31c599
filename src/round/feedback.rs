//! Feedback: what the answer was worth.

use serde::{Deserialize, Serialize};

use super::{DecisionId, IdempotencyKey, OnError, Score};

/// What a decision's answer was worth, from one source. Idempotent by (decision, source).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Feedback {
    /// The decision judged.
    pub decision_id: DecisionId,
    /// Who judged.
    pub source: FeedbackSource,
    /// The combined score; absent when no verifier applied, and then nothing is learnt.
    pub score: Option<Score>,
    /// e1 * score + e2 * cost_usd; absent with the score.
    pub reward: Option<f64>,
    /// Dollars that the reward was charged.
    pub cost_usd: f64,
    /// How much it weighs in learning, in (0, 1].
    #[serde(default = "certain", skip_serializing_if = "is_certain")]
    pub trust: f64,
    /// The client's key, under which this feedback is stored once whatever else the source says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<IdempotencyKey>,
    /// Each verifier's part; empty for clients' feedback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Verdict>,
}

/// Who judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackSource {
    /// The domain's verifiers, in the sandbox.
    Verifier,
    /// The client, through `/v1/feedback`.
    Client,
    /// The worker gave no answer, which scores 0.
    Failure,
    /// A model asked to judge the answer.
    Judge,
    /// A user's thumb up or down.
    Thumbs,
}

/// Feedback of one channel on one decision is learnt from once; the channels do not shut each other out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Somebody checked the answer.
    Verified,
    /// Somebody liked it, or not.
    Weak,
}

impl FeedbackSource {
    /// The channel that it comes by.
    pub fn channel(self) -> Channel {
        match self {
            Self::Verifier | Self::Client | Self::Failure => Channel::Verified,
            Self::Judge | Self::Thumbs => Channel::Weak,
        }
    }

    /// The name as stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Verifier => "verifier",
            Self::Client => "client",
            Self::Failure => "failure",
            Self::Judge => "judge",
            Self::Thumbs => "thumbs",
        }
    }
}

fn certain() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_certain(trust: &f64) -> bool {
    *trust == 1.0
}

/// One verifier's part in a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Verdict {
    /// The verifier's registered name.
    pub verifier: String,
    /// The version it states.
    pub version: String,
    /// The component that ran.
    pub sha256: String,
    /// How the verification ended.
    pub status: VerdictStatus,
    /// In [0, 1]; absent when it left no opinion.
    pub score: Option<f64>,
    /// Its weight in the domain, above 0.
    pub weight: f64,
    /// Whether a score of 0 forces the whole to 0.
    pub gate: bool,
    /// What its errors mean.
    #[serde(default, skip_serializing_if = "OnError::is_default")]
    pub on_error: OnError,
    /// What it looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// Its words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
    /// Wasm instructions spent, deterministic for the same component and input.
    pub fuel: u64,
    /// Wall time, in microseconds.
    pub duration_us: u64,
}

/// How a verification ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictStatus {
    /// It gave a score.
    Scored,
    /// It does not apply to this task: it leaves the sum.
    NotApplicable,
    /// The task's metadata is malformed: it leaves the sum.
    InvalidTask,
    /// The verifier itself failed or lied; `on_error` says what that means, and it is counted.
    Error,
    /// Checking this answer overran a limit: it scores 0.
    LimitExceeded,
}

/// One thing that a verifier looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Signal {
    /// Its name in the verifier's manifest.
    pub name: String,
    /// In [0, 1].
    pub score: f64,
    /// Its weight inside the verifier, at least 0.
    pub weight: f64,
    /// What was seen.
    pub detail: String,
}
