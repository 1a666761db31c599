//! Requests per minute: the generic cell rate algorithm (ITU-T I.371), a token bucket in one number.
//!
//! The number is the time at which the bucket would be full again. A request moves it on by the time in which a token comes,
//! and is refused where that would take it further into the future than the bucket is large. Whole nanoseconds: no rounding
//! adds up. One atomic: no lock.

use std::sync::atomic::{AtomicU64, Ordering};

const MINUTE_NS: u64 = 60_000_000_000;

/// A limit on requests per minute. After a quiet minute a minute's worth may come at once; in the long run no more than the
/// limit get through: in any time t at most limit + t / (minute / limit).
#[derive(Debug)]
pub struct RateLimit {
    per_minute: u32,
    interval_ns: u64,
    // When the bucket is full again.
    full_at_ns: AtomicU64,
}

/// What is left of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests per minute.
    pub limit: u32,
    /// Requests that would get through now.
    pub remaining: u32,
    /// Nanoseconds until all of the limit is there again.
    pub full_in_ns: u64,
}

impl RateLimit {
    /// At least one a minute.
    pub fn new(per_minute: u32) -> Self {
        let per_minute = per_minute.max(1);
        // Rounded up: never more than the limit.
        let interval_ns = MINUTE_NS.div_ceil(per_minute.into());
        Self { per_minute, interval_ns, full_at_ns: AtomicU64::new(0) }
    }

    /// Takes a token; or says in how many nanoseconds there is one. Times are nanoseconds since a start of the caller's.
    pub fn take(&self, now_ns: u64) -> Result<(), u64> {
        let room = self.interval_ns * u64::from(self.per_minute - 1);
        let mut known = self.full_at_ns.load(Ordering::Relaxed);
        loop {
            let from = known.max(now_ns);
            let early = (from - now_ns).saturating_sub(room);
            if early > 0 {
                return Err(early);
            }
            let next = from + self.interval_ns;
            match self.full_at_ns.compare_exchange_weak(known, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => known = other,
            }
        }
    }

    /// What is left.
    pub fn rate(&self, now_ns: u64) -> Rate {
        let full_in_ns = self.full_at_ns.load(Ordering::Relaxed).saturating_sub(now_ns);
        let used = u32::try_from(full_in_ns.div_ceil(self.interval_ns)).unwrap_or(u32::MAX);
        Rate { limit: self.per_minute, remaining: self.per_minute.saturating_sub(used), full_in_ns }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_minutes_worth_may_come_at_once_and_then_one_at_a_time() {
        let limit = RateLimit::new(60);
        assert_eq!(limit.rate(0), Rate { limit: 60, remaining: 60, full_in_ns: 0 });
        assert!((0..60).all(|_| limit.take(5).is_ok()));
        assert_eq!(limit.take(5), Err(1_000_000_000), "a token comes each second");
        assert_eq!(limit.rate(5).remaining, 0);
        assert_eq!(limit.take(1_000_000_004), Err(1));
        assert_eq!(limit.take(1_000_000_005), Ok(()));
        assert_eq!(limit.rate(MINUTE_NS * 3).remaining, 60);
    }

    #[test]
    fn threads_together_get_no_more_than_the_limit() {
        let limit = RateLimit::new(100);
        let taken: usize = std::thread::scope(|scope| {
            let take = || (0..100).filter(|_| limit.take(1).is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 100);
    }

    proptest! {
        #[test]
        fn no_time_lets_more_through_than_a_full_bucket_and_what_came_in_it(
            per_minute in 1u32..500,
            steps in prop::collection::vec(0u64..3_000_000_000, 1..400),
        ) {
            let limit = RateLimit::new(per_minute);
            let (mut now, mut through) = (0, vec![]);
            for step in steps {
                now += step;
                match limit.take(now) {
                    Ok(()) => through.push(now),
                    // Whoever waits as long as he is told gets through.
                    Err(wait) => {
                        now += wait;
                        prop_assert_eq!(limit.take(now), Ok(()));
                        through.push(now);
                    }
                }
            }
            let interval = MINUTE_NS.div_ceil(u64::from(per_minute));
            for (first, from) in through.iter().enumerate() {
                for (last, until) in through.iter().enumerate().skip(first) {
                    prop_assert!((last - first + 1) as u64 <= u64::from(per_minute) + (until - from) / interval);
                }
            }
        }
    }
}
