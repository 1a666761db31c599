//! Decision: which action, with what probability, and why.

use serde::{Deserialize, Serialize};

use super::{ArmId, DecisionId, Mode, Propensity, TaskId};

/// The action drawn for one task. The probabilities sum to 1 and cover the candidates; the propensity is the
/// drawn action's probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The handle for feedback and explanation.
    pub id: DecisionId,
    /// The task decided.
    pub task_id: TaskId,
    /// How the worker is run.
    pub mode: Mode,
    /// The worker.
    pub arm: ArmId,
    /// The probability with which this action was drawn.
    pub propensity: Propensity,
    /// The whole distribution.
    pub pmf: Vec<Probability>,
    /// Each voter's own distribution and its weight at that moment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voters: Vec<VoterView>,
    /// The policy that spoke.
    pub policy: PolicyRef,
    /// What the policy on trial would have done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowView>,
    /// How many learnt rounds the policy's state held: with the seed, enough to draw this decision again.
    pub learnt_rounds: u64,
    /// The place in the journal up to which that state was folded; 0 in journals that did not say so.
    #[serde(default, skip_serializing_if = "is_unsaid")]
    pub state_at: i64,
    /// Why this action.
    pub reason: Reason,
    /// Seeds the draw.
    pub seed: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_unsaid(at: &i64) -> bool {
    *at == 0
}

/// A policy by name and state version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PolicyRef {
    /// Its name with its wrappers, such as `new_arm:ensemble`.
    pub name: String,
    /// Raised whenever the same state would decide differently.
    pub version: u32,
    /// Its card, by name and the first digits of its BLAKE3 hash, such as `default@1f0c6a7e`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub card: String,
}

/// What a policy that only looks on said: the same learnt rounds, the same seed, no effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShadowView {
    /// The policy.
    pub policy: PolicyRef,
    /// Its distribution, in candidate order; empty where it failed.
    pub pmf: Vec<f64>,
}

/// One action's probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Probability {
    /// How the worker would be run.
    pub mode: Mode,
    /// The worker.
    pub arm: ArmId,
    /// In [0, 1].
    pub p: f64,
    /// The expected utility, where the policy estimates one: the reward divided by e1 + |e2| * the dearest candidate's
    /// cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<f32>,
}

/// What one voter of an ensemble said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VoterView {
    /// The voter's policy.
    pub policy: String,
    /// Its weight in this domain, in [0, 1]; the voters' weights sum to 1.
    pub weight: f64,
    /// Its distribution, in candidate order.
    pub pmf: Vec<f64>,
}

/// Why an action was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The most probable action was drawn.
    Exploit,
    /// Another action was drawn.
    Explore,
    /// The policy failed, so the action was drawn uniformly; or all arms rested, so one of them was drawn all the same.
    Fallback,
    /// Only one action was allowed.
    Forced,
}
