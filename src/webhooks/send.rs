//! One try to send a message.
//!
//! The address comes from the configuration alone, and redirects are not followed: a message goes where an admin sent it. Answers are
//! asked for uncompressed, and little of them is read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::{Client, Response, StatusCode, header};
use tokio::time::timeout;

use super::{WebhookSettings, message::Message, schedule};

/// How long a receiver may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// What is read of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 2_048;
/// How long the rest of an answer is waited for, once its status is there.
const REST: Duration = Duration::from_millis(200);
/// What is shown of an answer, in characters.
const SHOWN_CHARS: usize = 200;

/// Sends messages; connections are kept and shared.
#[derive(Clone)]
pub(super) struct Sender {
    client: Client,
}

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub kind: RefusalKind,
    /// What happened, for logs: nothing of what the receiver wrote.
    pub reason: String,
    /// The start of what the receiver wrote.
    pub answer: String,
    pub status: Option<u16>,
    /// How long the receiver asks to wait.
    pub retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusalKind {
    /// The receiver is not there, or takes nothing now.
    Away,
    /// The receiver is there and does not take this message.
    Message,
    /// The receiver wants no more messages.
    Gone,
}

impl Sender {
    pub fn new() -> reqwest::Result<Self> {
        let builder = Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("pointsman/", env!("CARGO_PKG_VERSION")))
            .tcp_nodelay(true);
        Ok(Self { client: builder.build()? })
    }

    /// Sends a message, signed for now. Tells the status with which it was taken, and the start of the answer.
    pub async fn send(&self, settings: &WebhookSettings, message: &Message) -> Result<(u16, String), Refusal> {
        let now = SystemTime::now();
        let timestamp_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let request = self
            .client
            .post(settings.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", timestamp_s)
            .header("webhook-signature", settings.secrets.sign(&message.id, timestamp_s, &message.body))
            .body(message.body.clone());
        let limit = settings.timeout;
        let late = |_| away(format!("did not answer within {} ms", limit.as_millis()));
        let sent = timeout(limit, request.send()).await.map_err(late)?;
        let mut response = sent.map_err(|error| away(reason(error)))?;
        let (status, retry_after) = (response.status(), schedule::asked(response.headers(), now));
        // The status counts, whatever follows. An answer that is read to its end lets the connection be used again.
        let answer = timeout(REST, start_of(&mut response)).await.unwrap_or_default();
        if status.is_success() { Ok((status.as_u16(), answer)) } else { Err(refused(status, retry_after, answer)) }
    }
}

fn away(reason: String) -> Refusal {
    Refusal { kind: RefusalKind::Away, reason, answer: String::new(), status: None, retry_after: None }
}

fn refused(status: StatusCode, retry_after: Option<Duration>, answer: String) -> Refusal {
    let (kind, more) = match status.as_u16() {
        410 => (RefusalKind::Gone, ": it wants no more messages; nothing is sent until the daemon starts again"),
        408 | 425 | 429 | 502 | 503 | 504 => (RefusalKind::Away, ""),
        300..=399 => (RefusalKind::Message, ": redirects are not followed, put the final address into url"),
        401 | 403 => (RefusalKind::Message, ": compare the secrets, and the clocks"),
        _ => (RefusalKind::Message, ""),
    };
    Refusal { kind, reason: format!("answered {status}{more}"), answer, status: Some(status.as_u16()), retry_after }
}

/// The start of an answer on one line.
async fn start_of(response: &mut Response) -> String {
    let mut start = Vec::new();
    while start.len() < ANSWER_BYTES_MAX
        && let Ok(Some(chunk)) = response.chunk().await
    {
        start.extend_from_slice(&chunk[..chunk.len().min(ANSWER_BYTES_MAX - start.len())]);
    }
    let text = String::from_utf8_lossy(&start);
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN_CHARS).collect()
}

/// What went wrong, without the address: its query may hold a password.
fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut reason = format!("could not be reached: {error}");
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        reason = format!("{reason}: {error}");
        source = error.source();
    }
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_of_a_receiver_that_is_away_or_about_the_message() {
        let kind = |status: u16| refused(StatusCode::from_u16(status).unwrap(), None, String::new()).kind;
        for status in [408, 425, 429, 502, 503, 504] {
            assert_eq!(kind(status), RefusalKind::Away, "{status}");
        }
        for status in [301, 307, 400, 401, 404, 422, 500, 501] {
            assert_eq!(kind(status), RefusalKind::Message, "{status}");
        }
        assert_eq!(kind(410), RefusalKind::Gone);
    }
}
