//! What deciding and learning cost: 8 arms, 10 neighbours, vectors of 64 dimensions, after 2,000 learnt rounds.
//!
//! `cargo bench --bench action` prints criterion's report, then one table of medians beside the goals. Each learn step is
//! timed while a snapshot is held, as in the daemon, so that it includes the copies that the next publication needs.

use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use criterion::Criterion;
use pointsman::{
    action::{
        policy::{LearntRound, NAMES, Opinion, Policy, PolicySettings, Standings, build, observe},
        sample::sample,
    },
    round::{ArmId, Candidate, Context, Domain, Embedding, Mode, Neighbour, TaskId, TriedArm},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

const ARMS: usize = 8;
const DOMAINS: usize = 8;
const EMBEDDING: usize = 384;
const NEIGHBOURS: u64 = 10;
const ROUNDS: usize = 2_000;
/// With an intercept, 16 domains and 3 numbers of the candidate that makes 64.
const CARD: &str = "[features]\ntext_dimensions = 44\narm_scale = 0.5";

fn main() {
    // Only build and check, as `cargo test --benches` does.
    if std::env::args().any(|argument| argument == "--test") {
        println!("action: nothing is measured with --test");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("criterion");
    let mut criterion = Criterion::default()
        .output_directory(&report)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let settings = PolicySettings::parse(CARD).unwrap();
    let tasks = Tasks::new();
    for name in policies() {
        tasks.measure(&mut criterion, name, &settings);
    }
    criterion.final_summary();
    print_table(&report);
}

/// All that learn or need no arm's name, the vote first.
fn policies() -> impl Iterator<Item = &'static str> {
    std::iter::once("ensemble").chain(NAMES.into_iter().filter(|name| {
        // The classifiers need a trained file; deciding by one is two dot products an arm.
        !name.contains("ARM") && !name.contains("classifier") && *name != "ensemble"
    }))
}

/// Contexts as the loop observes them, with their scores per arm.
struct Tasks {
    contexts: Vec<(Context, [f64; ARMS])>,
}

impl Tasks {
    fn new() -> Self {
        let mut rng = StdRng::seed_from_u64(1);
        let mut contexts: Vec<_> = (0..512).map(|_| context(&mut rng)).collect();
        // What is known of the candidates is that of a history.
        let mut standings = Standings::default();
        for (place, (context, scores)) in contexts.iter().enumerate() {
            standings.learn(&LearntRound::new(context, place % ARMS, scores[place % ARMS]));
        }
        contexts.iter_mut().for_each(|(context, _)| observe(context, &standings));
        Self { contexts }
    }

    /// One round: decide, sample, look the score up, learn.
    fn round(&self, policy: &mut dyn Policy, number: usize) {
        let (context, scores) = &self.contexts[number % self.contexts.len()];
        let seed = number as u64;
        let Opinion { pmf, voters, .. } = policy.decide(context, seed).unwrap();
        let place = sample(&pmf, seed).unwrap();
        let round = LearntRound::new(context, place, scores[place]);
        policy.learn(&LearntRound { propensity: pmf[place], seed, voters: &voters, ..round });
    }

    fn measure(&self, criterion: &mut Criterion, name: &str, settings: &PolicySettings) {
        let mut policy = build(name, settings).unwrap();
        (0..ROUNDS).for_each(|number| self.round(policy.as_mut(), number));
        let mut next = 0;
        let mut context = || {
            next += 1;
            (&self.contexts[next % self.contexts.len()].0, next as u64)
        };
        criterion.bench_function(&format!("decide_{name}"), |bencher| {
            bencher.iter(|| {
                let (context, seed) = context();
                black_box(policy.decide(context, seed).unwrap())
            });
        });
        criterion.bench_function(&format!("snapshot_{name}"), |bencher| {
            bencher.iter(|| black_box(policy.snapshot()));
        });
        criterion.bench_function(&format!("learn_{name}"), |bencher| {
            bencher.iter_custom(|rounds| {
                // Learning starts anew each time, so that every round is about the 2,000th.
                let mut policy = policy.snapshot();
                (0..rounds as usize).map(|number| self.learn(policy.as_mut(), ROUNDS + number)).sum()
            });
        });
    }

    fn learn(&self, policy: &mut dyn Policy, number: usize) -> Duration {
        let (context, scores) = &self.contexts[number % self.contexts.len()];
        let held = policy.snapshot();
        let Opinion { pmf, voters, .. } = held.decide(context, number as u64).unwrap();
        let place = sample(&pmf, number as u64).unwrap();
        let round = LearntRound::new(context, place, scores[place]);
        let round = LearntRound { propensity: pmf[place], seed: number as u64, voters: &voters, ..round };
        let started = Instant::now();
        policy.learn(&round);
        started.elapsed()
    }
}

fn context(rng: &mut StdRng) -> (Context, [f64; ARMS]) {
    let domain = rng.random_range(0..DOMAINS);
    let embedding = Embedding::new((0..EMBEDDING).map(|_| rng.random_range(-1.0..1.0f32)).collect()).unwrap();
    let cost_usd = |place: usize| 1e-4 * (place + 1) as f64;
    let arm = |place: usize| ArmId::new(format!("provider/model-{place}")).unwrap();
    let candidates = (0..ARMS).map(|place| Candidate::new(Mode::Single, arm(place), cost_usd(place)));
    let domain_name = Domain::new(format!("domain-{domain}")).unwrap();
    let mut context = Context::new(embedding, domain_name, candidates.collect());
    let mut score = |place: usize| if rng.random_bool(0.3 + 0.08 * ((place + domain) % 5) as f64) { 1.0 } else { 0.0 };
    let scores = std::array::from_fn(&mut score);
    context.neighbours = (0..NEIGHBOURS)
        .map(|seq| {
            let place = (seq as usize + domain) % ARMS;
            let trace = "answer agrees with the reference".into();
            let tried =
                TriedArm { mode: Mode::Single, arm: arm(place), score: score(place), cost_usd: cost_usd(place), trace };
            let similarity = 0.9 - 0.05 * seq as f32;
            Neighbour { seq, task_id: TaskId::new("past").unwrap(), similarity, domain: None, outcomes: vec![tried] }
        })
        .collect();
    (context, scores)
}

/// Criterion's median, in nanoseconds.
fn median(report: &Path, name: &str) -> f64 {
    let path: PathBuf = [report, Path::new(name), Path::new("new/estimates.json")].iter().collect();
    let Ok(bytes) = fs::read(&path) else { return f64::NAN };
    let estimates: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    estimates["median"]["point_estimate"].as_f64().unwrap()
}

fn print_table(report: &Path) {
    println!("\n{:<28}{:>12}{:>12}{:>12}", "64 x 8 arms, medians in us", "decide", "learn", "snapshot");
    for name in policies() {
        let us = |what: &str| median(report, &format!("{what}_{name}")) / 1e3;
        let [decide, learn, snapshot] = ["decide", "learn", "snapshot"].map(us);
        let goal = if name == "ensemble" { "  goal: 100, 50" } else { "" };
        println!("{name:<28}{decide:>12.2}{learn:>12.2}{snapshot:>12.2}{goal}");
    }
}
