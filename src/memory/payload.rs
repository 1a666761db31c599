//! What stands beside a vector in a store or a snapshot: the same fields everywhere, so that entries can move.

use serde::{Deserialize, Serialize};

use super::Entry;
use crate::round::{ArmId, Domain, Embedding, Neighbour, TaskId, TriedArm};

/// An entry without its embedding. Fields are only ever added, with a default, so that old stores stay readable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Payload {
    pub seq: u64,
    pub task_id: TaskId,
    pub domain: Domain,
    #[serde(default)]
    pub at_ms: i64,
    /// The arms of `outcomes`, for filters.
    #[serde(default)]
    pub arms: Vec<ArmId>,
    pub outcomes: Vec<TriedArm>,
}

impl Payload {
    pub fn new(seq: u64, entry: &Entry) -> Self {
        Self {
            seq,
            task_id: entry.task_id.clone(),
            domain: entry.domain.clone(),
            at_ms: entry.at_ms,
            arms: entry.outcomes.iter().map(|tried| tried.arm.clone()).collect(),
            outcomes: entry.outcomes.clone(),
        }
    }

    pub fn into_entry(self, embedding: Embedding) -> Entry {
        let Self { task_id, domain, at_ms, outcomes, .. } = self;
        Entry { task_id, domain, at_ms, embedding, outcomes }
    }

    pub fn into_neighbour(self, similarity: f32) -> Neighbour {
        Neighbour {
            seq: self.seq,
            task_id: self.task_id,
            similarity,
            domain: Some(self.domain),
            outcomes: self.outcomes,
        }
    }
}
