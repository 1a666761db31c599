//! What is kept of texts: prompts, what comes with them, answers, and verifiers' words about them.
//!
//! Numbers are kept always: they are what is learnt. Texts are kept whole, as keyed hashes, or not at all; erasing does the
//! last to records that are there already. Embeddings are numbers, but say something of the text that they are of.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{ContextRecord, Decided, Event, NewEvent};
use crate::round::{Context, Feedback, Kept, Neighbour, Outcome, Proposal, Task};

/// How much of texts is kept, and the key of hashes.
#[derive(Clone)]
pub struct Keeping {
    kept: Kept,
    key: [u8; 32],
}

impl Keeping {
    /// `key` is the journal's own.
    pub fn new(kept: Kept, key: [u8; 32]) -> Self {
        Self { kept, key }
    }

    /// The same journal's with another measure.
    pub fn with(&self, kept: Kept) -> Self {
        Self { kept, key: self.key }
    }

    /// The event as it is to be kept.
    pub fn keep(&self, new: NewEvent) -> NewEvent {
        if self.kept.is_whole() {
            return new;
        }
        let NewEvent { mut event, decided } = new;
        self.event(&mut event);
        NewEvent { event, decided: decided.map(|decided| Arc::new(self.decided(&decided))) }
    }

    /// Takes the texts out of an event.
    pub fn event(&self, event: &mut Event) {
        match event {
            Event::Decided { task, context, .. } => {
                self.task(task);
                self.record(context);
            }
            Event::Ran { outcome } => self.outcome(outcome),
            Event::Judged { feedback } | Event::Early { feedback } => quiet(feedback),
            Event::Abandoned { .. }
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

    fn decided(&self, decided: &Decided) -> Decided {
        let Decided { task, context, observed, decision } = decided;
        let (mut task, mut neighbours, mut observed) = (task.clone(), context.neighbours.clone(), observed.clone());
        let mut proposal = context.proposal.clone();
        proposal.iter_mut().for_each(Proposal::forget_words);
        self.task(&mut task);
        neighbours.iter_mut().for_each(forget_trace);
        observed.kept = self.kept;
        let context = Context { text: "".into(), neighbours, proposal, ..context.clone() };
        Decided { task, context, observed, decision: decision.clone() }
    }

    fn record(&self, record: &mut ContextRecord) {
        record.neighbours.iter_mut().for_each(forget_trace);
        record.proposal.iter_mut().for_each(Proposal::forget_words);
        record.observed.kept = self.kept;
    }

    /// Takes the texts out of a task.
    pub fn task(&self, task: &mut Task) {
        if self.kept.is_whole() {
            return;
        }
        for message in &mut task.messages {
            message.content = self.text(&message.content);
        }
        let metadata = std::mem::take(&mut task.metadata);
        if self.kept == Kept::Hashed && !metadata.is_empty() {
            let hash = self.text(&Value::Object(metadata).to_string());
            task.metadata = Map::from_iter([("hashed".to_owned(), Value::String(hash))]);
        }
    }

    fn outcome(&self, outcome: &mut Outcome) {
        outcome.output = self.text(&outcome.output);
        for call in &mut outcome.tool_calls {
            call.arguments = self.text(&call.arguments);
        }
        for call in &mut outcome.calls {
            call.output = self.text(&call.output);
            call.trace.clear();
        }
        for turn in outcome.trajectory.iter_mut().flat_map(|trajectory| &mut trajectory.turns) {
            turn.said = None;
        }
        outcome.kept = self.kept;
    }

    fn text(&self, text: &str) -> String {
        match self.kept {
            Kept::Whole => text.into(),
            Kept::Hashed if text.is_empty() => String::new(),
            Kept::Hashed => format!("blake3:{}", &blake3::keyed_hash(&self.key, text.as_bytes()).to_hex()[..32]),
            Kept::Dropped | Kept::Erased => String::new(),
        }
    }
}

/// Verifiers quote what they read.
fn quiet(feedback: &mut Feedback) {
    for verdict in &mut feedback.verdicts {
        verdict.trace.clear();
        verdict.signals.iter_mut().for_each(|signal| signal.detail.clear());
    }
}

/// So does what memory keeps of their words.
pub(super) fn forget_trace(neighbour: &mut Neighbour) {
    neighbour.outcomes.iter_mut().for_each(|tried| tried.trace.clear());
}
