//! When a message that was not taken is sent again.
//!
//! Waits grow from 5 seconds to an hour, four times each, and then stay: a receiver that comes back is found within an hour or so.
//! Thirty tries take a day; then the message is given up.

use std::time::{Duration, SystemTime};

use rand::Rng;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// The first wait.
const FIRST: Duration = Duration::from_secs(5);
/// How much longer each wait is than the one before.
const GROWTH: u32 = 4;
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(3_600);
/// How often a message is tried.
pub(super) const TRIES_MAX: u32 = 30;
/// How far a wait is drawn away from the schedule's, so that receivers that failed together are not met together.
const JITTER: f64 = 0.2;
/// What a receiver may ask for.
const ASKED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(24 * 3_600));

/// How long to wait after so many tries (1 or more), as long as the receiver does not say.
pub(super) fn wait(tries: u32, rng: &mut impl Rng) -> Duration {
    let grown = GROWTH.checked_pow(tries.saturating_sub(1)).and_then(|factor| FIRST.checked_mul(factor));
    grown.map_or(LONGEST, |wait| wait.min(LONGEST)).mul_f64(rng.random_range(1.0 - JITTER..=1.0 + JITTER))
}

/// How long a `Retry-After` header asks to wait from `now` on; it holds seconds or a date. From a second to a day is granted.
pub(super) fn asked(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.clamp(ASKED.0, ASKED.1))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn waits_grow_to_an_hour_and_all_tries_take_about_a_day() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut sum = Duration::ZERO;
        for (tries, plain_s) in (1..TRIES_MAX).zip([5, 20, 80, 320, 1_280].into_iter().chain(std::iter::repeat(3_600)))
        {
            let wait = wait(tries, &mut rng);
            let plain = Duration::from_secs(plain_s);
            assert!(wait >= plain.mul_f64(1.0 - JITTER) && wait <= plain.mul_f64(1.0 + JITTER), "{tries}: {wait:?}");
            sum += wait;
        }
        assert!((20.0..30.0).contains(&(sum.as_secs_f64() / 3_600.0)), "{sum:?}");
        assert!(wait(u32::MAX, &mut rng) <= LONGEST.mul_f64(1.0 + JITTER));
    }

    #[test]
    fn two_waits_after_the_same_try_differ() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert_ne!(wait(3, &mut rng), wait(3, &mut rng));
    }

    #[test]
    fn what_a_receiver_asks_for_is_granted_within_a_day() {
        let now = httpdate::parse_http_date("Mon, 30 Nov 2026 08:00:00 GMT").unwrap();
        let read = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            asked(&headers, now).map(|wait| wait.as_secs())
        };
        assert_eq!(read("120"), Some(120));
        assert_eq!(read("Mon, 30 Nov 2026 08:02:00 GMT"), Some(120));
        assert_eq!(read("0"), Some(1));
        assert_eq!(read("Mon, 30 Nov 2026 07:00:00 GMT"), Some(1));
        assert_eq!(read("99999999999"), Some(86_400));
        for nonsense in ["soon", "-1", "1e9"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }
}
