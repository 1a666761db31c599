//! The one thread that recalls from a store whose queries share a pass.
//!
//! What waits when a pass ends is answered by the next one together, so the more tasks there are, the less each costs. A store
//! that is no cheaper for many queries at once (a server) is asked for each task on a thread that may block. What can go
//! wrong: a panic in the store, which is that recall's failure and ends nothing.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use tokio::sync::{mpsc, oneshot};

use super::{Filter, MIN_SIMILARITY, Memory, MemoryError, RECALL_K};
use crate::round::{Embedding, Neighbour};

/// Recalls that wait; further ones wait to be let in.
const QUEUE: usize = 1_024;
/// Queries of one pass at most.
const TOGETHER: usize = 128;

/// What came of a recall.
type Recalled = Result<Vec<Neighbour>, MemoryError>;

/// Recalls past tasks for many decisions at once.
pub struct Recaller {
    memory: Arc<dyn Memory>,
    thread: Option<Thread>,
}

struct Thread {
    asked: mpsc::Sender<Asked>,
    // Guards the handle, which the first `close` takes.
    handle: Mutex<Option<JoinHandle<()>>>,
}

enum Asked {
    Recall(Embedding, oneshot::Sender<Recalled>),
    End,
}

impl Recaller {
    /// Starts the thread, if the store's queries share a pass.
    pub fn start(memory: Arc<dyn Memory>) -> Result<Self, MemoryError> {
        if !memory.shares_passes() {
            return Ok(Self { memory, thread: None });
        }
        let (asked, waiting) = mpsc::channel(QUEUE);
        let store = Arc::clone(&memory);
        let handle = thread::Builder::new()
            .name("recall".into())
            .spawn(move || run(&*store, waiting))
            .map_err(|error| MemoryError::Other(format!("cannot start the recall thread: {error}")))?;
        Ok(Self { memory, thread: Some(Thread { asked, handle: Mutex::new(Some(handle)) }) })
    }

    /// The past tasks most alike.
    pub async fn recall(&self, embedding: &Embedding) -> Recalled {
        let gone = || MemoryError::Other("recall ended without an answer".into());
        let Some(thread) = &self.thread else {
            let (memory, embedding) = (Arc::clone(&self.memory), embedding.clone());
            let query = move || memory.query(&embedding, RECALL_K, MIN_SIMILARITY, &Filter::default());
            return tokio::task::spawn_blocking(query).await.map_err(|_| gone())?;
        };
        let (done, answer) = oneshot::channel();
        thread.asked.send(Asked::Recall(embedding.clone(), done)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Answers what was asked before and ends the thread. Blocks.
    pub fn close(&self) {
        let Some(thread) = &self.thread else { return };
        // An error means that it has ended.
        let _ = thread.asked.blocking_send(Asked::End);
        let handle = thread.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if handle.is_some_and(|handle| handle.join().is_err()) {
            tracing::error!("the recall thread panicked");
        }
    }
}

fn run(memory: &dyn Memory, mut waiting: mpsc::Receiver<Asked>) {
    let mut batch = Vec::with_capacity(TOGETHER);
    while waiting.blocking_recv_many(&mut batch, TOGETHER) > 0 {
        let mut ending = false;
        let (mut embeddings, mut done): (Vec<Embedding>, Vec<_>) = (Vec::new(), Vec::with_capacity(batch.len()));
        for asked in batch.drain(..) {
            match asked {
                Asked::Recall(embedding, to) => {
                    // Tasks of the same text get one answer.
                    let known = embeddings.iter().position(|known| *known == embedding);
                    done.push((known.unwrap_or(embeddings.len()), to));
                    if known.is_none() {
                        embeddings.push(embedding);
                    }
                }
                Asked::End => ending = true,
            }
        }
        let answers = catch_unwind(AssertUnwindSafe(|| memory.query_all(&embeddings, RECALL_K, MIN_SIMILARITY)));
        // Where it panicked, who asked is told by the channel's end.
        let answers = answers.unwrap_or_default();
        for (place, to) in done {
            if let Some(answer) = answers.get(place) {
                // A task that gave up needs no answer.
                let _ = to.send(answer.clone());
            }
        }
        if ending {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Entries, Entry, Held, ScanMemory, entry_for_tests},
        *,
    };

    /// Shares passes, and panics when it is asked for a certain entry.
    struct Fragile(ScanMemory, Embedding);

    impl Memory for Fragile {
        fn put(&self, first_seq: u64, entries: &[Entry]) -> Result<(), MemoryError> {
            self.0.put(first_seq, entries)
        }

        fn query(&self, embedding: &Embedding, k: usize, min: f32, filter: &Filter) -> Recalled {
            assert_ne!(*embedding, self.1, "it panics, as it is to");
            self.0.query(embedding, k, min, filter)
        }

        fn shares_passes(&self) -> bool {
            true
        }

        fn scan(&self, from: u64, n: usize) -> Result<Vec<(u64, Entry)>, MemoryError> {
            self.0.scan(from, n)
        }

        fn held(&self) -> Result<Held, MemoryError> {
            self.0.held()
        }

        fn sync(&self) -> Result<(), MemoryError> {
            self.0.sync()
        }

        fn replace(&self, origin: Option<&str>, next_seq: u64, entries: Entries<'_>) -> Result<(), MemoryError> {
            self.0.replace(origin, next_seq, entries)
        }
    }

    fn embedding(seq: u64) -> Embedding {
        entry_for_tests(seq).embedding
    }

    #[tokio::test]
    async fn each_of_many_at_once_gets_its_own_answer_and_a_panic_is_that_of_its_pass_only() {
        let memory = Arc::new(Fragile(ScanMemory::new(500), embedding(0)));
        memory.put(0, &(0..500).map(entry_for_tests).collect::<Vec<_>>()).unwrap();
        let recaller = Arc::new(Recaller::start(Arc::clone(&memory) as Arc<dyn Memory>).unwrap());
        assert!(recaller.recall(&embedding(0)).await.is_err());
        // Each twice, so that some of one text meet.
        let asked: Vec<u64> = (1..200).flat_map(|seq| [seq, seq]).collect();
        let answers = futures::future::join_all(asked.iter().map(|seq| {
            let recaller = Arc::clone(&recaller);
            async move { recaller.recall(&embedding(*seq)).await.unwrap() }
        }));
        for (seq, answer) in asked.iter().copied().zip(answers.await) {
            assert_eq!(answer, memory.query(&embedding(seq), RECALL_K, MIN_SIMILARITY, &Filter::default()).unwrap());
            assert_eq!(answer[0].seq, seq);
        }
        let closing = Arc::clone(&recaller);
        tokio::task::spawn_blocking(move || closing.close()).await.unwrap();
        assert!(recaller.recall(&embedding(1)).await.is_err(), "nobody is left to answer");
    }
}
