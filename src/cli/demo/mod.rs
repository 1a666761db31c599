//! `pointsman demo`: the whole loop on generated tasks, for real but for the workers' words.
//!
//! A daemon is started as `serve` would and the tasks go through its HTTP API. The workers are scripted: they write
//! real answers, right or wrong with a stated skill. What is learnt comes from the verifiers alone; the stated skill
//! is used only to draw exact regret.

mod summary;
mod world;

use std::{
    convert::Infallible,
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use futures::{StreamExt, stream};
use indicatif::ProgressBar;
use pointsman::{api::Progress, config, regret::RegretReport};

use tokio::sync::Semaphore;

use super::{
    daemon::{Daemon, asked_to_stop},
    folders::{DataFolder, Folders},
    progress,
};
use summary::Summary;

/// Tasks streamed when no number is given; then the page stays open.
const TASKS: u64 = 5_000;
/// Tasks sent and not yet answered, at most.
const AHEAD: usize = 64;

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman demo                                        5,000 tasks, then the page stays open until Ctrl-C
  pointsman demo --tasks 2000 --json demo.json          ends by itself and writes the table as JSON
  pointsman demo --modes                                with rounds and teams: each pays in one domain
  pointsman demo --data-dir ./state                     keeps what it learnt for the next run")]
pub(super) struct DemoArguments {
    /// How many tasks to stream; the demo then ends by itself.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    tasks: Option<u64>,
    /// Where state is kept [default: a temporary folder].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Write the closing table as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Let workers be run in rounds and as a team too.
    #[arg(long)]
    modes: bool,
    /// Which tasks are generated.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub(super) async fn run(arguments: DemoArguments, folders: &Folders) -> Result<()> {
    let started = Instant::now();
    let text = format!("[server]\nlisten = \"{}\"\n{}", arguments.listen, world::config(arguments.modes));
    let config = config::check(&text, std::path::Path::new("."), &|_| None)?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder; give --data-dir DIR")?;
    let data = DataFolder::lock(arguments.data_dir.as_deref().unwrap_or(temporary.path()))?;
    let daemon = Daemon::start(&config, folders, data).await?;
    println!("Watch it learn: {}/dashboard", daemon.url);

    let total = arguments.tasks.unwrap_or(TASKS);
    let first = daemon.opened.rounds;
    let stop = Arc::new(AtomicBool::new(false));
    let bar = progress::bar(total, "tasks routed and verified");
    let streamed = tokio::select! {
        streamed = stream_tasks(&daemon, arguments.seed, first, total, started, &stop, &bar) => streamed,
        () = stop_after_signal(&stop) => bail!("stopped by a second signal; what was acknowledged is in the journal"),
    };
    bar.finish_and_clear();
    let streamed = streamed?;

    let report = settled(&daemon, first + streamed.answered).await;
    let summary = Summary::new(&report, &streamed, first);
    println!("{summary}");
    if let Some(path) = &arguments.json {
        fs::write(path, serde_json::to_vec_pretty(&summary)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if arguments.tasks.is_none() && !stop.load(Ordering::Relaxed) {
        println!("The page stays open at {}/dashboard; Ctrl-C ends.", daemon.url);
        asked_to_stop().await;
    }
    daemon.stop().await
}

/// The report once the last answers, which were acknowledged when durable, are learnt too; they are within moments.
async fn settled(daemon: &Daemon, rounds: u64) -> RegretReport {
    let mut report = daemon.state.router.regret();
    for _ in 0..200 {
        if report.rounds >= rounds {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        report = daemon.state.router.regret();
    }
    report
}

/// What the client saw.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Streamed {
    answered: u64,
    failed: u64,
    first_outcome_s: Option<f64>,
    seconds: f64,
}

/// Streams tasks through the HTTP API as any client would, until `stop` is set.
async fn stream_tasks(
    daemon: &Daemon,
    seed: u64,
    first: u64,
    total: u64,
    started: Instant,
    stop: &Arc<AtomicBool>,
    bar: &ProgressBar,
) -> Result<Streamed> {
    let began = Instant::now();
    // Bounds how far the feed runs ahead: sockets alone would buffer thousands of tasks, and Ctrl-C wait for them.
    let ahead = Arc::new(Semaphore::new(AHEAD));
    let (feeding, places) = (Arc::clone(stop), Arc::clone(&ahead));
    let lines = stream::iter(first..first + total)
        .then(move |index| {
            let places = Arc::clone(&places);
            async move {
                // Only a closed semaphore refuses a place, and nobody closes this one.
                if let Ok(place) = places.acquire_owned().await {
                    place.forget();
                }
                index
            }
        })
        .take_while(move |_| std::future::ready(!feeding.load(Ordering::Relaxed)))
        .map(move |index| Ok::<_, Infallible>(format!("{}\n", world::task(seed, index))));
    let response = reqwest::Client::new()
        .post(format!("{}/v1/tasks/stream", daemon.url))
        .header("content-type", "application/x-ndjson")
        .body(reqwest::Body::wrap_stream(lines))
        .send()
        .await?
        .error_for_status()?;
    let mut streamed = Streamed { answered: 0, failed: 0, first_outcome_s: None, seconds: 0.0 };
    let mut body = response.bytes_stream();
    let mut rest = Vec::new();
    while let Some(chunk) = body.next().await {
        rest.extend_from_slice(&chunk.context("the stream broke off")?);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let answer: serde_json::Value = serde_json::from_slice(&line).context("an answer is not JSON")?;
            if let Some(problem) = answer.get("problem") {
                streamed.failed += 1;
                bar.println(format!("line {}: {}", answer["line"], problem["detail"]));
            } else {
                streamed.answered += 1;
                streamed.first_outcome_s.get_or_insert_with(|| started.elapsed().as_secs_f64());
            }
            ahead.add_permits(1);
            let done = streamed.answered + streamed.failed;
            bar.set_position(done);
            daemon.state.progress.store(Some(Arc::new(Progress { done, total })));
        }
    }
    streamed.seconds = began.elapsed().as_secs_f64();
    Ok(streamed)
}

/// The first signal stops the feed, so that running tasks drain; the second ends this.
async fn stop_after_signal(stop: &AtomicBool) {
    asked_to_stop().await;
    stop.store(true, Ordering::Relaxed);
    eprintln!("Finishing the tasks in flight; Ctrl-C again to leave at once.");
    asked_to_stop().await;
}
