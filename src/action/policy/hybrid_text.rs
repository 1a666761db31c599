//! Hybrid with text: domain, text, arm and arm-by-domain effects in one joint normal model, explored by Thompson sampling.
//!
//! What a text is about tells how hard it is for all arms alike, and that is most of the noise that `hybrid_linear` still
//! has to average out. So the text's effect is shared by all arms and cancels when they are compared: it costs no
//! exploration, only a larger matrix to learn with. The text is seen as its
//! nearness to a few `landmarks`.
//!
//! The posterior is kept as mean and covariance (Sherman-Morrison), and solved afresh from the precision now and then,
//! since rounding drifts. Arms and domains get their rows when first seen; past [`DIMENSIONS_MAX`] rows new arm-by-domain
//! effects are left at their prior.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ndarray::{Array1, Array2, s};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Action, LearntRound, Opinion, Policy, PolicyError, StateError, action_of,
    card::Checks,
    joint::{Draws, Posterior, falling},
    landmarks::Landmarks,
    state::{read, write},
};
use crate::{
    action::cholesky::Cholesky,
    round::{Candidate, Context, Domain},
};

/// The most rows of the model: learning costs its square.
const DIMENSIONS_MAX: usize = 256;
/// Updates between two exact solves.
const REFRESH_EVERY: u32 = 256;
/// Rounds that are forgotten at once: each time, the model has to be solved afresh.
const FORGET_EVERY: u32 = 64;

/// Thompson sampling on a mixed-effects linear model with shared text effects.
///
/// y = delta_d + beta . phi(x) + alpha_a + gamma_ad + e; delta ~ N(0, 1/p_d), beta_k ~ N(0, 1/p_t), alpha ~ N(0, 1/p_a),
/// gamma ~ N(0, 1/p_ad), e ~ N(0, noise / trust); phi is the text's nearness to the landmarks. The arms are compared by
/// the joint posterior of alpha_a + gamma_ad, whose deviations from the mean are multiplied by a scale that falls linearly
/// from `scale_start` to `scale_end` over `scale_rounds` rounds.
///
/// Reference: Li, Chu, Langford and Schapire, A Contextual-Bandit Approach to Personalized News Article
/// Recommendation, 2010, section 3.2 (shared and per-arm effects), with the sampling of Agrawal and Goyal, Thompson
/// Sampling for Contextual Bandits with Linear Payoffs, 2013.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{HybridText, LearntRound, Policy, PolicySettings};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let mut policy = HybridText::new(PolicySettings::default().hybrid_text, 0.02);
/// for round in 0..80 {
///     let place = round % 2;
///     policy.learn(&LearntRound::new(&context, place, place as f64));
/// }
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.01, 0.99]);
/// ```
#[derive(Debug, Clone)]
pub struct HybridText {
    settings: HybridTextSettings,
    floor: f64,
    model: Arc<Model>,
    landmarks: Landmarks,
    rounds: u64,
    keep: f64,
    forgotten: u32,
}

/// Settings of [`HybridText`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HybridTextSettings {
    /// p_d: prior precision of a domain's effect, above 0.
    pub domain_precision: f64,
    /// p_t: prior precision of a landmark's effect, above 0.
    pub text_precision: f64,
    /// p_a: prior precision of an arm's effect, above 0.
    pub arm_precision: f64,
    /// p_ad: prior precision of an arm's effect in one domain, above 0.
    pub cell_precision: f64,
    /// Variance of one round's score around its mean, above 0.
    pub noise: f64,
    /// Exploration at the first round, at least 0; 1 is Thompson sampling.
    pub scale_start: f64,
    /// Exploration from round `scale_rounds` on, at least 0.
    pub scale_end: f64,
    /// Rounds over which exploration falls.
    pub scale_rounds: u64,
    /// Posterior draws counted per decision, 1 to 4096.
    pub draws: u32,
    /// How many landmarks, 0 to 64.
    pub landmarks: usize,
    /// A text less alike to all landmarks becomes a new one, in [0, 1].
    pub landmark_similarity: f64,
    /// How much faster than the cosine nearness falls, 1 to 64.
    pub landmark_power: u32,
}

/// One effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Effect {
    Domain(Domain),
    Text(usize),
    Arm(Action),
    Cell(Action, Domain),
}

/// The joint posterior of all effects.
#[derive(Debug, Clone, Default)]
struct Model {
    places: BTreeMap<Effect, usize>,
    precision: Array2<f64>,
    moment: Array1<f64>,
    covariance: Array2<f64>,
    mean: Array1<f64>,
    since_solve: u32,
}

/// The policy as stored; null is NaN.
#[derive(Serialize, Deserialize)]
struct Stored {
    effects: Vec<Effect>,
    precision: Vec<Option<f64>>,
    moment: Vec<Option<f64>>,
    covariance: Vec<Option<f64>>,
    mean: Vec<Option<f64>>,
    since_solve: u32,
    landmarks: Landmarks,
    rounds: u64,
    keep: f64,
    forgotten: u32,
}

impl HybridTextSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.positive([
            ("domain_precision", self.domain_precision),
            ("text_precision", self.text_precision),
            ("arm_precision", self.arm_precision),
            ("cell_precision", self.cell_precision),
            ("noise", self.noise),
        ]);
        checks.draws(self.scale_start, self.scale_end, self.draws);
        checks.number("landmarks", self.landmarks as f64, 0.0, 64.0);
        checks.number("landmark_similarity", self.landmark_similarity, 0.0, 1.0);
        checks.number("landmark_power", self.landmark_power.into(), 1.0, 64.0);
    }

    fn power(&self) -> i32 {
        self.landmark_power.try_into().unwrap_or(i32::MAX)
    }

    fn prior_precision(&self, effect: &Effect) -> f64 {
        match effect {
            Effect::Domain(_) => self.domain_precision,
            Effect::Text(_) => self.text_precision,
            Effect::Arm(_) => self.arm_precision,
            Effect::Cell(..) => self.cell_precision,
        }
    }
}

impl Model {
    fn dimensions(&self) -> usize {
        self.mean.len()
    }

    /// The place of an effect, which gets its prior and a place where it has none; nothing where there is no room.
    fn place(&mut self, effect: Effect, prior_precision: f64) -> Option<usize> {
        if let Some(place) = self.places.get(&effect) {
            return Some(*place);
        }
        let n = self.dimensions();
        if n >= DIMENSIONS_MAX {
            return None;
        }
        // A new effect is independent of all others, so this is exact.
        let grown = |old: &Array2<f64>, corner: f64| {
            let mut new = Array2::zeros((n + 1, n + 1));
            new.slice_mut(s![..n, ..n]).assign(old);
            new[[n, n]] = corner;
            new
        };
        self.precision = grown(&self.precision, prior_precision);
        self.covariance = grown(&self.covariance, 1.0 / prior_precision);
        let longer = |old: &Array1<f64>| old.iter().copied().chain([0.0]).collect();
        (self.moment, self.mean) = (longer(&self.moment), longer(&self.mean));
        self.places.insert(effect, n);
        Some(n)
    }

    /// One observation y of the sum of `x`'s effects (places and values) with a noise variance.
    fn observe(&mut self, x: &[(usize, f64)], y: f64, noise: f64) {
        let mut direction = Array1::zeros(self.dimensions());
        let mut predicted = 0.0;
        for (place, value) in x {
            // The covariance is symmetric: a row is a column.
            direction.scaled_add(*value, &self.covariance.row(*place));
            predicted += value * self.mean[*place];
        }
        let variance = noise + x.iter().map(|(place, value)| value * direction[*place]).sum::<f64>();
        self.mean.scaled_add((y - predicted) / variance, &direction);
        let shrink = -1.0 / variance;
        for (mut row, along) in self.covariance.rows_mut().into_iter().zip(&direction) {
            row.scaled_add(shrink * along, &direction);
        }
        for (row, a) in x {
            self.moment[*row] += a * y / noise;
            x.iter().for_each(|(column, b)| self.precision[[*row, *column]] += a * b / noise);
        }
        self.since_solve += 1;
        if self.since_solve >= REFRESH_EVERY {
            self.solve();
        }
    }

    fn forget(&mut self, keep: f64, settings: &HybridTextSettings) {
        self.precision *= keep;
        self.moment *= keep;
        for (effect, place) in &self.places {
            self.precision[[*place, *place]] += (1.0 - keep) * settings.prior_precision(effect);
        }
        self.solve();
    }

    fn solve(&mut self) {
        // The prior makes the precision positive definite; were rounding to say otherwise, the running numbers stay.
        if let Some(factor) = Cholesky::of(self.precision.view()) {
            self.covariance = factor.inverse();
            // The inverse is symmetric up to rounding; updates take it for symmetric.
            self.covariance = (&self.covariance + &self.covariance.t()) / 2.0;
            self.mean = self.covariance.dot(&self.moment);
            self.since_solve = 0;
        }
    }

    /// The model of some of its effects, the others held at 0.
    fn only(&self, keep: impl Fn(&Effect) -> bool) -> Self {
        let mut kept: Vec<(&Effect, usize)> =
            self.places.iter().filter(|(effect, _)| keep(effect)).map(|(effect, place)| (effect, *place)).collect();
        kept.sort_by_key(|(_, place)| *place);
        let n = kept.len();
        let from = |place: usize| kept[place].1;
        let mut model = Self {
            places: kept.iter().enumerate().map(|(place, (effect, _))| ((*effect).clone(), place)).collect(),
            precision: Array2::from_shape_fn((n, n), |(i, j)| self.precision[[from(i), from(j)]]),
            moment: Array1::from_shape_fn(n, |i| self.moment[from(i)]),
            covariance: Array2::zeros((n, n)),
            mean: Array1::zeros(n),
            since_solve: 0,
        };
        model.solve();
        model
    }
}

impl HybridText {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: HybridTextSettings, floor: f64) -> Self {
        let (model, landmarks) = (Arc::default(), Landmarks::default());
        Self { settings, floor, model, landmarks, rounds: 0, keep: 1.0, forgotten: 0 }
    }

    /// The joint posterior of the candidates' own effects, and what the task's domain and text add to all of them.
    fn posterior(&self, context: &Context) -> Posterior {
        let Context { embedding, domain, candidates, .. } = context;
        let HybridTextSettings { arm_precision, cell_precision, .. } = self.settings;
        let model = &*self.model;
        let place = |effect: &Effect| model.places.get(effect).copied();
        let of = |candidate: &Candidate| {
            let action = action_of(candidate);
            [place(&Effect::Arm(action.clone())), place(&Effect::Cell(action, domain.clone()))]
        };
        let places: Vec<[Option<usize>; 2]> = candidates.iter().map(of).collect();
        let mean = places.iter().map(|of| of.iter().flatten().map(|place| model.mean[*place]).sum()).collect();
        let mut covariance = Array2::from_shape_fn((places.len(), places.len()), |(a, b)| {
            let pairs = places[a].iter().flatten().flat_map(|i| places[b].iter().flatten().map(move |j| (*i, *j)));
            pairs.map(|(i, j)| model.covariance[[i, j]]).sum::<f64>()
        });
        for (candidate, of) in places.iter().enumerate() {
            // An effect that was never seen has its prior, independent of all others.
            let unseen = of.iter().zip([arm_precision, cell_precision]).filter(|(place, _)| place.is_none());
            covariance[[candidate, candidate]] += unseen.map(|(_, precision)| 1.0 / precision).sum::<f64>();
        }
        let of_text = self.landmarks.nearness(embedding, self.settings.power()).into_iter().enumerate();
        let shared = of_text.map(|(number, near)| (Effect::Text(number), near));
        let shared = shared.chain([(Effect::Domain(domain.clone()), 1.0)]);
        let common = shared.filter_map(|(effect, value)| Some(value * model.mean[place(&effect)?])).sum();
        Posterior { common, mean, covariance }
    }
}

impl Policy for HybridText {
    fn name(&self) -> &'static str {
        "hybrid_text"
    }

    fn decide(&self, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        if context.candidates.is_empty() {
            return Err(PolicyError::NoCandidate);
        }
        let HybridTextSettings { scale_start, scale_end, scale_rounds, draws, .. } = self.settings;
        let scale = falling(scale_start, scale_end, scale_rounds, self.rounds);
        let draws = Draws { scale, number: draws, seed, floor: self.floor };
        self.posterior(context).explore(self.name(), context, &draws)
    }

    fn learn(&mut self, round: &LearntRound<'_>) {
        let Some((score, trust)) = round.lesson() else { return };
        let settings = self.settings;
        let power = settings.power();
        let (most, similarity) = (settings.landmarks, settings.landmark_similarity);
        let text = self.landmarks.learn(&round.context.embedding, most, similarity, power);
        let (action, domain) = (round.action(), round.context.domain.clone());
        let own = [Effect::Arm(action.clone()), Effect::Domain(domain.clone()), Effect::Cell(action, domain)];
        let text = text.into_iter().enumerate().map(|(place, near)| (Effect::Text(place), near));
        let model = Arc::make_mut(&mut self.model);
        let effects = own.into_iter().map(|effect| (effect, 1.0)).chain(text);
        let x: Vec<(usize, f64)> = effects
            .filter_map(|(effect, value)| {
                let prior = settings.prior_precision(&effect);
                Some((model.place(effect, prior)?, value))
            })
            .collect();
        model.observe(&x, score, settings.noise / trust);
        self.rounds += 1;
    }

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn forget(&mut self, keep: f64) {
        self.keep *= keep;
        self.forgotten += 1;
        if self.forgotten >= FORGET_EVERY {
            Arc::make_mut(&mut self.model).forget(self.keep, &self.settings);
            (self.keep, self.forgotten) = (1.0, 0);
        }
    }

    fn state(&self) -> Value {
        let model = &*self.model;
        let mut effects: Vec<(&Effect, &usize)> = model.places.iter().collect();
        effects.sort_by_key(|(_, place)| **place);
        let numbers = |numbers: &Array2<f64>| numbers.iter().map(|number| Some(*number)).collect();
        let vector = |numbers: &Array1<f64>| numbers.iter().map(|number| Some(*number)).collect();
        write(&Stored {
            effects: effects.into_iter().map(|(effect, _)| effect.clone()).collect(),
            precision: numbers(&model.precision),
            moment: vector(&model.moment),
            covariance: numbers(&model.covariance),
            mean: vector(&model.mean),
            since_solve: model.since_solve,
            landmarks: self.landmarks.clone(),
            rounds: self.rounds,
            keep: self.keep,
            forgotten: self.forgotten,
        })
    }

    fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError> {
        let stored: Stored = read(state)?;
        let fits = stored.keep > 0.0 && stored.keep <= 1.0 && stored.forgotten < FORGET_EVERY;
        let small = self.landmarks_fit(&stored.landmarks) && stored.effects.len() <= DIMENSIONS_MAX;
        let model = stored.model().filter(|_| fits && small && stored.since_solve < REFRESH_EVERY);
        let model = model.ok_or_else(|| StateError::Shape("a joint model of another shape".into()))?;
        let unsound = model.unsound();
        let of_action = |effect: &Effect| match effect {
            Effect::Arm(action) | Effect::Cell(action, _) => Some(action.clone()),
            Effect::Domain(_) | Effect::Text(_) => None,
        };
        let poisoned: BTreeSet<Action> = unsound.iter().filter_map(of_action).collect();
        let keeps = |effect: &Effect| {
            !unsound.contains(effect) && of_action(effect).is_none_or(|action| !poisoned.contains(&action))
        };
        self.model = Arc::new(if unsound.is_empty() { model } else { model.only(keeps) });
        (self.landmarks, self.rounds) = (stored.landmarks, stored.rounds);
        (self.keep, self.forgotten) = (stored.keep, stored.forgotten);
        Ok(poisoned.into_iter().collect())
    }
}

impl HybridText {
    fn landmarks_fit(&self, landmarks: &Landmarks) -> bool {
        landmarks.len() <= self.settings.landmarks && landmarks.is_sound()
    }
}

impl Stored {
    fn model(&self) -> Option<Model> {
        let n = self.effects.len();
        let read = |numbers: &[Option<f64>]| -> Vec<f64> { numbers.iter().map(|x| x.unwrap_or(f64::NAN)).collect() };
        let matrix = |numbers: &[Option<f64>]| Array2::from_shape_vec((n, n), read(numbers)).ok();
        let places: BTreeMap<Effect, usize> = self.effects.iter().cloned().zip(0..).collect();
        let whole = places.len() == n && self.moment.len() == n && self.mean.len() == n;
        Some(Model {
            places,
            precision: matrix(&self.precision)?,
            moment: read(&self.moment).into(),
            covariance: matrix(&self.covariance)?,
            mean: read(&self.mean).into(),
            since_solve: self.since_solve,
        })
        .filter(|_| whole)
    }
}

impl Model {
    /// The effects whose numbers make no sense.
    fn unsound(&self) -> BTreeSet<Effect> {
        let sound = |place: usize| {
            let row = |matrix: &Array2<f64>| matrix.row(place).iter().all(|x| x.is_finite() && x.abs() < 1e12);
            let (mean, variance) = (self.mean[place], self.covariance[[place, place]]);
            row(&self.precision)
                && row(&self.covariance)
                && variance > 0.0
                && mean.abs() < 1e6
                && self.moment[place].is_finite()
        };
        self.places.iter().filter(|(_, place)| !sound(**place)).map(|(effect, _)| effect.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
