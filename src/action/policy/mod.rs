//! Policies: from a Context to a probability per candidate.
//!
//! A policy is pure: no clock, no IO, no randomness of its own (a seed comes in). It never samples; `sample` does.
//! Its state is a fold over learnt rounds, cheap to clone (parts that did not change are shared), so that deciding
//! reads an immutable snapshot while learning goes on in one place. State is kept per (mode, arm) in ordered maps:
//! arms may come and go, and the same rounds give the same state bit for bit.
//!
//! Scale. Rewards are e1 * score + e2 * cost_usd with any e1 and e2, while priors and noise need one scale. So every
//! policy learns [`LearntRound::utility`]: the reward divided by e1 + |e2| * (the dearest candidate's expected cost),
//! which lies in about [-1, 1]. Within one decision the divisor is the same for all candidates, so the best reward
//! stays the best utility; with prices far below e1 / |e2| the utility is the reward divided by e1.

mod cells;
mod domain_prior;
mod ensemble;
#[cfg(test)]
mod environment;
mod features;
mod fixed;
mod hybrid_linear;
mod lin_ucb;
mod memory_knn;
mod registry;
#[cfg(test)]
mod tests;
mod uniform;

use super::sample::PmfError;
use crate::round::{ArmId, Context, Domain, Mode, RewardWeights, VoterView};

pub use domain_prior::{DomainPrior, DomainPriorSettings};
pub use ensemble::{Ensemble, EnsembleSettings};
pub use fixed::Fixed;
pub use hybrid_linear::{HybridLinear, HybridLinearSettings};
pub use lin_ucb::{LinUcb, LinUcbSettings};
pub use memory_knn::{MemoryKnn, MemoryKnnSettings};
pub use registry::{NAMES, PolicySettings, RegistryError, VoterSettings, build};
pub use uniform::Uniform;

/// Maps a context to a distribution over its candidates, and learns from verified rounds.
pub trait Policy: Send + Sync {
    /// The registered name, such as `lin_ucb`.
    fn name(&self) -> &'static str;

    /// Raised whenever the same state would decide differently.
    fn version(&self) -> u32 {
        1
    }

    /// The distribution over `context.candidates`, in their order. The seed makes counted posterior draws repeatable.
    fn decide(&self, context: &Context, seed: u64) -> Result<Opinion, PolicyError>;

    /// Folds one verified round into the state. A round whose reward is not finite changes nothing.
    fn learn(&mut self, round: &LearntRound<'_>);

    /// A snapshot that shares what did not change.
    fn snapshot(&self) -> Box<dyn Policy>;

    /// The voters' names and weights in a domain, which sum to 1; empty for a policy that is no ensemble.
    fn voter_weights(&self, _domain: &Domain) -> Vec<(String, f64)> {
        Vec::new()
    }
}

/// What a policy says of one context.
#[derive(Debug, Clone, PartialEq)]
pub struct Opinion {
    /// One probability per candidate; they sum to 1.
    pub pmf: Vec<f64>,
    /// The voters behind it, for an ensemble.
    pub voters: Vec<VoterView>,
}

/// One verified round, as policies learn from it.
#[derive(Debug, Clone, Copy)]
pub struct LearntRound<'a> {
    /// What was known when the decision was made (the context as it was seen then).
    pub context: &'a Context,
    /// The mode taken.
    pub mode: Mode,
    /// The arm taken.
    pub arm: &'a ArmId,
    /// The probability with which it was drawn.
    pub propensity: f64,
    /// The voters' views in the decision.
    pub voters: &'a [VoterView],
    /// The verified score in [0, 1].
    pub score: f64,
    /// The reward, e1 * score + e2 * cost_usd.
    pub reward: f64,
    /// The weights e1 and e2 of that reward.
    pub weights: RewardWeights,
}

/// One action, the key of all per-arm state.
pub(crate) type Action = (Mode, ArmId);

impl LearntRound<'_> {
    /// The reward on the policies' common scale: reward / (e1 + |e2| * dearest candidate's cost), cut to [-1, 1].
    /// None when the reward is not finite or both weights are 0.
    pub fn utility(&self) -> Option<f64> {
        utility(self.reward, &self.weights, self.context)
    }

    fn action(&self) -> Action {
        (self.mode, self.arm.clone())
    }
}

fn utility(reward: f64, weights: &RewardWeights, context: &Context) -> Option<f64> {
    let dearest_usd = context.candidates.iter().map(|candidate| candidate.cost_usd).fold(0.0, f64::max);
    let scale = weights.e1 + weights.e2.abs() * dearest_usd;
    let utility = reward / scale;
    (utility.is_finite() && scale > 0.0).then(|| utility.clamp(-1.0, 1.0))
}

/// Why a policy has no opinion. The router then falls back to uniform, and says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// There is nothing to choose from.
    #[error("no arm is eligible")]
    NoCandidate,
    /// A number went wrong.
    #[error("{policy} computed a non-finite {what}")]
    NotFinite {
        /// The policy.
        policy: &'static str,
        /// What was computed.
        what: &'static str,
    },
    /// The policy's only arm is not among the candidates.
    #[error("arm {0} is not eligible")]
    NotEligible(ArmId),
}

impl Opinion {
    /// The opinion of a policy without voters, from the outcome of an exploration rule.
    fn of(policy: &'static str, pmf: Result<Vec<f64>, PmfError>) -> Result<Self, PolicyError> {
        match pmf {
            Ok(pmf) => Ok(Self { pmf, voters: Vec::new() }),
            Err(PmfError::Empty) => Err(PolicyError::NoCandidate),
            Err(PmfError::NotFinite) => Err(PolicyError::NotFinite { policy, what: "score" }),
            Err(PmfError::Negative | PmfError::Sum(_)) => Err(PolicyError::NotFinite { policy, what: "probability" }),
        }
    }
}
