//! What tenants spent today and this month: a fold over the journal, in whole billionths of a dollar.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::round::TenantId;

const DAY_MS: i64 = 86_400_000;

/// Each tenant's dollars of its last day and month, in Coordinated Universal Time. Earlier ones are forgotten: no limit asks
/// for them, and the journal has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending(BTreeMap<TenantId, Totals>);

/// Dollars of a day and a month.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    day: i64,
    day_nano_usd: u64,
    month: i64,
    month_nano_usd: u64,
}

impl Spending {
    /// Adds what was spent at a time, in milliseconds since 1970.
    pub fn add(&mut self, tenant: &TenantId, nano_usd: u64, at_ms: i64) {
        match self.0.get_mut(tenant) {
            Some(totals) => totals.add(nano_usd, at_ms),
            None => self.0.entry(tenant.clone()).or_default().add(nano_usd, at_ms),
        }
    }

    /// Whether nobody spent anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A tenant's.
    pub(super) fn of(&self, tenant: &TenantId) -> Totals {
        self.0.get(tenant).copied().unwrap_or_default()
    }
}

impl Totals {
    /// Whether nothing was spent.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what was spent at a time, in milliseconds since 1970.
    pub fn add(&mut self, nano_usd: u64, at_ms: i64) {
        let (day, month) = (day(at_ms), month(at_ms));
        if day > self.day {
            (self.day, self.day_nano_usd) = (day, 0);
        }
        if month > self.month {
            (self.month, self.month_nano_usd) = (month, 0);
        }
        self.day_nano_usd = self.day_nano_usd.saturating_add(nano_usd);
        self.month_nano_usd = self.month_nano_usd.saturating_add(nano_usd);
    }

    /// Billionths of a dollar, of the day that a time is in.
    pub fn of_day(&self, now_ms: i64) -> u64 {
        if day(now_ms) > self.day { 0 } else { self.day_nano_usd }
    }

    /// The same of its month.
    pub fn of_month(&self, now_ms: i64) -> u64 {
        if month(now_ms) > self.month { 0 } else { self.month_nano_usd }
    }
}

/// Billionths of a dollar, rounded up; what is no amount counts as nothing.
pub fn nano_usd(usd: f64) -> u64 {
    // A cast of a float keeps to the range of the integer.
    (usd * 1e9).ceil() as u64
}

fn day(at_ms: i64) -> i64 {
    at_ms.div_euclid(DAY_MS)
}

/// Months since the year 0.
fn month(at_ms: i64) -> i64 {
    let (year, month) = civil(day(at_ms));
    year * 12 + month - 1
}

/// Milliseconds until the next day begins.
pub(super) fn to_next_day(now_ms: i64) -> i64 {
    (day(now_ms) + 1) * DAY_MS - now_ms
}

/// Milliseconds until the next month begins.
pub(super) fn to_next_month(now_ms: i64) -> i64 {
    let today = day(now_ms);
    let month = month(now_ms);
    let first = (today + 1..).find(|day| self::month(day * DAY_MS) > month).unwrap_or(today + 31);
    first * DAY_MS - now_ms
}

/// The year and the month, 1 to 12, of a day since 1970 (H. Hinnant, "chrono-compatible low-level date algorithms").
fn civil(day: i64) -> (i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_based = (5 * of_year + 2) / 153;
    let month = if march_based < 10 { march_based + 3 } else { march_based - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noon of the last day of 2023, of the next day, of a leap day and of the day after it.
    const NOONS: [(i64, (i64, i64)); 4] = [
        (1_704_024_000_000, (2023, 12)),
        (1_704_110_400_000, (2024, 1)),
        (1_709_208_000_000, (2024, 2)),
        (1_709_294_400_000, (2024, 3)),
    ];

    #[test]
    fn days_and_months_begin_where_the_calendar_says() {
        for (at_ms, expected) in NOONS {
            assert_eq!(civil(day(at_ms)), expected);
        }
        assert_eq!(civil(0), (1970, 1));
        let [(new_years_eve, _), _, (leap_day, _), _] = NOONS;
        assert_eq!(to_next_day(leap_day), DAY_MS / 2);
        assert_eq!(to_next_month(leap_day), DAY_MS / 2);
        assert_eq!(to_next_month(new_years_eve + DAY_MS / 2), 31 * DAY_MS);
    }

    #[test]
    fn a_new_day_starts_at_nothing_and_the_month_goes_on() {
        let acme = TenantId::new("acme").unwrap();
        let mut spending = Spending::default();
        assert!(spending.is_empty());
        let noon = NOONS[1].0;
        spending.add(&acme, 5, noon);
        spending.add(&acme, 7, noon + DAY_MS);
        let totals = spending.of(&acme);
        assert_eq!((totals.of_day(noon + DAY_MS), totals.of_month(noon + DAY_MS)), (7, 12));
        assert_eq!((totals.of_day(noon + 2 * DAY_MS), totals.of_month(noon + 2 * DAY_MS)), (0, 12));
        assert_eq!(totals.of_month(noon + 31 * DAY_MS), 0);
        let json = serde_json::to_string(&spending).unwrap();
        assert_eq!(serde_json::from_str::<Spending>(&json).unwrap(), spending);
    }

    #[test]
    fn dollars_become_billionths_rounded_up() {
        let cases = [(0.0, 0), (1.0, 1_000_000_000), (1e-10, 1), (-1.0, 0), (f64::NAN, 0), (f64::INFINITY, u64::MAX)];
        for (usd, expected) in cases {
            assert_eq!(nano_usd(usd), expected, "{usd}");
        }
    }
}
