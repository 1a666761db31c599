//! A worker that answers from a recording: a model's released answers, or its released scores.
//!
//! Where only a score s in [0, 1] was released, it writes the task's reference with probability s (always for s = 1,
//! never for s = 0) and otherwise a wrong answer, as a scripted worker does.

use std::collections::HashMap;

use async_trait::async_trait;

use super::{
    Ask, Reply, Worker, WorkerError,
    scripted::{Draws, write},
    written::reply,
};
use crate::round::{Mode, Task};

/// What was recorded for one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The model's own words, where they were released.
    pub text: Option<String>,
    /// The released score in [0, 1].
    pub score: f64,
    /// The released or estimated cost.
    pub cost_usd: Option<f64>,
}

/// One model's recording by task id.
pub struct ReplayedWorker {
    records: HashMap<String, Recorded>,
}

impl ReplayedWorker {
    /// Makes the worker from what was recorded.
    pub fn new(records: HashMap<String, Recorded>) -> Self {
        Self { records }
    }
}

#[async_trait]
impl Worker for ReplayedWorker {
    async fn answer(&self, ask: &Ask<'_>) -> Result<Reply, WorkerError> {
        let task = ask.task;
        let record = self.records.get(task.id.as_str()).ok_or_else(|| WorkerError::NotRecorded(task.id.to_string()))?;
        let text = record.text.clone().unwrap_or_else(|| {
            let mut draws = Draws::new(0, task.id.as_str());
            let right = draws.unit() < record.score;
            write(task, right, &mut draws)
        });
        reply(ask, text, record.cost_usd)
    }

    fn expected_score(&self, task: &Task, mode: Mode, _calls_max: usize) -> Option<f64> {
        // What more than one call would have brought was not recorded.
        let record = self.records.get(task.id.as_str()).filter(|_| mode == Mode::Single)?;
        Some(record.score)
    }
}
