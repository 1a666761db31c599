//! From learnt rounds to memory's entries: which round is which entry, and what memory lacks.
//!
//! Entries are numbered in journal order, from zero or from where the snapshot ended that was restored last. So the
//! journal and that snapshot tell all that memory should hold, and a store that lacks some, or all, is filled from them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    journal::{Decided, JournalError, JournalReader, Restored},
    memory::{Entry, Held, MemoryError, MemoryWriter, snapshot::SnapshotStore},
    round::{Feedback, TriedArm, VerdictStatus},
};

/// How much of the verifiers' words memory keeps.
const TRACE_CHARS: usize = 200;

/// The fold that fills memory.
pub(super) struct Recollection {
    writer: Arc<MemoryWriter>,
    snapshots: Arc<SnapshotStore>,
    expected: Expected,
    /// The number of the next entry.
    seq: u64,
    /// Entries below this number are in memory already.
    from: u64,
    /// Whether the last restoration is still to come in the journal: what is before it was replaced.
    waiting: bool,
    /// How often memory's content was replaced while tasks flow.
    restorations: Arc<AtomicU64>,
}

/// What the journal tells that memory should hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    /// The last restoration and its place in the journal.
    restored: Option<(i64, Restored)>,
    /// One above the highest number.
    next_seq: u64,
}

impl Expected {
    /// What it should hold when `memory_seq` entries were counted up to a place in the journal.
    pub async fn of(journal: &JournalReader, at: i64, memory_seq: u64) -> Result<Self, JournalError> {
        let restored = journal.last_restored().await?;
        let (at, counted) = match &restored {
            Some((place, restored)) if *place > at => (*place, restored.next_seq),
            Some(_) | None => (at, memory_seq),
        };
        Ok(Self { restored, next_seq: counted + journal.verified_after(at).await? })
    }

    /// The snapshot that memory rests on.
    pub fn restored(&self) -> Option<&Restored> {
        self.restored.as_ref().map(|(_, restored)| restored)
    }

    /// How many entries a store holds that got as far as `next_seq` and evicted none.
    fn count(&self, next_seq: u64) -> u64 {
        match self.restored() {
            Some(restored) => restored.entries + next_seq.saturating_sub(restored.next_seq),
            None => next_seq,
        }
    }

    /// An error when a store holds more than the journal tells of, or rests on a snapshot that the journal does not name.
    pub fn admits(&self, held: &Held, place: &str) -> Result<(), MemoryError> {
        let origin = self.restored().map(|restored| &restored.digest);
        let foreign = held.origin.is_some() && self.restored.is_none();
        if foreign || (held.origin.as_ref() == origin && held.next_seq > self.next_seq) {
            let (entries, rounds) = (held.next_seq, self.next_seq);
            return Err(MemoryError::Ahead { place: place.into(), entries, rounds });
        }
        Ok(())
    }
}

impl Recollection {
    /// Compares what memory holds with what the journal tells, before the journal is read from its beginning. `held` is
    /// nothing where memory does not answer: then it is filled when it comes back, and writing again what it has
    /// changes nothing.
    pub fn start(
        writer: Arc<MemoryWriter>,
        snapshots: Arc<SnapshotStore>,
        cap: u64,
        held: Option<Held>,
        expected: Expected,
    ) -> Self {
        let base = expected.restored().map_or(0, |restored| restored.next_seq);
        let newest = expected.next_seq.saturating_sub(cap).max(base);
        let origin = expected.restored().map(|restored| restored.digest.clone());
        let level = held.as_ref().is_some_and(|held| held.origin == origin);
        // A store that lost entries and took later ones has holes: all is written again.
        let whole = held.as_ref().is_some_and(|held| level && held.count >= expected.count(held.next_seq).min(cap));
        let from = held.filter(|_| whole).map_or(newest, |held| held.next_seq.max(newest));
        let recollection =
            Self { writer, snapshots, seq: 0, from, waiting: origin.is_some(), expected, restorations: Arc::default() };
        if let Some(restored) = recollection.expected.restored().filter(|_| !whole) {
            let kept = recollection.snapshots.get(&restored.snapshot).is_ok_and(|kept| kept.digest == restored.digest);
            if kept || !level {
                recollection.refill(restored);
            }
        }
        recollection
    }

    /// How many entries memory is given while the journal is read.
    pub fn lacking(&self) -> u64 {
        self.expected.next_seq.saturating_sub(self.from)
    }

    /// Where the journal has to be read from, so that memory is given all that it lacks, when entries were counted up to
    /// `memory_seq` at a place.
    pub async fn begin(&mut self, journal: &JournalReader, at: i64, memory_seq: u64) -> Result<i64, JournalError> {
        let (mut after, mut seq) = (at, memory_seq);
        let replaced = self.expected.restored.as_ref().is_some_and(|(place, _)| *place > at);
        if self.from < memory_seq && !replaced {
            let (first, found) = journal.verified_back(at, memory_seq - self.from).await?;
            if found > 0 {
                (after, seq) = (first - 1, memory_seq - found);
            }
        }
        (self.seq, self.waiting) = (seq, replaced);
        Ok(after)
    }

    /// Passes the restoration at a place in the journal, while that is read.
    pub fn pass(&mut self, at: i64, restored: &Restored) {
        self.seq = restored.next_seq;
        self.waiting = self.expected.restored.as_ref().is_some_and(|(last, _)| *last > at);
    }

    /// Restores a snapshot now.
    pub fn restore(&mut self, restored: &Restored) {
        self.seq = restored.next_seq;
        self.from = restored.next_seq;
        self.refill(restored);
        self.restorations.fetch_add(1, Ordering::Release);
    }

    /// Counts them.
    pub fn restorations(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.restorations)
    }

    /// One more learnt round.
    pub fn learn(&mut self, decided: &Decided, feedback: &Feedback, score: f64, at_ms: i64) {
        if self.seq >= self.from && !self.waiting {
            self.writer.push(self.seq, entry(decided, feedback, score, at_ms));
        }
        self.seq += 1;
    }

    fn refill(&self, restored: &Restored) {
        let (snapshots, wanted) = (Arc::clone(&self.snapshots), restored.clone());
        let source = move || snapshots.entries_of(&wanted.snapshot, &wanted.digest);
        self.writer.replace(Some(restored.digest.clone()), restored.next_seq, Box::new(source));
    }
}

fn entry(decided: &Decided, feedback: &Feedback, score: f64, at_ms: i64) -> Entry {
    let Decided { task, context, decision, .. } = decided;
    Entry {
        task_id: task.id.clone(),
        domain: task.domain.clone(),
        at_ms,
        embedding: context.embedding.clone(),
        outcomes: vec![TriedArm {
            mode: decision.mode,
            arm: decision.arm.clone(),
            score,
            cost_usd: feedback.cost_usd,
            trace: trace(feedback),
        }],
    }
}

/// The verifiers' first words, short.
fn trace(feedback: &Feedback) -> String {
    let lines = feedback.verdicts.iter().filter_map(|verdict| {
        let line = verdict.trace.first()?;
        (verdict.status == VerdictStatus::Scored).then(|| format!("{}: {line}", verdict.verifier))
    });
    lines.collect::<Vec<_>>().join("; ").chars().take(TRACE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, ScanMemory, Shape};

    const CAP: u64 = 100;

    fn restored(next_seq: u64, entries: u64) -> Restored {
        Restored { snapshot: "kept".into(), digest: "digest".into(), next_seq, entries }
    }

    fn expected(next_seq: u64, restored: Option<Restored>) -> Expected {
        Expected { restored: restored.map(|restored| (1, restored)), next_seq }
    }

    fn held(next_seq: u64, count: u64, origin: Option<&str>) -> Held {
        Held { next_seq, count, origin: origin.map(Into::into) }
    }

    /// Entries that memory is given from the journal.
    fn lacking(held: Option<Held>, expected: Expected) -> u64 {
        let folder = tempfile::tempdir().unwrap();
        let memory = Arc::new(ScanMemory::new(CAP));
        let writer = Arc::new(MemoryWriter::start(memory, CAP, 0).unwrap());
        let snapshots = Arc::new(SnapshotStore::new(folder.path()));
        Recollection::start(writer, snapshots, CAP, held, expected).lacking()
    }

    #[test]
    fn memory_is_given_what_it_lacks_and_no_more() {
        assert_eq!(lacking(Some(held(0, 0, None)), expected(30, None)), 30);
        assert_eq!(lacking(Some(held(30, 30, None)), expected(30, None)), 0);
        assert_eq!(lacking(Some(held(20, 20, None)), expected(30, None)), 10);
        assert_eq!(lacking(Some(held(20, 20, None)), expected(1_000, None)), CAP);
        assert_eq!(lacking(Some(held(990, CAP, None)), expected(1_000, None)), 10);
        // It does not answer: all that it may lack.
        assert_eq!(lacking(None, expected(1_000, None)), CAP);
        // Holes: it lost some and took later ones.
        assert_eq!(lacking(Some(held(30, 29, None)), expected(30, None)), 30);
        assert_eq!(lacking(Some(held(1_000, CAP - 1, None)), expected(1_000, None)), CAP);
    }

    #[test]
    fn what_was_restored_is_not_asked_of_the_journal() {
        let rounds = |next_seq| expected(next_seq, Some(restored(50, 50)));
        assert_eq!(lacking(Some(held(53, 53, Some("digest"))), rounds(60)), 7);
        // The crash came before the snapshot was in place.
        assert_eq!(lacking(Some(held(9, 9, None)), rounds(60)), 10);
    }

    #[test]
    fn a_store_that_knows_more_than_the_journal_is_another_ones() {
        expected(30, None).admits(&held(30, 30, None), "here").unwrap();
        for (foreign, journal) in [
            (held(31, 31, None), expected(30, None)),
            (held(3, 3, Some("digest")), expected(30, None)),
            (held(61, 61, Some("digest")), expected(60, Some(restored(50, 50)))),
        ] {
            assert!(matches!(journal.admits(&foreign, "here"), Err(MemoryError::Ahead { .. })));
        }
        // A crash came before a smaller snapshot was in place.
        expected(60, Some(restored(50, 50))).admits(&held(900, 100, None), "here").unwrap();
    }

    #[test]
    fn replaced_rounds_are_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Arc::new(ScanMemory::new(CAP));
        let writer = Arc::new(MemoryWriter::start(Arc::clone(&memory) as Arc<dyn Memory>, CAP, 0).unwrap());
        let snapshots = Arc::new(SnapshotStore::new(folder.path()));
        // A snapshot of three entries, taken elsewhere.
        let elsewhere = ScanMemory::new(CAP);
        for seq in 0..3 {
            elsewhere.put(seq, &[crate::memory::entry_for_tests(seq)]).unwrap();
        }
        let shape = Shape { model: "model".into(), dimension: 8, cap: CAP };
        let made = snapshots.create(Some("kept"), &elsewhere, &shape, 0).unwrap();
        let restored = Restored { snapshot: "kept".into(), digest: made.digest.clone(), next_seq: 3, entries: 3 };
        let expected = expected(3, Some(restored.clone()));
        let mut recollection =
            Recollection::start(Arc::clone(&writer), snapshots, CAP, Some(held(0, 0, None)), expected);
        recollection.pass(1, &restored);
        assert!(!recollection.waiting && recollection.seq == 3);
        writer.wait(|_| {}).unwrap();
        assert_eq!(memory.held().unwrap(), held(3, 3, Some(&made.digest)));
    }
}
