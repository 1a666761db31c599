//! Bag: several linear models, each trained on its own resample of the rounds, that vote.
//!
//! The models disagree about as much as the data leaves open, so their vote is Thompson sampling without a
//! posterior: nothing is assumed of the noise. Online, a resample is each round taken Poisson(1) times. The number comes
//! from the decision's seed and the model's place, so that learning again gives the same models; it is a stream of
//! its own, so that it does not depend on the arm that the seed drew. Few models make few distinct probabilities.

use std::collections::BTreeSet;

use rand_distr::{Distribution, Poisson};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Action, Estimates, LearntRound, Opinion, Policy, PolicyError, StateError, action_of,
    card::Checks,
    estimates::Scale,
    features::{FeatureSettings, Features},
    ridge::Ridges,
    state::read,
};
use crate::{
    action::{
        explore::{greedy, with_floor},
        sample::{Stream, stream},
    },
    round::Context,
};

/// Bagged greedy policies by the online bootstrap.
///
/// Model b learns round t with weight c_bt * trust, c_bt ~ Poisson(1); p_a = (1 - floor) * the share of models whose
/// estimate g + theta_ab . x is the best utility for arm a (ties share) + floor / K. The share is exact, not drawn.
///
/// References: Oza and Russell, Online Bagging and Boosting, 2001; Bietti, Agarwal and Langford, A Contextual Bandit
/// Bake-off, 2021 (bag); Eckles and Kaptein, Thompson Sampling with the Online Bootstrap, 2014.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, Bag};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let settings = PolicySettings::default();
/// let mut policy = Bag::new(settings.bag, settings.features, 0.02);
/// for round in 0..40 {
///     let place = round as usize % 2;
///     policy.learn(&LearntRound { seed: round, ..LearntRound::new(&context, place, place as f64) });
/// }
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.01, 0.99]);
/// ```
#[derive(Debug, Clone)]
pub struct Bag {
    settings: BagSettings,
    floor: f64,
    features: Features,
    models: Vec<Ridges>,
}

/// Settings of [`Bag`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BagSettings {
    /// Models, 1 to 64.
    pub models: u32,
    /// Ridge, above 0.
    pub l2: f64,
    /// g: the score expected of an arm never tried, in [0, 1].
    pub prior_mean: f64,
}

impl BagSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("models", self.models.into(), 1.0, 64.0);
        checks.ridge(self.l2, self.prior_mean);
    }
}

impl Bag {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: BagSettings, features: FeatureSettings, floor: f64) -> Self {
        let features = Features::new(features);
        let model = Ridges::new(features.dimensions(), settings.l2);
        Self { settings, floor, features, models: vec![model; settings.models.max(1) as usize] }
    }

    /// Each model's expected score of each candidate.
    fn scores(&self, context: &Context) -> Vec<Vec<f64>> {
        let mut scores = vec![Vec::with_capacity(context.candidates.len()); self.models.len()];
        let mut x = self.features.shared(context);
        for candidate in &context.candidates {
            self.features.complete(&mut x, context, candidate);
            let action = action_of(candidate);
            for (scores, model) in scores.iter_mut().zip(&self.models) {
                scores.push(self.settings.prior_mean + model.mean(&action, x.view()));
            }
        }
        scores
    }
}

/// How often the model at `place` takes a round.
fn copies(seed: u64, place: u32) -> f64 {
    let once = Poisson::new(1.0).expect("1 is a rate");
    once.sample(&mut stream(seed, Stream::Bag(place)))
}

impl Policy for Bag {
    fn name(&self) -> &'static str {
        "bag"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        let scores = self.scores(context);
        let models = scores.len() as f64;
        let mean = |place: usize| scores.iter().map(|scores| scores[place]).sum::<f64>() / models;
        let means = (0..context.candidates.len()).map(|place| (mean(place), 0.0));
        let scale = Scale::of(context);
        Estimates::of_scores(context, means).explore_among(self.name(), |_, sound| {
            let mut pmf = vec![0.0; sound.len()];
            for scores in &scores {
                let utility = |place: &usize| scale.mean(&context.candidates[*place], scores[*place]);
                let favoured = greedy(&sound.iter().map(utility).collect::<Vec<_>>())?;
                pmf.iter_mut().zip(favoured).for_each(|(p, favoured)| *p += favoured / models);
            }
            with_floor(pmf, self.floor)
        })
    }

    fn learn(&mut self, round: &LearntRound<'_>) {
        let Some((score, trust)) = round.lesson() else { return };
        let Some(x) = self.features.learnt(round) else { return };
        for (place, model) in (0..).zip(&mut self.models) {
            let weight = trust * copies(round.seed, place);
            if weight > 0.0 {
                model.learn(round.action(), x.view(), score - self.settings.prior_mean, weight);
            }
        }
    }

    fn forget(&mut self, keep: f64) {
        self.models.iter_mut().for_each(|model| model.forget(keep));
    }

    fn state(&self) -> Value {
        let models: Vec<Value> = self.models.iter().map(Ridges::state).collect();
        json!({"domains": self.features.state(), "models": models})
    }

    fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError> {
        let stored: Vec<Value> = read(&state["models"])?;
        if stored.len() != self.models.len() {
            return Err(StateError::Shape(format!("{} models, not {}", stored.len(), self.models.len())));
        }
        let mut restored = self.clone();
        restored.features.restore(&state["domains"])?;
        let mut poisoned = BTreeSet::new();
        for (model, state) in restored.models.iter_mut().zip(&stored) {
            poisoned.extend(model.restore(state)?);
        }
        // An action whose numbers are wrong in one model is not believed in the others.
        for action in &poisoned {
            restored.models.iter_mut().for_each(|model| model.remove(action));
        }
        *self = restored;
        Ok(poisoned.into_iter().collect())
    }

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{PolicySettings, environment::context},
        *,
    };

    #[test]
    fn a_round_is_taken_once_on_average_and_independently_by_each_model() {
        let rounds = 20_000;
        let count = |place| (0..rounds).map(|seed| copies(seed, place)).sum::<f64>() / rounds as f64;
        let together = (0..rounds).map(|seed| copies(seed, 0) * copies(seed, 1)).sum::<f64>() / rounds as f64;
        // Four standard errors: 4 / sqrt(20,000) for one, 4 * sqrt(3 / 20,000) for the product.
        assert!((count(0) - 1.0).abs() < 0.029 && (count(1) - 1.0).abs() < 0.029);
        assert!((together - 1.0).abs() < 0.05, "{together}");
    }

    #[test]
    fn the_probability_is_the_share_of_models_that_favour_the_arm() {
        let settings = PolicySettings::default();
        let mut policy = Bag::new(BagSettings { models: 4, ..settings.bag }, settings.features, 0.0);
        let context = context(2);
        let x = policy.features.shared(&context);
        for (model, target) in policy.models.iter_mut().zip([0.4, 0.4, 0.4, -0.4]) {
            model.learn(action_of(&context.candidates[1]), x.view(), target, 1.0);
        }
        assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.25, 0.75]);
    }

    #[test]
    fn a_damaged_row_of_one_model_costs_its_action_in_all() {
        let settings = PolicySettings::default();
        let mut policy = Bag::new(settings.bag, settings.features, 0.0);
        let context = context(2);
        for seed in 0..40 {
            policy.learn(&LearntRound { seed, ..LearntRound::new(&context, seed as usize % 2, 1.0) });
        }
        let mut state = policy.state();
        state["models"][3]["rows"][0]["numbers"][5] = Value::Null;
        let action = action_of(&context.candidates[0]);
        assert_eq!(policy.restore(&state).unwrap(), std::slice::from_ref(&action));
        let x = policy.features.shared(&context);
        assert!(policy.models.iter().all(|model| model.mean(&action, x.view()) == 0.0));
    }
}
