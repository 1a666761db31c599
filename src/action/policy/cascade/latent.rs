//! The cascade that learns: order and stopping from verified attempts, with the difficulty of the very task as a hidden number.
//!
//! A failure says two things: something of the arm, and something of the task. A model that only counts arms would send a
//! task that four arms failed on to four more; one that only counts tasks would give up too soon. Here each task has a hidden
//! effect of its own that all arms share. It is nothing at first, each failure lowers it for the arms that are left, and it is
//! summed over when the task is done, so that success after a failure is another quantity than success alone. What the
//! attempts cost says in the same way what the next one will: a long task is long for all arms.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::{Attempt, Cascade, NextStep, SOLVED, best_score};
use crate::{
    action::{
        explore::{joint_draws, with_floor},
        policy::{
            Action, PolicyError, StateError,
            card::Checks,
            estimates::checked,
            probit::{Effect, Learnt, Model, Prior, ProbitSettings, TaskCosts, Terms, effects, factor, phi},
        },
    },
    round::Context,
};

/// A learnt cascade, by index and stopping rule.
///
/// Success is [`Probit`](crate::action::policy::Probit)'s model with one more effect, theta ~ N(0, `task_variance`), anew for each task. An arm that
/// was not tried is worth a try while e1 (1 - best score so far) p_a > `margin` |e2| E[cost_a], with p_a = Phi(mu_a / sqrt(1 +
/// s_a^2)) from all attempts so far; if none is, the cascade stops. Among those that are, one is drawn as the highest of
/// Phi(u_a / sqrt(1 + var theta)) / E[cost_a] over posterior draws of u (scaled by `scale`), the ratio by which attempts
/// that end with the first success should be ordered. The first attempt is always made.
///
/// References: Weitzman, Optimal Search for the Best Alternative, 1979 (index and stopping); Graepel et al., 2010 (the
/// update).
#[derive(Debug, Clone)]
pub struct Latent {
    settings: CascadeSettings,
    state: Learnt,
}

/// Settings of [`Latent`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CascadeSettings {
    /// Prior variance of a task's own difficulty, above 0.
    pub task_variance: f64,
    /// How alike a task's cost is on different arms: the variance that its arms share over that of one arm alone, at least 0.
    pub cost_alike: f64,
    /// A try must be expected to bring so many times its cost, at least 0.
    pub margin: f64,
    /// Share of uniform over the arms that are worth a try, in [0, 1].
    pub floor: f64,
    /// The model's, as of the policy `probit`.
    pub probit: ProbitSettings,
}

impl CascadeSettings {
    pub(in crate::action::policy) fn check(&self, checks: &mut Checks) {
        checks.positive([("task_variance", self.task_variance)]);
        checks.number("cost_alike", self.cost_alike, 0.0, 1e9);
        checks.number("margin", self.margin, 0.0, 1e3);
        checks.number("floor", self.floor, 0.0, 1.0);
    }

    fn prior(&self, effect: &Effect) -> Prior {
        match effect {
            Effect::Task => Prior { mean: 0.0, variance: self.task_variance },
            Effect::Mean | Effect::Price | Effect::Kind(_) | Effect::Arm(_) | Effect::Cell(..) => {
                self.probit.prior(effect)
            }
        }
    }
}

/// What is known of one task.
struct View {
    model: Model,
    /// Each candidate's sum of effects, and the same without the task's own.
    sums: Vec<(Terms, Terms)>,
    task: Terms,
    costs: TaskCosts,
}

impl Latent {
    /// Nothing learnt yet.
    pub fn new(settings: CascadeSettings) -> Self {
        Self { settings, state: Learnt::default() }
    }

    /// The model with all attempts at this task learnt, its own difficulty still there.
    fn view(&self, context: &Context, attempts: &[Attempt]) -> View {
        let prior = |effect: &Effect| self.settings.prior(effect);
        let mut model = (*self.state.model).clone();
        let mut sums: Vec<(Terms, Terms)> = effects(context)
            .into_iter()
            .map(|effects| model.terms(effects, prior))
            .map(|terms| (terms.clone(), terms))
            .collect();
        let task = model.terms([(Effect::Task, 1.0)], prior);
        sums.iter_mut().for_each(|(whole, _)| whole.extend(&task));
        let mut costs = self.state.spent.of_task(context, self.settings.probit.cost_mass, self.settings.cost_alike);
        for attempt in attempts {
            if let Some((whole, _)) = sums.get(attempt.place).filter(|_| (0.0..=1.0).contains(&attempt.score)) {
                model.observe(whole, attempt.score, 1.0);
                costs.met(attempt);
            }
        }
        View { model, sums, task, costs }
    }
}

impl Cascade for Latent {
    fn name(&self) -> &'static str {
        "cascade"
    }

    fn next(&self, context: &Context, attempts: &[Attempt], seed: u64) -> Result<NextStep, PolicyError> {
        let candidates = context.candidates.len();
        if candidates == 0 {
            return Err(PolicyError::NoCandidate);
        }
        let stop = NextStep { pmf: vec![0.0; candidates], stop: 1.0, voters: Vec::new() };
        let best = best_score(attempts);
        if best >= SOLVED {
            return Ok(stop);
        }
        let View { model, sums, task, costs } = self.view(context, attempts);
        let CascadeSettings { margin, floor, probit: ProbitSettings { scale, draws, .. }, .. } = self.settings;
        let weights = context.weights;
        let cost = |place: usize| weights.e2.abs() * costs.expected_usd(place);
        let gain = |place: usize| {
            weights.e1 * (1.0 - best) * model.success(&sums[place].0)
                - margin * cost(place)
                - context.candidates[place].handicap
        };
        let untried: Vec<usize> =
            (0..candidates).filter(|place| !attempts.iter().any(|attempt| attempt.place == *place)).collect();
        let mut worth: Vec<usize> = untried.iter().copied().filter(|place| gain(*place) > 0.0).collect();
        if worth.is_empty() {
            if !attempts.is_empty() {
                return Ok(stop);
            }
            // Somebody has to answer: the arm that loses least.
            worth.extend(untried.iter().copied().max_by(|a, b| gain(*a).total_cmp(&gain(*b))));
        }
        let own: Vec<Terms> = worth.iter().map(|place| sums[*place].1.clone()).collect();
        let means: Vec<f64> = worth.iter().map(|place| model.mean(&sums[*place].0)).collect();
        let factor = factor(&model, &own, self.name())?;
        let spread = (1.0 + model.covariance(&task, &task)).sqrt();
        let costs: Vec<f64> = worth.iter().map(|place| cost(*place).max(f64::MIN_POSITIVE)).collect();
        let pmf = joint_draws(worth.len(), &factor, draws, seed, |place, deviation| {
            phi((means[place] + scale * deviation) / spread) / costs[place]
        });
        let among = checked(self.name(), pmf.and_then(|pmf| with_floor(pmf, floor)))?;
        let mut pmf = vec![0.0; candidates];
        worth.iter().zip(among).for_each(|(place, p)| pmf[*place] = p);
        Ok(NextStep { pmf, stop: 0.0, voters: Vec::new() })
    }

    fn learn(&mut self, context: &Context, attempts: &[Attempt]) {
        let View { mut model, .. } = self.view(context, attempts);
        model.drop_task();
        self.state.model = Arc::new(model);
        self.state.spent.learn(context, attempts, self.settings.probit.cost_mass, self.settings.cost_alike);
    }

    fn snapshot(&self) -> Box<dyn Cascade> {
        Box::new(self.clone())
    }

    fn state(&self) -> Value {
        self.state.state()
    }

    fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError> {
        self.state.restore(state)
    }
}
