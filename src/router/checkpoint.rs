//! What was learnt, kept beside the journal, so that a start need not fold all of it again.
//!
//! The file is only a shortcut: lost, damaged or of another journal it is ignored, and the journal is folded from zero.
//! Its first line holds a hash of the second, which is the state. Rows that make no sense cost their arm its place among
//! the candidates, nothing more.

use std::{fs, io::Write, path::Path, thread::JoinHandle};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{audit::Book, cards::Acting, trial::Trial};
use crate::{
    access::Spending,
    journal::{JournalError, JournalReader},
    round::PolicyRef,
};

/// The format that this version reads and writes.
const FORMAT: u32 = 4;

/// The state at a place in the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    /// The place in the journal.
    pub at: i64,
    /// When that event was appended: another journal has another one there.
    pub at_ms: i64,
    /// Up to this place no decision is left open; not a part of what was learnt.
    #[serde(default)]
    pub closed_up_to: i64,
    pub known: Known,
    /// Other policies that the journal names, up to the same place: what compaction leaves of the rounds that it takes out
    /// must do for them too. Empty in a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<PolicyState>,
}

/// All that was learnt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Known {
    pub champion: PolicyState,
    pub shadow: Option<PolicyState>,
    pub trial: Trial,
    pub learnt_rounds: u64,
    pub memory_seq: u64,
    pub standings: Value,
    pub centroids: Value,
    pub tracker: Value,
    /// Absent in states of before there was one: rounds from then on are in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Value>,
    /// Absent where no tenant spent anything, as in files of before there were budgets.
    #[serde(default, skip_serializing_if = "Spending::is_empty")]
    pub spending: Spending,
    /// Absent where there never was a probe, as in states of before there were any.
    #[serde(default, skip_serializing_if = "Book::is_empty")]
    pub audits: Book,
}

/// What a policy learnt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PolicyState {
    policy: PolicyRef,
    state: Value,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    digest: String,
}

impl PolicyState {
    pub fn of(acting: &Acting) -> Self {
        Self { policy: acting.reference(), state: acting.policy.state() }
    }
}

impl Known {
    /// The BLAKE3 hash of all that was learnt: equal states have equal hashes, on any machine.
    pub fn hash(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&text).to_hex().to_string()
    }
}

impl Checkpoint {
    /// The state of a policy, if it is one of these.
    pub fn state_of(&self, acting: &Acting) -> Option<&Value> {
        let wanted = acting.reference();
        let Known { champion, shadow, .. } = &self.known;
        let mut all = std::iter::once(champion).chain(shadow).chain(&self.others);
        all.find(|known| known.policy == wanted).map(|known| &known.state)
    }

    /// As text of one line.
    pub fn text(&self) -> std::io::Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// Reads that text back.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Writes it in one piece: a crash leaves the old file or the new one.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = self.text()?;
        let header = Header { format: FORMAT, digest: blake3::hash(text.as_bytes()).to_hex().to_string() };
        let part = path.with_extension("part");
        let mut file = fs::File::create(&part)?;
        file.write_all(format!("{}\n{text}\n", serde_json::to_string(&header)?).as_bytes())?;
        file.sync_all()?;
        fs::rename(part, path)
    }

    /// Reads a file; nothing when there is none, and the reason when it cannot be used.
    pub fn read(path: &Path) -> Result<Option<Self>, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let (header, state) = text.split_once('\n').ok_or("it is cut off")?;
        let header: Header = serde_json::from_str(header).map_err(|error| error.to_string())?;
        if header.format != FORMAT {
            return Err(format!("format {} is not known here", header.format));
        }
        let state = state.trim_end();
        if header.digest != blake3::hash(state.as_bytes()).to_hex().as_str() {
            return Err("it is damaged".into());
        }
        Self::parse(state).map(Some)
    }

    /// The newest state that fits the journal: the file's, or the one that compaction left.
    pub async fn find(journal: &JournalReader, path: &Path) -> Result<Option<Self>, JournalError> {
        let base = journal.base().await?;
        let after = base.as_ref().map_or(0, |base| base.seq);
        match Self::read(path) {
            Ok(Some(file)) if file.at >= after => {
                let there = journal.at(file.at).await?;
                let ours = there.is_some_and(|event| event.at_ms == file.at_ms)
                    || base.as_ref().is_some_and(|base| (base.seq, base.at_ms) == (file.at, file.at_ms));
                if ours {
                    return Ok(Some(file));
                }
                tracing::warn!("the checkpoint is of another journal; it is not used");
            }
            Ok(_) => {}
            Err(problem) => tracing::warn!(%problem, "the checkpoint cannot be used; the journal is folded"),
        }
        let damaged = |seq, reason| JournalError::Damaged { seq, reason };
        base.map(|base| Self::parse(&base.state).map_err(|reason| damaged(base.seq, reason))).transpose()
    }
}

/// Writes checkpoints on a thread of its own, one at a time; whoever learns does not wait for it.
#[derive(Default)]
pub(super) struct Keeper {
    writing: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Whether the last one is written.
    pub fn is_idle(&self) -> bool {
        self.writing.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Starts to write one.
    pub fn keep(&mut self, path: &Path, make: impl FnOnce() -> Checkpoint + Send + 'static) {
        self.wait();
        let path = path.to_path_buf();
        let write = move || {
            if let Err(error) = make().write(&path) {
                tracing::warn!(%error, path = %path.display(), "the checkpoint could not be written; the journal has all of it");
            }
        };
        self.writing = std::thread::Builder::new().name("checkpoint".into()).spawn(write).ok();
    }

    /// Waits for the last one.
    pub fn wait(&mut self) {
        if let Some(writing) = self.writing.take()
            && writing.join().is_err()
        {
            tracing::error!("writing a checkpoint panicked");
        }
    }
}
