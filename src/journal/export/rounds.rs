//! Rounds: what was decided, joined with what became of it, however much later.
//!
//! Feedback may come days after its decision, so no window over the journal holds all of a round. Decisions are read in pages,
//! and with each page the events of its decisions, by the index that the journal has on them: as many questions as there are
//! pages, and memory for one page.

use std::collections::{HashMap, hash_map::Entry};

use rayon::prelude::*;

use super::{
    super::{ContextRecord, Event, JournalError, reader::event_of},
    Selection, Source,
    source::decision_of,
};
use crate::round::{
    Channel, Decision, DecisionId, Domain, Embedding, Feedback, FeedbackSource, Outcome, OutcomeStatus, Task,
};
use sqlx::{Row, sqlite::SqliteRow};

/// Decisions read at a time.
const PAGE: i64 = 500;

/// A decision and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// The decision's place in the journal.
    pub seq: i64,
    /// When it was decided, in milliseconds since 1970.
    pub decided_at_ms: i64,
    /// The task.
    pub task: Task,
    /// The context as the policy saw it.
    pub context: ContextRecord,
    /// The task's embedding by the model that the context names.
    pub embedding: Embedding,
    /// The decision.
    pub decision: Decision,
    /// What running it gave; nothing where the client runs the model itself.
    pub outcome: Option<Outcome>,
    /// The feedback of somebody who checked the answer: the one that was learnt from, else the first.
    pub verified: Option<Judged>,
    /// The feedback of somebody who liked it or not: the one that was learnt from, else the first.
    pub weak: Option<Judged>,
    /// Whether its lease ended before anybody said what became of it.
    pub abandoned: bool,
}

/// Feedback in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The feedback.
    pub feedback: Feedback,
    /// Whether the policies learnt from it.
    pub learns: bool,
}

/// How far a round came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundStatus {
    /// There is an answer.
    Done,
    /// No worker answered.
    Failed,
    /// Nobody has said what became of it.
    Open,
    /// Nobody said so before its lease ended.
    Abandoned,
}

impl RoundStatus {
    /// The name in exports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Open => "open",
            Self::Abandoned => "abandoned",
        }
    }
}

impl Round {
    /// How far it came. Where the client runs the model, its feedback says so.
    pub fn status(&self) -> RoundStatus {
        let verified_by = self.verified.as_ref().map(|judged| judged.feedback.source);
        match (&self.outcome, verified_by) {
            (Some(outcome), _) => match outcome.status {
                OutcomeStatus::Done => RoundStatus::Done,
                OutcomeStatus::Failed => RoundStatus::Failed,
            },
            (None, Some(FeedbackSource::Failure)) => RoundStatus::Failed,
            (None, Some(_)) => RoundStatus::Done,
            (None, None) if self.weak.is_some() => RoundStatus::Done,
            (None, None) if self.abandoned => RoundStatus::Abandoned,
            (None, None) => RoundStatus::Open,
        }
    }

    /// What it cost, in dollars, once that is known.
    pub fn cost_usd(&self) -> Option<f64> {
        let judged = || self.verified.as_ref().or(self.weak.as_ref()).map(|judged| judged.feedback.cost_usd);
        self.outcome.as_ref().map(|outcome| outcome.cost_usd).or_else(judged)
    }

    fn add(&mut self, event: Event, learns: bool) {
        match event {
            Event::Ran { outcome } => self.outcome = Some(outcome),
            Event::Judged { feedback } => {
                let place = match feedback.source.channel() {
                    Channel::Verified => &mut self.verified,
                    Channel::Weak => &mut self.weak,
                };
                if place.as_ref().is_none_or(|there| learns && !there.learns) {
                    *place = Some(Judged { feedback, learns });
                }
            }
            Event::Abandoned { .. } => self.abandoned = true,
            // Early feedback is joined to the outcome as feedback of its own, once there is one.
            Event::Early { .. }
            | Event::Decided { .. }
            | Event::MemoryRestored { .. }
            | Event::SnapshotChanged { .. }
            | Event::PolicyChanged { .. }
            | Event::VerifierChanged { .. }
            | Event::ArmChanged { .. }
            | Event::KeyChanged { .. }
            | Event::Spent { .. }
            | Event::Probed { .. }
            | Event::Audited { .. }
            | Event::Erased { .. }
            | Event::Compacted { .. } => {}
        }
    }
}

/// The rounds of a selection in the order of their decisions. A selection's times are those of the decisions; what became of
/// them counts until the journal's end.
pub struct Rounds<'a> {
    source: &'a mut Source,
    domain: Option<Domain>,
    after: i64,
    until: i64,
    end: i64,
}

impl<'a> Rounds<'a> {
    /// Begins at the first.
    pub async fn of(source: &'a mut Source, selection: &Selection) -> Result<Self, JournalError> {
        let (after, until) = source.span(selection).await?;
        let end = source.reader().last_seq().await?;
        Ok(Self { source, domain: selection.domain.clone(), after, until, end })
    }

    /// How many places of the journal are left.
    pub fn left(&self) -> u64 {
        (self.until - self.after).max(0).unsigned_abs()
    }

    /// The next rounds; nothing at the end. A page without a round of the domain is empty.
    pub async fn page(&mut self) -> Result<Option<Vec<Round>>, JournalError> {
        let Some((last, rows)) = self.source.decisions(self.after, self.until, self.end, PAGE).await? else {
            self.after = self.until;
            return Ok(None);
        };
        self.after = last;
        let events = rows.par_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut rounds: Vec<Round> = Vec::new();
        let mut places: HashMap<DecisionId, usize> = HashMap::new();
        for read in events {
            let Some(id) = read.decision_id else { continue };
            match (places.entry(id), read.event) {
                (Entry::Occupied(place), event) => rounds[*place.get()].add(event, read.learns),
                (Entry::Vacant(place), Event::Decided { task, context, decision }) => {
                    let damaged = |reason: String| JournalError::Damaged { seq: read.seq, reason };
                    let bytes = read.embedding.ok_or_else(|| damaged("its embedding is missing".into()))?;
                    let embedding = Embedding::from_bytes(&bytes).map_err(|error| damaged(error.to_string()))?;
                    place.insert(rounds.len());
                    let (seq, decided_at_ms) = (read.seq, read.at_ms);
                    let (outcome, verified, weak, abandoned) = (None, None, None, false);
                    rounds.push(Round {
                        seq,
                        decided_at_ms,
                        task,
                        context,
                        embedding,
                        decision,
                        outcome,
                        verified,
                        weak,
                        abandoned,
                    });
                }
                // What comes before the decision was compacted with another one, or is no part of a round.
                (Entry::Vacant(_), _) => {}
            }
        }
        if let Some(domain) = &self.domain {
            rounds.retain(|round| round.task.domain == *domain);
        }
        Ok(Some(rounds))
    }
}

/// A row, read.
struct Read {
    seq: i64,
    at_ms: i64,
    decision_id: Option<DecisionId>,
    learns: bool,
    event: Event,
    embedding: Option<Vec<u8>>,
}

fn read(row: &SqliteRow) -> Result<Read, JournalError> {
    let (seq, event) = event_of(row)?;
    Ok(Read {
        seq,
        at_ms: row.try_get("at_ms")?,
        decision_id: decision_of(row)?,
        learns: row.try_get::<Option<&[u8]>, _>("learns")?.is_some(),
        event,
        embedding: row.try_get("embedding")?,
    })
}
