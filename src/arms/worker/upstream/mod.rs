//! The way to a worker behind HTTP: one request, its answer whole or as a stream, with everything that can go wrong on it.
//!
//! A call takes a place among the arm's concurrent calls, is tried again while that may help and there is time, and ends with the
//! first byte of an answer or a named error. Connections are kept and shared. Redirects are followed on the same host only:
//! a task goes where an admin sent it. Answers are asked for uncompressed, so that none is larger than it looks.

mod refusal;
mod retry;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use reqwest::{Client, Response, StatusCode, header};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{timeout, timeout_at},
};

use tracing::Span;

use super::WorkerError;
use crate::telemetry::trace_headers;
use retry::Backoff;

/// The longest answer that is read, in bytes.
const BODY_BYTES_MAX: usize = 16 << 20;
/// How long an answer may take that comes as a stream.
const STREAM_MAX: Duration = Duration::from_secs(3_600);
/// How many redirects are followed.
const REDIRECTS_MAX: usize = 3;

/// Where a worker is and how it is called.
#[derive(Clone)]
pub struct UpstreamSettings {
    /// The address that requests are posted to.
    pub url: String,
    /// The model's name there, for errors.
    pub model: String,
    /// Sent with each request; keys among them, marked as sensitive.
    pub headers: header::HeaderMap,
    /// The variable that the key came from, for errors.
    pub key_variable: Option<String>,
    /// How long a call may take until its answer begins, or until it is whole where it is no stream, in milliseconds.
    pub timeout_ms: u64,
    /// How long an answer may stop once it has begun, in milliseconds.
    pub idle_timeout_ms: u64,
    /// How often a call that failed is tried again.
    pub retries: u32,
    /// Calls at one time; more wait for a place.
    pub concurrency: usize,
}

/// A worker behind HTTP.
pub struct Upstream {
    settings: UpstreamSettings,
    client: Client,
    places: Arc<Semaphore>,
}

/// The client that upstreams share. `proxy` is the address of one, where the environment's are not to be used.
pub fn client(connect_timeout: Duration, proxy: Option<&str>) -> reqwest::Result<Client> {
    let same_host = |attempt: reqwest::redirect::Attempt<'_>| {
        let same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if same && attempt.previous().len() <= REDIRECTS_MAX { attempt.follow() } else { attempt.stop() }
    };
    let builder = Client::builder()
        .connect_timeout(connect_timeout)
        .redirect(reqwest::redirect::Policy::custom(same_host))
        .tcp_nodelay(true);
    match proxy {
        Some(proxy) => builder.proxy(reqwest::Proxy::all(proxy)?).build(),
        None => builder.build(),
    }
}

impl Upstream {
    /// Calls by a shared client.
    pub fn new(settings: UpstreamSettings, client: Client) -> Self {
        let places = Arc::new(Semaphore::new(settings.concurrency));
        Self { settings, client, places }
    }

    /// The whole answer to a request, within `limit_ms` and the arm's own time.
    pub async fn whole(&self, body: Bytes, limit_ms: Option<u64>) -> Result<Bytes, WorkerError> {
        let time = Time::of(&self.settings, limit_ms);
        let _place = self.place(&time).await?;
        let mut backoff = Backoff::new(self.settings.retries);
        loop {
            let once = async { self.read(self.ask(body.clone()).await?).await };
            match timeout_at(time.end(), once).await.unwrap_or_else(|_| Err(time.over())) {
                Ok(bytes) => return Ok(bytes),
                Err(error) => backoff.wait(error, time.end().into_std()).await?,
            }
        }
    }

    /// The answer to a request as it comes, once it has begun.
    pub async fn stream(&self, body: Bytes, limit_ms: Option<u64>) -> Result<Incoming, WorkerError> {
        let time = Time::of(&self.settings, limit_ms);
        let place = self.place(&time).await?;
        let mut backoff = Backoff::new(self.settings.retries);
        loop {
            let once = async {
                let mut response = self.ask(body.clone()).await?;
                let first = self.chunk(&mut response).await?;
                Ok::<_, WorkerError>((response, first.unwrap_or_default()))
            };
            match timeout_at(time.end(), once).await.unwrap_or_else(|_| Err(time.over())) {
                Ok((response, first)) => {
                    return Ok(Incoming {
                        response,
                        first: Some(first),
                        read: 0,
                        idle: Duration::from_millis(self.settings.idle_timeout_ms),
                        end: Instant::now() + STREAM_MAX,
                        _place: place,
                    });
                }
                Err(error) => backoff.wait(error, time.end().into_std()).await?,
            }
        }
    }

    async fn place(&self, time: &Time) -> Result<OwnedSemaphorePermit, WorkerError> {
        let busy = || WorkerError::Busy(self.settings.concurrency);
        let place = timeout_at(time.end(), Arc::clone(&self.places).acquire_owned()).await.map_err(|_| busy())?;
        // Nobody closes it.
        place.map_err(|_| busy())
    }

    /// Sends the request; an answer that is no success is an error.
    async fn ask(&self, body: Bytes) -> Result<Response, WorkerError> {
        let request = self
            .client
            .post(&self.settings.url)
            .headers(self.settings.headers.clone())
            .headers(trace_headers(&Span::current()))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT_ENCODING, "identity")
            .body(body);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
            return Err(WorkerError::Redirected(to.to_owned()));
        }
        let encoding = response.headers().get(header::CONTENT_ENCODING);
        if let Some(encoding) = encoding.filter(|encoding| *encoding != "identity") {
            return Err(WorkerError::Protocol(format!("it is compressed ({encoding:?}), which was not asked for")));
        }
        if status.is_success() {
            return Ok(response);
        }
        Err(self.refusal(status, response).await)
    }

    async fn read(&self, mut response: Response) -> Result<Bytes, WorkerError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk(&mut response).await? {
            if bytes.len() + chunk.len() > BODY_BYTES_MAX {
                return Err(too_long());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.into())
    }

    async fn chunk(&self, response: &mut Response) -> Result<Option<Bytes>, WorkerError> {
        let idle = Duration::from_millis(self.settings.idle_timeout_ms);
        next_chunk(response, idle).await
    }

    async fn refusal(&self, status: StatusCode, mut response: Response) -> WorkerError {
        let retry_after_ms = retry::retry_after_ms(response.headers(), std::time::SystemTime::now());
        let mut start = Vec::new();
        while start.len() < refusal::BYTES_KEPT
            && let Ok(Some(chunk)) = self.chunk(&mut response).await
        {
            start.extend_from_slice(&chunk);
        }
        let UpstreamSettings { model, key_variable, .. } = &self.settings;
        refusal::named(status.as_u16(), &start, retry_after_ms, model, key_variable.as_deref())
    }

    fn unreachable(&self, error: &reqwest::Error) -> WorkerError {
        let reason = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        WorkerError::Unreachable { url: self.settings.url.clone(), reason }
    }
}

/// An answer as it comes. Its place among the arm's calls is free once it is dropped.
pub struct Incoming {
    response: Response,
    first: Option<Bytes>,
    read: usize,
    idle: Duration,
    end: Instant,
    _place: OwnedSemaphorePermit,
}

impl Incoming {
    /// Its type, such as `text/event-stream`.
    pub fn content_type(&self) -> &str {
        self.response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
    }

    /// The next bytes; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, WorkerError> {
        let chunk = match self.first.take() {
            Some(first) => Some(first),
            None => next_chunk(&mut self.response, self.idle).await?,
        };
        self.read += chunk.as_ref().map_or(0, Bytes::len);
        if Instant::now() > self.end {
            return Err(WorkerError::TimedOut(STREAM_MAX.as_secs() * 1_000));
        }
        if self.read > BODY_BYTES_MAX { Err(too_long()) } else { Ok(chunk) }
    }
}

async fn next_chunk(response: &mut Response, idle: Duration) -> Result<Option<Bytes>, WorkerError> {
    let stalled = |_| WorkerError::Stalled(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
    let chunk = timeout(idle, response.chunk()).await.map_err(stalled)?;
    chunk.map_err(|error| {
        let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        WorkerError::BrokeOff(reason)
    })
}

fn too_long() -> WorkerError {
    WorkerError::Protocol(format!("it is longer than {BODY_BYTES_MAX} bytes"))
}

/// When a call has to end.
struct Time {
    end: Instant,
    limit_ms: u64,
}

impl Time {
    fn of(settings: &UpstreamSettings, limit_ms: Option<u64>) -> Self {
        let limit_ms = settings.timeout_ms.min(limit_ms.unwrap_or(u64::MAX));
        Self { end: Instant::now() + Duration::from_millis(limit_ms), limit_ms }
    }

    fn end(&self) -> tokio::time::Instant {
        self.end.into()
    }

    fn over(&self) -> WorkerError {
        WorkerError::TimedOut(self.limit_ms)
    }
}

#[cfg(test)]
mod tests;
