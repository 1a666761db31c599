//! Affinity: keeps a session on its arm unless leaving it is worth the switch.
//!
//! Providers cache the prompt of a running conversation; another arm reads it all again, at full price and from cold. So
//! the session's arm stays unless another's expected utility is better by more than the stated cost of switching.

use serde::Deserialize;

use super::Wrap;
use crate::{
    action::{
        explore::with_floor,
        policy::{Checks, Opinion, Policy, PolicyError},
    },
    round::Context,
};

/// p = (1 - floor) on the session's last action + floor / K, while max_a expected_a - expected_last <= switch_cost;
/// the inner policy's distribution otherwise, outside a session, and where the inner policy estimates nothing.
///
/// Reference: switching costs as in Dekel, Ding, Koren and Peres, Bandits with Switching Costs, 2014.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, build};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let mut context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let card = PolicySettings::parse("[affinity]\nswitch_cost = 0.1\nfloor = 0.0").unwrap();
/// let policy = build("affinity:domain_prior", &card).unwrap();
/// context.last = Some(Taken { mode: Mode::Single, arm: ArmId::new("b").unwrap() });
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.0, 1.0]);
/// ```
#[derive(Debug, Clone)]
pub struct Affinity {
    settings: AffinitySettings,
}

/// Settings of [`Affinity`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AffinitySettings {
    /// The expected gain that a switch has to bring, as utility (for prices far below a point of score: as score),
    /// in [0, 2].
    pub switch_cost: f64,
    /// Share of uniform exploration inside a session, in [0, 1].
    pub floor: f64,
}

impl AffinitySettings {
    pub(in crate::action) fn check(&self, checks: &mut Checks) {
        checks.number("switch_cost", self.switch_cost, 0.0, 2.0);
        checks.number("floor", self.floor, 0.0, 1.0);
    }
}

impl Affinity {
    /// Nothing learnt yet.
    pub fn new(settings: AffinitySettings) -> Self {
        Self { settings }
    }

    /// The place of the session's last action, where staying is right.
    fn stays(&self, context: &Context, expected: &[f64]) -> Option<usize> {
        let last = context.last.as_ref()?;
        let place = context.candidates.iter().position(|c| c.mode == last.mode && c.arm == last.arm)?;
        let best = expected.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (best - expected.get(place)? <= self.settings.switch_cost).then_some(place)
    }
}

impl Wrap for Affinity {
    fn decide(&self, inner: &dyn Policy, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        let mut opinion = inner.decide(context, seed)?;
        if let Some(place) = self.stays(context, &opinion.expected).filter(|place| !opinion.poisoned.contains(place)) {
            let mut pmf = vec![0.0; opinion.pmf.len()];
            pmf[place] = 1.0;
            let not_finite = |_| PolicyError::NotFinite { policy: inner.name(), what: "floor" };
            opinion.pmf = with_floor(pmf, self.settings.floor).map_err(not_finite)?;
        }
        Ok(opinion)
    }
}
