//! New arms: a bounded share of forced exploration for arms that came while the router was running.
//!
//! A policy that has long made up its mind may take hundreds of rounds to try an arm that came late. So newcomers get a
//! share of the rounds between them until each has its quota; after that they stand on their own. The others' statistics
//! are untouched, and arms seen in the first `quota` rounds are never forced: a cold start explores by itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Wrap;
use crate::{
    action::policy::{Action, Checks, LearntRound, Opinion, Policy, PolicyError, StateError},
    round::{ArmId, Context, Mode},
};

/// p = (1 - share) p_inner + share / N on each of the N newcomers that have not had their quota of learnt rounds.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, build};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let mut context = Context::new(embedding, Domain::unknown(), vec![arm("a")]);
/// let card = PolicySettings::parse("[new_arm]\nquota = 30\nshare = 0.1").unwrap();
/// let mut policy = build("new_arm:fixed:a", &card).unwrap();
/// for _ in 0..30 {
///     policy.learn(&LearntRound::new(&context, 0, 1.0));
/// }
/// context.candidates.push(arm("b"));
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.9, 0.1]);
/// ```
#[derive(Debug, Clone)]
pub struct NewArm {
    settings: NewArmSettings,
    seen: BTreeMap<Action, Seen>,
}

/// Settings of [`NewArm`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewArmSettings {
    /// Learnt rounds after which an arm is no newcomer any more; 0 forces nothing.
    pub quota: u64,
    /// The newcomers' share of the rounds, in [0, 1].
    pub share: f64,
}

/// What is known of one action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    rounds: u64,
    /// Seen in the first rounds.
    founder: bool,
}

impl NewArmSettings {
    pub(in crate::action) fn check(&self, checks: &mut Checks) {
        checks.number("quota", self.quota as f64, 0.0, 1e6);
        checks.number("share", self.share, 0.0, 1.0);
    }
}

impl NewArm {
    /// Nothing learnt yet.
    pub fn new(settings: NewArmSettings) -> Self {
        Self { settings, seen: BTreeMap::new() }
    }

    /// Whether so little was learnt of anything that nobody is new.
    fn is_founding(&self) -> bool {
        self.seen.values().map(|seen| seen.rounds).sum::<u64>() < self.settings.quota
    }

    fn is_newcomer(&self, action: &Action) -> bool {
        let seen = self.seen.get(action).copied().unwrap_or(Seen { rounds: 0, founder: self.is_founding() });
        !seen.founder && seen.rounds < self.settings.quota
    }
}

impl Wrap for NewArm {
    fn decide(&self, inner: &dyn Policy, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        let mut opinion = inner.decide(context, seed)?;
        let candidates = context.candidates.iter().enumerate();
        let new: Vec<usize> = candidates
            .filter(|(place, c)| !opinion.poisoned.contains(place) && self.is_newcomer(&(c.mode, c.arm.clone())))
            .map(|(place, _)| place)
            .collect();
        if !new.is_empty() {
            opinion.pmf.iter_mut().for_each(|p| *p *= 1.0 - self.settings.share);
            new.iter().for_each(|place| opinion.pmf[*place] += self.settings.share / new.len() as f64);
        }
        Ok(opinion)
    }

    fn learn(&mut self, _inner: &mut dyn Policy, round: &LearntRound<'_>) {
        let founder = self.is_founding();
        for candidate in &round.context.candidates {
            let action = (candidate.mode, candidate.arm.clone());
            self.seen.entry(action).or_insert(Seen { rounds: 0, founder });
        }
        if let Some(seen) = self.seen.get_mut(&(round.mode, round.arm.clone())) {
            seen.rounds += 1;
        }
    }

    fn state(&self) -> Value {
        json!(self.seen.iter().map(|((mode, arm), seen)| (mode, arm, seen)).collect::<Vec<_>>())
    }

    fn restore(&mut self, state: &Value) -> Result<(), StateError> {
        let shape = |error: serde_json::Error| StateError::Shape(error.to_string());
        let seen: Vec<(Mode, ArmId, Seen)> = serde_json::from_value(state.clone()).map_err(shape)?;
        self.seen = seen.into_iter().map(|(mode, arm, seen)| ((mode, arm), seen)).collect();
        Ok(())
    }
}
