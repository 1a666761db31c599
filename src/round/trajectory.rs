//! Trajectory: how several calls made one answer, turn by turn.
//!
//! The calls themselves stand in the outcome, in order: node n1 is the first. This says who decided on them and with what
//! probability, what was refused, and why the answer is what it is.

use serde::{Deserialize, Serialize};

use super::ArmId;

/// How an answer of several calls came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Trajectory {
    /// Who wrote the turns: `rule`, `mode_router` or `llm`.
    pub driver: String,
    /// The model behind it, where there is one: its name at its endpoint, or the first digits of its BLAKE3 hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What cost weighed, in [0, 1]: as asked for and brought into the trained range.
    pub alpha: f64,
    /// The workers offered; `worker_1` is the first.
    pub offered: Vec<ArmId>,
    /// The offered workers' prices, by the first digits of their BLAKE3 hash.
    pub prices: String,
    /// The turns that were taken or refused, in order, the mode's left out: the decision drew it.
    pub turns: Vec<TurnTaken>,
    /// What took the place of turns that were refused or did not come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<ModeFallback>,
    /// The limit that ended it before it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<Guardrail>,
    /// The call whose output is the answer, from 1; none where the driver wrote it, or there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<usize>,
    /// Whether an earlier output was kept because it was verified to be better than the one that the turns end with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept_best: bool,
}

/// The longest words of a turn that are kept.
pub const SAID_BYTES_MAX: usize = 8 << 10;

/// One turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TurnTaken {
    /// The probability with which it was drawn, where the driver knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// The calls that it made, from 1; none for the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<usize>,
    /// What a language model wrote of it, cut to [`SAID_BYTES_MAX`]. Untrusted; not kept where prompts are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// The code of what is wrong with it; nothing was run then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation: Option<String>,
}

/// What took the place of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModeFallback {
    /// The turn was written once more.
    Resampled,
    /// The best output so far is the answer.
    BestSoFar,
    /// One call of the worker that does best in the domain.
    SingleCall,
}

impl ModeFallback {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resampled => "resampled",
            Self::BestSoFar => "best_so_far",
            Self::SingleCall => "single_call",
        }
    }
}

/// A limit on trajectories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Guardrail {
    /// All turns were taken without an answer.
    Turns,
    /// The next calls were expected to cost more than the task may.
    Dollars,
    /// Its time was up.
    Time,
}

impl Guardrail {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Dollars => "dollars",
            Self::Time => "time",
        }
    }
}
