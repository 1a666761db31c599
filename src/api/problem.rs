//! The error table: RFC 9457 problem documents with stable types.

use std::{any::Any, borrow::Cow};

use axum::{
    Json,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, schema::Schema},
};

use crate::{
    access::AccessError,
    replay::saved::SavedError,
    round::{Invalid, MaskReason, Masked},
    router::{
        CatalogueError, ComponentError, EmbeddingError, JournalError, MemoryError, RegistryError, RouterError,
        SnapshotError,
    },
};

/// A problem document, boxed since it travels in every handler's result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Problem(Box<Document>);

/// A problem document of RFC 9457. Some hold more, such as `field` or `decision_id`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(example = json!({
    "type": "urn:pointsman:problem:invalid-request",
    "title": "A field is not valid",
    "status": 422,
    "detail": "prompt: is missing; send `prompt` or `messages`",
    "field": "prompt"
}))]
struct Document {
    /// A stable name, `urn:pointsman:problem:NAME`.
    #[serde(rename = "type")]
    #[schema(pattern = "^urn:pointsman:problem:[a-z0-9-]+$")]
    kind: String,
    /// The same in words.
    title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What happened and what to do.
    detail: String,
    /// What else helps, such as the decision's id.
    #[serde(flatten, skip_serializing_if = "Map::is_empty")]
    #[schema(ignore)]
    more: Map<String, Value>,
    /// Seconds after which the same may go well, for the header `Retry-After`.
    #[serde(skip)]
    retry_after_s: Option<u64>,
}

impl PartialSchema for Problem {
    fn schema() -> RefOr<Schema> {
        Document::schema()
    }
}

impl ToSchema for Problem {
    fn name() -> Cow<'static, str> {
        "Problem".into()
    }
}

impl Problem {
    pub(super) fn new(status: StatusCode, name: &str, title: &'static str, detail: impl Into<String>) -> Self {
        let kind = format!("urn:pointsman:problem:{name}");
        let status = status.as_u16();
        Self(Box::new(Document { kind, title, status, detail: detail.into(), more: Map::new(), retry_after_s: None }))
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// How long to wait, in seconds.
    pub(super) fn retry_after_s(&self) -> Option<u64> {
        self.0.retry_after_s
    }

    /// Its stable name.
    pub(super) fn kind(&self) -> &str {
        &self.0.kind
    }

    /// What happened and what to do.
    pub(super) fn detail(&self) -> &str {
        &self.0.detail
    }

    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.more.insert(key.into(), value.into());
        self
    }

    pub(super) fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_s = Some(seconds);
        self
    }

    pub(super) fn invalid_json(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-json", "The body is not the JSON that is expected", detail)
    }

    pub(super) fn invalid_utf8(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-utf8", "The text is not UTF-8", detail)
    }

    pub(super) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The request is too large", detail)
    }

    pub(super) fn invalid_query(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-query", "The query is not the one that is expected", detail)
    }

    pub(super) fn invalid_path(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-path", "The path is not one that is expected", detail)
    }

    pub(super) fn unknown_entry(seq: u64) -> Self {
        let detail = format!("memory holds no entry {seq}: it was evicted, or is not there yet; see GET /v1/memory");
        Self::new(StatusCode::NOT_FOUND, "unknown-entry", "There is no such entry", detail)
    }

    /// A defect, or a failure that only the log can explain.
    pub(super) fn internal(detail: &str) -> Self {
        tracing::error!(%detail, "a request failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Something failed here",
            "the daemon's log says what happened; the request may be sent again",
        )
    }

    pub(super) fn media_type() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "The body must be JSON",
            "send the header `Content-Type: application/json`",
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let retry_after = self.0.retry_after_s;
        let mut response =
            (self.status(), [(header::CONTENT_TYPE, "application/problem+json")], Json(self)).into_response();
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let detail = invalid.to_string();
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-request", "A field is not valid", detail)
            .with("field", invalid.field)
    }
}

impl From<RouterError> for Problem {
    fn from(error: RouterError) -> Self {
        let detail = error.to_string();
        let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
        match error {
            RouterError::Invalid(invalid) => invalid.into(),
            RouterError::Arm(error) => arm(&error, detail),
            RouterError::BadArm(_) => Self::new(unprocessable, "invalid-arm", "The arm cannot be made", detail),
            RouterError::UnknownTenant { .. } => {
                Self::new(unprocessable, "unknown-tenant", "There is no such tenant", detail)
            }
            RouterError::UnknownCard { .. } => {
                Self::new(StatusCode::NOT_FOUND, "unknown-card", "There is no such policy card", detail)
            }
            RouterError::BadCard { .. } | RouterError::Card(_) => {
                Self::new(unprocessable, "invalid-card", "The policy card cannot be used", detail)
            }
            RouterError::NothingToRollBack => {
                Self::new(StatusCode::CONFLICT, "nothing-to-roll-back", "There is no earlier policy", detail)
            }
            RouterError::UnknownDomain { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown-domain", "There is no such domain", detail)
            }
            RouterError::ModesOff { .. } => {
                Self::new(unprocessable, "modes-off", "No mode is left for the task", detail)
            }
            RouterError::UnknownDecision(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown-decision", "There is no such decision", detail)
            }
            RouterError::KeyReused(_) => {
                Self::new(StatusCode::CONFLICT, "idempotency-key-reused", "The key belongs to another task", detail)
            }
            RouterError::StillRunning(id) => {
                Self::new(StatusCode::CONFLICT, "still-running", "The same task is running", detail)
                    .with("decision_id", id.to_string())
            }
            RouterError::NotKept { .. } => Self::new(StatusCode::GONE, "text-not-kept", "The text is not kept", detail),
            RouterError::Embedding(error) => embedding(&error, detail),
            RouterError::Journal(error) => journal(&error, detail),
            RouterError::Memory(error) => memory(&error, detail),
            RouterError::Snapshot(error) => error.into(),
            RouterError::Verifier(error) => verifier(&error, detail),
            RouterError::Overloaded { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "Too many tasks are waiting", detail)
            }
            RouterError::Access(error) => access(&error, detail),
            RouterError::UnknownKey(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown-key", "There is no such key", detail)
            }
            RouterError::AdminKeyFirst => {
                Self::new(StatusCode::CONFLICT, "admin-key-first", "An admin key is needed first", detail)
            }
            RouterError::Internal(_) => Problem::internal(&detail),
        }
    }
}

fn access(error: &AccessError, detail: String) -> Problem {
    let (limited, forbidden) = (StatusCode::TOO_MANY_REQUESTS, StatusCode::FORBIDDEN);
    match error {
        AccessError::TooFast { wait_ns, .. } => {
            Problem::new(limited, "rate-limited", "Too many tasks a minute", detail)
                .retry_after(wait_ns.div_ceil(1_000_000_000))
        }
        AccessError::TooMany { .. } => {
            Problem::new(limited, "too-many-at-once", "Too many tasks at once", detail).retry_after(1)
        }
        AccessError::Budget { why, .. } if why.only_held => {
            Problem::new(limited, "budget-reserved", "The budget is put aside for tasks that run", detail)
                .retry_after(1)
        }
        // Not 429: clients try that again by themselves within seconds, and money does not come back within seconds.
        AccessError::Budget { why, .. } => {
            Problem::new(StatusCode::PAYMENT_REQUIRED, "budget-spent", "The budget is spent", detail)
                .retry_after(why.resets_in_ms.unsigned_abs().div_ceil(1_000))
        }
        AccessError::Domain { .. } => {
            Problem::new(forbidden, "domain-not-allowed", "The domain is not the tenant's", detail)
        }
        AccessError::Arm { .. } => Problem::new(forbidden, "arm-not-allowed", "The arm is not the tenant's", detail),
    }
}

fn arm(error: &CatalogueError, detail: String) -> Problem {
    let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
    match error {
        CatalogueError::Unknown { .. } => Problem::new(unprocessable, "unknown-arm", "There is no such arm", detail),
        CatalogueError::Reserved(_) => Problem::new(unprocessable, "invalid-arm", "The arm cannot be made", detail),
        CatalogueError::Twice(_) => Problem::new(StatusCode::CONFLICT, "arm-exists", "The name is taken", detail),
        CatalogueError::Last(_) => Problem::new(StatusCode::CONFLICT, "last-arm", "One arm must be left", detail),
        CatalogueError::NoneEligible(masked) => {
            let by_task = |masked: &Masked| matches!(masked.why, MaskReason::Lacks(_) | MaskReason::TooDear);
            let status = if masked.iter().any(by_task) { unprocessable } else { StatusCode::SERVICE_UNAVAILABLE };
            Problem::new(status, "no-eligible-arm", "No arm may be chosen for the task", detail)
        }
    }
}

fn verifier(error: &RegistryError, detail: String) -> Problem {
    let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
    match error {
        RegistryError::Refused { source, .. } => {
            Problem::new(unprocessable, "invalid-verifier", "The component cannot be a verifier", detail)
                .with("reason", source.code())
        }
        RegistryError::Unknown { .. } | RegistryError::Component { source: ComponentError::Unknown { .. }, .. } => {
            Problem::new(StatusCode::NOT_FOUND, "unknown-verifier", "There is no such verifier", detail)
        }
        RegistryError::Component { source: ComponentError::NotBuilt { .. }, .. } => {
            Problem::new(StatusCode::CONFLICT, "verifier-not-built", "The verifier is not built yet", detail)
        }
        RegistryError::Component { source: ComponentError::File { reason, .. }, .. }
            if reason.kind() == std::io::ErrorKind::StorageFull =>
        {
            storage_full("The disk is full, so nothing was installed", detail)
        }
        RegistryError::Component { source: ComponentError::File { .. } | ComponentError::Damaged { .. }, .. } => {
            Problem::internal(&detail)
        }
        RegistryError::Last(_) => Problem::new(StatusCode::CONFLICT, "last-verifier", "One must be left", detail),
        RegistryError::NoVersion { .. } => {
            Problem::new(StatusCode::CONFLICT, "no-such-version", "There is no such version", detail)
        }
    }
}

fn embedding(error: &EmbeddingError, detail: String) -> Problem {
    match error {
        EmbeddingError::Busy { .. } => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "Too many tasks are waiting", detail)
        }
        EmbeddingError::Invalid(_) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-request", "A field is not valid", detail)
                .with("field", "prompt")
        }
        _ => Problem::internal(&detail),
    }
}

fn journal(error: &JournalError, detail: String) -> Problem {
    match error {
        JournalError::DiskFull => storage_full("The disk is full, so nothing was acknowledged", detail),
        JournalError::Closed => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "The daemon is stopping", detail)
        }
        JournalError::Busy => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "journal-busy", "Nothing was acknowledged", detail)
        }
        JournalError::ReadOnly(_) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "journal-read-only", "Nothing was acknowledged", detail)
        }
        JournalError::Open { .. }
        | JournalError::Corrupt(_)
        | JournalError::OtherModel { .. }
        | JournalError::Newer { .. }
        | JournalError::Damaged { .. }
        | JournalError::Other(_) => Problem::internal(&detail),
    }
}

fn memory(error: &MemoryError, detail: String) -> Problem {
    match error {
        MemoryError::Invalid(_) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-request", "A field is not valid", detail)
        }
        MemoryError::Unavailable(_) | MemoryError::Unknown(_) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "memory-unavailable", "Memory does not answer", detail)
        }
        MemoryError::DiskFull(_) => storage_full("The disk is full", detail),
        MemoryError::Locked(_)
        | MemoryError::Mismatch { .. }
        | MemoryError::Corrupt { .. }
        | MemoryError::Ahead { .. }
        | MemoryError::Other(_) => Problem::internal(&detail),
    }
}

impl From<SnapshotError> for Problem {
    fn from(error: SnapshotError) -> Self {
        let detail = error.to_string();
        let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
        match error {
            SnapshotError::Name(_) => {
                Self::new(unprocessable, "invalid-request", "A field is not valid", detail).with("field", "name")
            }
            SnapshotError::Unknown(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown-snapshot", "There is no such snapshot", detail)
            }
            SnapshotError::Exists(_) => Self::new(StatusCode::CONFLICT, "snapshot-exists", "The name is taken", detail),
            SnapshotError::InUse(_) => {
                Self::new(StatusCode::CONFLICT, "snapshot-in-use", "Memory rests on the snapshot", detail)
            }
            SnapshotError::Damaged { .. } | SnapshotError::Newer { .. } => {
                Self::new(unprocessable, "damaged-snapshot", "The snapshot cannot be read", detail)
            }
            SnapshotError::OtherModel { .. } => {
                Self::new(unprocessable, "foreign-snapshot", "The snapshot is another model's", detail)
            }
            SnapshotError::Memory(error) => memory(&error, detail),
            SnapshotError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                storage_full("The disk is full", detail)
            }
            SnapshotError::Io { .. } => Problem::internal(&detail),
        }
    }
}

impl From<SavedError> for Problem {
    fn from(error: SavedError) -> Self {
        let detail = error.to_string();
        let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
        match error {
            SavedError::Name(_) => {
                Self::new(unprocessable, "invalid-request", "A field is not valid", detail).with("field", "name")
            }
            SavedError::Unknown(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown-report", "There is no such report", detail)
            }
            SavedError::Damaged { .. } => {
                Self::new(unprocessable, "damaged-report", "The report cannot be read", detail)
            }
            SavedError::Io { .. } => Problem::internal(&detail),
        }
    }
}

fn storage_full(title: &'static str, detail: String) -> Problem {
    Problem::new(StatusCode::INSUFFICIENT_STORAGE, "storage-full", title, detail)
}

pub(super) async fn no_such_route(uri: Uri) -> Problem {
    let detail = format!("{} is not a route; see README.md for the list", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "no-such-route", "There is no such route", detail)
}

pub(super) async fn wrong_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        "The route takes another method",
        "what is run is POSTed, snapshots and verifiers are PUT, arms and verifiers PATCHed, all three DELETEd, and everything is fetched with GET",
    )
}

pub(super) fn panicked(_: Box<dyn Any + Send>) -> Response {
    Problem::internal("a handler panicked").into_response()
}
