//! `/v1/arms`: the workers that can be chosen, added, changed and removed while tasks flow.

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Serialize;
use serde_json::Value;

use super::{ApiState, Problem, request::Body};
use crate::{
    round::{ArmId, ArmPatch},
    router::ArmReport,
};

#[derive(Serialize)]
pub(super) struct Arms {
    arms: Vec<ArmReport>,
}

pub(super) async fn list(State(state): State<ApiState>) -> Json<Arms> {
    Json(Arms { arms: state.router.arms() })
}

/// The body is an `[[arms]]` table of the configuration, as JSON.
pub(super) async fn add(
    State(state): State<ApiState>,
    Body(table): Body<Value>,
) -> Result<(StatusCode, Json<ArmReport>), Problem> {
    Ok((StatusCode::CREATED, Json(state.router.add_arm(table).await?)))
}

pub(super) async fn patch(
    State(state): State<ApiState>,
    Path(arm): Path<String>,
    Body(patch): Body<ArmPatch>,
) -> Result<Json<ArmReport>, Problem> {
    Ok(Json(state.router.patch_arm(&ArmId::new(arm)?, patch).await?))
}

pub(super) async fn remove(State(state): State<ApiState>, Path(arm): Path<String>) -> Result<StatusCode, Problem> {
    state.router.remove_arm(&ArmId::new(arm)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
