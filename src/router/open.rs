//! Opening the router: put the parts together and fold the journal.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use moka::future::Cache;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    AuditSettings, JudgeSettings, ModeSettings, Router, RouterError,
    audit::Audits,
    cards::{Acting, CardSource},
    checkpoint::Checkpoint,
    judge::JUDGED_AT_ONCE,
    learner::Learner,
    lesson::fold,
    policies::Policies,
    recollection::{Expected, Recollection},
    roles::{Roles, with_changes},
    run_blocking,
    running::Running,
    state::State,
    verifiers::with_verifier_changes,
};
use crate::{
    access::{Keys, TenantSettings, Tenants},
    action::policy::Action,
    arms::{Arm, Catalogue, Habits, Health, worker::Worker},
    context::embedding::EmbeddingPool,
    feedback::verifier::Registry,
    journal::{Decided, Journal, JournalSettings, Keeping, Synchronous},
    memory::{Held, Memory, MemoryError, MemoryWriter, Recaller, Shape, snapshot::SnapshotStore},
    round::{Domain, Kept, RewardWeights, TenantId},
    telemetry::Events,
};

/// Events that may wait for the learner before the journal's writer waits too.
const LEARNER_QUEUE: usize = 8_192;
/// Sessions whose last arm is remembered; the longest unused ones are forgotten first.
const SESSIONS_MAX: u64 = 100_000;
/// How long a session's last arm is remembered after its last task: longer than any provider keeps a prompt cached.
const SESSION_IDLE: Duration = Duration::from_secs(3_600);

/// The router's own settings.
#[derive(Debug, Clone)]
pub struct RouterSettings {
    /// Weights of the reward.
    pub reward: RewardWeights,
    /// The tenants that tasks may name, with what each may use; any, with the weights above and no limit, when empty.
    pub tenants: BTreeMap<TenantId, TenantSettings>,
    /// How much clients' feedback weighs in learning.
    pub trust: Trust,
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
    /// What the journal keeps of texts.
    pub prompts: Kept,
    /// Where the checkpoint is kept.
    pub checkpoint: PathBuf,
    /// Which modes tasks are run in, and how.
    pub modes: ModeSettings,
    /// How many other workers may take a task over when one gives no answer.
    pub fallbacks: usize,
    /// How long a decision may wait for its outcome before it counts as abandoned.
    pub lease: Duration,
    /// The card that decides, until another one is promoted.
    pub card: String,
    /// The policy of that card, where it is not the one that the card names.
    pub policy: Option<String>,
    /// The folder of policy cards.
    pub cards: Option<PathBuf>,
    /// The model that judges answers, if one is to.
    pub judge: Option<JudgeSettings>,
    /// Which tasks are run on every arm, if any are.
    pub audit: Option<AuditSettings>,
}

/// How much feedback of each source weighs in learning, in (0, 1].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trust {
    /// A client's score, or its answer verified here.
    pub client: f64,
    /// A model asked to judge.
    pub judge: f64,
    /// A user's thumb.
    pub thumbs: f64,
}

/// Makes an arm of what is written in an `[[arms]]` table, or says what is wrong with it.
pub type ArmMaker = Arc<dyn Fn(&serde_json::Value) -> Result<Arm, String> + Send + Sync>;

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
    /// The configured arms.
    pub catalogue: Catalogue,
    /// Makes the arms that come while the router runs.
    pub arm_maker: ArmMaker,
    /// The verifiers.
    pub registry: Registry,
    /// The language model that routes, where it has an endpoint of its own.
    pub llm: Option<Arc<dyn Worker>>,
}

/// What opening found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Events that were read at this start.
    pub read: u64,
    /// Rounds learnt, those of the checkpoint included.
    pub rounds: u64,
    /// The checkpoint that it began with, if there was one.
    pub resumed: Option<Resumed>,
    /// Entries that memory had to be given again.
    pub memory_rewritten: u64,
    /// Entries that it has not taken yet, because it does not answer.
    pub memory_behind: u64,
    /// How long the fold took.
    pub took: Duration,
}

/// A checkpoint put to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumed {
    /// The place in the journal that it was taken at.
    pub at: i64,
    /// Rounds learnt until then.
    pub rounds: u64,
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
        let RouterParts { embedder, memory, memory_shape, snapshots, catalogue, arm_maker, registry, llm } = parts;
        settings.modes.check_embedding(embedder.model_id(), embedder.dimension())?;
        let journal = Arc::new(Journal::open(&settings.journal(embedder.model_id()), committed).await?);
        let keeping = Keeping::new(settings.prompts, journal.secret().await?);
        let registry = with_verifier_changes(registry, journal.verifier_changes().await?).await?;
        let catalogue = with_changes(catalogue, journal.arm_changes().await?, &arm_maker);
        let catalogue = Arc::new(ArcSwap::from_pointee(catalogue));
        let source = CardSource {
            folder: settings.cards.clone(),
            model: embedder.model_id().into(),
            dimension: embedder.dimension(),
        };
        let roles = Roles::of(&journal, &settings, &source, &catalogue.load()).await?;
        let (state, poisoned) = resume(&journal, &settings.checkpoint, &roles).await?;
        let closed_up_to = Arc::new(AtomicI64::new(state.closed_up_to));
        let resumed = (state.at > 0).then_some(Resumed { at: state.at, rounds: state.learnt_rounds });
        let shown = Arc::clone(&state.shown);
        let events = Events::default();
        let published = Arc::new(ArcSwap::from_pointee(state.snapshot(0)));
        let prepared = Arc::default();
        let snapshots = Arc::new(snapshots);
        let expected = Expected::of(&journal, state.at, state.memory_seq).await?;
        let held = ask(&memory).await?;
        if let Some(held) = &held {
            expected.admits(held, &settings.memory_place)?;
        }
        let entries = held.as_ref().map_or(0, |held| held.count);
        let writer = Arc::new(MemoryWriter::start(Arc::clone(&memory), memory_shape.cap, entries)?);
        let (to, from) = (Arc::clone(&writer), Arc::clone(&snapshots));
        let mut recollection = Recollection::start(to, from, memory_shape.cap, held, expected);
        let restorations = recollection.restorations();
        let memory_rewritten = recollection.lacking();
        let after = recollection.begin(&journal, state.at, state.memory_seq).await?;
        let mut learner = Learner {
            state,
            changes: 0,
            recollection,
            published: Arc::clone(&published),
            events: events.clone(),
            journal: Arc::clone(&journal),
            prepared: Arc::clone(&prepared),
            checkpoint: settings.checkpoint.clone(),
            checkpointed: resumed.map_or(0, |resumed| resumed.rounds),
            closed_up_to: Arc::clone(&closed_up_to),
            handle: Handle::current(),
        };
        let folded = fold(&journal, after, i64::MAX, progress, |folded| learner.fold(&folded)).await?;
        // Folding a lesson moves the place on, but knows no time.
        if folded.events > 0 && folded.at >= learner.state.at {
            (learner.state.at, learner.state.at_ms) = (folded.at, folded.at_ms);
        }
        learner.publish();
        let audits = settings.audit.clone().map(|audit| Audits::new(audit, &learner.state.audits));
        let cut_off = learner.state.audits.cut_off();
        let tenants = Tenants::new(settings.tenants.clone(), &learner.state.spending);
        let keys = Keys::of(journal.key_changes().await?);
        let level = Arc::clone(&writer);
        // A memory that fails is tried again while tasks flow.
        if let Err(error) = run_blocking(move || level.wait(|_| {})).await? {
            tracing::warn!(%error, "starting with a memory that lags behind; it catches up by itself");
        }
        let opened = Opened {
            read: folded.events,
            rounds: learner.state.learnt_rounds,
            resumed,
            memory_rewritten,
            memory_behind: writer.level().behind,
            took: started.elapsed(),
        };
        let learner = std::thread::Builder::new()
            .name("learner".into())
            .spawn(move || learner.run(to_learn))
            .map_err(|error| RouterError::Internal(format!("cannot start the learner: {error}")))?;
        let recaller = Arc::new(Recaller::start(Arc::clone(&memory))?);
        let router = Self {
            embedder,
            memory,
            memory_shape,
            recaller,
            memory_writer: writer,
            snapshots,
            map: tokio::sync::Mutex::default(),
            restoring: tokio::sync::Mutex::default(),
            restorations,
            recall_failing: AtomicBool::new(false),
            catalogue,
            registry,
            judging: Arc::new(Semaphore::new(JUDGED_AT_ONCE)),
            audits,
            journal,
            keeping,
            policy: published,
            policies: Policies {
                cards: ArcSwap::from_pointee(roles.cards),
                source,
                changes: Mutex::new(roles.changes),
                changing: tokio::sync::Mutex::default(),
                prepared,
            },
            arm_maker,
            health: Health::default(),
            habits: Habits::default(),
            sessions: Cache::builder().max_capacity(SESSIONS_MAX).time_to_idle(SESSION_IDLE).build(),
            closing: CancellationToken::new(),
            shown,
            events,
            mode_router: settings.modes.mode_router(),
            llm,
            settings,
            keys,
            changing_keys: tokio::sync::Mutex::default(),
            tenants,
            seen_domains: ArcSwap::default(),
            running: Running::default(),
            replacing: Running::default(),
            rounds: TaskTracker::new(),
            learner: Mutex::new(Some(learner)),
            watchers: TaskTracker::new(),
            closed_up_to,
        };
        let router = Arc::new(router);
        router.quarantine(poisoned).await;
        router.hold_open().await?;
        router.end_cut_off_audits(cut_off).await?;
        router.watchers.spawn(Arc::clone(&router).watch_cards());
        router.watchers.spawn(Arc::clone(&router).watch_leases());
        let last = router.journal.last_seq().await?;
        router.rounds.spawn(Arc::clone(&router).verify_what_was_cut_off(last));
        Ok((router, opened))
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
    let base = journal.base().await?.map(|base| Checkpoint::parse(&base.state)).transpose();
    let base = base.map_err(|error| RouterError::Internal(format!("the compacted state: {error}")))?;
    let (at, memory_seq) = base.map_or((0, 0), |base| (base.at, base.known.memory_seq));
    let expected = Expected::of(journal, at, memory_seq).await?;
    let asked = Arc::clone(&memory);
    let held = run_blocking(move || asked.held()).await??;
    expected.admits(&held, place)?;
    let writer = Arc::new(MemoryWriter::start(memory, shape.cap, held.count)?);
    let (to, from) = (Arc::clone(&writer), Arc::new(snapshots));
    let mut recollection = Recollection::start(to, from, shape.cap, Some(held), expected);
    let given = recollection.lacking();
    let after = recollection.begin(journal, at, memory_seq).await?;
    fold(journal, after, i64::MAX, progress, |folded| recollection.fold(&folded)).await?;
    run_blocking(move || {
        let level = writer.wait(|_| {});
        writer.close();
        level
    })
    .await??;
    Ok(given)
}

/// Tells every verified round that was learnt, oldest first, with its score, from a journal that no router has open. `progress` is
/// told (done, total) events.
pub async fn learnt_rounds(
    journal: &Journal,
    progress: impl Fn(u64, u64),
    mut tell: impl FnMut(&Decided, f64),
) -> Result<(), RouterError> {
    fold(journal, 0, i64::MAX, progress, |folded| {
        if let Some((decided, _, score, _)) = folded.verified() {
            tell(decided, score);
        }
    })
    .await?;
    Ok(())
}

/// The state that the roles' policies begin with: a checkpoint's, or nothing learnt. Also the actions whose rows made no
/// sense.
async fn resume(journal: &Journal, path: &Path, roles: &Roles) -> Result<(State, Vec<Action>), RouterError> {
    let fresh = || -> Result<State, RouterError> {
        let shadow = roles.shadow.as_ref().map(Acting::afresh).transpose()?;
        Ok(State::new(roles.champion.afresh()?, shadow))
    };
    let mut state = fresh()?;
    let Some(checkpoint) = Checkpoint::find(journal, path).await? else { return Ok((state, vec![])) };
    match state.resume(&checkpoint, journal).await {
        Ok(poisoned) => Ok((state, poisoned)),
        Err(problem) if journal.base().await?.is_some() => {
            Err(RouterError::Internal(format!("the compacted state cannot be taken over: {problem}")))
        }
        Err(problem) => {
            tracing::warn!(%problem, "the checkpoint cannot be used; the journal is folded");
            Ok((fresh()?, vec![]))
        }
    }
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
