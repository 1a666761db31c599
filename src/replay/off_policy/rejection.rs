//! Rejection sampling: of the logged rounds, those are kept that the candidate might have had itself.
//!
//! Where the log was drawn uniformly, Li et al. keep a round when the candidate's own draw is what was taken. A policy that
//! learns does not draw uniformly, and then matching draws alone would count its favourite arms twice. So a round is kept
//! with probability w / M, where w = p_candidate(taken) / p_logged(taken) and M is the largest such ratio among the
//! candidates that could have been taken: of the kept rounds with this context, the candidate's share of each action is
//! exactly what it states. That needs no draw that happens to match, so it keeps as many rounds as any rule can (1 / M of
//! them; all, where both policies agree). For a candidate that takes one arm and a uniform log it is Li et al.'s rule.
//!
//! M differs between contexts, so the mean weighs each kept round by its M: contexts count as often as they came. What the
//! copy learns from is still fuller of contexts in which it agrees with the policy that acted.
//!
//! References: Li, Chu, Langford and Wang, 2011; for logs that are not uniform, Dudik, Erhan, Langford and Li,
//! Sample-efficient Nonstationary Policy Evaluation for Contextual Bandits, 2012.

use std::collections::BTreeMap;

use rand::Rng;

use super::{
    OffPolicyError,
    estimate::{Estimate, Weight, WeightedMean},
    logged::Checked,
    opinion,
};
use crate::{
    action::{
        policy::{LearntRound, Opinion, Policy},
        sample::{Stream, stream},
    },
    round::{DecisionId, VoterView},
};

/// Decisions remembered in wait for more feedback; the oldest are forgotten first, and judged anew if more comes.
const REMEMBERED_MAX: usize = 50_000;

/// The copy that lives from kept rounds, and what it got.
pub(super) struct Rejection {
    policy: Box<dyn Policy>,
    /// A decision is kept or not once, whatever is said of it later. Ids are ordered by time.
    judged: BTreeMap<DecisionId, Option<Kept>>,
    rewards: WeightedMean,
}

/// A round as the candidate would have had it.
#[derive(Debug, Clone)]
struct Kept {
    ratio_max: f64,
    propensity: f64,
    voters: Vec<VoterView>,
}

impl Rejection {
    pub fn new(policy: Box<dyn Policy>) -> Self {
        Self { policy, judged: BTreeMap::new(), rewards: WeightedMean::default() }
    }

    /// Counts a verified round if it is kept. Comes before it is learnt.
    pub fn evaluate(&mut self, name: &str, logged: &Checked<'_>, reward: f64) -> Result<(), OffPolicyError> {
        if let Some(weight) = self.judge(name, logged)?.map(|kept| kept.ratio_max) {
            self.rewards.add(&Weight::certain(weight, logged), reward);
        }
        Ok(())
    }

    /// Learns a round if it is kept, with the candidate's own propensity and votes.
    pub fn learn(&mut self, name: &str, logged: &Checked<'_>, round: &LearntRound<'_>) -> Result<(), OffPolicyError> {
        if let Some(Kept { propensity, voters, .. }) = self.judge(name, logged)?.cloned() {
            self.policy.learn(&LearntRound { propensity, voters: &voters, ..*round });
        }
        Ok(())
    }

    /// Charges what was spent on a round if it is kept.
    pub fn charge(&mut self, name: &str, logged: &Checked<'_>, cost_usd: f64) -> Result<(), OffPolicyError> {
        if self.judge(name, logged)?.is_some() {
            self.policy.charge(cost_usd);
        }
        Ok(())
    }

    #[cfg(test)]
    pub fn policy(&self) -> &dyn Policy {
        self.policy.as_ref()
    }

    pub fn estimate(&self, alpha: f64) -> Estimate {
        self.rewards.estimate(alpha)
    }

    fn judge(&mut self, name: &str, logged: &Checked<'_>) -> Result<Option<&Kept>, OffPolicyError> {
        if !self.judged.contains_key(&logged.decision) {
            let kept = self.keeps(name, logged)?;
            if self.judged.len() == REMEMBERED_MAX {
                self.judged.pop_first();
            }
            self.judged.insert(logged.decision, kept);
        }
        Ok(self.judged.get(&logged.decision).and_then(Option::as_ref))
    }

    fn keeps(&self, name: &str, logged: &Checked<'_>) -> Result<Option<Kept>, OffPolicyError> {
        let Opinion { pmf, voters, .. } = opinion(name, self.policy.as_ref(), logged)?;
        let ratio = |(ours, theirs): (&f64, &f64)| if *theirs > 0.0 { ours / theirs } else { 0.0 };
        let ratio_max = pmf.iter().zip(&logged.pmf).map(ratio).fold(0.0, f64::max);
        let propensity = pmf[logged.taken];
        let uniform: f64 = stream(logged.seed, Stream::Rejection).random();
        // Ratios of the same numbers are 1 exactly, and no uniform number is.
        let keep = uniform * ratio_max < ratio((&propensity, &logged.pmf[logged.taken]));
        Ok(keep.then_some(Kept { ratio_max, propensity, voters }))
    }
}
