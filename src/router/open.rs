//! Opening the router: put the parts together and fold the journal.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::{
    Router, RouterError,
    learner::{Learner, PolicySnapshot},
    recollection::{Expected, Recollection},
    run_blocking,
};
use crate::{
    action::policy::{Policy, Standings},
    arms::Catalogue,
    context::{domain::Centroids, embedding::EmbeddingPool},
    feedback::verifier::Registry,
    journal::{Decided, Event, Journal, JournalSettings, Restored, Synchronous},
    memory::{Held, Memory, MemoryError, MemoryWriter, Shape, snapshot::SnapshotStore},
    regret::Tracker,
    round::{DecisionId, Domain, Feedback, RewardWeights},
    telemetry::Events,
};

/// Events that may wait for the learner before the journal's writer waits too.
const LEARNER_QUEUE: usize = 8_192;
/// Events read at a time while folding.
const PAGE: i64 = 2_000;
/// Decisions kept in RAM while folding, in wait for their feedback; the rest are read again when it comes.
const OPEN_DECISIONS_MAX: usize = 50_000;

/// The router's own settings.
#[derive(Debug, Clone)]
pub struct RouterSettings {
    /// Weights of the reward.
    pub reward: RewardWeights,
    /// The domains that tasks may name; any (up to 64) when empty.
    pub domains: BTreeSet<Domain>,
    /// How alike a task and a domain's tasks must be, where the client names no domain; in [0, 1].
    pub domain_similarity: f32,
    /// Where memory is, as errors name it.
    pub memory_place: String,
    /// The journal's file.
    pub journal: PathBuf,
    /// What durable means.
    pub synchronous: Synchronous,
}

/// What the router is made of.
pub struct RouterParts {
    /// Text to embedding.
    pub embedder: EmbeddingPool,
    /// Past tasks.
    pub memory: Arc<dyn Memory>,
    /// What memory was opened for; its model and dimension are the embedder's.
    pub memory_shape: Shape,
    /// Memory's snapshots.
    pub snapshots: SnapshotStore,
    /// The arms.
    pub catalogue: Catalogue,
    /// The verifiers.
    pub registry: Registry,
    /// A policy that has learnt nothing yet.
    pub policy: Box<dyn Policy>,
}

/// What opening found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Events in the journal.
    pub events: u64,
    /// Rounds learnt from them.
    pub rounds: u64,
    /// Entries that memory had to be given again.
    pub memory_rewritten: u64,
    /// Entries that it has not taken yet, because it does not answer.
    pub memory_behind: u64,
    /// How long the fold took.
    pub took: Duration,
}

impl Router {
    /// Opens the journal and folds it into the policy, memory and regret. `progress` is told (done, total) events.
    pub async fn open(
        parts: RouterParts,
        settings: RouterSettings,
        progress: impl Fn(u64, u64),
    ) -> Result<(Arc<Self>, Opened), RouterError> {
        let started = Instant::now();
        let (committed, to_learn) = mpsc::channel(LEARNER_QUEUE);
        let RouterParts { embedder, memory, memory_shape, snapshots, catalogue, registry, policy } = parts;
        let journal = Journal::open(&settings.journal(embedder.model_id()), committed).await?;
        let catalogue = Arc::new(catalogue);
        let tracker = Arc::new(Mutex::new(Tracker::default()));
        let events = Events::default();
        let first = PolicySnapshot {
            policy: policy.snapshot(),
            learnt_rounds: 0,
            standings: Standings::default(),
            centroids: Centroids::default(),
        };
        let published = Arc::new(ArcSwap::from_pointee(first));
        let snapshots = Arc::new(snapshots);
        let expected = Expected::of(&journal).await?;
        let held = ask(&memory).await?;
        if let Some(held) = &held {
            expected.admits(held, &settings.memory_place)?;
        }
        let entries = held.as_ref().map_or(0, |held| held.count);
        let writer = Arc::new(MemoryWriter::start(Arc::clone(&memory), memory_shape.cap, entries)?);
        let (to, from) = (Arc::clone(&writer), Arc::clone(&snapshots));
        let recollection = Recollection::start(to, from, memory_shape.cap, held, expected);
        let restorations = recollection.restorations();
        let memory_rewritten = recollection.lacking();
        let mut learner = Learner {
            policy,
            learnt_rounds: 0,
            standings: Standings::default(),
            centroids: Centroids::default(),
            recollection,
            catalogue: Arc::clone(&catalogue),
            tracker: Arc::clone(&tracker),
            reward: settings.reward,
            published: Arc::clone(&published),
            events: events.clone(),
        };
        let folded = fold(&journal, progress, |folded| match folded {
            Folded::Learnt { decided, feedback, at_ms } => learner.fold(decided, feedback, at_ms),
            Folded::Restored { at, restored } => learner.recollection.pass(at, restored),
        })
        .await?;
        learner.publish();
        let level = Arc::clone(&writer);
        // A memory that fails is tried again while tasks flow.
        if let Err(error) = run_blocking(move || level.wait(|_| {})).await? {
            tracing::warn!(%error, "starting with a memory that lags behind; it catches up by itself");
        }
        let opened = Opened {
            events: folded,
            rounds: learner.learnt_rounds,
            memory_rewritten,
            memory_behind: writer.level().behind,
            took: started.elapsed(),
        };
        let learner = std::thread::Builder::new()
            .name("learner".into())
            .spawn(move || learner.run(to_learn))
            .map_err(|error| RouterError::Internal(format!("cannot start the learner: {error}")))?;
        let router = Self {
            embedder,
            memory,
            memory_shape,
            memory_writer: writer,
            snapshots,
            restoring: tokio::sync::Mutex::default(),
            restorations,
            recall_failing: AtomicBool::new(false),
            catalogue,
            registry,
            journal,
            policy: published,
            tracker,
            events,
            settings,
            seen_domains: Mutex::default(),
            running: Mutex::new(HashSet::new()),
            rounds: TaskTracker::new(),
            learner: Mutex::new(Some(learner)),
        };
        Ok((Arc::new(router), opened))
    }
}

impl RouterSettings {
    fn journal(&self, embedding_model: &str) -> JournalSettings {
        JournalSettings {
            path: self.journal.clone(),
            synchronous: self.synchronous,
            embedding_model: embedding_model.into(),
        }
    }
}

/// Fills a memory that is empty, or lacks some entries, from a journal that no router has open. Returns how many entries
/// it was given; `progress` is told (done, total) events.
pub async fn fill_memory(
    journal: &Journal,
    memory: Arc<dyn Memory>,
    shape: &Shape,
    snapshots: SnapshotStore,
    place: &str,
    progress: impl Fn(u64, u64),
) -> Result<u64, RouterError> {
    let expected = Expected::of(journal).await?;
    let asked = Arc::clone(&memory);
    let held = run_blocking(move || asked.held()).await??;
    expected.admits(&held, place)?;
    let writer = Arc::new(MemoryWriter::start(memory, shape.cap, held.count)?);
    let (to, from) = (Arc::clone(&writer), Arc::new(snapshots));
    let mut recollection = Recollection::start(to, from, shape.cap, Some(held), expected);
    let given = recollection.lacking();
    fold(journal, progress, |folded| match folded {
        Folded::Learnt { decided, feedback, at_ms } => {
            if let Some(score) = feedback.score {
                recollection.learn(decided, feedback, score.get(), at_ms);
            }
        }
        Folded::Restored { at, restored } => recollection.pass(at, restored),
    })
    .await?;
    run_blocking(move || {
        let level = writer.wait(|_| {});
        writer.close();
        level
    })
    .await??;
    Ok(given)
}

/// Tells every round that was learnt, oldest first, with its score, from a journal that no router has open. `progress` is
/// told (done, total) events.
pub async fn learnt_rounds(
    journal: &Journal,
    progress: impl Fn(u64, u64),
    mut tell: impl FnMut(&Decided, f64),
) -> Result<(), RouterError> {
    fold(journal, progress, |folded| match folded {
        Folded::Learnt { decided, feedback, .. } => {
            if let Some(score) = feedback.score {
                tell(decided, score.get());
            }
        }
        Folded::Restored { .. } => {}
    })
    .await?;
    Ok(())
}

/// What memory holds; nothing when it does not answer.
async fn ask(memory: &Arc<dyn Memory>) -> Result<Option<Held>, RouterError> {
    let asked = Arc::clone(memory);
    match run_blocking(move || asked.held()).await? {
        Ok(held) => Ok(Some(held)),
        Err(error @ (MemoryError::Unavailable(_) | MemoryError::Unknown(_))) => {
            tracing::warn!(%error, "starting without memory; it catches up by itself");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// What the fold is told, in journal order.
enum Folded<'a> {
    /// A round to learn from.
    Learnt { decided: &'a Decided, feedback: &'a Feedback, at_ms: i64 },
    /// Memory's content was replaced at this place in the journal.
    Restored { at: i64, restored: &'a Restored },
}

/// Reads the journal from its beginning; returns how many events it has.
async fn fold(
    journal: &Journal,
    progress: impl Fn(u64, u64),
    mut tell: impl FnMut(Folded<'_>),
) -> Result<u64, RouterError> {
    let total = journal.counts().await?.0;
    // Decision ids are ordered by time, so the first of the map is the oldest.
    let mut open: BTreeMap<DecisionId, Decided> = BTreeMap::new();
    let (mut seq, mut done) = (0, 0);
    loop {
        let page = journal.after(seq, PAGE).await?;
        let Some(last) = page.last() else { return Ok(done) };
        seq = last.seq;
        done += page.len() as u64;
        for stored in page {
            let (at, learns, at_ms) = (stored.seq, stored.learns, stored.at_ms);
            match &stored.event {
                Event::Decided { decision, .. } => {
                    let id = decision.id;
                    if let Some(decided) = stored.into_decided() {
                        open.insert(id, decided);
                    }
                    if open.len() > OPEN_DECISIONS_MAX {
                        open.pop_first();
                    }
                }
                Event::Ran { .. } => {}
                Event::Judged { feedback } if learns => {
                    let decided = match open.remove(&feedback.decision_id) {
                        Some(decided) => decided,
                        None => journal
                            .decided(feedback.decision_id)
                            .await?
                            .ok_or(RouterError::UnknownDecision(feedback.decision_id))?,
                    };
                    tell(Folded::Learnt { decided: &decided, feedback, at_ms });
                }
                Event::Judged { .. } => {}
                Event::MemoryRestored { restored } => tell(Folded::Restored { at, restored }),
            }
        }
        progress(done, total);
    }
}
