//! What the pool costs and what batches gain, against bare sessions of the same model.
//!
//!     cargo bench --bench embedding
//!
//! Two promises are measured, both as ratios of runs that alternate, so that a busy machine slows both sides alike: one
//! text at a time costs at most 1.2 times the bare session; sixteen callers at once get at least the throughput of one
//! bare session per core. No text repeats, so that the cache does not help. Needs the installed model, else says so.

use std::{
    env,
    hint::black_box,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion};
use pointsman::context::embedding::{Embedder, EmbeddingPool, EmbeddingSettings, ModelFiles};
use tokio::runtime::Runtime;

/// Callers at once.
const CALLERS: usize = 16;
/// Alternations per figure; the median of so many is stated.
const ROUNDS: usize = 15;
/// Words of one token each.
const WORDS: [&str; 16] = [
    "cat", "tree", "house", "river", "stone", "light", "table", "paper", "music", "water", "green", "north", "seven",
    "glass", "story", "train",
];

/// How long the texts of a workload are, in tokens.
#[derive(Clone, Copy)]
enum Lengths {
    Equal(usize),
    /// From 8 to 250, each doubling as frequent as the last.
    Mixed,
}

impl Lengths {
    const ALL: [Self; 4] = [Self::Equal(20), Self::Equal(60), Self::Equal(250), Self::Mixed];

    fn name(self) -> String {
        match self {
            Self::Equal(tokens) => format!("{tokens} tokens"),
            Self::Mixed => "8 to 250 tokens".into(),
        }
    }

    /// Texts for about half a second on one core.
    fn texts(self) -> usize {
        match self {
            Self::Equal(tokens) => 1_600 / tokens,
            Self::Mixed => 32,
        }
    }

    /// The text of a number; no two are equal.
    fn text(self, number: usize) -> String {
        let tokens = match self {
            Self::Equal(tokens) => tokens,
            // The golden ratio's multiples spread evenly.
            Self::Mixed => (8.0 * 31.25_f64.powf((number as f64 * 0.618_034).fract())) as usize,
        };
        // Two tokens are the model's own.
        // Six digits of base 16, over and over, each time in other words.
        let word = |place: usize| WORDS[((number >> (4 * (place % 6))) % 16) ^ (place / 6 % 16)];
        (0..tokens - 2).map(word).collect::<Vec<_>>().join(" ")
    }
}

/// Hands out texts that were never used before.
struct Texts(AtomicUsize);

impl Texts {
    fn some(&self, lengths: Lengths, count: usize) -> Vec<String> {
        let first = self.0.fetch_add(count, Ordering::Relaxed);
        (first..first + count).map(|number| lengths.text(number)).collect()
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    let Some(settings) = installed() else { return };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let settings = EmbeddingSettings { sessions: cores, cache_entries: 0, ..settings };
    let files = ModelFiles::resolve(&settings).expect("found before");
    let runtime = Runtime::new().expect("a runtime");
    let mut bare: Vec<_> = (0..cores).map(|_| Embedder::load(&files, settings.max_tokens).expect("it loads")).collect();
    let pool = |batch_max, batch_wait| {
        let settings = EmbeddingSettings { batch_max, batch_wait, ..settings.clone() };
        Arc::new(EmbeddingPool::start(files.clone(), &settings).expect("it starts"))
    };
    let never = Duration::ZERO;
    let (off, eager, on) =
        (pool(1, never), pool(settings.batch_max, never), pool(settings.batch_max, settings.batch_wait));
    let texts = Texts(AtomicUsize::new(0));

    let mut group = criterion.benchmark_group("embedding");
    for lengths in Lengths::ALL {
        group.bench_function(BenchmarkId::new("bare session, one text", lengths.name()), |bencher| {
            bencher.iter_batched(
                || texts.some(lengths, 1),
                |text| black_box(bare[0].embed(&[&text[0]]).expect("a vector")),
                criterion::BatchSize::SmallInput,
            );
        });
        group.bench_function(BenchmarkId::new("pool, one text", lengths.name()), |bencher| {
            bencher.iter_batched(
                || texts.some(lengths, 1),
                |text| black_box(runtime.block_on(on.embed(&text[0])).expect("a vector")),
                criterion::BatchSize::SmallInput,
            );
        });
    }
    group.finish();
    criterion.final_summary();
    // In `cargo test` and `cargo bench -- --test` everything runs once, untimed.
    if env::args().any(|argument| argument == "--test") {
        return;
    }

    println!("\n{cores} cores, {} sessions, batches of up to {}\n", settings.sessions, on.batch_max());
    println!("One text at a time, median of {} alternations", 4 * ROUNDS);
    println!("{:>16} {:>10} {:>10} {:>12}", "", "bare ms", "pool ms", "pool / bare");
    for lengths in Lengths::ALL {
        let (mut alone, mut pooled, mut ratio) = (vec![], vec![], vec![]);
        for _ in 0..4 * ROUNDS {
            // The same lengths on both sides.
            let text = &texts.some(lengths, 1)[0];
            let a = timed(|| drop(black_box(bare[0].embed(&[text]).expect("a vector"))));
            let b = timed(|| drop(black_box(runtime.block_on(on.embed(text)).expect("a vector"))));
            alone.push(1e3 * a);
            pooled.push(1e3 * b);
            ratio.push(b / a);
        }
        let (alone, pooled, ratio) = (median(alone), median(pooled), median(ratio));
        println!("{:>16} {alone:>10.2} {pooled:>10.2} {ratio:>12.3}", lengths.name());
    }

    println!("\n{CALLERS} callers at once, texts per second, median of {ROUNDS} alternations");
    let heads = ["bare", "batches off", "no wait", "batches on", "on / bare", "on / off", "on / no wait"];
    println!("{:>16} {}", "", heads.map(|head| format!("{head:>12}")).join(" "));
    for lengths in Lengths::ALL {
        let mut columns: [Vec<f64>; 7] = Default::default();
        for _ in 0..ROUNDS {
            let work = texts.some(lengths, lengths.texts() * cores);
            let rate = |seconds: f64| work.len() as f64 / seconds;
            let bare = rate(timed(|| each_core(&mut bare, &work)));
            let [off, eager, on] =
                [&off, &eager, &on].map(|pool| rate(timed(|| runtime.block_on(callers(pool, &work)))));
            let figures = [bare, off, eager, on, on / bare, on / off, on / eager];
            columns.iter_mut().zip(figures).for_each(|(column, figure)| column.push(figure));
        }
        let medians = columns.map(median);
        let rates = medians[..4].iter().map(|rate| format!("{rate:>12.1}"));
        let ratios = medians[4..].iter().map(|ratio| format!("{ratio:>12.3}"));
        println!("{:>16} {}", lengths.name(), rates.chain(ratios).collect::<Vec<_>>().join(" "));
    }
}

/// The installed model's settings, or none, saying why.
fn installed() -> Option<EmbeddingSettings> {
    let under = |name: &str, rest: &str| env::var_os(name).map(|dir| PathBuf::from(dir).join(rest));
    let cache = under("POINTSMAN_CACHE_DIR", "")
        .or_else(|| under("XDG_CACHE_HOME", "pointsman"))
        .or_else(|| under("HOME", ".cache/pointsman"))?;
    let settings = EmbeddingSettings::new(cache);
    match ModelFiles::resolve(&settings) {
        Ok(_) => Some(settings),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// Bare sessions, one per core, share the texts.
fn each_core(sessions: &mut [Embedder], texts: &[String]) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for session in sessions {
            scope.spawn(|| {
                while let Some(text) = texts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    black_box(session.embed(&[text]).expect("a vector"));
                }
            });
        }
    });
}

/// Callers that each ask for one text after another.
async fn callers(pool: &Arc<EmbeddingPool>, texts: &[String]) {
    let next = Arc::new(AtomicUsize::new(0));
    let texts: Arc<[String]> = texts.into();
    let callers = (0..CALLERS).map(|_| {
        let (pool, next, texts) = (Arc::clone(pool), Arc::clone(&next), Arc::clone(&texts));
        tokio::spawn(async move {
            while let Some(text) = texts.get(next.fetch_add(1, Ordering::Relaxed)) {
                black_box(pool.embed(text).await.expect("a vector"));
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("a caller");
    }
}

/// Seconds that something takes.
fn timed(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().max(Duration::from_nanos(1)).as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
