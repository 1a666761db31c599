//! Audit probes: tasks that, by a coin of their own, are run on every arm that could have been taken.
//!
//! Records of numbers alone: what an arm answered in a probe is judged and thrown away.

use serde::{Deserialize, Serialize};

use super::{ArmId, DecisionId, Domain, Mode};

/// Whether a decision is to be probed: drawn after it, from random numbers of its own, so that neither what was taken nor
/// what it brings has a part in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Coin {
    /// The probability with which it was to be, in (0, 1].
    pub probability: f64,
    /// How the coin fell.
    pub chosen: bool,
}

/// A probe that begins: what it may cost is put aside, and counts as spent if nobody tells how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The decision whose task is run on the other arms.
    pub decision_id: DecisionId,
    /// The task's domain.
    pub domain: Domain,
    /// The probability with which it was chosen.
    pub probability: f64,
    /// Billionths of a dollar put aside.
    pub held_nano_usd: u64,
}

/// How a probe ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Audited {
    /// The decision.
    pub decision_id: DecisionId,
    /// The task's domain.
    pub domain: Domain,
    /// The probability with which it was chosen.
    pub probability: f64,
    /// How.
    pub end: ProbeEnd,
    /// Every arm that could have been taken; empty where none was run.
    pub arms: Vec<ProbedArm>,
    /// Billionths of a dollar that it cost, the arm taken not counted: the round paid for that.
    pub nano_usd: u64,
}

/// How a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeEnd {
    /// Every arm has a reward.
    Measured,
    /// An arm has none: each says why.
    Incomplete,
    /// The daemon stopped first.
    CutOff,
    /// Not begun: the day's dollars did not suffice.
    OverCap,
    /// Not begun: too many were under way.
    Busy,
}

impl ProbeEnd {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Incomplete => "incomplete",
            Self::CutOff => "cut_off",
            Self::OverCap => "over_cap",
            Self::Busy => "busy",
        }
    }
}

/// One arm in a probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProbedArm {
    /// How it was run.
    #[serde(default = "single", skip_serializing_if = "is_single")]
    pub mode: Mode,
    /// The arm.
    pub arm: ArmId,
    /// The probability with which the decision would have taken it.
    pub p: f64,
    /// Dollars of its call.
    pub cost_usd: f64,
    /// What it brought, or why that is not known.
    #[serde(flatten)]
    pub found: Found,
}

/// The only mode there was before probes named it.
fn single() -> Mode {
    Mode::Single
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_single(mode: &Mode) -> bool {
    *mode == Mode::Single
}

/// What an arm brought in a probe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ProbeFound)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// By the same verifiers and weights as the arm taken; no answer scores 0, as in the loop.
    Judged {
        /// The score, in [0, 1].
        score: f64,
        /// e1 * score + e2 * cost.
        reward: f64,
    },
    /// Nothing that is known.
    Missing(Missing),
}

/// Why an arm of a probe has no reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ProbeMissing)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// It did not answer within the probe's time.
    Late,
    /// No verifier could say anything.
    Unscored,
    /// It would not take the request, which says nothing of the arm.
    Refused,
    /// It is not among the arms any more.
    Gone,
    /// The daemon stopped.
    CutOff,
}

impl Missing {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Unscored => "unscored",
            Self::Refused => "refused",
            Self::Gone => "gone",
            Self::CutOff => "cut off",
        }
    }
}

impl ProbedArm {
    /// Its reward, where that is known.
    pub fn reward(&self) -> Option<f64> {
        match self.found {
            Found::Judged { reward, .. } => Some(reward),
            Found::Missing(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As they stand in journals: they must be read for ever.
    #[test]
    fn records_of_journals_are_read() {
        let text = r#"{"decision_id":"01a22869-e42f-762b-be2a-a6d010da5efe","domain":"math","probability":0.01,"end":"incomplete","arms":[{"arm":"a","p":0.75,"cost_usd":0.5,"judged":{"score":1.0,"reward":0.95}},{"arm":"b","p":0.25,"cost_usd":0.0,"missing":"late"}],"nano_usd":250}"#;
        let audited: Audited = serde_json::from_str(text).unwrap();
        assert_eq!(audited.arms.iter().map(ProbedArm::reward).collect::<Vec<_>>(), [Some(0.95), None]);
        assert_eq!(serde_json::to_string(&audited).unwrap(), text);
    }
}
