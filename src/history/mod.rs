//! What rounds came to and when: the read model behind the page's charts, in all and by domain.
//!
//! It is folded round by round from the journal, like all that is learnt, so it is the same after a restart; no view reads
//! the journal. Its size is bounded whatever comes: times are kept in rings of buckets that get wider with age
//! (`timeline`), curves are thinned, recent verifications are a ring, and past [`DOMAINS_MAX`] domains, [`VERIFIERS_MAX`]
//! verifiers of one and [`VOTERS_MAX`] voters, later ones count in the whole alone.
//!
//! Times are the journal's. A clock that was set back puts rounds into the bucket of the time that it tells; nothing is lost
//! by it, and nothing has to be in order.

mod arms;
mod report;
mod timeline;
mod verifiers;
mod weights;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::round::{ArmId, Audited, Domain, Mode, Verdict};

use verifiers::Verifiers;
use weights::Weights;

pub use arms::{ArmRecord, Arms, Posterior};
pub use report::{HistoryReport, Point};
pub use timeline::{Range, Sums, Timeline};
pub use verifiers::{RecentRuns, VerifierRecord};
pub use weights::{WeightPoint, WeightsReport};

/// Domains with a history of their own.
pub const DOMAINS_MAX: usize = 256;
/// Verifiers of a domain that are told apart.
pub const VERIFIERS_MAX: usize = 64;
/// Voters whose weights are kept.
pub const VOTERS_MAX: usize = 32;

/// A round as it is added.
#[derive(Debug, Clone, Copy)]
pub struct Lived<'a> {
    /// When it was judged, in milliseconds since 1970.
    pub at_ms: i64,
    /// The task's domain.
    pub domain: &'a Domain,
    /// The arm taken.
    pub arm: &'a ArmId,
    /// How it was run.
    pub mode: Mode,
    /// Whether there was no answer.
    pub failed: bool,
    /// In [0, 1].
    pub score: f64,
    /// The reward.
    pub reward: f64,
    /// Dollars.
    pub cost_usd: f64,
    /// The probability that another arm than the favourite would be taken; none where there was no choice.
    pub exploring: Option<f64>,
    /// What its regret added to the exact sum; 0 where that is not known.
    pub exact_regret: f64,
    /// What it added to the estimate.
    pub estimated_regret: f64,
    /// The voters and their weights in the decision.
    pub voters: &'a [(String, f64)],
    /// What the verifiers said.
    pub verdicts: &'a [Verdict],
}

/// All that is kept. Written and read back as JSON it is the same bit for bit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct History {
    all: Timeline,
    domains: BTreeMap<Domain, DomainHistory>,
}

/// What is kept of a domain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DomainHistory {
    timeline: Timeline,
    arms: Arms,
    weights: Weights,
    verifiers: Verifiers,
}

impl History {
    /// Adds a round.
    pub fn add(&mut self, lived: &Lived<'_>) {
        self.all.add(lived);
        if let Some(domain) = self.of(lived.domain) {
            domain.timeline.add(lived);
            domain.arms.add(lived);
            domain.weights.add(lived, domain.timeline.totals().rounds);
            domain.verifiers.add(lived.verdicts);
        }
    }

    /// Adds how an audit probe of a task ended.
    pub fn probe(&mut self, audited: &Audited, at_ms: i64) {
        self.all.probe(at_ms);
        if let Some(domain) = self.of(&audited.domain) {
            domain.timeline.probe(at_ms);
        }
    }

    fn of(&mut self, domain: &Domain) -> Option<&mut DomainHistory> {
        let room = self.domains.len() < DOMAINS_MAX || self.domains.contains_key(domain);
        room.then(|| self.domains.entry(domain.clone()).or_default())
    }

    /// All rounds.
    pub fn all(&self) -> &Timeline {
        &self.all
    }

    /// One domain's, if it was ever seen.
    pub fn domain(&self, domain: &Domain) -> Option<&DomainHistory> {
        self.domains.get(domain)
    }

    /// The domains that have one.
    pub fn domains(&self) -> impl Iterator<Item = (&Domain, &DomainHistory)> {
        self.domains.iter()
    }
}

impl DomainHistory {
    /// Its rounds by time.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// What each arm brought.
    pub fn arms(&self) -> &Arms {
        &self.arms
    }

    /// The voters' weights over its rounds.
    pub fn weights(&self) -> WeightsReport {
        self.weights.report()
    }

    /// How each verifier did, by name.
    pub fn verifiers(&self) -> impl Iterator<Item = (&str, VerifierRecord)> {
        self.verifiers.records()
    }
}

#[cfg(test)]
mod tests;
