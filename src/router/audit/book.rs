//! What probes spent, and which have begun and not ended: a fold over the journal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    access::{Purse, Totals},
    round::{Audited, DecisionId, Probe, ProbeEnd},
};

/// The book of probes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::router) struct Book {
    spent: Totals,
    /// When the day's dollars did not suffice for the last time, in milliseconds since 1970.
    refused_at_ms: Option<i64>,
    /// Those under way.
    open: BTreeMap<DecisionId, Probe>,
}

impl Book {
    /// Whether there never was a probe.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.refused_at_ms.is_none() && self.spent.is_zero()
    }

    /// A probe begins.
    pub fn begin(&mut self, probe: &Probe) {
        self.open.insert(probe.decision_id, probe.clone());
    }

    /// It ended, at a time in milliseconds since 1970.
    pub fn end(&mut self, audited: &Audited, at_ms: i64) {
        self.open.remove(&audited.decision_id);
        self.spent.add(audited.nano_usd, at_ms);
        match audited.end {
            ProbeEnd::OverCap => self.refused_at_ms = Some(at_ms),
            ProbeEnd::Measured | ProbeEnd::Incomplete | ProbeEnd::CutOff | ProbeEnd::Busy => {}
        }
    }

    /// The ends of the probes that nobody runs any more: all that they had put aside counts as spent.
    pub fn cut_off(&self) -> Vec<Audited> {
        let ended = |probe: &Probe| Audited {
            decision_id: probe.decision_id,
            domain: probe.domain.clone(),
            probability: probe.probability,
            end: ProbeEnd::CutOff,
            arms: vec![],
            nano_usd: probe.held_nano_usd,
        };
        self.open.values().map(ended).collect()
    }

    /// The day's dollars as far as they are not spent, by probes that were cut off either.
    pub fn purse(&self, usd_per_day: f64) -> Purse {
        Purse::new(usd_per_day, self.spent, self.refused_at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::Domain;

    const NOON: i64 = 1_704_110_400_000;

    #[test]
    fn a_probe_that_a_crash_cut_off_counts_with_all_that_it_had_put_aside() {
        let probe = |id: u128| Probe {
            decision_id: DecisionId::from(id),
            domain: Domain::new("math").unwrap(),
            probability: 0.1,
            held_nano_usd: 400_000_000,
        };
        let mut book = Book::default();
        assert!(book.is_empty());
        book.begin(&probe(1));
        book.begin(&probe(2));
        let text = serde_json::to_string(&book).unwrap();
        assert_eq!(serde_json::from_str::<Book>(&text).unwrap(), book);
        let ended = Audited { end: ProbeEnd::Measured, nano_usd: 100_000_000, ..book.cut_off().remove(0) };
        book.end(&ended, NOON);
        let cut_off = book.cut_off();
        assert_eq!((cut_off.len(), cut_off[0].end, cut_off[0].nano_usd), (1, ProbeEnd::CutOff, 400_000_000));
        book.end(&cut_off[0], NOON);
        assert!(book.cut_off().is_empty());
        let purse = book.purse(1.0);
        assert_eq!(purse.used(NOON).spent_usd, 0.5);
        let refused = Audited { end: ProbeEnd::OverCap, nano_usd: 0, ..ended };
        book.end(&refused, NOON);
        assert!(!book.purse(1.0).is_open(NOON + 1));
    }
}
