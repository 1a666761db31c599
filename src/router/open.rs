//! Opening the router: put the parts together and fold the journal.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::{
    Router, RouterError,
    learner::{Learner, PolicySnapshot},
};
use crate::{
    action::policy::Policy,
    arms::Catalogue,
    context::embedding::EmbeddingPool,
    feedback::verifier::Registry,
    journal::{Decided, Event, Journal, JournalSettings, Synchronous},
    memory::{Memory, MemoryError},
    regret::Tracker,
    round::{DecisionId, Domain, RewardWeights},
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
    /// Entries that memory keeps.
    pub memory_cap: u64,
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
        let journal_settings = JournalSettings { path: settings.journal.clone(), synchronous: settings.synchronous };
        let journal = Journal::open(&journal_settings, committed).await?;
        let RouterParts { embedder, memory, catalogue, registry, policy } = parts;
        let catalogue = Arc::new(catalogue);
        let tracker = Arc::new(Mutex::new(Tracker::default()));
        let events = Events::default();
        let first = PolicySnapshot { policy: policy.snapshot(), learnt_rounds: 0 };
        let published = Arc::new(ArcSwap::from_pointee(first));
        let mut learner = Learner {
            policy,
            learnt_rounds: 0,
            memory: Arc::clone(&memory),
            memory_cap: settings.memory_cap,
            catalogue: Arc::clone(&catalogue),
            tracker: Arc::clone(&tracker),
            reward: settings.reward,
            published: Arc::clone(&published),
            events: events.clone(),
        };
        let (total, rounds) = journal.counts().await?;
        let held = memory.next_seq()?;
        if held > rounds {
            return Err(MemoryError::Ahead { entries: held, rounds }.into());
        }
        let memory_from = held.max(rounds.saturating_sub(settings.memory_cap));
        fold(&journal, &mut learner, memory_from, total, progress).await?;
        learner.publish();
        let opened = Opened {
            events: total,
            rounds: learner.learnt_rounds,
            memory_rewritten: learner.learnt_rounds.saturating_sub(memory_from),
            took: started.elapsed(),
        };
        let learner = std::thread::Builder::new()
            .name("learner".into())
            .spawn(move || learner.run(to_learn))
            .map_err(|error| RouterError::Internal(format!("cannot start the learner: {error}")))?;
        let router = Self {
            embedder,
            memory,
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

async fn fold(
    journal: &Journal,
    learner: &mut Learner,
    memory_from: u64,
    total: u64,
    progress: impl Fn(u64, u64),
) -> Result<(), RouterError> {
    // Decision ids are ordered by time, so the first of the map is the oldest.
    let mut open: BTreeMap<DecisionId, Decided> = BTreeMap::new();
    let (mut seq, mut done) = (0, 0);
    loop {
        let page = journal.after(seq, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        seq = last.seq;
        done += page.len() as u64;
        for stored in page {
            let learns = stored.learns;
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
                    learner.fold(&decided, feedback, memory_from);
                }
                Event::Judged { .. } => {}
            }
        }
        progress(done, total);
    }
}
