//! What live pages are told, made once for all of them: finished rounds and the figures of now, as server-sent events.
//!
//! A page that is open costs little, however many there are: rounds are gathered for a fifth of a second and written as text
//! once, and figures are taken once a second while somebody watches and something happens. A watcher gets the newest
//! rounds first, or those after the last one that it saw, which the journal knows after a restart too.
//!
//! What can go wrong: a watcher that does not read is told how many rounds it missed, and goes on with the newest.

use std::{
    collections::VecDeque,
    fmt::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::body::Bytes;
use futures::{Stream, StreamExt, stream};
use serde::Serialize;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    task::JoinHandle,
    time::{Instant, MissedTickBehavior},
};
use tokio_stream::wrappers::{BroadcastStream, errors::BroadcastStreamRecvError};
use tokio_util::sync::CancellationToken;

use super::overview::Pulse;
use crate::{router::Router, telemetry::RoundEvent};

/// How long rounds are gathered.
const GATHER: Duration = Duration::from_millis(200);
/// How long figures stand while rounds come, and while none do.
const FIGURES_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// How long a stream is silent at most.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// Rounds that are kept for watchers that come later.
const KEPT: usize = 200;
/// Pieces that a slow watcher may lag behind.
const LAG_MAX: usize = 64;

/// What is told.
pub struct Feed {
    shared: Arc<Shared>,
    // Guards the task's handle, which the first `stop` takes.
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    // Guards what is kept and its order: a piece is added and sent in one step, so that a new watcher gets each round once.
    kept: Mutex<Kept>,
    live: broadcast::Sender<Piece>,
}

#[derive(Default)]
struct Kept {
    /// Rounds as text, by their place in the journal.
    rounds: VecDeque<(i64, Bytes)>,
    sent: u64,
}

/// Text for every watcher.
#[derive(Clone)]
struct Piece {
    text: Bytes,
    /// Its rounds.
    rounds: u64,
    /// Rounds that were sent up to its end.
    sent: u64,
}

/// What a watcher that is too slow is told.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Lagged {
    /// How many rounds it missed.
    missed: u64,
}

impl Feed {
    /// Begins to gather what the router tells, until `stopping`.
    pub fn start(router: Arc<Router>, pulse: Pulse, stopping: CancellationToken) -> Self {
        let shared = Arc::new(Shared { kept: Mutex::default(), live: broadcast::channel(LAG_MAX).0 });
        let task = tokio::spawn(gather(Arc::clone(&shared), router, pulse, stopping));
        Self { shared, task: Mutex::new(Some(task)) }
    }

    /// Waits until nothing is told any more, which is soon after `stopping`.
    pub async fn stop(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task
            && task.await.is_err()
        {
            tracing::error!("what live pages are told ended in a panic");
        }
    }

    /// The newest rounds, or those after the last one that a watcher saw, and then all that comes.
    pub(super) fn watch(&self, last_seen: Option<i64>) -> impl Stream<Item = Bytes> + use<> {
        let kept = self.shared.kept();
        // A number that this journal has not come to is another journal's.
        let newest = kept.rounds.back().map_or(i64::MIN, |(seq, _)| *seq);
        let after = last_seen.filter(|seen| *seen <= newest).unwrap_or(i64::MIN);
        let mut first = Vec::new();
        for (_, text) in kept.rounds.iter().filter(|(seq, _)| *seq > after) {
            first.extend_from_slice(text);
        }
        first.extend_from_slice(b": live from here on\n\n");
        let (mut seen, live) = (kept.sent, BroadcastStream::new(self.shared.live.subscribe()));
        let mut lagged = false;
        let rest = live.map(move |piece| match piece {
            Ok(Piece { text, rounds, sent }) => {
                let missed = sent.saturating_sub(rounds).saturating_sub(seen);
                seen = sent;
                if !std::mem::take(&mut lagged) {
                    return text;
                }
                Bytes::from([event("lagged", None, &Lagged { missed }).as_bytes(), &text].concat())
            }
            Err(BroadcastStreamRecvError::Lagged(_)) => {
                lagged = true;
                Bytes::from_static(b": some were missed\n\n")
            }
        });
        stream::once(std::future::ready(Bytes::from(first))).chain(rest)
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps rounds and tells everybody, with the figures if there are new ones.
    fn tell(&self, rounds: &[RoundEvent], missed: u64, figures: Option<String>) {
        let mut kept = self.kept();
        let mut text = String::new();
        if missed > 0 {
            text += &event("lagged", None, &Lagged { missed });
        }
        for round in rounds {
            let one = event("round", Some(round.seq), round);
            text += &one;
            if kept.rounds.len() == KEPT {
                kept.rounds.pop_front();
            }
            kept.rounds.push_back((round.seq, one.into()));
        }
        kept.sent += rounds.len() as u64;
        if let Some(figures) = figures {
            text += &figures;
        }
        let sent = kept.sent;
        // Under the lock; without watchers it is only kept.
        let _ = self.live.send(Piece { text: text.into(), rounds: rounds.len() as u64, sent });
    }
}

/// An event as it goes over the wire.
fn event(name: &str, id: Option<i64>, data: &impl Serialize) -> String {
    let data = match serde_json::to_string(data) {
        Ok(data) => data,
        Err(error) => return format!(": {error}\n\n"),
    };
    let mut text = String::with_capacity(data.len() + 48);
    if let Some(id) = id {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "id: {id}");
    }
    text + "event: " + name + "\ndata: " + &data + "\n\n"
}

async fn gather(shared: Arc<Shared>, router: Arc<Router>, pulse: Pulse, stopping: CancellationToken) {
    let mut live = router.events().watch();
    let mut newest = i64::MIN;
    match router.last_rounds(KEPT).await {
        Ok(rounds) => {
            newest = rounds.last().map_or(newest, |round| round.seq);
            shared.tell(&rounds, 0, None);
        }
        Err(error) => tracing::warn!(%error, "the rounds before this start cannot be shown live"),
    }
    let (mut fresh, mut missed) = (vec![], 0);
    let (mut figures_at, mut told_at, mut happened, mut watchers) = (Instant::now(), Instant::now(), true, 0);
    let mut ticks = tokio::time::interval(GATHER);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            round = live.recv() => match round {
                Ok(round) if round.seq > newest => fresh.push(round),
                Ok(_) => {}
                Err(RecvError::Lagged(rounds)) => missed += rounds,
                Err(RecvError::Closed) => return,
            },
            _ = ticks.tick() => {
                happened |= !fresh.is_empty();
                let stand = if happened { FIGURES_EVERY.0 } else { FIGURES_EVERY.1 };
                // Whoever comes anew is not kept waiting.
                let before = std::mem::replace(&mut watchers, shared.live.receiver_count());
                let due = watchers > before || (watchers > 0 && figures_at.elapsed() >= stand);
                let figures = due.then(|| event("figures", None, &pulse.figures(&router)));
                if due {
                    (figures_at, happened) = (Instant::now(), false);
                }
                let silent = told_at.elapsed() >= SILENCE_MAX;
                if !fresh.is_empty() || missed > 0 || figures.is_some() {
                    shared.tell(&fresh, missed, figures);
                    (told_at, missed) = (Instant::now(), 0);
                    fresh.clear();
                } else if silent {
                    let text = Bytes::from_static(b": still here\n\n");
                    let _ = shared.live.send(Piece { text, rounds: 0, sent: shared.kept().sent });
                    told_at = Instant::now();
                }
            }
        }
    }
}
