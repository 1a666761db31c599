//! `POST /v1/feedback`: what an answer was worth, from the caller that ran the model; `/v1/feedback/batch`: of many answers.

use axum::{Json, extract::State};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    ApiState, Caller, Problem,
    request::{Body, parse},
};
use crate::{
    access::Scope,
    round::{DecisionId, Feedback, IdempotencyKey, Invalid},
    router::{AcknowledgedAs, ClientFeedback, ClientSource},
};

/// The most feedback in one request.
const BATCH_MAX: usize = 1_000;
/// So many of them share the journal's groups.
const AT_ONCE: usize = 64;

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
    one(&state, &caller.scope(), request).await.map(Json)
}

/// What became of one of many.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BatchItem {
    Answer(FeedbackAnswer),
    Problem(Problem),
}

/// Each is taken by itself: one that is wrong answers with its problem in its place, and the others count.
pub(super) async fn give_many(
    State(state): State<ApiState>,
    caller: Caller,
    Body(requests): Body<Vec<Box<RawValue>>>,
) -> Result<Json<Vec<BatchItem>>, Problem> {
    if requests.len() > BATCH_MAX {
        let problem = format!("holds {} items; at most {BATCH_MAX} are taken at a time", requests.len());
        return Err(Invalid::new("(body)", problem).into());
    }
    let scope = caller.scope();
    let answers = stream::iter(requests).map(|request| {
        let (state, scope) = (state.clone(), scope.clone());
        async move {
            let answered = async { one(&state, &scope, parse(request.get().as_bytes())?).await };
            answered.await.map_or_else(BatchItem::Problem, BatchItem::Answer)
        }
    });
    Ok(Json(answers.buffered(AT_ONCE).collect().await))
}

async fn one(state: &ApiState, scope: &Scope, request: FeedbackRequest) -> Result<FeedbackAnswer, Problem> {
    let said = ClientFeedback {
        decision_id: request.decision_id.parse::<DecisionId>()?,
        source: request.source,
        score: request.score,
        output: request.output,
        cost_usd: request.cost_usd,
        latency_ms: request.latency_ms,
        idempotency_key: request.idempotency_key,
    };
    let acknowledged = state.router.feedback(said, scope).await?;
    Ok(FeedbackAnswer { status: acknowledged.status, learnt: acknowledged.learnt, feedback: acknowledged.feedback })
}
