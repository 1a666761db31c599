//! `POST /v1/feedback`: what an answer was worth, from the caller that ran the model.

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};

use super::{ApiState, Caller, Problem, request::Body};
use crate::{
    round::{DecisionId, Feedback, IdempotencyKey},
    router::{AcknowledgedAs, ClientFeedback, ClientSource},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FeedbackRequest {
    decision_id: String,
    #[serde(default)]
    source: ClientSource,
    #[serde(default)]
    score: Option<f64>,
    #[serde(default)]
    output: Option<String>,
    #[serde(default)]
    cost_usd: Option<f64>,
    #[serde(default)]
    latency_ms: Option<f64>,
    #[serde(default)]
    idempotency_key: Option<IdempotencyKey>,
}

#[derive(Debug, Serialize)]
pub(super) struct FeedbackAnswer {
    status: AcknowledgedAs,
    learnt: bool,
    #[serde(flatten)]
    feedback: Feedback,
}

pub(super) async fn give(
    State(state): State<ApiState>,
    caller: Caller,
    Body(request): Body<FeedbackRequest>,
) -> Result<Json<FeedbackAnswer>, Problem> {
    let said = ClientFeedback {
        decision_id: request.decision_id.parse::<DecisionId>()?,
        source: request.source,
        score: request.score,
        output: request.output,
        cost_usd: request.cost_usd,
        latency_ms: request.latency_ms,
        idempotency_key: request.idempotency_key,
    };
    let acknowledged = state.router.feedback(said, &caller.scope()).await?;
    Ok(Json(FeedbackAnswer {
        status: acknowledged.status,
        learnt: acknowledged.learnt,
        feedback: acknowledged.feedback,
    }))
}
