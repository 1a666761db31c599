//! Workers: what turns a task into an answer.
//!
//! A task that came by a chat protocol brings the client's own request along, so that tools, images and settings reach the
//! worker; the answer goes back in the client's protocol, whole or as it comes.

mod error;
mod http;
mod replayed;
mod scripted;
mod team;
mod written;

pub mod upstream;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    chat::{Answer, ChatRequest},
    round::{Mode, Task},
};

pub use error::{ErrorClass, WorkerError};
pub use http::{HttpSettings, HttpWorker};
pub use replayed::{Recorded, ReplayedWorker};
pub use scripted::{ScriptedSettings, ScriptedWorker};
pub use written::{Written, WrittenStream, written};

/// What a worker is asked.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The task.
    pub task: &'a Task,
    /// The client's own request, where the task came by a chat protocol.
    pub chat: Option<&'a ChatRequest>,
    /// The part that it plays where several calls make one answer. The task's messages say so in words; this is for workers that
    /// read none.
    pub part: Option<Part<'a>>,
}

/// A call's part in an answer of several.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// `planner`, `executor`, `verifier`, `summarizer`, or `worker`.
    pub role: &'a str,
    /// How many calls of this answer this worker had before.
    pub before: usize,
    /// The outputs that it is shown, with the roles that wrote them.
    pub shown: &'a [(&'a str, &'a str)],
}

impl<'a> Ask<'a> {
    /// A task that came by itself.
    pub fn of(task: &'a Task) -> Self {
        Self { task, chat: None, part: None }
    }
}

/// Runs a task once.
#[async_trait]
pub trait Worker: Send + Sync {
    /// Answers, or says why not.
    async fn answer(&self, ask: &Ask<'_>) -> Result<Reply, WorkerError>;

    /// Answers as it comes. An error before this returns is one of which the client has seen nothing; it returns once there is
    /// content to see, or the answer ended without any.
    async fn stream(&self, ask: &Ask<'_>) -> Result<Box<dyn ReplyStream>, WorkerError> {
        let reply = self.answer(ask).await?;
        let chat = ask.chat.ok_or_else(|| WorkerError::Unsupported("only a chat is streamed".into()))?;
        Ok(Box::new(written::stream(chat, reply)?))
    }

    /// Whom it asks, for traces.
    fn about(&self) -> About<'_> {
        About { provider: "pointsman", model: "scripted", address: "" }
    }

    /// The expected score in [0, 1] of a way of running it, with at most `calls_max` calls in rounds, where it is known by
    /// construction (scripted and replayed workers). It never reaches a policy: it is used only to draw exact regret.
    fn expected_score(&self, _task: &Task, _mode: Mode, _calls_max: usize) -> Option<f64> {
        None
    }
}

/// Whom a worker asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About<'a> {
    /// Whose protocol it speaks.
    pub provider: &'a str,
    /// The model's name there.
    pub model: &'a str,
    /// The host, with its port where that is named.
    pub address: &'a str,
}

/// A worker's answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// What it says.
    pub said: Answer,
    /// Dollars, when recorded; computed from tokens and prices otherwise.
    pub cost_usd: Option<f64>,
    /// The answer in the client's protocol, where the client speaks one.
    pub body: Bytes,
}

/// An answer as it comes, in the client's protocol.
#[async_trait]
pub trait ReplyStream: Send {
    /// The next frames; nothing at the end. An error means that the answer broke off, however much of it was there.
    async fn next(&mut self) -> Result<Option<Bytes>, WorkerError>;

    /// The frames that tell the client that all is there. They are given last, after [`Self::next`] gave nothing.
    fn last(&mut self) -> Bytes;

    /// What was said so far.
    fn said(&self) -> &Answer;

    /// Dollars, when recorded.
    fn cost_usd(&self) -> Option<f64> {
        None
    }
}
