//! `GET /v1/decisions/{id}`: why this arm, and what came of it.

use axum::{
    Json,
    extract::{Path, State},
};
use serde_json::{Value, json};

use super::{ApiState, Caller, Problem};
use crate::{
    round::{DecisionId, Recall, VoterView},
    router::{Decided, Explanation},
};

pub(super) async fn explain(
    State(state): State<ApiState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let Explanation { decided, outcome, feedback, early, abandoned } =
        state.router.explain_to(id.parse::<DecisionId>()?, &caller.scope()).await?;
    let Decided { task, context, observed, decision } = decided;
    let (recall, recall_error) = match &context.recall {
        Recall::Ok if context.neighbours.is_empty() => ("empty", None),
        Recall::Ok => ("ok", None),
        Recall::Unavailable(reason) => ("unavailable", Some(reason.clone())),
    };
    let shares = |pmf: &[f64]| -> Vec<Value> {
        let shares = context.candidates.iter().zip(pmf);
        shares.map(|(candidate, p)| json!({"mode": candidate.mode, "arm": candidate.arm, "p": p})).collect()
    };
    let voter = |view: &VoterView| json!({"policy": view.policy, "weight": view.weight, "pmf": shares(&view.pmf)});
    Ok(Json(json!({
        "task": {
            "id": task.id,
            "domain": task.domain,
            "tenant": task.tenant,
            "prompt": task.prompt(),
            "messages": task.messages,
            "metadata": task.metadata,
            "constraints": task.constraints,
        },
        "context": {
            "embedding_model": observed.embedding_model,
            "domain_similarity": observed.domain_similarity,
            "recall": recall,
            "recall_error": recall_error,
            "neighbours": context.neighbours,
            "candidates": context.candidates,
            "masked": observed.masked,
            "instead_of": observed.instead_of,
            "session": task.session,
            "session_last": context.last,
            "reward": context.weights,
        },
        "decision": {
            "id": decision.id,
            "mode": decision.mode,
            "arm": decision.arm,
            "propensity": decision.propensity,
            "reason": decision.reason,
            "policy": decision.policy,
            "learnt_rounds": decision.learnt_rounds,
            "state_at": decision.state_at,
            // JavaScript reads numbers as doubles, which cannot hold 64 bits.
            "seed": decision.seed.to_string(),
            "pmf": decision.pmf,
            "voters": decision.voters.iter().map(voter).collect::<Vec<_>>(),
            "shadow": decision.shadow.as_ref().map(|shadow| json!({"policy": shadow.policy, "pmf": shares(&shadow.pmf)})),
        },
        "outcome": outcome,
        "feedback": feedback,
        "early": early,
        "abandoned": abandoned,
    })))
}
