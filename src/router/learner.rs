//! The one learner: folds verified rounds, in journal order, into policies, memory and regret.
//!
//! The same fold serves live rounds and the journal's replay at open, so a restart gives the same state. Memory takes
//! each learnt round as its next entry, counted from zero or from the snapshot that was restored last, so that it can be
//! rebuilt from the journal.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use arc_swap::ArcSwap;
use tokio::sync::mpsc;

use super::recollection::Recollection;
use crate::{
    action::policy::{LearntRound, Policy, Standings},
    arms::Catalogue,
    context::domain::Centroids,
    journal::{Committed, Decided, Event},
    regret::{Observed, Tracker},
    round::{ArmId, Domain, Feedback, Outcome, OutcomeStatus, RewardWeights, VerdictStatus},
    telemetry::{Events, Metric, RoundEvent, Stage, observe_stage},
};

/// How much of a prompt an event shows.
const PROMPT_HEAD_CHARS: usize = 120;

/// What decides now.
pub struct PolicySnapshot {
    /// The policy's state.
    pub policy: Box<dyn Policy>,
    /// How many rounds it has learnt.
    pub learnt_rounds: u64,
    /// What the arms did in the domains.
    pub standings: Standings,
    /// What the domains' tasks are like.
    pub centroids: Centroids,
}

/// The state that rounds are folded into.
pub(super) struct Learner {
    pub policy: Box<dyn Policy>,
    pub learnt_rounds: u64,
    pub standings: Standings,
    pub centroids: Centroids,
    pub recollection: Recollection,
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
        while let Some(Committed { at_ms, learns, new, .. }) = committed.blocking_recv() {
            match new.event {
                Event::Decided { .. } => {}
                Event::Ran { outcome } => last_outcome = Some(outcome),
                Event::MemoryRestored { restored } => self.recollection.restore(&restored),
                Event::Judged { feedback } => {
                    let Some(decided) = new.decided else { continue };
                    let outcome = last_outcome.take().filter(|outcome| outcome.decision_id == decided.decision.id);
                    if learns {
                        let started = Instant::now();
                        self.fold(&decided, &feedback, at_ms);
                        self.publish();
                        observe_stage(Stage::Learn, started.elapsed());
                    }
                    self.announce(&decided, outcome.as_ref(), &feedback, at_ms);
                }
            }
        }
    }

    /// Folds one learnt round.
    pub(super) fn fold(&mut self, decided: &Decided, feedback: &Feedback, at_ms: i64) {
        let (Some(score), Some(reward)) = (feedback.score, feedback.reward) else { return };
        let Decided { task, context, observed, decision } = decided;
        let round = LearntRound {
            context,
            mode: decision.mode,
            arm: &decision.arm,
            propensity: decision.propensity.get(),
            seed: decision.seed,
            voters: &decision.voters,
            score: score.get(),
            reward,
            cost_usd: feedback.cost_usd,
            trust: 1.0,
        };
        self.policy.learn(&round);
        self.standings.learn(&round);
        if observed.domain_similarity.is_none() && task.domain != Domain::unknown() {
            self.centroids.learn(&task.domain, &context.embedding);
        }
        self.recollection.learn(decided, feedback, score.get(), at_ms);
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
        let snapshot = PolicySnapshot {
            policy: self.policy.snapshot(),
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
