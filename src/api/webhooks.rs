//! `/v1/webhooks`: how each webhook is doing, and a message to try one.

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    ApiState, Problem,
    openapi::problems::{problems, shared},
    request::Segments,
};
use crate::webhooks::{TestReport, WebhookError, WebhookReport};

/// All webhooks.
#[derive(Serialize, ToSchema)]
#[schema(as = Webhooks)]
pub(super) struct Listed {
    /// In the configuration's order.
    webhooks: Vec<WebhookReport>,
}

problems!(ListProblems: shared::CLIENT, shared::ADMIN);
problems!(TestProblems: shared::CLIENT, shared::ADMIN, &["admin-key-needed"], shared::PLACE, &["unknown-webhook"]);

/// How each webhook is doing.
#[utoipa::path(
    get,
    path = "/v1/webhooks",
    operation_id = "list_webhooks",
    tag = "webhooks",
    responses((status = 200, description = "Those of the configuration", body = Listed), ListProblems)
)]
pub(super) async fn list(State(state): State<ApiState>) -> Json<Listed> {
    Json(Listed { webhooks: state.webhooks.list() })
}

/// Sends a webhook a signed message of type `webhook.test`, now and once.
#[utoipa::path(
    post,
    path = "/v1/webhooks/{name}/test",
    operation_id = "test_webhook",
    tag = "webhooks",
    params(("name" = String, Path, description = "The webhook's name")),
    responses((status = 200, description = "Whether its receiver took it, and what that said", body = TestReport), TestProblems)
)]
pub(super) async fn test(
    State(state): State<ApiState>,
    Segments(name): Segments<String>,
) -> Result<Json<TestReport>, Problem> {
    Ok(Json(state.webhooks.test(&name).await?))
}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        let detail = error.to_string();
        match error {
            WebhookError::Unknown { .. } => {
                Self::new(StatusCode::NOT_FOUND, "unknown-webhook", "There is no such webhook", detail)
            }
            WebhookError::Router(error) => error.into(),
            WebhookError::Place { .. } | WebhookError::Folder { .. } | WebhookError::Client(_) => {
                Self::internal(&detail)
            }
        }
    }
}
