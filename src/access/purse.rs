//! Dollars of a day for what the daemon does of its own accord.
//!
//! They are put aside before, as a tenant's are, and settled after. The first that cannot be put aside closes the purse until
//! the next day: a dear task that is refused where cheap ones still fit would leave the dear ones out of what is measured.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Budget, Exhausted, Hold, budget::SharedBudget, nano_usd, spending::Totals};

/// The dollars of a day.
#[derive(Debug)]
pub struct Purse {
    budget: SharedBudget,
    // Guards the time until which nothing is put aside any more, in milliseconds since 1970.
    closed_until_ms: Mutex<i64>,
}

/// What was used of a purse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Used {
    /// Dollars spent today.
    pub spent_usd: f64,
    /// Dollars put aside for what is under way.
    pub held_usd: f64,
    /// Whether more may be put aside.
    pub open: bool,
}

impl Purse {
    /// So many dollars a day, with what was spent so far and when it was refused last, in milliseconds since 1970.
    pub fn new(usd_per_day: f64, spent: Totals, refused_at_ms: Option<i64>) -> Self {
        let closed_until_ms = refused_at_ms.map_or(0, |at_ms| at_ms + super::spending::to_next_day(at_ms));
        let budget = Budget::new(Some(nano_usd(usd_per_day)), None, spent);
        Self { budget: Arc::new(Mutex::new(budget)), closed_until_ms: Mutex::new(closed_until_ms) }
    }

    /// Whether anything may be put aside, at a time in milliseconds since 1970.
    pub fn is_open(&self, now_ms: i64) -> bool {
        *self.closing() <= now_ms
    }

    /// Puts billionths of a dollar aside. Where they do not fit the purse closes for the day.
    pub fn reserve(&self, nano_usd: u64, now_ms: i64) -> Option<Hold> {
        let mut closed_until_ms = self.closing();
        if *closed_until_ms > now_ms {
            return None;
        }
        let reserved = self.budget.lock().unwrap_or_else(PoisonError::into_inner).reserve(nano_usd, now_ms);
        match reserved {
            Ok(()) => Some(Hold::of(Arc::clone(&self.budget), nano_usd)),
            Err(Exhausted { resets_in_ms, .. }) => {
                *closed_until_ms = now_ms + resets_in_ms;
                None
            }
        }
    }

    /// Counts what was spent without being put aside here: by a probe that a crash cut off.
    pub fn count(&self, nano_usd: u64, now_ms: i64) {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner).settle(0, nano_usd, now_ms);
    }

    /// What was used of it, at a time in milliseconds since 1970.
    pub fn used(&self, now_ms: i64) -> Used {
        let (spent, _, held) = self.budget.lock().unwrap_or_else(PoisonError::into_inner).used(now_ms);
        let usd = |nano: u64| nano as f64 / 1e9;
        Used { spent_usd: usd(spent), held_usd: usd(held), open: self.is_open(now_ms) }
    }

    fn closing(&self) -> MutexGuard<'_, i64> {
        self.closed_until_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    const NOON: i64 = 1_704_110_400_000;
    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn fifty_at_once_never_pass_the_cap() {
        let purse = Purse::new(1.0, Totals::default(), None);
        let start = Barrier::new(50);
        let spent: u64 = std::thread::scope(|scope| {
            let probe = |n: u64| {
                let (purse, start) = (&purse, &start);
                move || {
                    start.wait();
                    let hold = purse.reserve(90_000_000, NOON)?;
                    let used = purse.used(NOON);
                    assert!(used.spent_usd + used.held_usd <= 1.0, "{used:?}");
                    let cost = 90_000_000 - n;
                    hold.settle(cost, NOON);
                    Some(cost)
                }
            };
            let threads: Vec<_> = (0..50).map(|n| scope.spawn(probe(n))).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).sum()
        });
        let used = purse.used(NOON);
        assert!(spent > 500_000_000 && spent <= 1_000_000_000, "{spent}");
        assert_eq!((used.spent_usd, used.held_usd, used.open), (spent as f64 / 1e9, 0.0, false));
    }

    #[test]
    fn the_first_refusal_closes_the_day_for_cheap_tasks_too() {
        let purse = Purse::new(1.0, Totals::default(), None);
        purse.reserve(900_000_000, NOON).unwrap().settle(900_000_000, NOON);
        assert!(purse.is_open(NOON) && purse.reserve(200_000_000, NOON).is_none());
        assert!(!purse.is_open(NOON) && purse.reserve(1, NOON).is_none());
        assert!(purse.reserve(200_000_000, NOON + DAY_MS).is_some());
        let again = Purse::new(1.0, Totals::default(), Some(NOON));
        assert!(
            !again.is_open(NOON + DAY_MS / 2 - 1) && again.is_open(NOON + DAY_MS / 2),
            "a restart does not open it"
        );
    }

    #[test]
    fn what_a_crash_cut_off_counts() {
        let purse = Purse::new(1.0, Totals::default(), None);
        purse.count(700_000_000, NOON);
        assert!(purse.reserve(400_000_000, NOON).is_none());
        drop(Purse::new(1.0, Totals::default(), None).reserve(1, NOON));
    }
}
