//! `POST /v1/feedback`: what an answer was worth, from the caller that ran the model; `/v1/feedback/batch`: of many answers.

use axum::{Json, extract::State};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    ApiState, Caller, Problem,
    openapi::problems::{problems, shared},
    request::{Body, Object, parse},
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

/// What an answer was worth: a `score`, or the `output` to be verified here.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FeedbackRequest {
    /// The decision judged.
    #[schema(value_type = DecisionId)]
    decision_id: String,
    /// Who judges.
    #[serde(default)]
    source: ClientSource,
    /// Its worth; or send `output`.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    score: Option<f64>,
    /// The answer, to be verified here; only from the source `client`.
    #[serde(default)]
    output: Option<String>,
    /// Dollars spent; the expected cost when absent.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_000_000)]
    cost_usd: Option<f64>,
    /// How long the worker took, in milliseconds.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_000_000_000)]
    latency_ms: Option<f64>,
    /// Makes a repeat safe.
    #[serde(default)]
    idempotency_key: Option<IdempotencyKey>,
}

/// What became of feedback.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FeedbackAnswer {
    /// What became of it.
    status: AcknowledgedAs,
    /// Whether the policies learn from it: a decision is learnt from once, by each channel.
    learnt: bool,
    #[serde(flatten)]
    feedback: Feedback,
}

problems!(GiveProblems: shared::CLIENT, shared::BODY, shared::DURABLE,
    &["unknown-decision", "idempotency-key-reused", "still-running", "text-not-kept", "overloaded"]);
problems!(BatchProblems: shared::CLIENT, shared::BODY);

/// Takes what an answer was worth, at once or days later; the same again changes nothing.
#[utoipa::path(
    post,
    path = "/v1/feedback",
    operation_id = "give_feedback",
    tag = "tasks",
    request_body(content = FeedbackRequest, example = json!({"decision_id": "0193b3c0-0000-7000-8000-000000000000", "score": 0.75})),
    responses((status = 200, description = "What became of it; it is durable", body = FeedbackAnswer), GiveProblems)
)]
pub(super) async fn give(
    State(state): State<ApiState>,
    caller: Caller,
    Body(Object(request)): Body<Object<FeedbackRequest>>,
) -> Result<Json<FeedbackAnswer>, Problem> {
    one(&state, &caller.scope(), request).await.map(Json)
}

/// At most 1,000 of them. An item may be anything: what is no `FeedbackRequest` is answered with a problem.
#[derive(ToSchema)]
#[schema(max_items = 1_000)]
#[expect(dead_code, reason = "describes the list, whose items are read one by one")]
struct BatchRequest(Vec<serde_json::Value>);

/// What became of one of many.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BatchItem {
    /// It was taken.
    Answer(FeedbackAnswer),
    /// It was not.
    Problem(Problem),
}

/// Takes a list of feedback, each by itself: one that is wrong answers with its problem in its place, and the others count.
#[utoipa::path(
    post,
    path = "/v1/feedback/batch",
    operation_id = "give_feedback_batch",
    tag = "tasks",
    request_body(
        content = inline(BatchRequest),
        example = json!([{"decision_id": "0193b3c0-0000-7000-8000-000000000000", "score": 1.0}])
    ),
    responses((status = 200, description = "What became of each, in the same order", body = Vec<BatchItem>), BatchProblems)
)]
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
            let answered = async { one(&state, &scope, parse::<Object<_>>(request.get().as_bytes())?.0).await };
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
