//! Epsilon-greedy: the arm of the best mean in the domain, and now and then any arm.
//!
//! The simplest learner that works, and the one to beat. It explores hopeless arms as often as promising ones, so it
//! wastes more than the others once it knows something.

use serde::Deserialize;

use super::{
    Estimates, Opinion, Policy, PolicyError, ShrinkageSettings, Standings, card::Checks, learns_with::learns_with,
};
use crate::{action::explore::epsilon_greedy, round::Context};

/// Epsilon-greedy over shrunk means per domain.
///
/// p = (1 - epsilon_t) greedy + epsilon_t / K with epsilon_t = epsilon max(1, t)^-decay, t the rounds learnt; greedy on
/// mean_ad of [`ShrinkageSettings`]. A decay of 0 keeps epsilon constant, 1/3 is the rate of the regret bound.
///
/// References: Sutton and Barto, Reinforcement Learning, 2nd ed., section 2.2; Auer, Cesa-Bianchi and Fischer,
/// Finite-time Analysis of the Multiarmed Bandit Problem, 2002 (decaying epsilon); Langford and Zhang, The Epoch-Greedy
/// Algorithm for Contextual Multi-armed Bandits, 2007 (the rate).
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{LearntRound, Policy, PolicySettings, EpsilonGreedy};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// let settings = PolicySettings::default();
/// let mut policy = EpsilonGreedy::new(settings.epsilon_greedy, settings.shrinkage, 0.02);
/// for round in 0..1000 {
///     let place = round % 2;
///     policy.learn(&LearntRound::new(&context, place, place as f64));
/// }
/// let pmf = policy.decide(&context, 1).unwrap().pmf;
/// // 1000^(-1/3) = .1, half of it on each arm.
/// assert!((pmf[0] - 0.05).abs() < 1e-6 && (pmf[1] - 0.95).abs() < 1e-6);
/// ```
#[derive(Debug, Clone)]
pub struct EpsilonGreedy {
    settings: EpsilonGreedySettings,
    shrinkage: ShrinkageSettings,
    floor: f64,
    standings: Standings,
}

/// Settings of [`EpsilonGreedy`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpsilonGreedySettings {
    /// Uniform share of the first round, in [0, 1].
    pub epsilon: f64,
    /// How fast the share falls, in [0, 1]; 0 keeps it.
    pub decay: f64,
}

impl EpsilonGreedySettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("epsilon", self.epsilon, 0.0, 1.0);
        checks.number("decay", self.decay, 0.0, 1.0);
    }
}

impl EpsilonGreedy {
    /// Without any rounds learnt. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(settings: EpsilonGreedySettings, shrinkage: ShrinkageSettings, floor: f64) -> Self {
        Self { settings, shrinkage, floor, standings: Standings::default() }
    }

    fn epsilon(&self) -> f64 {
        let EpsilonGreedySettings { epsilon, decay } = self.settings;
        epsilon * (self.standings.rounds().max(1) as f64).powf(-decay)
    }
}

impl Policy for EpsilonGreedy {
    fn name(&self) -> &'static str {
        "epsilon_greedy"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        let mean = |candidate: &_| self.shrinkage.shrunk(&self.standings, &context.domain, candidate).mean;
        let estimates = Estimates::of(context, |candidate| (mean(candidate), 0.0));
        estimates.explore(self.name(), |means, _| epsilon_greedy(means, self.epsilon().max(self.floor)))
    }

    learns_with!(standings);
}
