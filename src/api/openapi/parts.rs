//! Headers and bodies that several routes take.

#![expect(dead_code, reason = "describes what handlers read by name, and is never made")]

use utoipa::{IntoParams, ToSchema};

use crate::round::{Domain, SessionId, TenantId};

/// A file's bytes.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
pub(in crate::api) struct File(Vec<u8>);

/// A snapshot's name, as part of a path.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length = 80)]
pub(in crate::api) struct SnapshotName(String);

/// A domain, or `*` for all that have no set of their own.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = r"^([a-z0-9._-]+|\*)$", max_length = 64)]
pub(in crate::api) struct SetName(String);

/// What makes a repeated request one.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(in crate::api) struct RepeatHeader {
    /// Makes a repeated request one task, where the body has no key of its own.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 256, pattern = "^[!-~]([ -~]*[!-~])?$")]
    idempotency_key: Option<String>,
}

/// What a chat's body cannot say.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(in crate::api) struct ChatHeaders {
    /// The chat's domain; found by likeness when absent.
    #[param(rename = "X-Pointsman-Domain")]
    domain: Option<Domain>,
    /// The conversation that it belongs to.
    #[param(rename = "X-Pointsman-Session")]
    session: Option<SessionId>,
    /// Whose it is; a client's key says so by itself.
    #[param(rename = "X-Pointsman-Tenant")]
    tenant: Option<TenantId>,
    /// The weights of score (0 to 1000) and dollars (-1000000 to 0), such as `1,-0.1`.
    #[param(rename = "X-Pointsman-Reward", pattern = r"^[^,]+,[^,]+$", example = "1,-0.1")]
    reward: Option<String>,
    /// The same as a reward of `1 - alpha,-alpha`; not beside it.
    #[param(rename = "X-Pointsman-Alpha", minimum = 0, exclusive_maximum = 1)]
    alpha: Option<f64>,
    /// Whether the answer's header of that name is to say why; an answer that is not streamed then waits for its score.
    #[param(rename = "X-Pointsman-Explain")]
    explain: Option<bool>,
    /// A repeated request gets the first one's answer, written anew in the client's protocol.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 256, pattern = "^[!-~]([ -~]*[!-~])?$")]
    idempotency_key: Option<String>,
}
