use std::{
    collections::BTreeSet,
    sync::{
        Condvar,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::task;

use super::*;

/// A copy that counts, panics on "panic", fails on "fail" and, on "wait", waits for the gate. A text has as many tokens
/// as words.
struct Scripted(Arc<Script>);

#[derive(Default)]
struct Script {
    loads: AtomicUsize,
    calls: AtomicUsize,
    batches: Mutex<Vec<usize>>,
    /// Whether a batch gives other bits, as on a processor that is not exact.
    inexact: bool,
    gate: Mutex<bool>,
    opened: Condvar,
}

impl Script {
    fn open(&self) {
        *self.gate.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn largest(&self) -> usize {
        self.batches.lock().unwrap().iter().copied().max().unwrap_or(0)
    }
}

impl Encoder for Scripted {
    fn encode(&mut self, texts: &[&str]) -> Result<Vec<Embedding>, EmbeddingError> {
        self.0.calls.fetch_add(texts.len(), Ordering::SeqCst);
        self.0.batches.lock().unwrap().push(texts.len());
        let lengths: BTreeSet<_> = texts.iter().map(|text| text.split(' ').count()).collect();
        assert_eq!(lengths.len(), 1, "one length per batch");
        for text in texts {
            match *text {
                "panic" => panic!("scripted"),
                "fail" => return Err(EmbeddingError::Inference("scripted".into())),
                _ if text.starts_with("wait") => {
                    drop(self.0.opened.wait_while(self.0.gate.lock().unwrap(), |open| !*open).unwrap());
                }
                _ => {}
            }
        }
        let last = if self.0.inexact { texts.len() as f32 } else { 1.0 };
        Ok(texts.iter().map(|text| Embedding::new(vec![text.len() as f32, last]).unwrap()).collect())
    }

    fn counter(&self) -> Count {
        Box::new(|text| Some(text.split(' ').count()))
    }
}

fn vector(text: &str) -> Embedding {
    Embedding::new(vec![text.len() as f32, 1.0]).unwrap()
}

fn pool_of(settings: EmbeddingSettings, script: Script) -> (Arc<EmbeddingPool>, Arc<Script>) {
    let script = Arc::new(script);
    let loading = Arc::clone(&script);
    let pool = EmbeddingPool::start_with(&settings, "scripted".into(), 2, move || {
        loading.loads.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Scripted(Arc::clone(&loading))))
    });
    // What the start tried does not count.
    script.calls.store(0, Ordering::SeqCst);
    script.batches.lock().unwrap().clear();
    (Arc::new(pool.unwrap()), script)
}

fn settings(sessions: usize, batch_max: usize) -> EmbeddingSettings {
    EmbeddingSettings { sessions, batch_max, cache_entries: 100, ..EmbeddingSettings::new("unused") }
}

fn pool(sessions: usize) -> (Arc<EmbeddingPool>, Arc<Script>) {
    pool_of(settings(sessions, 16), Script::default())
}

type Asked = task::JoinHandle<Result<Embedding, EmbeddingError>>;

fn ask(pool: &Arc<EmbeddingPool>, text: &str) -> Asked {
    let (pool, text) = (Arc::clone(pool), text.to_owned());
    tokio::spawn(async move { pool.embed(&text).await })
}

/// Makes the only session busy with a text that waits for the gate.
async fn occupy(pool: &Arc<EmbeddingPool>, script: &Script) -> Asked {
    let before = script.calls();
    let asked = ask(pool, "wait");
    while script.calls() == before {
        task::yield_now().await;
    }
    asked
}

/// Waits until so many texts are in the queue.
async fn queued(pool: &EmbeddingPool, texts: usize) {
    while pool.shared.lock().queue.waiting() < texts {
        task::yield_now().await;
    }
}

#[tokio::test]
async fn a_text_is_computed_once_then_remembered() {
    let (pool, script) = pool(2);
    let first = pool.embed("fix the parser").await.unwrap();
    assert_eq!(pool.embed("  fix the parser ").await.unwrap(), first);
    assert_eq!(script.calls(), 1);
    assert_eq!((pool.model_id(), pool.dimension()), ("scripted", 2));
}

#[tokio::test]
async fn the_same_text_at_once_is_computed_once() {
    let (pool, script) = pool(2);
    let same: Vec<_> = (0..20).map(|_| ask(&pool, "wait")).collect();
    script.open();
    for vector in same {
        vector.await.unwrap().unwrap();
    }
    assert_eq!(script.calls(), 1);
}

#[tokio::test]
async fn a_full_queue_is_busy_and_drains() {
    let (pool, script) = pool(1);
    let waiting: Vec<_> = (0..QUEUE_PER_SESSION).map(|i| ask(&pool, &format!("wait {i}"))).collect();
    while pool.places.available_permits() > 0 {
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
async fn texts_of_one_length_that_wait_share_a_run() {
    let (pool, script) = pool(1);
    let first = occupy(&pool, &script).await;
    let texts: Vec<_> = (0..20).map(|n| format!("{n}{}", " word".repeat(n % 2))).collect();
    let asked: Vec<_> = texts.iter().map(|text| ask(&pool, text)).collect();
    queued(&pool, 20).await;
    script.open();
    first.await.unwrap().unwrap();
    for (text, asked) in texts.iter().zip(asked) {
        assert_eq!(asked.await.unwrap().unwrap(), vector(text));
    }
    assert_eq!(*script.batches.lock().unwrap(), [1, 10, 10]);
}

#[tokio::test]
async fn a_batch_max_of_one_turns_batches_off() {
    let (pool, script) = pool_of(settings(1, 1), Script::default());
    let first = occupy(&pool, &script).await;
    let asked: Vec<_> = (0..5).map(|n| ask(&pool, &n.to_string())).collect();
    queued(&pool, 5).await;
    script.open();
    for asked in asked.into_iter().chain([first]) {
        asked.await.unwrap().unwrap();
    }
    assert_eq!((pool.batch_max(), script.largest()), (1, 1));
}

#[tokio::test]
async fn batches_that_change_bits_are_never_used() {
    let (pool, script) = pool_of(settings(1, 16), Script { inexact: true, ..Script::default() });
    let texts: Vec<_> = (0..40).map(|n| n.to_string()).collect();
    pool.embed_many(&texts, &|_, _| ()).await.unwrap();
    assert_eq!((pool.batch_max(), script.largest()), (1, 1));
}

#[tokio::test]
async fn a_batch_is_held_back_until_it_is_full() {
    // An hour stands for ever: the run starts because the batch is full, not because the time is over.
    let held = EmbeddingSettings { batch_wait: Duration::from_secs(3_600), ..settings(1, 4) };
    let (pool, script) = pool_of(held, Script::default());
    pool.embed("alone").await.unwrap();
    let first = occupy(&pool, &script).await;
    let two: Vec<_> = ["a", "b"].map(|text| ask(&pool, text)).into();
    queued(&pool, 2).await;
    script.open();
    first.await.unwrap().unwrap();
    while pool.shared.lock().filling == 0 {
        task::yield_now().await;
    }
    let more: Vec<_> = ["c", "d"].map(|text| ask(&pool, text)).into();
    for asked in two.into_iter().chain(more) {
        asked.await.unwrap().unwrap();
    }
    assert_eq!(*script.batches.lock().unwrap(), [1, 1, 4]);
}

#[tokio::test]
async fn a_panic_costs_one_text_and_no_session() {
    let (pool, script) = pool(1);
    for _ in 0..3 {
        assert!(matches!(pool.embed("panic").await, Err(EmbeddingError::Inference(_))));
    }
    pool.embed("fine").await.unwrap();
    assert_eq!(script.loads.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a_panic_or_failure_in_a_batch_costs_only_the_text_at_fault() {
    for guilty in ["panic", "fail"] {
        let (pool, script) = pool(1);
        let first = occupy(&pool, &script).await;
        let asked: Vec<_> = ["a", guilty, "bb"].map(|text| (text, ask(&pool, text))).into();
        queued(&pool, 3).await;
        script.open();
        first.await.unwrap().unwrap();
        for (text, asked) in asked {
            match asked.await.unwrap() {
                Ok(found) => assert_eq!(found, vector(text)),
                Err(error) => assert!(text == guilty && matches!(error, EmbeddingError::Inference(_))),
            }
        }
        assert_eq!(*script.batches.lock().unwrap(), [1, 3, 1, 1, 1]);
    }
}

#[tokio::test]
async fn a_caller_that_leaves_costs_no_session_and_its_text_no_run() {
    let (pool, script) = pool(1);
    let running = occupy(&pool, &script).await;
    let waiting = ask(&pool, "gone");
    queued(&pool, 1).await;
    for gone in [running, waiting] {
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
    }
    script.open();
    pool.embed("fine").await.unwrap();
    assert_eq!((script.calls(), script.loads.load(Ordering::SeqCst)), (2, 1));
}

#[tokio::test]
async fn a_caller_that_leaves_does_not_take_the_text_from_others() {
    let (pool, script) = pool(1);
    let running = occupy(&pool, &script).await;
    let gone = ask(&pool, "same");
    queued(&pool, 1).await;
    let stays = ask(&pool, "same");
    task::yield_now().await;
    gone.abort();
    script.open();
    assert_eq!(stays.await.unwrap().unwrap(), vector("same"));
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn many_come_in_order_and_errors_are_not_remembered() {
    let (pool, script) = pool(2);
    let texts: Vec<_> = (1..40).map(|n| "x".repeat(n)).collect();
    let seen = AtomicUsize::new(0);
    let count = |done, total| assert!(seen.fetch_max(done, Ordering::SeqCst) < done && total == 39);
    let vectors = pool.embed_many(&texts, &count).await.unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 39);
    for (text, found) in texts.iter().zip(&vectors) {
        assert_eq!(*found, vector(text));
    }
    let before = script.calls();
    assert!(pool.embed_many(&["fail"], &|_, _| ()).await.is_err());
    assert!(pool.embed("fail").await.is_err());
    assert_eq!(script.calls(), before + 2);
    assert!(matches!(pool.embed(" ").await, Err(EmbeddingError::Invalid(_))));
}

#[test]
fn a_model_that_cannot_work_fails_at_the_start() {
    let start = |settings: &EmbeddingSettings, load: fn() -> Result<Box<dyn Encoder>, EmbeddingError>| {
        EmbeddingPool::start_with(settings, "scripted".into(), 2, load).map(|_| ()).unwrap_err()
    };
    assert!(matches!(start(&settings(0, 16), || unreachable!()), EmbeddingError::Settings(_)));
    assert!(matches!(start(&settings(2, 16), || panic!("scripted")), EmbeddingError::Inference(_)));
    assert!(matches!(start(&settings(2, 16), || Err(EmbeddingError::Stopped)), EmbeddingError::Stopped));
}
