//! `/v1/policies`: which policy decides, which is on trial, and what the cards say.

use axum::{Json, extract::State};
use serde::Deserialize;

use super::{ApiState, Problem, request::Body};
use crate::router::PoliciesReport;

/// A card, and the policy of it that is meant; the card's own when absent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    card: String,
    #[serde(default)]
    policy: Option<String>,
}

/// A card to put on trial; none ends the trial.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WantedShadow {
    card: Option<String>,
    #[serde(default)]
    policy: Option<String>,
}

pub(super) async fn list(State(state): State<ApiState>) -> Json<PoliciesReport> {
    Json(state.router.policies())
}

pub(super) async fn promote(
    State(state): State<ApiState>,
    Body(wanted): Body<Wanted>,
) -> Result<Json<PoliciesReport>, Problem> {
    state.router.promote(&wanted.card, wanted.policy.as_deref()).await?;
    Ok(Json(state.router.policies()))
}

pub(super) async fn shadow(
    State(state): State<ApiState>,
    Body(wanted): Body<WantedShadow>,
) -> Result<Json<PoliciesReport>, Problem> {
    state.router.set_shadow(wanted.card.as_deref(), wanted.policy.as_deref()).await?;
    Ok(Json(state.router.policies()))
}

pub(super) async fn roll_back(State(state): State<ApiState>) -> Result<Json<PoliciesReport>, Problem> {
    state.router.roll_back().await?;
    Ok(Json(state.router.policies()))
}
