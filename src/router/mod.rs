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

mod arms;
mod cards;
mod checkpoint;
mod compaction;
mod decide;
mod draw;
mod error;
mod exact;
mod feedback;
mod judge;
mod learner;
mod lease;
mod lesson;
mod logged;
mod memory;
mod open;
mod policies;
mod recollection;
mod roles;
mod running;
mod state;
mod trial;
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

use decide::Instead;
use policies::Policies;
use running::{Phase, Running, joined};

use crate::{
    arms::{
        Catalogue, Health,
        worker::{ErrorClass, WorkerError},
    },
    context::embedding::EmbeddingPool,
    feedback::verifier::Registry,
    journal::{Appended, Event, Journal, Keeping, NewEvent, Stored, now_ms},
    memory::{Memory, MemoryWriter, Shape, snapshot::SnapshotStore},
    modes::{self, Ran},
    regret::{RegretReport, Tracker},
    round::{
        DecisionId, Domain, Feedback, FeedbackSource, IdempotencyKey, Mode, Outcome, OutcomeStatus, PolicyRef,
        RewardWeights, Score, SessionId, Taken, Task,
    },
    telemetry::{Events, Metric, Stage, observe_stage},
};

pub use crate::{
    arms::CatalogueError,
    context::embedding::EmbeddingError,
    feedback::verifier::{COMPONENT_BYTES_MAX, ComponentError, Judgement, RegistryError, SetKey, VerifierReport},
    journal::{Decided, JournalError},
    memory::{
        Filter, Level, MIN_SIMILARITY, MemoryError, RECALL_K,
        snapshot::{Listed, Snapshot, SnapshotError},
        view::{Record as MemoryRecord, Stats as MemoryStats},
    },
};
pub use arms::ArmReport;
pub use cards::Card;
pub use compaction::{CompactionPlan, CompactionSettings, compact_journal, plan_compaction};
pub use error::RouterError;
pub use exact::{CheckpointFound, Compared, Difference, ExactReport, ExactSettings, replay_exactly};
pub use feedback::{Acknowledged, AcknowledgedAs, ClientFeedback, ClientSource};
pub use judge::JudgeSettings;
pub use learner::PolicySnapshot;
pub use logged::logged_rounds;
pub use memory::{refuse_in_use, restoration};
pub use open::{ArmMaker, Opened, Resumed, RouterParts, RouterSettings, Trust, fill_memory, learnt_rounds};
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
}

/// A task that is new, or that was decided before under its idempotency key.
enum Claim {
    Fresh(Arc<Decided>),
    Repeat(Box<Explanation>),
}

/// The loop, shared by all requests.
pub struct Router {
    embedder: EmbeddingPool,
    memory: Arc<dyn Memory>,
    memory_shape: Shape,
    memory_writer: Arc<MemoryWriter>,
    snapshots: Arc<SnapshotStore>,
    // Lets one restoration of memory at a time wait for its end; held across awaits, by nothing that rounds wait for.
    restoring: tokio::sync::Mutex<()>,
    // Whether the last recall failed, for the log.
    recall_failing: AtomicBool,
    // Restorations that the learner has handed to the writer.
    restorations: Arc<AtomicU64>,
    catalogue: Arc<ArcSwap<Catalogue>>,
    arm_maker: ArmMaker,
    health: Health,
    // What each session's last round took.
    sessions: Cache<SessionId, Taken>,
    registry: Arc<Registry>,
    // Answers that the judge may look at now.
    judging: Arc<Semaphore>,
    journal: Arc<Journal>,
    // What the journal keeps of texts.
    keeping: Keeping,
    policy: Arc<ArcSwap<PolicySnapshot>>,
    policies: Policies,
    closing: CancellationToken,
    // Guards the regret read model: the learner adds a round, pages read a report.
    tracker: Arc<Mutex<Tracker>>,
    events: Events,
    settings: RouterSettings,
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
    /// Runs a task through the whole loop. It goes on to its end even when the caller stops waiting.
    pub async fn run(self: &Arc<Self>, task: Task) -> Result<Round, RouterError> {
        let router = Arc::clone(self);
        let round = self.rounds.spawn(async move { router.turn(task).await });
        round.await.map_err(|error| RouterError::Internal(format!("the round panicked: {error}")))?
    }

    async fn turn(self: &Arc<Self>, task: Task) -> Result<Round, RouterError> {
        // Before anything is paid for: an answer that was bought waits for its verification however long it takes.
        if let Some(waiting) = self.registry.overload() {
            return Err(RouterError::Overloaded { waiting });
        }
        let Explanation { decided, outcome, mut feedback, early, .. } = match self.claim(task).await? {
            Claim::Fresh(decided) => return self.finish(decided, vec![], false).await,
            Claim::Repeat(explanation) => self.last_of(*explanation).await?,
        };
        let decided = Arc::new(decided);
        if let Some(outcome) = outcome
            && let Some(place) =
                feedback.iter().position(|f| matches!(f.source, FeedbackSource::Verifier | FeedbackSource::Failure))
        {
            if !outcome.kept.is_whole() && outcome.status == OutcomeStatus::Done {
                let id = decided.decision.id;
                let instead = "it was done and paid for; send the task under another key to have it done again";
                return Err(RouterError::NotKept { id, what: "answer", instead });
            }
            return Ok(Round { decided, outcome, feedback: feedback.swap_remove(place), repeated: true });
        }
        // The decision was journaled, but a crash came before its outcome: finish what was begun.
        self.finish(decided, early, true).await
    }

    /// Decides a task for a caller that runs the model itself. The decision is durable when this returns.
    pub async fn route(&self, task: Task) -> Result<Decided, RouterError> {
        Ok(match self.claim(task).await? {
            Claim::Fresh(decided) => Decided::clone(&decided),
            Claim::Repeat(explanation) => explanation.decided,
        })
    }

    /// Decides the task, unless its idempotency key was decided before.
    async fn claim(&self, task: Task) -> Result<Claim, RouterError> {
        let key = task.idempotency_key.clone();
        if let Some(key) = &key
            && let Some(id) = self.journal.by_idempotency_key(key).await?
        {
            return self.first_with(key, id, &task).await;
        }
        let (decided, appended) = self.decide(task, None).await?;
        match (appended, key) {
            (Appended::Stored { .. }, _) => Ok(Claim::Fresh(decided)),
            (Appended::Duplicate, Some(key)) => {
                // Two requests with one key raced; the other one was first.
                let found = self.journal.by_idempotency_key(&key).await?;
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

    /// The last of the decisions of a task whose workers gave no answer.
    async fn last_of(&self, first: Explanation) -> Result<Explanation, RouterError> {
        let id = first.decided.decision.id;
        if self.replacing.phase(id) != Phase::Away {
            return Err(RouterError::StillRunning(id));
        }
        let mut last = first;
        while let Some(next) = self.journal.instead_of(last.decided.decision.id).await? {
            let mut next = self.explain(next).await?;
            // Texts that the journal does not keep came with the request.
            next.decided.task.messages.clone_from(&last.decided.task.messages);
            next.decided.task.metadata.clone_from(&last.decided.task.metadata);
            last = next;
        }
        Ok(last)
    }

    /// Runs a decision to its end; where its worker gives no answer, another one takes its place, by a decision of its own.
    async fn finish(
        self: &Arc<Self>,
        decided: Arc<Decided>,
        early: Vec<Feedback>,
        repeated: bool,
    ) -> Result<Round, RouterError> {
        let first = decided.decision.id;
        let _replacing = self.replacing.enter(first, vec![]).ok_or(RouterError::StillRunning(first))?;
        let (mut round, mut failure) = self.run_once(decided, early, repeated).await?;
        let mut failed = Vec::new();
        while failure.as_ref().is_some_and(|failure| failure.class() != ErrorClass::Request)
            && failed.len() < self.settings.fallbacks
        {
            failed.push(round.decided.decision.arm.clone());
            let instead = Instead { of: round.decided.decision.id, failed: &failed };
            match self.decide(round.decided.task.clone(), Some(&instead)).await {
                Ok((decided, Appended::Stored { .. })) => {
                    metrics::counter!(Metric::Replaced.name()).increment(1);
                    (round, failure) = self.run_once(decided, vec![], repeated).await?;
                }
                Ok((_, Appended::Duplicate)) | Err(RouterError::Arm(CatalogueError::NoneEligible(_))) => break,
                Err(error) => {
                    tracing::warn!(%error, decision = %instead.of, "no other worker could take the task over");
                    break;
                }
            }
        }
        Ok(round)
    }

    /// Runs and verifies a decision; outcome and feedback are durable when this returns. Feedback that came before the
    /// outcome is joined to it: it was first, so it is what is learnt. Also why there is no answer, if there is none.
    async fn run_once(
        self: &Arc<Self>,
        decided: Arc<Decided>,
        early: Vec<Feedback>,
        repeated: bool,
    ) -> Result<(Round, Option<WorkerError>), RouterError> {
        let id = decided.decision.id;
        let running = self.running.enter(id, early).ok_or(RouterError::StillRunning(id))?;
        let catalogue = self.catalogue.load_full();
        let started = Instant::now();
        let Ran { outcome, failure } = match (catalogue.get(&decided.decision.arm), decided.decision.mode) {
            (Ok(arm), Mode::Single) => modes::run_single(id, &decided.task, arm).await,
            (Err(error), Mode::Single) => modes::not_run(id, &decided.decision.arm, &error.to_string()),
        };
        self.health.note(&decided.decision.arm, failure.as_ref(), now_ms());
        observe_stage(Stage::Run, started.elapsed());
        let feedback = self.judge(&decided, &outcome, failure.as_ref()).await;
        let weights = self.weights(&decided.task);
        let joined = running.close().into_iter().map(|early| joined(early, weights, outcome.cost_usd));
        let joined = joined.map(|feedback| Event::Judged { feedback });
        let events = std::iter::once(Event::Ran { outcome: outcome.clone() })
            .chain(joined)
            .chain([Event::Judged { feedback: feedback.clone() }]);
        let new = events.map(|event| NewEvent::of(&decided, event)).collect();
        self.append(new).await?;
        self.have_judged(&decided, &outcome);
        Ok((Round { decided, outcome, feedback, repeated }, failure))
    }

    async fn judge(&self, decided: &Decided, outcome: &Outcome, failure: Option<&WorkerError>) -> Feedback {
        let weights = self.weights(&decided.task);
        let started = Instant::now();
        let feedback = match outcome.status {
            OutcomeStatus::Done => {
                let (task, cost_usd) = (&decided.task, outcome.cost_usd);
                self.registry.judge(decided.decision.id, task, &outcome.output, cost_usd, weights).await
            }
            OutcomeStatus::Failed => {
                // A request that no worker would take says nothing of this one.
                let refused = failure.is_some_and(|failure| failure.class() == ErrorClass::Request);
                let score = if refused { None } else { Score::new(0.0).ok() };
                Feedback {
                    decision_id: decided.decision.id,
                    source: FeedbackSource::Failure,
                    score,
                    reward: score.map(|score| weights.reward(score.get(), outcome.cost_usd)),
                    cost_usd: outcome.cost_usd,
                    trust: 1.0,
                    idempotency_key: None,
                    verdicts: vec![],
                }
            }
        };
        observe_stage(Stage::Verify, started.elapsed());
        feedback
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

    /// All that the journal knows of a decision.
    pub async fn explain(&self, id: DecisionId) -> Result<Explanation, RouterError> {
        let (mut decided, mut outcome, mut feedback) = (None, None, vec![]);
        let (mut early, mut abandoned) = (vec![], false);
        for stored in self.journal.of_decision(id).await? {
            match stored {
                Stored { event: Event::Ran { outcome: ran }, .. } => outcome = Some(ran),
                Stored { event: Event::Judged { feedback: judged }, .. } => feedback.push(judged),
                Stored { event: Event::Early { feedback }, .. } => early.push(feedback),
                Stored { event: Event::Abandoned { .. }, .. } => abandoned = true,
                Stored { event: Event::Decided { .. }, .. } => decided = stored.into_decided(),
                Stored {
                    event:
                        Event::MemoryRestored { .. }
                        | Event::SnapshotChanged { .. }
                        | Event::PolicyChanged { .. }
                        | Event::VerifierChanged { .. }
                        | Event::ArmChanged { .. }
                        | Event::Erased { .. }
                        | Event::Compacted { .. },
                    ..
                } => {}
            }
        }
        let decided = decided.ok_or(RouterError::UnknownDecision(id))?;
        // What was joined to the outcome waits no longer.
        early.retain(|early: &Feedback| !feedback.iter().any(|known: &Feedback| known.source == early.source));
        Ok(Explanation { decided, outcome, feedback, early, abandoned })
    }

    /// The regret report as of now.
    pub fn regret(&self) -> RegretReport {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner).report()
    }

    /// The policy that decides now.
    pub fn policy(&self) -> PolicyRef {
        self.policy.load().champion.reference()
    }

    /// How full memory is and how far it is behind, and its cap.
    pub fn memory_level(&self) -> (Level, u64) {
        (self.memory_writer.level(), self.memory_shape.cap)
    }

    /// Whether verified rounds are still being learnt; false only after a defect or while closing.
    pub fn is_learning(&self) -> bool {
        let learner = self.learner.lock().unwrap_or_else(PoisonError::into_inner);
        learner.as_ref().is_some_and(|learner| !learner.is_finished())
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
        self.journal.close().await;
        let learner = self.learner.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(learner) = learner
            && !tokio::task::spawn_blocking(move || learner.join()).await.is_ok_and(|joined| joined.is_ok())
        {
            tracing::error!("the learner panicked");
        }
        let memory = Arc::clone(&self.memory_writer);
        if run_blocking(move || memory.close()).await.is_err() {
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
