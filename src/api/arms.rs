//! `/v1/arms`: the workers that can be chosen, added, changed and removed while tasks flow.

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    ApiState, Problem,
    openapi::problems::{problems, shared},
    request::{Body, Object, Segments},
};
use crate::{
    round::{ArmId, ArmPatch, Capability, Domain},
    router::ArmReport,
};

/// All arms.
#[derive(Serialize, ToSchema)]
pub(super) struct Arms {
    /// In listing order.
    arms: Vec<ArmReport>,
}

/// An `[[arms]]` table of the configuration; docs/configuration.md says more. Which keys there must be depends on the kind.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "mini", "kind": "openai", "base_url": "http://127.0.0.1:8000/v1", "model": "qwen3"}))]
#[expect(dead_code, reason = "describes what the configuration reads")]
pub(super) struct NewArm {
    /// Its name.
    id: ArmId,
    /// `openai` and `anthropic` are workers behind HTTP, `scripted` and `replay` are for trials.
    #[schema(pattern = "^(openai|anthropic|scripted|replay)$")]
    kind: String,
    /// Dollars per million tokens read.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_000_000)]
    input_usd_per_1m: f64,
    /// Dollars per million tokens written.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_000_000)]
    output_usd_per_1m: f64,
    /// What it can do that tasks may ask for.
    #[serde(default)]
    capabilities: Vec<Capability>,
    /// Whether it may be chosen.
    #[serde(default)]
    enabled: bool,
    /// Where the worker is, such as `https://api.example.com/v1`; needed by `openai` and `anthropic`.
    base_url: Option<String>,
    /// The model's name there; needed by all but `scripted`.
    model: Option<String>,
    /// The variable of the daemon's environment that holds the worker's key.
    api_key_env: Option<String>,
    /// How long until an answer begins.
    #[schema(minimum = 1, maximum = 3_600_000)]
    timeout_ms: Option<u64>,
    /// How long an answer may stop.
    #[schema(minimum = 1, maximum = 3_600_000)]
    idle_timeout_ms: Option<u64>,
    /// How often a call is tried again.
    #[schema(minimum = 0, maximum = 10)]
    retries: Option<u32>,
    /// Calls at one time.
    #[schema(minimum = 1, maximum = 10_000)]
    concurrency: Option<u32>,
    /// An address through which the worker is called.
    proxy: Option<String>,
    /// The probability of a right answer by domain, of `scripted`.
    skill: Option<std::collections::BTreeMap<Domain, f64>>,
    /// The same elsewhere; needed by `scripted`.
    #[schema(minimum = 0, maximum = 1)]
    default_skill: Option<f64>,
    /// The probability by domain that it thinks anew when it is asked once more, of `scripted`.
    again: Option<std::collections::BTreeMap<Domain, f64>>,
    /// The probability of a right answer by domain after a plan, of `scripted`.
    planned: Option<std::collections::BTreeMap<Domain, f64>>,
    /// How long an answer takes, of `scripted`.
    latency_ms: Option<u64>,
    /// The folder of recorded outcomes, of `replay`.
    dataset: Option<String>,
}

problems!(ListProblems: shared::CLIENT, shared::ADMIN);
problems!(AddProblems: shared::CLIENT, shared::ADMIN, shared::CHANGE, shared::BODY, &["invalid-arm", "arm-exists"]);
problems!(PatchProblems: shared::CLIENT, shared::ADMIN, shared::CHANGE, shared::BODY, &["invalid-path", "unknown-arm"]);
problems!(RemoveProblems: shared::CLIENT, shared::ADMIN, shared::CHANGE, shared::PLACE, &["unknown-arm", "last-arm"]);

/// All arms, and what was learnt of each.
#[utoipa::path(
    get,
    path = "/v1/arms",
    operation_id = "list_arms",
    tag = "arms",
    responses((status = 200, description = "In listing order", body = Arms), ListProblems)
)]
pub(super) async fn list(State(state): State<ApiState>) -> Json<Arms> {
    Json(Arms { arms: state.router.arms() })
}

/// Adds an arm while tasks flow; the body is an `[[arms]]` table of the configuration, as JSON.
#[utoipa::path(
    post,
    path = "/v1/arms",
    operation_id = "add_arm",
    tag = "arms",
    request_body = NewArm,
    responses((status = 201, description = "The arm may be chosen; the change is durable", body = ArmReport), AddProblems)
)]
pub(super) async fn add(
    State(state): State<ApiState>,
    Body(Object(table)): Body<Object<Value>>,
) -> Result<(StatusCode, Json<ArmReport>), Problem> {
    Ok((StatusCode::CREATED, Json(state.router.add_arm(table).await?)))
}

/// Switches an arm on or off, or changes its prices or capabilities, while tasks flow.
#[utoipa::path(
    patch,
    path = "/v1/arms/{*arm}",
    operation_id = "change_arm",
    tag = "arms",
    params(("arm" = ArmId, Path, description = "The arm's name; percent-encode a slash")),
    request_body(content = ArmPatch, example = json!({"enabled": false})),
    responses((status = 200, description = "The arm as it is now; the change is durable", body = ArmReport), PatchProblems)
)]
pub(super) async fn patch(
    State(state): State<ApiState>,
    Segments(arm): Segments<String>,
    Body(Object(patch)): Body<Object<ArmPatch>>,
) -> Result<Json<ArmReport>, Problem> {
    Ok(Json(state.router.patch_arm(&ArmId::new(arm)?, patch).await?))
}

/// Removes an arm while tasks flow; what was learnt of it stays, in case that it comes back.
#[utoipa::path(
    delete,
    path = "/v1/arms/{*arm}",
    operation_id = "remove_arm",
    tag = "arms",
    params(("arm" = ArmId, Path, description = "The arm's name; percent-encode a slash")),
    responses((status = 204, description = "It is gone; the change is durable"), RemoveProblems)
)]
pub(super) async fn remove(
    State(state): State<ApiState>,
    Segments(arm): Segments<String>,
) -> Result<StatusCode, Problem> {
    state.router.remove_arm(&ArmId::new(arm)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
