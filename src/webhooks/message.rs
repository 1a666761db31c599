//! Messages: what is told of an event of the journal.
//!
//! A message's id depends on its event alone, so that one that is sent again, after a restart too, can be known by it.

use serde::Serialize;

use super::{EventType, WebhookSettings};
use crate::{
    journal::{Decided, Event, Stored, export::timestamp},
    round::{
        ArmId, DecisionId, Domain, Feedback, FeedbackSource, Message as ChatMessage, Mode, Outcome, OutcomeStatus,
        Propensity, SessionId, TaskId, TenantId, ToolCall, WebhookName,
    },
};

/// A message as it is sent, and sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// Its id, without a dot: one stands after it in what is signed.
    pub id: String,
    pub body: Vec<u8>,
}

#[derive(Serialize)]
struct Envelope<'a, T> {
    r#type: &'a str,
    timestamp: String,
    data: T,
}

/// What every message of a decision says.
#[derive(Serialize)]
struct Data<'a> {
    decision_id: DecisionId,
    task_id: &'a TaskId,
    domain: &'a Domain,
    tenant: Option<&'a TenantId>,
    session: Option<&'a SessionId>,
    arm: &'a ArmId,
    mode: Mode,
    propensity: Propensity,
    #[serde(flatten)]
    said: Said<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
    Finished {
        status: Option<OutcomeStatus>,
        source: FeedbackSource,
        score: Option<f64>,
        reward: Option<f64>,
        cost_usd: f64,
        latency_ms: Option<f64>,
        #[serde(flatten, skip_serializing_if = "Option::is_none")]
        asked: Option<Asked<'a>>,
        #[serde(flatten, skip_serializing_if = "Option::is_none")]
        answered: Option<Answered<'a>>,
    },
    Given {
        source: FeedbackSource,
        score: Option<f64>,
        reward: Option<f64>,
        cost_usd: f64,
        trust: f64,
    },
    Abandoned {},
}

#[derive(Serialize)]
struct Asked<'a> {
    messages: &'a [ChatMessage],
}

#[derive(Serialize)]
struct Answered<'a> {
    output: &'a str,
    #[serde(skip_serializing_if = "<[ToolCall]>::is_empty")]
    tool_calls: &'a [ToolCall],
}

/// What the journal knows of a decision by the time of an event.
pub(super) struct Story {
    pub decided: Decided,
    pub outcome: Option<Outcome>,
}

/// The feedback that finishes a decision's task, by its place: what was found of an answer here, or, where the client ran the
/// model itself and sent no answer, the client's own word.
pub(super) fn finishes_at(events: &[Stored]) -> Option<i64> {
    let mut ran = false;
    for Stored { seq, event, .. } in events {
        match event {
            Event::Ran { .. } => ran = true,
            Event::Judged { feedback } => match feedback.source {
                FeedbackSource::Verifier | FeedbackSource::Failure => return Some(*seq),
                FeedbackSource::Client if !ran => return Some(*seq),
                FeedbackSource::Client | FeedbackSource::Judge | FeedbackSource::Thumbs => {}
            },
            Event::Decided { .. }
            | Event::Early { .. }
            | Event::Abandoned { .. }
            | Event::Spent { .. }
            | Event::Probed { .. }
            | Event::Audited { .. }
            | Event::MemoryRestored { .. }
            | Event::SnapshotChanged { .. }
            | Event::PolicyChanged { .. }
            | Event::VerifierChanged { .. }
            | Event::ArmChanged { .. }
            | Event::KeyChanged { .. }
            | Event::Erased { .. }
            | Event::Compacted { .. } => {}
        }
    }
    None
}

/// What may be told of an event, as far as the event itself tells.
pub(super) fn may_tell(event: &Event) -> &'static [EventType] {
    match event {
        Event::Judged { feedback } => match feedback.source {
            FeedbackSource::Verifier | FeedbackSource::Failure => &[EventType::TaskFinished],
            FeedbackSource::Client => &[EventType::TaskFinished, EventType::FeedbackGiven],
            FeedbackSource::Judge | FeedbackSource::Thumbs => &[EventType::FeedbackGiven],
        },
        Event::Abandoned { .. } => &[EventType::DecisionAbandoned],
        Event::Decided { .. }
        | Event::Ran { .. }
        | Event::Early { .. }
        | Event::Spent { .. }
        | Event::Probed { .. }
        | Event::Audited { .. }
        | Event::MemoryRestored { .. }
        | Event::SnapshotChanged { .. }
        | Event::PolicyChanged { .. }
        | Event::VerifierChanged { .. }
        | Event::ArmChanged { .. }
        | Event::KeyChanged { .. }
        | Event::Erased { .. }
        | Event::Compacted { .. } => &[],
    }
}

/// The message about an event. Nothing where the event is not of that type.
pub(super) fn message(kind: EventType, stored: &Stored, story: &Story, settings: &WebhookSettings) -> Option<Message> {
    let Decided { task, decision, .. } = &story.decided;
    let id = decision.id.to_string().replace('-', "");
    let (id, said) = match (kind, &stored.event) {
        (EventType::TaskFinished, Event::Judged { feedback }) => {
            (format!("msg_{id}_finished"), finished(feedback, story, settings.texts))
        }
        (EventType::FeedbackGiven, Event::Judged { feedback }) => {
            // One decision may get several; each has a place of its own.
            (format!("msg_{id}_feedback_{}", stored.seq), given(feedback))
        }
        (EventType::DecisionAbandoned, Event::Abandoned { .. }) => (format!("msg_{id}_abandoned"), Said::Abandoned {}),
        (EventType::TaskFinished | EventType::DecisionAbandoned | EventType::FeedbackGiven, _) => return None,
    };
    let data = Data {
        decision_id: decision.id,
        task_id: &task.id,
        domain: &task.domain,
        tenant: task.tenant.as_ref(),
        session: task.session.as_ref(),
        arm: &decision.arm,
        mode: decision.mode,
        propensity: decision.propensity,
        said,
    };
    Some(Message { id, body: written(kind.as_str(), stored.at_ms, data) })
}

/// A message that says nothing but that messages arrive.
pub(super) fn test_message(id: &str, at_ms: i64, webhook: &WebhookName) -> Message {
    #[derive(Serialize)]
    struct Test<'a> {
        webhook: &'a WebhookName,
    }
    Message { id: format!("msg_test_{id}"), body: written("webhook.test", at_ms, Test { webhook }) }
}

fn written(kind: &str, at_ms: i64, data: impl Serialize) -> Vec<u8> {
    let envelope = Envelope { r#type: kind, timestamp: timestamp(at_ms), data };
    // Names, texts and finite numbers: JSON holds them all.
    serde_json::to_vec(&envelope).unwrap_or_default()
}

fn finished<'a>(feedback: &Feedback, story: &'a Story, texts: bool) -> Said<'a> {
    let Story { decided, outcome } = story;
    let asked = texts && decided.observed.kept.is_whole();
    let answered = outcome.as_ref().filter(|outcome| texts && outcome.kept.is_whole());
    Said::Finished {
        status: outcome.as_ref().map(|outcome| outcome.status),
        source: feedback.source,
        score: feedback.score.map(f64::from),
        reward: feedback.reward,
        cost_usd: feedback.cost_usd,
        latency_ms: outcome.as_ref().map(|outcome| outcome.latency_ms),
        asked: asked.then_some(Asked { messages: &decided.task.messages }),
        answered: answered.map(|kept| Answered { output: &kept.output, tool_calls: &kept.tool_calls }),
    }
}

fn given(feedback: &Feedback) -> Said<'static> {
    Said::Given {
        source: feedback.source,
        score: feedback.score.map(f64::from),
        reward: feedback.reward,
        cost_usd: feedback.cost_usd,
        trust: feedback.trust,
    }
}

#[cfg(test)]
mod tests;
