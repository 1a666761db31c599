//! Costs: learns what arms really cost, where prices and a text's length say too little.
//!
//! Before an answer is there, a task's cost on an arm is guessed from the prompt and a usual length of answers. An arm that
//! thinks aloud, or that works on a repository for half an hour, costs a hundred times as much, and two arms of the same price
//! may differ by ten. So each arm's dollars are compared with what was expected of them, per domain and everywhere, and
//! expectations are corrected by that ratio before the inner policy weighs score against money.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Wrap;
use crate::{
    action::policy::{
        Action, Checks, DOMAINS_MAX, LearntRound, Opinion, Policy, PolicyError, StateError, read_state, write_state,
    },
    round::{Candidate, Context, Domain},
};

/// Expected costs, multiplied by a ratio that is learnt.
///
/// With S the dollars spent and E those expected of the same rounds, for arm a in domain d, for a everywhere, and for all arms:
/// ratio = (S + m c) / (E + m c); ratio_a = (S_a + m c ratio) / (E_a + m c); ratio_ad = (S_ad + m c ratio_a) / (E_ad + m c),
/// where c is the candidate's expected cost and m the `mass`: each level is shrunk to the one above it as if that had been seen
/// m times, and all of them to the prices.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, build};
/// # let arm = |name, usd| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), usd);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let mut context = Context::new(embedding, Domain::unknown(), vec![arm("terse", 0.01), arm("wordy", 0.01)]);
/// context.weights = RewardWeights { e1: 1.0, e2: -1.0 };
/// let mut policy = build("costs:domain_prior", &PolicySettings::default()).unwrap();
/// for round in 0..40 {
///     // Both are right as often; one needs fifty times the tokens.
///     let cost_usd = [0.01, 0.5][round % 2];
///     policy.learn(&LearntRound { cost_usd, ..LearntRound::new(&context, round % 2, 1.0) });
/// }
/// assert!(policy.decide(&context, 1).unwrap().pmf[0] > 0.9);
/// ```
#[derive(Debug, Clone)]
pub struct Costs {
    settings: CostsSettings,
    all: Spent,
    arms: Arc<BTreeMap<Action, Spent>>,
    domains: BTreeMap<Domain, Arc<BTreeMap<Action, Spent>>>,
}

/// Settings of [`Costs`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostsSettings {
    /// m: rounds that the level above counts for, above 0.
    pub mass: f64,
}

/// Dollars over some rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Spent {
    expected_usd: f64,
    usd: f64,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    all: Spent,
    arms: Vec<(Action, Spent)>,
    domains: Vec<(Domain, Vec<(Action, Spent)>)>,
}

impl CostsSettings {
    pub(in crate::action) fn check(&self, checks: &mut Checks) {
        checks.number("mass", self.mass, 1e-9, 1e9);
    }
}

impl Spent {
    fn add(&mut self, expected_usd: f64, usd: f64) {
        self.expected_usd += expected_usd;
        self.usd += usd;
    }

    fn ratio(&self, weight_usd: f64, above: f64) -> f64 {
        (self.usd + weight_usd * above) / (self.expected_usd + weight_usd)
    }

    fn is_sound(&self) -> bool {
        [self.expected_usd, self.usd].iter().all(|usd| (0.0..1e12).contains(usd))
    }
}

impl Costs {
    /// Nothing learnt yet: prices are believed.
    pub fn new(settings: CostsSettings) -> Self {
        Self { settings, all: Spent::default(), arms: Arc::default(), domains: BTreeMap::new() }
    }

    /// What a candidate is expected to cost.
    fn corrected(&self, domain: &Domain, candidate: &Candidate) -> f64 {
        let expected = candidate.cost_usd;
        // Without a price there is nothing to multiply.
        if !(expected > 0.0 && expected.is_finite()) {
            return expected;
        }
        let action = (candidate.mode, candidate.arm.clone());
        let weight = self.settings.mass * expected;
        let everywhere = self.arms.get(&action).copied().unwrap_or_default();
        let here = self.domains.get(domain).and_then(|arms| arms.get(&action)).copied().unwrap_or_default();
        let above = everywhere.ratio(weight, self.all.ratio(weight, 1.0));
        expected * here.ratio(weight, above)
    }
}

impl Wrap for Costs {
    fn decide(&self, inner: &dyn Policy, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        let mut context = context.clone();
        let domain = context.domain.clone();
        for candidate in &mut context.candidates {
            candidate.cost_usd = self.corrected(&domain, candidate);
        }
        inner.decide(&context, seed)
    }

    fn learn(&mut self, _inner: &mut dyn Policy, round: &LearntRound<'_>) {
        let of_round = |candidate: &&Candidate| candidate.mode == round.mode && candidate.arm == *round.arm;
        let Some(candidate) = round.context.candidates.iter().find(of_round) else { return };
        let (expected, usd) = (candidate.cost_usd, round.cost_usd);
        if !(expected > 0.0 && expected.is_finite() && (0.0..1e9).contains(&usd)) {
            return;
        }
        let action = (round.mode, round.arm.clone());
        self.all.add(expected, usd);
        Arc::make_mut(&mut self.arms).entry(action.clone()).or_default().add(expected, usd);
        let domain = &round.context.domain;
        if self.domains.len() < DOMAINS_MAX || self.domains.contains_key(domain) {
            let arms = self.domains.entry(domain.clone()).or_default();
            Arc::make_mut(arms).entry(action).or_default().add(expected, usd);
        }
    }

    fn state(&self) -> Value {
        let rows =
            |arms: &BTreeMap<Action, Spent>| arms.iter().map(|(action, spent)| (action.clone(), *spent)).collect();
        let domains = self.domains.iter().map(|(domain, arms)| (domain.clone(), rows(arms))).collect();
        write_state(&Stored { all: self.all, arms: rows(&self.arms), domains })
    }

    fn restore(&mut self, state: &Value) -> Result<(), StateError> {
        let Stored { all, arms, domains } = read_state(state)?;
        let every = arms.iter().chain(domains.iter().flat_map(|(_, arms)| arms)).map(|(_, spent)| spent);
        if domains.len() > DOMAINS_MAX || !every.chain([&all]).all(Spent::is_sound) {
            return Err(StateError::Shape("costs that make no sense".into()));
        }
        self.all = all;
        self.arms = Arc::new(arms.into_iter().collect());
        self.domains =
            domains.into_iter().map(|(domain, arms)| (domain, Arc::new(arms.into_iter().collect()))).collect();
        Ok(())
    }
}
