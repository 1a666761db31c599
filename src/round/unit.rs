//! Bounded numbers and small enumerations.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ArmId, Invalid};

/// How a worker is run. The mode is part of the action: the joint arm is (mode, worker).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One call of one worker.
    Single,
    /// Two to four calls, one after the other, each seeing the last output.
    Multi,
    /// A small team: layers of calls side by side, with roles and references.
    Agentic,
}

impl Mode {
    /// Every mode, in the order of their tokens.
    pub const ALL: [Self; 3] = [Self::Single, Self::Multi, Self::Agentic];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Multi => "multi",
            Self::Agentic => "agentic",
        }
    }

    /// The name under which a way of running an arm has its figures: the arm's own for one call, such as `small`, else with
    /// the mode before it, such as `multi:small`. Catalogues refuse arms of such names.
    pub fn way(self, arm: &ArmId) -> ArmId {
        match self {
            Self::Single => arm.clone(),
            Self::Multi | Self::Agentic => arm.prefixed(self.as_str()),
        }
    }

    /// The mode and the arm of such a name.
    pub fn of_way(way: &str) -> (Self, &str) {
        match way.split_once(':') {
            Some(("multi", arm)) => (Self::Multi, arm),
            Some(("agentic", arm)) => (Self::Agentic, arm),
            Some(_) | None => (Self::Single, way),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A verified quality in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "f64", into = "f64")]
#[schema(value_type = f64, minimum = 0, maximum = 1)]
pub struct Score(f64);

impl Score {
    /// Refuses NaN and anything outside [0, 1].
    pub fn new(value: f64) -> Result<Self, Invalid> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(Invalid::new("score", format!("{value} must be a number from 0 to 1")))
        }
    }

    /// The number in [0, 1].
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Score {
    type Error = Invalid;
    fn try_from(value: f64) -> Result<Self, Invalid> {
        Self::new(value)
    }
}

impl From<Score> for f64 {
    fn from(score: Score) -> f64 {
        score.0
    }
}

/// The probability with which the action was drawn, in (0, 1]: the denominator of every later estimate.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "f64", into = "f64")]
#[schema(value_type = f64, exclusive_minimum = 0, maximum = 1)]
pub struct Propensity(f64);

impl Propensity {
    /// The propensity of an action that had no alternative.
    pub const CERTAIN: Self = Self(1.0);

    /// Refuses NaN, zero, negative numbers and anything above 1.
    pub fn new(value: f64) -> Result<Self, Invalid> {
        if value > 0.0 && value <= 1.0 {
            Ok(Self(value))
        } else {
            Err(Invalid::new("propensity", format!("{value} must be above 0 and at most 1")))
        }
    }

    /// The number in (0, 1].
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Propensity {
    type Error = Invalid;
    fn try_from(value: f64) -> Result<Self, Invalid> {
        Self::new(value)
    }
}

impl From<Propensity> for f64 {
    fn from(propensity: Propensity) -> f64 {
        propensity.0
    }
}

/// The weights of the reward r = e1 * score + e2 * cost_usd.
///
/// ```
/// use pointsman::round::RewardWeights;
/// let weights = RewardWeights::default();
/// assert_eq!(weights.reward(1.0, 0.5), 1.0 - 0.1 * 0.5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RewardWeights {
    /// Reward per unit of score, in [0, 1000].
    #[schema(minimum = 0, maximum = 1_000)]
    pub e1: f64,
    /// Reward per dollar, in [-1,000,000, 0]: money spent never pays by itself.
    #[schema(minimum = -1_000_000, maximum = 0)]
    pub e2: f64,
}

impl Default for RewardWeights {
    fn default() -> Self {
        Self { e1: 1.0, e2: -0.1 }
    }
}

impl RewardWeights {
    /// The reward of a score in [0, 1] got for `cost_usd` dollars.
    pub fn reward(&self, score: f64, cost_usd: f64) -> f64 {
        self.e1 * score + self.e2 * cost_usd
    }

    /// Refuses weights outside their ranges.
    pub fn validate(&self) -> Result<(), Invalid> {
        if !(0.0..=1_000.0).contains(&self.e1) {
            return Err(Invalid::new("reward.e1", "must be a number from 0 to 1000"));
        }
        if !(-1_000_000.0..=0.0).contains(&self.e2) {
            return Err(Invalid::new("reward.e2", "must be a number from -1000000 to 0"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_have_names_that_tell_mode_and_arm() {
        let arm = ArmId::new("acme/llama:70b").unwrap();
        for mode in Mode::ALL {
            assert_eq!(Mode::of_way(mode.way(&arm).as_str()), (mode, arm.as_str()));
        }
        assert_eq!(Mode::Single.way(&arm), arm);
        assert_eq!(Mode::Multi.way(&arm).as_str(), "multi:acme/llama:70b");
    }

    #[test]
    fn scores_and_propensities_refuse_what_is_out_of_range() {
        for bad in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
            assert!(Score::new(bad).is_err());
            assert!(Propensity::new(bad).is_err());
        }
        assert!(Score::new(0.0).is_ok());
        assert!(Propensity::new(0.0).is_err());
    }
}
