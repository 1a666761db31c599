//! A decided task as the journal holds it: all that is needed to run it, judge it and learn from it later.

use serde::{Deserialize, Serialize};

use super::Event;
use crate::round::{
    Candidate, Coin, Context, Decision, DecisionId, Embedding, Kept, Masked, Neighbour, Proposal, Recall, Taken, Task,
};

/// A context without its embedding, which is stored as bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextRecord {
    /// Whether memory answered.
    pub recall: Recall,
    /// What it recalled.
    pub neighbours: Vec<Neighbour>,
    /// What could be chosen.
    pub candidates: Vec<Candidate>,
    /// What the session's last round took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Taken>,
    /// What cost weighed for a policy that was trained on it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub alpha: f64,
    /// What a language model that routes said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Proposal>,
    /// How it came about.
    #[serde(flatten)]
    pub observed: Observed,
}

/// How a context came about: for the journal, not for policies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The model that embedded the task. Vectors of different models are never compared.
    #[serde(default = "first_model")]
    pub embedding_model: String,
    /// How alike the task and its domain are, where the domain was found by that and not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_similarity: Option<f32>,
    /// Each candidate's true expected score in candidate order, where all workers know theirs: what exact regret is
    /// measured against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_scores: Option<Vec<f64>>,
    /// What is kept of the task's texts.
    #[serde(default, skip_serializing_if = "Kept::is_whole")]
    pub kept: Kept,
    /// The arms that could not be chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<Masked>,
    /// The decision that this one takes the place of, because its worker gave no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<DecisionId>,
    /// Whether the task is to be run on every arm, where it might have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coin: Option<Coin>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Observed {
    /// An embedding of this model, and a domain that was given.
    pub fn of(embedding_model: impl Into<String>) -> Self {
        Self {
            embedding_model: embedding_model.into(),
            domain_similarity: None,
            expected_scores: None,
            kept: Kept::Whole,
            masked: Vec::new(),
            instead_of: None,
            coin: None,
        }
    }
}

/// The only model there was before the journal named it.
pub(super) const FIRST_MODEL: &str = "all-MiniLM-L6-v2";

fn first_model() -> String {
    FIRST_MODEL.into()
}

/// A decided task with all that is needed to run it, judge it and learn from it, at once or days later.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// The task.
    pub task: Task,
    /// The context as it was seen.
    pub context: Context,
    /// How it came about.
    pub observed: Observed,
    /// The decision.
    pub decision: Decision,
}

impl Decided {
    /// Puts a record and its embedding together again.
    pub fn from_parts(task: Task, record: ContextRecord, embedding: Embedding, decision: Decision) -> Self {
        let context = Context {
            text: "".into(),
            embedding,
            domain: task.domain.clone(),
            neighbours: record.neighbours,
            recall: record.recall,
            candidates: record.candidates,
            last: record.last,
            weights: task.reward.unwrap_or_default(),
            alpha: record.alpha,
            proposal: record.proposal,
        };
        Self { task, context, observed: record.observed, decision }
    }

    /// The dollars that the arm taken was expected to cost.
    pub fn expected_cost_usd(&self) -> f64 {
        let taken = |candidate: &&Candidate| candidate.arm == self.decision.arm && candidate.mode == self.decision.mode;
        self.context.candidates.iter().find(taken).map_or(0.0, |candidate| candidate.cost_usd)
    }

    /// The dollars that a language model's proposal cost.
    pub fn proposal_usd(&self) -> f64 {
        self.context.proposal.as_ref().map_or(0.0, |proposal| proposal.cost_usd)
    }

    /// The event that records it.
    pub fn to_event(&self) -> Event {
        Event::Decided {
            task: self.task.clone(),
            context: ContextRecord {
                recall: self.context.recall.clone(),
                neighbours: self.context.neighbours.clone(),
                candidates: self.context.candidates.clone(),
                last: self.context.last.clone(),
                alpha: self.context.alpha,
                proposal: self.context.proposal.clone(),
                observed: self.observed.clone(),
            },
            decision: self.decision.clone(),
        }
    }
}
