//! From journaled feedback to lessons: the one fold that the live learner, a restart, a new policy and a replay share.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::RouterError;
use crate::{
    action::policy::{LearntRound, Policy},
    journal::{Decided, Event, JournalError, JournalReader, PolicyRole, Restored, Spent, Stored},
    round::{Audited, Channel, DecisionId, Feedback, FeedbackSource, Probe},
};

/// Events read at a time while folding, and such pages that may wait.
const PAGE: i64 = 1_000;
const PAGES_AHEAD: usize = 2;
/// Decisions kept in RAM while folding, in wait for their feedback; the rest are read again when it comes.
const OPEN_DECISIONS_MAX: usize = 50_000;

/// What the fold is told, in journal order; `at` is a place in the journal.
pub(super) enum Folded<'a> {
    /// A round to learn from, with its place in the journal.
    Learnt { at: i64, decided: &'a Decided, feedback: &'a Feedback, at_ms: i64 },
    /// Money was spent and nobody could say what for.
    Unscored { at: i64, feedback: &'a Feedback },
    /// Nobody closed a decision.
    Abandoned { at: i64 },
    /// A tenant's dollars were spent.
    Spent { at: i64, at_ms: i64, spent: &'a Spent },
    /// A task is going to be run on every arm.
    Probed { at: i64, probe: &'a Probe },
    /// It was, or it could not be.
    Audited { at: i64, at_ms: i64, audited: &'a Audited },
    /// Another policy was put on trial, or the trial ended.
    TrialChanged { at: i64 },
    /// Memory's content was replaced at this place in the journal.
    Restored { at: i64, restored: &'a Restored },
}

impl<'a> Folded<'a> {
    /// A round that was learnt by verified feedback, with its score and time: what memory keeps.
    pub fn verified(&self) -> Option<(&'a Decided, &'a Feedback, f64, i64)> {
        let Self::Learnt { decided, feedback, at_ms, .. } = *self else { return None };
        let score = feedback.score.filter(|_| feedback.source.channel() == Channel::Verified)?;
        Some((decided, feedback, score.get(), at_ms))
    }

    /// Its place in the journal.
    pub fn at(&self) -> i64 {
        match self {
            Self::Learnt { at, .. }
            | Self::Unscored { at, .. }
            | Self::Abandoned { at }
            | Self::TrialChanged { at }
            | Self::Spent { at, .. }
            | Self::Probed { at, .. }
            | Self::Audited { at, .. }
            | Self::Restored { at, .. } => *at,
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
        probing: false,
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
        Folded::Restored { .. }
        | Folded::Abandoned { .. }
        | Folded::Spent { .. }
        | Folded::Probed { .. }
        | Folded::Audited { .. }
        | Folded::TrialChanged { .. } => {}
    }
}

/// Reads the journal after one place and up to another; returns the last place read and how many events that were.
/// `progress` is told (done, total) events.
pub(super) async fn fold(
    journal: &JournalReader,
    after: i64,
    until: i64,
    progress: impl Fn(u64, u64),
    mut tell: impl FnMut(Folded<'_>),
) -> Result<Read, RouterError> {
    let last = journal.last_seq().await?.min(until);
    let total = last.saturating_sub(after).max(0).unsigned_abs();
    let mut lessons = Lessons::new(journal, after, until);
    let mut read = Read { at: after, at_ms: 0, events: 0 };
    while let Some(next) = lessons.next().await? {
        read = Read { at: next.at, at_ms: next.at_ms, events: (next.at - after).unsigned_abs() };
        if let Some(folded) = next.folded() {
            tell(folded);
        }
        if lessons.is_page_read() {
            progress(read.events.min(total), total);
        }
    }
    Ok(read)
}

/// The journal's events, one after the other, outcomes left out. Records are read and unpacked ahead, on another thread.
pub(super) struct Lessons {
    journal: JournalReader,
    pages: mpsc::Receiver<Result<Vec<Stored>, JournalError>>,
    page: std::vec::IntoIter<Stored>,
    // Decision ids are ordered by time, so the first of the map is the oldest.
    open: BTreeMap<DecisionId, Decided>,
}

/// One event of them.
pub(super) struct Next {
    pub at: i64,
    pub at_ms: i64,
    learns: bool,
    /// None for a decided task, which waits for its feedback.
    pub event: Option<Event>,
    /// The decided task that a lesson is about.
    pub decided: Option<Decided>,
}

impl Lessons {
    /// Those after one place and up to another.
    pub fn new(journal: &JournalReader, after: i64, until: i64) -> Self {
        let pages = read_ahead(journal.clone(), after, until);
        Self { journal: journal.clone(), pages, page: vec![].into_iter(), open: BTreeMap::new() }
    }

    pub async fn next(&mut self) -> Result<Option<Next>, RouterError> {
        let stored = loop {
            match self.page.next() {
                Some(stored) => break stored,
                None => match self.pages.recv().await {
                    Some(page) => self.page = page?.into_iter(),
                    None => return Ok(None),
                },
            }
        };
        let Stored { seq: at, at_ms, learns, .. } = stored;
        if let Event::Decided { decision, .. } = &stored.event {
            let id = decision.id;
            if let Some(decided) = stored.into_decided() {
                self.open.insert(id, decided);
            }
            if self.open.len() > OPEN_DECISIONS_MAX {
                self.open.pop_first();
            }
            return Ok(Some(Next { at, at_ms, learns, event: None, decided: None }));
        }
        let decided = match &stored.event {
            Event::Judged { feedback } if learns => Some(self.decided(feedback.decision_id).await?),
            _ => None,
        };
        Ok(Some(Next { at, at_ms, learns, event: Some(stored.event), decided }))
    }

    /// The decided task of a decision that was read, which is not kept for longer.
    pub async fn decided(&mut self, id: DecisionId) -> Result<Decided, RouterError> {
        match self.open.remove(&id) {
            Some(decided) => Ok(decided),
            None => self.journal.decided(id).await?.ok_or(RouterError::UnknownDecision(id)),
        }
    }

    /// Whether the next event has to be waited for.
    pub fn is_page_read(&self) -> bool {
        self.page.as_slice().is_empty()
    }
}

impl Next {
    /// What there is to fold.
    pub fn folded(&self) -> Option<Folded<'_>> {
        let Self { at, at_ms, learns, event, decided } = self;
        let at = *at;
        match event.as_ref()? {
            Event::Judged { feedback } if *learns => {
                decided.as_ref().map(|decided| Folded::Learnt { at, decided, feedback, at_ms: *at_ms })
            }
            Event::Judged { feedback } if is_unscored(feedback) => Some(Folded::Unscored { at, feedback }),
            Event::Abandoned { .. } => Some(Folded::Abandoned { at }),
            Event::Spent { spent } => Some(Folded::Spent { at, at_ms: *at_ms, spent }),
            Event::Probed { probe } => Some(Folded::Probed { at, probe }),
            Event::Audited { audited } => Some(Folded::Audited { at, at_ms: *at_ms, audited }),
            Event::MemoryRestored { restored } => Some(Folded::Restored { at, restored }),
            Event::PolicyChanged { change } if change.role == PolicyRole::Shadow => Some(Folded::TrialChanged { at }),
            Event::Decided { .. }
            | Event::Judged { .. }
            | Event::Early { .. }
            | Event::Ran { .. }
            | Event::SnapshotChanged { .. }
            | Event::PolicyChanged { .. }
            | Event::VerifierChanged { .. }
            | Event::ArmChanged { .. }
            | Event::KeyChanged { .. }
            | Event::Erased { .. }
            | Event::Compacted { .. } => None,
        }
    }
}

/// How far a fold came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    /// The last event's place, and when it was appended.
    pub at: i64,
    pub at_ms: i64,
    /// How many events that were.
    pub events: u64,
}

/// Pages of events, outcomes left out.
pub(super) fn read_ahead(
    journal: JournalReader,
    after: i64,
    until: i64,
) -> mpsc::Receiver<Result<Vec<Stored>, JournalError>> {
    let (send, pages) = mpsc::channel(PAGES_AHEAD);
    tokio::spawn(async move {
        let mut seq = after;
        loop {
            let page = journal.lessons_after(seq, PAGE).await.map(|mut page| {
                page.retain(|stored| stored.seq <= until);
                page
            });
            match &page {
                Ok(page) if page.is_empty() => return,
                Ok(page) => seq = page.last().map_or(seq, |last| last.seq),
                Err(_) => {}
            }
            let failed = page.is_err();
            // Nobody waits for more when the fold has failed.
            if send.send(page).await.is_err() || failed {
                return;
            }
        }
    });
    pages
}
