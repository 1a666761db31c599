//! `POST /v1/tasks`: one task in, its outcome out. `POST /v1/route`: a decision for a caller that runs the model
//! itself.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use serde::Serialize;

use super::{
    ApiState, Caller, Problem,
    request::{Body, TaskRequest},
};
use crate::{
    round::{
        ArmId, CallStatus, DecisionId, Domain, FeedbackSource, Mode, OutcomeStatus, PolicyRef, Probability, Propensity,
        Reason, TaskId, Verdict, VerdictStatus,
    },
    router::{Decided, Round},
};

/// A task's answer.
#[derive(Debug, Serialize)]
pub(super) struct TaskAnswer {
    task_id: TaskId,
    decision_id: DecisionId,
    domain: Domain,
    mode: Mode,
    arm: ArmId,
    propensity: Propensity,
    reason: Reason,
    status: OutcomeStatus,
    output: String,
    source: FeedbackSource,
    score: Option<f64>,
    reward: Option<f64>,
    cost_usd: f64,
    latency_ms: f64,
    verdicts: Vec<ShortVerdict>,
    repeated: bool,
}

#[derive(Debug, Serialize)]
struct ShortVerdict {
    verifier: String,
    status: VerdictStatus,
    score: Option<f64>,
    weight: f64,
}

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

pub(super) async fn run(
    State(state): State<ApiState>,
    caller: Caller,
    headers: HeaderMap,
    Body(request): Body<TaskRequest>,
) -> Result<Json<TaskAnswer>, Problem> {
    let task = request.into_task(&headers, &caller)?;
    answer(state.router.run(task).await?).map(Json)
}

/// A decision to act on.
#[derive(Debug, Serialize)]
pub(super) struct RouteAnswer {
    task_id: TaskId,
    decision_id: DecisionId,
    domain: Domain,
    mode: Mode,
    arm: ArmId,
    propensity: Propensity,
    reason: Reason,
    policy: PolicyRef,
    pmf: Vec<Probability>,
}

pub(super) async fn route(
    State(state): State<ApiState>,
    caller: Caller,
    headers: HeaderMap,
    Body(request): Body<TaskRequest>,
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
