//! What an evaluation found: one JSON object whose keys later versions add to and never rename.

use serde::Serialize;

use super::{Estimate, Miscalibrated, Refusal, Unusable};
use crate::round::DecisionId;

/// What one policy would have brought.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OffPolicyReport {
    /// The policy as it was asked for.
    pub policy: String,
    /// Verified rounds evaluated.
    pub rounds: u64,
    /// Weak feedback that taught.
    pub weak: u64,
    /// Times that money was charged without a score.
    pub unscored: u64,
    /// What was left out.
    pub refused: Refused,
    /// Why the whole log says nothing of other policies: the estimates are empty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unusable: Option<Unusable>,
    /// Arms that were not taken as often as was stated.
    pub miscalibrated: Vec<Miscalibrated>,
    /// How often an interval may ever miss.
    pub alpha: f64,
    /// The mean probability that the policy gives to what could not have been taken: of that nothing is known.
    pub unsupported: f64,
    /// The mean reward of the policy that acted.
    pub logged: Estimate,
    /// By rejection sampling.
    pub rejection: Estimate,
    /// By inverse propensity scoring.
    pub ips: Estimate,
    /// The same, self-normalised.
    pub snips: Estimate,
    /// Doubly robust.
    pub dr: Estimate,
    /// Wall seconds.
    pub seconds: f64,
}

/// Rounds that could not be used.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Refused {
    /// How many.
    pub rounds: u64,
    /// Those of them that have no usable propensity or distribution.
    pub without_propensity: u64,
    /// The first of them, and why.
    pub first: Vec<(DecisionId, Refusal)>,
}

impl Refused {
    pub(super) fn add(&mut self, decision: DecisionId, why: Refusal, named_max: usize) {
        self.rounds += 1;
        self.without_propensity += u64::from(why.is_of_propensity());
        if self.first.len() < named_max {
            self.first.push((decision, why));
        }
    }
}
