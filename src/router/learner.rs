//! The one learner: folds verified rounds, in journal order, into policies, memory and regret.
//!
//! The same fold serves live rounds and the journal's replay at open, so a restart gives the same state. Memory takes
//! each learnt round as its next entry, counted from zero or from the snapshot that was restored last, so that it can be
//! rebuilt from the journal.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use arc_swap::ArcSwap;
use tokio::{runtime::Handle, sync::mpsc};

use super::{
    cards::Acting,
    checkpoint::Checkpoint,
    lesson::{Folded, Trial, fold, is_unscored, lesson, teach},
    policies::Prepared,
    recollection::Recollection,
};
use crate::{
    action::policy::{LearntRound, Standings},
    arms::Catalogue,
    context::domain::Centroids,
    journal::{Committed, Decided, Event, Journal, PolicyChange, PolicyOrigin, PolicyRole},
    regret::{Observed, Tracker},
    round::{ArmId, Channel, Domain, Feedback, Outcome, OutcomeStatus, VerdictStatus},
    telemetry::{Events, Metric, RoundEvent, Stage, observe_stage},
};

/// How much of a prompt an event shows.
const PROMPT_HEAD_CHARS: usize = 120;

/// Rounds learnt between two checkpoints.
const CHECKPOINT_EVERY: u64 = 2_000;

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
    /// How many rounds were learnt.
    pub learnt_rounds: u64,
    /// What the arms did in the domains.
    pub standings: Standings,
    /// What the domains' tasks are like.
    pub centroids: Centroids,
}

impl PolicySnapshot {
    /// A hash of all that decides.
    pub(super) fn state_hash(&self) -> String {
        let state = serde_json::json!([self.champion.policy.state(), self.standings.state()]);
        blake3::hash(state.to_string().as_bytes()).to_hex().to_string()
    }
}

/// The state that rounds are folded into.
pub(super) struct Learner {
    pub champion: Acting,
    pub shadow: Option<Acting>,
    pub trial: Trial,
    pub changes: u64,
    /// The champion and the standings know all events up to this place already.
    pub resumed_at: i64,
    pub learnt_rounds: u64,
    pub standings: Standings,
    pub centroids: Centroids,
    pub recollection: Recollection,
    pub catalogue: Arc<ArcSwap<Catalogue>>,
    pub tracker: Arc<Mutex<Tracker>>,
    pub published: Arc<ArcSwap<PolicySnapshot>>,
    pub events: Events,
    pub journal: Arc<Journal>,
    pub prepared: Arc<Mutex<Option<Prepared>>>,
    pub checkpoint: PathBuf,
    /// Where waiting for the journal happens.
    pub handle: Handle,
}

impl Learner {
    /// Takes committed events until the journal closes.
    pub(super) fn run(mut self, mut committed: mpsc::Receiver<Committed>) {
        let mut last_outcome: Option<Outcome> = None;
        let mut last = None;
        while let Some(Committed { seq, at_ms, learns, new }) = committed.blocking_recv() {
            match new.event {
                Event::Decided { .. } | Event::VerifierChanged { .. } | Event::ArmChanged { .. } => {}
                Event::Ran { outcome } => last_outcome = Some(outcome),
                Event::MemoryRestored { restored } => self.recollection.restore(&restored),
                Event::PolicyChanged { change } => {
                    self.change(change, seq);
                    self.publish();
                }
                Event::Judged { feedback } => {
                    let Some(decided) = new.decided else { continue };
                    let outcome = last_outcome.take().filter(|outcome| outcome.decision_id == decided.decision.id);
                    let feedback = &feedback;
                    if learns {
                        let started = Instant::now();
                        self.fold(&Folded::Learnt { at: seq, decided: &decided, feedback, at_ms });
                        self.publish();
                        observe_stage(Stage::Learn, started.elapsed());
                    } else if is_unscored(feedback) {
                        self.fold(&Folded::Unscored { at: seq, feedback });
                        self.publish();
                    }
                    self.announce(&decided, outcome.as_ref(), feedback, at_ms);
                    if learns && self.learnt_rounds.is_multiple_of(CHECKPOINT_EVERY) {
                        self.keep(seq, at_ms);
                    }
                }
            }
            last = Some((seq, at_ms));
        }
        if let Some((seq, at_ms)) = last {
            self.keep(seq, at_ms);
        }
    }

    /// Folds one event.
    pub(super) fn fold(&mut self, folded: &Folded<'_>) {
        match folded {
            Folded::Restored { at, restored } => self.recollection.pass(*at, restored),
            Folded::TrialChanged => self.trial = Trial::default(),
            Folded::Unscored { at, .. } => self.teach(*at, folded),
            Folded::Learnt { at, decided, feedback, at_ms } => {
                let Some(round) = lesson(decided, feedback) else { return };
                self.teach(*at, folded);
                if *at > self.resumed_at {
                    self.standings.learn(&round);
                }
                self.learnt_rounds += 1;
                if feedback.source.channel() == Channel::Weak {
                    return;
                }
                let Decided { task, context, observed, .. } = decided;
                if let Some(shadow) = &self.shadow {
                    self.trial.learn(&shadow.card.label(), &shadow.name, decided, feedback);
                }
                if observed.domain_similarity.is_none() && task.domain != Domain::unknown() {
                    self.centroids.learn(&task.domain, &context.embedding);
                }
                self.recollection.learn(decided, feedback, round.score, *at_ms);
                self.track(decided, &round);
            }
        }
    }

    fn teach(&mut self, at: i64, folded: &Folded<'_>) {
        if at > self.resumed_at {
            teach(self.champion.policy.as_mut(), folded);
        }
        if let Some(shadow) = &mut self.shadow {
            teach(shadow.policy.as_mut(), folded);
        }
    }

    fn track(&self, decided: &Decided, round: &LearntRound<'_>) {
        let Decided { task, decision, .. } = decided;
        let truth = self.truth(decided);
        let voters: Vec<_> = decision.voters.iter().map(|voter| (voter.policy.clone(), voter.weight)).collect();
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner).observe(&Observed {
            domain: &task.domain,
            arm: &decision.arm,
            propensity: decision.propensity.get(),
            score: round.score,
            reward: round.reward,
            cost_usd: round.cost_usd,
            truth: truth.as_deref(),
            voters: &voters,
        });
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
        match (change.role, acting) {
            (PolicyRole::Shadow, acting) => (self.shadow, self.trial) = (acting, Trial::default()),
            (PolicyRole::Champion, Some(acting)) => {
                // A trial ends with its success.
                if self.shadow.as_ref().is_some_and(|shadow| shadow.reference() == acting.reference()) {
                    self.shadow = None;
                }
                (self.champion, self.resumed_at) = (acting, 0);
            }
            (PolicyRole::Champion, None) => tracing::error!("a policy change came without its policy"),
        }
    }

    fn keep(&self, at: i64, at_ms: i64) {
        let checkpoint = Checkpoint::of(&self.champion, &self.standings, at, at_ms);
        if let Err(error) = checkpoint.write(&self.checkpoint) {
            tracing::warn!(%error, path = %self.checkpoint.display(), "the policy's checkpoint could not be written");
        }
    }

    /// Every candidate's true expected reward, where all workers know theirs.
    fn truth(&self, decided: &Decided) -> Option<Vec<(ArmId, f64)>> {
        let catalogue = self.catalogue.load();
        let weights = decided.context.weights;
        decided
            .context
            .candidates
            .iter()
            .map(|candidate| {
                let arm = catalogue.get(&candidate.arm).ok()?;
                let score = arm.worker.expected_score(&decided.task)?;
                Some((candidate.arm.clone(), weights.reward(score, candidate.cost_usd)))
            })
            .collect()
    }

    /// Makes the state the one that decides.
    pub(super) fn publish(&self) {
        let snapshot = PolicySnapshot {
            champion: self.champion.snapshot(),
            shadow: self.shadow.as_ref().map(Acting::snapshot),
            trial: self.trial,
            changes: self.changes,
            learnt_rounds: self.learnt_rounds,
            standings: self.standings.clone(),
            centroids: self.centroids.clone(),
        };
        self.published.store(Arc::new(snapshot));
    }

    fn announce(&self, decided: &Decided, outcome: Option<&Outcome>, feedback: &Feedback, at_ms: i64) {
        let Decided { task, decision, .. } = decided;
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
        self.events.send(RoundEvent {
            round: self.learnt_rounds,
            at_ms,
            decision_id: decision.id,
            task_id: task.id.clone(),
            domain: task.domain.clone(),
            mode: decision.mode,
            arm: decision.arm.clone(),
            propensity: decision.propensity,
            reason: decision.reason,
            status,
            score: feedback.score.map(|score| score.get()),
            reward: feedback.reward,
            cost_usd: feedback.cost_usd,
            latency_ms: outcome.map_or(0.0, |outcome| outcome.latency_ms),
            prompt_head: task.prompt().chars().take(PROMPT_HEAD_CHARS).collect(),
        });
    }
}
