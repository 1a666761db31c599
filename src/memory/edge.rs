//! Embedded memory: a ring in one folder, on Qdrant's shard in this process.
//!
//! `ring.json` names the shard that counts and says up to where everything was flushed: the shard's own log is not
//! replayed on load, so on open the next entry is that one and the journal writes the rest again, which is idempotent.
//! Other content (a restored snapshot, another cap, the same entries without their log) is written to a new shard beside
//! the old one, and becomes the ring when `ring.json` is renamed into place; readers go on with the old shard until then.
//! What can go wrong: the folder is another process's, damaged, made for another model, or its disk is full.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;

use super::{
    Entries, Entry, Filter, Held, Memory, MemoryError, Shape, in_batches,
    marker::Marker,
    pages, ranked,
    ring::Ring,
    shard::{Shard, corrupt},
};
use crate::round::{Embedding, Neighbour};

/// Starts the names of the shards' folders.
const SHARD: &str = "shard-";
/// Entries written or read in one step.
const BATCH: usize = 512;
/// The shard never shortens its log; past this the ring moves to a fresh shard, which takes about a second.
const LOG_BYTES_MAX: u64 = 1 << 29;

/// A ring of entries in a folder, owned by this process alone.
pub struct EdgeMemory {
    folder: PathBuf,
    shape: Shape,
    stored: ArcSwap<Stored>,
    next_seq: AtomicU64,
    // Guards the marker, and with it the right to write: one writer at a time.
    marker: Mutex<Marker>,
}

/// The entries: on the disk, and in RAM what recall needs of them.
struct Stored {
    shard: Shard,
    // Guards the ring: recall reads it, the one writer replaces slots.
    ring: RwLock<Ring>,
}

impl Stored {
    fn new(shard: Shard, ring: Ring) -> Self {
        Self { shard, ring: RwLock::new(ring) }
    }

    /// A shard that was opened, up to `next_seq`, with its entries read.
    fn read(shard: Shard, shape: &Shape, next_seq: u64) -> Result<Self, MemoryError> {
        let mut ring = Ring::new(shape.cap, shape.dimension);
        for entry in pages(0, BATCH, |from, n| scan(&shard, shape.cap, next_seq, from, n)) {
            let (seq, entry) = entry?;
            ring.put(seq, &entry)?;
        }
        Ok(Self::new(shard, ring))
    }

    fn put(&self, cap: u64, entries: &[(u64, &Entry)]) -> Result<(), MemoryError> {
        self.shard.upsert(cap, entries.iter().copied())?;
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        entries.iter().try_for_each(|(seq, entry)| ring.put(*seq, entry))
    }

    fn query(&self, embeddings: &[Embedding], k: usize, min_similarity: f32) -> Vec<Vec<Neighbour>> {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        ring.query(embeddings, k, min_similarity)
    }
}

impl EdgeMemory {
    /// Opens the ring in `folder`, or makes an empty one. A ring of another cap is rewritten, its newest entries kept;
    /// one of another model is refused.
    pub fn open(folder: &Path, shape: &Shape) -> Result<Self, MemoryError> {
        let wanted = Shape { cap: shape.cap.max(1), ..shape.clone() };
        let Some(marker) = Marker::read(folder)? else {
            return Self::create(folder, wanted);
        };
        if !marker.shape.is_comparable(&wanted) {
            let (found, wanted) = (marker.shape.to_string(), wanted.to_string());
            return Err(MemoryError::Mismatch { place: folder.display().to_string(), found, wanted });
        }
        let shard = Shard::load(&shard_folder(folder, marker.shard), marker.shape.dimension)?;
        remove_others(folder, marker.shard);
        let memory = Self {
            folder: folder.into(),
            shape: marker.shape.clone(),
            stored: ArcSwap::from_pointee(Stored::read(shard, &marker.shape, marker.flushed)?),
            next_seq: AtomicU64::new(marker.flushed),
            marker: Mutex::new(marker),
        };
        let count = memory.held()?.count;
        if count > memory.shape.cap {
            let reason = format!("it holds {count} entries, more than its cap of {}", memory.shape.cap);
            return Err(corrupt(folder, &reason));
        }
        if memory.shape.cap == wanted.cap { Ok(memory) } else { memory.with_cap(wanted.cap) }
    }

    /// What the ring in `folder` is made for; nothing where there is none.
    pub fn shape_of(folder: &Path) -> Result<Option<Shape>, MemoryError> {
        Ok(Marker::read(folder)?.map(|marker| marker.shape))
    }

    fn create(folder: &Path, shape: Shape) -> Result<Self, MemoryError> {
        fs::create_dir_all(folder).map_err(|error| corrupt(folder, &error))?;
        let marker = Marker::first(shape.clone());
        remove_others(folder, u64::MAX);
        let shard = Shard::create(&shard_folder(folder, marker.shard), shape.dimension)?;
        shard.flush()?;
        marker.write(folder)?;
        let ring = Ring::new(shape.cap, shape.dimension);
        Ok(Self {
            folder: folder.into(),
            shape,
            stored: ArcSwap::from_pointee(Stored::new(shard, ring)),
            next_seq: AtomicU64::new(0),
            marker: Mutex::new(marker),
        })
    }

    /// The same ring with another number of slots.
    fn with_cap(mut self, cap: u64) -> Result<Self, MemoryError> {
        tracing::info!(from = self.shape.cap, to = cap, "memory is rewritten for another cap");
        self.shape.cap = cap;
        // Read in the old ring's order: the marker still says its cap.
        self.rewrite()?;
        Ok(self)
    }

    /// Moves the ring's entries to a fresh shard.
    pub(super) fn rewrite(&self) -> Result<(), MemoryError> {
        let mut marker = self.writing();
        let (origin, cap) = (marker.origin.clone(), marker.shape.cap);
        let next_seq = self.next_seq.load(Ordering::Acquire);
        let stored = self.stored.load_full();
        let mut entries = pages(0, BATCH, |from, n| scan(&stored.shard, cap, next_seq, from, n));
        self.refill(&mut marker, origin.as_deref(), next_seq, &mut entries)
    }

    /// Fills a fresh shard and makes it the ring.
    fn refill(
        &self,
        marker: &mut Marker,
        origin: Option<&str>,
        next_seq: u64,
        entries: Entries<'_>,
    ) -> Result<(), MemoryError> {
        let fresh = Marker {
            shape: self.shape.clone(),
            origin: origin.map(Into::into),
            shard: marker.shard + 1,
            flushed: next_seq,
            ..marker.clone()
        };
        let folder = shard_folder(&self.folder, fresh.shard);
        // An attempt that failed half-way may have left it.
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| corrupt(&folder, &error))?;
        }
        let Shape { cap, dimension, .. } = self.shape;
        let stored = Stored::new(Shard::create(&folder, dimension)?, Ring::new(cap, dimension));
        let write = |batch: &[(u64, &Entry)]| stored.put(cap, batch);
        let filled = in_batches(entries, &self.shape, next_seq, BATCH, write).and_then(|()| stored.shard.flush());
        if let Err(error) = filled.and_then(|()| fresh.write(&self.folder)) {
            stored.shard.retire();
            return Err(error);
        }
        *marker = fresh;
        self.next_seq.store(next_seq, Ordering::Release);
        self.stored.swap(Arc::new(stored)).shard.retire();
        Ok(())
    }

    fn writing(&self) -> MutexGuard<'_, Marker> {
        self.marker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory for EdgeMemory {
    fn put(&self, first_seq: u64, entries: &[Entry]) -> Result<(), MemoryError> {
        entries.iter().try_for_each(|entry| self.shape.check(&entry.embedding))?;
        let _writing = self.writing();
        let cap = self.shape.cap;
        let end = first_seq + entries.len() as u64;
        let next_seq = self.next_seq.load(Ordering::Acquire).max(end);
        // What the ring has forgotten by now must not come back.
        let kept: Vec<_> = (first_seq..).zip(entries).filter(|(seq, _)| seq + cap >= next_seq).collect();
        self.stored.load().put(cap, &kept)?;
        self.next_seq.store(next_seq, Ordering::Release);
        Ok(())
    }

    fn query(
        &self,
        embedding: &Embedding,
        k: usize,
        min_similarity: f32,
        filter: &Filter,
    ) -> Result<Vec<Neighbour>, MemoryError> {
        self.shape.check(embedding)?;
        let stored = self.stored.load_full();
        if *filter == Filter::default() {
            let answers = stored.query(std::slice::from_ref(embedding), k, min_similarity);
            return Ok(answers.into_iter().flatten().collect());
        }
        Ok(ranked(stored.shard.query(embedding, k, filter)?, min_similarity))
    }

    fn query_all(
        &self,
        embeddings: &[Embedding],
        k: usize,
        min_similarity: f32,
    ) -> Vec<Result<Vec<Neighbour>, MemoryError>> {
        if embeddings.iter().all(|embedding| self.shape.check(embedding).is_ok()) {
            return self.stored.load_full().query(embeddings, k, min_similarity).into_iter().map(Ok).collect();
        }
        embeddings.iter().map(|embedding| self.query(embedding, k, min_similarity, &Filter::default())).collect()
    }

    fn shares_passes(&self) -> bool {
        true
    }

    fn scan(&self, from: u64, n: usize) -> Result<Vec<(u64, Entry)>, MemoryError> {
        scan(&self.stored.load_full().shard, self.shape.cap, self.next_seq.load(Ordering::Acquire), from, n)
    }

    fn held(&self) -> Result<Held, MemoryError> {
        let marker = self.writing();
        let count = self.stored.load().shard.count()?;
        Ok(Held { next_seq: self.next_seq.load(Ordering::Acquire), count, origin: marker.origin.clone() })
    }

    fn sync(&self) -> Result<(), MemoryError> {
        {
            let mut marker = self.writing();
            let flushed = self.next_seq.load(Ordering::Acquire);
            let stored = self.stored.load_full();
            stored.shard.flush()?;
            if flushed != marker.flushed {
                let fresh = Marker { flushed, ..marker.clone() };
                fresh.write(&self.folder)?;
                *marker = fresh;
            }
            if stored.shard.log_bytes() <= LOG_BYTES_MAX {
                return Ok(());
            }
        }
        self.rewrite()
    }

    fn replace(&self, origin: Option<&str>, next_seq: u64, entries: Entries<'_>) -> Result<(), MemoryError> {
        let mut marker = self.writing();
        self.refill(&mut marker, origin, next_seq, entries)
    }
}

/// The entries from `from` on that a ring of `cap` slots up to `next_seq` still holds, at most `n`.
fn scan(shard: &Shard, cap: u64, next_seq: u64, from: u64, n: usize) -> Result<Vec<(u64, Entry)>, MemoryError> {
    let mut found = Vec::new();
    let mut from = from.max(next_seq.saturating_sub(cap));
    while from < next_seq && found.len() < n {
        let to = next_seq.min(from + (n - found.len()) as u64);
        let slots = shard.retrieve((from..to).map(|seq| seq % cap))?;
        // A slot may hold an older entry, where one is missing, or a newer one, if it was overwritten meanwhile.
        found.extend(slots.into_iter().filter(|(seq, _)| (from..to).contains(seq)));
        from = to;
    }
    Ok(found)
}

fn shard_folder(folder: &Path, shard: u64) -> PathBuf {
    folder.join(format!("{SHARD}{shard}"))
}

/// Removes the shards that a crash left beside the one that counts.
fn remove_others(folder: &Path, shard: u64) {
    let keep = shard_folder(folder, shard);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(SHARD)
            && path != keep
            && let Err(error) = fs::remove_dir_all(&path)
        {
            tracing::warn!(%error, folder = %path.display(), "an old memory shard cannot be removed yet");
        }
    }
}
