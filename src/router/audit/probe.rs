//! One probe: dollars put aside, the other arms run and judged, the end journaled.

use std::sync::Arc;

use tokio::time::Instant;

use super::Audits;
use crate::{
    access::{Hold, nano_usd},
    arms::{calls_expected, worker::Ask},
    chat::ChatRequest,
    journal::{Appended, Decided, Event, NewEvent, now_ms},
    round::{
        ArmId, Audited, Candidate, Coin, Feedback, Found, Missing, Mode, Outcome, OutcomeStatus, Probability, Probe,
        ProbeEnd, ProbedArm,
    },
    router::Router,
    telemetry::Metric,
};

/// An arm's call is put aside at this many times what the tokens of the arm taken would cost there.
const MARGIN: f64 = 2.0;

/// A task that is to be run on every arm.
pub(in crate::router) struct Chosen {
    decided: Arc<Decided>,
    chat: Option<ChatRequest>,
    coin: Coin,
    /// What the arm taken brought.
    taken: ProbedArm,
    /// Tokens that it read and wrote.
    tokens: (u64, u64),
}

/// What an arm may cost, in billionths of a dollar.
struct Held {
    mode: Mode,
    arm: ArmId,
    nano_usd: u64,
}

impl Chosen {
    /// Nothing where the round itself has no reward: it counts nowhere.
    pub fn new(
        decided: &Arc<Decided>,
        coin: Coin,
        outcome: &Outcome,
        feedback: &Feedback,
        chat: Option<&ChatRequest>,
    ) -> Option<Self> {
        let (score, reward) = feedback.score.map(|score| score.get()).zip(feedback.reward)?;
        let sum = |tokens: fn(&crate::round::Call) -> u64| outcome.calls.iter().map(tokens).sum();
        let decision = &decided.decision;
        let taken = ProbedArm {
            mode: decision.mode,
            arm: decision.arm.clone(),
            p: decision.propensity.get(),
            cost_usd: outcome.cost_usd,
            found: Found::Judged { score, reward },
        };
        let tokens = (sum(|call| call.input_tokens), sum(|call| call.output_tokens));
        Some(Self { decided: Arc::clone(decided), chat: chat.cloned(), coin, taken, tokens })
    }

    fn ended(&self, end: ProbeEnd, arms: Vec<ProbedArm>, nano_usd: u64) -> Audited {
        Audited {
            decision_id: self.decided.decision.id,
            domain: self.decided.task.domain.clone(),
            probability: self.coin.probability,
            end,
            arms,
            nano_usd,
        }
    }
}

impl Router {
    /// Runs a probe to its end, or does not begin it.
    pub(super) async fn audit(self: Arc<Self>, chosen: Chosen) {
        let Some(audits) = &self.audits else { return };
        let Ok(_place) = Arc::clone(&audits.places).try_acquire_owned() else {
            return self.end_audit(&chosen, chosen.ended(ProbeEnd::Busy, vec![], 0)).await;
        };
        let held = self.held(&chosen);
        let held_nano_usd = held.iter().map(|held| held.nano_usd).fold(0, u64::saturating_add);
        let Some(hold) = audits.purse.reserve(held_nano_usd, now_ms()) else {
            return self.end_audit(&chosen, chosen.ended(ProbeEnd::OverCap, vec![], 0)).await;
        };
        let Decided { task, decision, .. } = &*chosen.decided;
        let (domain, probability) = (task.domain.clone(), chosen.coin.probability);
        let probe = Probe { decision_id: decision.id, domain, probability, held_nano_usd };
        match self.append(vec![NewEvent::of(&chosen.decided, Event::Probed { probe })]).await.as_deref() {
            Ok([Appended::Stored { .. }]) => {}
            // A round that a crash cut off and that was finished later: it was probed before.
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, decision = %decision.id, "a probe could not be journaled and is left out");
                return;
            }
        }
        self.run_probe(audits, &chosen, &held, hold).await;
    }

    async fn run_probe(&self, audits: &Audits, chosen: &Chosen, held: &[Held], hold: Hold) {
        let _running = tokio::select! {
            permit = audits.running.acquire() => permit,
            () = self.closing.cancelled() => {
                drop(hold);
                return self.end_audit(chosen, chosen.ended(ProbeEnd::CutOff, vec![], 0)).await;
            }
        };
        let until = Instant::now() + audits.settings.deadline;
        let pmf = &chosen.decided.decision.pmf;
        let tried = futures::future::join_all(pmf.iter().map(|entry| self.try_arm(chosen, entry, held, until))).await;
        let (arms, nano): (Vec<_>, Vec<u64>) = tried.into_iter().unzip();
        let missing = |arm: &ProbedArm| match arm.found {
            Found::Judged { .. } => None,
            Found::Missing(why) => Some(why),
        };
        let end = match arms.iter().filter_map(missing).max_by_key(|why| *why == Missing::CutOff) {
            None => ProbeEnd::Measured,
            Some(Missing::CutOff) => ProbeEnd::CutOff,
            Some(Missing::Late | Missing::Unscored | Missing::Refused | Missing::Gone) => ProbeEnd::Incomplete,
        };
        let nano_usd = nano.into_iter().fold(0, u64::saturating_add);
        hold.settle(nano_usd, now_ms());
        self.end_audit(chosen, chosen.ended(end, arms, nano_usd)).await;
    }

    /// What one arm brings, and what that cost.
    async fn try_arm(&self, chosen: &Chosen, entry: &Probability, held: &[Held], until: Instant) -> (ProbedArm, u64) {
        if (entry.mode, &entry.arm) == (chosen.taken.mode, &chosen.taken.arm) {
            return (chosen.taken.clone(), 0);
        }
        let most =
            held.iter().find(|held| held.mode == entry.mode && held.arm == entry.arm).map_or(0, |held| held.nano_usd);
        let given_up = |why: Missing| (most as f64 / 1e9, Found::Missing(why), most);
        let (cost_usd, found, nano_usd) = tokio::select! {
            (cost_usd, found) = self.ask_arm(chosen, entry) => (cost_usd, found, nano_usd(cost_usd)),
            // What the call costs that nobody waits for any more is not known.
            () = tokio::time::sleep_until(until) => given_up(Missing::Late),
            () = self.closing.cancelled() => given_up(Missing::CutOff),
        };
        (ProbedArm { mode: entry.mode, arm: entry.arm.clone(), p: entry.p, cost_usd, found }, nano_usd)
    }

    async fn ask_arm(&self, chosen: &Chosen, entry: &Probability) -> (f64, Found) {
        let Chosen { decided, chat, .. } = chosen;
        if self.catalogue.load().get(&entry.arm).is_err() {
            return (0.0, Found::Missing(Missing::Gone));
        }
        let ask = Ask { chat: chat.as_ref(), ..Ask::of(&decided.task) };
        let ran = self.run_mode(decided, &ask, entry.mode, &entry.arm, false).await;
        let cost_usd = ran.outcome.cost_usd;
        if ran.outcome.status == OutcomeStatus::Failed && ran.failure.as_ref().is_some_and(|why| !why.blames_worker()) {
            return (cost_usd, Found::Missing(Missing::Refused));
        }
        let feedback = match ran.judged {
            Some(feedback) if ran.outcome.status == OutcomeStatus::Done => feedback,
            Some(_) | None => self.judge(decided, &ran.outcome, ran.failure.as_ref()).await,
        };
        let found = match feedback.score.zip(feedback.reward) {
            Some((score, reward)) => Found::Judged { score: score.get(), reward },
            None => Found::Missing(Missing::Unscored),
        };
        (cost_usd, found)
    }

    /// What each of the other arms may cost: its expected cost, or more where the arm taken needed more tokens than was expected
    /// of the way it was run in.
    fn held(&self, chosen: &Chosen) -> Vec<Held> {
        let catalogue = self.catalogue.load();
        let (input_tokens, output_tokens) = chosen.tokens;
        let other = |one: &&Candidate| (one.mode, &one.arm) != (chosen.taken.mode, &chosen.taken.arm);
        let candidates = chosen.decided.context.candidates.iter().filter(other);
        let held = candidates.map(|candidate| {
            let calls = calls_expected(candidate.mode) as f64 / calls_expected(chosen.taken.mode) as f64;
            let like_taken = catalogue.get(&candidate.arm).map(|arm| arm.prices.cost_usd(input_tokens, output_tokens));
            let most = candidate.cost_usd.max(MARGIN * calls.max(1.0) * like_taken.unwrap_or_default());
            Held { mode: candidate.mode, arm: candidate.arm.clone(), nano_usd: nano_usd(most) }
        });
        held.collect()
    }

    async fn end_audit(&self, chosen: &Chosen, audited: Audited) {
        metrics::counter!(Metric::Audits.name(), "end" => audited.end.as_str()).increment(1);
        metrics::counter!(Metric::AuditMicroUsd.name()).increment(audited.nano_usd / 1_000);
        let decision = audited.decision_id;
        let event = NewEvent::of(&chosen.decided, Event::Audited { audited });
        if let Err(error) = self.append(vec![event]).await {
            tracing::warn!(%error, %decision, "the end of a probe could not be journaled: it counts as cut off after a restart");
        }
    }

    /// Ends the probes that a crash cut off. What they had put aside is spent.
    pub(in crate::router) async fn end_cut_off_audits(
        &self,
        cut_off: Vec<Audited>,
    ) -> Result<(), crate::router::RouterError> {
        if cut_off.is_empty() {
            return Ok(());
        }
        tracing::warn!(probes = cut_off.len(), "audit probes were cut off; they are left out of what is measured");
        for audited in &cut_off {
            metrics::counter!(Metric::Audits.name(), "end" => audited.end.as_str()).increment(1);
            if let Some(audits) = &self.audits {
                audits.purse.count(audited.nano_usd, now_ms());
            }
        }
        let events = cut_off.into_iter().map(|audited| NewEvent::alone(Event::Audited { audited }));
        self.append(events.collect()).await.map(drop)
    }
}
