//! From a state and a context to a decision: one place for tasks and for replays of the journal.

use super::{PolicySnapshot, RouterError, cards::Acting};
use crate::{
    action::{
        policy::{Action, Opinion, PolicyError},
        sample::{normalised, sample},
    },
    round::{Candidate, Context, Decision, DecisionId, Probability, Propensity, Reason, ShadowView, TaskId},
};

/// The part of a state that decides.
pub(super) struct Deciding<'a> {
    pub champion: &'a Acting,
    pub shadow: Option<&'a Acting>,
    pub learnt_rounds: u64,
    /// The place in the journal up to which it was folded.
    pub at: i64,
}

impl<'a> Deciding<'a> {
    pub fn of(snapshot: &'a PolicySnapshot) -> Self {
        let PolicySnapshot { champion, shadow, learnt_rounds, at, .. } = snapshot;
        Self { champion, shadow: shadow.as_ref(), learnt_rounds: *learnt_rounds, at: *at }
    }
}

/// A decision, the actions whose estimates were not finite, and why the policy failed, if it did.
pub(super) struct Drawn {
    pub decision: Decision,
    pub poisoned: Vec<Action>,
    pub failed: Option<PolicyError>,
}

/// Asks the policy and draws once, with the seed of the decision's id. A policy that fails leaves a uniform draw.
pub(super) fn draw(
    state: &Deciding<'_>,
    id: DecisionId,
    task_id: &TaskId,
    context: &Context,
) -> Result<Drawn, RouterError> {
    let seed = id.seed();
    let (opinion, failed) = match state.champion.policy.decide(context, seed) {
        Ok(opinion) => (opinion, None),
        Err(error) => {
            let n = context.candidates.len();
            (Opinion { pmf: vec![1.0 / n as f64; n], ..Opinion::default() }, Some(error))
        }
    };
    let internal = |error: &dyn std::fmt::Display| RouterError::Internal(format!("cannot draw an arm: {error}"));
    // Without the rounding that a vote leaves: a lone candidate's probability is 1 and no more.
    let pmf = normalised(opinion.pmf).map_err(|error| internal(&error))?;
    let drawn = sample(&pmf, seed).map_err(|error| internal(&error))?;
    let (candidate, p) = context
        .candidates
        .get(drawn)
        .zip(pmf.get(drawn))
        .ok_or_else(|| internal(&"the policy named more arms than there are"))?;
    let most = pmf.iter().copied().fold(0.0, f64::max);
    let reason = match () {
        () if failed.is_some() => Reason::Fallback,
        () if context.candidates.len() == 1 => Reason::Forced,
        () if *p >= most => Reason::Exploit,
        () => Reason::Explore,
    };
    let probability = |(place, (candidate, p)): (usize, (&Candidate, &f64))| Probability {
        mode: candidate.mode,
        arm: candidate.arm.clone(),
        p: *p,
        expected: opinion.expected.get(place).map(|expected| *expected as f32),
    };
    let shadow = state.shadow.map(|shadow| ShadowView {
        policy: shadow.reference(),
        pmf: shadow.policy.decide(context, seed).map(|opinion| opinion.pmf).unwrap_or_default(),
    });
    let poisoned = opinion.poisoned.iter().filter_map(|place| context.candidates.get(*place));
    let poisoned = poisoned.map(|candidate| (candidate.mode, candidate.arm.clone())).collect();
    let decision = Decision {
        id,
        task_id: task_id.clone(),
        mode: candidate.mode,
        arm: candidate.arm.clone(),
        propensity: Propensity::new(*p).map_err(|error| internal(&error))?,
        pmf: context.candidates.iter().zip(&pmf).enumerate().map(probability).collect(),
        policy: state.champion.reference(),
        shadow,
        learnt_rounds: state.learnt_rounds,
        state_at: state.at,
        reason,
        seed,
        voters: opinion.voters,
    };
    Ok(Drawn { decision, poisoned, failed })
}
