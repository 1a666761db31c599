//! A tenant's dollars: put aside before a task is decided, settled with what it cost, given back where it cost nothing.
//!
//! What is settled and what is put aside never pass the limit together, however many tasks come at once, as long as a task
//! costs no more than was put aside for it. What costs more, or is settled after its lease ended, is counted in full: it was
//! spent. A decision that its caller runs is parked: it holds its dollars until feedback comes or its lease ends.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use super::spending::{Totals, to_next_day, to_next_month};
use crate::round::DecisionId;

/// Decisions of a tenant that may hold dollars without being run here.
const PARKED_MAX: usize = 100_000;

// Guards dollars, for a few additions at a time.
pub(super) type SharedBudget = Arc<Mutex<Budget>>;

/// A tenant's limits and what it used of them, in billionths of a dollar.
#[derive(Debug, Default)]
pub struct Budget {
    per_day: Option<u64>,
    per_month: Option<u64>,
    settled: Totals,
    /// Put aside, parked decisions included.
    held: u64,
    parked: HashMap<DecisionId, (i64, u64)>,
    /// When the leases of parked decisions end.
    ends: BTreeSet<(i64, DecisionId)>,
}

/// Why dollars could not be put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted {
    /// Which limit.
    pub window: BudgetWindow,
    /// The limit.
    pub limit_nano_usd: u64,
    /// What was spent of it.
    pub spent_nano_usd: u64,
    /// What is put aside for tasks under way.
    pub held_nano_usd: u64,
    /// What the task may cost.
    pub needed_nano_usd: u64,
    /// Whether it would do but for what is put aside.
    pub only_held: bool,
    /// Milliseconds until the limit is there again.
    pub resets_in_ms: i64,
}

/// What a budget is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetWindow {
    /// A day, in Coordinated Universal Time.
    Day,
    /// A month of the calendar.
    Month,
}

impl Budget {
    /// Limits in billionths of a dollar, and what was spent so far.
    pub(super) fn new(per_day: Option<u64>, per_month: Option<u64>, settled: Totals) -> Self {
        Self { per_day, per_month, settled, ..Self::default() }
    }

    /// Puts dollars aside, if limits allow. Times are milliseconds since 1970.
    pub fn reserve(&mut self, nano_usd: u64, now_ms: i64) -> Result<(), Exhausted> {
        self.expire(now_ms);
        let (day, month) = (self.settled.of_day(now_ms), self.settled.of_month(now_ms));
        for (window, limit, spent) in
            [(BudgetWindow::Month, self.per_month, month), (BudgetWindow::Day, self.per_day, day)]
        {
            let Some(limit) = limit else { continue };
            let wanted = spent.saturating_add(nano_usd);
            if wanted.saturating_add(self.held) > limit {
                return Err(Exhausted {
                    window,
                    limit_nano_usd: limit,
                    spent_nano_usd: spent,
                    held_nano_usd: self.held,
                    needed_nano_usd: nano_usd,
                    only_held: wanted <= limit,
                    resets_in_ms: match window {
                        BudgetWindow::Day => to_next_day(now_ms),
                        BudgetWindow::Month => to_next_month(now_ms),
                    },
                });
            }
        }
        self.held = self.held.saturating_add(nano_usd);
        Ok(())
    }

    /// Gives back what was put aside.
    pub fn release(&mut self, held: u64) {
        self.held = self.held.saturating_sub(held);
    }

    /// Counts what was spent in place of what was put aside for it.
    pub fn settle(&mut self, held: u64, spent: u64, now_ms: i64) {
        self.release(held);
        self.settled.add(spent, now_ms);
    }

    /// Keeps what was put aside for a decision until a time. False when too many are kept: it is given back then.
    pub fn park(&mut self, id: DecisionId, held: u64, until_ms: i64) -> bool {
        if self.parked.len() >= PARKED_MAX {
            self.release(held);
            return false;
        }
        self.unpark(id);
        self.parked.insert(id, (until_ms, held));
        self.ends.insert((until_ms, id));
        true
    }

    /// Puts dollars aside for a decision of before, whatever the limits say.
    pub fn hold_again(&mut self, id: DecisionId, nano_usd: u64, until_ms: i64) {
        self.held = self.held.saturating_add(nano_usd);
        self.park(id, nano_usd, until_ms);
    }

    /// Gives back what a parked decision held. False when it held nothing (any more).
    pub fn unpark(&mut self, id: DecisionId) -> bool {
        let Some((until_ms, held)) = self.parked.remove(&id) else { return false };
        self.ends.remove(&(until_ms, id));
        self.release(held);
        true
    }

    /// Ends the leases that are over.
    pub fn expire(&mut self, now_ms: i64) {
        while let Some(&(until_ms, id)) = self.ends.first()
            && until_ms <= now_ms
        {
            self.unpark(id);
        }
    }

    /// What was spent on the day and in the month of a time, and what is put aside.
    pub fn used(&self, now_ms: i64) -> (u64, u64, u64) {
        (self.settled.of_day(now_ms), self.settled.of_month(now_ms), self.held)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOON: i64 = 1_704_110_400_000;
    const LEASE_MS: i64 = 1_000;

    fn id(n: usize) -> DecisionId {
        DecisionId::from(n as u128)
    }

    #[test]
    fn what_is_refused_says_whether_waiting_helps() {
        let mut budget = Budget::new(Some(10), None, Totals::default());
        budget.reserve(6, NOON).unwrap();
        let refused = budget.reserve(5, NOON).unwrap_err();
        assert!(refused.only_held);
        assert_eq!((refused.window, refused.held_nano_usd, refused.resets_in_ms), (BudgetWindow::Day, 6, 43_200_000));
        budget.settle(6, 6, NOON);
        assert!(!budget.reserve(5, NOON).unwrap_err().only_held);
        assert_eq!(budget.reserve(4, NOON), Ok(()));
        assert_eq!(budget.reserve(6, NOON + 43_200_000), Ok(()), "a new day, on which the last task still runs");
        assert!(budget.reserve(1, NOON + 43_200_000).is_err());
    }

    #[test]
    fn a_month_is_spent_across_its_days() {
        let mut budget = Budget::new(Some(10), Some(15), Totals::default());
        for day in 0..2 {
            let now = NOON + day * 86_400_000;
            let fits = budget.reserve(8, now);
            assert_eq!(fits.is_ok(), day == 0);
            if fits.is_ok() {
                budget.settle(8, 8, now);
            }
        }
        assert_eq!(budget.reserve(8, NOON + 86_400_000).unwrap_err().window, BudgetWindow::Month);
        assert_eq!(budget.reserve(8, NOON + 31 * 86_400_000), Ok(()));
    }

    #[test]
    fn a_parked_decision_holds_its_dollars_until_its_lease_ends() {
        let mut budget = Budget::new(Some(10), None, Totals::default());
        budget.reserve(10, NOON).unwrap();
        assert!(budget.park(id(1), 10, NOON + LEASE_MS));
        assert!(budget.reserve(1, NOON + LEASE_MS - 1).is_err());
        assert_eq!(budget.reserve(1, NOON + LEASE_MS), Ok(()));
        assert!(!budget.unpark(id(1)));
        // What is told after the lease was spent all the same.
        budget.settle(0, 10, NOON + LEASE_MS);
        assert_eq!(budget.used(NOON + LEASE_MS), (10, 10, 1));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Reserve(u64),
        Settle(usize, u64),
        Release(usize),
        Park(usize),
        SettleParked(usize, u64),
        Pass(i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u64..40).prop_map(Step::Reserve),
            2 => (0usize..8, 0u64..=100).prop_map(|(n, percent)| Step::Settle(n, percent)),
            1 => (0usize..8).prop_map(Step::Release),
            2 => (0usize..8).prop_map(Step::Park),
            2 => (0usize..8, 0u64..=100).prop_map(|(n, percent)| Step::SettleParked(n, percent)),
            1 => prop_oneof![0i64..1_500, Just(3_600_000), Just(90_000_000)].prop_map(Step::Pass),
        ]
    }

    proptest! {
        /// Also across midnights and ends of months.
        #[test]
        fn settled_and_reserved_never_pass_the_limit(
            steps in prop::collection::vec(step(), 1..200),
            per_day in 0u64..120,
            per_month in 0u64..400,
        ) {
            let mut budget = Budget::new(Some(per_day), Some(per_month), Totals::default());
            let (mut now, mut next) = (NOON, 0);
            let mut running: Vec<u64> = vec![];
            let mut parked: Vec<(DecisionId, u64, i64)> = vec![];
            for step in steps {
                match step {
                    Step::Reserve(nano) => {
                        if budget.reserve(nano, now).is_ok() {
                            running.push(nano);
                        }
                    }
                    Step::Settle(n, percent) if n < running.len() => {
                        let held = running.swap_remove(n);
                        budget.settle(held, held * percent / 100, now);
                    }
                    Step::Release(n) if n < running.len() => budget.release(running.swap_remove(n)),
                    Step::Park(n) if n < running.len() => {
                        next += 1;
                        let held = running.swap_remove(n);
                        prop_assert!(budget.park(id(next), held, now + LEASE_MS));
                        parked.push((id(next), held, now + LEASE_MS));
                    }
                    Step::SettleParked(n, percent) if n < parked.len() => {
                        let (id, held, _) = parked.swap_remove(n);
                        prop_assert!(budget.unpark(id));
                        budget.settle(0, held * percent / 100, now);
                    }
                    Step::Pass(ms) => now += ms,
                    Step::Settle(..) | Step::Release(_) | Step::Park(_) | Step::SettleParked(..) => {}
                }
                budget.expire(now);
                parked.retain(|(_, _, until)| *until > now);
                let (day, month, held) = budget.used(now);
                let known: u64 = running.iter().sum::<u64>() + parked.iter().map(|(_, held, _)| held).sum::<u64>();
                prop_assert_eq!(held, known);
                prop_assert!(day + held <= per_day, "{} + {} of {}", day, held, per_day);
                prop_assert!(month + held <= per_month, "{} + {} of {}", month, held, per_month);
            }
        }

        #[test]
        fn only_what_costs_more_than_was_put_aside_passes_the_limit(
            costs in prop::collection::vec((1u64..20, 0u64..40), 1..100),
            limit in 1u64..200,
        ) {
            let mut budget = Budget::new(Some(limit), None, Totals::default());
            let mut excess = 0;
            for (expected, real) in costs {
                if budget.reserve(expected, NOON).is_ok() {
                    budget.settle(expected, real, NOON);
                    excess += real.saturating_sub(expected);
                }
                let (day, _, held) = budget.used(NOON);
                prop_assert!(day + held <= limit + excess);
            }
        }
    }
}
