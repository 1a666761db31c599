//! Memory as a plain matrix in RAM, scanned whole: exact, volatile, quick at tens of thousands of entries.
//!
//! Replays use it, since they keep nothing; tests use it as the model that the other stores must agree with, and benches
//! as the yardstick of their recall.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Entries, Entry, Filter, Held, Memory, MemoryError};
use crate::round::{Embedding, Neighbour};

/// A ring of entries in RAM.
pub struct ScanMemory {
    cap: u64,
    // Guards the ring: readers scan it, the one writer replaces slots.
    ring: RwLock<Ring>,
}

#[derive(Default)]
struct Ring {
    slots: Vec<Option<(u64, Entry)>>,
    next_seq: u64,
    origin: Option<String>,
}

impl ScanMemory {
    /// An empty ring of `cap` slots, at least one.
    pub fn new(cap: u64) -> Self {
        Self { cap: cap.max(1), ring: RwLock::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Ring> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Ring> {
        self.ring.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn put(&mut self, cap: u64, seq: u64, entry: Entry) -> Result<(), MemoryError> {
        let slot = usize::try_from(seq % cap).map_err(|error| MemoryError::Invalid(error.to_string()))?;
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        if self.slots[slot].as_ref().is_none_or(|(held, _)| *held <= seq) {
            self.slots[slot] = Some((seq, entry));
        }
        self.next_seq = self.next_seq.max(seq + 1);
        Ok(())
    }
}

impl Memory for ScanMemory {
    fn put(&self, first_seq: u64, entries: &[Entry]) -> Result<(), MemoryError> {
        let mut ring = self.write();
        (first_seq..).zip(entries).try_for_each(|(seq, entry)| ring.put(self.cap, seq, entry.clone()))
    }

    fn query(
        &self,
        embedding: &Embedding,
        k: usize,
        min_similarity: f32,
        filter: &Filter,
    ) -> Result<Vec<Neighbour>, MemoryError> {
        let ring = self.read();
        let mut hits: Vec<(f32, &(u64, Entry))> = ring
            .slots
            .iter()
            .flatten()
            .filter(|(_, entry)| filter.admits(entry))
            .map(|slot| (embedding.cosine(&slot.1.embedding), slot))
            .filter(|(similarity, _)| *similarity >= min_similarity)
            .collect();
        let order = |a: &(f32, &(u64, Entry)), b: &(f32, &(u64, Entry))| b.0.total_cmp(&a.0).then(b.1.0.cmp(&a.1.0));
        if hits.len() > k && k > 0 {
            hits.select_nth_unstable_by(k - 1, order);
        }
        hits.truncate(k);
        hits.sort_by(order);
        Ok(hits.into_iter().map(|(similarity, (seq, entry))| entry.as_neighbour(*seq, similarity)).collect())
    }

    fn scan(&self, from: u64, n: usize) -> Result<Vec<(u64, Entry)>, MemoryError> {
        let ring = self.read();
        let mut found: Vec<_> = ring.slots.iter().flatten().filter(|(seq, _)| *seq >= from).collect();
        found.sort_unstable_by_key(|(seq, _)| *seq);
        Ok(found.into_iter().take(n).cloned().collect())
    }

    fn held(&self) -> Result<Held, MemoryError> {
        let ring = self.read();
        let count = ring.slots.iter().flatten().count() as u64;
        Ok(Held { next_seq: ring.next_seq, count, origin: ring.origin.clone() })
    }

    fn sync(&self) -> Result<(), MemoryError> {
        Ok(())
    }

    fn replace(&self, origin: Option<&str>, next_seq: u64, entries: Entries<'_>) -> Result<(), MemoryError> {
        let mut fresh = Ring { slots: vec![], next_seq, origin: origin.map(Into::into) };
        for entry in entries {
            let (seq, entry) = entry?;
            if seq < next_seq && seq + self.cap >= next_seq {
                fresh.put(self.cap, seq, entry)?;
            }
        }
        *self.write() = fresh;
        Ok(())
    }
}

impl Filter {
    fn admits(&self, entry: &Entry) -> bool {
        self.domain.as_ref().is_none_or(|domain| *domain == entry.domain)
            && self.arm.as_ref().is_none_or(|arm| entry.outcomes.iter().any(|tried| tried.arm == *arm))
    }
}

impl Entry {
    fn as_neighbour(&self, seq: u64, similarity: f32) -> Neighbour {
        Neighbour {
            seq,
            task_id: self.task_id.clone(),
            similarity,
            domain: Some(self.domain.clone()),
            outcomes: self.outcomes.clone(),
        }
    }
}
