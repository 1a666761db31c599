//! `/v1/webhooks`: how each webhook is doing, and a message to try one.

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Serialize;

use super::{ApiState, Problem};
use crate::webhooks::{TestReport, WebhookError, WebhookReport};

#[derive(Serialize)]
pub(super) struct Listed {
    webhooks: Vec<WebhookReport>,
}

pub(super) async fn list(State(state): State<ApiState>) -> Json<Listed> {
    Json(Listed { webhooks: state.webhooks.list() })
}

/// Always 200 where there is such a webhook: whether its receiver took the message is what the answer says.
pub(super) async fn test(State(state): State<ApiState>, Path(name): Path<String>) -> Result<Json<TestReport>, Problem> {
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
