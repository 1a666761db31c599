//! Several copies of the model behind one async door.
//!
//! A text goes through a cache, then a bounded queue, then a copy of the model on a blocking thread. The same text asked
//! for many times at once is computed once. What can go wrong: the queue is full ([`EmbeddingError::Busy`]: the caller
//! sheds load), or the model panics, which drops that copy, fails that text and loads a fresh copy for the next one.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use futures::{StreamExt, TryStreamExt, stream};
use moka::future::Cache;
use tokio::{sync::Semaphore, task};

use super::{Embedder, EmbeddingError, EmbeddingSettings, ModelFiles, text::prepare};
use crate::round::Embedding;

/// Texts computed or waiting per session: at 10 to 70 ms each, the last waits some 2 to 9 s, after which shedding load
/// serves the client better.
const QUEUE_PER_SESSION: usize = 128;

/// Turns texts into vectors, many at a time. Cheap to share behind an `Arc`.
pub struct EmbeddingPool {
    copies: Arc<Copies>,
    cache: Cache<[u8; 32], Embedding>,
    queue: Semaphore,
    queue_max: usize,
    sessions: usize,
    max_tokens: usize,
    model_id: String,
    dimension: usize,
}

impl EmbeddingPool {
    /// Loads `settings.sessions` copies of the model in parallel, in about a second; blocks.
    pub fn start(files: ModelFiles, settings: &EmbeddingSettings) -> Result<Self, EmbeddingError> {
        let (model_id, dimension) = (files.model_id().to_owned(), files.dimension());
        let max_tokens = settings.max_tokens;
        Self::start_with(settings, model_id, dimension, move || Ok(Box::new(Embedder::load(&files, max_tokens)?)))
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
        let idle = thread::scope(|scope| {
            let loading: Vec<_> = (0..sessions).map(|_| scope.spawn(&load)).collect();
            loading
                .into_iter()
                .map(|copy| copy.join().unwrap_or_else(|_| Err(panicked())))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let queue_max = sessions.saturating_mul(QUEUE_PER_SESSION).min(Semaphore::MAX_PERMITS);
        Ok(Self {
            copies: Arc::new(Copies {
                load: Box::new(load),
                idle: Mutex::new(idle),
                free: Arc::new(Semaphore::new(sessions)),
            }),
            cache: Cache::new(settings.cache_entries),
            queue: Semaphore::new(queue_max),
            queue_max,
            sessions,
            max_tokens: settings.max_tokens,
            model_id,
            dimension,
        })
    }

    /// One text's vector. Refuses a blank text, and any text while too many are waiting.
    pub async fn embed(&self, text: &str) -> Result<Embedding, EmbeddingError> {
        let text = prepare(text, self.max_tokens)?;
        let key = self.key(&text);
        if let Some(known) = self.cache.get(&key).await {
            return Ok(known);
        }
        let _place = self.queue.try_acquire().map_err(|_| EmbeddingError::Busy { limit: self.queue_max })?;
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
        // Twice the sessions, so that none idles while results come in order. By index, because a closure over borrowed
        // texts would keep the future from being `Send`.
        let mut vectors = stream::iter(0..texts.len())
            .map(|index| self.embed_patiently(texts[index].as_ref()))
            .buffered(self.sessions.saturating_mul(2));
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

    async fn embed_patiently(&self, text: &str) -> Result<Embedding, EmbeddingError> {
        let text = prepare(text, self.max_tokens)?;
        self.compute(self.key(&text), &text).await
    }

    async fn compute(&self, key: [u8; 32], text: &str) -> Result<Embedding, EmbeddingError> {
        let computed = self.cache.try_get_with(key, Arc::clone(&self.copies).encode(text.to_owned()));
        computed.await.map_err(|error: Arc<EmbeddingError>| (*error).clone())
    }

    fn key(&self, text: &str) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        // The separator keeps (id, text) pairs apart; an id holds no NUL.
        hasher.update(self.model_id.as_bytes()).update(&[0]).update(text.as_bytes());
        *hasher.finalize().as_bytes()
    }
}

/// What a copy of the model does; a second implementation scripts it in tests.
trait Encoder: Send {
    fn encode(&mut self, text: &str) -> Result<Embedding, EmbeddingError>;
}

impl Encoder for Embedder {
    fn encode(&mut self, text: &str) -> Result<Embedding, EmbeddingError> {
        self.embed_one(text)
    }
}

type Load = dyn Fn() -> Result<Box<dyn Encoder>, EmbeddingError> + Send + Sync;

/// The copies of the model. A permit of `free` is the right to one copy; `idle` holds those loaded and not in use.
struct Copies {
    load: Box<Load>,
    /// Guards the copies not in use; fewer than `free`'s permits after a panic, until the next text loads another.
    idle: Mutex<Vec<Box<dyn Encoder>>>,
    free: Arc<Semaphore>,
}

impl Copies {
    async fn encode(self: Arc<Self>, text: String) -> Result<Embedding, EmbeddingError> {
        let permit = Arc::clone(&self.free).acquire_owned().await.map_err(|_| EmbeddingError::Stopped)?;
        // The permit lives in the blocking task: a caller that goes away does not free a copy that is still at work.
        let work = task::spawn_blocking(move || {
            let vector = self.encode_blocking(&text);
            drop(permit);
            vector
        });
        work.await.map_err(|error| if error.is_panic() { panicked() } else { EmbeddingError::Stopped })?
    }

    fn encode_blocking(&self, text: &str) -> Result<Embedding, EmbeddingError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut copy = match idle {
            Some(copy) => copy,
            None => (self.load)()?,
        };
        // A copy that panicked may be half-way through anything: it is dropped, never used again.
        let Ok(vector) = catch_unwind(AssertUnwindSafe(|| copy.encode(text))) else {
            tracing::error!("the embedding model panicked and will be loaded again");
            return Err(panicked());
        };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
        vector
    }
}

fn panicked() -> EmbeddingError {
    EmbeddingError::Inference("the model panicked".into())
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Condvar,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    /// A copy that counts, panics on "panic", fails on "fail" and, on "wait", waits for the gate.
    struct Scripted(Arc<Script>);

    #[derive(Default)]
    struct Script {
        loads: AtomicUsize,
        calls: AtomicUsize,
        gate: Mutex<bool>,
        opened: Condvar,
    }

    impl Script {
        fn open(&self) {
            *self.gate.lock().unwrap() = true;
            self.opened.notify_all();
        }
    }

    impl Encoder for Scripted {
        fn encode(&mut self, text: &str) -> Result<Embedding, EmbeddingError> {
            self.0.calls.fetch_add(1, Ordering::SeqCst);
            match text {
                "panic" => panic!("scripted"),
                "fail" => return Err(EmbeddingError::Inference("scripted".into())),
                _ if text.starts_with("wait") => {
                    drop(self.0.opened.wait_while(self.0.gate.lock().unwrap(), |open| !*open).unwrap());
                }
                _ => {}
            }
            Ok(Embedding::new(vec![text.len() as f32, 1.0]).unwrap())
        }
    }

    fn pool(sessions: usize) -> (Arc<EmbeddingPool>, Arc<Script>) {
        let script = Arc::new(Script::default());
        let settings = EmbeddingSettings { sessions, cache_entries: 100, ..EmbeddingSettings::new("unused") };
        let loading = Arc::clone(&script);
        let pool = EmbeddingPool::start_with(&settings, "scripted".into(), 2, move || {
            loading.loads.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(Scripted(Arc::clone(&loading))))
        });
        (Arc::new(pool.unwrap()), script)
    }

    #[tokio::test]
    async fn a_text_is_computed_once_then_remembered() {
        let (pool, script) = pool(2);
        let first = pool.embed("fix the parser").await.unwrap();
        assert_eq!(pool.embed("  fix the parser ").await.unwrap(), first);
        assert_eq!(script.calls.load(Ordering::SeqCst), 1);
        assert_eq!((pool.model_id(), pool.dimension()), ("scripted", 2));
    }

    #[tokio::test]
    async fn the_same_text_at_once_is_computed_once() {
        let (pool, script) = pool(2);
        let same = (0..20).map(|_| {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move { pool.embed("wait").await })
        });
        let same: Vec<_> = same.collect();
        script.open();
        for vector in same {
            vector.await.unwrap().unwrap();
        }
        assert_eq!(script.calls.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_full_queue_is_busy_and_drains() {
        let (pool, script) = pool(1);
        let waiting: Vec<_> = (0..QUEUE_PER_SESSION)
            .map(|i| {
                let pool = Arc::clone(&pool);
                tokio::spawn(async move { pool.embed(&format!("wait {i}")).await })
            })
            .collect();
        while pool.queue.available_permits() > 0 {
            task::yield_now().await;
        }
        assert!(matches!(pool.embed("one more").await, Err(EmbeddingError::Busy { limit: QUEUE_PER_SESSION })));
        script.open();
        for vector in waiting {
            vector.await.unwrap().unwrap();
        }
        pool.embed("one more").await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_costs_one_text_and_no_permit() {
        let (pool, script) = pool(1);
        for _ in 0..3 {
            assert!(matches!(pool.embed("panic").await, Err(EmbeddingError::Inference(_))));
        }
        pool.embed("fine").await.unwrap();
        assert_eq!(script.loads.load(Ordering::SeqCst), 4);
        assert_eq!(pool.copies.free.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_caller_that_leaves_loses_no_permit() {
        let (pool, script) = pool(1);
        let gone = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move { pool.embed("wait").await }
        });
        while script.calls.load(Ordering::SeqCst) == 0 {
            task::yield_now().await;
        }
        gone.abort();
        script.open();
        pool.embed("fine").await.unwrap();
        assert_eq!(script.loads.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn many_come_in_order_and_errors_are_not_remembered() {
        let (pool, script) = pool(2);
        let texts: Vec<_> = (1..40).map(|n| "x".repeat(n)).collect();
        let seen = AtomicUsize::new(0);
        let count = |done, total| assert!(seen.fetch_max(done, Ordering::SeqCst) < done && total == 39);
        let vectors = pool.embed_many(&texts, &count).await.unwrap();
        assert_eq!(seen.load(Ordering::SeqCst), 39);
        for (text, vector) in texts.iter().zip(&vectors) {
            assert_eq!(*vector, Embedding::new(vec![text.len() as f32, 1.0]).unwrap());
        }
        let before = script.calls.load(Ordering::SeqCst);
        assert!(pool.embed_many(&["fail"], &|_, _| ()).await.is_err());
        assert!(pool.embed("fail").await.is_err());
        assert_eq!(script.calls.load(Ordering::SeqCst), before + 2);
        assert!(matches!(pool.embed(" ").await, Err(EmbeddingError::Invalid(_))));
    }
}
