//! Single mode: one call of one worker.

use std::time::Instant;

use bytes::Bytes;
use tracing::{Instrument, Span};

use crate::{
    arms::{
        Arm, estimate_tokens,
        worker::{About, Ask, WorkerError},
    },
    chat::{self, Answer},
    round::{ArmId, Call, CallStatus, DecisionId, Feedback, Kept, Outcome, OutcomeStatus, ToolCall},
    telemetry::{call_span, record_call},
};

/// What running a decision gave, and why it gave no answer, if it did not.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// The outcome; a failure is one too: it is journaled and learnt from.
    pub outcome: Outcome,
    /// Why there is no answer.
    pub failure: Option<WorkerError>,
    /// What the verifiers said of the answer while it came about, where they were asked.
    pub judged: Option<Feedback>,
    /// The answer in the client's protocol, where the client speaks one.
    pub body: Bytes,
}

/// Calls the arm once.
pub async fn run_single(decision_id: DecisionId, ask: &Ask<'_>, arm: &Arm) -> Ran {
    let started = Instant::now();
    let span = traced(ask, arm);
    let answered = arm.worker.answer(ask).instrument(span.clone()).await;
    let latency_ms = started.elapsed().as_secs_f64() * 1e3;
    let ran = match answered {
        Ok(reply) => {
            let outcome = called(decision_id, ask, arm, &reply.said, reply.cost_usd, None, latency_ms);
            Ran { outcome, failure: None, judged: None, body: reply.body }
        }
        Err(failure) => {
            let said = Answer::default();
            let outcome = called(decision_id, ask, arm, &said, Some(0.0), Some(&failure), latency_ms);
            Ran { outcome, failure: Some(failure), judged: None, body: Bytes::new() }
        }
    };
    trace_end(&span, &ran.outcome, ran.failure.as_ref());
    ran
}

/// The same where nobody sees the answer: one that was to be streamed is read to its end.
pub async fn run_unseen(decision_id: DecisionId, ask: &Ask<'_>, arm: &Arm) -> Ran {
    if ask.chat.is_none_or(|chat| !chat.stream()) {
        return run_single(decision_id, ask, arm).await;
    }
    let started = Instant::now();
    let span = traced(ask, arm);
    let read = async {
        let mut stream = match arm.worker.stream(ask).await {
            Ok(stream) => stream,
            Err(failure) => return (Answer::default(), Some(0.0), Some(failure)),
        };
        let failure = loop {
            match stream.next().await {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(failure) => break Some(failure),
            }
        };
        (stream.said().clone(), stream.cost_usd(), failure)
    };
    let (said, cost_usd, failure) = read.instrument(span.clone()).await;
    let latency_ms = started.elapsed().as_secs_f64() * 1e3;
    let outcome = called(decision_id, ask, arm, &said, cost_usd, failure.as_ref(), latency_ms);
    trace_end(&span, &outcome, failure.as_ref());
    Ran { outcome, failure, judged: None, body: Bytes::new() }
}

/// The span of a call.
pub fn traced(ask: &Ask<'_>, arm: &Arm) -> Span {
    let About { provider, model, address } = arm.worker.about();
    call_span(provider, model, address, arm.id.as_str(), &ask.task.messages)
}

/// Says in a call's span what came of it.
pub fn trace_end(span: &Span, outcome: &Outcome, failure: Option<&WorkerError>) {
    let (mut input_tokens, mut output_tokens) = (0, 0);
    for call in &outcome.calls {
        input_tokens += call.input_tokens;
        output_tokens += call.output_tokens;
    }
    let failed = failure.map(WorkerError::name);
    record_call(span, input_tokens, output_tokens, outcome.cost_usd, &outcome.output, failed);
}

/// The outcome of a call that said something and then, maybe, failed: what was said until then was paid for.
pub fn called(
    decision_id: DecisionId,
    ask: &Ask<'_>,
    arm: &Arm,
    said: &Answer,
    cost_usd: Option<f64>,
    failure: Option<&WorkerError>,
    latency_ms: f64,
) -> Outcome {
    let sent = || ask.task.messages.iter().map(|message| message.content.len()).sum();
    let failed_at_once = failure.is_some() && *said == Answer::default();
    let (input_tokens, output_tokens) = match said.usage {
        Some(usage) => (usage.input_tokens, usage.output_tokens),
        None if failed_at_once => (0, 0),
        None => (estimate_tokens(sent()), estimate_tokens(said.text.len())),
    };
    let cost_usd = cost_usd.unwrap_or_else(|| arm.prices.cost_usd(input_tokens, output_tokens));
    let (status, call_status) = match failure {
        None => (OutcomeStatus::Done, CallStatus::Ok),
        Some(failure) => (OutcomeStatus::Failed, CallStatus::Error(failure.to_string())),
    };
    let (output, tool_calls) = match failure {
        None => (said.text.clone(), said.tool_calls.iter().map(tool_call).collect()),
        Some(_) => (String::new(), vec![]),
    };
    let call = Call { input_tokens, output_tokens, cost_usd, latency_ms, ..Call::new(arm.id.clone(), call_status) };
    let (calls, kept) = (vec![call], Kept::Whole);
    Outcome { decision_id, status, output, tool_calls, kept, calls, cost_usd, latency_ms, trajectory: None }
}

fn tool_call(call: &chat::ToolCall) -> ToolCall {
    ToolCall { id: call.id.clone(), name: call.name.clone(), arguments: call.arguments.clone() }
}

/// The outcome of a decision whose arm left before it was run.
pub fn not_run(decision_id: DecisionId, arm: &ArmId, why: &str) -> Ran {
    let calls = vec![Call::new(arm.clone(), CallStatus::Error(why.into()))];
    let outcome = Outcome {
        decision_id,
        status: OutcomeStatus::Failed,
        output: String::new(),
        tool_calls: vec![],
        kept: Kept::Whole,
        calls,
        cost_usd: 0.0,
        latency_ms: 0.0,
        trajectory: None,
    };
    Ran { outcome, failure: None, judged: None, body: Bytes::new() }
}
