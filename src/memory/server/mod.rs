//! Memory on a Qdrant server or cluster: a ring in a collection there.
//!
//! Slots, payload and the order of entries are those of the embedded store. A server adds what a folder does not have:
//! it may be away, answer late, come back empty, or have done what it never confirmed. So opening needs no server; every
//! request has a deadline; a write is put under a condition that makes it harmless when it is applied late (see
//! [`points`]); and after every silence the collection is looked at anew (see [`ring`]). What can go wrong: the server is
//! away ([`MemoryError::Unavailable`], or [`MemoryError::Unknown`] after a write), the collection belongs to another
//! model, cap or program, or it lost entries: then a [`Memory::put`] that would leave a gap is refused once, and
//! [`Memory::held`] tells what is left.

mod breaker;
mod failure;
mod link;
mod points;
mod ring;
mod settings;

use std::sync::atomic::Ordering;

use tokio::runtime::Handle;

use self::{failure::Failure, link::Link, points::Numbered, ring::Ring};
use super::{Entries, Entry, Filter, Held, Memory, MemoryError, Shape, in_batches, ranked};
use crate::round::{Embedding, Neighbour};

pub use settings::{ApiKey, ServerSettings};

/// Entries in one request.
const WRITTEN: usize = 256;
const READ: u64 = 1_024;

/// A ring of entries on a Qdrant server. Its calls block, and must not come from a thread that runs async tasks.
pub struct ServerMemory {
    ring: Ring,
}

impl ServerMemory {
    /// Opens the memory on a server, or makes an empty one there. A server that does not answer is no error: the same is
    /// then done when it does. One of another model, dimension or cap is refused. Blocks; requests run on `handle`.
    pub fn open(settings: &ServerSettings, shape: &Shape, handle: Handle) -> Result<Self, MemoryError> {
        let ring = Ring::new(Link::new(settings.check()?, handle)?, shape);
        match ring.link.run(ring.ensure()) {
            Ok(()) | Err(MemoryError::Unavailable(_) | MemoryError::Unknown(_)) => Ok(Self { ring }),
            Err(error) => Err(error),
        }
    }

    /// What the memory on a server is made for; nothing where there is none. Blocks.
    pub fn shape_of(settings: &ServerSettings, handle: Handle) -> Result<Option<Shape>, MemoryError> {
        let nothing = Shape { model: String::new(), dimension: 0, cap: 1 };
        let ring = Ring::new(Link::new(settings.check()?, handle)?, &nothing);
        ring.link.run(async {
            match ring.marker().await {
                Ok(marker) => Ok(Some(marker.shape)),
                Err(Failure::Missing) => Ok(None),
                Err(failure) => Err(failure),
            }
        })
    }

    /// Writes what the ring has not forgotten by now.
    async fn write(&self, entries: &[Numbered<'_>]) -> Result<(), Failure> {
        let (Some((first_seq, _)), Some((last_seq, _))) = (entries.first(), entries.last()) else { return Ok(()) };
        let known = self.ring.next_seq.load(Ordering::Acquire);
        if *first_seq > known && self.ring.lost.swap(false, Ordering::AcqRel) {
            let place = &self.ring.link.place;
            let reason =
                format!("{place}: it lost entries, the next is {known} and not {first_seq}; nothing was written");
            return Err(Failure::Said(MemoryError::Unavailable(reason)));
        }
        let (cap, next_seq) = (self.ring.shape.cap, known.max(last_seq + 1));
        let kept = entries.partition_point(|(seq, _)| seq + cap < next_seq);
        for batch in entries[kept..].chunks(WRITTEN) {
            self.ring.link.upsert(&self.ring.link.place.collection, cap, batch).await?;
        }
        self.ring.next_seq.fetch_max(next_seq, Ordering::AcqRel);
        Ok(())
    }

    async fn read(&self, from: u64, n: usize) -> Result<Vec<(u64, Entry)>, Failure> {
        let cap = self.ring.shape.cap;
        let next_seq = self.ring.link.newest().await?.map_or(0, |newest| newest + 1);
        let mut found = Vec::new();
        let mut from = from.max(next_seq.saturating_sub(cap));
        while from < next_seq && found.len() < n {
            let to = next_seq.min(from + READ.min((n - found.len()) as u64));
            let mut slots = self.ring.link.slots((from..to).map(|seq| seq % cap)).await?;
            // A slot may hold an older entry, where one is missing, or a newer one, if it was overwritten meanwhile.
            slots.retain(|(seq, _)| (from..to).contains(seq));
            slots.sort_unstable_by_key(|(seq, _)| *seq);
            found.append(&mut slots);
            from = to;
        }
        Ok(found)
    }
}

impl Memory for ServerMemory {
    fn put(&self, first_seq: u64, entries: &[Entry]) -> Result<(), MemoryError> {
        entries.iter().try_for_each(|entry| self.ring.shape.check(&entry.embedding))?;
        let entries: Vec<Numbered<'_>> = (first_seq..).zip(entries).collect();
        self.ring.link.run(self.ring.with(async || self.write(&entries).await))
    }

    fn query(
        &self,
        embedding: &Embedding,
        k: usize,
        min_similarity: f32,
        filter: &Filter,
    ) -> Result<Vec<Neighbour>, MemoryError> {
        self.ring.shape.check(embedding)?;
        if k == 0 {
            return Ok(vec![]);
        }
        let nearest = self.ring.with(async || self.ring.link.nearest(embedding, k, filter).await);
        Ok(ranked(self.ring.link.recall(nearest)?, min_similarity))
    }

    fn scan(&self, from: u64, n: usize) -> Result<Vec<(u64, Entry)>, MemoryError> {
        self.ring.link.run(self.ring.with(async || self.read(from, n).await))
    }

    fn held(&self) -> Result<Held, MemoryError> {
        let held = self.ring.link.run(self.ring.with(async || {
            let marker = self.ring.marker().await?;
            let newest = self.ring.link.newest().await?;
            let next_seq = newest.map_or(0, |newest| newest + 1).max(marker.next_seq);
            Ok(Held { next_seq, count: self.ring.link.count().await?, origin: marker.origin })
        }))?;
        self.ring.lost.store(false, Ordering::Release);
        Ok(held)
    }

    /// Does nothing: a write is answered when it is applied, and in the server's log. The server brings its log to the
    /// disk every few seconds (`flush_interval_sec`) and cannot be asked to do so sooner. So what is stored survives
    /// the end of this process and of the server's; where the server's machine crashes, the newest seconds may be
    /// missing, which [`Memory::held`] tells, so that they can be put again. A replicated collection survives that too.
    fn sync(&self) -> Result<(), MemoryError> {
        Ok(())
    }

    /// Readers see the old content until the alias is moved, and then the new. What was written half-way is deleted by
    /// the next attempt.
    fn replace(&self, origin: Option<&str>, next_seq: u64, entries: Entries<'_>) -> Result<(), MemoryError> {
        let Ring { link, shape, .. } = &self.ring;
        let (present, fresh) = link.run(self.ring.prepare(next_seq))?;
        // The source may itself be such a memory, so that it is read outside of our requests.
        let write = |batch: &[Numbered<'_>]| link.run(link.upsert(&fresh, shape.cap, batch));
        in_batches(entries, shape, next_seq, WRITTEN, write)?;
        link.run(self.ring.exchange(present.as_deref(), &fresh, origin, next_seq))
    }
}

#[cfg(test)]
mod failures;
#[cfg(test)]
mod stub;
#[cfg(test)]
mod tests;
