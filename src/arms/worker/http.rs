//! A worker behind an endpoint of one of the chat protocols: `POST {base_url}/chat/completions` or `POST {base_url}/messages`.
//!
//! A client of the same protocol gets what the worker wrote, byte by byte; one of the other protocol gets a translation.

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

use super::{
    About, Ask, Reply, ReplyStream, Worker, WorkerError,
    upstream::{Incoming, Upstream, UpstreamSettings},
};
use crate::{
    chat::{
        Answer, ChatError, ChatRequest, ErrorKind, Protocol, SseEvent, SseParser, StreamTranslator, Translation,
        translate_answer,
    },
    round::{Message, Task},
};

/// The version of the messages protocol that is spoken.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Where the endpoint is and how to call it.
#[derive(Clone)]
pub struct HttpSettings {
    /// What it speaks.
    pub protocol: Protocol,
    /// Such as `https://api.example.com/v1`, without a trailing slash.
    pub base_url: String,
    /// The model's name there.
    pub model: String,
    /// The variable that the key came from (named in errors) and the key.
    pub api_key: Option<(String, String)>,
    /// How long a call may take until its answer begins, or until it is whole where it is not streamed, in milliseconds.
    pub timeout_ms: u64,
    /// How long an answer may stop once it has begun, in milliseconds.
    pub idle_timeout_ms: u64,
    /// How often a call that failed is tried again.
    pub retries: u32,
    /// Calls at one time.
    pub concurrency: usize,
}

/// The worker; connections are kept and shared.
pub struct HttpWorker {
    protocol: Protocol,
    model: String,
    address: String,
    timeout_ms: u64,
    upstream: Upstream,
}

impl HttpWorker {
    /// Makes the worker around a shared HTTP client.
    pub fn new(settings: HttpSettings, client: reqwest::Client) -> Self {
        let HttpSettings { protocol, base_url, model, api_key, timeout_ms, idle_timeout_ms, retries, concurrency } =
            settings;
        let (key_variable, key) = api_key.unzip();
        let path = match protocol {
            Protocol::OpenAi => "chat/completions",
            Protocol::Anthropic => "messages",
        };
        let upstream = UpstreamSettings {
            url: format!("{}/{path}", base_url.trim_end_matches('/')),
            model: model.clone(),
            headers: headers(protocol, key.as_deref()),
            key_variable,
            timeout_ms,
            idle_timeout_ms,
            retries,
            concurrency,
        };
        let after_scheme = base_url.split_once("://").map_or(base_url.as_str(), |(_, rest)| rest);
        let address = after_scheme.split('/').next().unwrap_or_default().to_owned();
        Self { protocol, model, address, timeout_ms, upstream: Upstream::new(upstream, client) }
    }

    fn body(&self, ask: &Ask<'_>) -> Result<Bytes, WorkerError> {
        let body = match ask.chat {
            Some(chat) => chat.to_upstream(self.protocol, &self.model),
            None => plain(ask.task).and_then(|chat| chat.to_upstream(self.protocol, &self.model)),
        };
        body.map(Bytes::from).map_err(|error| WorkerError::Unsupported(error.to_string()))
    }

    fn translation(&self, chat: &ChatRequest) -> Translation {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Translation {
            from: self.protocol,
            to: chat.protocol(),
            usage_chunk: chat.wants_usage(),
            created_s: now.as_secs(),
        }
    }
}

fn headers(protocol: Protocol, key: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let (name, value) = match protocol {
        Protocol::OpenAi => (AUTHORIZATION, key.map(|key| HeaderValue::try_from(format!("Bearer {key}")))),
        Protocol::Anthropic => {
            headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
            (HeaderName::from_static("x-api-key"), key.map(HeaderValue::try_from))
        }
    };
    // A key with a line break in it is no key: the worker will refuse the call and name the variable.
    if let Some(Ok(mut value)) = value {
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    headers
}

/// The chat of a task that came without one.
fn plain(task: &Task) -> Result<ChatRequest, ChatError> {
    #[derive(Serialize)]
    struct Body<'a> {
        model: &'a str,
        messages: &'a [Message],
    }
    let body = serde_json::to_vec(&Body { model: "auto", messages: &task.messages }).unwrap_or_default();
    ChatRequest::parse(Protocol::OpenAi, &body)
}

#[async_trait]
impl Worker for HttpWorker {
    fn about(&self) -> About<'_> {
        let provider = match self.protocol {
            Protocol::OpenAi => "openai",
            Protocol::Anthropic => "anthropic",
        };
        About { provider, model: &self.model, address: &self.address }
    }

    async fn answer(&self, ask: &Ask<'_>) -> Result<Reply, WorkerError> {
        let bytes = self.upstream.whole(self.body(ask)?, ask.task.constraints.deadline_ms).await?;
        let said = Answer::read(self.protocol, &bytes).map_err(|error| strange(&error, &bytes))?;
        let body = match ask.chat {
            Some(chat) => {
                translate_answer(self.translation(chat), bytes.clone()).map_err(|error| strange(&error, &bytes))?
            }
            None => Bytes::new(),
        };
        Ok(Reply { said, cost_usd: None, body })
    }

    async fn stream(&self, ask: &Ask<'_>) -> Result<Box<dyn ReplyStream>, WorkerError> {
        let chat = ask.chat.ok_or_else(|| WorkerError::Unsupported("only a chat is streamed".into()))?;
        let limit_ms = self.timeout_ms.min(ask.task.constraints.deadline_ms.unwrap_or(u64::MAX));
        let begun = async {
            let incoming = self.upstream.stream(self.body(ask)?, Some(limit_ms)).await?;
            let kind = incoming.content_type();
            if !kind.starts_with("text/event-stream") {
                return Err(WorkerError::Protocol(format!("it is {kind:?} and no event stream")));
            }
            let mut stream = HttpStream {
                incoming,
                parser: Some(SseParser::default()),
                translator: StreamTranslator::new(self.translation(chat)),
                ready: VecDeque::new(),
                last: Vec::new(),
                new: Vec::new(),
            };
            while !stream.translator.observer().has_content() && stream.parser.is_some() {
                stream.read().await?;
            }
            Ok(stream)
        };
        let limit = Duration::from_millis(limit_ms);
        let stream = tokio::time::timeout(limit, begun).await.map_err(|_| WorkerError::TimedOut(limit_ms))??;
        Ok(Box::new(stream))
    }
}

/// A worker's answer that is not of its protocol, with its beginning where that helps.
fn strange(error: &ChatError, bytes: &[u8]) -> WorkerError {
    let page = bytes.trim_ascii_start().starts_with(b"<");
    WorkerError::Protocol(if page { "it is a web page, as a proxy sends it".into() } else { error.to_string() })
}

struct HttpStream {
    incoming: Incoming,
    /// None once the stream has ended.
    parser: Option<SseParser>,
    translator: StreamTranslator,
    /// Frames that the client may have.
    ready: VecDeque<Bytes>,
    /// Those that say that all is there.
    last: Vec<Bytes>,
    new: Vec<Bytes>,
}

impl HttpStream {
    /// Reads on until something came.
    async fn read(&mut self) -> Result<(), WorkerError> {
        let bytes = self.incoming.next().await?;
        let Some(mut parser) = self.parser.take() else { return Ok(()) };
        let protocol = |error: ChatError| WorkerError::Protocol(error.to_string());
        let Some(bytes) = bytes else {
            if let Some(event) = parser.finish() {
                self.take(&event)?;
            }
            return self.translator.end().map_err(|error| WorkerError::BrokeOff(error.to_string()));
        };
        parser.push(&bytes);
        while let Some(event) = parser.next_event().map_err(protocol)? {
            self.take(&event)?;
            if self.translator.observer().has_ended() {
                // What comes after the end is nobody's.
                return Ok(());
            }
        }
        self.parser = Some(parser);
        Ok(())
    }

    fn take(&mut self, event: &SseEvent) -> Result<(), WorkerError> {
        let pushed = self.translator.push(event, &mut self.new);
        pushed.map_err(|error| WorkerError::Protocol(error.to_string()))?;
        if let Some((kind, message)) = self.translator.observer().failure() {
            return Err(failed(kind, message));
        }
        if self.translator.observer().has_ended() {
            self.last.append(&mut self.new);
        } else {
            self.ready.extend(self.new.drain(..));
        }
        Ok(())
    }
}

/// The error that a stream carried.
fn failed(kind: ErrorKind, message: &str) -> WorkerError {
    let body: String = message.chars().take(300).collect();
    match kind {
        ErrorKind::InvalidRequest | ErrorKind::TooLarge => WorkerError::Refused { status: 400, body },
        ErrorKind::RateLimit => WorkerError::Overloaded { status: 429, body, retry_after_ms: None },
        ErrorKind::Overloaded => WorkerError::Overloaded { status: 529, body, retry_after_ms: None },
        ErrorKind::Authentication | ErrorKind::Permission | ErrorKind::NotFound | ErrorKind::Server => {
            WorkerError::Status { status: 500, body }
        }
    }
}

#[async_trait]
impl ReplyStream for HttpStream {
    async fn next(&mut self) -> Result<Option<Bytes>, WorkerError> {
        while self.ready.is_empty() && self.parser.is_some() {
            self.read().await?;
        }
        Ok(match self.ready.len() {
            0 => None,
            1 => self.ready.pop_front(),
            _ => Some(self.ready.drain(..).collect::<Vec<_>>().concat().into()),
        })
    }

    fn last(&mut self) -> Bytes {
        std::mem::take(&mut self.last).concat().into()
    }

    fn said(&self) -> &Answer {
        self.translator.observer().answer()
    }
}
