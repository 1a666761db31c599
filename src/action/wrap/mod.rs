//! Wrappers: policies around a policy, which change what it decides or remembers and keep its propensities exact.
//!
//! They are named by prefix, outermost first: `affinity:new_arm:ensemble`. Each keeps the inner policy's name and voters,
//! so that what was learnt does not depend on what it is wrapped in.

mod affinity;
mod budget;
mod costs;
mod discount;
mod new_arm;

use serde_json::{Value, json};

use super::policy::{Action, LearntRound, Opinion, Policy, PolicyError, StateError};
use crate::round::{Context, Domain};

pub use affinity::{Affinity, AffinitySettings};
pub use budget::{Budget, BudgetSettings};
pub use costs::{Costs, CostsSettings};
pub use discount::{Discount, DiscountSettings};
pub use new_arm::{NewArm, NewArmSettings};

/// What a wrapper changes of the policy inside it; nothing by itself.
pub trait Wrap: Clone + Send + Sync + 'static {
    /// Decides with the inner policy's help.
    fn decide(&self, inner: &dyn Policy, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        inner.decide(context, seed)
    }

    /// Learns a round before the inner policy does, which may be told more.
    fn learn(&mut self, _inner: &mut dyn Policy, _round: &LearntRound<'_>) {}

    /// Takes note of dollars spent without anything to learn from.
    fn charge(&mut self, _cost_usd: f64) {}

    /// What the wrapper itself learnt.
    fn state(&self) -> Value {
        Value::Null
    }

    /// Takes the place of what the wrapper itself learnt.
    fn restore(&mut self, _state: &Value) -> Result<(), StateError> {
        Ok(())
    }
}

/// A policy inside a wrapper.
pub struct Wrapped<W> {
    wrap: W,
    inner: Box<dyn Policy>,
}

impl<W: Wrap> Wrapped<W> {
    /// Puts a policy inside.
    pub fn new(wrap: W, inner: Box<dyn Policy>) -> Self {
        Self { wrap, inner }
    }
}

impl<W: Wrap> Policy for Wrapped<W> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn version(&self) -> u32 {
        self.inner.version()
    }

    fn decide(&self, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        self.wrap.decide(self.inner.as_ref(), context, seed)
    }

    fn learn(&mut self, round: &LearntRound<'_>) {
        self.wrap.learn(self.inner.as_mut(), round);
        self.inner.learn(round);
    }

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(Self { wrap: self.wrap.clone(), inner: self.inner.snapshot() })
    }

    fn forget(&mut self, keep: f64) {
        self.inner.forget(keep);
    }

    fn charge(&mut self, cost_usd: f64) {
        self.wrap.charge(cost_usd);
        self.inner.charge(cost_usd);
    }

    fn state(&self) -> Value {
        json!({"wrapper": self.wrap.state(), "inner": self.inner.state()})
    }

    fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError> {
        let mut wrap = self.wrap.clone();
        wrap.restore(&state["wrapper"])?;
        let poisoned = self.inner.restore(&state["inner"])?;
        self.wrap = wrap;
        Ok(poisoned)
    }

    fn voter_weights(&self, domain: &Domain) -> Vec<(String, f64)> {
        self.inner.voter_weights(domain)
    }
}

#[cfg(test)]
mod tests;
