//! A webhook's own task: follows the journal, sends, waits, and keeps its place. It shares nothing that others wait for, reads a page
//! of the journal at a time and has one message on its way, whatever its receiver does.

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use tokio::{
    sync::watch,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

use super::{
    WebhookSettings, WebhookStatus,
    message::Message,
    place::{self, Key, Next, Place, Refused},
    report::Board,
    schedule,
    send::{Refusal, RefusalKind, Sender},
    source::{Source, Told},
};
use crate::{
    journal::{JournalError, Stored, now_ms},
    telemetry::Metric,
};

/// How often a place that only moved on is written: what is lost by a crash is sent twice.
const KEEP_EVERY: Duration = Duration::from_millis(200);
/// How long to wait when the journal cannot be read.
const JOURNAL_WAIT: Duration = Duration::from_secs(1);
/// How often the metrics are set while nothing happens.
const MEASURE_EVERY: Duration = Duration::from_secs(5);

pub(super) struct Follower {
    pub settings: WebhookSettings,
    pub source: Source,
    pub sender: Sender,
    pub board: Arc<Board>,
    pub place: Place,
    /// Where the place is kept.
    pub file: PathBuf,
    /// The journal's last place, as it moves.
    pub last: watch::Receiver<i64>,
    pub stop: CancellationToken,
}

/// What is read of the journal and not done yet.
#[derive(Default)]
struct Ahead {
    events: VecDeque<Stored>,
    up_to: i64,
    damaged: Option<JournalError>,
}

/// Whether the place has to be written.
struct Keeping {
    kept: Place,
    at: Instant,
    failing: bool,
}

/// The follower has nothing more to do: it was told to stop, or the receiver wants no more.
struct Ended;

impl Follower {
    pub async fn run(mut self) {
        let mut ahead = Ahead::default();
        let mut keeping = Keeping { kept: self.place.clone(), at: Instant::now(), failing: false };
        let stop = self.stop.clone();
        loop {
            self.keep(&mut keeping, false).await;
            // At any point: a message that is on its way is sent again at the next start.
            let ended = tokio::select! {
                biased;
                () = stop.cancelled() => Err(Ended),
                ended = self.step(&mut ahead, &keeping) => ended,
            };
            if ended.is_err() {
                break;
            }
        }
        self.keep(&mut keeping, true).await;
        self.measure(&ahead);
    }

    async fn step(&mut self, ahead: &mut Ahead, keeping: &Keeping) -> Result<(), Ended> {
        let now = Instant::now();
        self.board.place(&self.place, now);
        self.measure(ahead);
        match self.place.next(now) {
            Next::Again(key) => self.again(key).await,
            Next::Wait(until) => {
                self.show(WebhookStatus::Resting);
                tokio::time::sleep_until(self.wake(until, keeping)).await;
                Ok(())
            }
            Next::GoOn(due) => {
                self.show(WebhookStatus::Ready);
                if let Some(stored) = ahead.events.pop_front() {
                    return self.tell(stored, ahead).await;
                }
                self.place.after = self.place.after.max(ahead.up_to);
                self.pass_damage(ahead);
                let last = *self.last.borrow_and_update();
                if self.place.after < last {
                    self.read(ahead, last).await;
                    return Ok(());
                }
                let wake = self.wake(due.unwrap_or(now + MEASURE_EVERY), keeping);
                tokio::select! {
                    moved = self.last.changed() => moved.map_err(|_| Ended),
                    () = tokio::time::sleep_until(wake) => Ok(()),
                }
            }
        }
    }

    /// When to look again, at the latest: the metrics are set anew, and a place that changed is written.
    fn wake(&self, until: Instant, keeping: &Keeping) -> Instant {
        let measure = until.min(Instant::now() + MEASURE_EVERY);
        if keeping.kept == self.place { measure } else { measure.min(keeping.at + KEEP_EVERY) }
    }

    async fn read(&self, ahead: &mut Ahead, last: i64) {
        match self.source.page(self.place.after, last).await {
            Ok(page) => *ahead = Ahead { events: page.events.into(), up_to: page.up_to, damaged: page.damaged },
            Err(error) => self.unreadable(&error).await,
        }
    }

    async fn unreadable(&self, error: &JournalError) {
        self.board.error(&error.to_string(), "");
        tracing::warn!(webhook = %self.settings.name, %error, "the journal cannot be read for a webhook; it is tried again");
        tokio::time::sleep(JOURNAL_WAIT).await;
    }

    fn pass_damage(&self, ahead: &mut Ahead) {
        if let Some(error) = ahead.damaged.take() {
            self.give_up(&error.to_string());
        }
    }

    /// Sends what is to be told of an event of the journal.
    async fn tell(&mut self, stored: Stored, ahead: &mut Ahead) -> Result<(), Ended> {
        let told = match self.source.told(&self.settings, &stored).await {
            Ok(told) => told,
            Err(error @ (JournalError::Damaged { .. } | JournalError::OtherModel { .. })) => {
                self.give_up(&error.to_string());
                Told { seq: stored.seq, at_ms: stored.at_ms, messages: vec![] }
            }
            Err(error) => {
                ahead.events.push_front(stored);
                self.unreadable(&error).await;
                return Ok(());
            }
        };
        for (kind, message) in told.messages {
            let key = (told.seq, kind);
            if self.place.rests(Instant::now()) {
                // The first of two was not taken.
                self.place.put_aside(key, told.at_ms);
            } else {
                self.send(key, told.at_ms, &message).await?;
            }
        }
        self.place.after = told.seq;
        Ok(())
    }

    async fn again(&mut self, key: Key) -> Result<(), Ended> {
        let (seq, kind) = key;
        match self.source.again(&self.settings, seq, kind).await {
            Ok(Some((at_ms, message))) => self.send(key, at_ms, &message).await,
            Ok(None) => {
                self.place.take(key);
                self.give_up("what it is about is not in the journal any more, or not to be told any more");
                Ok(())
            }
            Err(error @ (JournalError::Damaged { .. } | JournalError::OtherModel { .. })) => {
                self.place.take(key);
                self.give_up(&error.to_string());
                Ok(())
            }
            Err(error) => {
                self.unreadable(&error).await;
                Ok(())
            }
        }
    }

    async fn send(&mut self, key: Key, at_ms: i64, message: &Message) -> Result<(), Ended> {
        match self.sender.send(&self.settings, message).await {
            Ok(_) => {
                self.place.take(key);
                self.count("delivered");
                self.board.update(|shown| {
                    shown.delivered += 1;
                    shown.last_delivered_ms = Some(now_ms());
                });
                Ok(())
            }
            Err(refusal) => self.refused(key, at_ms, message, &refusal),
        }
    }

    fn refused(&mut self, key: Key, at_ms: i64, message: &Message, refusal: &Refusal) -> Result<(), Ended> {
        let (tries, now) = (self.place.tries(key) + 1, Instant::now());
        let (webhook, id, reason) = (&self.settings.name, &message.id, &refusal.reason);
        self.count("failed");
        self.board.refused(refusal);
        if refusal.kind == RefusalKind::Gone {
            tracing::warn!(%webhook, message = %id, %reason, "a webhook is disabled until the next start");
            // The message waits where it is: its place in the journal is not passed.
            self.show(WebhookStatus::Disabled);
            return Err(Ended);
        }
        let wait = refusal.retry_after.unwrap_or_else(|| schedule::wait(tries, &mut rand::rng()));
        match self.place.refused(key, at_ms, refusal.kind == RefusalKind::Away, now + wait) {
            Refused::Again if tries == 1 => {
                tracing::warn!(%webhook, message = %id, %reason, wait_s = wait.as_secs(), "a message was not taken; it is sent again");
            }
            Refused::Again => {}
            Refused::GivenUp => {
                tracing::warn!(%webhook, message = %id, tries, %reason, "a message is given up");
                self.count_given_up();
            }
        }
        Ok(())
    }

    fn give_up(&self, reason: &str) {
        tracing::warn!(webhook = %self.settings.name, %reason, "an event is not told");
        self.board.error(reason, "");
        self.count_given_up();
    }

    fn count_given_up(&self) {
        self.count("given_up");
        self.board.update(|shown| shown.given_up += 1);
    }

    fn count(&self, outcome: &'static str) {
        let webhook = self.settings.name.to_string();
        metrics::counter!(Metric::WebhookDeliveries.name(), "webhook" => webhook, "outcome" => outcome).increment(1);
    }

    fn show(&self, status: WebhookStatus) {
        self.board.update(|shown| shown.status = status);
    }

    fn measure(&self, ahead: &Ahead) {
        let behind = (*self.last.borrow() - self.place.after).max(0);
        let oldest = self.place.oldest_ms().or_else(|| ahead.events.front().map(|stored| stored.at_ms));
        let lag_s = oldest.map_or(0.0, |at_ms| (now_ms() - at_ms).max(0) as f64 / 1e3);
        let webhook = self.settings.name.to_string();
        metrics::gauge!(Metric::WebhookBehind.name(), "webhook" => webhook.clone()).set(behind as f64);
        metrics::gauge!(Metric::WebhookLagSeconds.name(), "webhook" => webhook).set(lag_s);
    }

    /// Writes the place if it changed, not too often unless it is to be written now.
    async fn keep(&self, keeping: &mut Keeping, now: bool) {
        let moved = keeping.kept != self.place;
        let due = now || keeping.at.elapsed() >= KEEP_EVERY;
        if !moved || !due {
            return;
        }
        let (path, bytes) = (self.file.clone(), self.place.to_bytes());
        let written = tokio::task::spawn_blocking(move || place::write(&path, &bytes)).await;
        keeping.at = Instant::now();
        match written.map_err(std::io::Error::other).flatten() {
            Ok(()) => (keeping.kept, keeping.failing) = (self.place.clone(), false),
            Err(error) => {
                if !keeping.failing {
                    tracing::warn!(webhook = %self.settings.name, %error, "a webhook's place cannot be kept; after a crash messages are sent twice");
                }
                keeping.failing = true;
            }
        }
    }
}
