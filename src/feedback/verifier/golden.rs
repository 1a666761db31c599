//! Golden tasks: an answer and what a verifier must say of it.
//!
//! A line is `{"task": {"id", "domain", "prompt", "metadata"}, "response", "repeat", "config", "expect"}`. What is expected is
//! a `score` within `tolerance`, or an `error` (`not-applicable`, `invalid-task`, `internal`), or a `status` as in a verdict;
//! and, where `trace` is given, that one line of the trace or one signal's detail holds that text.

use serde::Deserialize;

use super::Verified;
use crate::round::{Domain, Metadata, Task, TaskId, VerdictStatus};

/// One golden line.
#[derive(Debug, Clone, Deserialize)]
pub struct Golden {
    /// What it is called, where it is not its task's id that says so.
    #[serde(default)]
    pub name: Option<String>,
    task: GoldenTask,
    response: String,
    /// How often the response is repeated, to make long ones.
    #[serde(default = "once")]
    repeat: usize,
    /// The verifier's configuration.
    #[serde(default)]
    pub config: String,
    /// What must come of it.
    pub expect: Expected,
}

fn once() -> usize {
    1
}

#[derive(Debug, Clone, Deserialize)]
struct GoldenTask {
    id: String,
    domain: String,
    prompt: String,
    #[serde(default)]
    metadata: Metadata,
}

/// What must come of a golden line.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    #[serde(default)]
    score: Option<f64>,
    #[serde(default)]
    tolerance: f64,
    #[serde(default)]
    error: Option<Error>,
    #[serde(default)]
    status: Option<VerdictStatus>,
    #[serde(default)]
    trace: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Error {
    NotApplicable,
    InvalidTask,
    Internal,
}

impl Golden {
    /// Reads a file of golden lines; blank ones are passed over. The error names the line.
    pub fn read_all(text: &str) -> Result<Vec<Self>, String> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let read = |(place, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", place + 1))
        };
        lines.map(read).collect()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.task.id)
    }

    /// The task, as the host gives it to a verifier.
    pub fn task(&self) -> Result<Task, String> {
        let GoldenTask { id, domain, prompt, metadata } = &self.task;
        let text = |error: crate::round::Invalid| error.to_string();
        let (id, domain) = (TaskId::new(id).map_err(text)?, Domain::new(domain).map_err(text)?);
        Ok(Task::plain(id, domain, prompt, metadata.clone()))
    }

    /// The answer.
    pub fn response(&self) -> String {
        self.response.repeat(self.repeat)
    }

    /// Whether a verification gave what was expected, or what it gave instead.
    pub fn compare(&self, got: &Verified) -> Result<(), String> {
        let Expected { score, tolerance, error, status, trace } = &self.expect;
        let status = match (status, error) {
            (Some(status), _) => *status,
            (None, Some(Error::NotApplicable)) => VerdictStatus::NotApplicable,
            (None, Some(Error::InvalidTask)) => VerdictStatus::InvalidTask,
            (None, Some(Error::Internal)) => VerdictStatus::Error,
            (None, None) => VerdictStatus::Scored,
        };
        let said = || format!("{:?} {:?} {:?}", got.status, got.score, got.trace);
        if got.status != status {
            return Err(format!("expected {status:?}, got {}", said()));
        }
        if let Some(score) = score
            && !got.score.is_some_and(|got| (got - score).abs() <= *tolerance)
        {
            return Err(format!("expected a score of {score} +- {tolerance}, got {}", said()));
        }
        let details = got.signals.iter().map(|signal| &signal.detail);
        if let Some(text) = trace
            && !got.trace.iter().chain(details).any(|line| line.contains(text))
        {
            return Err(format!("expected {text:?} in the trace, got {}", said()));
        }
        Ok(())
    }
}
