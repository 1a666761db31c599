//! The writer against a store that fails on demand.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use super::{contract::*, *};

/// A store that is away while `away` is set, refuses entry `poison` for good, and notes what it was given.
struct Flaky {
    inner: ScanMemory,
    away: AtomicBool,
    poison: Option<u64>,
    // Guards the numbers put, in order.
    put: Mutex<Vec<u64>>,
}

impl Flaky {
    fn new(poison: Option<u64>) -> Arc<Self> {
        let inner = ScanMemory::new(SLOTS);
        Arc::new(Self { inner, away: AtomicBool::new(false), poison, put: Mutex::default() })
    }

    fn answer(&self) -> Result<(), MemoryError> {
        if self.away.load(Ordering::SeqCst) { Err(MemoryError::Unavailable("away".into())) } else { Ok(()) }
    }
}

impl Memory for Flaky {
    fn put(&self, first_seq: u64, entries: &[Entry]) -> Result<(), MemoryError> {
        self.answer()?;
        let range = first_seq..first_seq + entries.len() as u64;
        if self.poison.is_some_and(|poison| range.contains(&poison)) {
            return Err(MemoryError::Invalid("poison".into()));
        }
        self.put.lock().unwrap().extend(range);
        self.inner.put(first_seq, entries)
    }

    fn query(
        &self,
        embedding: &Embedding,
        k: usize,
        min_similarity: f32,
        filter: &Filter,
    ) -> Result<Vec<Neighbour>, MemoryError> {
        self.inner.query(embedding, k, min_similarity, filter)
    }

    fn scan(&self, from: u64, n: usize) -> Result<Vec<(u64, Entry)>, MemoryError> {
        self.inner.scan(from, n)
    }

    fn held(&self) -> Result<Held, MemoryError> {
        self.answer()?;
        self.inner.held()
    }

    fn sync(&self) -> Result<(), MemoryError> {
        self.answer()
    }

    fn replace(&self, origin: Option<&str>, next_seq: u64, entries: Entries<'_>) -> Result<(), MemoryError> {
        self.answer()?;
        self.inner.replace(origin, next_seq, entries)
    }
}

fn start(memory: &Arc<Flaky>) -> MemoryWriter {
    MemoryWriter::start(Arc::clone(memory) as Arc<dyn Memory>, SLOTS, 0).unwrap()
}

fn push(writer: &MemoryWriter, range: std::ops::Range<u64>) {
    range.for_each(|seq| writer.push(seq, entry(seq)));
}

/// Waits until the store has answered with a failure.
fn until_failing(writer: &MemoryWriter) {
    while writer.level().failing.is_none() {
        std::thread::yield_now();
    }
}

fn until_level(writer: &MemoryWriter) {
    while writer.wait(|_| {}).is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn entries_arrive_in_order_once() {
    let memory = Flaky::new(None);
    let writer = MemoryWriter::start(Arc::clone(&memory) as Arc<dyn Memory>, 10_000, 0).unwrap();
    push(&writer, 0..6_000);
    writer.wait(|_| {}).unwrap();
    assert_eq!(*memory.put.lock().unwrap(), (0..6_000).collect::<Vec<_>>());
    assert_eq!(writer.level(), Level { entries: 6_000, behind: 0, failing: None });
    writer.close();
}

#[test]
fn a_store_that_was_away_catches_up_and_lacks_nothing() {
    let memory = Flaky::new(None);
    let writer = start(&memory);
    push(&writer, 0..3);
    writer.wait(|_| {}).unwrap();
    memory.away.store(true, Ordering::SeqCst);
    push(&writer, 3..5);
    until_failing(&writer);
    push(&writer, 5..6);
    assert_eq!(writer.level().behind, 3);
    assert!(matches!(writer.wait(|_| {}), Err(MemoryError::Unavailable(_))));
    memory.away.store(false, Ordering::SeqCst);
    until_level(&writer);
    assert_eq!(seqs(&memory.inner), [0, 1, 2, 3, 4, 5]);
    writer.close();
}

#[test]
fn what_the_ring_would_have_forgotten_is_not_kept() {
    let memory = Flaky::new(None);
    let writer = start(&memory);
    memory.away.store(true, Ordering::SeqCst);
    push(&writer, 0..1);
    until_failing(&writer);
    push(&writer, 1..50);
    assert_eq!(writer.level().behind, SLOTS);
    memory.away.store(false, Ordering::SeqCst);
    until_level(&writer);
    assert_eq!(seqs(&memory.inner), (50 - SLOTS..50).collect::<Vec<_>>());
    writer.close();
}

#[test]
fn an_entry_that_can_never_be_taken_keeps_no_other_out() {
    let memory = Flaky::new(Some(4));
    let writer = start(&memory);
    push(&writer, 0..7);
    writer.wait(|_| {}).unwrap();
    assert_eq!(seqs(&memory.inner), [0, 1, 2, 3, 5, 6]);
    writer.close();
}

#[test]
fn a_replacement_drops_what_was_queued_and_is_tried_until_it_succeeds() {
    let memory = Flaky::new(None);
    let writer = start(&memory);
    memory.away.store(true, Ordering::SeqCst);
    push(&writer, 0..3);
    until_failing(&writer);
    let source = || -> Result<EntryIterator, MemoryError> { Ok(Box::new((20..23).map(|seq| Ok((seq, entry(seq)))))) };
    writer.replace(Some("snapshot".into()), 23, Box::new(source));
    push(&writer, 23..25);
    memory.away.store(false, Ordering::SeqCst);
    until_level(&writer);
    assert_eq!(seqs(&memory.inner), [20, 21, 22, 23, 24]);
    assert_eq!(memory.inner.held().unwrap().origin.as_deref(), Some("snapshot"));
    writer.close();
}

#[test]
fn closing_writes_what_is_queued_and_does_not_wait_for_a_store_that_is_away() {
    let memory = Flaky::new(None);
    let writer = start(&memory);
    push(&writer, 0..SLOTS);
    writer.close();
    assert_eq!(*memory.put.lock().unwrap(), (0..SLOTS).collect::<Vec<_>>());
    let writer = start(&memory);
    memory.away.store(true, Ordering::SeqCst);
    push(&writer, SLOTS..SLOTS + 1);
    writer.close();
    assert_eq!(memory.put.lock().unwrap().len() as u64, SLOTS);
}

#[test]
fn memory_stands_still_while_it_is_held() {
    let memory = Flaky::new(None);
    let writer = start(&memory);
    let still = writer.hold();
    push(&writer, 0..5);
    assert_eq!(writer.level().behind, 5);
    assert!(seqs(&memory.inner).is_empty());
    drop(still);
    writer.wait(|_| {}).unwrap();
    assert_eq!(seqs(&memory.inner).len(), 5);
    writer.close();
}
