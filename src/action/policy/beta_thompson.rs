//! Beta Thompson: a Beta posterior of each arm's success per domain, explored by Thompson sampling.
//!
//! The exact posterior of 0/1 scores; scores between count as fractional successes, which keeps the mean right and makes
//! the spread a little too wide. It has no noise or scale to set. The prior in a domain is the arm's mean everywhere.

use rand_distr::{Beta, Distribution};
use serde::Deserialize;

use super::{
    Estimates, Opinion, Policy, PolicyError, ShrinkageSettings, Standings, card::Checks, estimates::Scale,
    learns_with::learns_with, shrinkage::Shrunk,
};
use crate::{
    action::{
        explore::{counted_draws, with_floor},
        sample::PmfError,
    },
    round::{Candidate, Context},
};

/// The least shape parameter, where a prior mean of 0 or 1 would leave no distribution.
const SHAPE_MIN: f64 = 1e-3;

/// Thompson sampling with Beta-Bernoulli posteriors.
///
/// score ~ Beta(sum_ad + m global_a, n_ad - sum_ad + m (1 - global_a)), with global_a and m of [`ShrinkageSettings`];
/// the propensity is counted over `draws` draws.
///
/// References: Chapelle and Li, An Empirical Evaluation of Thompson Sampling, 2011; Agrawal and Goyal, Analysis of
/// Thompson Sampling for the Multi-armed Bandit Problem, 2012 (scores in [0, 1]; there by a coin toss, here by fractions,
/// which needs no randomness in learning).
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, BetaThompson};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let settings = PolicySettings::default();
/// let mut policy = BetaThompson::new(settings.beta_thompson, settings.shrinkage, 0.02);
/// for round in 0..40 {
///     let place = round % 2;
///     policy.learn(&LearntRound::new(&context, place, place as f64));
/// }
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.01, 0.99]);
/// ```
#[derive(Debug, Clone)]
pub struct BetaThompson {
    settings: BetaThompsonSettings,
    shrinkage: ShrinkageSettings,
    floor: f64,
    standings: Standings,
}

/// Settings of [`BetaThompson`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BetaThompsonSettings {
    /// Posterior draws counted per decision, 1 to 4096.
    pub draws: u32,
}

impl BetaThompsonSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("draws", self.draws.into(), 1.0, 4096.0);
    }
}

impl BetaThompson {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: BetaThompsonSettings, shrinkage: ShrinkageSettings, floor: f64) -> Self {
        Self { settings, shrinkage, floor, standings: Standings::default() }
    }

    /// The posterior's two shapes; their quotient a / (a + b) is the shrunk mean.
    fn shapes(&self, context: &Context, candidate: &Candidate) -> (f64, f64) {
        let Shrunk { everywhere, here, .. } = self.shrinkage.shrunk(&self.standings, &context.domain, candidate);
        let mass = self.shrinkage.domain_mass;
        (here.sum + mass * everywhere, here.n - here.sum + mass * (1.0 - everywhere))
    }
}

impl Policy for BetaThompson {
    fn name(&self) -> &'static str {
        "beta_thompson"
    }

    fn decide(&self, context: &Context, seed: u64) -> Result<Opinion, PolicyError> {
        let shapes: Vec<(f64, f64)> =
            context.candidates.iter().map(|candidate| self.shapes(context, candidate)).collect();
        let moments = shapes.iter().map(|(a, b)| {
            let mean = a / (a + b);
            (mean, (mean * (1.0 - mean) / (a + b + 1.0)).max(0.0).sqrt())
        });
        let scale = Scale::of(context);
        Estimates::of_scores(context, moments).explore_among(self.name(), |_, sound| {
            let posterior = |place: &usize| {
                let (a, b) = shapes[*place];
                let posterior = Beta::new(a.max(SHAPE_MIN), b.max(SHAPE_MIN)).map_err(|_| PmfError::NotFinite)?;
                Ok((&context.candidates[*place], posterior))
            };
            let posteriors = sound.iter().map(posterior).collect::<Result<Vec<_>, PmfError>>()?;
            let pmf = counted_draws(sound.len(), self.settings.draws, seed, |rng, utilities| {
                for (utility, (candidate, posterior)) in utilities.iter_mut().zip(&posteriors) {
                    *utility = scale.mean(candidate, posterior.sample(rng));
                }
            })?;
            with_floor(pmf, self.floor)
        })
    }

    learns_with!(standings);
}

#[cfg(test)]
mod tests {
    use super::{
        super::{PolicySettings, action_of, environment::context},
        *,
    };

    #[test]
    fn the_probability_is_that_of_one_posterior_exceeding_the_other() {
        let shrinkage = ShrinkageSettings { prior_mean: 0.5, arm_mass: 1e9, domain_mass: 2.0 };
        let mut policy = BetaThompson::new(BetaThompsonSettings { draws: 100_000 }, shrinkage, 0.0);
        let context = context(2);
        // Beta(1, 1) against Beta(2, 1), after one success: P(U < max of two) = 2/3.
        policy.standings.add(&context.domain, action_of(&context.candidates[1]), 1.0, 1.0);
        let pmf = policy.decide(&context, 5).unwrap().pmf;
        assert!((pmf[1] - 2.0 / 3.0).abs() < 0.005, "{pmf:?}");
    }

    #[test]
    fn a_prior_mean_at_the_end_of_its_range_still_has_a_distribution() {
        let mut settings = PolicySettings::default();
        for prior_mean in [0.0, 1.0] {
            settings.shrinkage.prior_mean = prior_mean;
            let policy = BetaThompson::new(settings.beta_thompson, settings.shrinkage, 0.0);
            let pmf = policy.decide(&context(3), 1).unwrap().pmf;
            assert!(pmf.iter().all(|p| p.is_finite()), "{pmf:?}");
        }
    }
}
