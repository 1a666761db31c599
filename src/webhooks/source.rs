//! From the journal to messages: what is new after a place, and what is to be said of it.

use std::{sync::Arc, time::Duration};

use super::{
    EventType, WebhookSettings,
    message::{Message, Story, finishes_at, may_tell, message},
};
use crate::{
    journal::{Event, JournalError, JournalReader, Stored},
    round::{DecisionId, OutcomeStatus},
    router::Router,
};

/// Events read together.
const PAGE: i64 = 32;
/// How often to look whether another worker takes a task over.
const POLL: Duration = Duration::from_millis(20);

/// The journal as webhooks read it; each has its own place in it.
#[derive(Clone)]
pub(super) struct Source {
    pub reader: JournalReader,
    pub router: Arc<Router>,
}

/// What a webhook is told of one event.
pub(super) struct Told {
    pub seq: i64,
    /// When the event was appended, in milliseconds since 1970.
    pub at_ms: i64,
    pub messages: Vec<(EventType, Message)>,
}

/// Some of what is new.
pub(super) struct Page {
    pub events: Vec<Stored>,
    /// Up to this place nothing else is new.
    pub up_to: i64,
    /// A record at the end of the page that cannot be read.
    pub damaged: Option<JournalError>,
}

impl Source {
    /// What is new after a place and up to another.
    pub async fn page(&self, after: i64, until: i64) -> Result<Page, JournalError> {
        let (events, end, damaged) = match self.reader.said_after(after, until, PAGE).await {
            // It would hold up all that comes after it: what is before it is read, and it is passed over.
            Err(error @ JournalError::Damaged { seq, .. }) if seq > after && seq <= until => {
                (self.reader.said_after(after, seq - 1, PAGE).await?, seq, Some(error))
            }
            events => (events?, until, None),
        };
        match events.last() {
            Some(last) if events.len() as i64 == PAGE => Ok(Page { up_to: last.seq, events, damaged: None }),
            Some(_) | None => Ok(Page { events, up_to: end, damaged }),
        }
    }

    /// What a webhook is told of an event.
    pub async fn told(&self, settings: &WebhookSettings, stored: &Stored) -> Result<Told, JournalError> {
        let mut told = Told { seq: stored.seq, at_ms: stored.at_ms, messages: vec![] };
        let kinds: Vec<_> =
            may_tell(&stored.event).iter().copied().filter(|kind| settings.events.contains(kind)).collect();
        let Some(id) = stored.event.decision_id().filter(|_| !kinds.is_empty()) else { return Ok(told) };
        let events = self.reader.of_decision(id).await?;
        let finishes = finishes_at(&events) == Some(stored.seq);
        let Some(story) = story(events, stored.seq) else { return Ok(told) };
        if !settings.wants(&story.decided.task.domain, story.decided.task.tenant.as_ref()) {
            return Ok(told);
        }
        for kind in kinds {
            if kind == EventType::TaskFinished && (!finishes || self.is_replaced(&story).await?) {
                continue;
            }
            told.messages.extend(message(kind, stored, &story, settings).map(|message| (kind, message)));
        }
        Ok(told)
    }

    /// The message of a type about the event at a place, as it was before, and when that event was appended, in milliseconds since
    /// 1970; nothing when the record is gone.
    pub async fn again(
        &self,
        settings: &WebhookSettings,
        seq: i64,
        kind: EventType,
    ) -> Result<Option<(i64, Message)>, JournalError> {
        let Some(stored) = self.reader.at(seq).await? else { return Ok(None) };
        let told = self.told(settings, &stored).await?;
        Ok(told.messages.into_iter().find_map(|(found, message)| (found == kind).then_some((told.at_ms, message))))
    }

    /// Whether another worker took the task over, or may yet: then it is not finished by this decision.
    async fn is_replaced(&self, story: &Story) -> Result<bool, JournalError> {
        if story.outcome.as_ref().is_none_or(|outcome| outcome.status == OutcomeStatus::Done) {
            return Ok(false);
        }
        let (id, first) = (story.decided.decision.id, self.first_of(story).await?);
        loop {
            // In this order: what takes the place is journaled before nothing may any more.
            let may_be = self.router.may_be_replaced(first);
            if self.reader.instead_of(id).await?.is_some() {
                return Ok(true);
            }
            if !may_be {
                return Ok(false);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// The first decision of a task whose workers gave no answer.
    async fn first_of(&self, story: &Story) -> Result<DecisionId, JournalError> {
        let (mut first, mut before) = (story.decided.decision.id, story.decided.observed.instead_of);
        while let Some(id) = before {
            first = id;
            before = self.reader.decided(id).await?.and_then(|decided| decided.observed.instead_of);
        }
        Ok(first)
    }
}

/// What is known of a decision at a place. Nothing where it was not decided here.
fn story(events: Vec<Stored>, at: i64) -> Option<Story> {
    let (mut decided, mut outcome) = (None, None);
    for stored in events.into_iter().filter(|stored| stored.seq <= at) {
        match stored.event {
            Event::Ran { outcome: ran } => outcome = Some(ran),
            Event::Decided { .. } => decided = stored.into_decided(),
            Event::Judged { .. }
            | Event::Early { .. }
            | Event::Abandoned { .. }
            | Event::Spent { .. }
            | Event::Probed { .. }
            | Event::Audited { .. }
            | Event::MemoryRestored { .. }
            | Event::SnapshotChanged { .. }
            | Event::PolicyChanged { .. }
            | Event::VerifierChanged { .. }
            | Event::ArmChanged { .. }
            | Event::KeyChanged { .. }
            | Event::Erased { .. }
            | Event::Compacted { .. } => {}
        }
    }
    Some(Story { decided: decided?, outcome })
}
