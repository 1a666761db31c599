//! `GET /v1/decisions/{id}`: why this arm, and what came of it.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    ApiState, Caller, Problem,
    openapi::problems::{problems, shared},
    request::Segments,
};
use crate::{
    round::{
        ArmId, Audited, Candidate, Coin, Constraints, Context, DecisionId, Domain, Feedback, Masked, Message, Metadata,
        Mode, Neighbour, Outcome, PolicyRef, Probability, Propensity, Proposal, Reason, Recall, RewardWeights,
        SessionId, Taken, TaskId, TenantId,
    },
    router::{Decided, Explanation},
};

/// Everything that is known of one decision.
#[derive(Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(super) struct Explained {
    task: TaskSeen,
    context: ContextSeen,
    decision: DecisionSeen,
    /// What running it gave, once it ran.
    outcome: Option<Outcome>,
    /// Every feedback so far.
    feedback: Vec<Feedback>,
    /// Feedback that came before the outcome and waits for it.
    early: Vec<Feedback>,
    /// Whether its lease ended before anybody said what became of it.
    abandoned: bool,
    /// What every arm brought, if the task was run on all of them to measure regret, or why it was not.
    audited: Option<Audited>,
}

/// The task that was decided.
#[derive(Serialize, ToSchema)]
struct TaskSeen {
    id: TaskId,
    domain: Domain,
    /// Whose it is.
    tenant: Option<TenantId>,
    /// The last user message.
    prompt: String,
    messages: Vec<Message>,
    #[schema(value_type = Object)]
    metadata: Metadata,
    constraints: Constraints,
}

/// What was known when it was decided.
#[derive(Serialize, ToSchema)]
struct ContextSeen {
    /// The model that embedded the task.
    embedding_model: String,
    /// How alike the task and its domain are, where the domain was found by that.
    domain_similarity: Option<f32>,
    recall: RecallSeen,
    /// Why recall failed.
    recall_error: Option<String>,
    /// Similar past tasks, most similar first.
    neighbours: Vec<Neighbour>,
    /// The actions that could be taken.
    candidates: Vec<Candidate>,
    /// The arms that could not be chosen.
    masked: Vec<Masked>,
    /// The decision that this one takes the place of, because its worker gave no answer.
    instead_of: Option<DecisionId>,
    /// Whether the task is run on every arm, where a coin was thrown for that.
    coin: Option<Coin>,
    /// The conversation that it belongs to.
    session: Option<SessionId>,
    /// What was taken in the session's last round.
    session_last: Option<Taken>,
    reward: RewardWeights,
    /// What a language model that routes said of it, where one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    proposal: Option<Proposal>,
}

/// How recall went.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum RecallSeen {
    /// It found similar tasks.
    Ok,
    /// It found none.
    Empty,
    /// It failed, and the loop went on without.
    Unavailable,
}

/// What was decided.
#[derive(Serialize, ToSchema)]
struct DecisionSeen {
    id: DecisionId,
    mode: Mode,
    arm: ArmId,
    propensity: Propensity,
    reason: Reason,
    policy: PolicyRef,
    /// How many learnt rounds the policy's state held.
    learnt_rounds: u64,
    /// The place in the journal up to which that state was folded.
    state_at: i64,
    /// The draw's seed as a decimal number: JavaScript reads numbers as doubles, which cannot hold 64 bits.
    #[schema(pattern = "^[0-9]+$")]
    seed: String,
    /// The probability of each action; they sum to 1.
    pmf: Vec<Probability>,
    /// What each voter of an ensemble said.
    voters: Vec<VoterSeen>,
    /// What the policy on trial would have done.
    shadow: Option<ShadowSeen>,
}

/// What one voter said.
#[derive(Serialize, ToSchema)]
struct VoterSeen {
    policy: String,
    /// Its weight in this domain; the voters' weights sum to 1.
    weight: f64,
    pmf: Vec<Share>,
}

/// What the policy on trial said.
#[derive(Serialize, ToSchema)]
struct ShadowSeen {
    policy: PolicyRef,
    pmf: Vec<Share>,
}

/// One action's probability.
#[derive(Serialize, ToSchema)]
struct Share {
    mode: Mode,
    arm: ArmId,
    #[schema(minimum = 0, maximum = 1)]
    p: f64,
}

problems!(ExplainProblems: shared::CLIENT, shared::PLACE, &["unknown-decision"]);

/// Why a decision took its arm, and what came of it.
#[utoipa::path(
    get,
    path = "/v1/decisions/{id}",
    operation_id = "explain_decision",
    tag = "insight",
    params(("id" = DecisionId, Path, description = "The decision's id")),
    responses((status = 200, description = "All that the journal keeps of it", body = Explained), ExplainProblems)
)]
pub(super) async fn explain(
    State(state): State<ApiState>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Result<Json<Explained>, Problem> {
    let explanation = state.router.explain_to(id.parse::<DecisionId>()?, &caller.scope()).await?;
    let Explanation { decided, outcome, feedback, early, abandoned, audited } = explanation;
    let decision = decision(&decided);
    let Decided { task, context, observed, .. } = decided;
    let (recall, recall_error) = match &context.recall {
        Recall::Ok if context.neighbours.is_empty() => (RecallSeen::Empty, None),
        Recall::Ok => (RecallSeen::Ok, None),
        Recall::Unavailable(reason) => (RecallSeen::Unavailable, Some(reason.clone())),
    };
    let Context { neighbours, candidates, last: session_last, weights: reward, proposal, .. } = context;
    Ok(Json(Explained {
        context: ContextSeen {
            embedding_model: observed.embedding_model,
            domain_similarity: observed.domain_similarity,
            recall,
            recall_error,
            neighbours,
            candidates,
            masked: observed.masked,
            instead_of: observed.instead_of,
            coin: observed.coin,
            session: task.session.clone(),
            session_last,
            reward,
            proposal,
        },
        task: TaskSeen {
            prompt: task.prompt().to_owned(),
            id: task.id,
            domain: task.domain,
            tenant: task.tenant,
            messages: task.messages,
            metadata: task.metadata,
            constraints: task.constraints,
        },
        decision,
        outcome,
        feedback,
        early,
        abandoned,
        audited,
    }))
}

fn decision(Decided { context, decision, .. }: &Decided) -> DecisionSeen {
    let shares = |pmf: &[f64]| -> Vec<Share> {
        let shares = context.candidates.iter().zip(pmf);
        shares.map(|(candidate, p)| Share { mode: candidate.mode, arm: candidate.arm.clone(), p: *p }).collect()
    };
    DecisionSeen {
        id: decision.id,
        mode: decision.mode,
        arm: decision.arm.clone(),
        propensity: decision.propensity,
        reason: decision.reason,
        policy: decision.policy.clone(),
        learnt_rounds: decision.learnt_rounds,
        state_at: decision.state_at,
        seed: decision.seed.to_string(),
        pmf: decision.pmf.clone(),
        voters: decision
            .voters
            .iter()
            .map(|view| VoterSeen { policy: view.policy.clone(), weight: view.weight, pmf: shares(&view.pmf) })
            .collect(),
        shadow: decision
            .shadow
            .as_ref()
            .map(|shadow| ShadowSeen { policy: shadow.policy.clone(), pmf: shares(&shadow.pmf) }),
    }
}
