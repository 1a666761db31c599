//! The decisions that this process runs now, and feedback that comes for them before their outcome.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, PoisonError},
};

use crate::round::{DecisionId, Feedback, RewardWeights};

/// Decisions being run.
#[derive(Default)]
pub(super) struct Running {
    // Guards the feedback that came for each; none once its outcome is on its way into the journal.
    map: Mutex<HashMap<DecisionId, Option<Vec<Feedback>>>>,
}

/// Where feedback comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before the outcome.
    Early,
    /// While the outcome is written.
    Closing,
    /// The decision is not being run here.
    Away,
}

/// A decision being run; no longer when dropped.
pub(super) struct Run<'a> {
    of: &'a Running,
    id: DecisionId,
}

impl Running {
    /// None when it is being run already. `early` is what came before a crash.
    pub fn enter(&self, id: DecisionId, early: Vec<Feedback>) -> Option<Run<'_>> {
        match self.map.lock().unwrap_or_else(PoisonError::into_inner).entry(id) {
            Entry::Occupied(_) => None,
            Entry::Vacant(place) => {
                place.insert(Some(early));
                Some(Run { of: self, id })
            }
        }
    }

    pub fn phase(&self, id: DecisionId) -> Phase {
        match self.map.lock().unwrap_or_else(PoisonError::into_inner).get(&id) {
            Some(Some(_)) => Phase::Early,
            Some(None) => Phase::Closing,
            None => Phase::Away,
        }
    }

    /// Keeps feedback that is in the journal for the outcome. False when it is too late for that.
    pub fn keep(&self, feedback: &Feedback) -> bool {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        match map.get_mut(&feedback.decision_id) {
            Some(Some(early)) => {
                early.push(feedback.clone());
                true
            }
            Some(None) | None => false,
        }
    }
}

impl Run<'_> {
    /// The feedback that came; later feedback waits until the outcome is written.
    pub fn close(&self) -> Vec<Feedback> {
        let mut map = self.of.map.lock().unwrap_or_else(PoisonError::into_inner);
        map.get_mut(&self.id).and_then(Option::take).unwrap_or_default()
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.of.map.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// Early feedback with the outcome's cost.
pub(super) fn joined(early: Feedback, weights: RewardWeights, cost_usd: f64) -> Feedback {
    let reward = early.score.map(|score| weights.reward(score.get(), cost_usd));
    // Its key is on the early record; this one exists once for its decision and source.
    Feedback { reward, cost_usd, idempotency_key: None, ..early }
}
