//! What watchers are told of a finished round, live and after a restart.

use super::{Router, RouterError};
use crate::{
    journal::{Decided, Event},
    round::{Feedback, Outcome, OutcomeStatus},
    telemetry::RoundEvent,
};

/// How much of a prompt is shown.
const PROMPT_HEAD_CHARS: usize = 120;
/// Places of the journal that are looked through for each round that is wanted.
const PLACES: i64 = 16;

/// A round, judged at a place in the journal.
pub(super) fn announced(
    (seq, at_ms): (i64, i64),
    round: u64,
    decided: &Decided,
    outcome: Option<&Outcome>,
    feedback: &Feedback,
) -> RoundEvent {
    let Decided { task, decision, .. } = decided;
    RoundEvent {
        seq,
        round,
        at_ms,
        decision_id: decision.id,
        task_id: task.id.clone(),
        domain: task.domain.clone(),
        mode: decision.mode,
        arm: decision.arm.clone(),
        propensity: decision.propensity,
        reason: decision.reason,
        status: outcome.map_or(OutcomeStatus::Done, |outcome| outcome.status),
        score: feedback.score.map(|score| score.get()),
        reward: feedback.reward,
        cost_usd: feedback.cost_usd,
        latency_ms: outcome.map_or(0.0, |outcome| outcome.latency_ms),
        prompt_head: task.prompt().chars().take(PROMPT_HEAD_CHARS).collect(),
    }
}

impl Router {
    /// The newest rounds of the journal, `most` at most, oldest first.
    pub async fn last_rounds(&self, most: usize) -> Result<Vec<RoundEvent>, RouterError> {
        let mut round = self.policy.load().learnt_rounds;
        let until = self.journal.last_seq().await?;
        let places = PLACES.saturating_mul(i64::try_from(most).unwrap_or(i64::MAX));
        let said = self.journal.said_after(until.saturating_sub(places), until, places).await?;
        let mut rounds = vec![];
        for stored in said.into_iter().rev() {
            let Event::Judged { feedback } = stored.event else { continue };
            let explained = self.explain(feedback.decision_id).await?;
            let place = (stored.seq, stored.at_ms);
            rounds.push(announced(place, round, &explained.decided, explained.outcome.as_ref(), &feedback));
            round = round.saturating_sub(u64::from(feedback.score.is_some()));
            if rounds.len() == most {
                break;
            }
        }
        rounds.reverse();
        Ok(rounds)
    }
}
