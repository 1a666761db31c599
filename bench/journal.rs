//! What durability costs: acknowledged outcomes a second through HTTP, appends alone, bytes a round, starts, and memory
//! over many rounds. Daemon and client share the machine's cores.
//!
//! `cargo bench --bench journal -- [throughput] [appends] [growth] [starts] [soak] [--seconds N] [--rounds N]
//! [--growth-rounds N] [--json FILE]`: all parts but the soak without a name; N is 30 s of load, 100,000 rounds of a start and
//! 200,000 of a soak, and 20,000 of each journal whose growth is measured.

#[expect(dead_code, reason = "the programs that share it use different parts")]
mod daemon;
#[path = "journal/growth.rs"]
mod growth;
#[path = "journal/load.rs"]
mod load;
#[path = "journal/rounds.rs"]
mod rounds;
#[path = "journal/site.rs"]
mod site;
#[path = "journal/starts.rs"]
mod starts;

use std::{
    fs::{self, File},
    io::Write,
    process::ExitCode,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use site::{SHAPE, Site, real_rounds, stop};

const WARM_UP: Duration = Duration::from_secs(5);
/// Looks at a soak's memory.
const SOAK_LOOKS: u64 = 20;
/// The look after which its memory should stand still, and by how much it may grow from then on, in percent.
const SOAK_SETTLED: (u64, f64) = (5, 10.0);

struct Options {
    arguments: Vec<String>,
}

impl Options {
    fn value(&self, name: &str) -> Option<&str> {
        let place = self.arguments.iter().position(|argument| argument == name)?;
        self.arguments.get(place + 1).map(String::as_str)
    }

    fn number(&self, name: &str, usual: u64) -> u64 {
        self.value(name).and_then(|text| text.parse().ok()).unwrap_or(usual)
    }

    fn wants(&self, part: &str) -> bool {
        const PARTS: [&str; 5] = ["throughput", "appends", "growth", "starts", "soak"];
        let named = |part: &str| self.arguments.iter().any(|argument| argument == part);
        named(part) || part != "soak" && !PARTS.into_iter().any(named)
    }
}

fn main() -> ExitCode {
    let options = Options { arguments: std::env::args().skip(1).collect() };
    // Only build and check, as `cargo test --benches` does.
    if options.arguments.iter().any(|argument| argument == "--test") {
        println!("journal: nothing is measured with --test");
        return ExitCode::SUCCESS;
    }
    let mut held = true;
    let seconds = Duration::from_secs(options.number("--seconds", 30));
    let mut results = serde_json::Map::new();
    let mut add = |part: &str, result: Value| drop(results.insert(part.into(), result));
    if options.wants("throughput") {
        add("throughput", throughput(seconds));
    }
    if options.wants("appends") {
        add("flush", flush());
        add("appends", rounds::appends(&real_rounds(500, "whole").1));
    }
    if options.wants("growth") {
        let each = options.number("--growth-rounds", 20_000);
        let measured = ["whole", "hashed", "dropped"].map(|prompts| {
            let (site, _) = real_rounds(each, prompts);
            (prompts.to_owned(), growth::measure(&site.journal(), each, prompts))
        });
        add("growth", Value::Object(measured.into_iter().collect()));
    }
    if options.wants("starts") {
        let (site, real) = real_rounds(2_000, "whole");
        add("starts", starts::measure(&site, &real, options.number("--rounds", 100_000)));
    }
    if options.wants("soak") {
        let (soaked, stood_still) = soak(options.number("--rounds", 200_000));
        add("soak", soaked);
        held &= stood_still;
    }
    if let Some(path) = options.value("--json") {
        fs::write(path, format!("{:#}\n", Value::Object(results))).expect("the file can be written");
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn throughput(counted: Duration) -> Value {
    println!(
        "acknowledged outcomes through HTTP: {} streams with {} lines each, {} s",
        SHAPE.streams,
        SHAPE.window,
        counted.as_secs()
    );
    println!(
        "{:<12}{:<18}{:>12}{:>12}{:>12}{:>22}{:>10}",
        "synchronous", "memory", "a second", "p50 (ms)", "p99 (ms)", "daemon CPU (ms each)", "cores"
    );
    let mut all = vec![];
    for cap in [1_000, 20_000] {
        let site = Site::new();
        let (daemon, _) = site.start(&format!("[memory]\ncap = {cap}\n"));
        load::rounds(&daemon, SHAPE, cap);
        stop(daemon);
        for synchronous in ["full", "normal"] {
            let settings = format!("[memory]\ncap = {cap}\n[journal]\nsynchronous = \"{synchronous}\"\n");
            let (daemon, _) = site.start(&settings);
            let loaded = load::sustain(&daemon, SHAPE, WARM_UP, counted);
            stop(daemon);
            assert_eq!(loaded.problems, 0, "a line was refused");
            let cpu_ms = 1e3 * loaded.daemon_cpu_s / loaded.outcomes as f64;
            let cores = loaded.daemon_cpu_s / loaded.seconds;
            let (p50, p99) = (loaded.latency_ms(0.5), loaded.latency_ms(0.99));
            println!(
                "{synchronous:<12}{:<18}{:>12.0}{p50:>12.1}{p99:>12.1}{cpu_ms:>22.3}{cores:>10.2}",
                format!("{cap} entries"),
                loaded.per_s()
            );
            all.push(json!({
                "synchronous": synchronous, "memory_entries": cap, "outcomes_per_s": loaded.per_s(), "p50_ms": p50, "p99_ms": p99,
                "daemon_cpu_ms_per_outcome": cpu_ms, "daemon_cores": cores,
            }));
        }
    }
    all.into()
}

/// How long the disk takes to make two pages durable.
fn flush() -> Value {
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let mut file = File::create(folder.path().join("file")).expect("the folder is ours");
    let page = vec![7; 16 << 10];
    let mut times: Vec<f64> = (0..300)
        .map(|_| {
            file.write_all(&page).expect("there is room");
            let started = Instant::now();
            file.sync_data().expect("the disk takes it");
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("\nfdatasync after 16 KiB, median / p99 (ms): {median:.2} / {p99:.2}");
    json!({"median_ms": median, "p99_ms": p99})
}

/// Also whether memory stood still.
fn soak(total: u64) -> (Value, bool) {
    println!("\nsoak: {total} rounds, memory.cap at its default");
    println!("{:>10}{:>16}{:>14}{:>16}", "rounds", "resident (MiB)", "a second", "journal (MB)");
    let site = Site::new();
    let (daemon, _) = site.start("");
    let (step, (settled_at, growth_max)) = (total / SOAK_LOOKS, SOAK_SETTLED);
    let (mut points, mut settled, mut highest) = (vec![], f64::NAN, 0.0f64);
    for look in 1..=SOAK_LOOKS {
        let loaded = load::rounds(&daemon, SHAPE, step);
        assert_eq!(loaded.problems, 0, "a line was refused");
        let (rounds, resident) = (look * step, daemon.resident_mib());
        let journal = growth::bytes(&site.journal()) as f64 / 1e6;
        println!("{rounds:>10}{resident:>16.0}{:>14.0}{journal:>16.0}", loaded.per_s());
        points.push(
            json!({"rounds": rounds, "resident_mib": resident, "outcomes_per_s": loaded.per_s(), "journal_mb": journal}),
        );
        if look == settled_at {
            settled = resident;
        } else if look > settled_at {
            highest = highest.max(resident);
        }
    }
    stop(daemon);
    let growth = 100.0 * (highest / settled - 1.0);
    println!(
        "the most after the first {} rounds is {growth:+.1} % of what it was there; allowed: {growth_max:+.0} %",
        settled_at * step
    );
    (json!({"points": points, "growth_percent": growth}), growth <= growth_max)
}
