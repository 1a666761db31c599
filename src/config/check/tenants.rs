//! The tenants and what each may use.

use std::collections::{BTreeMap, BTreeSet};

use toml::Value;

use super::{Checker, one_line, raw};
use crate::{
    access::TenantSettings,
    feedback::verifier::VerifierSpec,
    round::{ArmId, Domain, RewardWeights, TenantId},
};

/// More than any tenant needs; what is above is a slip.
const RATE_MAX: u32 = 1_000_000;
const CONCURRENCY_MAX: u32 = 100_000;

impl Checker<'_> {
    pub(super) fn tenants(
        &mut self,
        reward: Option<RewardWeights>,
        domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>,
    ) -> BTreeMap<TenantId, TenantSettings> {
        let mut tenants = BTreeMap::new();
        let Some(Value::Table(table)) = self.table.get("tenants").cloned() else {
            let absent = !self.table.contains_key("tenants");
            self.problems.require(absent, "tenants", "must be tables, such as [tenants.acme]");
            return tenants;
        };
        for (name, value) in table {
            let key = format!("tenants.{name}");
            let tenant = TenantId::new(&name).map_err(|error| self.problems.add(&key, error.problem));
            let section = value.try_into::<raw::Tenant>().map_err(|error| self.problems.add(&key, one_line(&error)));
            let Ok(section) = section else { continue };
            let settings = self.tenant(&key, section, reward, domains);
            if let Ok(tenant) = tenant {
                tenants.insert(tenant, settings);
            }
        }
        tenants
    }

    fn tenant(
        &mut self,
        key: &str,
        raw: raw::Tenant,
        reward: Option<RewardWeights>,
        domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>,
    ) -> TenantSettings {
        let p = &mut self.problems;
        if let Some(Err(error)) = raw.reward.as_ref().map(RewardWeights::validate) {
            p.add(format!("{key}.{}", error.field), error.problem);
        }
        let weighed = raw.alpha.is_none_or(|alpha| (0.0..=1.0).contains(&alpha));
        p.require(weighed, format!("{key}.alpha"), "must be from 0 (only the score counts) to 1");
        let paced = raw.requests_per_minute.is_none_or(|n| (1..=RATE_MAX).contains(&n));
        let advice = "must be from 1 to 1000000 tasks a minute; leave it out for no limit";
        p.require(paced, format!("{key}.requests_per_minute"), advice);
        let few = raw.concurrency.is_none_or(|n| (1..=CONCURRENCY_MAX).contains(&n));
        p.require(
            few,
            format!("{key}.concurrency"),
            "must be from 1 to 100000 tasks at once; leave it out for no limit",
        );
        for (name, usd) in [("usd_per_day", raw.usd_per_day), ("usd_per_month", raw.usd_per_month)] {
            let sane = usd.is_none_or(|usd| (0.0..=1e9).contains(&usd));
            p.require(sane, format!("{key}.{name}"), "must be dollars from 0 to 1000000000; leave it out for no limit");
        }
        if let (Some(day), Some(month)) = (raw.usd_per_day, raw.usd_per_month) {
            let fits = day <= month;
            p.require(
                fits,
                format!("{key}.usd_per_day"),
                "is above usd_per_month: it could never be reached, lower it",
            );
        }
        TenantSettings {
            reward: raw.reward.or(reward).unwrap_or_default(),
            alpha: raw.alpha,
            domains: raw.domains.map(|names| self.domain_names(&format!("{key}.domains"), names, domains)),
            arms: raw.arms.map(|names| self.tenant_arms(&format!("{key}.arms"), names)),
            requests_per_minute: raw.requests_per_minute,
            usd_per_day: raw.usd_per_day,
            usd_per_month: raw.usd_per_month,
            concurrency: raw.concurrency,
        }
    }

    pub(super) fn domain_names(
        &mut self,
        key: &str,
        names: Vec<String>,
        domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>,
    ) -> BTreeSet<Domain> {
        self.problems.require(!names.is_empty(), key, "must name at least one domain; leave it out for all");
        let mut own = BTreeSet::new();
        for name in names {
            match Domain::new(&name) {
                Ok(domain) if domains.is_empty() || domain == Domain::unknown() || domains.contains_key(&domain) => {
                    own.insert(domain);
                }
                Ok(_) => {
                    self.problems.add(key, format!("there is no [domains.{name}]; add it, or name one that is there"))
                }
                Err(error) => self.problems.add(key, error.problem),
            }
        }
        own
    }

    /// Arms may come while the daemon runs, so any well-spelt one may be named.
    fn tenant_arms(&mut self, key: &str, names: Vec<String>) -> BTreeSet<ArmId> {
        self.problems.require(!names.is_empty(), key, "must name at least one arm; leave it out for all");
        let found: Vec<_> = names.into_iter().map(ArmId::new).collect();
        found.into_iter().filter_map(|arm| arm.map_err(|error| self.problems.add(key, error.problem)).ok()).collect()
    }
}
