//! Proposal: what a language model that routes says of a task before the task is decided.
//!
//! It is asked while the task is observed, and what it wrote is journaled with the context, so that the policy that reads it stays pure
//! and a replay sees the same. What the model wrote quotes the task: where a journal keeps no prompts, it keeps no turns.

use serde::{Deserialize, Serialize};

use super::{ArmId, Mode};

/// The text form in which a language model writes its turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Dialect {
    /// Modes, calls with roles and references, an answer.
    #[serde(rename = "routeweaver")]
    Routeweaver,
    /// Thoughts, searches one after the other, an answer.
    #[serde(rename = "router-r1")]
    RouterR1,
}

impl Dialect {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Routeweaver, Self::RouterR1];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Routeweaver => "routeweaver",
            Self::RouterR1 => "router-r1",
        }
    }
}

/// How a language model would run a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Proposal {
    /// The form it wrote in.
    pub dialect: Dialect,
    /// The mode; none where it wrote nothing that can be read, or could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The worker of the first call; none where it named none that is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<ArmId>,
    /// The workers as it was told of them: `worker_1` is the first.
    pub workers: Vec<ArmId>,
    /// The turns that it wrote and that could be read, as it wrote them: [`Self::TURNS_BYTES_MAX`] at most. Untrusted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<String>,
    /// How often it was asked.
    pub attempts: u32,
    /// The codes of what was wrong with turns that were refused, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<String>,
    /// Why it could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Dollars that its words cost.
    pub cost_usd: f64,
    /// How long it took, in milliseconds.
    pub latency_ms: f64,
}

impl Proposal {
    /// The longest turns that are kept, all together.
    pub const TURNS_BYTES_MAX: usize = 32 << 10;

    /// Nothing proposed yet to a task that these workers are offered for.
    pub fn new(dialect: Dialect, workers: Vec<ArmId>) -> Self {
        Self {
            dialect,
            mode: None,
            arm: None,
            workers,
            turns: vec![],
            attempts: 0,
            violations: vec![],
            failure: None,
            cost_usd: 0.0,
            latency_ms: 0.0,
        }
    }

    /// Takes its words out and leaves what they came to.
    pub fn forget_words(&mut self) {
        self.turns.clear();
        self.failure = None;
    }
}
