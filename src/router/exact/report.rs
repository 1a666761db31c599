//! What an exact replay found.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::round::DecisionId;

/// What an exact replay found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ExactReport {
    /// The place of the last event.
    pub at: i64,
    /// Decisions in the journal.
    pub decisions: u64,
    /// Those that were made again.
    pub again: u64,
    /// Those that came out equal in everything.
    pub equal: u64,
    /// How many came out equal in each thing.
    pub compared: Compared,
    /// The first that did not, and how.
    pub first: Vec<Difference>,
    /// Those that could not be made again, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Rounds learnt.
    pub learnt_rounds: u64,
    /// The BLAKE3 hash of all that was learnt, at the end.
    pub state_hash: String,
    /// What the checkpoint holds.
    pub checkpoint: Option<CheckpointFound>,
    /// Why the checkpoint could not be compared.
    pub checkpoint_problem: Option<String>,
    /// Wall seconds.
    pub seconds: f64,
}

/// How many decisions were equal in what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Compared {
    /// Probabilities and what was expected of each candidate.
    pub pmf: u64,
    /// The arm, and how it was run.
    pub arm: u64,
    /// The propensity.
    pub propensity: u64,
    /// The voters' views.
    pub voters: u64,
    /// The view of the policy on trial.
    pub shadow: u64,
    /// What was known of the candidates.
    pub features: u64,
    /// The domain, where it was found and not given.
    pub domain: u64,
    /// Decisions whose domain was found.
    pub domains_found: u64,
    /// The policy, what it had learnt, and the reason.
    pub policy: u64,
}

/// A decision that came out otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Its place in the journal.
    pub seq: i64,
    /// The decision.
    pub decision: DecisionId,
    /// What differs, and how.
    pub what: Vec<String>,
}

/// A checkpoint's hash, and that of the journal folded up to the same place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckpointFound {
    /// The place.
    pub at: i64,
    /// What the file holds.
    pub state_hash: String,
    /// What the journal gives.
    pub replayed_hash: String,
}

impl ExactReport {
    /// Whether nothing differs that could be compared.
    pub fn is_exact(&self) -> bool {
        let same = |found: &CheckpointFound| found.state_hash == found.replayed_hash;
        self.equal == self.again && self.checkpoint.as_ref().is_none_or(same)
    }

    pub(super) fn leave_out(&mut self, why: impl Into<String>, decisions: u64) {
        if decisions > 0 {
            *self.left_out.entry(why.into()).or_default() += decisions;
        }
    }
}
