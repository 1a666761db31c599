//! From bytes to checked requests, with errors that name the field.

use std::{error::Error, fmt, marker::PhantomData, time::Duration};

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use futures::StreamExt;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
};
use tokio::time::timeout;
use tower_http::timeout::TimeoutError;
use utoipa::ToSchema;

use super::{ApiState, Caller, Problem};
use crate::round::{
    Constraints, Domain, IdempotencyKey, Invalid, Message, Metadata, RewardWeights, SessionId, Task, TaskId, TenantId,
};

/// How much of a body that is too large is read for nothing, and how long it may stop meanwhile.
const PASSED_OVER_MAX: usize = 256 << 20;
const PASSED_OVER_PAUSE: Duration = Duration::from_secs(1);

/// A task as clients write it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskRequest {
    /// The client's name for it; generated when absent.
    #[serde(default)]
    id: Option<TaskId>,
    /// The kind of work; found by likeness when absent.
    #[serde(default)]
    domain: Option<Domain>,
    /// What is asked, at most 4 MiB; or send `messages`.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 4_194_304, pattern = r"\S")]
    prompt: Option<String>,
    /// A chat in place of a prompt, at most 4 MiB in all.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Message>>, min_items = 1)]
    messages: Option<Vec<Object<Message>>>,
    /// What verifiers may use, such as `reference`.
    #[serde(default)]
    #[schema(value_type = Object)]
    metadata: Metadata,
    /// Limits on how it may be done.
    #[serde(default)]
    #[schema(value_type = Constraints)]
    constraints: Object<Constraints>,
    /// Weights of this task's reward, when they differ from the daemon's.
    #[serde(default)]
    #[schema(value_type = Option<RewardWeights>)]
    reward: Option<Object<RewardWeights>>,
    /// What cost weighs for a policy that was trained on it, from 0 (only the score counts) to 1; brought into the range that it
    /// was trained on. The tenant's or the daemon's when absent.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    alpha: Option<f64>,
    /// The conversation it belongs to.
    #[serde(default)]
    session: Option<SessionId>,
    /// Whose it is; a client's key says so by itself.
    #[serde(default)]
    tenant: Option<TenantId>,
    /// Makes a repeated request one task.
    #[serde(default)]
    idempotency_key: Option<IdempotencyKey>,
}

impl TaskRequest {
    /// Checks it and makes it the caller's. The `Idempotency-Key` header counts where the body has no key of its own.
    pub(super) fn into_task(self, headers: &HeaderMap, caller: &Caller) -> Result<Task, Problem> {
        let messages = match (self.prompt, self.messages) {
            (Some(prompt), None) => vec![Message { role: "user".into(), content: prompt }],
            (None, Some(messages)) => messages.into_iter().map(|Object(message)| message).collect(),
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
            constraints: self.constraints.0,
            reward: self.reward.map(|Object(weights)| weights),
            alpha: self.alpha,
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

/// A value that must be written as an object. A list of its fields in order, which serde takes as well, is refused: nobody means it, and
/// a field that comes later would change what it says.
#[derive(Debug, Default)]
pub(super) struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// The variable parts of a path.
pub(super) struct Segments<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Segments<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Path::from_request_parts(parts, state).await;
        read.map(|Path(segments)| Self(segments)).map_err(|rejection| Problem::invalid_path(rejection.body_text()))
    }
}

/// The parameters of a query.
pub(super) struct Parameters<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Query::from_request_parts(parts, state).await;
        read.map(|Query(parameters)| Self(parameters))
            .map_err(|rejection| Problem::invalid_query(rejection.body_text()))
    }
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
    let too_large = "the body is over server.body_bytes_max; send less, or raise the limit";
    body_up_to(state.limits.body_bytes_max, too_large, request).await
}

/// The whole body of a route that takes at most so many bytes, as its `DefaultBodyLimit` says too.
pub(super) async fn body_up_to(max: usize, too_large: &str, request: Request) -> Result<Bytes, Problem> {
    // What says that it is too large is not kept.
    let stated = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if stated.is_some_and(|length: usize| length > max) {
        // Clients read the answer once they have sent all; one that asks first need not send.
        if !request.headers().contains_key(header::EXPECT) {
            pass_over(request).await;
        }
        return Err(Problem::too_large(too_large));
    }
    Bytes::from_request(request, &()).await.map_err(|rejection| match &rejection {
        BytesRejection::FailedToBufferBody(failed) if failed.status().as_u16() == 413 => Problem::too_large(too_large),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_fields_is_no_object() {
        assert!(parse::<Object<TaskRequest>>(br#"{"prompt": "a", "constraints": {"needs": ["tools"]}}"#).is_ok());
        for (body, place) in [
            (r#"[null, null, "a"]"#, "an object"),
            (r#"{"prompt": "a", "constraints": [null, null]}"#, "constraints: "),
            (r#"{"prompt": "a", "reward": [1.0, 0.0]}"#, "reward: "),
            (r#"{"messages": [["user", "a"]]}"#, "messages[0]: "),
        ] {
            let problem = parse::<Object<TaskRequest>>(body.as_bytes()).unwrap_err();
            assert_eq!(problem.status(), StatusCode::BAD_REQUEST, "{body}");
            assert!(problem.detail().contains(place), "{body}: {}", problem.detail());
        }
    }
}
