//! Workers: what turns a task into an answer.

mod openai;
mod replayed;
mod scripted;

use async_trait::async_trait;

use crate::round::Task;

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

/// Why a worker gave no answer. Texts name the setting to change and hold no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerError {
    /// It could not be reached.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// What the connection said.
        reason: String,
    },
    /// It took too long.
    #[error("no answer within {0} ms")]
    TimedOut(u64),
    /// It refused the key.
    #[error("the worker refused the key in ${0}; check the variable and the arm's api_key_env")]
    Unauthorized(String),
    /// It answered with an error.
    #[error("the worker answered {status}: {body}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// The start of what it said.
        body: String,
    },
    /// It answered in a form that is not the protocol's.
    #[error("the worker's answer is not a chat completion: {0}")]
    Protocol(String),
    /// There is no recorded answer for this task.
    #[error("no answer is recorded for task {0}")]
    NotRecorded(String),
}
