//! What the daemon adds to a worker's own time, how much it gets through, and what open streams cost; LiteLLM's proxy beside it.
//!
//! `cargo bench --bench load [-- --seconds 20] [--rounds 3] [--streams 2000] [--json FILE]`. The worker answers after 60 ms, or at
//! once. Every round asks the worker itself, the daemon, and the proxy that POINTSMAN_LITELLM names, one after the other, the proxy
//! standing still while others are asked at a steady rate; the table holds medians over rounds. The daemon keeps its journal with
//! `synchronous = "normal"` (it survives kill -9), verifies and learns.

#[path = "load/clients.rs"]
mod clients;
#[expect(dead_code, reason = "the programs that share it use different parts")]
mod daemon;
#[path = "load/proxy.rs"]
mod proxy;
#[path = "load/worker.rs"]
mod worker;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use clients::{Streams, Times};
use daemon::Daemon;
use proxy::Proxy;
use worker::Worker;

/// Requests a second of the steady loads: one that leaves every program idle most of the time, and the one that goals are stated for.
const RATES: [u32; 2] = [25, 100];
/// So many that every prompt was asked before anything is measured.
const WARM_RATE: u32 = 100;

struct Plan {
    seconds: u64,
    rounds: usize,
    streams: usize,
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1).cloned()
    };
    // Only build and check, as `cargo test --benches` does.
    if arguments.iter().any(|argument| argument == "--test") {
        println!("load: nothing is measured with --test");
        return ExitCode::SUCCESS;
    }
    let number = |name: &str, usual: u64| after(name).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    if let Some(delay) = after("--worker") {
        let delay = delay.parse().expect("this program gives itself a number");
        runtime.block_on(worker::run(Duration::from_millis(delay)));
        return ExitCode::SUCCESS;
    }
    let plan = Plan {
        seconds: number("--seconds", 20),
        rounds: number("--rounds", 3) as usize,
        streams: number("--streams", 2_000) as usize,
        json: after("--json").map(PathBuf::from),
    };
    match runtime.block_on(run(&plan)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(plan: &Plan) -> Result<(), String> {
    let mut latency = Vec::new();
    for rate in RATES {
        latency.push((rate, self::latency(plan, rate).await?));
    }
    let throughput = throughput(plan).await?;
    let (streams, before_mib, peak_mib) = open_streams(plan).await?;
    println!();
    println!("Requests at a steady rate to a worker of 60 ms; what each adds to the worker's own time, in ms:\n");
    println!("| Requests a second | | p50 | p99 |\n|---|---|---|---|");
    for (rate, added) in &latency {
        for (name, added) in added {
            println!("| {rate} | {name} | {:.2} | {:.2} |", added.p50, added.p99);
        }
    }
    println!("\n32 connections to a worker of 0 ms, requests a second:\n\n| | |\n|---|---|");
    for (name, rate) in &throughput {
        println!("| {name} | {rate:.0} |");
    }
    let Streams { finished, first_byte, longest_gap } = streams;
    println!(
        "\n{finished} streams open at once, a piece every {} ms: resident memory {before_mib:.0} MiB before, {peak_mib:.0} MiB at most \
         (+{:.0}); first byte p50 {:.0} ms, p99 {:.0} ms; the longest gap of a stream p50 {:.0} ms, p99 {:.0} ms, at most {:.0} ms",
        worker::GAP.as_millis(),
        peak_mib - before_mib,
        first_byte.p50,
        first_byte.p99,
        longest_gap.p50,
        longest_gap.p99,
        longest_gap.max
    );
    if let Some(path) = &plan.json {
        let added = latency.iter().flat_map(|(rate, added)| {
            let row = move |(name, times): &(String, Times)| json!({"rate": rate, "name": name, "p50_ms": times.p50, "p99_ms": times.p99});
            added.iter().map(row)
        });
        let rates = |(name, rate): &(String, f64)| json!({"name": name, "per_second": rate});
        let report = json!({
            "added": added.collect::<Vec<_>>(),
            "throughput": throughput.iter().map(rates).collect::<Vec<_>>(),
            "streams": {"open": finished, "before_mib": before_mib, "peak_mib": peak_mib, "first_byte_p99_ms": first_byte.p99,
                        "longest_gap_p99_ms": longest_gap.p99, "longest_gap_max_ms": longest_gap.max},
        });
        fs::write(path, format!("{report:#}\n")).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// What the daemon and the proxy add to the worker's own time.
async fn latency(plan: &Plan, rate: u32) -> Result<Vec<(String, Times)>, String> {
    let worker = Worker::start(Duration::from_millis(60));
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let served = daemon(folder.path(), worker.address)?;
    let proxy = proxy(folder.path(), worker.address).await?;
    let targets = targets(worker.address, &served, proxy.as_ref());
    let alone = async |address: &SocketAddr| {
        if let Some(proxy) = &proxy {
            proxy.runs_for(*address).await;
        }
    };
    for (_, address) in &targets {
        alone(address).await;
        clients::steady(*address, WARM_RATE, Duration::from_secs(5)).await?;
    }
    let mut rounds = vec![Vec::new(); targets.len()];
    for round in 1..=plan.rounds {
        for ((name, address), times) in targets.iter().zip(&mut rounds) {
            alone(address).await;
            let seen = clients::steady(*address, rate, Duration::from_secs(plan.seconds)).await?;
            eprintln!(
                "round {round}, {rate} a second, {name}: p50 {:.2} ms, p99 {:.2} ms, at most {:.1} ms",
                seen.p50, seen.p99, seen.max
            );
            times.push(seen);
        }
    }
    let own = rounds.remove(0);
    let added = |times: Vec<Times>| {
        let over = |part: fn(&Times) -> f64| median(times.iter().zip(&own).map(|(seen, own)| part(seen) - part(own)));
        Times { p50: over(|times| times.p50), p99: over(|times| times.p99), max: over(|times| times.max) }
    };
    Ok(targets.into_iter().skip(1).map(|(name, _)| name).zip(rounds.into_iter().map(added)).collect())
}

/// Requests a second.
async fn throughput(plan: &Plan) -> Result<Vec<(String, f64)>, String> {
    let worker = Worker::start(Duration::ZERO);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let served = daemon(folder.path(), worker.address)?;
    let proxy = proxy(folder.path(), worker.address).await?;
    let targets = targets(worker.address, &served, proxy.as_ref());
    let mut rounds = vec![Vec::new(); targets.len()];
    for round in 0..=plan.rounds {
        for ((name, address), rates) in targets.iter().zip(&mut rounds) {
            let rate = clients::throughput(folder.path(), *address, Duration::from_secs(plan.seconds.min(15)))?;
            // The first one warms up.
            if round > 0 {
                eprintln!("round {round}, {name}: {rate:.0} a second");
                rates.push(rate);
            }
        }
    }
    Ok(targets
        .into_iter()
        .map(|(name, _)| name)
        .zip(rounds.into_iter().map(|rates| median(rates.into_iter())))
        .collect())
}

/// Many streams, and resident memory before and at most.
async fn open_streams(plan: &Plan) -> Result<(Streams, f64, f64), String> {
    let worker = Worker::start(Duration::ZERO);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let served = daemon(folder.path(), worker.address)?;
    // What any load costs once is not what streams cost.
    clients::steady(served.address(), WARM_RATE, Duration::from_secs(10)).await?;
    let before = served.resident_mib();
    let opening = (worker::GAP * worker::PIECES as u32).mul_f64(0.7);
    let mut streams = std::pin::pin!(clients::streams(served.address(), plan.streams, opening));
    let mut peak = before;
    let seen = loop {
        tokio::select! {
            seen = &mut streams => break seen?,
            () = tokio::time::sleep(Duration::from_millis(100)) => peak = peak.max(served.resident_mib()),
        }
    };
    Ok((seen, before, peak.max(served.resident_mib())))
}

fn targets(worker: SocketAddr, served: &Daemon, proxy: Option<&Proxy>) -> Vec<(String, SocketAddr)> {
    let proxy = proxy.map(|proxy| ("LiteLLM's proxy".to_owned(), proxy.address));
    [("the worker itself".to_owned(), worker), ("Pointsman".to_owned(), served.address())]
        .into_iter()
        .chain(proxy)
        .collect()
}

fn daemon(folder: &Path, worker: SocketAddr) -> Result<Daemon, String> {
    let arm = |id: &str| {
        format!(
            "[[arms]]\nid = \"{id}\"\nkind = \"openai\"\nbase_url = \"http://{worker}/v1\"\nmodel = \"mock\"\nconcurrency = 4096\n\
             input_usd_per_1m = 1.0\noutput_usd_per_1m = 2.0\n"
        )
    };
    let config = format!("[journal]\nsynchronous = \"normal\"\n[domains.math]\n{}{}", arm("first"), arm("second"));
    fs::write(folder.join("pointsman.toml"), config).map_err(|error| error.to_string())?;
    let mut served = Daemon::spawn(Path::new(env!("CARGO_BIN_EXE_pointsman")), folder);
    served.ready()?;
    Ok(served)
}

async fn proxy(folder: &Path, worker: SocketAddr) -> Result<Option<Proxy>, String> {
    match Proxy::program() {
        Some(program) => Proxy::start(&program, folder, worker).await.map(Some),
        None => {
            eprintln!("LiteLLM's proxy is left out: POINTSMAN_LITELLM does not name its program");
            Ok(None)
        }
    }
}

fn median(all: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}
