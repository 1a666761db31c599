//! From journaled feedback to lessons: the one fold that the live learner, a restart and a new policy share.

use std::collections::BTreeMap;

use serde::Serialize;

use super::RouterError;
use crate::{
    action::policy::{LearntRound, Policy},
    journal::{Decided, Event, Journal, PolicyRole, Restored},
    round::{Channel, DecisionId, Feedback, FeedbackSource},
};

/// Events read at a time while folding.
const PAGE: i64 = 2_000;
/// Decisions kept in RAM while folding, in wait for their feedback; the rest are read again when it comes.
const OPEN_DECISIONS_MAX: usize = 50_000;

/// What the fold is told, in journal order.
pub(super) enum Folded<'a> {
    /// A round to learn from, with its place in the journal.
    Learnt { at: i64, decided: &'a Decided, feedback: &'a Feedback, at_ms: i64 },
    /// Money was spent and nobody could say what for.
    Unscored { at: i64, feedback: &'a Feedback },
    /// Another policy was put on trial, or the trial ended.
    TrialChanged,
    /// Memory's content was replaced at this place in the journal.
    Restored { at: i64, restored: &'a Restored },
}

/// What a policy on trial would have brought, by the rounds that the champion decided while it looked on.
///
/// The estimate is self-normalised importance sampling: sum w r / sum w with w = the shadow's probability of what was
/// taken / its propensity. `effective_rounds` = (sum w)^2 / sum w^2: with few of them the estimate says little.
///
/// Reference: Swaminathan and Joachims, The Self-Normalized Estimator for Counterfactual Learning, 2015.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Trial {
    /// Verified rounds seen.
    pub rounds: u64,
    /// The champion's mean reward over them.
    pub champion_reward: Option<f64>,
    /// The shadow's, estimated.
    pub shadow_reward: Option<f64>,
    /// How many rounds the estimate is worth.
    pub effective_rounds: f64,
    #[serde(skip)]
    reward_sum: f64,
    #[serde(skip)]
    weight_sum: f64,
    #[serde(skip)]
    weight_squares: f64,
    #[serde(skip)]
    weighted_reward_sum: f64,
}

impl Trial {
    /// Adds a verified round; one that this shadow did not look on at changes nothing.
    pub(super) fn learn(&mut self, card: &str, policy: &str, decided: &Decided, feedback: &Feedback) {
        let decision = &decided.decision;
        let Some((view, reward)) = decision.shadow.as_ref().zip(feedback.reward) else { return };
        let taken = decision.pmf.iter().position(|entry| entry.mode == decision.mode && entry.arm == decision.arm);
        let p = taken.and_then(|place| view.pmf.get(place)).copied();
        let ours = view.policy.card == card && view.policy.name == policy;
        let (Some(p), true, Channel::Verified) = (p, ours, feedback.source.channel()) else { return };
        let weight = p / decision.propensity.get();
        self.rounds += 1;
        self.reward_sum += reward;
        self.weight_sum += weight;
        self.weight_squares += weight * weight;
        self.weighted_reward_sum += weight * reward;
        self.champion_reward = Some(self.reward_sum / self.rounds as f64);
        if self.weight_sum > 0.0 {
            self.shadow_reward = Some(self.weighted_reward_sum / self.weight_sum);
            self.effective_rounds = self.weight_sum * self.weight_sum / self.weight_squares;
        }
    }
}

/// Feedback as policies learn from it. Weak feedback is not charged: the answer that it is about was paid for once.
pub(super) fn lesson<'a>(decided: &'a Decided, feedback: &Feedback) -> Option<LearntRound<'a>> {
    let (score, reward) = (feedback.score?.get(), feedback.reward?);
    let Decided { context, decision, .. } = decided;
    Some(LearntRound {
        context,
        mode: decision.mode,
        arm: &decision.arm,
        propensity: decision.propensity.get(),
        seed: decision.seed,
        voters: &decision.voters,
        score,
        reward,
        cost_usd: match feedback.source.channel() {
            Channel::Verified => feedback.cost_usd,
            Channel::Weak => 0.0,
        },
        trust: feedback.trust,
    })
}

/// Whether feedback tells of money spent without a score.
pub(super) fn is_unscored(feedback: &Feedback) -> bool {
    feedback.score.is_none() && matches!(feedback.source, FeedbackSource::Verifier | FeedbackSource::Failure)
}

/// Folds one event into a policy.
pub(super) fn teach(policy: &mut dyn Policy, folded: &Folded<'_>) {
    match folded {
        Folded::Learnt { decided, feedback, .. } => {
            if let Some(round) = lesson(decided, feedback) {
                policy.learn(&round);
            }
        }
        Folded::Unscored { feedback, .. } => policy.charge(feedback.cost_usd),
        Folded::Restored { .. } | Folded::TrialChanged => {}
    }
}

/// Reads the journal after one place and up to another; returns how many events that were. `progress` is told (done,
/// total) events.
pub(super) async fn fold(
    journal: &Journal,
    after: i64,
    until: i64,
    progress: impl Fn(u64, u64),
    mut tell: impl FnMut(Folded<'_>),
) -> Result<u64, RouterError> {
    let total = journal.counts().await?.0;
    // Decision ids are ordered by time, so the first of the map is the oldest.
    let mut open: BTreeMap<DecisionId, Decided> = BTreeMap::new();
    let (mut seq, mut done) = (after, 0);
    loop {
        let mut page = journal.after(seq, PAGE).await?;
        page.retain(|stored| stored.seq <= until);
        let Some(last) = page.last() else { return Ok(done) };
        seq = last.seq;
        done += page.len() as u64;
        for stored in page {
            let (at, learns, at_ms) = (stored.seq, stored.learns, stored.at_ms);
            match &stored.event {
                Event::Decided { decision, .. } => {
                    let id = decision.id;
                    if let Some(decided) = stored.into_decided() {
                        open.insert(id, decided);
                    }
                    if open.len() > OPEN_DECISIONS_MAX {
                        open.pop_first();
                    }
                }
                Event::Judged { feedback } if learns => {
                    let decided = match open.remove(&feedback.decision_id) {
                        Some(decided) => decided,
                        None => journal
                            .decided(feedback.decision_id)
                            .await?
                            .ok_or(RouterError::UnknownDecision(feedback.decision_id))?,
                    };
                    tell(Folded::Learnt { at, decided: &decided, feedback, at_ms });
                }
                Event::Judged { feedback } if is_unscored(feedback) => tell(Folded::Unscored { at, feedback }),
                Event::MemoryRestored { restored } => tell(Folded::Restored { at, restored }),
                Event::PolicyChanged { change } if change.role == PolicyRole::Shadow => tell(Folded::TrialChanged),
                Event::Judged { .. }
                | Event::Ran { .. }
                | Event::PolicyChanged { .. }
                | Event::VerifierChanged { .. }
                | Event::ArmChanged { .. } => {}
            }
        }
        progress(done, total);
    }
}
