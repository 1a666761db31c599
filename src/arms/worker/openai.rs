//! A worker behind an OpenAI-compatible endpoint: `POST {base_url}/chat/completions`.

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};

use super::{
    Answer, Worker, WorkerError,
    upstream::{Upstream, UpstreamSettings},
};
use crate::round::{Message, Task};

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
    /// How long an answer may stop once it has begun, in milliseconds.
    pub idle_timeout_ms: u64,
    /// How often a call that failed is tried again.
    pub retries: u32,
    /// Calls at one time.
    pub concurrency: usize,
}

/// The worker; connections are kept and shared.
pub struct OpenAiWorker {
    model: String,
    upstream: Upstream,
}

impl OpenAiWorker {
    /// Makes the worker around a shared HTTP client.
    pub fn new(settings: OpenAiSettings, client: reqwest::Client) -> Self {
        let (key_variable, key) = settings.api_key.unzip();
        let mut headers = HeaderMap::new();
        // A key with a line break in it is no key: the worker will refuse the call and name the variable.
        if let Some(Ok(mut value)) = key.map(|key| HeaderValue::try_from(format!("Bearer {key}"))) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let upstream = UpstreamSettings {
            url: format!("{}/chat/completions", settings.base_url.trim_end_matches('/')),
            model: settings.model.clone(),
            headers,
            key_variable,
            timeout_ms: settings.timeout_ms,
            idle_timeout_ms: settings.idle_timeout_ms,
            retries: settings.retries,
            concurrency: settings.concurrency,
        };
        Self { model: settings.model, upstream: Upstream::new(upstream, client) }
    }
}

#[async_trait]
impl Worker for OpenAiWorker {
    async fn answer(&self, task: &Task) -> Result<Answer, WorkerError> {
        let body = serde_json::to_vec(&Request { model: &self.model, messages: &task.messages });
        let body = body.map_err(|error| WorkerError::Unsupported(error.to_string()))?;
        read(&self.upstream.whole(body.into(), task.constraints.deadline_ms).await?)
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
