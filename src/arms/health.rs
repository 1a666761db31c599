//! Health: an arm that fails several times in a row rests for a while, so that tasks go to the others.
//!
//! After its rest one failure is enough for the next one, and one success makes it healthy again. Who is healthy is read
//! by every decision and changes seldom, so readers take no lock.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;

use super::worker::WorkerError;
use crate::round::ArmId;

/// Failures in a row after which an arm rests.
const FAILURES_MAX: u32 = 5;
/// How long it rests.
const REST_MS: i64 = 30_000;
/// The longest rest that a worker is given because it asks for it.
const REST_ASKED_MS_MAX: i64 = 600_000;

/// The arms that failed of late.
#[derive(Default)]
pub struct Health(ArcSwap<BTreeMap<ArmId, Failing>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failing {
    in_a_row: u32,
    rests_until_ms: i64,
}

impl Health {
    /// Notes how a call ended. A request that the worker refused says nothing of the worker; one that asks to be left alone is.
    pub fn note(&self, arm: &ArmId, failure: Option<&WorkerError>, now_ms: i64) {
        let succeeded = failure.is_none();
        let blameless = failure.is_some_and(|failure| !failure.blames_worker());
        if blameless || (succeeded && !self.0.load().contains_key(arm)) {
            return;
        }
        let asked_ms = failure.and_then(WorkerError::retry_after_ms).and_then(|ms| i64::try_from(ms).ok());
        self.0.rcu(|failing| {
            let mut failing = BTreeMap::clone(failing);
            if succeeded {
                failing.remove(arm);
            } else {
                let state = failing.entry(arm.clone()).or_insert(Failing { in_a_row: 0, rests_until_ms: 0 });
                state.in_a_row = state.in_a_row.saturating_add(1);
                if state.in_a_row >= FAILURES_MAX {
                    state.rests_until_ms = now_ms + REST_MS;
                }
                if let Some(asked_ms) = asked_ms {
                    state.rests_until_ms = state.rests_until_ms.max(now_ms + asked_ms.min(REST_ASKED_MS_MAX));
                }
            }
            Arc::new(failing)
        });
    }

    /// Whether an arm rests now.
    pub fn rests(&self, arm: &ArmId, now_ms: i64) -> bool {
        self.0.load().get(arm).is_some_and(|state| now_ms < state.rests_until_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_failures_in_a_row_earn_a_rest_and_one_success_ends_it() {
        let (health, arm) = (Health::default(), ArmId::new("a").unwrap());
        let failed = Some(&WorkerError::TimedOut(1));
        for failure in 0..4 {
            health.note(&arm, failed, failure);
        }
        health.note(&arm, None, 4);
        for failure in 5..9 {
            health.note(&arm, failed, failure);
            assert!(!health.rests(&arm, failure));
        }
        health.note(&arm, failed, 9);
        assert!(health.rests(&arm, 10) && health.rests(&arm, 9 + REST_MS - 1) && !health.rests(&arm, 9 + REST_MS));
        health.note(&arm, failed, 50_000);
        assert!(health.rests(&arm, 50_001));
        health.note(&arm, None, 90_000);
        health.note(&arm, failed, 90_001);
        assert!(!health.rests(&arm, 90_002));
        assert!(!health.rests(&ArmId::new("b").unwrap(), 10));
    }

    #[test]
    fn a_worker_that_asks_to_be_left_alone_is_and_a_refused_request_is_not_its_fault() {
        let (health, arm) = (Health::default(), ArmId::new("a").unwrap());
        let body = String::new;
        for _ in 0..9 {
            health.note(&arm, Some(&WorkerError::Refused { status: 400, body: body() }), 0);
        }
        assert!(!health.rests(&arm, 0));
        let overloaded = |ms| WorkerError::Overloaded { status: 429, body: body(), retry_after_ms: Some(ms) };
        health.note(&arm, Some(&overloaded(2_000)), 0);
        assert!(health.rests(&arm, 1_999) && !health.rests(&arm, 2_000));
        health.note(&arm, Some(&overloaded(u64::MAX / 2)), 10_000);
        assert!(health.rests(&arm, 10_001) && !health.rests(&arm, 10_000 + REST_ASKED_MS_MAX), "but not for ever");
    }
}
