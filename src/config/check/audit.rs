//! Audit probes.

use std::{collections::BTreeMap, time::Duration};

use super::{Checker, raw};
use crate::{feedback::verifier::VerifierSpec, round::Domain, router::AuditSettings};

/// More would be an experiment and no check, and dear.
const SHARE_MAX: f64 = 0.1;

impl Checker<'_> {
    /// Nothing where no task is probed.
    pub(super) fn audit(&mut self, domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>) -> Option<AuditSettings> {
        let raw::Audit { share, usd_per_day, domains: wanted, concurrency, deadline_ms } = self.section("audit")?;
        let named = wanted.as_ref().is_none_or(|names| !names.is_empty());
        let wanted = wanted.map(|names| self.known_domains("audit.domains", &names, domains));
        let p = &mut self.problems;
        p.require((0.0..=SHARE_MAX).contains(&share), "audit.share", "must be from 0 (off) to 0.1");
        p.require((1..=64).contains(&concurrency), "audit.concurrency", "must be from 1 to 64");
        let timely = (1_000..=3_600_000).contains(&deadline_ms);
        p.require(timely, "audit.deadline_ms", "must be from 1000 (a second) to 3600000 (an hour)");
        p.require(named, "audit.domains", "must name a domain; leave it out for all, or set audit.share = 0");
        if share <= 0.0 {
            return None;
        }
        let dollars = usd_per_day.filter(|usd| (0.0..=1e6).contains(usd));
        p.require(
            dollars.is_some(),
            "audit.usd_per_day",
            "must say what this may cost in a day, from 0 to 1000000 dollars",
        );
        let deadline = Duration::from_millis(deadline_ms);
        Some(AuditSettings { share, usd_per_day: dollars?, domains: wanted, concurrency, deadline })
    }
}
