//! What open pages cost: processor time of the daemon with and without them at the same load, how soon a decision is on them,
//! and, in a real browser, how soon a page is painted and of use, all on a journal of many rounds.
//!
//! `cargo bench --bench pages -- [--rounds N] [--pages N] [--seconds N] [--json FILE]`: 1,000,000 rounds, 50 pages and 40 s a part
//! unless said otherwise. A page is what the overview does: one event stream, and its charts' figures every ten seconds. The browser's
//! part needs Chromium, and the folder in which `npm install` put what `tests/browser/package.json` names, in POINTSMAN_BROWSER.

#[expect(dead_code, reason = "the programs that share it use different parts")]
mod daemon;
#[expect(dead_code, reason = "the programs that share it use different parts")]
#[path = "journal/load.rs"]
mod load;
#[expect(dead_code, reason = "the programs that share it use different parts")]
#[path = "journal/rounds.rs"]
mod rounds;
#[path = "journal/site.rs"]
mod site;

use std::{
    collections::HashMap,
    env, fs,
    process::{Command, ExitCode},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use daemon::Daemon;
use serde_json::{Value, json};
use site::{real_rounds, stop};
use tokio::task::JoinSet;

/// Tasks a second.
const RATE: u32 = 100;
/// How often a page's charts are fetched again.
const CHARTS_EVERY: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(12);

struct Options(Vec<String>);

impl Options {
    fn value(&self, name: &str) -> Option<&str> {
        let place = self.0.iter().position(|argument| argument == name)?;
        self.0.get(place + 1).map(String::as_str)
    }

    fn number(&self, name: &str, usual: u64) -> u64 {
        self.value(name).and_then(|text| text.parse().ok()).unwrap_or(usual)
    }
}

fn main() -> ExitCode {
    let options = Options(env::args().skip(1).collect());
    // Only build and check, as `cargo test --benches` does.
    if options.0.iter().any(|argument| argument == "--test") {
        println!("pages: nothing is measured with --test");
        return ExitCode::SUCCESS;
    }
    let (rounds, pages) = (options.number("--rounds", 1_000_000), options.number("--pages", 50));
    let counted = Duration::from_secs(options.number("--seconds", 40));
    let (site, real) = real_rounds(2_000, "whole");
    let started = Instant::now();
    real.fill(&site.journal(), rounds);
    println!("{rounds} rounds were added to a journal in {:.0} s", started.elapsed().as_secs_f64());
    let (daemon, folded) = site.start("");
    println!("the first start folded them in {:.0} s", folded.as_secs_f64());
    stop(daemon);
    let (daemon, resumed) = site.start("");
    println!("the next one began with the checkpoint and took {:.2} s", resumed.as_secs_f64());
    let mut found = serde_json::Map::new();
    found.insert("rounds".into(), json!(rounds));
    found.insert("start_s".into(), json!({"folded": folded.as_secs_f64(), "resumed": resumed.as_secs_f64()}));
    found.insert("open_pages".into(), open_pages(&daemon, pages, counted));
    if let Some(painted) = painted(&daemon) {
        found.insert("browser".into(), painted);
    }
    stop(daemon);
    if let Some(path) = options.value("--json") {
        fs::write(path, format!("{:#}\n", Value::Object(found))).expect("the file can be written");
    }
    ExitCode::SUCCESS
}

/// A part of the load.
#[derive(Default)]
struct Part {
    cores: f64,
    tasks_per_s: f64,
    resident_mib: f64,
    bytes_per_page_s: f64,
    /// From a task's answer to its decision on a page, in milliseconds, sorted.
    shown_ms: Vec<f64>,
}

/// When tasks were answered, by decision, and how long the first page took to hear of each.
#[derive(Default)]
struct Shown {
    answered: HashMap<String, Instant>,
    heard: HashMap<String, Instant>,
}

fn open_pages(daemon: &Daemon, pages: u64, counted: Duration) -> Value {
    println!("\n{RATE} tasks a second, {} s a part, after {} s each", counted.as_secs(), WARM_UP.as_secs());
    println!(
        "{:<12}{:>10}{:>14}{:>18}{:>20}",
        "pages", "tasks/s", "daemon cores", "resident (MiB)", "bytes a page and s"
    );
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    // None, all and none again: what the machine does besides changes meanwhile.
    let parts = [0, pages, 0].map(|pages| {
        let part = runtime.block_on(load_with(daemon, pages, counted));
        println!(
            "{pages:<12}{:>10.1}{:>14.4}{:>18.0}{:>20.0}",
            part.tasks_per_s, part.cores, part.resident_mib, part.bytes_per_page_s
        );
        part
    });
    let [before, with, after] = &parts;
    let added = with.cores - (before.cores + after.cores) / 2.0;
    let shown = |quantile: f64| {
        let place = (quantile * (with.shown_ms.len().max(1) - 1) as f64).round() as usize;
        with.shown_ms.get(place).copied().unwrap_or(f64::NAN)
    };
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(shown);
    println!("{pages} open pages cost {:.1} % of a core", 100.0 * added);
    println!("a decision is told to a page after its answer: p50 {p50:.0} ms, p99 {p99:.0} ms, at most {most:.0} ms");
    let part = |part: &Part| {
        json!({"cores": part.cores, "tasks_per_s": part.tasks_per_s, "resident_mib": part.resident_mib,
            "bytes_per_page_s": part.bytes_per_page_s})
    };
    json!({"pages": pages, "parts": parts.iter().map(part).collect::<Vec<_>>(), "added_cores": added,
        "shown_ms": {"p50": p50, "p99": p99, "max": most}})
}

async fn load_with(daemon: &Daemon, pages: u64, counted: Duration) -> Part {
    let client = reqwest::Client::new();
    let (shown, bytes) = (Arc::new(Mutex::new(Shown::default())), Arc::new(AtomicU64::new(0)));
    let mut watching = JoinSet::new();
    for page in 0..pages {
        let urls = ["/v1/events", "/v1/history", "/v1/regret"].map(|path| daemon.url(path));
        let shown = (page == 0).then(|| Arc::clone(&shown));
        watching.spawn(watch(client.clone(), urls, page, shown, Arc::clone(&bytes)));
    }
    let (url, mut tasks, mut number) = (daemon.url("/v1/tasks"), JoinSet::new(), 0_u64);
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut run = async |time: Duration| {
        let started = Instant::now();
        let first = number;
        while started.elapsed() < time {
            ticks.tick().await;
            number += 1;
            let (client, url, shown) = (client.clone(), url.clone(), Arc::clone(&shown));
            // Few texts, so that their embeddings are cached, as they are of what pages show least about.
            let body = json!({"id": format!("page-{number}"), "domain": "math", "prompt": format!("What is {} plus 2?", number % 64)});
            tasks.spawn(async move {
                let answer = client.post(url).json(&body).send().await.ok()?.json::<Value>().await.ok()?;
                let id = answer["decision_id"].as_str()?.to_owned();
                shown.lock().ok()?.answered.insert(id, Instant::now());
                Some(())
            });
            while tasks.try_join_next().is_some() {}
        }
        ((number - first) as f64 / started.elapsed().as_secs_f64(), started.elapsed())
    };
    run(WARM_UP).await;
    let (cpu, sent) = (daemon.cpu_s(), bytes.load(Ordering::Relaxed));
    let (tasks_per_s, took) = run(counted).await;
    let seconds = took.as_secs_f64();
    let part = Part {
        cores: (daemon.cpu_s() - cpu) / seconds,
        tasks_per_s,
        resident_mib: daemon.resident_mib(),
        bytes_per_page_s: (bytes.load(Ordering::Relaxed) - sent) as f64 / seconds / pages.max(1) as f64,
        shown_ms: vec![],
    };
    tokio::time::sleep(Duration::from_millis(600)).await;
    watching.shutdown().await;
    tasks.join_all().await;
    let shown = shown.lock().expect("nobody panicked");
    let waited = shown.answered.iter().filter_map(|(id, answered)| {
        Some(shown.heard.get(id)?.saturating_duration_since(*answered).as_secs_f64() * 1e3)
    });
    let mut shown_ms: Vec<f64> = waited.collect();
    shown_ms.sort_by(f64::total_cmp);
    Part { shown_ms, ..part }
}

/// One open page, until it is aborted. One of them looks at what it is told.
async fn watch(
    client: reqwest::Client,
    [events, history, regret]: [String; 3],
    page: u64,
    shown: Option<Arc<Mutex<Shown>>>,
    bytes: Arc<AtomicU64>,
) {
    let charts = async {
        // Pages are not opened all at once.
        tokio::time::sleep(Duration::from_millis(page * 200)).await;
        let mut ticks = tokio::time::interval(CHARTS_EVERY);
        loop {
            ticks.tick().await;
            for url in [&history, &regret] {
                if let Ok(answer) = client.get(url).send().await {
                    let body = answer.bytes().await.unwrap_or_default();
                    bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
                }
            }
        }
    };
    let live = async {
        let mut stream = client.get(&events).send().await.expect("the daemon is there");
        let mut rest = String::new();
        while let Ok(Some(chunk)) = stream.chunk().await {
            bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            let Some(shown) = &shown else { continue };
            let now = Instant::now();
            rest.push_str(&String::from_utf8_lossy(&chunk));
            while let Some((event, after)) = rest.split_once("\n\n") {
                let round = event
                    .lines()
                    .find_map(|line| line.strip_prefix("data: "))
                    .filter(|_| event.contains("event: round\n"));
                let id = round.and_then(|data| serde_json::from_str::<Value>(data).ok());
                if let Some(id) = id.and_then(|round| round["decision_id"].as_str().map(str::to_owned)) {
                    shown.lock().expect("nobody panicked").heard.entry(id).or_insert(now);
                }
                rest = after.to_owned();
            }
        }
    };
    tokio::join!(charts, live);
}

/// What a browser sees, where there is one.
fn painted(daemon: &Daemon) -> Option<Value> {
    let Ok(folder) = env::var("POINTSMAN_BROWSER") else {
        println!("\nno browser: POINTSMAN_BROWSER does not name the folder of its packages");
        return None;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/pages/paint.mjs");
    let ran = Command::new("node").arg(script).arg(daemon.url("")).arg(folder).output().expect("node is there");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let found: Value = serde_json::from_slice(&ran.stdout).expect("it prints JSON");
    println!("\nthe overview in Chromium: {found:#}");
    Some(found)
}
