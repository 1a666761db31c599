//! Why a tenant may not do what it asked for.

use super::{BudgetWindow, Exhausted};
use crate::round::{ArmId, Domain, TenantId};

/// Why a tenant may not do what it asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Its requests of a minute are used up.
    #[error(
        "tenant {tenant} may send {limit} tasks a minute; wait {:.1} s, as `Retry-After` says, or send a stream, which is slowed to the rate",
        *.wait_ns as f64 / 1e9
    )]
    TooFast {
        /// The tenant.
        tenant: TenantId,
        /// Tasks per minute.
        limit: u32,
        /// Nanoseconds until the next one may come.
        wait_ns: u64,
    },
    /// As many of its tasks run as may.
    #[error("{limit} tasks of tenant {tenant} run already, which is its limit; try again when one has ended")]
    TooMany {
        /// The tenant.
        tenant: TenantId,
        /// Tasks at once.
        limit: u32,
    },
    /// Its dollars are spent, or put aside for what runs.
    #[error("{}", exhausted(.tenant, .why))]
    Budget {
        /// The tenant.
        tenant: TenantId,
        /// How.
        why: Exhausted,
    },
    /// The domain is not one of its own.
    #[error("tenant {tenant} may not send tasks of domain {domain}; its domains are: {allowed}")]
    Domain {
        /// The tenant.
        tenant: TenantId,
        /// What it asked for.
        domain: Domain,
        /// What it may ask for.
        allowed: String,
    },
    /// The arm is not one of its own.
    #[error("tenant {tenant} may not use arm {arm}; its arms are: {allowed}")]
    Arm {
        /// The tenant.
        tenant: TenantId,
        /// What it asked for.
        arm: ArmId,
        /// What it may ask for.
        allowed: String,
    },
}

fn exhausted(tenant: &TenantId, why: &Exhausted) -> String {
    let usd = |nano: u64| nano as f64 / 1e9;
    let window = match why.window {
        BudgetWindow::Day => "day",
        BudgetWindow::Month => "month",
    };
    let advice = if why.only_held {
        "try again when they have ended".to_owned()
    } else {
        format!(
            "the next {window} begins in {} s; raise tenants.{tenant}.usd_per_{window} to go on",
            why.resets_in_ms / 1_000
        )
    };
    format!(
        "tenant {tenant} may spend {:.6} dollars a {window}; {:.6} are spent, {:.6} are put aside for tasks that run, and this task \
         may cost {:.6}: {advice}",
        usd(why.limit_nano_usd),
        usd(why.spent_nano_usd),
        usd(why.held_nano_usd),
        usd(why.needed_nano_usd)
    )
}
