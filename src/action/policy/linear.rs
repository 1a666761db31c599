//! The linear model of scores that LinUCB, LinTS and SquareCB share: features, and a ridge regression per action.

use serde_json::{Value, json};

use super::{
    Action, Estimates, LearntRound, StateError, action_of,
    features::{FeatureSettings, Features},
    ridge::Ridges,
    state::read,
};
use crate::round::Context;

/// y_a = g + theta_a . x_a, shrunk toward the prior mean g rather than 0.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    prior_mean: f64,
    features: Features,
    ridges: Ridges,
    rounds: u64,
}

impl Linear {
    pub(super) fn new(features: FeatureSettings, l2: f64, prior_mean: f64) -> Self {
        let features = Features::new(features);
        Self { prior_mean, ridges: Ridges::new(features.dimensions(), l2), rounds: 0, features }
    }

    /// Every candidate's mean, and `width` times its standard width sqrt(x^T A^-1 x); a width of 0 is free.
    pub(super) fn estimates(&self, context: &Context, width: f64) -> Estimates {
        let mut x = self.features.shared(context);
        Estimates::of(context, |candidate| {
            self.features.complete(&mut x, context, candidate);
            let action = action_of(candidate);
            if width == 0.0 {
                // Almost all of the work is for the width.
                return (self.prior_mean + self.ridges.mean(&action, x.view()), 0.0);
            }
            let (mean, deviation) = self.ridges.estimate(&action, x.view());
            (self.prior_mean + mean, width * deviation)
        })
    }

    pub(super) fn learn(&mut self, round: &LearntRound<'_>) {
        let Some((score, trust)) = round.lesson() else { return };
        let Some(x) = self.features.learnt(round) else { return };
        self.ridges.learn(round.action(), x.view(), score - self.prior_mean, trust);
        self.rounds += 1;
    }

    /// How many rounds were learnt.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds
    }

    pub(super) fn forget(&mut self, keep: f64) {
        self.ridges.forget(keep);
    }

    pub(super) fn state(&self) -> Value {
        json!({"rounds": self.rounds, "domains": self.features.state(), "ridges": self.ridges.state()})
    }

    /// An error changes nothing.
    pub(super) fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError> {
        let mut features = self.features.clone();
        features.restore(&state["domains"])?;
        let rounds = read(&state["rounds"])?;
        let poisoned = self.ridges.restore(&state["ridges"])?;
        (self.features, self.rounds) = (features, rounds);
        Ok(poisoned)
    }
}
