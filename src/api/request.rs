//! From bytes to checked requests, with errors that name the field.

use std::{error::Error, time::Duration};

use axum::{
    body::Bytes,
    extract::{FromRequest, Request, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, header},
};
use futures::StreamExt;
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::timeout;
use tower_http::timeout::TimeoutError;

use super::{ApiState, Caller, Problem};
use crate::round::{
    Constraints, Domain, IdempotencyKey, Invalid, Message, Metadata, RewardWeights, SessionId, Task, TaskId, TenantId,
};

/// How much of a body that is too large is read for nothing, and how long it may stop meanwhile.
const PASSED_OVER_MAX: usize = 256 << 20;
const PASSED_OVER_PAUSE: Duration = Duration::from_secs(1);

/// A task as clients write it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskRequest {
    #[serde(default)]
    id: Option<TaskId>,
    #[serde(default)]
    domain: Option<Domain>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    messages: Option<Vec<Message>>,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    constraints: Constraints,
    #[serde(default)]
    reward: Option<RewardWeights>,
    #[serde(default)]
    session: Option<SessionId>,
    #[serde(default)]
    tenant: Option<TenantId>,
    #[serde(default)]
    idempotency_key: Option<IdempotencyKey>,
}

impl TaskRequest {
    /// Checks it and makes it the caller's. The `Idempotency-Key` header counts where the body has no key of its own.
    pub(super) fn into_task(self, headers: &HeaderMap, caller: &Caller) -> Result<Task, Problem> {
        let messages = match (self.prompt, self.messages) {
            (Some(prompt), None) => vec![Message { role: "user".into(), content: prompt }],
            (None, Some(messages)) => messages,
            (None, None) => return Err(Invalid::new("prompt", "is missing; send `prompt` or `messages`").into()),
            (Some(_), Some(_)) => return Err(Invalid::new("messages", "cannot come with `prompt`; send one").into()),
        };
        let header_key = headers
            .get("idempotency-key")
            .map(|value| value.to_str().map_err(|_| Invalid::new("Idempotency-Key", "must be printable ASCII")))
            .transpose()?
            .map(IdempotencyKey::new)
            .transpose()?;
        let mut task = Task {
            id: self.id.unwrap_or_else(TaskId::generate),
            domain: self.domain.unwrap_or_else(Domain::unknown),
            messages,
            metadata: self.metadata,
            constraints: self.constraints,
            reward: self.reward,
            session: self.session,
            tenant: self.tenant,
            idempotency_key: self.idempotency_key.or(header_key),
        };
        task.validate()?;
        caller.own(&mut task)?;
        Ok(task)
    }
}

/// Reads JSON; the problem names the field and the place.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Problem::invalid_utf8(format!("byte {} is not UTF-8; encode the request as UTF-8", error.valid_up_to()))
    })?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("{path}: ") };
        Problem::invalid_json(format!("{place}{}", error.inner()))
    })?;
    deserializer.end().map_err(|error| Problem::invalid_json(format!("after the first value: {error}")))?;
    Ok(value)
}

/// A JSON body of a stated type.
pub(super) struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<ApiState> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, Problem> {
        let json = request
            .headers()
            .get(header::CONTENT_TYPE)
            .is_none_or(|value| value.to_str().is_ok_and(|text| text.contains("json")));
        if !json {
            return Err(Problem::media_type());
        }
        parse(&body(request, state).await?).map(Self)
    }
}

/// The whole body, within its limits.
pub(super) async fn body(request: Request, state: &ApiState) -> Result<Bytes, Problem> {
    let too_large = || Problem::too_large("the body is over server.body_bytes_max; send less, or raise the limit");
    // What says that it is too large is not kept.
    let stated = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if stated.is_some_and(|length: usize| length > state.limits.body_bytes_max) {
        // Clients read the answer once they have sent all; one that asks first need not send.
        if !request.headers().contains_key(header::EXPECT) {
            pass_over(request).await;
        }
        return Err(too_large());
    }
    Bytes::from_request(request, state).await.map_err(|rejection| match &rejection {
        BytesRejection::FailedToBufferBody(failed) if failed.status().as_u16() == 413 => too_large(),
        _ if is_late(&rejection) => Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "body-timeout",
            "The body did not come",
            "it stopped for longer than server.body_timeout_ms; send it again",
        ),
        _ => Problem::invalid_json(format!("the body could not be read: {rejection}")),
    })
}

/// Reads what nobody wants, to its end or as much as a sane client may have sent by mistake.
async fn pass_over(request: Request) {
    let mut chunks = request.into_body().into_data_stream();
    let mut passed = 0;
    while passed < PASSED_OVER_MAX
        && let Ok(Some(Ok(chunk))) = timeout(PASSED_OVER_PAUSE, chunks.next()).await
    {
        passed += chunk.len();
    }
}

fn is_late(error: &(dyn Error + 'static)) -> bool {
    error.is::<TimeoutError>() || error.source().is_some_and(is_late)
}
