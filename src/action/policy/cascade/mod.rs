//! Cascades: policies that may try one arm after another on the same task, and know each one's verdict before the next.
//!
//! What is paid adds up and the best answer is kept, so a cascade has two choices at each step: which arm next, and whether
//! it is worth its cost at all. Both come as one distribution, over the arms that were not tried yet and over stopping, so
//! that every step has an exact propensity. As a policy, a cascade is pure and never samples.

mod escalate;
mod latent;

use serde_json::Value;

use super::{Action, PolicyError, StateError};
use crate::round::{Context, VoterView};

pub use escalate::Escalate;
pub use latent::{CascadeSettings, Latent};

/// A score from which on an answer cannot be bettered.
pub const SOLVED: f64 = 1.0 - 1e-9;

/// One attempt at a task, and what it gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The candidate's place in the context.
    pub place: usize,
    /// The probability with which it was drawn at its step.
    pub propensity: f64,
    /// The seed of the step.
    pub seed: u64,
    /// The voters' views at the step, for an ensemble.
    pub voters: Vec<VoterView>,
    /// The verified score in [0, 1].
    pub score: f64,
    /// Dollars spent.
    pub cost_usd: f64,
}

/// What a cascade would do next.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NextStep {
    /// One probability per candidate of the context, in order; 0 for one that was tried.
    pub pmf: Vec<f64>,
    /// The probability of stopping; 0 before the first attempt. All of them sum to 1.
    pub stop: f64,
    /// The voters behind it, for an ensemble.
    pub voters: Vec<VoterView>,
}

/// Maps a context and what was tried so far to the next step, and learns from whole tasks.
pub trait Cascade: Send + Sync {
    /// The registered name.
    fn name(&self) -> &'static str;

    /// The next step. The seed makes counted posterior draws repeatable.
    fn next(&self, context: &Context, attempts: &[Attempt], seed: u64) -> Result<NextStep, PolicyError>;

    /// Folds all attempts at one task into the state, in the order in which they were made.
    fn learn(&mut self, context: &Context, attempts: &[Attempt]);

    /// A snapshot that shares what did not change.
    fn snapshot(&self) -> Box<dyn Cascade>;

    /// All that was learnt, as JSON.
    fn state(&self) -> Value;

    /// Takes the place of what was learnt. Actions whose numbers make no sense are left out and returned.
    fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError>;
}

/// The best score so far; 0 before the first attempt.
fn best_score(attempts: &[Attempt]) -> f64 {
    attempts.iter().map(|attempt| attempt.score).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
