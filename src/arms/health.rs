//! Health: an arm that fails several times in a row rests for a while, so that tasks go to the others.
//!
//! After its rest one failure is enough for the next one, and one success makes it healthy again. Who is healthy is read
//! by every decision and changes seldom, so readers take no lock.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;

use crate::round::ArmId;

/// Failures in a row after which an arm rests.
const FAILURES_MAX: u32 = 5;
/// How long it rests.
const REST_MS: i64 = 30_000;

/// The arms that failed of late.
#[derive(Default)]
pub struct Health(ArcSwap<BTreeMap<ArmId, Failing>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failing {
    in_a_row: u32,
    rests_until_ms: i64,
}

impl Health {
    /// Notes how a call ended.
    pub fn note(&self, arm: &ArmId, succeeded: bool, now_ms: i64) {
        if succeeded && !self.0.load().contains_key(arm) {
            return;
        }
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
        for failure in 0..4 {
            health.note(&arm, false, failure);
        }
        health.note(&arm, true, 4);
        for failure in 5..9 {
            health.note(&arm, false, failure);
            assert!(!health.rests(&arm, failure));
        }
        health.note(&arm, false, 9);
        assert!(health.rests(&arm, 10) && health.rests(&arm, 9 + REST_MS - 1) && !health.rests(&arm, 9 + REST_MS));
        health.note(&arm, false, 50_000);
        assert!(health.rests(&arm, 50_001));
        health.note(&arm, true, 90_000);
        health.note(&arm, false, 90_001);
        assert!(!health.rests(&arm, 90_002));
        assert!(!health.rests(&ArmId::new("b").unwrap(), 10));
    }
}
