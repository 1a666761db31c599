//! Memory at its full size: 20,000 entries of 384 dimensions, 16 domains, with a writer storing 200 entries a second.
//!
//! `cargo bench --bench memory` prints criterion's report, then one table of medians beside the goals. The yardstick is a
//! brute-force scan of the same vectors as one matrix, in the same run: it tells how fast the machine's memory is just now. `POINTSMAN_BENCH_SNAPSHOT=FILE` also leaves a snapshot of the full
//! memory there, for measuring a daemon that holds it.

use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use criterion::{BatchSize, Criterion};
use pointsman::{
    memory::{
        EdgeMemory, Entry, Filter, MIN_SIMILARITY, Memory, MemoryWriter, RECALL_K, ScanMemory, Shape,
        snapshot::SnapshotStore,
    },
    round::{ArmId, Domain, Embedding, Mode, Neighbour, TaskId, TriedArm},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

const CAP: u64 = 20_000;
const DIMENSION: usize = 384;
const DOMAINS: u64 = 16;
/// Tasks come in kinds; those of a kind are alike.
const KINDS: u64 = 200;
const WRITES_PER_S: u64 = 200;
const QUERIES: u64 = 1_000;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("criterion");
    let mut criterion = Criterion::default()
        .output_directory(&report)
        .sample_size(50)
        .measurement_time(Duration::from_secs(8))
        .configure_from_args();
    // Only build and check, as `cargo test --benches` does.
    if std::env::args().any(|argument| argument == "--test") {
        println!("memory: nothing is measured with --test");
        return;
    }
    let edge_folder = folder.path().join("edge");
    let edge = Arc::new(EdgeMemory::open(&edge_folder, &shape()).unwrap());
    let scan = ScanMemory::new(CAP);
    fill(&*edge);
    fill(&scan);
    insert(&mut criterion, folder.path());
    open(&mut criterion, &edge_folder, folder.path());
    brute_force(&mut criterion);
    recall(&mut criterion, "scan", &scan);
    let writing = Writing::start(&edge);
    recall(&mut criterion, "edge", &*edge);
    let same = snapshot(&edge, &writing, folder.path());
    drop(writing);
    criterion.final_summary();
    print_table(&report, same);
}

fn shape() -> Shape {
    Shape { model: "all-MiniLM-L6-v2".into(), dimension: DIMENSION, cap: CAP }
}

/// Entry `seq`: a kind's direction and noise of its own, about 700 bytes of payload.
fn entry(seq: u64) -> Entry {
    let domain = Domain::new(format!("domain-{}", seq % KINDS % DOMAINS)).unwrap();
    let tried = |arm: u64| TriedArm {
        mode: Mode::Single,
        arm: ArmId::new(format!("provider/model-{}", (seq + arm) % 8)).unwrap(),
        score: (seq % 101) as f64 / 100.0,
        cost_usd: 1e-6 * (seq % 1_000) as f64,
        trace: format!("answer: step {arm} of task {seq} agrees with the reference; rules: long enough, no refusal"),
    };
    Entry {
        task_id: TaskId::new(format!("task-{seq}")).unwrap(),
        domain,
        at_ms: 1_700_000_000_000 + seq.cast_signed(),
        embedding: embedding(seq),
        outcomes: (0..3).map(tried).collect(),
    }
}

fn embedding(seq: u64) -> Embedding {
    let (mut kind, mut own) = (StdRng::seed_from_u64(seq % KINDS), StdRng::seed_from_u64(1_000_000 + seq));
    let vector = (0..DIMENSION).map(|_| kind.random_range(-1.0..1.0f32) + 0.7 * own.random_range(-1.0..1.0f32));
    Embedding::new(vector.collect()).unwrap()
}

fn entries(from: u64, to: u64) -> Vec<Entry> {
    (from..to).map(entry).collect()
}

fn fill(memory: &dyn Memory) {
    for first in (0..CAP).step_by(256) {
        memory.put(first, &entries(first, (first + 256).min(CAP))).unwrap();
    }
    memory.sync().unwrap();
}

/// Stores 200 entries a second until it is dropped, as the daemon does.
struct Writing {
    writer: Arc<MemoryWriter>,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writing {
    fn start(edge: &Arc<EdgeMemory>) -> Self {
        let memory = Arc::clone(edge) as Arc<dyn Memory>;
        let writer = Arc::new(MemoryWriter::start(memory, CAP, CAP).unwrap());
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let shared = (Arc::clone(&writer), Arc::clone(&stop), Arc::clone(&written));
        let thread = thread::spawn(move || {
            let (writer, stop, written) = shared;
            let started = Instant::now();
            for n in 0.. {
                let due = Duration::from_secs(1) / u32::try_from(WRITES_PER_S).unwrap() * n;
                thread::sleep(due.saturating_sub(started.elapsed()));
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                writer.push(CAP + u64::from(n), entry(CAP + u64::from(n)));
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { writer, stop, written, thread: Some(thread) }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        self.writer.close();
        println!("the writer stored {} entries meanwhile", self.written.load(Ordering::Relaxed));
    }
}

fn query(memory: &dyn Memory, n: u64, filter: &Filter) -> Vec<Neighbour> {
    memory.query(&embedding(50_000_000 + n), RECALL_K, MIN_SIMILARITY, filter).unwrap()
}

fn recall(criterion: &mut Criterion, store: &str, memory: &dyn Memory) {
    let queries: Vec<_> = (0..512).map(|n| embedding(50_000_000 + n)).collect();
    let filters = [("all", DOMAINS), ("domain", 0)].map(|(name, all)| {
        let filter = move |n: u64| match all {
            0 => Filter { domain: Some(Domain::new(format!("domain-{}", n % KINDS % DOMAINS)).unwrap()), arm: None },
            _ => Filter::default(),
        };
        (name, filter)
    });
    for (name, filter) in filters {
        let mut n = 0;
        criterion.bench_function(&format!("recall_{name}_{store}"), |bencher| {
            bencher.iter(|| {
                n += 1;
                let embedding = &queries[n % queries.len()];
                black_box(memory.query(embedding, RECALL_K, MIN_SIMILARITY, &filter(n as u64)).unwrap())
            });
        });
    }
}

/// The yardstick: all vectors in one matrix, scored one after the other, the ten best kept; nothing else is done.
fn brute_force(criterion: &mut Criterion) {
    let rows: Vec<f32> = (0..CAP).flat_map(|seq| embedding(seq).as_slice().to_vec()).collect();
    let domains: Vec<u64> = (0..CAP).map(|seq| seq % KINDS % DOMAINS).collect();
    let queries: Vec<_> = (0..512).map(|n| embedding(50_000_000 + n)).collect();
    for (name, filtered) in [("all", false), ("domain", true)] {
        let mut n = 0;
        criterion.bench_function(&format!("recall_{name}_matrix"), |bencher| {
            bencher.iter(|| {
                n += 1;
                let (query, domain) = (queries[n % queries.len()].as_slice(), n as u64 % KINDS % DOMAINS);
                let mut best = [(f32::NEG_INFINITY, 0); RECALL_K];
                for (row, vector) in rows.chunks_exact(DIMENSION).enumerate() {
                    if filtered && domains[row] != domain {
                        continue;
                    }
                    let score = dot(query, vector);
                    if score > best[RECALL_K - 1].0 {
                        let place = best.partition_point(|(other, _)| *other >= score);
                        best[place..].rotate_right(1);
                        best[place] = (score, row);
                    }
                }
                black_box(best)
            });
        });
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; 16];
    for (a, b) in a.chunks_exact(16).zip(b.chunks_exact(16)) {
        lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (a, b))| *lane += a * b);
    }
    lanes.iter().sum()
}

fn insert(criterion: &mut Criterion, folder: &Path) {
    let memory = EdgeMemory::open(&folder.join("insert"), &shape()).unwrap();
    let mut seq = 0;
    for (name, batch) in [("insert_1", 1), ("insert_256", 256)] {
        criterion.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    seq += batch;
                    (seq, entries(seq, seq + batch))
                },
                |(seq, entries)| memory.put(seq, &entries).unwrap(),
                BatchSize::LargeInput,
            );
        });
    }
}

fn open(criterion: &mut Criterion, full: &Path, folder: &Path) {
    // The full one is in use; a copy is opened.
    let copy = folder.join("copy");
    copy_folder(full, &copy);
    let mut group = criterion.benchmark_group("open");
    group.sample_size(10);
    group.bench_function("open_20000", |bencher| {
        bencher.iter(|| {
            let memory = EdgeMemory::open(&copy, &shape()).unwrap();
            assert_eq!(memory.held().unwrap().count, CAP);
        });
    });
    group.finish();
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Takes a snapshot while the writer writes, restores it elsewhere and compares the answers to 1,000 queries.
fn snapshot(edge: &Arc<EdgeMemory>, writing: &Writing, folder: &Path) -> (u64, f64, f64) {
    let store = SnapshotStore::new(folder.join("snapshots"));
    let answers = |memory: &dyn Memory| (0..QUERIES).map(|n| query(memory, n, &Filter::default())).collect::<Vec<_>>();
    let still = writing.writer.hold();
    let started = Instant::now();
    let made = store.create(Some("bench"), &**edge, &shape(), 0).unwrap();
    let took = started.elapsed();
    let before = answers(&**edge);
    drop(still);
    let started = Instant::now();
    let elsewhere = EdgeMemory::open(&folder.join("elsewhere"), &shape()).unwrap();
    let mut entries = store.entries_of("bench", &made.digest).unwrap();
    elsewhere.replace(Some(&made.digest), made.manifest.next_seq, &mut entries).unwrap();
    let restored = started.elapsed();
    let same = answers(&elsewhere).iter().zip(&before).filter(|(a, b)| a == b).count() as u64;
    if let Some(to) = std::env::var_os("POINTSMAN_BENCH_SNAPSHOT") {
        fs::copy(store.path("bench").unwrap(), to).unwrap();
    }
    (same, took.as_secs_f64(), restored.as_secs_f64())
}

/// Criterion's median, in nanoseconds.
fn median(report: &Path, name: &str) -> f64 {
    let path: PathBuf = [report, Path::new(name), Path::new("new/estimates.json")].iter().collect();
    let Ok(bytes) = fs::read(&path) else { return f64::NAN };
    let estimates: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    estimates["median"]["point_estimate"].as_f64().unwrap()
}

fn print_table(report: &Path, (same, took, restored): (u64, f64, f64)) {
    let ms = |name: &str| median(report, name) / 1e6;
    let rows = [
        ("recall of 10, domain filter, at 200 writes/s (ms)", ms("recall_domain_edge"), "<= 0.5"),
        ("recall of 10, no filter, at 200 writes/s (ms)", ms("recall_all_edge"), "<= 1.8"),
        ("  brute force over one matrix, domain filter (ms)", ms("recall_domain_matrix"), ""),
        ("  brute force over one matrix, no filter (ms)", ms("recall_all_matrix"), ""),
        ("  ratio to that, domain filter", ms("recall_domain_edge") / ms("recall_domain_matrix"), "<= 2"),
        ("  ratio to that, no filter", ms("recall_all_edge") / ms("recall_all_matrix"), "<= 2"),
        ("  the scan store of replays, domain filter (ms)", ms("recall_domain_scan"), ""),
        ("  the scan store of replays, no filter (ms)", ms("recall_all_scan"), ""),
        ("inserts a second, one by one", 1e9 / median(report, "insert_1"), ">= 20000"),
        ("inserts a second, 256 at a time", 256.0 * 1e9 / median(report, "insert_256"), ">= 20000"),
        ("open with 20,000 entries (s)", ms("open/open_20000") / 1e3, "<= 1"),
        ("snapshot of 20,000 entries (s)", took, ""),
        ("restore of 20,000 entries (s)", restored, ""),
        ("queries answered the same by the restored one", same as f64, "= 1000"),
    ];
    println!("\n{:<52}{:>12}  goal", "20,000 x 384, medians", "measured");
    for (what, measured, goal) in rows {
        let digits = if measured >= 100.0 { 0 } else { 3 };
        println!("{what:<52}{measured:>12.digits$}  {goal}");
    }
}
