//! What arms really cost, and what one attempt at a task says of the next one's cost.
//!
//! Prices and a text's length say little of what an agent will spend. Two things say more: what the arm cost before, against
//! what was expected of it, and, within one task, what other arms just spent on it: a long task is long for all.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    action::policy::{Action, Attempt, action_of},
    round::{Candidate, Context},
};

/// How far one task's cost may be from its arms' usual one.
const TASK_FACTOR_MAX: f64 = 20.0;
/// The least expected cost: where nothing has a price, ratios still have to be numbers.
const COST_MIN_USD: f64 = 1e-9;

/// One arm's dollars so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Sums {
    usd: f64,
    /// Expected, times what the task had shown by then.
    expected_usd: f64,
    /// Sum of ln(cost / expected), and of how many.
    logs: f64,
    rounds: f64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.usd += other.usd;
        self.expected_usd += other.expected_usd;
        self.logs += other.logs;
        self.rounds += other.rounds;
    }
}

/// All arms' dollars.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::action::policy) struct Spent {
    #[serde(with = "pairs")]
    arms: Arc<BTreeMap<Action, Sums>>,
    all: Sums,
}

/// What a task is expected to cost on each candidate.
#[derive(Debug, Clone)]
pub(in crate::action::policy) struct TaskCosts {
    /// Expected before the first attempt, by candidate.
    usd: Vec<f64>,
    /// Each candidate's usual ln(cost / expected).
    logs: Vec<f64>,
    stated: Vec<f64>,
    kappa: f64,
    /// Whether anything was known when the task came.
    known: bool,
    surprise: f64,
    attempts: f64,
}

/// A map as pairs: JSON's keys are texts alone.
mod pairs {
    use std::{collections::BTreeMap, sync::Arc};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Action, Sums};

    pub fn serialize<S: Serializer>(arms: &Arc<BTreeMap<Action, Sums>>, to: S) -> Result<S::Ok, S::Error> {
        arms.iter().collect::<Vec<_>>().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<BTreeMap<Action, Sums>>, D::Error> {
        let pairs = Vec::<(Action, Sums)>::deserialize(from)?;
        Ok(Arc::new(pairs.into_iter().collect()))
    }
}

impl Spent {
    /// A task's costs: each arm's ratio of spent and expected, shrunk to that of all arms as if seen `mass` times, and that to
    /// the prices. `kappa` says how alike a task is on different arms: the variance that a task's arms share, over that of
    /// one arm alone.
    pub fn of_task(&self, context: &Context, mass: f64, kappa: f64) -> TaskCosts {
        let all = if self.all.expected_usd > 0.0 { self.all.usd / self.all.expected_usd } else { 1.0 };
        let all_logs = if self.all.rounds > 0.0 { self.all.logs / self.all.rounds } else { 0.0 };
        let of = |candidate: &Candidate| {
            let sums = self.arms.get(&action_of(candidate)).copied().unwrap_or_default();
            let stated = stated(candidate);
            let usd = stated * (sums.usd + all * mass * stated) / (sums.expected_usd + mass * stated);
            let log = (sums.logs + mass * all_logs) / (sums.rounds + mass);
            (stated, (usd, log))
        };
        let (stated, (usd, logs)) = context.candidates.iter().map(of).unzip();
        TaskCosts { usd, logs, stated, kappa, known: self.all.rounds > 0.0, surprise: 0.0, attempts: 0.0 }
    }

    /// Learns what attempts cost, in the order in which they were made.
    pub fn learn(&mut self, context: &Context, attempts: &[Attempt], mass: f64, kappa: f64) {
        let mut costs = self.of_task(context, mass, kappa);
        for attempt in attempts {
            let Some(candidate) = context.candidates.get(attempt.place) else { continue };
            let expected_usd = costs.stated[attempt.place] * costs.factor();
            if attempt.cost_usd.is_finite() && attempt.cost_usd >= 0.0 {
                let mut sums = Sums { usd: attempt.cost_usd, expected_usd, ..Sums::default() };
                if attempt.cost_usd > 0.0 {
                    sums.logs = (attempt.cost_usd / costs.stated[attempt.place]).ln();
                    sums.rounds = 1.0;
                }
                self.all.add(&sums);
                Arc::make_mut(&mut self.arms).entry(action_of(candidate)).or_default().add(&sums);
            }
            costs.met(attempt);
        }
    }

    /// Multiplies the weight of all that was learnt.
    pub fn forget(&mut self, keep: f64) {
        let less = |sums: &mut Sums| {
            *sums = Sums {
                usd: keep * sums.usd,
                expected_usd: keep * sums.expected_usd,
                logs: keep * sums.logs,
                rounds: keep * sums.rounds,
            };
        };
        less(&mut self.all);
        Arc::make_mut(&mut self.arms).values_mut().for_each(less);
    }

    /// Whether the numbers could have come from rounds.
    pub fn is_sound(&self) -> bool {
        let right = |sums: &Sums| {
            [sums.usd, sums.expected_usd, sums.rounds].iter().all(|x| (0.0..1e15).contains(x)) && sums.logs.abs() < 1e15
        };
        right(&self.all) && self.arms.values().all(right)
    }
}

fn stated(candidate: &Candidate) -> f64 {
    if candidate.cost_usd.is_finite() { candidate.cost_usd.max(COST_MIN_USD) } else { COST_MIN_USD }
}

impl TaskCosts {
    /// Takes note of what an attempt at this task cost.
    pub fn met(&mut self, attempt: &Attempt) {
        if attempt.cost_usd > 0.0 && self.known {
            self.surprise += (attempt.cost_usd / self.stated[attempt.place]).ln() - self.logs[attempt.place];
            self.attempts += 1.0;
        }
    }

    /// By how much this task is dearer than usual, from what was spent on it: exp(sum of surprises / (k + 1 / kappa)).
    fn factor(&self) -> f64 {
        if self.attempts == 0.0 || self.kappa <= 0.0 {
            return 1.0;
        }
        let factor = (self.surprise / (self.attempts + 1.0 / self.kappa)).exp();
        factor.clamp(1.0 / TASK_FACTOR_MAX, TASK_FACTOR_MAX)
    }

    /// The dollars that a candidate is expected to cost now.
    pub fn expected_usd(&self, place: usize) -> f64 {
        self.usd[place] * self.factor()
    }
}
