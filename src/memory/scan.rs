//! Memory as a plain matrix in RAM, scanned whole: exact, volatile, quick at tens of thousands of entries.
//!
//! Replays use it, since they keep nothing, and tests use it as the model that the embedded store must agree with.

use std::sync::RwLock;

use super::{Entry, Filter, Memory, MemoryError};
use crate::round::{Embedding, Neighbour};

/// A ring of entries in RAM.
pub struct ScanMemory {
    cap: u64,
    // Guards the ring: readers scan it, the one writer replaces a slot.
    ring: RwLock<Ring>,
}

#[derive(Default)]
struct Ring {
    slots: Vec<(u64, Entry)>,
    next_seq: u64,
}

impl ScanMemory {
    /// An empty ring of `cap` slots, at least one.
    pub fn new(cap: u64) -> Self {
        Self { cap: cap.max(1), ring: RwLock::default() }
    }
}

impl Memory for ScanMemory {
    fn put(&self, seq: u64, entry: &Entry) -> Result<(), MemoryError> {
        let mut ring = self.ring.write().map_err(poisoned)?;
        let slot = usize::try_from(seq % self.cap).map_err(|error| MemoryError::Invalid(error.to_string()))?;
        let filled = ring.slots.len();
        match ring.slots.get_mut(slot) {
            Some((held, _)) if *held > seq => {}
            Some(held) => *held = (seq, entry.clone()),
            None if slot == filled => ring.slots.push((seq, entry.clone())),
            None => return Err(MemoryError::Invalid(format!("seq {seq} leaves a gap in the ring"))),
        }
        ring.next_seq = ring.next_seq.max(seq + 1);
        Ok(())
    }

    fn query(
        &self,
        embedding: &Embedding,
        k: usize,
        min_similarity: f32,
        filter: &Filter,
    ) -> Result<Vec<Neighbour>, MemoryError> {
        let ring = self.ring.read().map_err(poisoned)?;
        let mut hits: Vec<(f32, &(u64, Entry))> = ring
            .slots
            .iter()
            .filter(|(_, entry)| filter.admits(entry))
            .map(|slot| (embedding.cosine(&slot.1.embedding), slot))
            .filter(|(similarity, _)| *similarity >= min_similarity)
            .collect();
        hits.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.0.cmp(&a.1.0)));
        hits.truncate(k);
        Ok(hits.into_iter().map(|(similarity, (seq, entry))| entry.as_neighbour(*seq, similarity)).collect())
    }

    fn next_seq(&self) -> Result<u64, MemoryError> {
        Ok(self.ring.read().map_err(poisoned)?.next_seq)
    }

    fn count(&self) -> Result<u64, MemoryError> {
        Ok(self.ring.read().map_err(poisoned)?.slots.len() as u64)
    }

    fn sync(&self) -> Result<(), MemoryError> {
        Ok(())
    }
}

fn poisoned<T>(_: std::sync::PoisonError<T>) -> MemoryError {
    MemoryError::Other("a writer panicked".into())
}

impl Filter {
    fn admits(&self, entry: &Entry) -> bool {
        self.domain.as_ref().is_none_or(|domain| *domain == entry.domain)
            && self.arm.as_ref().is_none_or(|arm| entry.outcomes.iter().any(|tried| tried.arm == *arm))
    }
}

impl Entry {
    fn as_neighbour(&self, seq: u64, similarity: f32) -> Neighbour {
        Neighbour { seq, task_id: self.task_id.clone(), similarity, outcomes: self.outcomes.clone() }
    }
}
