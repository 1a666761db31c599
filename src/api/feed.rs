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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::{ArmId, DecisionId, Domain, Mode, OutcomeStatus, Propensity, Reason, TaskId};

    fn feed() -> Feed {
        let shared = Shared { kept: Mutex::default(), live: broadcast::channel(LAG_MAX).0 };
        Feed { shared: Arc::new(shared), task: Mutex::default() }
    }

    fn round(seq: i64) -> RoundEvent {
        RoundEvent {
            seq,
            round: 1,
            at_ms: 0,
            decision_id: DecisionId::generate(),
            task_id: TaskId::new("t").unwrap(),
            domain: Domain::new("math").unwrap(),
            mode: Mode::Single,
            arm: ArmId::new("a").unwrap(),
            propensity: Propensity::new(1.0).unwrap(),
            reason: Reason::Forced,
            status: OutcomeStatus::Done,
            score: None,
            reward: None,
            cost_usd: 0.0,
            latency_ms: 0.0,
            prompt_head: "event: round".into(),
        }
    }

    async fn texts(watched: impl Stream<Item = Bytes>, count: usize) -> Vec<String> {
        let chunks: Vec<Bytes> = watched.take(count).collect().await;
        chunks.iter().map(|chunk| String::from_utf8(chunk.to_vec()).unwrap()).collect()
    }

    fn ids(text: &str) -> Vec<i64> {
        text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect()
    }

    #[tokio::test]
    async fn a_watcher_begins_after_what_it_saw_and_gets_each_round_once() {
        let feed = feed();
        feed.shared.tell(&[round(3), round(5)], 0, None);
        let (new, again, foreign) = (feed.watch(None), feed.watch(Some(3)), feed.watch(Some(99)));
        feed.shared.tell(&[round(8)], 0, Some("event: figures\ndata: {}\n\n".into()));
        for (watched, first) in [(new.boxed(), vec![3, 5]), (again.boxed(), vec![5]), (foreign.boxed(), vec![3, 5])] {
            let told = texts(watched, 2).await;
            assert_eq!((ids(&told[0]), ids(&told[1])), (first, vec![8]));
            assert!(told[1].ends_with("event: figures\ndata: {}\n\n"), "{}", told[1]);
        }
        for seq in 9..500 {
            feed.shared.tell(&[round(seq)], 0, None);
        }
        assert_eq!(ids(&texts(feed.watch(Some(3)), 1).await[0]).len(), KEPT, "what is kept is bounded");
    }

    #[tokio::test]
    async fn a_watcher_that_does_not_read_is_told_how_many_rounds_it_missed() {
        let feed = feed();
        let watched = feed.watch(None);
        let pieces = LAG_MAX as i64 + 6;
        for piece in 0..pieces {
            feed.shared.tell(&[round(2 * piece), round(2 * piece + 1)], 0, None);
        }
        let told = texts(watched, 4).await;
        assert!(told[1].starts_with(": "), "{}", told[1]);
        assert!(told[2].starts_with("event: lagged\ndata: {\"missed\":12}\n\n"), "{}", told[2]);
        assert_eq!((ids(&told[2]), ids(&told[3])), (vec![12, 13], vec![14, 15]));
    }
}
