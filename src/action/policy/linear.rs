//! The linear model of scores that LinUCB, LinTS, SquareCB and the bag share: features, and a ridge regression per action.

use serde_json::{Value, json};

use super::{
    Action, Estimates, LearntRound, StateError,
    features::{FeatureSettings, Features},
    ridge::Ridges,
};
use crate::round::Context;

/// y_a = g + theta_a . x_a, shrunk toward the prior mean g rather than 0.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    prior_mean: f64,
    features: Features,
    ridges: Ridges,
}

impl Linear {
    pub(super) fn new(features: FeatureSettings, l2: f64, prior_mean: f64) -> Self {
        let features = Features::new(features);
        Self { prior_mean, ridges: Ridges::new(features.dimensions(), l2), features }
    }

    /// Every candidate's mean, and `width` times its standard width sqrt(x^T A^-1 x).
    pub(super) fn estimates(&self, context: &Context, width: f64) -> Estimates {
        let mut x = self.features.shared(context);
        Estimates::of(context, |candidate| {
            self.features.complete(&mut x, context, candidate);
            let (mean, deviation) = self.ridges.estimate(&(candidate.mode, candidate.arm.clone()), x.view());
            (self.prior_mean + mean, width * deviation)
        })
    }

    pub(super) fn learn(&mut self, round: &LearntRound<'_>) {
        if let Some((score, trust)) = round.lesson() {
            self.add(round, score, trust);
        }
    }

    /// Adds a round with a weight of its own, above 0.
    pub(super) fn add(&mut self, round: &LearntRound<'_>, score: f64, weight: f64) {
        let Some(place) = round.place() else { return };
        self.features.learn(&round.context.domain);
        let mut x = self.features.shared(round.context);
        self.features.complete(&mut x, round.context, &round.context.candidates[place]);
        self.ridges.learn(round.action(), x.view(), score - self.prior_mean, weight);
    }

    pub(super) fn forget(&mut self, keep: f64) {
        self.ridges.forget(keep);
    }

    pub(super) fn state(&self) -> Value {
        json!({"domains": self.features.state(), "ridges": self.ridges.state()})
    }

    pub(super) fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError> {
        let poisoned = self.ridges.restore(&state["ridges"])?;
        self.features.restore(&state["domains"])?;
        Ok(poisoned)
    }
}
