//! Feedback from clients that run the model themselves, at once or days later.

use std::{sync::Arc, time::Duration};

use super::{
    Router, RouterError,
    running::{Phase, joined},
};
use crate::{
    access::{Scope, nano_usd},
    journal::{Appended, Decided, Event, NewEvent, Stored, now_ms},
    round::{
        Call, CallStatus, DecisionId, Feedback, FeedbackSource, IdempotencyKey, Invalid, Kept, Outcome, OutcomeStatus,
        Score,
    },
};

/// How often to look whether an outcome is written.
const POLL: Duration = Duration::from_millis(2);

/// What a client says of a decision: a score of its own, or the answer for the verifiers to score.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientFeedback {
    /// The decision judged.
    pub decision_id: DecisionId,
    /// Who gave the score: the client itself, a model that it asked, or its user's thumb.
    pub source: ClientSource,
    /// The score.
    pub score: Option<f64>,
    /// The answer, to be verified here.
    pub output: Option<String>,
    /// Dollars spent; the expected cost when absent.
    pub cost_usd: Option<f64>,
    /// How long the worker took, in milliseconds.
    pub latency_ms: Option<f64>,
    /// Under which this feedback is stored once; without one a source judges a decision once.
    pub idempotency_key: Option<IdempotencyKey>,
}

/// Who gave a score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientSource {
    /// The client, which checked the answer.
    #[default]
    Client,
    /// A model asked to judge it.
    Judge,
    /// A user who liked it or not.
    Thumbs,
}

impl ClientSource {
    fn source(self) -> FeedbackSource {
        match self {
            Self::Client => FeedbackSource::Client,
            Self::Judge => FeedbackSource::Judge,
            Self::Thumbs => FeedbackSource::Thumbs,
        }
    }
}

/// What became of feedback.
#[derive(Debug, Clone, PartialEq)]
pub struct Acknowledged {
    /// What became of it.
    pub status: AcknowledgedAs,
    /// Whether the policies learn from it: a decision is learnt from once.
    pub learnt: bool,
    /// What was stored, or would have been.
    pub feedback: Feedback,
}

/// What became of feedback; all of it is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AcknowledgedAs {
    /// It is stored.
    Stored,
    /// It is stored, and will be joined to the outcome of the task that is still running.
    Early,
    /// It was there before: nothing changed.
    Duplicate,
}

impl Router {
    /// Takes feedback from somebody who may see some tenant's decisions; it is durable when this returns. Idempotent by
    /// (decision, source).
    pub async fn feedback(self: &Arc<Self>, said: ClientFeedback, scope: &Scope) -> Result<Acknowledged, RouterError> {
        let bad = |field, problem: &str| RouterError::Invalid(Invalid::new(field, problem));
        if said.cost_usd.is_some_and(|cost| !(0.0..=1e6).contains(&cost)) {
            return Err(bad("cost_usd", "must be a number from 0 to 1000000"));
        }
        if said.latency_ms.is_some_and(|ms| !(0.0..=1e9).contains(&ms)) {
            return Err(bad("latency_ms", "must be a number from 0 to 1000000000"));
        }
        let decided = self.journal.decided(said.decision_id).await?;
        let decided = decided.filter(|decided| scope.sees(decided.task.tenant.as_ref()));
        let decided = Arc::new(decided.ok_or(RouterError::UnknownDecision(said.decision_id))?);
        if let Some(key) = &said.idempotency_key
            && let Some(known) = self.journal.feedback_by_key(decided.task.tenant.as_ref(), key).await?
        {
            return repeated(key, known, &said);
        }
        if said.output.is_some() && !decided.observed.kept.is_whole() {
            return Err(RouterError::NotKept {
                id: said.decision_id,
                what: "prompt",
                instead: "send a score of your own",
            });
        }
        let phase = self.running.phase(said.decision_id);
        let cost_usd = said.cost_usd.unwrap_or_else(|| decided.expected_cost_usd());
        // Others than the client do not know what its call cost, unless they say so.
        let tells_cost = said.source == ClientSource::Client || said.cost_usd.is_some();
        let spent = tells_cost.then(|| self.spent(&decided, nano_usd(cost_usd))).flatten();
        let mut answer = None;
        let (events, feedback) = match (said.score, said.output) {
            (_, Some(_)) if said.source != ClientSource::Client => {
                return Err(bad("source", "must be client, or left out, when `output` is sent: verifiers judge that"));
            }
            (Some(score), None) => {
                let mut feedback = self.client_feedback(&decided, said.source, Score::new(score)?, cost_usd);
                feedback.idempotency_key = said.idempotency_key;
                if phase != Phase::Away {
                    return self.early(&decided, feedback).await;
                }
                (vec![Event::Judged { feedback: feedback.clone() }], feedback)
            }
            (None, Some(_)) if phase != Phase::Away => return Err(RouterError::StillRunning(said.decision_id)),
            (None, Some(output)) => {
                let outcome = client_outcome(&decided, output, cost_usd, said.latency_ms.unwrap_or(0.0));
                let trust = self.settings.trust.client;
                let judged = self.judge(&decided, &outcome, None).await;
                let feedback = Feedback { trust, idempotency_key: said.idempotency_key, ..judged };
                answer = Some(outcome.clone());
                (vec![Event::Ran { outcome }, Event::Judged { feedback: feedback.clone() }], feedback)
            }
            (None, None) => return Err(bad("score", "is missing; send `score`, or `output` to have it verified")),
            (Some(_), Some(_)) => {
                return Err(bad("output", "cannot come with `score`; send one of them, or two feedbacks"));
            }
        };
        let new = events.into_iter().chain(spent.clone()).map(|event| NewEvent::of(&decided, event)).collect();
        let mut appended = self.append(new).await?;
        if let Some(Event::Spent { spent }) = spent
            && let Some(Appended::Stored { .. }) = appended.pop()
        {
            self.tenants.settle_parked(&spent.tenant, spent.decision_id, spent.nano_usd, now_ms());
        }
        let last = appended.last().copied().unwrap_or(Appended::Duplicate);
        if let (Some(outcome), Appended::Stored { .. }) = (answer, last) {
            self.have_judged(&decided, &outcome);
        }
        Ok(acknowledged(last, feedback))
    }

    /// Takes feedback on a task that is still running: it is durable now and is joined to the outcome.
    async fn early(&self, decided: &Arc<Decided>, feedback: Feedback) -> Result<Acknowledged, RouterError> {
        let id = feedback.decision_id;
        let event = Event::Early { feedback: feedback.clone() };
        let appended = self.append(vec![NewEvent::of(decided, event)]).await?;
        let status = match appended.as_slice() {
            [Appended::Stored { .. }] => AcknowledgedAs::Early,
            _ => return Ok(acknowledged(Appended::Duplicate, feedback)),
        };
        if !self.running.keep(&feedback) {
            // The outcome was on its way: it is in the journal in a moment, or its round has failed and this waits for the next.
            while self.running.phase(id) == Phase::Closing {
                tokio::time::sleep(POLL).await;
            }
            if let Some(outcome) = self.explain(id).await?.outcome {
                let joined = joined(feedback, self.weights(&decided.task), outcome.cost_usd);
                let event = Event::Judged { feedback: joined.clone() };
                let appended = self.append(vec![NewEvent::of(decided, event)]).await?;
                return Ok(acknowledged(appended.first().copied().unwrap_or(Appended::Duplicate), joined));
            }
        }
        Ok(Acknowledged { status, learnt: false, feedback })
    }

    fn client_feedback(&self, decided: &Decided, source: ClientSource, score: Score, cost_usd: f64) -> Feedback {
        let trust = self.settings.trust;
        let trust = match source {
            ClientSource::Client => trust.client,
            ClientSource::Judge => trust.judge,
            ClientSource::Thumbs => trust.thumbs,
        };
        let source = source.source();
        Feedback {
            decision_id: decided.decision.id,
            source,
            score: Some(score),
            reward: Some(self.weights(&decided.task).reward(score.get(), cost_usd)),
            cost_usd,
            trust,
            idempotency_key: None,
            verdicts: vec![],
        }
    }
}

fn acknowledged(appended: Appended, feedback: Feedback) -> Acknowledged {
    match appended {
        Appended::Stored { learns, .. } => Acknowledged { status: AcknowledgedAs::Stored, learnt: learns, feedback },
        Appended::Duplicate => Acknowledged { status: AcknowledgedAs::Duplicate, learnt: false, feedback },
    }
}

/// The answer to feedback whose key was seen before: the first one's, if it said the same.
fn repeated(key: &IdempotencyKey, known: Stored, said: &ClientFeedback) -> Result<Acknowledged, RouterError> {
    let (Event::Judged { feedback } | Event::Early { feedback }) = known.event else {
        return Err(RouterError::Internal("a feedback's key names no feedback".into()));
    };
    // An answer is compared by nothing but its decision: what the verifiers said of it is what counts.
    let score = said.score.is_none_or(|score| feedback.score.is_some_and(|known| known.get() == score));
    if feedback.decision_id != said.decision_id
        || !score
        || said.score.is_some() && feedback.source != said.source.source()
    {
        return Err(RouterError::KeyReused(key.clone()));
    }
    Ok(Acknowledged { status: AcknowledgedAs::Duplicate, learnt: known.learns, feedback })
}

/// The outcome of a worker that the client called.
fn client_outcome(decided: &Decided, output: String, cost_usd: f64, latency_ms: f64) -> Outcome {
    let call = Call { cost_usd, latency_ms, ..Call::new(decided.decision.arm.clone(), CallStatus::Ok) };
    Outcome {
        decision_id: decided.decision.id,
        status: OutcomeStatus::Done,
        output,
        tool_calls: vec![],
        kept: Kept::Whole,
        calls: vec![call],
        cost_usd,
        latency_ms,
        trajectory: None,
    }
}
