//! Probit: effects of the domain, the text's length, the price and the arm in one joint Bayesian probit regression, and costs
//! that are learnt; explored by Thompson sampling.
//!
//! It is made for few and dear rounds. Two things are known before the first one: dearer models are better on average, and an
//! arm that does well does well on most kinds of task. Both are priors here, so a cold start does not try eight arms blindly.
//! Success is a probability and not a number with normal noise, so an arm that failed three times of three is nearly out.
//!
//! The model itself (`model`) and what arms cost (`spent`) are shared with the cascade of the same name.

mod model;
mod spent;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Action, Attempt, LearntRound, Opinion, Policy, PolicyError, StateError, action_of,
    card::Checks,
    estimates::{Scale, checked},
    state::{read, write},
};
use crate::{
    action::{
        cholesky::Cholesky,
        explore::{joint_draws, with_floor},
    },
    round::{Candidate, Context},
};
use ndarray::Array2;

pub(in crate::action::policy) use model::{Effect, Feature, Model, Prior, Terms, phi};
pub(in crate::action::policy) use spent::{Spent, TaskCosts};

/// Added to the candidates' variances, so that two of which the same is known can be told apart by their factor.
const JITTER: f64 = 1e-9;
/// Rounds that are forgotten at once: each time, the model has to be solved afresh.
const FORGET_EVERY: u32 = 64;

/// Thompson sampling on a probit mixed-effects model.
///
/// P(success) = Phi(mean + price * z_a + sum_f (kind_f + cell_af) x_f + arm_a): z_a is the logarithm of the arm's expected cost,
/// standardised over the candidates, f the task's domain (x = 1) and its length (x = (log2 of its characters - 11) / 2, cut to
/// +-2). Effects have independent normal priors; the posterior is one joint normal. A draw of the arms' sums u, with its
/// deviations from the mean multiplied by `scale`, gives each arm the utility of the score Phi(u) at its learnt cost.
///
/// Reference: Graepel et al., Web-Scale Bayesian Click-Through Rate Prediction, 2010 (the update); Chapelle and Li, An Empirical
/// Evaluation of Thompson Sampling, 2011.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, Probit};
/// # let arm = |name, usd| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), usd);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("cheap", 0.001), arm("dear", 0.01)]);
/// let mut policy = Probit::new(PolicySettings::default().probit, 0.02);
/// assert!(policy.decide(&context, 1).unwrap().pmf[1] > 0.5);
/// for round in 0..40 {
///     policy.learn(&LearntRound::new(&context, round % 2, 1.0 - (round % 2) as f64));
/// }
/// assert!(policy.decide(&context, 1).unwrap().pmf[0] > 0.9);
/// ```
#[derive(Debug, Clone)]
pub struct Probit {
    settings: ProbitSettings,
    floor: f64,
    state: Learnt,
}

/// Settings of [`Probit`] and of the cascade.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbitSettings {
    /// What is expected of all arms, as a standard normal's quantile.
    pub mean: f64,
    /// Its prior variance, above 0.
    pub mean_variance: f64,
    /// What one standard deviation of the logarithm of the price is expected to add.
    pub price: f64,
    /// Its prior variance, above 0.
    pub price_variance: f64,
    /// Prior variance of the effect of a kind of task on all arms, above 0.
    pub kind_variance: f64,
    /// Prior variance of an arm's effect, above 0.
    pub arm_variance: f64,
    /// Prior variance of an arm's effect on a kind of task, above 0.
    pub cell_variance: f64,
    /// Exploration: 1 is Thompson sampling, 0 greedy.
    pub scale: f64,
    /// Posterior draws counted per decision, 1 to 4096.
    pub draws: u32,
    /// Rounds that the costs of all arms count for in one arm's, above 0.
    pub cost_mass: f64,
}

/// What was learnt: success and costs.
#[derive(Debug, Clone, Default)]
pub(in crate::action::policy) struct Learnt {
    pub model: Arc<Model>,
    pub spent: Spent,
    keep: Keep,
}

/// What is to be forgotten, once it is worth solving for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Keep {
    keep: f64,
    forgotten: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Self { keep: 1.0, forgotten: 0 }
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    model: model::Stored,
    spent: Spent,
    keep: Keep,
}

impl ProbitSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("mean", self.mean, -10.0, 10.0);
        checks.number("price", self.price, -10.0, 10.0);
        checks.positive([
            ("mean_variance", self.mean_variance),
            ("price_variance", self.price_variance),
            ("kind_variance", self.kind_variance),
            ("arm_variance", self.arm_variance),
            ("cell_variance", self.cell_variance),
            ("cost_mass", self.cost_mass),
        ]);
        checks.draws(self.scale, self.scale, self.draws);
    }

    pub(in crate::action::policy) fn prior(&self, effect: &Effect) -> Prior {
        match effect {
            Effect::Mean => Prior { mean: self.mean, variance: self.mean_variance },
            Effect::Price => Prior { mean: self.price, variance: self.price_variance },
            Effect::Kind(_) => Prior { mean: 0.0, variance: self.kind_variance },
            Effect::Arm(_) => Prior { mean: 0.0, variance: self.arm_variance },
            Effect::Cell(..) => Prior { mean: 0.0, variance: self.cell_variance },
            // A cascade brings its own.
            Effect::Task => Prior { mean: 0.0, variance: 0.0 },
        }
    }
}

/// The effects in each candidate's sum, in candidate order.
pub(in crate::action::policy) fn effects(context: &Context) -> Vec<Vec<(Effect, f64)>> {
    let prices = standardised_prices(&context.candidates);
    let features = features(context);
    let of = |(candidate, price): (&Candidate, &f64)| {
        let action = action_of(candidate);
        let mut effects = vec![(Effect::Mean, 1.0), (Effect::Price, *price), (Effect::Arm(action.clone()), 1.0)];
        for (feature, value) in &features {
            effects.push((Effect::Kind(feature.clone()), *value));
            effects.push((Effect::Cell(action.clone(), feature.clone()), *value));
        }
        effects
    };
    context.candidates.iter().zip(&prices).map(of).collect()
}

fn features(context: &Context) -> Vec<(Feature, f64)> {
    let mut features = vec![(Feature::Domain(context.domain.clone()), 1.0)];
    let characters = context.text.chars().count();
    if characters > 0 {
        // Two thousand characters are usual; 50 and 100,000 are far ends.
        let length = ((characters.max(50) as f64).log2() - 11.0) / 2.0;
        features.push((Feature::Length, length.clamp(-2.0, 2.0)));
    }
    features
}

/// ln(cost), with mean 0 and deviation 1 over the candidates that have a price; 0 for the others.
fn standardised_prices(candidates: &[Candidate]) -> Vec<f64> {
    let ln = |candidate: &Candidate| {
        (candidate.cost_usd > 0.0 && candidate.cost_usd.is_finite()).then(|| candidate.cost_usd.ln())
    };
    let known: Vec<f64> = candidates.iter().filter_map(ln).collect();
    let n = known.len().max(1) as f64;
    let mean = known.iter().sum::<f64>() / n;
    let deviation = (known.iter().map(|price| (price - mean).powi(2)).sum::<f64>() / n).sqrt();
    let standardised = |price: f64| if deviation > 1e-9 { (price - mean) / deviation } else { 0.0 };
    candidates.iter().map(|candidate| ln(candidate).map_or(0.0, standardised)).collect()
}

/// The factor of the joint covariance of some sums.
pub(in crate::action::policy) fn factor(
    model: &Model,
    sums: &[Terms],
    policy: &'static str,
) -> Result<Cholesky, PolicyError> {
    let mut covariance = Array2::from_shape_fn((sums.len(), sums.len()), |(a, b)| model.covariance(&sums[a], &sums[b]));
    covariance.diag_mut().iter_mut().for_each(|variance| *variance += JITTER);
    Cholesky::of(covariance.view()).ok_or(PolicyError::NotFinite { policy, what: "posterior" })
}

impl Learnt {
    /// Forgets, once enough is to be forgotten.
    pub fn forget(&mut self, keep: f64, prior: impl Fn(&Effect) -> Prior) {
        self.keep.keep *= keep;
        self.keep.forgotten += 1;
        if self.keep.forgotten >= FORGET_EVERY {
            Arc::make_mut(&mut self.model).forget(self.keep.keep, prior);
            self.spent.forget(self.keep.keep);
            self.keep = Keep::default();
        }
    }

    pub fn state(&self) -> Value {
        write(&Stored { model: self.model.stored(), spent: self.spent.clone(), keep: self.keep })
    }

    pub fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError> {
        let Stored { model, spent, keep } = read(state)?;
        let fits = keep.keep > 0.0 && keep.keep <= 1.0 && keep.forgotten < FORGET_EVERY && spent.is_sound();
        let read = Model::read(model).filter(|_| fits);
        let (model, poisoned) = read.ok_or_else(|| StateError::Shape("a probit model of another shape".into()))?;
        *self = Self { model: Arc::new(model), spent, keep };
        Ok(poisoned)
    }
}

impl Probit {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: ProbitSettings, floor: f64) -> Self {
        Self { settings, floor, state: Learnt::default() }
    }
}

impl Policy for Probit {
    fn name(&self) -> &'static str {
        "probit"
    }

    fn decide(&self, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        if context.candidates.is_empty() {
            return Err(PolicyError::NoCandidate);
        }
        let ProbitSettings { scale, draws, cost_mass, .. } = self.settings;
        let mut model = (*self.state.model).clone();
        let prior = |effect: &Effect| self.settings.prior(effect);
        let sums: Vec<Terms> = effects(context).into_iter().map(|effects| model.terms(effects, prior)).collect();
        let costs = self.state.spent.of_task(context, cost_mass, 0.0);
        let mut priced = context.clone();
        for (place, candidate) in priced.candidates.iter_mut().enumerate() {
            if candidate.cost_usd > 0.0 {
                candidate.cost_usd = costs.expected_usd(place);
            }
        }
        let utility = Scale::of(&priced);
        let of = |(candidate, sum): (&Candidate, &Terms)| utility.mean(candidate, model.success(sum));
        let expected: Vec<f64> = priced.candidates.iter().zip(&sums).map(of).collect();
        let factor = factor(&model, &sums, self.name())?;
        let means: Vec<f64> = sums.iter().map(|sum| model.mean(sum)).collect();
        let pmf = joint_draws(sums.len(), &factor, draws, seed, |place, deviation| {
            utility.mean(&priced.candidates[place], phi(means[place] + scale * deviation))
        });
        let pmf = checked(self.name(), pmf.and_then(|pmf| with_floor(pmf, self.floor)))?;
        Ok(Opinion { pmf, expected, ..Opinion::default() })
    }

    fn learn(&mut self, round: &LearntRound<'_>) {
        let (Some((score, trust)), Some(place)) = (round.lesson(), round.place()) else { return };
        let prior = |effect: &Effect| self.settings.prior(effect);
        let model = Arc::make_mut(&mut self.state.model);
        let terms = model.terms(effects(round.context).swap_remove(place), prior);
        model.observe(&terms, score, trust);
        let attempt = Attempt {
            place,
            propensity: round.propensity,
            seed: round.seed,
            voters: Vec::new(),
            score,
            cost_usd: round.cost_usd,
        };
        self.state.spent.learn(round.context, &[attempt], self.settings.cost_mass, 0.0);
    }

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn forget(&mut self, keep: f64) {
        let settings = self.settings;
        self.state.forget(keep, |effect| settings.prior(effect));
    }

    fn state(&self) -> Value {
        self.state.state()
    }

    fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError> {
        self.state.restore(state)
    }
}

#[cfg(test)]
mod tests;
