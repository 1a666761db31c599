//! Discount: forgets the past at a steady rate, so that a policy follows arms whose quality drifts.
//!
//! A model behind an API changes without notice. With all rounds counted alike, a thousand old ones outvote a hundred new;
//! discounted, about 1 / (1 - keep) rounds count at any time. The price is that exploration never ends.

use serde::Deserialize;

use super::Wrap;
use crate::action::policy::{Checks, LearntRound, Policy};

/// Before each learnt round, all that the inner policy learnt is multiplied by `keep`.
///
/// Reference: Russac, Vernade and Cappe, Weighted Linear Bandits for Non-Stationary Environments, 2019 (D-LinUCB);
/// Garivier and Moulines, On Upper-Confidence Bound Policies for Switching Bandit Problems, 2011 (discounted counts).
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, build};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let card = PolicySettings::parse("[discount]\nkeep = 0.98").unwrap();
/// let mut policy = build("discount:domain_prior", &card).unwrap();
/// for round in 0..600 {
///     let (place, swapped) = (round % 2, round >= 400);
///     policy.learn(&LearntRound::new(&context, place, if (place == 1) != swapped { 1.0 } else { 0.0 }));
/// }
/// assert!(policy.decide(&context, 1).unwrap().pmf[0] > 0.9);
/// ```
#[derive(Debug, Clone)]
pub struct Discount {
    settings: DiscountSettings,
}

/// Settings of [`Discount`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscountSettings {
    /// What each round leaves of the weight of those before it, in (0, 1]; 1 forgets nothing.
    pub keep: f64,
}

impl DiscountSettings {
    pub(in crate::action) fn check(&self, checks: &mut Checks) {
        checks.number("keep", self.keep, 0.5, 1.0);
    }
}

impl Discount {
    /// Nothing learnt yet.
    pub fn new(settings: DiscountSettings) -> Self {
        Self { settings }
    }
}

impl Wrap for Discount {
    fn learn(&mut self, inner: &mut dyn Policy, _round: &LearntRound<'_>) {
        inner.forget(self.settings.keep);
    }
}
