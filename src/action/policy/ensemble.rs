//! The ensemble: a weighted vote of policies, whose weights are learnt per domain from what their votes earned.
//!
//! All voters learn from every round, whoever brought the arm forward, so a weak voter costs its share of the vote
//! but no data. A voter that fails in a decision is seen there with weight 0 and an empty distribution, and its
//! weight goes to the others. Weights follow the voters' views as the decision recorded them. Where another policy
//! decided (before this one was promoted, or while it is a shadow), the voters are asked when the round is learnt.
//!
//! A voter may abstain where it knows too little of such tasks, which counts as failing; the others decide among themselves. Of
//! a probing set only those learn that are told to: an expert of what was probed decides what is like it, and one that
//! starts cold decides what is not, with nothing to unlearn.

use std::{collections::BTreeMap, sync::Arc};

use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Action, LearntRound, Opinion, Policy, PolicyError, StateError,
    card::{Checks, LARGE},
    estimates::checked,
    standings::DOMAINS_MAX,
    state::{read, write},
};
use crate::{
    action::{
        explore::with_floor,
        sample::{Stream, stream},
    },
    round::{Context, Domain, VoterView},
};

/// EXP4 with fixed share, per domain.
///
/// p = (1 - floor) sum_v w_v p_v + floor / K. After a round with action a and utility u: gain_v = min(p_v(a) / p(a),
/// ratio_max) (u - b), b the domain's running mean utility (a baseline that moves all gains alike in expectation, and
/// cuts their variance); w_v <- w_v exp(rate gain_v), normalised, then w <- (1 - share) w + share w0 with w0 the
/// starting weights, so that a voter can come back. Cutting the ratio bounds one round's step; it biases against
/// voters that differ much from the vote, by less the larger `ratio_max`.
///
/// References: Auer, Cesa-Bianchi, Freund and Schapire, The Nonstochastic Multiarmed Bandit Problem, 2002 (EXP4);
/// Herbster and Warmuth, Tracking the Best Expert, 1998 (fixed share).
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{PolicySettings, build};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let policy = build("ensemble", &PolicySettings::default()).unwrap();
/// let opinion = policy.decide(&context, 7).unwrap();
/// assert!((opinion.voters.iter().map(|voter| voter.weight).sum::<f64>() - 1.0).abs() < 1e-9);
/// ```
pub struct Ensemble {
    settings: EnsembleSettings,
    version: u32,
    voters: Vec<Box<dyn Policy>>,
    /// Which of them learn from a probing set.
    probing: Vec<bool>,
    start: Vec<f64>,
    domains: BTreeMap<Domain, Arc<Standing>>,
}

/// Who votes.
pub struct Voter {
    /// The policy.
    pub policy: Box<dyn Policy>,
    /// Its starting weight.
    pub weight: f64,
    /// Whether it learns from a probing set too.
    pub probing: bool,
}

/// Settings of [`Ensemble`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnsembleSettings {
    /// Share of uniform in every decision, in (0, 1]: each of K candidates has at least floor / K.
    pub floor: f64,
    /// How fast weights follow gains, at least 0; 0 keeps them fixed.
    pub rate: f64,
    /// Pull back to the starting weights per round, in [0, 1].
    pub share: f64,
    /// The largest importance ratio p_v(a) / p(a), at least 1.
    pub ratio_max: f64,
}

/// The vote as stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    domains: BTreeMap<Domain, Arc<Standing>>,
    /// Each voter's name and state, in order.
    voters: Vec<(String, Value)>,
}

/// The voters' weights in one domain.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Standing {
    weights: Vec<f64>,
    rounds: f64,
    utility_sum: f64,
}

impl EnsembleSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("floor", self.floor, 1e-6, 1.0);
        checks.number("rate", self.rate, 0.0, 10.0);
        checks.number("share", self.share, 0.0, 1.0);
        checks.number("ratio_max", self.ratio_max, 1.0, LARGE);
    }
}

impl Standing {
    fn is_sound(&self, voters: usize) -> bool {
        let right = |weight: &f64| (0.0..=1.0).contains(weight);
        self.weights.len() == voters
            && self.weights.iter().all(right)
            && (0.0..1e15).contains(&self.rounds)
            && self.utility_sum.abs() <= self.rounds * (1.0 + 1e-6) + 1e-6
    }
}

impl Ensemble {
    /// Voters with their starting weights under the version of their card. The weights are normalised; one that is
    /// not above 0 counts as 0.
    pub fn new(settings: EnsembleSettings, version: u32, voters: Vec<Voter>) -> Self {
        let probing = voters.iter().map(|voter| voter.probing).collect();
        let (voters, mut start): (Vec<_>, Vec<f64>) =
            voters.into_iter().map(|Voter { policy, weight, .. }| (policy, weight)).unzip();
        start.iter_mut().for_each(|weight| *weight = if weight.is_finite() { weight.max(0.0) } else { 0.0 });
        normalise(&mut start);
        Self { settings, version, voters, probing, start, domains: BTreeMap::new() }
    }

    /// The voters' weights in a domain, in the voters' order; the starting weights in a domain never learnt.
    pub fn weights(&self, domain: &Domain) -> &[f64] {
        self.domains.get(domain).map_or(&self.start, |standing| &standing.weights)
    }

    fn reweigh(&mut self, round: &LearntRound<'_>, utility: f64) {
        let known = self.domains.len() < DOMAINS_MAX || self.domains.contains_key(&round.context.domain);
        let (Some(taken), true, true) = (round.place(), known, round.propensity > 0.0) else { return };
        let ours =
            round.voters.iter().map(|view| view.policy.as_str()).eq(self.voters.iter().map(|voter| voter.name()));
        let asked;
        let views = if ours {
            round.voters
        } else {
            (asked, _) = self.ask(round.context, round.seed);
            &asked
        };
        let start = || Arc::new(Standing { weights: self.start.clone(), rounds: 0.0, utility_sum: 0.0 });
        let standing = Arc::make_mut(self.domains.entry(round.context.domain.clone()).or_insert_with(start));
        if standing.rounds > 0.0 {
            let gain = round.trust * (utility - standing.utility_sum / standing.rounds);
            for (weight, view) in standing.weights.iter_mut().zip(views) {
                // A voter that failed then has no view: it neither gains nor loses.
                let ratio = view.pmf.get(taken).map_or(1.0, |p| p / round.propensity);
                *weight *= (self.settings.rate * ratio.min(self.settings.ratio_max) * gain).exp();
            }
            normalise(&mut standing.weights);
            for (weight, start) in standing.weights.iter_mut().zip(&self.start) {
                *weight += self.settings.share * (start - *weight);
            }
        }
        standing.rounds += round.trust;
        standing.utility_sum += round.trust * utility;
    }

    /// Each voter's view with its weight (0 where it failed), and its opinion or error.
    fn ask(&self, context: &Context, seed: u64) -> (Vec<VoterView>, Vec<Result<Opinion, PolicyError>>) {
        let mut views = Vec::with_capacity(self.voters.len());
        let mut opinions = Vec::with_capacity(self.voters.len());
        for ((voter, weight), place) in self.voters.iter().zip(self.weights(&context.domain)).zip(0..) {
            let voter_seed = stream(seed, Stream::Voter(place)).random();
            let opinion = voter.decide(context, voter_seed);
            let (pmf, weight) = opinion.as_ref().map_or((Vec::new(), 0.0), |opinion| (opinion.pmf.clone(), *weight));
            views.push(VoterView { policy: voter.name().into(), weight, pmf });
            opinions.push(opinion);
        }
        (views, opinions)
    }
}

/// Divides by the sum; all equal when the sum is 0.
fn normalise(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    let even = 1.0 / weights.len() as f64;
    weights.iter_mut().for_each(|weight| *weight = if sum > 0.0 { *weight / sum } else { even });
}

impl Policy for Ensemble {
    fn name(&self) -> &'static str {
        "ensemble"
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn decide(&self, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        if context.candidates.is_empty() {
            return Err(PolicyError::NoCandidate);
        }
        let (mut views, opinions) = self.ask(context, seed);
        let total: f64 = views.iter().map(|view| view.weight).sum();
        if total <= 0.0 {
            let failure = PolicyError::NotFinite { policy: self.name(), what: "vote" };
            return Err(opinions.into_iter().find_map(Result::err).unwrap_or(failure));
        }
        let actions = context.candidates.len();
        let mut opinion = Opinion { pmf: vec![0.0; actions], ..Opinion::default() };
        let (mut expected, mut estimating) = (vec![0.0; actions], 0.0);
        for (view, voted) in views.iter_mut().zip(opinions.into_iter().map(Result::unwrap_or_default)) {
            view.weight /= total;
            opinion.pmf.iter_mut().zip(&voted.pmf).for_each(|(p, voted)| *p += view.weight * voted);
            if !voted.expected.is_empty() {
                estimating += view.weight;
                expected.iter_mut().zip(&voted.expected).for_each(|(mean, voted)| *mean += view.weight * voted);
            }
            opinion.poisoned.extend(voted.poisoned);
        }
        opinion.poisoned.sort_unstable();
        opinion.poisoned.dedup();
        opinion.pmf = checked(self.name(), with_floor(opinion.pmf, self.settings.floor))?;
        if estimating > 0.0 {
            expected.iter_mut().for_each(|mean| *mean /= estimating);
            opinion.expected = expected;
        }
        Ok(Opinion { voters: views, ..opinion })
    }

    fn learn(&mut self, round: &LearntRound<'_>) {
        if round.lesson().is_none() {
            return;
        }
        if let Some(utility) = round.utility() {
            self.reweigh(round, utility);
        }
        for (voter, _) in self.voters.iter_mut().zip(&self.probing).filter(|(_, probing)| **probing || !round.probing) {
            voter.learn(round);
        }
    }

    fn forget(&mut self, keep: f64) {
        self.voters.iter_mut().for_each(|voter| voter.forget(keep));
    }

    fn charge(&mut self, cost_usd: f64) {
        self.voters.iter_mut().for_each(|voter| voter.charge(cost_usd));
    }

    fn state(&self) -> Value {
        let voters = self.voters.iter().map(|voter| (voter.name().to_string(), voter.state()));
        write(&Stored { domains: self.domains.clone(), voters: voters.collect() })
    }

    fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError> {
        let Stored { domains, voters } = read(state)?;
        let ours = voters.iter().map(|(name, _)| name.as_str()).eq(self.voters.iter().map(|voter| voter.name()));
        if !ours || !domains.values().all(|standing| standing.is_sound(self.voters.len())) {
            return Err(StateError::Shape("other voters, or weights that make no sense".into()));
        }
        let mut poisoned = Vec::new();
        for (voter, (_, state)) in self.voters.iter_mut().zip(&voters) {
            poisoned.extend(voter.restore(state)?);
        }
        self.domains = domains;
        poisoned.sort();
        poisoned.dedup();
        Ok(poisoned)
    }

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(Self {
            settings: self.settings,
            version: self.version,
            voters: self.voters.iter().map(|voter| voter.snapshot()).collect(),
            probing: self.probing.clone(),
            start: self.start.clone(),
            domains: self.domains.clone(),
        })
    }

    fn voter_weights(&self, domain: &Domain) -> Vec<(String, f64)> {
        let names = self.voters.iter().map(|voter| voter.name().to_string());
        names.zip(self.weights(domain).iter().copied()).collect()
    }
}
