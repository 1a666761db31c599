//! Policies: from a Context to a probability per candidate.
//!
//! A policy is pure: no clock, no IO, no randomness of its own (a seed comes in). It never samples; `sample` does.
//! Its state is a fold over learnt rounds, cheap to clone (parts that did not change are shared), so that deciding
//! reads an immutable snapshot while learning goes on in one place. State is kept per (mode, arm) in ordered maps:
//! arms may come and go without touching each other's, and the same rounds give the same state bit for bit.
//!
//! What is learnt. Policies estimate the *score*, which is in [0, 1] whatever a client pays for it; what a task's
//! reward weighs is put in when the task is decided. So tenants and requests with different weights share all that was
//! learnt. [`Estimates`] is where scores become utilities: (e1 * score + e2 * cost_usd) / (e1 + |e2| * the dearest
//! candidate's cost), in about [-1, 1]; the divisor is the same for all candidates of a decision, so the best
//! reward is the best utility.

mod arm_features;
mod bag;
mod beta_thompson;
mod card;
mod cascade;
mod classifier;
mod domain_prior;
mod ensemble;
#[cfg(test)]
pub(in crate::action) mod environment;
mod epsilon_greedy;
mod estimates;
mod features;
mod fixed;
mod hybrid_linear;
mod hybrid_text;
mod hybrid_ucb;
mod joint;
mod knn_ucb;
mod landmarks;
mod learns_with;
mod lin_thompson;
mod lin_ucb;
mod linear;
mod llm;
mod memory_knn;
pub mod mode_router;
#[cfg(test)]
mod oracles;
mod probing;
mod probit;
mod recalled;
mod registry;
mod ridge;
mod shrinkage;
mod square_cb;
mod standings;
mod state;
#[cfg(test)]
mod tests;
mod trained;
mod ucb1;
mod uniform;

use serde_json::Value;

use crate::round::{ArmId, Candidate, Context, Domain, Mode, VoterView};

pub use arm_features::observe;
pub use bag::{Bag, BagSettings};
pub use beta_thompson::{BetaThompson, BetaThompsonSettings};
pub use card::{CardError, PolicySettings, VoterSettings, lay_over, same_embedding};
pub use cascade::{Attempt, Cascade, CascadeSettings, Escalate, Latent, NextStep, SOLVED};
pub use classifier::{
    ArmModel, Classifier, ClassifierModel, ClassifierSettings, Features, HeldOut, MODEL_DOMAINS_MAX, Vocabulary, words,
};
pub use domain_prior::{DomainPrior, DomainPriorSettings};
pub use ensemble::{Ensemble, EnsembleSettings, Voter};
pub use epsilon_greedy::{EpsilonGreedy, EpsilonGreedySettings};
pub use features::FeatureSettings;
pub use fixed::Fixed;
pub use hybrid_linear::{HybridLinear, HybridLinearSettings};
pub use hybrid_text::{HybridText, HybridTextSettings};
pub use hybrid_ucb::{HybridUcb, HybridUcbSettings};
pub use knn_ucb::{KnnUcb, KnnUcbSettings};
pub use lin_thompson::{LinThompson, LinThompsonSettings};
pub use lin_ucb::{LinUcb, LinUcbSettings};
pub use llm::{Llm, LlmPolicySettings};
pub use memory_knn::{MemoryKnn, MemoryKnnSettings};
pub use probing::{ProbingCell, ProbingSet};
pub use probit::{Probit, ProbitSettings};
pub use registry::{NAMES, RegistryError, WRAPPERS, build};
pub use shrinkage::ShrinkageSettings;
pub use square_cb::{SquareCb, SquareCbSettings};
pub use standings::Standings;
pub use state::StateError;
pub use trained::{TrainedError, TrainedKind};
pub use ucb1::{Ucb1, Ucb1Settings};
pub use uniform::Uniform;

pub(in crate::action) use card::Checks;
use estimates::Estimates;
pub(in crate::action) use standings::DOMAINS_MAX;
pub(in crate::action) use state::{read as read_state, write as write_state};

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

    /// Folds one verified round into the state. A round whose score is not finite changes nothing.
    fn learn(&mut self, round: &LearntRound<'_>);

    /// A snapshot that shares what did not change.
    fn snapshot(&self) -> Box<dyn Policy>;

    /// Multiplies the weight of all that was learnt by `keep`, in (0, 1]: what a changing world is forgotten by.
    fn forget(&mut self, _keep: f64) {}

    /// Takes note of dollars that were spent without anything to learn from.
    fn charge(&mut self, _cost_usd: f64) {}

    /// All that was learnt, as JSON; [`Value::Null`] for a policy that learns nothing.
    fn state(&self) -> Value {
        Value::Null
    }

    /// Takes the place of what was learnt. Actions whose numbers make no sense are left out and returned; a state of
    /// another shape changes nothing and is an error.
    fn restore(&mut self, _state: &Value) -> Result<Vec<Action>, StateError> {
        Ok(Vec::new())
    }

    /// The voters' names and weights in a domain, which sum to 1; empty for a policy that is no ensemble.
    fn voter_weights(&self, _domain: &Domain) -> Vec<(String, f64)> {
        Vec::new()
    }
}

/// What a policy says of one context.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Opinion {
    /// One probability per candidate; they sum to 1.
    pub pmf: Vec<f64>,
    /// The expected utility of each candidate; empty for a policy that estimates none.
    pub expected: Vec<f64>,
    /// Candidates, by place, whose estimate is not finite: they have probability 0.
    pub poisoned: Vec<usize>,
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
    /// The seed of the decision.
    pub seed: u64,
    /// The voters' views in the decision.
    pub voters: &'a [VoterView],
    /// The score in [0, 1].
    pub score: f64,
    /// The reward, e1 * score + e2 * cost_usd, with the context's weights.
    pub reward: f64,
    /// Dollars spent.
    pub cost_usd: f64,
    /// How much the score is trusted, in (0, 1]: 1 for a verified one.
    pub trust: f64,
    /// Whether it was seen before the first decision, on a probing set where every arm was tried, and not on one's own work.
    pub probing: bool,
}

/// One action, the key of all per-arm state.
pub type Action = (Mode, ArmId);

/// The action that taking a candidate is.
fn action_of(candidate: &Candidate) -> Action {
    (candidate.mode, candidate.arm.clone())
}

impl<'a> LearntRound<'a> {
    /// A trusted round in which the candidate at `place` was drawn uniformly, at its expected cost.
    ///
    /// # Panics
    /// When there is no such candidate.
    pub fn new(context: &'a Context, place: usize, score: f64) -> Self {
        let candidate = &context.candidates[place];
        Self {
            context,
            mode: candidate.mode,
            arm: &candidate.arm,
            propensity: 1.0 / context.candidates.len() as f64,
            seed: 0,
            voters: &[],
            score,
            reward: context.weights.reward(score, candidate.cost_usd),
            cost_usd: candidate.cost_usd,
            trust: 1.0,
            probing: false,
        }
    }

    /// The reward on the policies' common scale, in [-1, 1]. None when it is not finite or both weights are 0.
    pub fn utility(&self) -> Option<f64> {
        let scale = scale(self.context);
        let utility = self.reward / scale;
        (utility.is_finite() && scale > 0.0).then(|| utility.clamp(-1.0, 1.0))
    }

    /// What is to be learnt: the score and how much it weighs. None when one of them is out of its range.
    fn lesson(&self) -> Option<(f64, f64)> {
        let right = (0.0..=1.0).contains(&self.score) && self.trust > 0.0 && self.trust <= 1.0;
        (right && self.reward.is_finite()).then_some((self.score, self.trust))
    }

    fn action(&self) -> Action {
        (self.mode, self.arm.clone())
    }

    /// The place of what was taken among the candidates.
    fn place(&self) -> Option<usize> {
        self.context.candidates.iter().position(|candidate| candidate.mode == self.mode && candidate.arm == *self.arm)
    }
}

/// What rewards are divided by to become utilities: e1 + |e2| * the dearest candidate's cost.
fn scale(context: &Context) -> f64 {
    let dearest_usd = context.candidates.iter().map(|candidate| candidate.cost_usd).fold(0.0, f64::max);
    context.weights.e1 + context.weights.e2.abs() * dearest_usd
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
    /// The embedding is not of the model that the policy was trained on.
    #[error("{policy} was trained on embeddings of {wanted} numbers, this one has {found}: train it again")]
    Dimension {
        /// The policy.
        policy: &'static str,
        /// What it was trained on.
        wanted: usize,
        /// What it was given.
        found: usize,
    },
    /// It knows too little of tasks like this one; in a vote, the others decide.
    #[error("{policy} abstains: {why}")]
    Abstains {
        /// The policy.
        policy: &'static str,
        /// What it lacks.
        why: &'static str,
    },
    /// The policy's only arm is not among the candidates.
    #[error("arm {0} is not eligible")]
    NotEligible(ArmId),
}
