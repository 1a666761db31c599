//! Drivers: who writes a trajectory's turns while its workers run.
//!
//! The decision drew the mode and the first worker. A driver goes on from there: by rule, by the compact mode-router, or by a
//! language model that speaks one of the dialects. What it writes is checked by the grammar before any call is sent.

mod compact;
mod rule;

use async_trait::async_trait;

pub use compact::Compact;
pub use rule::Rule;
pub(super) use rule::best;

use crate::{
    grammar::{Episode, Rules, Turn, Violation},
    round::Mode,
};

/// What a driver sees of one call that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenCall {
    /// Its part; `worker` in rounds.
    pub role: &'static str,
    /// What the worker wrote, cut to the guardrails' length; empty where it gave no answer. Untrusted.
    pub output: String,
    /// What the verifiers say of it, where they were asked and could say: the score in [0, 1].
    pub score: Option<f64>,
    /// The verifiers' words, short; empty where they could tell what the right answer is. Untrusted: they quote what they read.
    pub trace: String,
}

/// A worker as a driver may know it: no name, no price.
#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    /// What it is good at, in a line.
    pub description: String,
}

/// A trajectory as its driver sees it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The task's last user message. Untrusted.
    pub question: &'a str,
    /// The workers offered; `worker_1` is the first.
    pub offered: &'a [Offered],
    /// The mode that was drawn.
    pub mode: Mode,
    /// The worker that was drawn: the first call is its.
    pub first: usize,
    /// The score from which an output counts as verified, in (0, 1].
    pub pass_score: f64,
    /// What was written so far.
    pub episode: &'a Episode,
    /// What was seen of each call, in order.
    pub seen: &'a [SeenCall],
    /// The last turn was refused for this, and may be written once more.
    pub refused: Option<Violation>,
}

/// A turn that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// The turn.
    pub turn: Turn,
    /// The probability with which it was drawn, where that is known.
    pub probability: Option<f64>,
}

/// Why there is no turn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// It wrote something that is no turn.
    #[error("the driver's turn is refused: {0}")]
    Violation(#[from] Violation),
    /// It wrote nothing.
    #[error("the driver failed: {0}")]
    Failed(String),
}

/// Writes a trajectory's turns.
#[async_trait]
pub trait Driver: Send {
    /// Its name, as the trajectory records it.
    fn name(&self) -> &'static str;

    /// The rules that its trajectories follow, within those given: a driver's form of writing may know shorter trajectories.
    fn rules(&self, rules: Rules) -> Rules {
        rules
    }

    /// The next turn.
    async fn next(&mut self, view: &View<'_>) -> Result<Written, DriverError>;

    /// The words that it wrote for the turn it was last asked for, where it writes words.
    fn said(&mut self) -> Option<String> {
        None
    }

    /// Dollars that its own words cost so far.
    fn cost_usd(&self) -> f64 {
        0.0
    }
}
