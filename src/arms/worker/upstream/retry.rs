//! When a call that failed is tried again.

use std::time::{Duration, Instant, SystemTime};

use rand::Rng;
use reqwest::header::{HeaderMap, RETRY_AFTER};

use super::super::{ErrorClass, WorkerError};

/// The longest first wait; it doubles with each try. What is waited is drawn uniformly below it, so that callers that failed
/// together do not come back together.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait. A worker that asks for more is left to rest, and the task goes elsewhere.
const WAIT_MAX: Duration = Duration::from_secs(8);

/// Tries that are left.
pub(super) struct Backoff {
    left: u32,
    wait: Duration,
}

impl Backoff {
    pub fn new(retries: u32) -> Self {
        Self { left: retries, wait: FIRST_WAIT }
    }

    /// Waits until a call may be tried again; gives the error back when that would not help or there is no time.
    pub async fn wait(&mut self, error: WorkerError, end: Instant) -> Result<(), WorkerError> {
        match error.class() {
            ErrorClass::Transient | ErrorClass::Overloaded if self.left > 0 => {}
            _ => return Err(error),
        }
        let drawn = self.wait.mul_f64(rand::rng().random());
        let wait = match error.retry_after_ms() {
            Some(asked) => Duration::from_millis(asked) + drawn,
            None => drawn,
        };
        let late = end.checked_duration_since(Instant::now()).is_none_or(|left| wait >= left);
        if late || wait > WAIT_MAX {
            return Err(error);
        }
        self.left -= 1;
        self.wait = (self.wait * 2).min(WAIT_MAX);
        tracing::debug!(%error, wait_ms = wait.as_millis(), "a call is tried again");
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// How long a `Retry-After` header asks to wait from `now` on, in milliseconds; it holds seconds or a date.
pub(super) fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return (0.0..=86_400.0).contains(&seconds).then_some((seconds * 1e3) as u64);
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let wait = until.duration_since(now).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transient() -> WorkerError {
        WorkerError::Status { status: 500, body: String::new() }
    }

    fn overloaded(retry_after_ms: Option<u64>) -> WorkerError {
        WorkerError::Overloaded { status: 429, body: String::new(), retry_after_ms }
    }

    #[tokio::test]
    async fn what_may_help_is_tried_again_and_no_more_often_than_allowed() {
        let end = Instant::now() + Duration::from_secs(60);
        let mut backoff = Backoff::new(2);
        assert!(backoff.wait(transient(), end).await.is_ok());
        assert!(backoff.wait(overloaded(Some(10)), end).await.is_ok());
        assert!(backoff.wait(transient(), end).await.is_err());
        for hopeless in [
            WorkerError::Unauthorized("KEY".into()),
            WorkerError::Protocol("it is none".into()),
            WorkerError::Refused { status: 400, body: String::new() },
        ] {
            assert!(Backoff::new(2).wait(hopeless, end).await.is_err());
        }
        assert!(Backoff::new(2).wait(overloaded(Some(30_000)), end).await.is_err(), "it asks for too long");
        let soon = Instant::now() + Duration::from_millis(900);
        assert!(Backoff::new(2).wait(overloaded(Some(1_000)), soon).await.is_err(), "there is no time");
    }

    #[test]
    fn seconds_and_dates_are_read_and_nonsense_is_nothing() {
        let now = httpdate::parse_http_date("Mon, 30 Nov 2026 08:00:00 GMT").unwrap();
        let read = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            retry_after_ms(&headers, now)
        };
        assert_eq!(read("2"), Some(2_000));
        assert_eq!(read("0.5"), Some(500));
        assert_eq!(read("Mon, 30 Nov 2026 08:00:03 GMT"), Some(3_000));
        assert_eq!(read("Mon, 30 Nov 2026 07:00:00 GMT"), Some(0));
        for nonsense in ["soon", "-1", "1e99", "NaN"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }
}
