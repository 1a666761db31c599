//! All that the journal's rounds are folded into, memory's entries excepted.
//!
//! The state is a function of the journal alone: live learning, a restart and a fold from zero give the same, bit for bit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    RouterError,
    audit::Book,
    cards::Acting,
    checkpoint::{Checkpoint, Known, PolicyState},
    learner::PolicySnapshot,
    lesson::{Folded, fold, lesson, teach},
    trial::Trial,
};
use crate::{
    access::Spending,
    action::policy::{Action, LearntRound, Standings},
    context::domain::Centroids,
    history::{History, Lived},
    journal::{Base, Decided, JournalReader},
    regret::{Observed, Tracker},
    round::{ArmId, Channel, Domain, Feedback, FeedbackSource},
};

/// The state, folded up to a place in the journal.
pub(super) struct State {
    /// That place, and when its event was appended.
    pub at: i64,
    pub at_ms: i64,
    /// Up to this place no decision was left open when the state was kept.
    pub closed_up_to: i64,
    pub champion: Acting,
    pub shadow: Option<Acting>,
    pub trial: Trial,
    pub learnt_rounds: u64,
    /// The number of memory's next entry.
    pub memory_seq: u64,
    pub standings: Standings,
    pub centroids: Centroids,
    pub spending: Arc<Spending>,
    pub audits: Arc<Book>,
    // Guards the read models: the fold adds a round, pages read a report.
    pub shown: Arc<Mutex<Shown>>,
}

/// What pages read.
#[derive(Clone, Default)]
pub(super) struct Shown {
    pub tracker: Tracker,
    pub history: History,
}

impl State {
    /// Nothing learnt yet.
    pub fn new(champion: Acting, shadow: Option<Acting>) -> Self {
        Self {
            at: 0,
            at_ms: 0,
            closed_up_to: 0,
            champion,
            shadow,
            trial: Trial::default(),
            learnt_rounds: 0,
            memory_seq: 0,
            standings: Standings::default(),
            centroids: Centroids::default(),
            spending: Arc::default(),
            audits: Arc::default(),
            shown: Arc::default(),
        }
    }

    /// Takes a checkpoint over, and folds a policy that it does not hold up to its place. Returns the actions whose rows
    /// made no sense. An error leaves a state that is of no use.
    pub async fn resume(&mut self, checkpoint: &Checkpoint, journal: &JournalReader) -> Result<Vec<Action>, String> {
        let Checkpoint { at, at_ms, closed_up_to, known, .. } = checkpoint;
        let wrong = |error: &dyn std::fmt::Display| error.to_string();
        let (standings, mut poisoned) = Standings::from_state(&known.standings).map_err(|error| wrong(&error))?;
        for acting in std::iter::once(&mut self.champion).chain(&mut self.shadow) {
            match checkpoint.state_of(acting) {
                Some(state) => poisoned.extend(acting.policy.restore(state).map_err(|error| wrong(&error))?),
                None => catch_up(journal, acting, *at).await.map_err(|error| wrong(&error))?,
            }
        }
        poisoned.sort();
        poisoned.dedup();
        (self.at, self.at_ms, self.closed_up_to, self.standings) = (*at, *at_ms, *closed_up_to, standings);
        self.centroids = serde_json::from_value(known.centroids.clone()).map_err(|error| wrong(&error))?;
        self.trial = known.trial.clone();
        self.spending = Arc::new(known.spending.clone());
        self.audits = Arc::new(known.audits.clone());
        (self.learnt_rounds, self.memory_seq) = (known.learnt_rounds, known.memory_seq);
        let tracker = serde_json::from_value(known.tracker.clone()).map_err(|error| wrong(&error))?;
        let history = known.history.clone().map(serde_json::from_value).transpose();
        let history = history.map_err(|error| wrong(&error))?.unwrap_or_default();
        *locked(&self.shown) = Shown { tracker, history };
        Ok(poisoned)
    }

    /// Folds one event; one that is in the state already changes nothing.
    pub fn fold(&mut self, folded: &Folded<'_>) {
        if folded.at() <= self.at {
            return;
        }
        self.at = folded.at();
        match folded {
            Folded::Restored { restored, .. } => self.memory_seq = restored.next_seq,
            Folded::TrialChanged { .. } => self.trial = Trial::default(),
            Folded::Spent { spent, at_ms, .. } => {
                Arc::make_mut(&mut self.spending).add(&spent.tenant, spent.nano_usd, *at_ms);
            }
            Folded::Probed { probe, .. } => Arc::make_mut(&mut self.audits).begin(probe),
            Folded::Audited { audited, at_ms, .. } => {
                Arc::make_mut(&mut self.audits).end(audited, *at_ms);
                let mut shown = locked(&self.shown);
                shown.tracker.probe(audited);
                shown.history.probe(audited, *at_ms);
            }
            Folded::Abandoned { .. } => locked(&self.shown).tracker.abandon(),
            Folded::Unscored { .. } => self.teach(folded),
            Folded::Learnt { decided, feedback, at_ms, .. } => {
                self.teach(folded);
                self.learn(decided, feedback, *at_ms);
            }
        }
    }

    fn learn(&mut self, decided: &Decided, feedback: &Feedback, at_ms: i64) {
        let Some(round) = lesson(decided, feedback) else { return };
        self.standings.learn(&round);
        self.learnt_rounds += 1;
        if feedback.source.channel() == Channel::Weak {
            return;
        }
        self.memory_seq += 1;
        let Decided { task, context, observed, .. } = decided;
        if let Some(shadow) = &self.shadow {
            self.trial.learn(&shadow.card.label(), &shadow.name, decided, feedback);
        }
        if observed.domain_similarity.is_none() && task.domain != Domain::unknown() {
            self.centroids.learn(&task.domain, &context.embedding);
        }
        self.track(decided, feedback, &round, at_ms);
    }

    fn teach(&mut self, folded: &Folded<'_>) {
        teach(self.champion.policy.as_mut(), folded);
        if let Some(shadow) = &mut self.shadow {
            teach(shadow.policy.as_mut(), folded);
        }
    }

    fn track(&self, decided: &Decided, feedback: &Feedback, round: &LearntRound<'_>, at_ms: i64) {
        let Decided { task, decision, observed, .. } = decided;
        let candidates: Vec<_> = decision.pmf.iter().map(|entry| (entry.mode.way(&entry.arm), entry.p)).collect();
        let way = decision.mode.way(&decision.arm);
        let truth = truth(decided);
        let voters: Vec<_> = decision.voters.iter().map(|voter| (voter.policy.clone(), voter.weight)).collect();
        let mut shown = locked(&self.shown);
        let lost = shown.tracker.observe(&Observed {
            decision: decision.id,
            domain: &task.domain,
            arm: &way,
            propensity: decision.propensity.get(),
            candidates: &candidates,
            coin: observed.coin,
            score: round.score,
            reward: round.reward,
            cost_usd: round.cost_usd,
            truth: truth.as_deref(),
            voters: &voters,
        });
        shown.history.add(&Lived {
            at_ms,
            domain: &task.domain,
            arm: &way,
            mode: decision.mode,
            failed: feedback.source == FeedbackSource::Failure,
            score: round.score,
            reward: round.reward,
            cost_usd: round.cost_usd,
            exploring: (candidates.len() > 1).then(|| 1.0 - candidates.iter().map(|(_, p)| *p).fold(0.0, f64::max)),
            exact_regret: lost.exact,
            estimated_regret: lost.estimated,
            voters: &voters,
            verdicts: &feedback.verdicts,
        });
    }

    /// What decides, as of now. `changes` counts the changes of policies.
    pub fn snapshot(&self, changes: u64) -> PolicySnapshot {
        PolicySnapshot {
            champion: self.champion.snapshot(),
            shadow: self.shadow.as_ref().map(Acting::snapshot),
            trial: self.trial.clone(),
            changes,
            at: self.at,
            at_ms: self.at_ms,
            learnt_rounds: self.learnt_rounds,
            memory_seq: self.memory_seq,
            standings: self.standings.clone(),
            centroids: self.centroids.clone(),
            spending: Arc::clone(&self.spending),
            audits: Arc::clone(&self.audits),
        }
    }

    /// A copy of what pages read, of the same moment as a snapshot that is taken beside it.
    pub fn shown(&self) -> Shown {
        locked(&self.shown).clone()
    }
}

impl PolicySnapshot {
    /// All that was learnt, as a checkpoint keeps it.
    pub(super) fn known(&self, shown: &Shown) -> Known {
        let json = |value: Result<serde_json::Value, serde_json::Error>| value.unwrap_or_default();
        Known {
            champion: PolicyState::of(&self.champion),
            shadow: self.shadow.as_ref().map(PolicyState::of),
            // Without a shadow it tells of a trial that is over.
            trial: if self.shadow.is_some() { self.trial.clone() } else { Trial::default() },
            learnt_rounds: self.learnt_rounds,
            memory_seq: self.memory_seq,
            standings: self.standings.state(),
            centroids: json(serde_json::to_value(&self.centroids)),
            tracker: json(serde_json::to_value(&shown.tracker)),
            history: Some(json(serde_json::to_value(&shown.history))),
            spending: Spending::clone(&self.spending),
            audits: Book::clone(&self.audits),
        }
    }
}

/// Locks the read models; a panic in the middle of an addition leaves ones that can still be read.
pub(super) fn locked(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every candidate's true expected reward, where all workers know theirs.
fn truth(decided: &Decided) -> Option<Vec<(ArmId, f64)>> {
    let Decided { context, observed, .. } = decided;
    let scores = observed.expected_scores.as_ref().filter(|scores| scores.len() == context.candidates.len())?;
    let reward = |(candidate, score): (&crate::round::Candidate, &f64)| {
        (candidate.mode.way(&candidate.arm), context.weights.reward(*score, candidate.cost_usd))
    };
    Some(context.candidates.iter().zip(scores).map(reward).collect())
}

/// Folds all of the journal up to a place into a policy that learnt nothing yet. What compaction took out counts as far as
/// it was learnt by the same policy.
pub(super) async fn catch_up(journal: &JournalReader, acting: &mut Acting, until: i64) -> Result<(), RouterError> {
    let mut after = 0;
    if let Some(Base { seq, state, .. }) = journal.base().await?
        && let Ok(base) = Checkpoint::parse(&state)
    {
        match base.state_of(acting) {
            Some(known) if seq <= until => {
                let restored = acting.policy.restore(known);
                restored.map_err(|error| RouterError::Internal(format!("the compacted state: {error}")))?;
                after = seq;
            }
            Some(_) | None => tracing::info!(
                policy = %acting.name,
                "rounds were compacted before this policy came: it learns from those that are kept"
            ),
        }
    }
    fold(journal, after, until, |_, _| {}, |folded| teach(acting.policy.as_mut(), &folded)).await?;
    Ok(())
}
