//! The router: turns the crank of the loop. The only place that sees every stage.
//!
//! A round: embed and recall (observe), decide and journal the decision, run it (act), verify, journal the outcome
//! with its feedback, acknowledge, learn. Rounds run in tasks of their own, so a client that hangs up does not leave
//! a decision half done. Learning happens in one thread, in journal order; deciding reads its latest snapshot and
//! takes no lock.
//!
//! What can go wrong: a failing worker is an outcome with score 0; failing recall is recorded in the decision and the
//! loop goes on; a failing policy falls back to uniform, recorded and counted; a failing journal acknowledges
//! nothing.

mod announced;
mod arms;
mod audit;
mod cards;
mod chat;
mod checkpoint;
mod compaction;
mod decide;
mod draw;
mod error;
mod exact;
mod feedback;
mod follow;
mod judge;
mod keys;
mod learner;
mod lease;
mod lesson;
mod llm;
mod logged;
mod memory;
mod modes;
mod open;
mod overview;
mod policies;
mod recollection;
mod roles;
mod running;
mod state;
mod trial;
mod turn;
mod verifiers;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use moka::future::Cache;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use audit::{Audits, RunBy};
use policies::Policies;
use running::Running;
use state::{Shown, locked};

use crate::{
    access::{Hold, Keys, Scope, Tenants},
    action::policy::mode_router::ModeRouter,
    arms::{Catalogue, Habits, Health, worker::Worker},
    context::embedding::EmbeddingPool,
    feedback::verifier::Registry,
    journal::{Appended, Event, Journal, Keeping, NewEvent, Spent, Stored},
    memory::{Memory, MemoryWriter, Recaller, Shape, snapshot::SnapshotStore},
    regret::RegretReport,
    round::{
        Audited, DecisionId, Domain, Feedback, IdempotencyKey, Outcome, PolicyRef, RewardWeights, SessionId, Taken,
        Task, TenantId,
    },
    telemetry::{Events, Stage, observe_stage},
};

pub use crate::{
    arms::{CatalogueError, worker::WorkerError},
    context::embedding::EmbeddingError,
    feedback::verifier::{COMPONENT_BYTES_MAX, ComponentError, Judgement, RegistryError, SetKey, VerifierReport},
    history::{HistoryReport, Range},
    journal::{Decided, JournalError, now_ms},
    memory::{
        Filter, Level, MIN_SIMILARITY, MemoryError, RECALL_K,
        map::Map as MemoryMap,
        snapshot::{Listed, Snapshot, SnapshotError},
        view::{Record as MemoryRecord, Stats as MemoryStats},
    },
};
pub use arms::ArmReport;
pub use audit::{AuditSettings, AuditUse};
pub use cards::Card;
pub use chat::{ChatRound, ChatStream, Streamed};
pub use compaction::{CompactionPlan, CompactionSettings, compact_journal, plan_compaction};
pub use error::RouterError;
pub use exact::{CheckpointFound, Compared, Difference, ExactReport, ExactSettings, replay_exactly};
pub use feedback::{Acknowledged, AcknowledgedAs, ClientFeedback, ClientSource};
pub use judge::JudgeSettings;
pub use keys::{create_key, keys_of, revoke_key};
pub use learner::PolicySnapshot;
pub use llm::LlmRouting;
pub use logged::logged_rounds;
pub use memory::{refuse_in_use, restoration};
pub use modes::{ModeDriver, ModeSettings};
pub use open::{ArmMaker, Opened, Resumed, RouterParts, RouterSettings, Trust, fill_memory, learnt_rounds};
pub use overview::{
    Alert, AlertKind, ArmBelief, ArmStanding, ArmState, DomainDetail, DomainStanding, MemoryFill, ModeWork, Overview,
    Recent, Saving, Savings, Severity, VerifierStanding,
};
pub use policies::{CardReport, ChangeReport, DomainWeights, PoliciesReport, ShadowReport};
pub use trial::TrialReport;
pub use verifiers::{NewComponent, SetReport};

/// A finished round.
#[derive(Debug, Clone)]
pub struct Round {
    /// The task, its context and the decision.
    pub decided: Arc<Decided>,
    /// What running it gave.
    pub outcome: Outcome,
    /// What it was worth.
    pub feedback: Feedback,
    /// Whether this answer was stored before: the request repeated an idempotency key.
    pub repeated: bool,
}

/// Everything the journal knows of one decision.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The task, its context and the decision.
    pub decided: Decided,
    /// What running it gave, once it ran.
    pub outcome: Option<Outcome>,
    /// Every feedback so far.
    pub feedback: Vec<Feedback>,
    /// Feedback that came before the outcome and waits for it.
    pub early: Vec<Feedback>,
    /// Whether its lease ended before anybody said what became of it.
    pub abandoned: bool,
    /// What every arm brought, if its task was run on all of them, or why not.
    pub audited: Option<Audited>,
}

/// A task that is new, or that was decided before under its idempotency key.
enum Claim {
    /// With the dollars put aside for it.
    Fresh(Arc<Decided>, Hold),
    Repeat(Box<Explanation>),
}

/// The loop, shared by all requests.
pub struct Router {
    embedder: EmbeddingPool,
    memory: Arc<dyn Memory>,
    recaller: Arc<Recaller>,
    memory_shape: Shape,
    memory_writer: Arc<MemoryWriter>,
    snapshots: Arc<SnapshotStore>,
    // The last map of memory; held while one is drawn, so that it is drawn once for all who ask.
    map: tokio::sync::Mutex<Option<memory::Drawn>>,
    // Lets one restoration of memory at a time wait for its end; held across awaits, by nothing that rounds wait for.
    restoring: tokio::sync::Mutex<()>,
    // Whether the last recall failed, for the log.
    recall_failing: AtomicBool,
    // Restorations that the learner has handed to the writer.
    restorations: Arc<AtomicU64>,
    catalogue: Arc<ArcSwap<Catalogue>>,
    arm_maker: ArmMaker,
    health: Health,
    // What calls of each arm are like.
    habits: Habits,
    // What each session's last round took.
    sessions: Cache<(Option<TenantId>, SessionId), Taken>,
    registry: Arc<Registry>,
    // Answers that the judge may look at now.
    judging: Arc<Semaphore>,
    // What tasks are probed with, where some are.
    audits: Option<Audits>,
    journal: Arc<Journal>,
    // What the journal keeps of texts.
    keeping: Keeping,
    policy: Arc<ArcSwap<PolicySnapshot>>,
    policies: Policies,
    closing: CancellationToken,
    // Guards the read models: the learner adds a round, pages read a report.
    shown: Arc<Mutex<Shown>>,
    events: Events,
    settings: RouterSettings,
    // What writes the turns of trajectories, where no rule does.
    mode_router: Option<Arc<ModeRouter>>,
    // The language model that routes, where it has an endpoint of its own.
    llm: Option<Arc<dyn Worker>>,
    keys: Keys,
    // Lets one change of keys at a time be checked and journaled; held across awaits, by nothing that requests wait for.
    changing_keys: tokio::sync::Mutex<()>,
    tenants: Tenants,
    // The domains that were seen, where none are configured.
    seen_domains: ArcSwap<BTreeSet<Domain>>,
    // The decisions that this process runs now.
    running: Running,
    // The first decisions of tasks that are not done yet, whoever runs them by now.
    replacing: Running,
    rounds: TaskTracker,
    // Guards the learner's handle, which the first `close` takes.
    learner: Mutex<Option<JoinHandle<()>>>,
    // The tasks that go on until the router closes: they watch the cards and the leases.
    watchers: TaskTracker,
    // Up to this place in the journal no decision is left open.
    closed_up_to: Arc<AtomicI64>,
}

impl Router {
    /// Decides a task for a caller that runs the model itself. The decision is durable when this returns.
    pub async fn route(&self, task: Task) -> Result<Decided, RouterError> {
        let _admission = self.tenants.admit(task.tenant.as_ref())?;
        Ok(match self.claim(task, RunBy::Caller).await? {
            Claim::Fresh(decided, hold) => {
                hold.park(decided.decision.id, self.lease_end(now_ms()));
                Decided::clone(&decided)
            }
            Claim::Repeat(explanation) => explanation.decided,
        })
    }

    /// Decides the task, unless its idempotency key was decided before.
    async fn claim(&self, task: Task, by: RunBy) -> Result<Claim, RouterError> {
        let (key, tenant) = (task.idempotency_key.clone(), task.tenant.clone());
        if let Some(key) = &key
            && let Some(id) = self.journal.by_idempotency_key(tenant.as_ref(), key).await?
        {
            return self.first_with(key, id, &task).await;
        }
        let (decided, hold, appended) = self.decide(task, None, by).await?;
        match (appended, key) {
            (Appended::Stored { .. }, _) => Ok(Claim::Fresh(decided, hold)),
            (Appended::Duplicate, Some(key)) => {
                // Two requests with one key raced; the other one was first.
                let found = self.journal.by_idempotency_key(tenant.as_ref(), &key).await?;
                let id = found.ok_or_else(|| RouterError::Internal("a duplicate key has no decision".into()))?;
                self.first_with(&key, id, &decided.task).await
            }
            (Appended::Duplicate, None) => Err(RouterError::Internal("a fresh decision was there already".into())),
        }
    }

    /// The round that the key's first request began, if it was the same task.
    async fn first_with(&self, key: &IdempotencyKey, id: DecisionId, task: &Task) -> Result<Claim, RouterError> {
        let mut first = self.explain(id).await?;
        // The domain was found the first time, and would be again unless the router has learnt another one since.
        let found = first.decided.observed.domain_similarity.is_some() && task.domain == Domain::unknown();
        let known = &first.decided.task;
        let mut kept = task.clone();
        self.keeping.with(first.decided.observed.kept).task(&mut kept);
        let same = known.messages == kept.messages
            && (first.decided.task.domain == task.domain || found)
            && known.metadata == kept.metadata
            && first.decided.task.constraints == task.constraints
            && task.reward.is_none_or(|reward| first.decided.task.reward == Some(reward));
        if !same {
            return Err(RouterError::KeyReused(key.clone()));
        }
        if !first.decided.observed.kept.is_whole() {
            // The request brings again what the journal does not keep.
            let known = &mut first.decided.task;
            (known.messages, known.metadata) = (task.messages.clone(), task.metadata.clone());
        }
        Ok(Claim::Repeat(Box::new(first)))
    }

    /// What a tenant with a budget spent on a decision.
    pub(super) fn spent(&self, decided: &Decided, nano_usd: u64) -> Option<Event> {
        let tenant = decided.task.tenant.clone().filter(|tenant| self.tenants.settings(tenant).is_some())?;
        Some(Event::Spent { spent: Spent { decision_id: decided.decision.id, tenant, nano_usd } })
    }

    /// When a decision of a time counts as abandoned, in milliseconds since 1970.
    fn lease_end(&self, decided_at_ms: i64) -> i64 {
        decided_at_ms.saturating_add(i64::try_from(self.settings.lease.as_millis()).unwrap_or(i64::MAX))
    }

    fn weights(&self, task: &Task) -> RewardWeights {
        task.reward.unwrap_or(self.settings.reward)
    }

    async fn append(&self, events: Vec<NewEvent>) -> Result<Vec<Appended>, RouterError> {
        let started = Instant::now();
        let kept = events.into_iter().map(|event| self.keeping.keep(event)).collect();
        let appended = self.journal.append(kept).await?;
        observe_stage(Stage::Journal, started.elapsed());
        Ok(appended)
    }

    /// All that the journal knows of a decision, for somebody who may see some tenant's: others' are unknown.
    pub async fn explain_to(&self, id: DecisionId, scope: &Scope) -> Result<Explanation, RouterError> {
        let explanation = self.explain(id).await?;
        let seen = scope.sees(explanation.decided.task.tenant.as_ref());
        seen.then_some(explanation).ok_or(RouterError::UnknownDecision(id))
    }

    /// All that the journal knows of a decision.
    pub async fn explain(&self, id: DecisionId) -> Result<Explanation, RouterError> {
        let (mut decided, mut outcome, mut feedback) = (None, None, vec![]);
        let (mut early, mut abandoned, mut audited) = (vec![], false, None);
        for stored in self.journal.of_decision(id).await? {
            match stored {
                Stored { event: Event::Ran { outcome: ran }, .. } => outcome = Some(ran),
                Stored { event: Event::Judged { feedback: judged }, .. } => feedback.push(judged),
                Stored { event: Event::Early { feedback }, .. } => early.push(feedback),
                Stored { event: Event::Abandoned { .. }, .. } => abandoned = true,
                Stored { event: Event::Audited { audited: ended }, .. } => audited = Some(ended),
                Stored { event: Event::Decided { .. }, .. } => decided = stored.into_decided(),
                Stored {
                    event:
                        Event::MemoryRestored { .. }
                        | Event::SnapshotChanged { .. }
                        | Event::PolicyChanged { .. }
                        | Event::VerifierChanged { .. }
                        | Event::ArmChanged { .. }
                        | Event::KeyChanged { .. }
                        | Event::Spent { .. }
                        | Event::Probed { .. }
                        | Event::Erased { .. }
                        | Event::Compacted { .. },
                    ..
                } => {}
            }
        }
        let decided = decided.ok_or(RouterError::UnknownDecision(id))?;
        // What was joined to the outcome waits no longer.
        early.retain(|early: &Feedback| !feedback.iter().any(|known: &Feedback| known.source == early.source));
        Ok(Explanation { decided, outcome, feedback, early, abandoned, audited })
    }

    /// The regret report as of now.
    pub fn regret(&self) -> RegretReport {
        locked(&self.shown).tracker.report()
    }

    /// The policy that decides now.
    pub fn policy(&self) -> PolicyRef {
        self.policy.load().champion.reference()
    }

    /// Whether verified rounds are still being learnt; false only after a defect or while closing.
    pub fn is_learning(&self) -> bool {
        let learner = self.learner.lock().unwrap_or_else(PoisonError::into_inner);
        learner.as_ref().is_some_and(|learner| !learner.is_finished())
    }

    /// The API keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The tenants and what they use.
    pub fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// Live events.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Waits for the rounds that are running.
    pub async fn drain(&self) {
        self.rounds.close();
        self.rounds.wait().await;
    }

    /// Waits for running rounds, as long as `patience` lasts, learns the last of them, keeps what was learnt, flushes memory
    /// and closes the journal. Returns how many rounds were cut off: their decisions are in the journal.
    pub async fn close(&self, patience: Duration) -> usize {
        self.closing.cancel();
        self.watchers.close();
        self.watchers.wait().await;
        let cut_off = match tokio::time::timeout(patience, self.drain()).await {
            Ok(()) => 0,
            Err(_) => self.rounds.len(),
        };
        self.journal.seal();
        let learner = self.learner.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(learner) = learner
            && !tokio::task::spawn_blocking(move || learner.join()).await.is_ok_and(|joined| joined.is_ok())
        {
            tracing::error!("the learner panicked");
        }
        self.journal.close().await;
        let (recaller, memory) = (Arc::clone(&self.recaller), Arc::clone(&self.memory_writer));
        if run_blocking(move || (recaller.close(), memory.close())).await.is_err() {
            tracing::error!("memory was not flushed; the journal has its entries");
        }
        cut_off
    }
}

/// Runs what blocks on a thread of its own.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, RouterError> {
    let ran = tokio::task::spawn_blocking(work).await;
    ran.map_err(|error| RouterError::Internal(format!("blocking work did not end: {error}")))
}
