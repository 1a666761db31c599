//! What a call of each arm mostly is like: tokens written, time and dollars, the newest calls counting most.
//!
//! Not learnt from the journal: it begins anew with the process, and what was known is journaled with each decision that it had
//! a part in.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use crate::round::{ArmFeatures, ArmId, Call, CallStatus};

/// How much a call counts against those before it: about the last thirty count.
const NEWEST: f64 = 0.06;

/// What calls are like, by arm.
#[derive(Debug, Default)]
pub struct Habits {
    // Guards the means of logarithms: tokens, milliseconds, dollars.
    known: Mutex<BTreeMap<ArmId, [Option<f64>; 3]>>,
}

impl Habits {
    /// Takes note of a call that answered.
    pub fn note(&self, call: &Call) {
        if call.status != CallStatus::Ok {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let means = known.entry(call.arm.clone()).or_default();
        for (mean, value) in means.iter_mut().zip([call.output_tokens as f64, call.latency_ms, call.cost_usd]) {
            if value > 0.0 {
                *mean = Some(mean.map_or(value.ln(), |mean| mean + NEWEST * (value.ln() - mean)));
            }
        }
    }

    /// Writes what is known of an arm into its features; 0 where nothing is.
    pub fn tell(&self, arm: &ArmId, features: &mut ArmFeatures) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let [tokens, latency, cost] =
            known.get(arm).copied().unwrap_or_default().map(|mean| mean.map_or(0.0, f64::exp) as f32);
        (features.output_tokens, features.latency_ms, features.cost_usd) = (tokens, latency, cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_follow_the_calls_and_failures_tell_nothing() {
        let (habits, arm) = (Habits::default(), ArmId::new("a").unwrap());
        let call = |tokens, status| Call { output_tokens: tokens, cost_usd: 0.5, ..Call::new(arm.clone(), status) };
        let told = |habits: &Habits| {
            let mut features = ArmFeatures::default();
            habits.tell(&arm, &mut features);
            features
        };
        assert_eq!(told(&habits), ArmFeatures::default());
        habits.note(&call(100, CallStatus::Ok));
        habits.note(&call(9_000, CallStatus::Error("down".into())));
        assert!((told(&habits).output_tokens - 100.0).abs() < 1e-3 && told(&habits).latency_ms == 0.0);
        (0..200).for_each(|_| habits.note(&call(400, CallStatus::Ok)));
        assert!((told(&habits).output_tokens - 400.0).abs() < 1.0 && (told(&habits).cost_usd - 0.5).abs() < 1e-6);
    }
}
