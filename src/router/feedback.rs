//! Feedback from clients that run the model themselves, at once or days later.

use std::sync::Arc;

use super::{Router, RouterError};
use crate::{
    journal::{Appended, Decided, Event, NewEvent},
    round::{Call, CallStatus, DecisionId, Feedback, FeedbackSource, Invalid, Outcome, OutcomeStatus, Score},
};

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
}

/// Who gave a score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
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

/// What became of feedback.
#[derive(Debug, Clone, PartialEq)]
pub struct Acknowledged {
    /// False when the same source had judged this decision before; nothing changed then.
    pub stored: bool,
    /// Whether the policies learn from it: a decision is learnt from once.
    pub learnt: bool,
    /// What was stored, or would have been.
    pub feedback: Feedback,
}

impl Router {
    /// Takes feedback; it is durable when this returns. Idempotent by (decision, source).
    pub async fn feedback(self: &Arc<Self>, said: ClientFeedback) -> Result<Acknowledged, RouterError> {
        let bad = |field, problem: &str| RouterError::Invalid(Invalid::new(field, problem));
        if said.cost_usd.is_some_and(|cost| !(0.0..=1e6).contains(&cost)) {
            return Err(bad("cost_usd", "must be a number from 0 to 1000000"));
        }
        if said.latency_ms.is_some_and(|ms| !(0.0..=1e9).contains(&ms)) {
            return Err(bad("latency_ms", "must be a number from 0 to 1000000000"));
        }
        let decided = self.journal.decided(said.decision_id).await?;
        let decided = Arc::new(decided.ok_or(RouterError::UnknownDecision(said.decision_id))?);
        let expected = decided.context.candidates.iter().find(|candidate| candidate.arm == decided.decision.arm);
        let cost_usd = said.cost_usd.unwrap_or(expected.map_or(0.0, |candidate| candidate.cost_usd));
        let mut answer = None;
        let (events, feedback) = match (said.score, said.output) {
            (_, Some(_)) if said.source != ClientSource::Client => {
                return Err(bad("source", "must be client, or left out, when `output` is sent: verifiers judge that"));
            }
            (Some(score), None) => {
                let feedback = self.client_feedback(&decided, said.source, Score::new(score)?, cost_usd);
                (vec![Event::Judged { feedback: feedback.clone() }], feedback)
            }
            (None, Some(output)) => {
                let outcome = client_outcome(&decided, output, cost_usd, said.latency_ms.unwrap_or(0.0));
                let trust = self.settings.trust.client;
                let feedback = Feedback { trust, ..self.judge(&decided, &outcome).await };
                answer = Some(outcome.clone());
                (vec![Event::Ran { outcome }, Event::Judged { feedback: feedback.clone() }], feedback)
            }
            (None, None) => return Err(bad("score", "is missing; send `score`, or `output` to have it verified")),
            (Some(_), Some(_)) => {
                return Err(bad("output", "cannot come with `score`; send one of them, or two feedbacks"));
            }
        };
        let new = events.into_iter().map(|event| NewEvent::of(&decided, event)).collect();
        let appended = self.append(new).await?;
        let last = appended.last().copied().unwrap_or(Appended::Duplicate);
        if let (Some(outcome), Appended::Stored { .. }) = (answer, last) {
            self.have_judged(&decided, &outcome);
        }
        Ok(match last {
            Appended::Stored { learns, .. } => Acknowledged { stored: true, learnt: learns, feedback },
            Appended::Duplicate => Acknowledged { stored: false, learnt: false, feedback },
        })
    }

    fn client_feedback(&self, decided: &Decided, source: ClientSource, score: Score, cost_usd: f64) -> Feedback {
        let trust = self.settings.trust;
        let (source, trust) = match source {
            ClientSource::Client => (FeedbackSource::Client, trust.client),
            ClientSource::Judge => (FeedbackSource::Judge, trust.judge),
            ClientSource::Thumbs => (FeedbackSource::Thumbs, trust.thumbs),
        };
        Feedback {
            decision_id: decided.decision.id,
            source,
            score: Some(score),
            reward: Some(self.weights(&decided.task).reward(score.get(), cost_usd)),
            cost_usd,
            trust,
            verdicts: vec![],
        }
    }
}

/// The outcome of a worker that the client called.
fn client_outcome(decided: &Decided, output: String, cost_usd: f64, latency_ms: f64) -> Outcome {
    let call = Call {
        arm: decided.decision.arm.clone(),
        role: "worker".into(),
        status: CallStatus::Ok,
        input_tokens: 0,
        output_tokens: 0,
        cost_usd,
        latency_ms,
    };
    Outcome {
        decision_id: decided.decision.id,
        status: OutcomeStatus::Done,
        output,
        calls: vec![call],
        cost_usd,
        latency_ms,
    }
}
