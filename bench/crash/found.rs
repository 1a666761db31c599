//! What a journal holds, as the end of a life left it.
//!
//! It is read from a copy, so that it is the daemon, and not the proof, that recovers the files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use pointsman::{
    journal::{Event, JournalReader, PolicyRole, Stored, verify},
    round::{Channel, Feedback, Outcome},
};
use serde_json::{Value, json};

const MODEL: &str = "all-MiniLM-L6-v2";
/// Events read at a time.
const PAGE: i64 = 2_000;

/// What a journal holds.
#[derive(Debug, Default)]
pub struct Found {
    pub events: u64,
    /// By idempotency key.
    pub keys: BTreeMap<String, Vec<String>>,
    pub decided: BTreeSet<String>,
    pub ran: BTreeMap<String, Vec<Outcome>>,
    /// By decision and source.
    pub judged: BTreeMap<(String, String), Vec<Feedback>>,
    pub early: BTreeMap<(String, String), Feedback>,
    /// Lessons by decision and whether they are verified.
    pub lessons: BTreeMap<(String, bool), u64>,
    pub scored: BTreeSet<(String, bool)>,
    pub policies: Vec<Value>,
    pub champion: Option<String>,
    pub arms: Vec<Value>,
    pub went_back: u64,
    /// What `pointsman journal verify` finds.
    pub unsound: Vec<String>,
    last_ms: i64,
}

impl Found {
    /// Reads a journal. One that is not there yet holds nothing.
    pub async fn read(journal: &Path) -> Result<Self, String> {
        let mut found = Self::default();
        if !journal.exists() {
            return Ok(found);
        }
        let failed = |error: pointsman::journal::JournalError| error.to_string();
        let reader = JournalReader::open(journal, MODEL).await.map_err(failed)?;
        let mut after = 0;
        loop {
            let page = reader.after(after, PAGE).await.map_err(failed)?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            page.into_iter().for_each(|stored| found.take(stored));
        }
        reader.close_reader().await;
        let verified = verify(journal, |_, _| {}).await.map_err(failed)?;
        let events = verified.events();
        found.unsound = verified.structure;
        found.unsound.extend(verified.unsound.into_iter().map(|(seq, reason)| format!("record {seq}: {reason}")));
        if found.unsound.is_empty() && events != found.events {
            found.unsound.push(format!("it counts {events} events, {} are read", found.events));
        }
        Ok(found)
    }

    /// Lessons learnt: of the verified channel, and of both.
    pub fn learnt(&self) -> (u64, u64) {
        let verified = self.lessons.keys().filter(|(_, verified)| *verified).count();
        (verified as u64, self.lessons.len() as u64)
    }

    fn take(&mut self, stored: Stored) {
        self.events += 1;
        self.went_back += u64::from(stored.at_ms < self.last_ms);
        self.last_ms = stored.at_ms;
        match stored.event {
            Event::Decided { task, decision, .. } => {
                let id = decision.id.to_string();
                if let Some(key) = &task.idempotency_key {
                    self.keys.entry(key.to_string()).or_default().push(id.clone());
                }
                self.decided.insert(id);
            }
            Event::Ran { outcome } => self.ran.entry(outcome.decision_id.to_string()).or_default().push(outcome),
            Event::Judged { feedback } => self.judge(feedback, stored.learns),
            Event::Early { feedback } => {
                let place = (feedback.decision_id.to_string(), feedback.source.as_str().into());
                self.early.insert(place, feedback);
            }
            Event::PolicyChanged { change } => {
                if change.role == PolicyRole::Champion {
                    self.champion = Some(change.name.clone());
                }
                let card = change.card.is_some().then_some(change.name);
                self.policies.push(json!({"champion": change.role == PolicyRole::Champion, "card": card}));
            }
            Event::ArmChanged { change, .. } => self.arms.push(serde_json::to_value(change).unwrap_or_default()),
            Event::Abandoned { .. }
            | Event::MemoryRestored { .. }
            | Event::SnapshotChanged { .. }
            | Event::VerifierChanged { .. }
            | Event::Erased { .. }
            | Event::KeyChanged { .. }
            | Event::Spent { .. }
            | Event::Probed { .. }
            | Event::Audited { .. }
            | Event::Compacted { .. } => {}
        }
    }

    fn judge(&mut self, feedback: Feedback, learns: bool) {
        let id = feedback.decision_id.to_string();
        let lesson = (id.clone(), feedback.source.channel() == Channel::Verified);
        if feedback.score.is_some() {
            self.scored.insert(lesson.clone());
        }
        if learns {
            *self.lessons.entry(lesson).or_default() += 1;
        }
        self.judged.entry((id, feedback.source.as_str().into())).or_default().push(feedback);
    }
}

/// Makes a folder for a second daemon that has the first one's journal, and nothing else of what it kept. Returns the
/// journal's place.
pub fn copy_journal(folder: &Path, copy: &Path) -> std::io::Result<PathBuf> {
    let (from, to) = (folder.join("data"), copy.join("data"));
    match fs::remove_dir_all(copy) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::create_dir_all(copy.join("policies"))?;
    fs::create_dir_all(&to)?;
    for name in ["pointsman.toml", "policies/steady.toml"] {
        fs::copy(folder.join(name), copy.join(name))?;
    }
    for name in ["journal.sqlite", "journal.sqlite-wal"] {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name))?;
        }
    }
    Ok(to.join("journal.sqlite"))
}
