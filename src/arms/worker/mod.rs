//! Workers: what turns a task into an answer.

mod error;
mod openai;
mod replayed;
mod scripted;
pub mod upstream;

use async_trait::async_trait;

use crate::round::Task;

pub use error::{ErrorClass, WorkerError};
pub use openai::{OpenAiSettings, OpenAiWorker};
pub use replayed::{Recorded, ReplayedWorker};
pub use scripted::{ScriptedSettings, ScriptedWorker};

/// Runs a task once.
#[async_trait]
pub trait Worker: Send + Sync {
    /// Answers, or says why not. `deadline_ms` is the task's own limit, if it has one.
    async fn answer(&self, task: &Task) -> Result<Answer, WorkerError>;

    /// The expected score in [0, 1], where it is known by construction (scripted and replayed workers). It never
    /// reaches a policy: it is used only to draw exact regret.
    fn expected_score(&self, _task: &Task) -> Option<f64> {
        None
    }
}

/// A worker's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Tokens read, when the worker counts them.
    pub input_tokens: Option<u64>,
    /// Tokens written, when the worker counts them.
    pub output_tokens: Option<u64>,
    /// Dollars, when recorded; computed from tokens and prices otherwise.
    pub cost_usd: Option<f64>,
}
