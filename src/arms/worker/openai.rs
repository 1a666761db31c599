//! A worker behind an OpenAI-compatible endpoint: `POST {base_url}/chat/completions`.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Answer, Worker, WorkerError};
use crate::round::{Message, Task};

/// The longest answer that is read, in bytes.
const BODY_BYTES_MAX: usize = 16 << 20;
/// How much of an error body is kept.
const ERROR_BYTES_KEPT: usize = 300;

/// Where the endpoint is and how to call it.
#[derive(Clone)]
pub struct OpenAiSettings {
    /// Such as `https://api.example.com/v1`, without a trailing slash.
    pub base_url: String,
    /// The model's name there.
    pub model: String,
    /// The variable that the key came from (named in errors) and the key.
    pub api_key: Option<(String, String)>,
    /// How long a call may take, in milliseconds.
    pub timeout_ms: u64,
}

/// The worker; connections are kept and shared.
pub struct OpenAiWorker {
    settings: OpenAiSettings,
    client: reqwest::Client,
    url: String,
}

impl OpenAiWorker {
    /// Makes the worker around a shared HTTP client.
    pub fn new(settings: OpenAiSettings, client: reqwest::Client) -> Self {
        let url = format!("{}/chat/completions", settings.base_url.trim_end_matches('/'));
        Self { settings, client, url }
    }

    async fn call(&self, task: &Task) -> Result<Answer, WorkerError> {
        let body = Request { model: &self.settings.model, messages: &task.messages };
        let mut request = self.client.post(&self.url).json(&body);
        if let Some((_, key)) = &self.settings.api_key {
            request = request.bearer_auth(key);
        }
        let mut response = request.send().await.map_err(|error| self.unreachable(error))?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(error))? {
            if bytes.len() + chunk.len() > BODY_BYTES_MAX {
                return Err(WorkerError::Protocol(format!("it is longer than {BODY_BYTES_MAX} bytes")));
            }
            bytes.extend_from_slice(&chunk);
        }
        if status == reqwest::StatusCode::UNAUTHORIZED || status == reqwest::StatusCode::FORBIDDEN {
            let variable = self.settings.api_key.as_ref().map_or("api_key_env (not set)", |(name, _)| name);
            return Err(WorkerError::Unauthorized(variable.into()));
        }
        if !status.is_success() {
            let kept = &bytes[..bytes.len().min(ERROR_BYTES_KEPT)];
            return Err(WorkerError::Status {
                status: status.as_u16(),
                body: String::from_utf8_lossy(kept).into_owned(),
            });
        }
        read(&bytes)
    }

    fn unreachable(&self, error: reqwest::Error) -> WorkerError {
        let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        WorkerError::Unreachable { url: self.url.clone(), reason }
    }
}

#[async_trait]
impl Worker for OpenAiWorker {
    async fn answer(&self, task: &Task) -> Result<Answer, WorkerError> {
        let limit_ms = self.settings.timeout_ms.min(task.constraints.deadline_ms.unwrap_or(u64::MAX));
        tokio::time::timeout(Duration::from_millis(limit_ms), self.call(task))
            .await
            .map_err(|_| WorkerError::TimedOut(limit_ms))?
    }
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: &'a [Message],
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    message: AnswerMessage,
}

#[derive(Deserialize)]
struct AnswerMessage {
    content: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

fn read(bytes: &[u8]) -> Result<Answer, WorkerError> {
    let completion: Completion =
        serde_json::from_slice(bytes).map_err(|error| WorkerError::Protocol(error.to_string()))?;
    let choice =
        completion.choices.into_iter().next().ok_or_else(|| WorkerError::Protocol("it has no choices".into()))?;
    Ok(Answer {
        text: choice.message.content.unwrap_or_default(),
        input_tokens: completion.usage.as_ref().map(|usage| usage.prompt_tokens),
        output_tokens: completion.usage.as_ref().map(|usage| usage.completion_tokens),
        cost_usd: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_completion_and_names_what_is_missing() {
        let body = br#"{"choices":[{"message":{"role":"assistant","content":"42"}}],
            "usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}"#;
        let answer = read(body).unwrap();
        assert_eq!((answer.text.as_str(), answer.input_tokens, answer.output_tokens), ("42", Some(7), Some(1)));
        assert!(read(br#"{"choices":[]}"#).unwrap_err().to_string().contains("no choices"));
        assert!(read(b"<html>").unwrap_err().to_string().contains("not a chat completion"));
    }
}
