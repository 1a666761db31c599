//! When to ask a server that did not answer.
//!
//! Without it every task would wait out its recall's deadline while the server is away. After a failure recall fails at
//! once for a while, which doubles as long as the server stays away; then one call is let through, and the others wait
//! for what comes of it.

use std::time::{Duration, Instant};

/// The first and the longest pause.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Closed while the server answers. The time is told, never asked for.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// The present pause and its end, while the server is away.
    open: Option<(Duration, Instant)>,
    /// Whether the pause was over once and a call is on its way to find out.
    probing: bool,
}

impl Breaker {
    /// Lets a call through, or says how long to wait. One that is let through after a pause holds the others off for
    /// as long as that pause was.
    pub fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        let Some((pause, until)) = &mut self.open else { return Ok(()) };
        if now < *until {
            return Err(*until - now);
        }
        *until = now + *pause;
        self.probing = true;
        Ok(())
    }

    /// A call was not answered. True when it is the first.
    pub fn failed(&mut self, now: Instant) -> bool {
        let pause = match self.open {
            None => PAUSE.0,
            // Only the call that was let through says something new; the others left before the pause began.
            Some((pause, _)) if self.probing => (pause * 2).min(PAUSE.1),
            Some((pause, _)) => pause,
        };
        self.probing = false;
        self.open.replace((pause, now + pause)).is_none()
    }

    /// A call was answered. True when the one before was not.
    pub fn succeeded(&mut self) -> bool {
        self.probing = false;
        self.open.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_probes_fail_and_end_when_one_is_answered() {
        let mut now = Instant::now();
        let mut breaker = Breaker::default();
        assert!(breaker.admit(now).is_ok());
        assert!(breaker.failed(now), "the first failure");
        assert!(!breaker.failed(now), "a straggler from before the pause");
        let mut pauses = vec![];
        for _ in 0..7 {
            let left = breaker.admit(now).unwrap_err();
            pauses.push(left.as_millis());
            now += left;
            assert!(breaker.admit(now).is_ok(), "one call finds out");
            assert!(breaker.admit(now).is_err(), "and only one");
            assert!(!breaker.failed(now));
        }
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
        assert!(breaker.succeeded());
        assert!(!breaker.succeeded());
        assert!(breaker.admit(now).is_ok());
        assert!(breaker.failed(now));
        assert_eq!(breaker.admit(now).unwrap_err(), PAUSE.0, "pauses begin anew");
    }

    #[test]
    fn a_probe_that_never_ends_does_not_keep_the_server_out() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        breaker.failed(now);
        assert!(breaker.admit(now + PAUSE.0).is_ok());
        assert!(breaker.admit(now + PAUSE.0 * 2).is_ok());
    }
}
