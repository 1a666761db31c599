//! How a webhook is doing, for operators.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;

use super::{EventType, WebhookSettings, place::Place, send::Refusal};
use crate::{
    journal::now_ms,
    round::{Domain, TenantId, WebhookName},
};

/// A webhook as operators see it. Counts are those since the start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WebhookReport {
    /// Its name.
    pub name: WebhookName,
    /// Where its messages go, without the query.
    pub url: String,
    /// What it is told of.
    pub events: BTreeSet<EventType>,
    /// Of which domains; of all where none are given.
    pub domains: Option<BTreeSet<Domain>>,
    /// Of which tenants; of all where none are given.
    pub tenants: Option<BTreeSet<TenantId>>,
    /// Whether texts are told.
    pub texts: bool,
    /// How it is doing.
    pub status: WebhookStatus,
    /// Its place in the journal: everything up to it was taken, given up, or waits to be sent again.
    pub cursor: i64,
    /// How many events of the journal come after that place; few of them may be to be told.
    pub behind: i64,
    /// Messages that wait to be sent again.
    pub waiting: usize,
    /// Messages that were taken.
    pub delivered: u64,
    /// Tries that failed.
    pub failed: u64,
    /// Messages that were given up.
    pub given_up: u64,
    /// Events that compaction took out of the journal before the webhook came to them.
    pub skipped: u64,
    /// When a message was last taken, in milliseconds since 1970.
    pub last_delivered_ms: Option<i64>,
    /// What went wrong last, and the start of what the receiver said.
    pub last_error: Option<String>,
    /// When that was, in milliseconds since 1970.
    pub last_error_ms: Option<i64>,
    /// When something that waits is sent again, in milliseconds since 1970.
    pub next_try_ms: Option<i64>,
}

/// How a webhook is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookStatus {
    /// Messages go out as they come.
    #[default]
    Ready,
    /// The receiver is not there, or refuses several messages: the next try is waited for.
    Resting,
    /// The receiver said that it wants no more messages: nothing is sent until the daemon starts again.
    Disabled,
}

impl WebhookStatus {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Resting => "resting",
            Self::Disabled => "disabled",
        }
    }
}

/// What a webhook's follower tells of itself.
#[derive(Debug, Default)]
pub(super) struct Board {
    // Guards what is shown: the follower writes it, requests copy it.
    shown: Mutex<Shown>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    pub status: WebhookStatus,
    pub cursor: i64,
    pub waiting: usize,
    pub delivered: u64,
    pub failed: u64,
    pub given_up: u64,
    pub skipped: u64,
    pub last_delivered_ms: Option<i64>,
    pub last_error: Option<(i64, String)>,
    pub next_try: Option<Instant>,
}

impl Board {
    pub fn update(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut self.shown.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Shows where the webhook is.
    pub fn place(&self, place: &Place, now: Instant) {
        self.update(|shown| {
            (shown.cursor, shown.waiting) = (place.after, place.waiting());
            shown.next_try = place.until_next(now).map(|wait| now + wait);
        });
    }

    pub fn error(&self, reason: &str, answer: &str) {
        let text = if answer.is_empty() { reason.to_owned() } else { format!("{reason}: {answer}") };
        self.update(|shown| shown.last_error = Some((now_ms(), text)));
    }

    pub fn refused(&self, refusal: &Refusal) {
        self.update(|shown| shown.failed += 1);
        self.error(&refusal.reason, &refusal.answer);
    }

    /// `last` is the journal's last place.
    pub fn report(&self, settings: &WebhookSettings, last: i64) -> WebhookReport {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let wait = |due: Instant| due.saturating_duration_since(Instant::now()).as_millis();
        let (last_error_ms, last_error) = shown.last_error.unzip();
        WebhookReport {
            name: settings.name.clone(),
            url: settings.shown_url(),
            events: settings.events.clone(),
            domains: settings.domains.clone(),
            tenants: settings.tenants.clone(),
            texts: settings.texts,
            status: shown.status,
            cursor: shown.cursor,
            behind: (last - shown.cursor).max(0),
            waiting: shown.waiting,
            delivered: shown.delivered,
            failed: shown.failed,
            given_up: shown.given_up,
            skipped: shown.skipped,
            last_delivered_ms: shown.last_delivered_ms,
            last_error,
            last_error_ms,
            next_try_ms: shown
                .next_try
                .map(|due| now_ms().saturating_add(i64::try_from(wait(due)).unwrap_or(i64::MAX))),
        }
    }
}

/// What a receiver said to a message that was sent to try it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = WebhookTest)]
pub struct TestReport {
    /// The webhook.
    pub webhook: WebhookName,
    /// The message's id.
    pub message_id: String,
    /// Whether the receiver took it.
    pub taken: bool,
    /// The status that it answered with, if it answered.
    pub status: Option<u16>,
    /// The start of what it answered.
    pub answer: String,
    /// Why it was not taken.
    pub problem: Option<String>,
    /// How long that took, in milliseconds.
    pub took_ms: f64,
}
