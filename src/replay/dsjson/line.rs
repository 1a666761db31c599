//! One line, checked.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value};

use super::{DsjsonProblem, features};
use crate::{
    action::sample::SUM_TOLERANCE,
    round::{ArmFeatures, ArmId, Domain, Embedding},
};

/// How far probabilities of 32 bits, often written with six digits, may be from what they should be.
const TOLERANCE: f64 = 1e-3;

/// What a line is.
pub(super) enum Line {
    Round(Box<Example>),
    Unlabelled,
    NotToLearn,
    WithoutActions,
}

/// One round.
pub(super) struct Example {
    pub cost: f64,
    /// The place among the arms of what was taken.
    pub taken: usize,
    /// The arms' probabilities, which sum to 1.
    pub pmf: Vec<f64>,
    /// The arms that could be taken, in the order of `_multi`.
    pub arms: Vec<(ArmId, ArmFeatures)>,
    pub domain: Domain,
    pub embedding: Embedding,
    pub dropped_share: f64,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "_label_cost", alias = "_label_Cost")]
    cost: Option<f64>,
    #[serde(rename = "_label_probability", alias = "_label_Probability")]
    probability: Option<f64>,
    #[serde(rename = "_label_Action", alias = "_label_action")]
    action: Option<u64>,
    #[serde(rename = "_labelIndex", alias = "_labelindex")]
    index: Option<u64>,
    a: Option<Vec<u64>>,
    #[serde(rename = "p")]
    pmf: Option<Vec<f64>>,
    #[serde(rename = "_p")]
    underscored_pmf: Option<Vec<f64>>,
    c: Option<Map<String, Value>>,
    #[serde(rename = "pdrop")]
    dropped_share: Option<f64>,
    #[serde(rename = "_skipLearn")]
    not_to_learn: Option<bool>,
    #[serde(rename = "_outcomes")]
    outcomes: Option<IgnoredAny>,
    #[serde(rename = "_label_ca")]
    continuous: Option<IgnoredAny>,
}

impl Line {
    pub fn parse(text: &str) -> Result<Self, DsjsonProblem> {
        let raw: Raw = serde_json::from_str(text).map_err(DsjsonProblem::Json)?;
        for (field, found) in [("_outcomes", &raw.outcomes), ("_label_ca", &raw.continuous)] {
            if found.is_some() {
                return Err(DsjsonProblem::OtherKind { field });
            }
        }
        if raw.not_to_learn == Some(true) {
            return Ok(Self::NotToLearn);
        }
        let Some(cost) = raw.cost else {
            let actions = raw.a.as_ref().is_some_and(|a| !a.is_empty());
            return Ok(if actions { Self::Unlabelled } else { Self::WithoutActions });
        };
        if raw.a.as_ref().is_none_or(Vec::is_empty) {
            return Ok(Self::WithoutActions);
        }
        raw.example(cost).map(|example| Self::Round(Box::new(example)))
    }
}

impl Raw {
    fn example(mut self, cost: f64) -> Result<Example, DsjsonProblem> {
        if !cost.is_finite() {
            return Err(DsjsonProblem::Cost { cost });
        }
        let missing = |field, what| DsjsonProblem::Missing { field, what };
        let shared = self.c.take().ok_or_else(|| missing("c", "it holds what the decision was made on"))?;
        if shared.contains_key("_slots") {
            return Err(DsjsonProblem::OtherKind { field: "_slots" });
        }
        let multi = shared.get("_multi").and_then(Value::as_array).filter(|multi| !multi.is_empty());
        let multi = multi.ok_or_else(|| missing("_multi", "in c, a list with an object for each action"))?;
        let listed = self.listed(multi.len())?;
        let taken = self.taken(multi.len(), &listed)?;
        let pmf = self.pmf(&listed, taken, multi.len())?;
        let names = features::arms(multi)?;
        // Those that could not be taken are no candidates, and actions of one name are one arm.
        let mut places = listed;
        places.sort_unstable();
        let (mut arms, mut probabilities): (Vec<(ArmId, ArmFeatures)>, Vec<f64>) = (Vec::new(), Vec::new());
        for place in places {
            if let Some(known) = arms.iter().position(|(arm, _)| *arm == names[place]) {
                probabilities[known] = (probabilities[known] + pmf[place]).min(1.0);
            } else {
                arms.push((names[place].clone(), features::known(&multi[place])));
                probabilities.push(pmf[place]);
            }
        }
        let dropped_share = self.dropped_share.unwrap_or_default();
        if !(0.0..1.0).contains(&dropped_share) {
            return Err(DsjsonProblem::DroppedAll(dropped_share));
        }
        Ok(Example {
            cost,
            taken: arms.iter().position(|(arm, _)| *arm == names[taken]).unwrap_or_default(),
            pmf: probabilities,
            arms,
            domain: features::domain(&shared),
            embedding: features::embedding(&shared)?,
            dropped_share,
        })
    }

    /// The places of the listed actions, the one that was taken first.
    fn listed(&self, actions: usize) -> Result<Vec<usize>, DsjsonProblem> {
        let mut listed = Vec::with_capacity(actions);
        for action in self.a.iter().flatten() {
            let place =
                place(*action, actions).ok_or(DsjsonProblem::Action { field: "a", action: *action, actions })?;
            if listed.contains(&place) {
                return Err(DsjsonProblem::Actions { field: "a", problem: format!("names action {action} twice") });
            }
            listed.push(place);
        }
        Ok(listed)
    }

    /// The place of the action taken, on which all who name it have to agree.
    fn taken(&self, actions: usize, listed: &[usize]) -> Result<usize, DsjsonProblem> {
        let out_of_range = |field, action| DsjsonProblem::Action { field, action, actions };
        let index = self.index.map(|index| {
            place(index.saturating_add(1), actions).ok_or(out_of_range("_labelIndex", index.saturating_add(1)))
        });
        let action = self.action.map(|action| place(action, actions).ok_or(out_of_range("_label_Action", action)));
        let (index, action) = (index.transpose()?, action.transpose()?);
        if let Some((index, action)) = index.zip(action).filter(|(index, action)| index != action) {
            let problem = format!("is {index} (from 0), but _label_Action is {} (from 1)", action + 1);
            return Err(DsjsonProblem::Actions { field: "_labelIndex", problem });
        }
        let taken = index.or(action).unwrap_or(listed[0]);
        if !listed.contains(&taken) {
            let problem = format!("does not list action {} (from 1), which was taken", taken + 1);
            return Err(DsjsonProblem::Actions { field: "a", problem });
        }
        Ok(taken)
    }

    /// The probability of each action by its place, 0 for those that are not listed; it sums to 1.
    fn pmf(&self, listed: &[usize], taken: usize, actions: usize) -> Result<Vec<f64>, DsjsonProblem> {
        let Some(stated) = self.pmf.as_ref().or(self.underscored_pmf.as_ref()) else {
            let field = if self.probability.is_none() { "p and _label_probability are" } else { "p is" };
            return Err(DsjsonProblem::NoProbability { field });
        };
        if stated.len() != listed.len() {
            return Err(DsjsonProblem::Pmf(format!("has {} entries, a has {}", stated.len(), listed.len())));
        }
        if stated.iter().any(|p| !(0.0..=1.0 + TOLERANCE).contains(p)) {
            return Err(DsjsonProblem::Pmf("has an entry that is not from 0 to 1".into()));
        }
        let sum: f64 = stated.iter().sum();
        if (sum - 1.0).abs() > TOLERANCE {
            return Err(DsjsonProblem::Pmf(format!("sums to {:.6}, not to 1", sum)));
        }
        // Numbers that were not rounded stay as they are.
        let scale = if (sum - 1.0).abs() > SUM_TOLERANCE { sum } else { 1.0 };
        let mut pmf = vec![0.0; actions];
        listed.iter().zip(stated).for_each(|(place, p)| pmf[*place] = (p / scale).min(1.0));
        let p = pmf[taken];
        let said = self.probability.unwrap_or(p);
        for p in [p, said] {
            if !(p > 0.0 && p <= 1.0 + TOLERANCE) {
                return Err(DsjsonProblem::Probability { p });
            }
        }
        if (said - p).abs() > TOLERANCE * p {
            return Err(DsjsonProblem::Disagree { label: said, p });
        }
        Ok(pmf)
    }
}

/// The place of an action that is counted from 1.
fn place(action: u64, actions: usize) -> Option<usize> {
    usize::try_from(action).ok()?.checked_sub(1).filter(|place| *place < actions)
}
