//! Vector memory: the verified outcomes of past tasks, recalled by similarity.
//!
//! A ring of `cap` slots in order of arrival (FIFO): entry `seq` lives in slot `seq % cap`, so that one write also
//! evicts the oldest, in the same step. The journal is the truth; memory can always be rebuilt from it. Hits are
//! scored again from the vector that came with the payload, since a store may pair an old score with a new payload
//! while a slot is overwritten.

mod edge;
pub mod map;
mod marker;
mod payload;
mod recall;
mod ring;
mod scan;
mod server;
mod shard;
pub mod snapshot;
pub mod view;
mod writer;

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::round::{ArmId, Domain, Embedding, Neighbour, TaskId, TriedArm};

pub use edge::EdgeMemory;
pub use recall::Recaller;
pub use scan::ScanMemory;
pub use server::{ApiKey, ServerMemory, ServerSettings};
pub use writer::{EntryIterator, Level, MemoryWriter, Source};

/// The default number of entries kept.
pub const CAP: u64 = 20_000;

/// How many neighbours a task recalls.
pub const RECALL_K: usize = 10;

/// The least cosine similarity of a recalled neighbour.
pub const MIN_SIMILARITY: f32 = 0.5;

/// One past task: its embedding and the outcome of every arm tried on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The task.
    pub task_id: TaskId,
    /// Its domain.
    pub domain: Domain,
    /// When its outcome was journaled, in milliseconds since 1970.
    pub at_ms: i64,
    /// Its embedding, the key.
    pub embedding: Embedding,
    /// What each arm tried on it gave.
    pub outcomes: Vec<TriedArm>,
}

/// Which entries a query looks at; both parts must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Only this domain.
    pub domain: Option<Domain>,
    /// Only entries on which this arm was tried.
    pub arm: Option<ArmId>,
}

/// What a ring is made for. Embeddings of different models can never be compared, so a store keeps this beside its
/// entries and refuses to open for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = MemoryShape)]
pub struct Shape {
    /// The embedding model's id.
    pub model: String,
    /// The embeddings' length.
    pub dimension: usize,
    /// The number of slots.
    pub cap: u64,
}

impl Shape {
    /// Whether embeddings of both can be compared; the caps may differ.
    fn is_comparable(&self, other: &Self) -> bool {
        (&self.model, self.dimension) == (&other.model, other.dimension)
    }

    /// Refuses an embedding of another length.
    fn check(&self, embedding: &Embedding) -> Result<(), MemoryError> {
        let (found, wanted) = (embedding.as_slice().len(), self.dimension);
        if found == wanted {
            return Ok(());
        }
        Err(MemoryError::Invalid(format!("the embedding has {found} dimensions, memory holds {wanted}")))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} dimensions)", self.model, self.dimension)
    }
}

/// What a store holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    /// One above the highest sequence number stored; after [`Memory::replace`] what that was told.
    pub next_seq: u64,
    /// How many entries; never above the cap.
    pub count: u64,
    /// Which snapshot the ring rests on: its SHA-256, or nothing where it grew from empty.
    pub origin: Option<String>,
}

/// Entries with their sequence numbers, in that order, as they are read from somewhere.
pub type Entries<'a> = &'a mut dyn Iterator<Item = Result<(u64, Entry), MemoryError>>;

/// A store of the newest `cap` entries. Calls block; one thread writes, any number reads.
pub trait Memory: Send + Sync {
    /// Stores entries under `first_seq`, `first_seq + 1` and so on, each evicting the entry `cap` before it in the same
    /// step. Idempotent per sequence number, and never overwrites a newer entry. When it returns they are visible, but
    /// only [`Memory::sync`] makes them survive. After [`MemoryError::Unknown`] put the same again.
    fn put(&self, first_seq: u64, entries: &[Entry]) -> Result<(), MemoryError>;

    /// The at most `k` entries with cosine similarity of at least `min_similarity`, most similar first, newest first
    /// among equals.
    fn query(
        &self,
        embedding: &Embedding,
        k: usize,
        min_similarity: f32,
        filter: &Filter,
    ) -> Result<Vec<Neighbour>, MemoryError>;

    /// The answers of [`Memory::query`] without a filter to several queries, in their order.
    fn query_all(
        &self,
        embeddings: &[Embedding],
        k: usize,
        min_similarity: f32,
    ) -> Vec<Result<Vec<Neighbour>, MemoryError>> {
        embeddings.iter().map(|embedding| self.query(embedding, k, min_similarity, &Filter::default())).collect()
    }

    /// Whether [`Memory::query_all`] costs less than its queries one by one.
    fn shares_passes(&self) -> bool {
        false
    }

    /// The at most `n` entries with the lowest sequence numbers from `from` on, in order; empty at the end. An entry
    /// that is overwritten meanwhile may be left out.
    fn scan(&self, from: u64, n: usize) -> Result<Vec<(u64, Entry)>, MemoryError>;

    /// What is held now.
    fn held(&self) -> Result<Held, MemoryError>;

    /// Makes everything stored survive a crash of the machine.
    fn sync(&self) -> Result<(), MemoryError>;

    /// Puts other content in the place of all entries: the newest `cap` of `entries`. Afterwards the next entry is
    /// `next_seq` and the origin is `origin`. Readers see the old content or the new; it survives a crash of the
    /// machine when this returns, and a crash before leaves either the old content or an origin that matches nothing.
    fn replace(&self, origin: Option<&str>, next_seq: u64, entries: Entries<'_>) -> Result<(), MemoryError>;
}

/// All entries from `from` on, read `n` at a time by a function such as [`Memory::scan`].
pub fn pages(
    mut from: u64,
    n: usize,
    mut read: impl FnMut(u64, usize) -> Result<Vec<(u64, Entry)>, MemoryError>,
) -> impl Iterator<Item = Result<(u64, Entry), MemoryError>> {
    let mut page = Vec::new().into_iter();
    std::iter::from_fn(move || {
        if let Some(entry) = page.next() {
            return Some(Ok(entry));
        }
        match read(from, n) {
            Ok(read) => {
                page = read.into_iter();
                let (seq, entry) = page.next()?;
                from = page.as_slice().last().map_or(seq, |(last, _)| *last) + 1;
                Some(Ok((seq, entry)))
            }
            Err(error) => Some(Err(error)),
        }
    })
}

/// Hits in the order of [`Memory::query`], without those that are not alike enough.
fn ranked(mut neighbours: Vec<Neighbour>, min_similarity: f32) -> Vec<Neighbour> {
    neighbours.retain(|neighbour| neighbour.similarity >= min_similarity);
    neighbours.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then(b.seq.cmp(&a.seq)));
    neighbours
}

/// Hands on, at most `n` at a time, those of some entries that a ring of `shape` up to `next_seq` holds.
fn in_batches(
    entries: Entries<'_>,
    shape: &Shape,
    next_seq: u64,
    n: usize,
    mut write: impl FnMut(&[(u64, &Entry)]) -> Result<(), MemoryError>,
) -> Result<(), MemoryError> {
    let mut batch: Vec<(u64, Entry)> = Vec::with_capacity(n);
    let mut flush = |batch: &mut Vec<(u64, Entry)>| {
        write(&batch.iter().map(|(seq, entry)| (*seq, entry)).collect::<Vec<_>>())?;
        batch.clear();
        Ok(())
    };
    for entry in entries {
        let (seq, entry) = entry?;
        shape.check(&entry.embedding)?;
        if seq < next_seq && seq + shape.cap >= next_seq {
            batch.push((seq, entry));
        }
        if batch.len() == n {
            flush(&mut batch)?;
        }
    }
    if batch.is_empty() { Ok(()) } else { flush(&mut batch) }
}

/// Why memory did not do as asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MemoryError {
    /// The entry or query cannot be right.
    #[error("invalid memory request: {0}")]
    Invalid(String),
    /// Another process holds the folder.
    #[error("the memory folder {} is used by another process; stop it or choose another --data-dir", .0.display())]
    Locked(PathBuf),
    /// The store is made for another model, dimension or cap.
    #[error(
        "memory in {place} holds embeddings of {found}, the settings ask for {wanted}: run `pointsman memory rebuild` to \
         embed the journal's tasks again, or set the model back"
    )]
    Mismatch {
        /// The folder or collection.
        place: String,
        /// What it holds.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// The store on disk is damaged or of another format. It can be deleted: the journal rebuilds it.
    #[error("the memory folder {} cannot be read ({reason}); delete it and start again: the journal rebuilds it", path.display())]
    Corrupt {
        /// The folder.
        path: PathBuf,
        /// What the store said.
        reason: String,
    },
    /// The disk has no room; nothing was written.
    #[error("the disk of the memory folder {} is full; free some space, memory catches up by itself", .0.display())]
    DiskFull(PathBuf),
    /// The server cannot be reached; nothing was written.
    #[error("the memory server is unavailable: {0}")]
    Unavailable(String),
    /// The server did not answer in time or broke off: a write may or may not have been applied.
    #[error("the memory server did not answer: {0}")]
    Unknown(String),
    /// Memory holds more than the journal tells of.
    #[error(
        "memory in {place} goes up to entry {entries} but the journal only to {rounds}, so they do not belong together: \
         name another collection or another --data-dir, or delete the collection: the journal rebuilds it"
    )]
    Ahead {
        /// The collection.
        place: String,
        /// One above the highest sequence number in memory.
        entries: u64,
        /// One above the highest that the journal tells of.
        rounds: u64,
    },
    /// Anything else that the store said.
    #[error("memory failed: {0}")]
    Other(String),
}

#[cfg(test)]
mod contract;
#[cfg(test)]
pub(crate) use contract::entry as entry_for_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod writer_tests;
