//! A task's way through the loop: decide, run, verify, store; and another worker in the place of one that gave no answer.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use tracing::{Instrument, field::Empty};

use super::{
    Claim, Explanation, Round, Router, RouterError,
    audit::RunBy,
    decide::Instead,
    running::{Phase, Run, joined},
};
use crate::{
    access::{Admission, Hold, nano_usd},
    arms::{
        CatalogueError,
        worker::{Ask, ErrorClass, WorkerError},
    },
    chat::ChatRequest,
    journal::{Appended, Decided, Event, NewEvent, now_ms},
    modes::Ran,
    round::{ArmId, Feedback, FeedbackSource, Outcome, OutcomeStatus, Score, Task},
    telemetry::{Metric, Stage, TRACES, observe_stage},
};

/// Verification follows an answer at once, so what a crash cut off is among the last events.
const CUT_OFF_WITHIN: i64 = 10_000;

/// What a task's run came to.
pub(super) struct Attempt<'a> {
    pub decided: Arc<Decided>,
    pub outcome: Outcome,
    pub verdict: Verdict<'a>,
    /// An earlier request had it done.
    pub repeated: bool,
    /// Why there is no answer.
    pub failure: Option<WorkerError>,
    /// The answer in the client's protocol, where it speaks one and the worker answered just now.
    pub body: Bytes,
}

/// What verifiers say of an answer.
pub(super) enum Verdict<'a> {
    /// They were asked.
    Given(Box<Feedback>),
    /// The caller has them asked, once its client has the answer.
    Due(Run<'a>),
    /// They are being asked for an earlier request.
    UnderWay,
}

impl Attempt<'_> {
    /// The whole round, once there is a verdict.
    fn into_round(self) -> Result<Round, RouterError> {
        let Self { decided, outcome, verdict, repeated, .. } = self;
        match verdict {
            Verdict::Given(feedback) => Ok(Round { decided, outcome, feedback: *feedback, repeated }),
            Verdict::Due(_) | Verdict::UnderWay => Err(RouterError::StillRunning(decided.decision.id)),
        }
    }
}

/// What the journal knows of a request that comes again.
pub(super) enum Known {
    /// It was done. No feedback while the answer is being verified.
    Done(Arc<Decided>, Box<Outcome>, Option<Box<Feedback>>),
    /// A crash came before its outcome.
    CutOff(Box<Explanation>),
}

/// Spends what was put aside, unless somebody told before what it cost. Where the journal failed the money is spent too.
pub(super) fn settle(hold: Hold, cost_usd: f64, appended: &Result<Vec<Appended>, RouterError>) {
    match appended.as_deref() {
        Ok([.., Appended::Duplicate]) => drop(hold),
        Ok(_) | Err(_) => hold.settle(nano_usd(cost_usd), now_ms()),
    }
}

impl Router {
    /// Runs a task through the whole loop. It goes on to its end even when the caller stops waiting.
    /// A tenant that is at its limits is refused.
    pub async fn run(self: &Arc<Self>, task: Task) -> Result<Round, RouterError> {
        let admission = self.tenants.admit(task.tenant.as_ref())?;
        self.run_admitted(task, admission).await
    }

    /// The same for one of many tasks: it waits for its tenant's rate and for a free place. Spent dollars are refused.
    pub async fn run_in_turn(self: &Arc<Self>, task: Task) -> Result<Round, RouterError> {
        let admission = self.tenants.admit_in_turn(task.tenant.as_ref()).await;
        self.run_admitted(task, admission).await
    }

    async fn run_admitted(self: &Arc<Self>, task: Task, admission: Admission) -> Result<Round, RouterError> {
        let router = Arc::clone(self);
        let turn = async move {
            // The place is taken until the round ends, also when nobody waits for it any more.
            let _admission = admission;
            router.turn(task, None).await?.into_round()
        };
        let round = self.rounds.spawn(turn.in_current_span());
        round.await.map_err(|error| RouterError::Internal(format!("the round panicked: {error}")))?
    }

    /// One task's turn. A chat's answer is not verified yet when this returns: nobody waits for that.
    pub(super) async fn turn(
        self: &Arc<Self>,
        task: Task,
        chat: Option<&ChatRequest>,
    ) -> Result<Attempt<'_>, RouterError> {
        // Before anything is paid for: an answer that was bought waits for its verification however long it takes.
        if let Some(waiting) = self.registry.overload() {
            return Err(RouterError::Overloaded { waiting });
        }
        match self.claim(task, RunBy::Router).await? {
            Claim::Fresh(decided, hold) => self.run_to_end(decided, hold, vec![], false, chat).await,
            Claim::Repeat(explanation) => match self.known(self.last_of(*explanation).await?).await? {
                Known::Done(decided, outcome, feedback) => {
                    let verdict = feedback.map_or(Verdict::UnderWay, Verdict::Given);
                    let (outcome, body) = (*outcome, Bytes::new());
                    Ok(Attempt { decided, outcome, verdict, repeated: true, failure: None, body })
                }
                // The decision was journaled, but a crash came before its outcome: finish what was begun.
                Known::CutOff(cut_off) => {
                    let Explanation { decided, early, .. } = *cut_off;
                    let hold = self.hold_again(&decided)?;
                    self.run_to_end(Arc::new(decided), hold, early, true, chat).await
                }
            },
        }
    }

    /// Puts dollars aside once more for a decision that a crash cut off.
    pub(super) fn hold_again(&self, decided: &Decided) -> Result<Hold, RouterError> {
        let tenant = decided.task.tenant.as_ref();
        self.tenants.release_parked(tenant, decided.decision.id);
        Ok(self.tenants.reserve(tenant, decided.expected_cost_usd(), now_ms())?)
    }

    /// The last of the decisions of a task whose workers gave no answer.
    pub(super) async fn last_of(&self, first: Explanation) -> Result<Explanation, RouterError> {
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

    /// What a request that comes again is told. An answer whose verification a crash cut off is verified now.
    pub(super) async fn known(self: &Arc<Self>, explanation: Explanation) -> Result<Known, RouterError> {
        let Explanation { decided, outcome: Some(outcome), mut feedback, early, .. } = explanation else {
            return Ok(Known::CutOff(Box::new(explanation)));
        };
        if !outcome.kept.is_whole() && outcome.status == OutcomeStatus::Done {
            let id = decided.decision.id;
            let instead = "it was done and paid for; send the task under another key to have it done again";
            return Err(RouterError::NotKept { id, what: "answer", instead });
        }
        let decided = Arc::new(decided);
        let own = |feedback: &Feedback| matches!(feedback.source, FeedbackSource::Verifier | FeedbackSource::Failure);
        let feedback = match feedback.iter().position(own) {
            Some(place) => Some(feedback.swap_remove(place)),
            None => match self.verify_cut_off(&decided, &outcome, early).await {
                Ok(feedback) => Some(feedback),
                Err(RouterError::StillRunning(_)) => None,
                Err(error) => return Err(error),
            },
        };
        Ok(Known::Done(decided, Box::new(outcome), feedback.map(Box::new)))
    }

    /// Verifies the answers whose verification a crash cut off.
    pub(super) async fn verify_what_was_cut_off(self: Arc<Self>, up_to: i64) {
        let unjudged = match self.journal.unjudged(up_to.saturating_sub(CUT_OFF_WITHIN)).await {
            Ok(unjudged) => unjudged,
            Err(error) => {
                tracing::warn!(%error, "answers that a crash left without a verdict could not be looked for");
                return;
            }
        };
        for id in unjudged {
            let verified = async {
                let explanation = self.explain(id).await?;
                if !explanation.decided.observed.kept.is_whole() {
                    return Ok::<_, RouterError>(false);
                }
                Ok(matches!(self.known(explanation).await?, Known::Done(_, _, Some(_))))
            };
            match verified.await {
                Ok(true) => {
                    tracing::info!(decision = %id, "an answer was verified that a crash had left without a verdict")
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, decision = %id, "an answer has no verdict"),
            }
        }
    }

    /// Verifies an answer that is in the journal and was not verified.
    async fn verify_cut_off(
        self: &Arc<Self>,
        decided: &Arc<Decided>,
        outcome: &Outcome,
        early: Vec<Feedback>,
    ) -> Result<Feedback, RouterError> {
        let id = decided.decision.id;
        let run = self.running.enter(id, early).ok_or(RouterError::StillRunning(id))?;
        self.verify_ran(decided, &run, outcome).await
    }

    /// Runs a decision to its end; where its worker gives no answer, another one takes its place, by a decision of its own.
    async fn run_to_end(
        self: &Arc<Self>,
        decided: Arc<Decided>,
        hold: Hold,
        early: Vec<Feedback>,
        repeated: bool,
        chat: Option<&ChatRequest>,
    ) -> Result<Attempt<'_>, RouterError> {
        let first = decided.decision.id;
        let _replacing = self.replacing.enter(first, vec![]).ok_or(RouterError::StillRunning(first))?;
        let mut attempt = self.run_once(decided, hold, early, repeated, chat).await?;
        let mut failed = Vec::new();
        while let Some((decided, hold)) = self.instead(&attempt, &mut failed).await {
            attempt = self.run_once(decided, hold, vec![], repeated, chat).await?;
        }
        Ok(attempt)
    }

    /// The decision that takes the place of one that failed, if one may; the arm that failed joins those that did before.
    pub(super) async fn instead(&self, attempt: &Attempt<'_>, failed: &mut Vec<ArmId>) -> Option<(Arc<Decided>, Hold)> {
        let Decided { task, decision, .. } = &*attempt.decided;
        let replaceable = attempt.failure.as_ref().is_some_and(|failure| failure.class() != ErrorClass::Request);
        if !replaceable || failed.len() >= self.settings.fallbacks {
            return None;
        }
        failed.push(decision.arm.clone());
        match self.decide(task.clone(), Some(&Instead { of: decision.id, failed }), RunBy::Router).await {
            Ok((decided, hold, Appended::Stored { .. })) => {
                metrics::counter!(Metric::Replaced.name()).increment(1);
                Some((decided, hold))
            }
            Ok((_, _, Appended::Duplicate)) | Err(RouterError::Arm(CatalogueError::NoneEligible(_))) => None,
            Err(error) => {
                tracing::warn!(%error, decision = %decision.id, "no other worker could take the task over");
                None
            }
        }
    }

    async fn run_once(
        self: &Arc<Self>,
        decided: Arc<Decided>,
        hold: Hold,
        early: Vec<Feedback>,
        repeated: bool,
        chat: Option<&ChatRequest>,
    ) -> Result<Attempt<'_>, RouterError> {
        let id = decided.decision.id;
        let run = self.running.enter(id, early).ok_or(RouterError::StillRunning(id))?;
        let started = Instant::now();
        let ask = Ask { chat, ..Ask::of(&decided.task) };
        let (mode, arm) = (decided.decision.mode, &decided.decision.arm);
        let ran = self.run_mode(&decided, &ask, mode, arm, true).await;
        if chat.is_some() && ran.failure.is_none() && ran.outcome.status == OutcomeStatus::Done {
            let Ran { outcome, body, .. } = ran;
            self.store_ran(&decided, hold, &outcome, started).await?;
            let verdict = Verdict::Due(run);
            return Ok(Attempt { decided, outcome, verdict, repeated, failure: None, body });
        }
        let attempt = self.close_run(&decided, hold, run, ran, repeated, started).await?;
        self.have_attempt_audited(&attempt, chat);
        Ok(attempt)
    }

    /// Verifies what was run; outcome and feedback are durable when this returns.
    pub(super) async fn close_run<'a>(
        self: &Arc<Self>,
        decided: &Arc<Decided>,
        hold: Hold,
        run: Run<'a>,
        ran: Ran,
        repeated: bool,
        started: Instant,
    ) -> Result<Attempt<'a>, RouterError> {
        let Ran { outcome, failure, judged, body } = ran;
        // Of several calls each was noted when it was over.
        if outcome.trajectory.is_none() {
            self.health.note(&decided.decision.arm, failure.as_ref(), now_ms());
        }
        outcome.calls.iter().for_each(|call| self.habits.note(call));
        observe_stage(Stage::Run, started.elapsed());
        let feedback = match judged {
            Some(feedback) if outcome.status == OutcomeStatus::Done => feedback,
            Some(_) | None => self.judge(decided, &outcome, failure.as_ref()).await,
        };
        let events = std::iter::once(Event::Ran { outcome: outcome.clone() });
        let spent = self.spent(decided, nano_usd(outcome.cost_usd));
        let appended = self.append_judged(decided, &run, events, spent, &outcome, &feedback).await;
        settle(hold, outcome.cost_usd, &appended);
        appended?;
        self.have_judged(decided, &outcome);
        let (decided, verdict) = (Arc::clone(decided), Verdict::Given(Box::new(feedback)));
        Ok(Attempt { decided, outcome, verdict, repeated, failure, body })
    }

    /// Notes an answer whose verification is due; the outcome is durable when this returns.
    pub(super) async fn store_ran(
        self: &Arc<Self>,
        decided: &Arc<Decided>,
        hold: Hold,
        outcome: &Outcome,
        started: Instant,
    ) -> Result<(), RouterError> {
        if outcome.trajectory.is_none() {
            self.health.note(&decided.decision.arm, None, now_ms());
        }
        outcome.calls.iter().for_each(|call| self.habits.note(call));
        observe_stage(Stage::Run, started.elapsed());
        let ran = std::iter::once(Event::Ran { outcome: outcome.clone() });
        let events = ran.chain(self.spent(decided, nano_usd(outcome.cost_usd)));
        let appended = self.append(events.map(|event| NewEvent::of(decided, event)).collect()).await;
        settle(hold, outcome.cost_usd, &appended);
        appended.map(drop)
    }

    /// Verifies an answer whose outcome is durable; its feedback is durable when this returns.
    pub(super) async fn verify_ran(
        self: &Arc<Self>,
        decided: &Arc<Decided>,
        run: &Run<'_>,
        outcome: &Outcome,
    ) -> Result<Feedback, RouterError> {
        let feedback = self.judge(decided, outcome, None).await;
        self.append_judged(decided, run, std::iter::empty(), None, outcome, &feedback).await?;
        self.have_judged(decided, outcome);
        Ok(feedback)
    }

    /// Appends feedback as one unit with what comes before it. Feedback that came before the outcome is joined to it: it was
    /// first, so it is what is learnt.
    async fn append_judged(
        &self,
        decided: &Arc<Decided>,
        run: &Run<'_>,
        before: impl Iterator<Item = Event>,
        spent: Option<Event>,
        outcome: &Outcome,
        feedback: &Feedback,
    ) -> Result<Vec<Appended>, RouterError> {
        let weights = self.weights(&decided.task);
        let joined = run.close().into_iter().map(|early| joined(early, weights, outcome.cost_usd));
        let judged = joined.chain([feedback.clone()]).map(|feedback| Event::Judged { feedback });
        let events = before.chain(judged).chain(spent);
        self.append(events.map(|event| NewEvent::of(decided, event)).collect()).await
    }

    /// What verifiers say of an answer; of none, that it failed.
    pub(super) async fn judge(&self, decided: &Decided, outcome: &Outcome, failure: Option<&WorkerError>) -> Feedback {
        let weights = self.weights(&decided.task);
        let started = Instant::now();
        let feedback = match outcome.status {
            OutcomeStatus::Done => {
                let (task, cost_usd) = (&decided.task, outcome.cost_usd);
                let span = tracing::info_span!(target: TRACES, "verify", pointsman.score = Empty);
                let checked = outcome.checked();
                let judged = self.registry.judge(decided.decision.id, task, &checked, cost_usd, weights);
                let feedback = judged.instrument(span.clone()).await;
                span.record("pointsman.score", feedback.score.map(Score::get));
                feedback
            }
            OutcomeStatus::Failed => {
                // A request that no worker would take says nothing of this one.
                let blameless = failure.is_some_and(|failure| !failure.blames_worker());
                let score = if blameless { None } else { Score::new(0.0).ok() };
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
}
