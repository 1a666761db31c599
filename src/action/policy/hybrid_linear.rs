//! Hybrid linear: domain, arm and arm-by-domain effects in one joint normal model, explored by Thompson sampling.
//!
//! The domain's effect takes out the difficulty that all arms see, which is most of the noise, and a round of one arm
//! teaches of all others through it. The features are indicators, so counts and sums per (domain, arm) are
//! sufficient: the posterior is solved exactly at each decision over the arms alone (the other effects have closed
//! forms), nothing drifts, and arms come and go freely. Deciding costs about domains * arms^2 + arms^3 / 3
//! operations, so hundreds of arms would want a cache.

use std::collections::{BTreeMap, BTreeSet};

use ndarray::{Array1, Array2};
use serde::Deserialize;

use super::{
    Action, Opinion, Policy, PolicyError, Standings,
    card::Checks,
    joint::{Draws, Posterior, falling},
    learns_with::learns_with,
    standings::Cell,
};
use crate::{
    action::cholesky::Cholesky,
    round::{Candidate, Context, Domain},
};

/// Thompson sampling on a mixed-effects linear model.
///
/// y = delta_d + alpha_a + gamma_ad + e; delta ~ N(0, 1/p_d), alpha ~ N(0, 1/p_a), gamma ~ N(0, 1/p_ad), e ~ N(0,
/// noise). With v_ad = 1/p_ad + noise/n_ad, w_ad = 1/v_ad and P_d = p_d + sum_a w_ad, the arms' marginal posterior
/// precision is diag(p_a + sum_d w_ad) - sum_d w_d w_d^T / P_d. Deviations from the posterior mean are multiplied by
/// a scale that falls linearly from `scale_start` to `scale_end` over `scale_rounds` rounds.
///
/// Reference: Li et al., 2010, algorithm 2 (hybrid linear models), with the sampling of Agrawal and Goyal, Thompson
/// Sampling for Contextual Bandits with Linear Payoffs, 2013.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{HybridLinear, LearntRound, Policy, PolicySettings};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let mut policy = HybridLinear::new(PolicySettings::default().hybrid_linear, 0.02);
/// for round in 0..40 {
///     let place = round % 2;
///     policy.learn(&LearntRound::new(&context, place, place as f64));
/// }
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.01, 0.99]);
/// ```
#[derive(Debug, Clone)]
pub struct HybridLinear {
    settings: HybridLinearSettings,
    floor: f64,
    standings: Standings,
}

/// Settings of [`HybridLinear`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HybridLinearSettings {
    /// p_d: prior precision of a domain's effect, above 0.
    pub domain_precision: f64,
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
}

/// One domain's part of the model, the arms in the places that the solve gives them.
struct DomainPart {
    /// w_ad per arm; 0 where the arm was never tried.
    weights: Array1<f64>,
    /// w_ad times the cell's mean, per arm.
    moment: Array1<f64>,
    /// P_d.
    precision: f64,
}

impl HybridLinearSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.positive([
            ("domain_precision", self.domain_precision),
            ("arm_precision", self.arm_precision),
            ("cell_precision", self.cell_precision),
            ("noise", self.noise),
        ]);
        checks.draws(self.scale_start, self.scale_end, self.draws);
    }
}

impl HybridLinear {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: HybridLinearSettings, floor: f64) -> Self {
        Self { settings, floor, standings: Standings::default() }
    }

    fn part(&self, cells: &BTreeMap<Action, Cell>, places: &BTreeMap<Action, usize>) -> DomainPart {
        let HybridLinearSettings { domain_precision, cell_precision, noise, .. } = self.settings;
        let (mut weights, mut moment) = (Array1::zeros(places.len()), Array1::zeros(places.len()));
        for (action, cell) in cells {
            let cell = self.standings.read(Some(cell));
            if let Some(place) = places.get(action) {
                let weight = 1.0 / (1.0 / cell_precision + noise / cell.n);
                weights[*place] = weight;
                moment[*place] = weight * cell.sum / cell.n;
            }
        }
        let precision = domain_precision + weights.sum();
        DomainPart { weights, moment, precision }
    }

    /// Solves for the arms' effects with all other effects integrated out, then adds the cells' effects here.
    pub(super) fn posterior(&self, domain: &Domain, candidates: &[Candidate]) -> Option<Posterior> {
        let HybridLinearSettings { arm_precision, cell_precision, noise, .. } = self.settings;
        let wanted: Vec<Action> = candidates.iter().map(|c| (c.mode, c.arm.clone())).collect();
        let known: BTreeSet<Action> = self.standings.actions().chain(&wanted).cloned().collect();
        let places: BTreeMap<Action, usize> = known.into_iter().zip(0..).collect();
        let mut precision = Array2::from_diag_elem(places.len(), arm_precision);
        let mut moment = Array1::zeros(places.len());
        let mut here = self.part(&BTreeMap::new(), &places);
        for (other, cells) in self.standings.domains() {
            let part = self.part(cells, &places);
            let domain_mean = part.moment.sum() / part.precision;
            for (row, weight) in part.weights.iter().enumerate() {
                precision[[row, row]] += weight;
                precision.row_mut(row).scaled_add(-weight / part.precision, &part.weights);
                moment[row] += part.moment[row] - weight * domain_mean;
            }
            if other == domain {
                here = part;
            }
        }
        let covariance = Cholesky::of(precision.view())?.inverse();
        // utility = arm + cell; cell = share (mean - domain - arm) + e; domain = (moment - weights . arms) / P + e.
        let mut of_arms = Array2::zeros((wanted.len(), places.len()));
        let mut mean = Array1::zeros(wanted.len());
        let mut shares = Array1::zeros(wanted.len());
        let mut cell_variances = Array1::zeros(wanted.len());
        for (row, action) in wanted.iter().enumerate() {
            let cell = self.standings.cell(domain, action);
            let cell_posterior = cell_precision + cell.n / noise;
            let share = cell.n / noise / cell_posterior;
            of_arms.row_mut(row).scaled_add(share / here.precision, &here.weights);
            of_arms[[row, places[action]]] += 1.0 - share;
            mean[row] = cell.sum / noise / cell_posterior - share * here.moment.sum() / here.precision;
            shares[row] = share;
            cell_variances[row] = 1.0 / cell_posterior;
        }
        let arms = covariance.dot(&moment);
        let common = (here.moment.sum() - here.weights.dot(&arms)) / here.precision;
        mean += &of_arms.dot(&arms);
        let mut covariance = of_arms.dot(&covariance).dot(&of_arms.t());
        for (row, share) in shares.iter().enumerate() {
            covariance.row_mut(row).scaled_add(share / here.precision, &shares);
            covariance[[row, row]] += cell_variances[row];
        }
        Some(Posterior { common, mean, covariance })
    }
}

impl Policy for HybridLinear {
    fn name(&self) -> &'static str {
        "hybrid_linear"
    }

    fn decide(&self, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        if context.candidates.is_empty() {
            return Err(PolicyError::NoCandidate);
        }
        let posterior = self.posterior(&context.domain, &context.candidates);
        let posterior = posterior.ok_or(PolicyError::NotFinite { policy: self.name(), what: "posterior" })?;
        let HybridLinearSettings { scale_start, scale_end, scale_rounds, draws, .. } = self.settings;
        let scale = falling(scale_start, scale_end, scale_rounds, self.standings.rounds());
        posterior.explore(self.name(), context, &Draws { scale, number: draws, seed, floor: self.floor })
    }

    learns_with!(standings);
}

#[cfg(test)]
mod tests {
    use super::{super::PolicySettings, *};
    use crate::round::{ArmId, Mode};

    /// The same model written out: one coefficient per domain, arm and cell, by ridge regression.
    fn dense(policy: &HybridLinear, rounds: &[(usize, usize, f64)], domain: usize) -> Posterior {
        let HybridLinearSettings { domain_precision, arm_precision, cell_precision, noise, .. } = policy.settings;
        let (domains, arms) = (3, 4);
        let columns = |domain, arm| [domain, domains + arm, domains + arms + domain * arms + arm];
        let prior = |column| match column {
            _ if column < domains => domain_precision,
            _ if column < domains + arms => arm_precision,
            _ => cell_precision,
        };
        let size = domains + arms + domains * arms;
        let mut precision = Array2::from_diag(&Array1::from_shape_fn(size, prior));
        let mut moment = Array1::zeros(size);
        for (domain, arm, utility) in rounds {
            for row in columns(*domain, *arm) {
                moment[row] += utility / noise;
                columns(*domain, *arm).iter().for_each(|column| precision[[row, *column]] += 1.0 / noise);
            }
        }
        let covariance = Cholesky::of(precision.view()).unwrap().inverse();
        let mut pick = Array2::zeros((arms, size));
        for arm in 0..arms {
            columns(domain, arm)[1..].iter().for_each(|column| pick[[arm, *column]] = 1.0);
        }
        let effects = covariance.dot(&moment);
        let covariance = pick.dot(&covariance).dot(&pick.t());
        Posterior { common: effects[domain], mean: pick.dot(&effects), covariance }
    }

    #[test]
    fn the_posterior_is_that_of_the_dense_joint_model() {
        let mut policy = HybridLinear::new(PolicySettings::default().hybrid_linear, 0.0);
        // The last arm is never tried, the last domain hardly.
        let rounds: Vec<(usize, usize, f64)> =
            (0..40).map(|i| if i == 7 { (2, 1, 0.3) } else { (i % 2, i % 3, (i % 5) as f64 / 5.0) }).collect();
        let name = |prefix: &str, number: &usize| format!("{prefix}-{number}");
        for (domain, arm, utility) in &rounds {
            let action = (Mode::Single, ArmId::new(name("arm", arm)).unwrap());
            policy.standings.add(&Domain::new(name("domain", domain)).unwrap(), action, *utility, 1.0);
        }
        let candidates = super::super::environment::context(4).candidates;
        for domain in 0..3 {
            let solved = policy.posterior(&Domain::new(name("domain", &domain)).unwrap(), &candidates).unwrap();
            let dense = dense(&policy, &rounds, domain);
            assert!((&solved.mean - &dense.mean).iter().all(|e| e.abs() < 1e-10), "{} {}", solved.mean, dense.mean);
            assert!((solved.common - dense.common).abs() < 1e-10, "{} {}", solved.common, dense.common);
            assert!((&solved.covariance - &dense.covariance).iter().all(|e| e.abs() < 1e-10));
        }
    }
}
