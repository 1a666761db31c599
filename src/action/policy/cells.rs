//! Counts and means per (domain, action): the sufficient statistics of every policy that knows domains.
//!
//! Domains come from clients, so their number is bounded: past [`DOMAINS_MAX`] a new domain only adds to its actions'
//! totals over all domains. Each domain's cells sit behind one Arc, so that a snapshot shares all but the one that
//! changed.

use std::{collections::BTreeMap, sync::Arc};

use super::Action;
use crate::round::Domain;

/// How many domains have cells of their own.
pub(super) const DOMAINS_MAX: usize = 256;

/// What is known of one action somewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Cell {
    /// Rounds.
    pub(super) n: f64,
    /// Their utilities' sum.
    pub(super) sum: f64,
}

/// The cells of all domains, and each action's total.
#[derive(Debug, Clone, Default)]
pub(super) struct Cells {
    domains: BTreeMap<Domain, Arc<BTreeMap<Action, Cell>>>,
    totals: Arc<BTreeMap<Action, Cell>>,
    rounds: u64,
}

impl Cell {
    /// (sum + mass * prior) / (n + mass): the mean, shrunk toward `prior` as if that had been seen `mass` times.
    pub(super) fn shrunk_mean(&self, prior: f64, mass: f64) -> f64 {
        (self.sum + mass * prior) / (self.n + mass)
    }

    fn add(&mut self, utility: f64) {
        self.n += 1.0;
        self.sum += utility;
    }
}

impl Cells {
    /// Adds one round.
    pub(super) fn learn(&mut self, domain: &Domain, action: Action, utility: f64) {
        self.rounds += 1;
        Arc::make_mut(&mut self.totals).entry(action.clone()).or_default().add(utility);
        if self.domains.len() < DOMAINS_MAX || self.domains.contains_key(domain) {
            let cells = self.domains.entry(domain.clone()).or_default();
            Arc::make_mut(cells).entry(action).or_default().add(utility);
        }
    }

    /// What an action did in a domain.
    pub(super) fn cell(&self, domain: &Domain, action: &Action) -> Cell {
        self.domains.get(domain).and_then(|cells| cells.get(action)).copied().unwrap_or_default()
    }

    /// What an action did in all domains.
    pub(super) fn total(&self, action: &Action) -> Cell {
        self.totals.get(action).copied().unwrap_or_default()
    }

    /// All actions ever learnt, in order.
    pub(super) fn actions(&self) -> impl Iterator<Item = &Action> {
        self.totals.keys()
    }

    /// Every domain's cells, in order.
    pub(super) fn domains(&self) -> impl Iterator<Item = (&Domain, &BTreeMap<Action, Cell>)> {
        self.domains.iter().map(|(domain, cells)| (domain, &**cells))
    }

    /// How many rounds were learnt.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::{ArmId, Mode};

    #[test]
    fn domains_are_bounded_and_the_totals_still_learn() {
        let action = (Mode::Single, ArmId::new("a").unwrap());
        let mut cells = Cells::default();
        for number in 0..DOMAINS_MAX + 10 {
            cells.learn(&Domain::new(format!("d{number}")).unwrap(), action.clone(), 0.5);
        }
        assert_eq!(cells.domains().count(), DOMAINS_MAX);
        assert_eq!(cells.total(&action).n, (DOMAINS_MAX + 10) as f64);
    }
}
