//! The one thread that writes memory.
//!
//! The learner hands over entries in order and goes on; what cannot be written stays queued and is put again under the
//! same number, at growing intervals, so that a store that was away catches up by itself. The queue never holds more than
//! the ring would: older entries would be evicted anyway. What is still queued at the end is written again from the
//! journal at the next start, so nothing acknowledged is lost.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{Entry, Held, Memory, MemoryError};
use crate::telemetry::Metric;

/// Entries put in one call.
const BATCH: usize = 256;
/// With more entries waiting than this, and a store that answers, who hands over the next one waits too.
const WAITING_MAX: usize = 4_096;
/// How often memory is flushed while it changes.
const SYNC_EVERY: Duration = Duration::from_secs(5);
/// The first and the longest pause after a failure.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// All entries of a snapshot, opened anew for each attempt.
pub type Source = Box<dyn Fn() -> Result<EntryIterator, MemoryError> + Send>;
/// Entries with their numbers, owned.
pub type EntryIterator = Box<dyn Iterator<Item = Result<(u64, Entry), MemoryError>>>;

/// How far memory is behind what was learnt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = MemoryLevel)]
pub struct Level {
    /// Entries in memory.
    pub entries: u64,
    /// Entries that are not written yet.
    pub behind: u64,
    /// Why the last attempt failed, while it does.
    pub failing: Option<String>,
}

/// Owns the thread. Dropping it without [`MemoryWriter::close`] leaves the queue to the next start.
pub struct MemoryWriter {
    shared: Arc<Shared>,
    // Guards the thread's handle, which the first `close` takes.
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    memory: Arc<dyn Memory>,
    cap: u64,
    // Guards what is to be written.
    queue: Mutex<Queue>,
    changed: Condvar,
    // Held while memory is written, and by whoever needs it to stand still.
    turn: Mutex<()>,
}

#[derive(Default)]
struct Queue {
    /// Goes before the entries.
    replacement: Option<Replacement>,
    /// Whether one is being put in place.
    replacing: bool,
    first_seq: u64,
    entries: VecDeque<Entry>,
    held: u64,
    failing: Option<MemoryError>,
    closing: bool,
}

struct Replacement {
    origin: Option<String>,
    next_seq: u64,
    source: Source,
}

enum Work {
    Replace(Replacement),
    Put(u64, Vec<Entry>),
    Sync,
    End,
}

impl MemoryWriter {
    /// Starts the thread for a store of `cap` slots that now holds `held` entries.
    pub fn start(memory: Arc<dyn Memory>, cap: u64, held: u64) -> Result<Self, MemoryError> {
        let queue = Queue { held, ..Queue::default() };
        let shared = Shared { memory, cap, queue: Mutex::new(queue), changed: Condvar::new(), turn: Mutex::default() };
        let shared = Arc::new(shared);
        let working = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("memory".into())
            .spawn(move || working.run())
            .map_err(|error| MemoryError::Other(format!("cannot start the memory thread: {error}")))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Hands over the entry `seq`, one above the last. Waits only while very many are queued.
    pub fn push(&self, seq: u64, entry: Entry) {
        let mut queue = self.shared.queue();
        while queue.entries.len() >= WAITING_MAX && queue.failing.is_none() && !queue.closing {
            queue = self.shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.entries.is_empty() {
            queue.first_seq = seq;
        }
        queue.entries.push_back(entry);
        if queue.entries.len() as u64 > self.shared.cap {
            queue.entries.pop_front();
            queue.first_seq += 1;
        }
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Replaces all content, also what is queued; the next entry is then `next_seq`. Done when [`MemoryWriter::level`]
    /// is; until it succeeds it is tried again.
    pub fn replace(&self, origin: Option<String>, next_seq: u64, source: Source) {
        let mut queue = self.shared.queue();
        queue.entries.clear();
        queue.first_seq = next_seq;
        queue.replacement = Some(Replacement { origin, next_seq, source });
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// How far memory is.
    pub fn level(&self) -> Level {
        let queue = self.shared.queue();
        Level { entries: queue.held, behind: queue.behind(), failing: queue.failing.as_ref().map(ToString::to_string) }
    }

    /// Waits until everything is written; `progress` is told how much is not. Ends early with the store's error when it
    /// fails: the thread goes on trying. Blocks.
    pub fn wait(&self, progress: impl Fn(u64)) -> Result<(), MemoryError> {
        let mut queue = self.shared.queue();
        loop {
            progress(queue.behind());
            if let Some(error) = &queue.failing {
                return Err(error.clone());
            }
            if queue.behind() == 0 {
                return Ok(());
            }
            queue = self.shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Memory stands still while the guard lives. Blocks until the write under way is done.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.shared.turn()
    }

    /// Writes what is queued, if the store answers, flushes it and ends the thread. Blocks.
    pub fn close(&self) {
        self.shared.queue().closing = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the memory thread panicked; the journal has its entries");
        }
    }
}

impl Queue {
    fn behind(&self) -> u64 {
        self.entries.len() as u64 + u64::from(self.replacement.is_some() || self.replacing)
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut dirty_since: Option<Instant> = None;
        let mut pause = PAUSE.0;
        loop {
            let done = match self.next(dirty_since) {
                Work::Replace(replacement) => self.refill(replacement),
                Work::Put(first_seq, batch) => self.put(first_seq, &batch),
                Work::Sync => {
                    dirty_since = None;
                    self.sync();
                    continue;
                }
                Work::End => {
                    self.sync();
                    return;
                }
            };
            dirty_since = dirty_since.or_else(|| Some(Instant::now()));
            match done {
                Ok(()) => pause = PAUSE.0,
                Err(error) => {
                    if self.failed(error, pause) {
                        self.sync();
                        return;
                    }
                    pause = (pause * 2).min(PAUSE.1);
                }
            }
        }
    }

    /// Waits for something to do.
    fn next(&self, dirty_since: Option<Instant>) -> Work {
        let mut queue = self.queue();
        loop {
            let due = dirty_since.map(|since| SYNC_EVERY.saturating_sub(since.elapsed()));
            if due.is_some_and(|due| due.is_zero()) && queue.failing.is_none() {
                return Work::Sync;
            }
            if let Some(replacement) = queue.replacement.take() {
                queue.replacing = true;
                return Work::Replace(replacement);
            }
            if !queue.entries.is_empty() {
                return Work::Put(queue.first_seq, queue.entries.iter().take(BATCH).cloned().collect());
            }
            if queue.closing {
                return Work::End;
            }
            queue = match due {
                Some(due) => self.changed.wait_timeout(queue, due).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn put(&self, first_seq: u64, batch: &[Entry]) -> Result<(), MemoryError> {
        let put = {
            let _turn = self.turn();
            // One bad entry must not keep the others out.
            match self.memory.put(first_seq, batch) {
                Err(MemoryError::Invalid(_)) => (first_seq..).zip(batch).try_for_each(|(seq, entry)| {
                    match self.memory.put(seq, std::slice::from_ref(entry)) {
                        Err(MemoryError::Invalid(reason)) => {
                            metrics::counter!(Metric::MemoryFailures.name()).increment(1);
                            tracing::error!(%reason, seq, "memory can never take an entry; it is left out");
                            Ok(())
                        }
                        put => put,
                    }
                }),
                put => put,
            }
        };
        put?;
        let mut queue = self.queue();
        // Some of them may have been overtaken meanwhile, or everything replaced.
        let end = first_seq + batch.len() as u64;
        if queue.replacement.is_none() {
            let written = end.saturating_sub(queue.first_seq).min(queue.entries.len() as u64);
            queue.entries.drain(..usize::try_from(written).unwrap_or(usize::MAX));
            queue.first_seq += written;
            queue.held = (queue.held + batch.len() as u64).min(self.cap);
        }
        self.succeeded(queue);
        Ok(())
    }

    fn refill(&self, replacement: Replacement) -> Result<(), MemoryError> {
        let Replacement { origin, next_seq, source } = replacement;
        let replaced = {
            let _turn = self.turn();
            let mut entries = source();
            match &mut entries {
                Ok(entries) => self.memory.replace(origin.as_deref(), next_seq, entries),
                Err(error) => Err(error.clone()),
            }
        };
        match replaced.and_then(|()| self.memory.held()) {
            Ok(Held { count, .. }) => {
                let mut queue = self.queue();
                queue.held = count;
                queue.replacing = false;
                self.succeeded(queue);
                Ok(())
            }
            Err(error) => {
                let mut queue = self.queue();
                queue.replacing = false;
                // Unless another one has come meanwhile.
                queue.replacement.get_or_insert(Replacement { origin, next_seq, source });
                Err(error)
            }
        }
    }

    fn succeeded(&self, mut queue: MutexGuard<'_, Queue>) {
        if queue.failing.take().is_some() {
            tracing::info!(behind = queue.behind(), "memory takes entries again");
        }
        metrics::gauge!(Metric::MemoryEntries.name()).set(queue.held as f64);
        metrics::gauge!(Metric::MemoryBehind.name()).set(queue.behind() as f64);
        drop(queue);
        self.changed.notify_all();
    }

    /// Takes note and waits for the next attempt. True when there will be none.
    fn failed(&self, error: MemoryError, pause: Duration) -> bool {
        metrics::counter!(Metric::MemoryFailures.name()).increment(1);
        let mut queue = self.queue();
        metrics::gauge!(Metric::MemoryBehind.name()).set(queue.behind() as f64);
        if queue.failing.is_none() {
            tracing::error!(%error, "memory does not take entries; they are kept and tried again");
        }
        queue.failing = Some(error);
        self.changed.notify_all();
        let started = Instant::now();
        while !queue.closing && started.elapsed() < pause {
            let left = pause.saturating_sub(started.elapsed());
            queue = self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.closing
    }

    fn sync(&self) {
        let synced = {
            let _turn = self.turn();
            self.memory.sync().and_then(|()| self.memory.held())
        };
        match synced {
            Ok(Held { count, .. }) => {
                let believed = std::mem::replace(&mut self.queue().held, count);
                metrics::gauge!(Metric::MemoryEntries.name()).set(count as f64);
                // A batch may be on its way; what is put again is counted twice until now.
                if count + BATCH as u64 <= believed {
                    tracing::error!(count, believed, "memory lost entries; the next start writes them again");
                }
            }
            Err(error) => {
                metrics::counter!(Metric::MemoryFailures.name()).increment(1);
                tracing::error!(%error, "memory was not flushed; the journal has its entries");
            }
        }
    }
}
