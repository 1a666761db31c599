//! Single mode: one call of one worker.

use std::time::Instant;

use crate::{
    arms::{Arm, estimate_tokens, worker::WorkerError},
    round::{ArmId, Call, CallStatus, DecisionId, Kept, Outcome, OutcomeStatus, Task},
};

/// What running a decision gave, and why it gave no answer, if it did not.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// The outcome; a failure is one too: it is journaled and learnt from.
    pub outcome: Outcome,
    /// Why there is no answer.
    pub failure: Option<WorkerError>,
}

/// Calls the arm once.
pub async fn run_single(decision_id: DecisionId, task: &Task, arm: &Arm) -> Ran {
    let started = Instant::now();
    let answered = arm.worker.answer(task).await;
    let latency_ms = started.elapsed().as_secs_f64() * 1e3;
    let sent: usize = task.messages.iter().map(|message| message.content.len()).sum();
    let failure = answered.as_ref().err().cloned();
    let (status, call_status, output, input_tokens, output_tokens, cost_usd) = match answered {
        Ok(answer) => {
            let input_tokens = answer.input_tokens.unwrap_or_else(|| estimate_tokens(sent));
            let output_tokens = answer.output_tokens.unwrap_or_else(|| estimate_tokens(answer.text.len()));
            let cost_usd = answer.cost_usd.unwrap_or_else(|| arm.prices.cost_usd(input_tokens, output_tokens));
            (OutcomeStatus::Done, CallStatus::Ok, answer.text, input_tokens, output_tokens, cost_usd)
        }
        Err(error) => (OutcomeStatus::Failed, CallStatus::Error(error.to_string()), String::new(), 0, 0, 0.0),
    };
    let call = Call {
        arm: arm.id.clone(),
        role: "worker".into(),
        status: call_status,
        input_tokens,
        output_tokens,
        cost_usd,
        latency_ms,
    };
    let outcome = Outcome { decision_id, status, output, kept: Kept::Whole, calls: vec![call], cost_usd, latency_ms };
    Ran { outcome, failure }
}

/// The outcome of a decision whose arm left before it was run.
pub fn not_run(decision_id: DecisionId, arm: &ArmId, why: &str) -> Ran {
    let status = CallStatus::Error(why.into());
    let call = Call {
        arm: arm.clone(),
        role: "worker".into(),
        status,
        input_tokens: 0,
        output_tokens: 0,
        cost_usd: 0.0,
        latency_ms: 0.0,
    };
    let calls = vec![call];
    let outcome = Outcome {
        decision_id,
        status: OutcomeStatus::Failed,
        output: String::new(),
        kept: Kept::Whole,
        calls,
        cost_usd: 0.0,
        latency_ms: 0.0,
    };
    Ran { outcome, failure: None }
}
