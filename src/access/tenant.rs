//! The tenants of the configuration: what each may use, and what it uses now.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{AccessError, Budget, Rate, RateLimit, Spending, budget::SharedBudget, nano_usd};
use crate::round::{ArmId, DecisionId, Domain, RewardWeights, TenantId};

/// What a tenant may use. A limit that is absent does not limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TenantSettings {
    /// What its tasks' reward weighs.
    pub reward: RewardWeights,
    /// What cost weighs for a policy that was trained on it, in [0, 1], instead of the daemon's.
    pub alpha: Option<f64>,
    /// The domains that its tasks may have.
    pub domains: Option<BTreeSet<Domain>>,
    /// The arms that its tasks may use.
    pub arms: Option<BTreeSet<ArmId>>,
    /// Tasks in a minute, at least 1.
    pub requests_per_minute: Option<u32>,
    /// Dollars in a day of Coordinated Universal Time, at least 0.
    pub usd_per_day: Option<f64>,
    /// Dollars in a month, at least 0.
    pub usd_per_month: Option<f64>,
    /// Tasks at once, at least 1.
    pub concurrency: Option<u32>,
}

/// All tenants. Empty where none are configured: any may be named then, and none is limited.
#[derive(Debug)]
pub struct Tenants {
    tenants: BTreeMap<TenantId, Tenant>,
    // The zero of the rates' time.
    started: Instant,
}

#[derive(Debug)]
struct Tenant {
    settings: TenantSettings,
    rate: Option<RateLimit>,
    places: Option<Arc<Semaphore>>,
    budget: SharedBudget,
}

/// A tenant's task that may run; its place is free again when this is dropped.
#[derive(Debug)]
#[must_use = "the place is free when it is dropped"]
pub struct Admission {
    _place: Option<OwnedSemaphorePermit>,
}

/// Dollars put aside for a task; given back when dropped.
#[derive(Debug)]
#[must_use = "the dollars are given back when it is dropped"]
pub struct Hold {
    // None where the task has no tenant with a budget.
    budget: Option<SharedBudget>,
    nano_usd: u64,
}

/// Whose tasks somebody may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everybody's.
    All,
    /// One tenant's, or those without tenant.
    Own(Option<TenantId>),
}

impl Scope {
    /// Whether a task of this tenant may be seen.
    pub fn sees(&self, tenant: Option<&TenantId>) -> bool {
        match self {
            Self::All => true,
            Self::Own(own) => own.as_ref() == tenant,
        }
    }
}

/// What a tenant may use and uses.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct TenantReport {
    /// Its name.
    pub tenant: TenantId,
    /// Tasks in a minute.
    pub requests_per_minute: Option<u32>,
    /// Tasks at once.
    pub concurrency: Option<u32>,
    /// Dollars in a day.
    pub usd_per_day: Option<f64>,
    /// Dollars in a month.
    pub usd_per_month: Option<f64>,
    /// Dollars spent today.
    pub spent_today_usd: f64,
    /// Dollars spent this month.
    pub spent_this_month_usd: f64,
    /// Dollars put aside for tasks under way.
    pub held_usd: f64,
}

impl Tenants {
    /// The configured tenants, with what they spent so far.
    pub fn new(settings: BTreeMap<TenantId, TenantSettings>, spending: &Spending) -> Self {
        let tenant = |(id, settings): (TenantId, TenantSettings)| {
            let nano = |usd: Option<f64>| usd.map(nano_usd);
            let budget = Budget::new(nano(settings.usd_per_day), nano(settings.usd_per_month), spending.of(&id));
            let tenant = Tenant {
                rate: settings.requests_per_minute.map(RateLimit::new),
                places: settings.concurrency.map(|n| Arc::new(Semaphore::new(n as usize))),
                budget: Arc::new(Mutex::new(budget)),
                settings,
            };
            (id, tenant)
        };
        Self { tenants: settings.into_iter().map(tenant).collect(), started: Instant::now() }
    }

    /// What a tenant may use; nothing for one that is not configured.
    pub fn settings(&self, tenant: &TenantId) -> Option<&TenantSettings> {
        self.tenants.get(tenant).map(|tenant| &tenant.settings)
    }

    /// Whether any tenant may be named.
    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Whether a tenant may be named.
    pub fn knows(&self, tenant: &TenantId) -> bool {
        self.is_empty() || self.tenants.contains_key(tenant)
    }

    /// The names, for messages.
    pub fn known(&self) -> String {
        self.tenants.keys().map(TenantId::as_str).collect::<Vec<_>>().join(", ")
    }

    /// Lets a task in, if the rate and the number of those that run allow it.
    pub fn admit(&self, tenant: Option<&TenantId>) -> Result<Admission, AccessError> {
        let Some((id, Tenant { settings, rate, places, .. })) = self.get(tenant) else {
            return Ok(Admission { _place: None });
        };
        // First the place: a task that finds none takes nothing of the rate.
        let place = places.clone().map(Semaphore::try_acquire_owned).transpose();
        let limit = settings.concurrency.unwrap_or_default();
        let place = place.map_err(|_| AccessError::TooMany { tenant: id.clone(), limit })?;
        if let Some(rate) = rate {
            let limit = settings.requests_per_minute.unwrap_or_default();
            rate.take(self.now_ns()).map_err(|wait_ns| AccessError::TooFast { tenant: id.clone(), limit, wait_ns })?;
        }
        Ok(Admission { _place: place })
    }

    /// The same, waiting for the rate and a free place.
    pub async fn admit_in_turn(&self, tenant: Option<&TenantId>) -> Admission {
        let Some((_, Tenant { rate, places, .. })) = self.get(tenant) else { return Admission { _place: None } };
        if let Some(rate) = rate {
            while let Err(wait_ns) = rate.take(self.now_ns()) {
                tokio::time::sleep(Duration::from_nanos(wait_ns)).await;
            }
        }
        let place = match places.clone() {
            // The semaphore is never closed.
            Some(places) => places.acquire_owned().await.ok(),
            None => None,
        };
        Admission { _place: place }
    }

    /// What is left of a tenant's rate, if it has one.
    pub fn rate(&self, tenant: &TenantId) -> Option<Rate> {
        self.tenants.get(tenant)?.rate.as_ref().map(|rate| rate.rate(self.now_ns()))
    }

    /// Puts aside what a task may cost. Times are milliseconds since 1970.
    pub fn reserve(&self, tenant: Option<&TenantId>, cost_usd: f64, now_ms: i64) -> Result<Hold, AccessError> {
        let Some((id, tenant)) = self.get(tenant) else { return Ok(Hold { budget: None, nano_usd: 0 }) };
        let nano_usd = nano_usd(cost_usd);
        let reserved = lock(&tenant.budget).reserve(nano_usd, now_ms);
        reserved.map_err(|why| AccessError::Budget { tenant: id.clone(), why })?;
        Ok(Hold { budget: Some(Arc::clone(&tenant.budget)), nano_usd })
    }

    /// Holds dollars for a decision of before that waits for its feedback, whatever the limits say: it is under way.
    pub fn hold_again(&self, tenant: Option<&TenantId>, id: DecisionId, cost_usd: f64, until_ms: i64) {
        if let Some((_, tenant)) = self.get(tenant) {
            lock(&tenant.budget).hold_again(id, nano_usd(cost_usd), until_ms);
        }
    }

    /// Counts what a parked decision cost, in place of what it held.
    pub fn settle_parked(&self, tenant: &TenantId, id: DecisionId, nano_usd: u64, now_ms: i64) {
        if let Some(tenant) = self.tenants.get(tenant) {
            let mut budget = lock(&tenant.budget);
            budget.unpark(id);
            budget.settle(0, nano_usd, now_ms);
        }
    }

    /// Gives back what a parked decision held.
    pub fn release_parked(&self, tenant: Option<&TenantId>, id: DecisionId) {
        if let Some((_, tenant)) = self.get(tenant) {
            lock(&tenant.budget).unpark(id);
        }
    }

    /// Every tenant's limits, and what it used of them at a time, in milliseconds since 1970.
    pub fn report(&self, now_ms: i64) -> Vec<TenantReport> {
        let usd = |nano: u64| nano as f64 / 1e9;
        let report = |(id, tenant): (&TenantId, &Tenant)| {
            let (day, month, held) = {
                let mut budget = lock(&tenant.budget);
                budget.expire(now_ms);
                budget.used(now_ms)
            };
            let TenantSettings { requests_per_minute, concurrency, usd_per_day, usd_per_month, .. } = tenant.settings;
            TenantReport {
                tenant: id.clone(),
                requests_per_minute,
                concurrency,
                usd_per_day,
                usd_per_month,
                spent_today_usd: usd(day),
                spent_this_month_usd: usd(month),
                held_usd: usd(held),
            }
        };
        self.tenants.iter().map(report).collect()
    }

    fn get(&self, tenant: Option<&TenantId>) -> Option<(&TenantId, &Tenant)> {
        tenant.and_then(|tenant| self.tenants.get_key_value(tenant))
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

impl TenantSettings {
    /// Whether its tasks may have a domain.
    pub fn allows_domain(&self, domain: &Domain) -> bool {
        self.domains.as_ref().is_none_or(|domains| domains.contains(domain))
    }

    /// Whether its tasks may use an arm.
    pub fn allows_arm(&self, arm: &ArmId) -> bool {
        self.arms.as_ref().is_none_or(|arms| arms.contains(arm))
    }

    /// Refuses a domain that is not one of its own.
    pub fn check_domain(&self, tenant: &TenantId, domain: &Domain) -> Result<(), AccessError> {
        if self.allows_domain(domain) {
            return Ok(());
        }
        let allowed = self.domains.iter().flatten().map(Domain::as_str).collect::<Vec<_>>().join(", ");
        Err(AccessError::Domain { tenant: tenant.clone(), domain: domain.clone(), allowed })
    }

    /// Refuses arms that a task names and that are not its own.
    pub fn check_arms(&self, tenant: &TenantId, asked: Option<&[ArmId]>) -> Result<(), AccessError> {
        let Some(arm) = asked.into_iter().flatten().find(|arm| !self.allows_arm(arm)) else { return Ok(()) };
        let allowed = self.arms.iter().flatten().map(ArmId::as_str).collect::<Vec<_>>().join(", ");
        Err(AccessError::Arm { tenant: tenant.clone(), arm: arm.clone(), allowed })
    }
}

impl Hold {
    /// Dollars that were put aside of a budget.
    pub(super) fn of(budget: SharedBudget, nano_usd: u64) -> Self {
        Self { budget: Some(budget), nano_usd }
    }

    /// Counts what the task cost in place of what was put aside. Times are milliseconds since 1970.
    pub fn settle(mut self, nano_usd: u64, now_ms: i64) {
        if let Some(budget) = self.budget.take() {
            lock(&budget).settle(self.nano_usd, nano_usd, now_ms);
        }
    }

    /// Keeps the dollars for a decision that its caller runs, until feedback comes or a time.
    pub fn park(mut self, id: DecisionId, until_ms: i64) {
        if let Some(budget) = self.budget.take()
            && !lock(&budget).park(id, self.nano_usd, until_ms)
        {
            tracing::warn!(%id, "too many decisions of a tenant wait for feedback: this one holds no dollars");
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(budget) = self.budget.take() {
            lock(&budget).release(self.nano_usd);
        }
    }
}

fn lock(budget: &SharedBudget) -> MutexGuard<'_, Budget> {
    budget.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
