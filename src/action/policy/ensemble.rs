//! The ensemble: a weighted vote of policies, whose weights are learnt per domain from what their votes earned.
//!
//! All voters learn from every round, whoever brought the arm forward, so a weak voter costs its share of the vote
//! but no data. A voter that fails in a decision is seen there with weight 0 and an empty distribution, and its
//! weight goes to the others. Weights follow the voters' views as the decision recorded them; a decision made by
//! another policy (a fallback) teaches the voters but moves no weight.

use std::{collections::BTreeMap, sync::Arc};

use rand::Rng;
use serde::Deserialize;

use super::{LearntRound, Opinion, Policy, PolicyError, cells::DOMAINS_MAX};
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
/// # let arm = |name| Candidate { mode: Mode::Single, arm: ArmId::new(name).unwrap(), cost_usd: 0.001 };
/// # let context = Context {
/// #     embedding: Embedding::new(vec![1.0, 0.0]).unwrap(), domain: Domain::unknown(), neighbours: vec![],
/// #     recall: Recall::Ok, candidates: vec![arm("a"), arm("b")],
/// # };
/// let policy = build("ensemble", &PolicySettings::default()).unwrap();
/// let opinion = policy.decide(&context, 7).unwrap();
/// assert!((opinion.voters.iter().map(|voter| voter.weight).sum::<f64>() - 1.0).abs() < 1e-9);
/// ```
pub struct Ensemble {
    settings: EnsembleSettings,
    version: u32,
    voters: Vec<Box<dyn Policy>>,
    start: Vec<f64>,
    domains: BTreeMap<Domain, Arc<Standing>>,
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

/// The voters' weights in one domain.
#[derive(Debug, Clone)]
struct Standing {
    weights: Vec<f64>,
    rounds: f64,
    utility_sum: f64,
}

impl Ensemble {
    /// Voters with their starting weights under the version of their card. The weights are normalised; one that is
    /// not above 0 counts as 0.
    pub fn new(settings: EnsembleSettings, version: u32, voters: Vec<(Box<dyn Policy>, f64)>) -> Self {
        let (voters, mut start): (Vec<_>, Vec<f64>) = voters.into_iter().unzip();
        start.iter_mut().for_each(|weight| *weight = if weight.is_finite() { weight.max(0.0) } else { 0.0 });
        normalise(&mut start);
        Self { settings, version, voters, start, domains: BTreeMap::new() }
    }

    /// The voters' weights in a domain, in the voters' order; the starting weights in a domain never learnt.
    pub fn weights(&self, domain: &Domain) -> &[f64] {
        self.domains.get(domain).map_or(&self.start, |standing| &standing.weights)
    }

    fn reweigh(&mut self, round: &LearntRound<'_>, utility: f64) {
        let ours =
            round.voters.iter().map(|view| view.policy.as_str()).eq(self.voters.iter().map(|voter| voter.name()));
        let taken = round.context.candidates.iter().position(|c| c.mode == round.mode && c.arm == *round.arm);
        let known = self.domains.len() < DOMAINS_MAX || self.domains.contains_key(&round.context.domain);
        let (Some(taken), true, true) = (taken, ours && known, round.propensity > 0.0) else { return };
        let start = || Arc::new(Standing { weights: self.start.clone(), rounds: 0.0, utility_sum: 0.0 });
        let standing = Arc::make_mut(self.domains.entry(round.context.domain.clone()).or_insert_with(start));
        if standing.rounds > 0.0 {
            let gain = utility - standing.utility_sum / standing.rounds;
            for (weight, view) in standing.weights.iter_mut().zip(round.voters) {
                // A voter that failed then has no view: it neither gains nor loses.
                let ratio = view.pmf.get(taken).map_or(1.0, |p| p / round.propensity);
                *weight *= (self.settings.rate * ratio.min(self.settings.ratio_max) * gain).exp();
            }
            normalise(&mut standing.weights);
            for (weight, start) in standing.weights.iter_mut().zip(&self.start) {
                *weight += self.settings.share * (start - *weight);
            }
        }
        standing.rounds += 1.0;
        standing.utility_sum += utility;
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
        let mut views = Vec::with_capacity(self.voters.len());
        let mut failure = PolicyError::NotFinite { policy: self.name(), what: "vote" };
        for ((voter, weight), place) in self.voters.iter().zip(self.weights(&context.domain)).zip(0..) {
            let voter_seed = stream(seed, Stream::Voter(place)).random();
            let (pmf, weight) = match voter.decide(context, voter_seed) {
                Ok(opinion) => (opinion.pmf, *weight),
                Err(error) => {
                    failure = error;
                    (Vec::new(), 0.0)
                }
            };
            views.push(VoterView { policy: voter.name().into(), weight, pmf });
        }
        let total: f64 = views.iter().map(|view| view.weight).sum();
        if total <= 0.0 {
            return Err(failure);
        }
        let mut pmf = vec![0.0; context.candidates.len()];
        for view in &mut views {
            view.weight /= total;
            for (p, voted) in pmf.iter_mut().zip(&view.pmf) {
                *p += view.weight * voted;
            }
        }
        let opinion = Opinion::of(self.name(), with_floor(pmf, self.settings.floor))?;
        Ok(Opinion { voters: views, ..opinion })
    }

    fn learn(&mut self, round: &LearntRound<'_>) {
        let Some(utility) = round.utility() else { return };
        self.reweigh(round, utility);
        self.voters.iter_mut().for_each(|voter| voter.learn(round));
    }

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(Self {
            settings: self.settings,
            version: self.version,
            voters: self.voters.iter().map(|voter| voter.snapshot()).collect(),
            start: self.start.clone(),
            domains: self.domains.clone(),
        })
    }

    fn voter_weights(&self, domain: &Domain) -> Vec<(String, f64)> {
        let names = self.voters.iter().map(|voter| voter.name().to_string());
        names.zip(self.weights(domain).iter().copied()).collect()
    }
}
