//! The one learner: folds verified rounds, in journal order, into policies, memory and regret.
//!
//! The same fold serves live rounds and the journal's replay at open, so a restart gives the same state. Memory takes
//! the n-th learnt round as entry n, so it can be rebuilt from the journal without a counter of its own.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use tokio::sync::mpsc;

use crate::{
    action::policy::{LearntRound, Policy},
    arms::Catalogue,
    journal::{Committed, Decided, Event},
    memory::{Entry, Memory},
    regret::{Observed, Tracker},
    round::{ArmId, Feedback, Outcome, OutcomeStatus, RewardWeights, TriedArm, VerdictStatus},
    telemetry::{Events, Metric, RoundEvent, Stage, observe_stage},
};

/// How often memory is flushed while it changes.
const SYNC_EVERY: Duration = Duration::from_secs(5);
/// How much of a prompt an event shows.
const PROMPT_HEAD_CHARS: usize = 120;
/// How much of the verifiers' words memory keeps.
const TRACE_CHARS: usize = 200;

/// What decides now.
pub struct PolicySnapshot {
    /// The policy's state.
    pub policy: Box<dyn Policy>,
    /// How many rounds it has learnt.
    pub learnt_rounds: u64,
}

/// The state that rounds are folded into.
pub(super) struct Learner {
    pub policy: Box<dyn Policy>,
    pub learnt_rounds: u64,
    pub memory: Arc<dyn Memory>,
    pub memory_cap: u64,
    pub catalogue: Arc<Catalogue>,
    pub tracker: Arc<Mutex<Tracker>>,
    pub reward: RewardWeights,
    pub published: Arc<ArcSwap<PolicySnapshot>>,
    pub events: Events,
}

impl Learner {
    /// Takes committed events until the journal closes, then flushes memory.
    pub(super) fn run(mut self, mut committed: mpsc::Receiver<Committed>) {
        let mut last_outcome: Option<Outcome> = None;
        let mut synced = Instant::now();
        while let Some(Committed { at_ms, learns, new, .. }) = committed.blocking_recv() {
            let decided = new.decided;
            match new.event {
                Event::Decided { .. } => {}
                Event::Ran { outcome } => last_outcome = Some(outcome),
                Event::Judged { feedback } => {
                    let outcome = last_outcome.take().filter(|outcome| outcome.decision_id == decided.decision.id);
                    if learns {
                        let started = Instant::now();
                        self.fold(&decided, &feedback, 0);
                        self.publish();
                        observe_stage(Stage::Learn, started.elapsed());
                    }
                    self.announce(&decided, outcome.as_ref(), &feedback, at_ms);
                }
            }
            if synced.elapsed() > SYNC_EVERY {
                self.sync();
                synced = Instant::now();
            }
        }
        self.sync();
    }

    /// Folds one learnt round. Memory takes it unless its number is below `memory_from`, where it is known to hold it.
    pub(super) fn fold(&mut self, decided: &Decided, feedback: &Feedback, memory_from: u64) {
        let (Some(score), Some(reward)) = (feedback.score, feedback.reward) else { return };
        let Decided { task, context, decision } = decided;
        self.policy.learn(&LearntRound {
            context,
            mode: decision.mode,
            arm: &decision.arm,
            propensity: decision.propensity.get(),
            voters: &decision.voters,
            score: score.get(),
            reward,
            weights: task.reward.unwrap_or(self.reward),
        });
        if self.learnt_rounds >= memory_from {
            let entry = Entry {
                task_id: task.id.clone(),
                domain: task.domain.clone(),
                embedding: context.embedding.clone(),
                outcomes: vec![TriedArm {
                    mode: decision.mode,
                    arm: decision.arm.clone(),
                    score: score.get(),
                    cost_usd: feedback.cost_usd,
                    trace: trace(feedback),
                }],
            };
            if let Err(error) = self.memory.put(self.learnt_rounds, &entry) {
                metrics::counter!(Metric::MemoryFailures.name()).increment(1);
                tracing::error!(%error, seq = self.learnt_rounds, "memory did not take an entry");
            }
        }
        self.learnt_rounds += 1;
        let truth = self.truth(decided);
        let voters: Vec<_> = decision.voters.iter().map(|voter| (voter.policy.clone(), voter.weight)).collect();
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner).observe(&Observed {
            domain: &task.domain,
            arm: &decision.arm,
            propensity: decision.propensity.get(),
            score: score.get(),
            reward,
            cost_usd: feedback.cost_usd,
            truth: truth.as_deref(),
            voters: &voters,
        });
    }

    /// Every candidate's true expected reward, where all workers know theirs.
    fn truth(&self, decided: &Decided) -> Option<Vec<(ArmId, f64)>> {
        let weights = decided.task.reward.unwrap_or(self.reward);
        decided
            .context
            .candidates
            .iter()
            .map(|candidate| {
                let arm = self.catalogue.get(&candidate.arm).ok()?;
                let score = arm.worker.expected_score(&decided.task)?;
                Some((candidate.arm.clone(), weights.reward(score, candidate.cost_usd)))
            })
            .collect()
    }

    /// Makes the state the one that decides.
    pub(super) fn publish(&self) {
        let snapshot = PolicySnapshot { policy: self.policy.snapshot(), learnt_rounds: self.learnt_rounds };
        self.published.store(Arc::new(snapshot));
        metrics::gauge!(Metric::MemoryEntries.name()).set(self.learnt_rounds.min(self.memory_cap) as f64);
    }

    fn sync(&self) {
        if let Err(error) = self.memory.sync() {
            metrics::counter!(Metric::MemoryFailures.name()).increment(1);
            tracing::error!(%error, "memory was not flushed");
        }
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

/// The verifiers' first words, short.
fn trace(feedback: &Feedback) -> String {
    let lines = feedback.verdicts.iter().filter_map(|verdict| {
        let line = verdict.trace.first()?;
        (verdict.status == VerdictStatus::Scored).then(|| format!("{}: {line}", verdict.verifier))
    });
    lines.collect::<Vec<_>>().join("; ").chars().take(TRACE_CHARS).collect()
}
