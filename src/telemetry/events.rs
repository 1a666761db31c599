//! Finished rounds, broadcast to whoever watches. A watcher that is too slow is told how many it missed; the loop
//! never waits for it.

use serde::Serialize;
use tokio::sync::broadcast;

use crate::round::{ArmId, DecisionId, Domain, Mode, OutcomeStatus, Propensity, Reason, TaskId};

/// How many events a slow watcher may lag behind.
const LAG_MAX: usize = 8_192;

/// One finished round, as shown live.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct RoundEvent {
    /// The place in the journal of what was said of it: grows from event to event.
    pub seq: i64,
    /// Verified rounds so far.
    pub round: u64,
    /// When it finished, in milliseconds since 1970.
    pub at_ms: i64,
    /// Its decision.
    pub decision_id: DecisionId,
    /// Its task.
    pub task_id: TaskId,
    /// The task's domain.
    pub domain: Domain,
    /// How the worker was run.
    pub mode: Mode,
    /// The worker.
    pub arm: ArmId,
    /// The probability with which it was drawn.
    pub propensity: Propensity,
    /// Why.
    pub reason: Reason,
    /// Whether there was an answer.
    pub status: OutcomeStatus,
    /// The score, when a verifier applied.
    pub score: Option<f64>,
    /// The reward, with the score.
    pub reward: Option<f64>,
    /// Dollars spent.
    pub cost_usd: f64,
    /// From decision to answer, in milliseconds.
    pub latency_ms: f64,
    /// The start of the prompt.
    pub prompt_head: String,
}

/// The broadcast.
#[derive(Clone)]
pub struct Events(broadcast::Sender<RoundEvent>);

impl Default for Events {
    fn default() -> Self {
        Self(broadcast::channel(LAG_MAX).0)
    }
}

impl Events {
    /// Whether anybody watches.
    pub fn are_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Tells all watchers.
    pub fn send(&self, event: RoundEvent) {
        // Without watchers it is told to nobody.
        let _ = self.0.send(event);
    }

    /// All events from now on.
    pub fn watch(&self) -> broadcast::Receiver<RoundEvent> {
        self.0.subscribe()
    }
}
