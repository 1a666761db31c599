//! Budget: paces dollars to a target per task, whatever the inner policy would rather spend.
//!
//! A price on money, learnt online. Spending above the target raises it, spending below lowers it (never under 0: a policy
//! that spends less by itself is left alone). Candidates are handicapped by the price times their cost, so the inner policy
//! weighs score against money with its own estimates and explores as before.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Wrap;
use crate::{
    action::policy::{Checks, LearntRound, Opinion, Policy, PolicyError, StateError},
    round::Context,
};

/// The highest price: at 2 no score is worth the dearest arm.
const PRICE_MAX: f64 = 2.0;

/// Primal-dual pacing.
///
/// handicap_a = price * cost_a / dearest; after round t, price <- [price + rate_t (cost - target) / dearest], cut to
/// [0, 2]; dearest is the highest expected cost among the round's candidates, and rate_t = rate (1 + 200 / (t + 10)), so
/// that the first hundred rounds find about the right price. While the price stays inside, the mean cost over T more
/// rounds misses the target by at most its change * dearest / (rate T): the sum telescopes.
///
/// References: Agrawal and Devanur, Linear Contextual Bandits with Knapsacks, 2016; Balseiro and Gur, Learning in Repeated
/// Auctions with Budgets, 2019 (adaptive pacing).
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, build};
/// # let arm = |name, usd| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), usd);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("cheap", 0.001), arm("dear", 0.01)]);
/// let card = PolicySettings::parse("[budget]\nusd_per_task = 0.002").unwrap();
/// let mut policy = build("budget:domain_prior", &card).unwrap();
/// for round in 0..400 {
///     policy.learn(&LearntRound::new(&context, round % 2, (round % 2) as f64));
/// }
/// // The dear arm is right every time, and half of the rounds on it were too many for the budget.
/// assert!(policy.decide(&context, 1).unwrap().pmf[0] > 0.9);
/// ```
#[derive(Debug, Clone)]
pub struct Budget {
    settings: BudgetSettings,
    pace: Pace,
}

/// Settings of [`Budget`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetSettings {
    /// The mean dollars to spend per task, above 0.
    pub usd_per_task: f64,
    /// How fast the price follows in the long run, in (0, 1].
    pub rate: f64,
}

/// What was learnt of spending.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Pace {
    /// Utility per dearest candidate's cost.
    price: f64,
    /// The highest expected cost among the last round's candidates.
    dearest_usd: f64,
    /// Rounds paced.
    rounds: u64,
}

impl BudgetSettings {
    pub(in crate::action) fn check(&self, checks: &mut Checks) {
        checks.number("usd_per_task", self.usd_per_task, 1e-9, 1e6);
        checks.number("rate", self.rate, 1e-6, 1.0);
    }
}

impl Budget {
    /// Nothing learnt yet.
    pub fn new(settings: BudgetSettings) -> Self {
        Self { settings, pace: Pace { price: 0.0, dearest_usd: 0.0, rounds: 0 } }
    }

    fn spend(&mut self, cost_usd: f64) {
        let Pace { price, dearest_usd, rounds } = self.pace;
        let rate = self.settings.rate * (1.0 + 200.0 / (rounds as f64 + 10.0));
        let step = rate * (cost_usd - self.settings.usd_per_task) / dearest_usd;
        // Where nothing has a price there is nothing to pace.
        if step.is_finite() {
            self.pace.rounds += 1;
            self.pace.price = (price + step).clamp(0.0, PRICE_MAX);
        }
    }
}

fn dearest_usd(context: &Context) -> f64 {
    context.candidates.iter().map(|candidate| candidate.cost_usd).fold(0.0, f64::max)
}

impl Wrap for Budget {
    fn decide(&self, inner: &dyn Policy, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        let dearest_usd = dearest_usd(context);
        if self.pace.price == 0.0 || dearest_usd == 0.0 {
            return inner.decide(context, seed);
        }
        let mut context = context.clone();
        for candidate in &mut context.candidates {
            candidate.handicap += self.pace.price * candidate.cost_usd / dearest_usd;
        }
        inner.decide(&context, seed)
    }

    fn learn(&mut self, _inner: &mut dyn Policy, round: &LearntRound<'_>) {
        self.pace.dearest_usd = dearest_usd(round.context);
        self.spend(round.cost_usd);
    }

    fn charge(&mut self, cost_usd: f64) {
        self.spend(cost_usd);
    }

    fn state(&self) -> Value {
        json!(self.pace)
    }

    fn restore(&mut self, state: &Value) -> Result<(), StateError> {
        let shape = |error: serde_json::Error| StateError::Shape(error.to_string());
        let pace: Pace = serde_json::from_value(state.clone()).map_err(shape)?;
        if !((0.0..=PRICE_MAX).contains(&pace.price) && (0.0..1e9).contains(&pace.dearest_usd)) {
            return Err(StateError::Shape(format!("a price of {}", pace.price)));
        }
        self.pace = pace;
        Ok(())
    }
}
