//! `/v1/policies`: which policy decides, which is on trial, and what the cards say.

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    ApiState, Problem,
    openapi::problems::{problems, shared},
    request::{Body, Object},
};
use crate::router::PoliciesReport;

/// A card, and the policy of it that is meant; the card's own when absent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WantedPolicy)]
pub(super) struct Wanted {
    /// The card's name.
    card: String,
    /// One of its policies.
    #[serde(default)]
    policy: Option<String>,
}

/// A card to put on trial; none ends the trial.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WantedShadow {
    /// The card's name.
    card: Option<String>,
    /// One of its policies.
    #[serde(default)]
    policy: Option<String>,
}

problems!(ListProblems: shared::CLIENT, shared::ADMIN);
problems!(ChangeProblems: shared::CLIENT, shared::ADMIN, shared::CHANGE, shared::BODY, &["unknown-card", "invalid-card"]);
problems!(RollBackProblems: shared::CLIENT, shared::ADMIN, shared::CHANGE, &["unknown-card", "invalid-card", "nothing-to-roll-back"]);

/// Which policy decides, which is on trial, and what the cards say.
#[utoipa::path(
    get,
    path = "/v1/policies",
    operation_id = "list_policies",
    tag = "policies",
    responses((status = 200, description = "As it is now", body = PoliciesReport), ListProblems)
)]
pub(super) async fn list(State(state): State<ApiState>) -> Json<PoliciesReport> {
    Json(state.router.policies())
}

/// Lets a card's policy decide, folded from all learnt rounds.
#[utoipa::path(
    post,
    path = "/v1/policies/promote",
    operation_id = "promote_policy",
    tag = "policies",
    request_body(content = Wanted, example = json!({"card": "default"})),
    responses((status = 200, description = "It decides; the change is durable", body = PoliciesReport), ChangeProblems)
)]
pub(super) async fn promote(
    State(state): State<ApiState>,
    Body(Object(wanted)): Body<Object<Wanted>>,
) -> Result<Json<PoliciesReport>, Problem> {
    state.router.promote(&wanted.card, wanted.policy.as_deref()).await?;
    Ok(Json(state.router.policies()))
}

/// Puts a card's policy on trial, or ends the trial.
#[utoipa::path(
    post,
    path = "/v1/policies/shadow",
    operation_id = "shadow_policy",
    tag = "policies",
    request_body(content = WantedShadow, example = json!({"card": "default", "policy": "uniform"})),
    responses((status = 200, description = "It looks on; the change is durable", body = PoliciesReport), ChangeProblems)
)]
pub(super) async fn shadow(
    State(state): State<ApiState>,
    Body(Object(wanted)): Body<Object<WantedShadow>>,
) -> Result<Json<PoliciesReport>, Problem> {
    state.router.set_shadow(wanted.card.as_deref(), wanted.policy.as_deref()).await?;
    Ok(Json(state.router.policies()))
}

/// Brings back the policy that decided before.
#[utoipa::path(
    post,
    path = "/v1/policies/rollback",
    operation_id = "roll_back_policy",
    tag = "policies",
    responses((status = 200, description = "It decides again; the change is durable", body = PoliciesReport), RollBackProblems)
)]
pub(super) async fn roll_back(State(state): State<ApiState>) -> Result<Json<PoliciesReport>, Problem> {
    state.router.roll_back().await?;
    Ok(Json(state.router.policies()))
}
