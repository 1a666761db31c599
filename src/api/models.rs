//! `GET /v1/models`: what a chat's `model` may be.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    ApiState,
    chat::AUTO,
    openapi::problems::{problems, shared},
};

/// The models that may be asked for, in OpenAI's form, whose fields Anthropic's clients find too.
#[derive(Serialize, ToSchema)]
pub(super) struct Models {
    object: &'static str,
    first_id: Option<String>,
    last_id: Option<String>,
    has_more: bool,
    data: Vec<Model>,
}

/// A model that may be asked for: `auto`, `auto:DOMAIN` or an arm.
#[derive(Serialize, ToSchema)]
pub(super) struct Model {
    id: String,
    object: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    display_name: String,
    created: u64,
    created_at: &'static str,
    owned_by: &'static str,
}

problems!(ModelsProblems: shared::CLIENT);

/// The models that may be asked for, for clients of both protocols.
#[utoipa::path(
    get,
    path = "/v1/models",
    operation_id = "list_models",
    tag = "chat",
    responses((status = 200, description = "`auto`, `auto:DOMAIN` of each domain, and the arms", body = Models), ModelsProblems)
)]
pub(super) async fn list(State(state): State<ApiState>) -> Json<Models> {
    let auto = std::iter::once(AUTO.to_owned());
    let domains = state.router.domains().into_iter().map(|domain| format!("{AUTO}:{domain}"));
    let arms = state.router.arm_ids().into_iter().map(|arm| arm.to_string());
    let model = |id: String| Model {
        display_name: id.clone(),
        id,
        object: "model",
        kind: "model",
        created: 0,
        created_at: "1970-01-01T00:00:00Z",
        owned_by: "pointsman",
    };
    let data: Vec<_> = auto.chain(domains).chain(arms).map(model).collect();
    let id = |model: &Model| model.id.clone();
    let (first_id, last_id) = (data.first().map(id), data.last().map(id));
    Json(Models { object: "list", first_id, last_id, has_more: false, data })
}
