//! Several copies of the model behind one async door.
//!
//! A text goes through a cache, then a bounded queue, then a copy of the model on a thread of its own; [`super::batch`]
//! says which texts share a run. The same text asked for many times at once is computed once. What can go wrong: the
//! queue is full ([`EmbeddingError::Busy`]: the caller sheds load), or the model fails or panics on a batch, which is
//! then tried again text by text, so that only the text at fault fails. A copy that panicked is dropped, and a fresh
//! one loaded for the next batch.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use fastembed::QuantizationMode;
use futures::{StreamExt, TryStreamExt, stream};
use moka::future::Cache;
use tokio::sync::{Semaphore, oneshot};

use super::{
    Embedder, EmbeddingError, EmbeddingSettings, ModelFiles,
    batch::{BATCH_BYTES_MAX, Job, Queue},
    text::prepare,
};
use crate::round::Embedding;

/// Texts computed or waiting per session: at 10 to 70 ms each, the last waits some 2 to 9 s, after which shedding load
/// serves the client better.
const QUEUE_PER_SESSION: usize = 128;
/// Batches per session that [`EmbeddingPool::embed_many`] lets wait, so that texts of equal length meet.
const WINDOW_BATCHES: usize = 4;

/// Turns texts into vectors, many at a time. Cheap to share behind an `Arc`; dropping it waits for the batches at work.
pub struct EmbeddingPool {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
    count: Count,
    cache: Cache<[u8; 32], Embedding>,
    places: Semaphore,
    places_max: usize,
    batch_max: usize,
    max_tokens: usize,
    model_id: String,
    dimension: usize,
}

impl EmbeddingPool {
    /// Loads `settings.sessions` copies of the model in parallel, in about a second, and tries whether a batch changes
    /// a vector's bits here; blocks.
    pub fn start(files: ModelFiles, settings: &EmbeddingSettings) -> Result<Self, EmbeddingError> {
        let (model_id, dimension) = (files.model_id().to_owned(), files.dimension());
        let max_tokens = settings.max_tokens;
        // What is quantised while it runs is quantised by what else is in the batch.
        let batch_max = if files.quantization == QuantizationMode::Dynamic { 1 } else { settings.batch_max };
        let settings = EmbeddingSettings { batch_max, ..settings.clone() };
        Self::start_with(&settings, model_id, dimension, move || Ok(Box::new(Embedder::load(&files, max_tokens)?)))
    }

    fn start_with(
        settings: &EmbeddingSettings,
        model_id: String,
        dimension: usize,
        load: impl Fn() -> Result<Box<dyn Encoder>, EmbeddingError> + Send + Sync + 'static,
    ) -> Result<Self, EmbeddingError> {
        let sessions = settings.sessions;
        if sessions == 0 {
            return Err(EmbeddingError::Settings("embedding.sessions is 0: it must be at least 1".into()));
        }
        let loaded: Vec<_> = thread::scope(|scope| {
            let loading: Vec<_> = (0..sessions).map(|_| scope.spawn(&load)).collect();
            // All are joined before any is looked at: the scope would panic for one that nobody joined.
            loading.into_iter().map(|copy| copy.join().unwrap_or_else(|_| Err(panicked()))).collect()
        });
        let mut copies = loaded.into_iter().collect::<Result<Vec<_>, _>>()?;
        let count = copies[0].counter();
        let batch_max =
            if exact_in_batches(&mut *copies[0], &count, settings.batch_max)? { settings.batch_max } else { 1 };
        let places_max = sessions.saturating_mul(QUEUE_PER_SESSION).min(Semaphore::MAX_PERMITS);
        let shared = Arc::new(Shared {
            load: Box::new(load),
            wait: settings.batch_wait,
            state: Mutex::new(State { queue: Queue::new(sessions, batch_max), filling: 0, stopping: false }),
            changed: Condvar::new(),
        });
        // Owns the threads from here on, so that a failed start stops those that run.
        let mut pool = Self {
            shared,
            threads: Vec::with_capacity(sessions),
            count,
            cache: Cache::new(settings.cache_entries),
            places: Semaphore::new(places_max),
            places_max,
            batch_max,
            max_tokens: settings.max_tokens,
            model_id,
            dimension,
        };
        for (number, copy) in copies.into_iter().enumerate() {
            let shared = Arc::clone(&pool.shared);
            let named = thread::Builder::new().name(format!("embedding-{number}"));
            let spawned = named.spawn(move || shared.work(copy)).map_err(|error| {
                EmbeddingError::Settings(format!("embedding.sessions is {sessions}: no thread for one more ({error})"))
            })?;
            pool.threads.push(spawned);
        }
        Ok(pool)
    }

    /// One text's vector. Refuses a blank text, and any text while too many are waiting.
    pub async fn embed(&self, text: &str) -> Result<Embedding, EmbeddingError> {
        let text = prepare(text, self.max_tokens)?;
        let key = self.key(&text);
        if let Some(known) = self.cache.get(&key).await {
            return Ok(known);
        }
        let _place = self.places.try_acquire().map_err(|_| EmbeddingError::Busy { limit: self.places_max })?;
        self.compute(key, &text).await
    }

    /// Every text's vector, in order, for replay: takes no place in the queue and waits as long as it takes. Calls
    /// `progress` with (done, total) after each text; ends at the first error.
    pub async fn embed_many<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        progress: &(dyn Fn(usize, usize) + Send + Sync),
    ) -> Result<Vec<Embedding>, EmbeddingError> {
        let mut done = 0;
        let window = self.threads.len().saturating_mul(self.batch_max).saturating_mul(WINDOW_BATCHES);
        // By index, because a closure over borrowed texts would keep the future from being `Send`.
        let mut vectors =
            stream::iter(0..texts.len()).map(|index| self.embed_patiently(texts[index].as_ref())).buffered(window);
        let mut all = Vec::with_capacity(texts.len());
        while let Some(vector) = vectors.try_next().await? {
            all.push(vector);
            done += 1;
            progress(done, texts.len());
        }
        Ok(all)
    }

    /// The model's id, such as `all-MiniLM-L6-v2`: vectors of different ids must never be compared.
    pub fn model_id(&self) -> &str {
        &self.model_id
    }

    /// The vectors' length.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Texts that may share a run of the model: `batch_max` of the settings, or 1 where a batch would change bits.
    pub fn batch_max(&self) -> usize {
        self.batch_max
    }

    async fn embed_patiently(&self, text: &str) -> Result<Embedding, EmbeddingError> {
        let text = prepare(text, self.max_tokens)?;
        self.compute(self.key(&text), &text).await
    }

    async fn compute(&self, key: [u8; 32], text: &str) -> Result<Embedding, EmbeddingError> {
        let computed = self.cache.try_get_with(key, async {
            let (reply, computed) = oneshot::channel();
            let tokens = if self.batch_max > 1 { tokens_if_short(&self.count, text) } else { None };
            self.shared.push(Job { text: text.to_owned(), tokens, reply });
            computed.await.unwrap_or(Err(EmbeddingError::Stopped))
        });
        computed.await.map_err(|error: Arc<EmbeddingError>| (*error).clone())
    }

    fn key(&self, text: &str) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        // The separator keeps (id, text) pairs apart; an id holds no NUL.
        hasher.update(self.model_id.as_bytes()).update(&[0]).update(text.as_bytes());
        *hasher.finalize().as_bytes()
    }
}

impl Drop for EmbeddingPool {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing more to say; its panic was logged when it happened.
            let _ = thread.join();
        }
    }
}

/// What a copy of the model does; a second implementation scripts it in tests.
pub(super) trait Encoder: Send {
    /// The vectors of texts that all have the same number of tokens, in order.
    fn encode(&mut self, texts: &[&str]) -> Result<Vec<Embedding>, EmbeddingError>;

    /// What counts tokens, beside the copy and for all threads.
    fn counter(&self) -> Count;
}

/// Tokens of a text as the model reads it, special ones included; none when that cannot be told.
pub(super) type Count = Box<dyn Fn(&str) -> Option<usize> + Send + Sync>;

type Load = dyn Fn() -> Result<Box<dyn Encoder>, EmbeddingError> + Send + Sync;

/// What the pool and its threads share.
struct Shared {
    load: Box<Load>,
    /// How long a batch may wait for more.
    wait: Duration,
    /// Guards the queue; never held while a model runs.
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    queue: Queue,
    /// Threads that hold a batch and wait for more.
    filling: usize,
    stopping: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job) {
        let mut state = self.lock();
        state.queue.push(job);
        // One idle thread is enough, unless the one that wakes might only want texts of another length.
        if state.filling == 0 { self.changed.notify_one() } else { self.changed.notify_all() }
    }

    /// One thread's life: batch after batch until the pool is dropped.
    fn work(&self, copy: Box<dyn Encoder>) {
        let mut copy = Some(copy);
        while let Some(batch) = self.next() {
            let texts: Vec<&str> = batch.iter().map(|job| job.text.as_str()).collect();
            let vectors = self.encode(&mut copy, &texts);
            let texts = batch.len();
            match vectors {
                Ok(vectors) => {
                    self.lock().queue.finished(texts);
                    for (job, vector) in batch.into_iter().zip(vectors) {
                        // A caller that has left wants no answer.
                        let _ = job.reply.send(Ok(vector));
                    }
                }
                Err(error) if texts > 1 => {
                    tracing::warn!(%error, texts, "a batch failed and is tried again text by text");
                    self.lock().queue.retry_alone(batch);
                    self.changed.notify_all();
                }
                Err(error) => {
                    self.lock().queue.finished(texts);
                    for job in batch {
                        let _ = job.reply.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// The next batch, or none when the pool is dropped.
    fn next(&self) -> Option<Vec<Job>> {
        let mut state = self.lock();
        let mut batch = loop {
            if state.stopping {
                return None;
            }
            match state.queue.take() {
                Some(batch) => break batch,
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        let until = Instant::now() + self.wait;
        while !state.stopping && state.queue.worth_waiting(&batch) {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else { break };
            state.filling += 1;
            (state, _) = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state.filling -= 1;
            state.queue.fill(&mut batch);
        }
        Some(batch)
    }

    fn encode(&self, place: &mut Option<Box<dyn Encoder>>, texts: &[&str]) -> Result<Vec<Embedding>, EmbeddingError> {
        // Taken out while it works: a copy that panicked may be half-way through anything and is never used again.
        let loaded = place.take().map_or_else(|| catch_unwind(AssertUnwindSafe(|| (self.load)())), |copy| Ok(Ok(copy)));
        let mut copy = loaded.unwrap_or_else(|_| Err(panicked()))?;
        let Ok(vectors) = catch_unwind(AssertUnwindSafe(|| copy.encode(texts))) else {
            tracing::error!("the embedding model panicked and will be loaded again");
            return Err(panicked());
        };
        *place = Some(copy);
        let vectors = vectors?;
        let (found, wanted) = (vectors.len(), texts.len());
        if found == wanted {
            Ok(vectors)
        } else {
            Err(EmbeddingError::Inference(format!("{found} vectors for {wanted} texts")))
        }
    }
}

/// The tokens of a text that is short enough to be batched. A tokeniser that panics on it shall do so again where the
/// panic is contained, on the model's thread.
fn tokens_if_short(count: &Count, text: &str) -> Option<usize> {
    if text.len() > BATCH_BYTES_MAX {
        return None;
    }
    catch_unwind(AssertUnwindSafe(|| count(text))).ok().flatten()
}

/// Whether a batch gives each text the bits that it gets alone, on this processor and with this model. Also the first
/// use of the model: it fails here if it cannot work at all.
fn exact_in_batches(copy: &mut dyn Encoder, count: &Count, batch_max: usize) -> Result<bool, EmbeddingError> {
    let mut exact = batch_max > 1;
    for tail in ["", " is the number of the line to sort before the others are read"] {
        let mut texts: Vec<_> = (100..400).map(|number| format!("{number}{tail}")).collect();
        let tokens = tokens_if_short(count, &texts[0]);
        texts.retain(|text| tokens_if_short(count, text) == tokens);
        texts.truncate(batch_max.clamp(1, 8));
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let first = copy.encode(&texts[..1])?;
        if !exact {
            return Ok(false);
        }
        let alone = [first, copy.encode(&texts[texts.len() - 1..])?].concat();
        exact = match copy.encode(&texts) {
            Ok(together) => tokens.is_some() && together.first() == alone.first() && together.last() == alone.last(),
            Err(_) => false,
        };
    }
    if !exact {
        tracing::warn!("a batch changes the bits of this model's vectors here: texts are embedded one by one");
    }
    Ok(exact)
}

fn panicked() -> EmbeddingError {
    EmbeddingError::Inference("the model panicked".into())
}

#[cfg(test)]
mod tests;
