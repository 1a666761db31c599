//! One entry of the log, and what makes it usable.

use std::fmt;

use serde::Serialize;

use crate::{
    action::{policy::LearntRound, sample::SUM_TOLERANCE},
    round::{ArmId, Context, Decision, DecisionId},
};

/// What the journal holds of one decision, as policies learn from it.
#[derive(Debug, Clone)]
pub enum Logged<'a> {
    /// A verified score: evaluated, then learnt.
    Verified {
        /// The decision.
        decision: &'a Decision,
        /// What is learnt.
        round: LearntRound<'a>,
    },
    /// Somebody liked the answer, or not: learnt only.
    Weak {
        /// The decision.
        decision: &'a Decision,
        /// What is learnt.
        round: LearntRound<'a>,
    },
    /// Money was spent and nobody could say what for.
    Unscored {
        /// The decision.
        decision: &'a Decision,
        /// The context as it was seen.
        context: &'a Context,
        /// Dollars.
        cost_usd: f64,
    },
}

/// Why a round is left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The propensity is no probability above 0.
    Propensity(f64),
    /// The distribution is not one probability for each candidate.
    Pmf(String),
    /// What was taken is not in the distribution.
    NotInPmf(ArmId),
    /// The distribution gives what was taken another probability than the propensity.
    Disagree {
        /// The propensity.
        propensity: f64,
        /// What the distribution says.
        pmf: f64,
    },
    /// The score or the reward is no number in its range.
    Reward {
        /// The score.
        score: f64,
        /// The reward.
        reward: f64,
    },
}

impl Refusal {
    /// Whether nobody can say with what probability the arm was drawn.
    pub(super) fn is_of_propensity(&self) -> bool {
        match self {
            Self::Propensity(_) | Self::Pmf(_) | Self::NotInPmf(_) | Self::Disagree { .. } => true,
            Self::Reward { .. } => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Propensity(propensity) => write!(f, "its propensity is {propensity}, not above 0 and at most 1"),
            Self::Pmf(problem) => write!(f, "its distribution {problem}"),
            Self::NotInPmf(arm) => write!(f, "the arm taken, {arm}, is not in its distribution"),
            Self::Disagree { propensity, pmf } => {
                write!(f, "its propensity is {propensity}, but its distribution gives what was taken {pmf}")
            }
            Self::Reward { score, reward } => write!(f, "its score is {score} and its reward {reward}"),
        }
    }
}

/// Why a whole log says nothing of policies other than the one that acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unusable {
    /// No round has a usable propensity.
    NoPropensities,
    /// Every action was taken with probability 1, though there were others.
    Deterministic,
    /// There was never more than one action to take.
    NoChoice,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPropensities => {
                "no round states with what probability its arm was drawn, so rounds cannot be weighed: log the propensity \
                 of each decision and the distribution that it was drawn from"
            }
            Self::Deterministic => {
                "every round took its arm with probability 1 though others were eligible: a deterministic policy's log \
                 says nothing of the other arms. Draw from a distribution that gives each arm something (every policy of \
                 this router does), log it, and come back when there are rounds of it"
            }
            Self::NoChoice => {
                "in every round a single arm was eligible, so all policies would have done the same: there is nothing \
                 to estimate"
            }
        })
    }
}

/// A round that can be used.
pub(super) struct Checked<'a> {
    pub decision: DecisionId,
    pub context: &'a Context,
    pub seed: u64,
    /// The place among the candidates of what was taken.
    pub taken: usize,
    pub propensity: f64,
    /// The logged policy's distribution, in candidate order.
    pub pmf: Vec<f64>,
}

impl<'a> Logged<'a> {
    /// The decision that it is about.
    pub fn decision(&self) -> &'a Decision {
        match self {
            Self::Verified { decision, .. } | Self::Weak { decision, .. } | Self::Unscored { decision, .. } => decision,
        }
    }

    /// The context as it was seen.
    pub fn context(&self) -> &'a Context {
        match self {
            Self::Verified { round, .. } | Self::Weak { round, .. } => round.context,
            Self::Unscored { context, .. } => context,
        }
    }

    pub(super) fn check(&self) -> Result<Checked<'a>, Refusal> {
        let decision = self.decision();
        let context = self.context();
        match self {
            Self::Verified { round, .. } | Self::Weak { round, .. }
                if !((0.0..=1.0).contains(&round.score) && round.reward.is_finite()) =>
            {
                return Err(Refusal::Reward { score: round.score, reward: round.reward });
            }
            Self::Verified { .. } | Self::Weak { .. } | Self::Unscored { .. } => {}
        }
        let propensity = decision.propensity.get();
        if !(propensity > 0.0 && propensity <= 1.0) {
            return Err(Refusal::Propensity(propensity));
        }
        let same = decision.pmf.len() == context.candidates.len()
            && decision
                .pmf
                .iter()
                .zip(&context.candidates)
                .all(|(entry, candidate)| entry.mode == candidate.mode && entry.arm == candidate.arm);
        if !same {
            return Err(Refusal::Pmf("does not name the candidates, one by one".into()));
        }
        let pmf: Vec<f64> = decision.pmf.iter().map(|entry| entry.p).collect();
        let sum: f64 = pmf.iter().sum();
        if !(pmf.iter().all(|p| (0.0..=1.0).contains(p)) && (sum - 1.0).abs() <= SUM_TOLERANCE) {
            return Err(Refusal::Pmf(format!("sums to {sum}")));
        }
        let taken = decision.pmf.iter().position(|entry| entry.mode == decision.mode && entry.arm == decision.arm);
        let taken = taken.ok_or_else(|| Refusal::NotInPmf(decision.arm.clone()))?;
        if (pmf[taken] - propensity).abs() > SUM_TOLERANCE {
            return Err(Refusal::Disagree { propensity, pmf: pmf[taken] });
        }
        Ok(Checked { decision: decision.id, context, seed: decision.seed, taken, propensity, pmf })
    }
}
