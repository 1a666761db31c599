//! The one learner: folds verified rounds, in journal order, into policies, memory and regret.
//!
//! The same fold serves live rounds and the journal's replay at open, so a restart gives the same state. Memory takes
//! each learnt round as its next entry, counted from zero or from the snapshot that was restored last, so that it can be
//! rebuilt from the journal. Events that wait together are folded together and published once.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use tokio::{runtime::Handle, sync::mpsc};

use super::{
    announced::announced,
    audit::Book,
    cards::Acting,
    checkpoint::{Checkpoint, Keeper},
    lesson::{Folded, fold, is_unscored, teach},
    policies::Prepared,
    recollection::Recollection,
    state::State,
    trial::Trial,
};
use crate::{
    access::Spending,
    action::policy::Standings,
    context::domain::Centroids,
    journal::{Committed, Decided, Event, Journal, PolicyChange, PolicyOrigin, PolicyRole},
    round::{Feedback, Outcome, OutcomeStatus, VerdictStatus},
    telemetry::{Events, Metric, Stage, observe_stage},
};

/// Rounds learnt between two checkpoints, at least, and the time.
const CHECKPOINT_EVERY: (u64, Duration) = (2_000, Duration::from_secs(5));
/// Events folded before what they taught decides, at most.
const BATCH: usize = 64;

/// What decides now.
pub struct PolicySnapshot {
    /// The policy that decides.
    pub(super) champion: Acting,
    /// The policy on trial.
    pub(super) shadow: Option<Acting>,
    /// What the trial has shown.
    pub(super) trial: Trial,
    /// How many changes of policies were made.
    pub(super) changes: u64,
    /// The place in the journal up to which it was folded, and when that event was appended.
    pub(super) at: i64,
    pub(super) at_ms: i64,
    /// How many rounds were learnt.
    pub learnt_rounds: u64,
    /// The number of memory's next entry.
    pub(super) memory_seq: u64,
    /// What the arms did in the domains.
    pub standings: Standings,
    /// What the domains' tasks are like.
    pub centroids: Centroids,
    /// What tenants spent.
    pub(super) spending: Arc<Spending>,
    /// What probes spent, and which are under way.
    pub(super) audits: Arc<Book>,
}

/// The state that rounds are folded into, and whom it concerns.
pub(super) struct Learner {
    pub state: State,
    pub changes: u64,
    pub recollection: Recollection,
    pub published: Arc<ArcSwap<PolicySnapshot>>,
    pub events: Events,
    pub journal: Arc<Journal>,
    pub prepared: Arc<Mutex<Option<Prepared>>>,
    pub checkpoint: PathBuf,
    /// Rounds that it holds already.
    pub checkpointed: u64,
    /// Up to this place no decision is left open.
    pub closed_up_to: Arc<AtomicI64>,
    /// Where waiting for the journal happens.
    pub handle: Handle,
}

/// When the last checkpoint was begun.
struct Kept {
    keeper: Keeper,
    rounds: u64,
    when: Instant,
}

impl Learner {
    /// Takes committed events until the journal closes.
    pub(super) fn run(mut self, mut committed: mpsc::Receiver<Committed>) {
        let mut last_outcome: Option<Outcome> = None;
        let mut kept = Kept { keeper: Keeper::default(), rounds: self.checkpointed, when: Instant::now() };
        // A long fold is not to be done again, however soon this daemon dies.
        if self.state.learnt_rounds >= kept.rounds + CHECKPOINT_EVERY.0 {
            self.keep(&mut kept);
        }
        let mut batch = Vec::with_capacity(BATCH);
        while committed.blocking_recv_many(&mut batch, BATCH) > 0 {
            let started = Instant::now();
            let learnt = self.state.learnt_rounds;
            for event in batch.drain(..) {
                self.take(event, &mut last_outcome);
            }
            self.publish();
            if self.state.learnt_rounds > learnt {
                observe_stage(Stage::Learn, started.elapsed());
            }
            self.keep_when_due(&mut kept);
        }
        self.keep(&mut kept);
        kept.keeper.wait();
    }

    fn take(&mut self, Committed { seq, at_ms, learns, new }: Committed, last_outcome: &mut Option<Outcome>) {
        match new.event {
            Event::Decided { .. }
            | Event::Early { .. }
            | Event::SnapshotChanged { .. }
            | Event::VerifierChanged { .. }
            | Event::ArmChanged { .. }
            | Event::KeyChanged { .. }
            | Event::Erased { .. }
            | Event::Compacted { .. } => {}
            Event::Ran { outcome } => *last_outcome = Some(outcome),
            Event::Spent { spent } => self.state.fold(&Folded::Spent { at: seq, at_ms, spent: &spent }),
            Event::Probed { probe } => self.state.fold(&Folded::Probed { at: seq, probe: &probe }),
            Event::Audited { audited } => self.state.fold(&Folded::Audited { at: seq, at_ms, audited: &audited }),
            Event::Abandoned { .. } => self.state.fold(&Folded::Abandoned { at: seq }),
            Event::MemoryRestored { restored } => {
                self.state.fold(&Folded::Restored { at: seq, restored: &restored });
                self.recollection.restore(&restored);
            }
            Event::PolicyChanged { change } => self.change(change, seq),
            Event::Judged { feedback } => {
                let Some(decided) = new.decided else { return };
                let outcome = last_outcome.as_ref().filter(|outcome| outcome.decision_id == decided.decision.id);
                let feedback = &feedback;
                if learns {
                    self.fold(&Folded::Learnt { at: seq, decided: &decided, feedback, at_ms });
                } else if is_unscored(feedback) {
                    self.fold(&Folded::Unscored { at: seq, feedback });
                }
                self.announce((seq, at_ms), &decided, outcome, feedback);
            }
        }
        (self.state.at, self.state.at_ms) = (seq, at_ms);
    }

    /// Folds one event.
    pub(super) fn fold(&mut self, folded: &Folded<'_>) {
        self.state.fold(folded);
        self.recollection.fold(folded);
    }

    /// Puts the policy of a change in its place, with the rounds added that came since it was folded.
    fn change(&mut self, change: PolicyChange, at: i64) {
        // The configured policy was in its place before the first event.
        if change.origin == PolicyOrigin::Configured {
            return;
        }
        self.changes += 1;
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).take();
        let acting = match prepared.filter(|prepared| prepared.change == change) {
            Some(Prepared { mut acting, at: folded_at, .. }) => {
                let tell = |folded: Folded<'_>| teach(acting.policy.as_mut(), &folded);
                match self.handle.block_on(fold(&self.journal, folded_at, at, |_, _| {}, tell)) {
                    Ok(_) => Some(acting),
                    Err(error) => {
                        tracing::error!(%error, "a policy could not take over; it will after a restart");
                        return;
                    }
                }
            }
            None => None,
        };
        let state = &mut self.state;
        match (change.role, acting) {
            (PolicyRole::Shadow, acting) => (state.shadow, state.trial) = (acting, Trial::default()),
            (PolicyRole::Champion, Some(acting)) => {
                // A trial ends with its success.
                if state.shadow.as_ref().is_some_and(|shadow| shadow.reference() == acting.reference()) {
                    state.shadow = None;
                }
                state.champion = acting;
            }
            (PolicyRole::Champion, None) => tracing::error!("a policy change came without its policy"),
        }
    }

    fn keep_when_due(&self, kept: &mut Kept) {
        let (rounds, time) = CHECKPOINT_EVERY;
        let due = self.state.learnt_rounds >= kept.rounds + rounds && kept.when.elapsed() >= time;
        if due && kept.keeper.is_idle() {
            self.keep(kept);
        }
    }

    fn keep(&self, kept: &mut Kept) {
        (kept.rounds, kept.when) = (self.state.learnt_rounds, Instant::now());
        if self.state.at == 0 {
            return;
        }
        let (snapshot, shown) = (self.state.snapshot(self.changes), self.state.shown());
        let closed_up_to = self.closed_up_to.load(Ordering::Relaxed);
        kept.keeper.keep(&self.checkpoint, move || Checkpoint {
            closed_up_to,
            at: snapshot.at,
            at_ms: snapshot.at_ms,
            known: snapshot.known(&shown),
            others: vec![],
        });
    }

    /// Makes the state the one that decides.
    pub(super) fn publish(&self) {
        self.published.store(Arc::new(self.state.snapshot(self.changes)));
    }

    fn announce(&self, place: (i64, i64), decided: &Decided, outcome: Option<&Outcome>, feedback: &Feedback) {
        let decision = &decided.decision;
        let status = outcome.map_or(OutcomeStatus::Done, |outcome| outcome.status);
        let label = match status {
            OutcomeStatus::Done => "done",
            OutcomeStatus::Failed => "failed",
        };
        let arm = decision.arm.to_string();
        metrics::counter!(Metric::Rounds.name(), "arm" => arm.clone(), "status" => label).increment(1);
        metrics::gauge!(Metric::CostUsd.name(), "arm" => arm).increment(feedback.cost_usd);
        if let Some(score) = feedback.score {
            metrics::histogram!(Metric::Score.name()).record(score.get());
        }
        for verdict in &feedback.verdicts {
            let status = match verdict.status {
                VerdictStatus::Scored => "scored",
                VerdictStatus::NotApplicable => "not_applicable",
                VerdictStatus::InvalidTask => "invalid_task",
                VerdictStatus::Error => "error",
                VerdictStatus::LimitExceeded => "limit_exceeded",
            };
            let verifier = verdict.verifier.clone();
            metrics::counter!(Metric::Verdicts.name(), "verifier" => verifier, "status" => status).increment(1);
        }
        if self.events.are_watched() {
            self.events.send(announced(place, self.state.learnt_rounds, decided, outcome, feedback));
        }
    }
}
