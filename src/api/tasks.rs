//! `POST /v1/tasks`: one task in, its outcome out. `POST /v1/route`: a decision for a caller that runs the model
//! itself.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    ApiState, Caller, Problem,
    openapi::{
        parts::RepeatHeader,
        problems::{problems, shared},
    },
    request::{Body, Object, TaskRequest},
};
use crate::{
    round::{
        ArmId, CallStatus, DecisionId, Domain, FeedbackSource, Mode, OutcomeStatus, PolicyRef, Probability, Propensity,
        Reason, TaskId, Verdict, VerdictStatus,
    },
    router::{Decided, Round},
};

/// A task's answer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TaskAnswer {
    /// The client's name for the task, or the generated one.
    task_id: TaskId,
    /// For `GET /v1/decisions/{id}` and `POST /v1/feedback`.
    decision_id: DecisionId,
    /// The task's domain, given or found.
    domain: Domain,
    /// How the worker was run.
    mode: Mode,
    /// The worker.
    arm: ArmId,
    /// The probability with which it was drawn.
    propensity: Propensity,
    /// Why it was taken.
    reason: Reason,
    /// Whether there is an answer.
    status: OutcomeStatus,
    /// The worker's answer.
    output: String,
    /// Who judged it.
    source: FeedbackSource,
    /// In [0, 1]; absent when no verifier applied.
    #[schema(minimum = 0, maximum = 1)]
    score: Option<f64>,
    /// e1 * score + e2 * cost_usd; absent with the score.
    reward: Option<f64>,
    /// Dollars spent.
    #[schema(minimum = 0)]
    cost_usd: f64,
    /// From the decision to the answer, in milliseconds.
    #[schema(minimum = 0)]
    latency_ms: f64,
    /// Each verifier's part in the score.
    verdicts: Vec<ShortVerdict>,
    /// Whether this answer was stored before, under the request's idempotency key.
    repeated: bool,
}

/// One verifier's part in a score; `GET /v1/decisions/{id}` says more.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShortVerdict {
    /// The verifier.
    verifier: String,
    /// How the verification ended.
    status: VerdictStatus,
    /// In [0, 1]; absent when it left no opinion.
    #[schema(minimum = 0, maximum = 1)]
    score: Option<f64>,
    /// Its weight in the domain.
    weight: f64,
}

problems!(RunProblems: shared::CLIENT, shared::BODY, shared::TASK, shared::DURABLE, &["worker-failed"]);
problems!(RouteProblems: shared::CLIENT, shared::BODY, shared::TASK, shared::DURABLE);

/// The answer, or the problem of a worker that gave none.
pub(super) fn answer(round: Round) -> Result<TaskAnswer, Problem> {
    let Round { decided, outcome, feedback, repeated } = round;
    let Decided { task, decision, .. } = &*decided;
    if outcome.status == OutcomeStatus::Failed {
        let why = outcome.calls.iter().rev().find_map(|call| match &call.status {
            CallStatus::Error(why) => Some(why.as_str()),
            CallStatus::Ok => None,
        });
        let detail = format!("arm {} gave no answer: {}", decision.arm, why.unwrap_or("no reason was given"));
        return Err(Problem::new(StatusCode::BAD_GATEWAY, "worker-failed", "The worker gave no answer", detail)
            .with("task_id", task.id.as_str())
            .with("decision_id", decision.id.to_string())
            .with("arm", decision.arm.as_str()));
    }
    let short = |verdict: Verdict| ShortVerdict {
        verifier: verdict.verifier,
        status: verdict.status,
        score: verdict.score,
        weight: verdict.weight,
    };
    Ok(TaskAnswer {
        task_id: task.id.clone(),
        decision_id: decision.id,
        domain: task.domain.clone(),
        mode: decision.mode,
        arm: decision.arm.clone(),
        propensity: decision.propensity,
        reason: decision.reason,
        status: outcome.status,
        output: outcome.output,
        source: feedback.source,
        score: feedback.score.map(f64::from),
        reward: feedback.reward,
        cost_usd: outcome.cost_usd,
        latency_ms: outcome.latency_ms,
        verdicts: feedback.verdicts.into_iter().map(short).collect(),
        repeated,
    })
}

/// Runs one task: decides which arm answers it, has the answer verified, and learns from that.
#[utoipa::path(
    post,
    path = "/v1/tasks",
    operation_id = "run_task",
    tag = "tasks",
    params(RepeatHeader),
    request_body(
        content = TaskRequest,
        example = json!({"prompt": "What is 19 plus 23?", "metadata": {"reference": 42, "answer": "number"}})
    ),
    responses((status = 200, description = "The verified outcome, which is durable", body = TaskAnswer), RunProblems)
)]
pub(super) async fn run(
    State(state): State<ApiState>,
    caller: Caller,
    headers: HeaderMap,
    Body(Object(request)): Body<Object<TaskRequest>>,
) -> Result<Json<TaskAnswer>, Problem> {
    let task = request.into_task(&headers, &caller)?;
    answer(state.router.run(task).await?).map(Json)
}

/// A decision to act on.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RouteAnswer {
    /// The client's name for the task, or the generated one.
    task_id: TaskId,
    /// For `POST /v1/feedback`.
    decision_id: DecisionId,
    /// The task's domain, given or found.
    domain: Domain,
    /// How the worker is to be run.
    mode: Mode,
    /// The worker.
    arm: ArmId,
    /// The probability with which it was drawn.
    propensity: Propensity,
    /// Why it was taken.
    reason: Reason,
    /// The policy that decided.
    policy: PolicyRef,
    /// The probability of each action; they sum to 1.
    pmf: Vec<Probability>,
}

/// Decides a task for a caller that runs the model itself, and says later by `POST /v1/feedback` what became of it.
#[utoipa::path(
    post,
    path = "/v1/route",
    operation_id = "route_task",
    tag = "tasks",
    params(RepeatHeader),
    request_body(content = TaskRequest, example = json!({"prompt": "What is 19 plus 23?"})),
    responses((status = 200, description = "The decision, which is durable", body = RouteAnswer), RouteProblems)
)]
pub(super) async fn route(
    State(state): State<ApiState>,
    caller: Caller,
    headers: HeaderMap,
    Body(Object(request)): Body<Object<TaskRequest>>,
) -> Result<Json<RouteAnswer>, Problem> {
    let task = request.into_task(&headers, &caller)?;
    let Decided { task, decision, .. } = state.router.route(task).await?;
    Ok(Json(RouteAnswer {
        task_id: task.id,
        decision_id: decision.id,
        domain: task.domain,
        mode: decision.mode,
        arm: decision.arm,
        propensity: decision.propensity,
        reason: decision.reason,
        policy: decision.policy,
        pmf: decision.pmf,
    }))
}
