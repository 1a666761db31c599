//! Finished rounds, broadcast to whoever watches. A watcher that is too slow is told how many it missed; the loop
//! never waits for it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Serialize;
use tokio::sync::broadcast;

use crate::round::{ArmId, DecisionId, Domain, Mode, OutcomeStatus, Propensity, Reason, TaskId};

/// How many events a slow watcher may lag behind.
const LAG_MAX: usize = 1_024;
/// How many events are kept for watchers that come later.
const RECENT: usize = 30;

/// One finished round, as shown live.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct RoundEvent {
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

/// The broadcast, with the newest events kept for watchers that come later.
#[derive(Clone)]
pub struct Events {
    live: broadcast::Sender<RoundEvent>,
    // Guards the newest events: the learner adds one, a new watcher copies them.
    recent: Arc<Mutex<VecDeque<RoundEvent>>>,
}

impl Default for Events {
    fn default() -> Self {
        Self { live: broadcast::channel(LAG_MAX).0, recent: Arc::default() }
    }
}

impl Events {
    /// Tells all watchers.
    pub fn send(&self, event: RoundEvent) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(event.clone());
        // Sent under the lock, so that a new watcher gets each event once; without watchers it is only kept.
        let _ = self.live.send(event);
    }

    /// The newest events, oldest first, and all that come after them.
    pub fn watch(&self) -> (Vec<RoundEvent>, broadcast::Receiver<RoundEvent>) {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        (recent.iter().cloned().collect(), self.live.subscribe())
    }
}
