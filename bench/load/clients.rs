//! Clients: at a steady rate, as many as there is room for, and thousands of open streams.

use std::{
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt;
use reqwest::Client;
use serde_json::json;

/// Different prompts, so that each one's embedding is cached after the first round.
const PROMPTS: usize = 50;

fn body(n: usize, stream: bool) -> String {
    let prompt = format!("What is {} plus {}? Answer with the number alone.", n % PROMPTS, n % 7);
    json!({"model": "auto", "stream": stream, "messages": [{"role": "user", "content": prompt}]}).to_string()
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/v1/chat/completions")
}

/// The middle, the 99th percentile and the longest of some times, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Times {
    pub fn of(mut all: Vec<f64>) -> Self {
        all.sort_by(f64::total_cmp);
        let at =
            |share: f64| all.get(((all.len() as f64 * share) as usize).min(all.len() - 1)).copied().unwrap_or(f64::NAN);
        Self { p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

/// Sends requests at fixed moments whatever becomes of earlier ones; a request's time counts from its moment.
pub async fn steady(address: SocketAddr, per_second: u32, lasting: Duration) -> Result<Times, String> {
    let client = Client::builder().pool_max_idle_per_host(256).build().map_err(|error| error.to_string())?;
    let (gap, count) = (Duration::from_secs(1) / per_second, (lasting.as_secs_f64() * f64::from(per_second)) as usize);
    let began = tokio::time::Instant::now() + Duration::from_millis(50);
    let requests = (0..count).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            let moment = began + gap * n as u32;
            tokio::time::sleep_until(moment).await;
            let request = client.post(url(address)).header("content-type", "application/json").body(body(n, false));
            let answer = request.send().await.map_err(|error| error.to_string())?;
            let (status, text) = (answer.status(), answer.text().await.map_err(|error| error.to_string())?);
            if status.is_success() {
                Ok(moment.elapsed().as_secs_f64() * 1e3)
            } else {
                Err(format!("{status}: {text}"))
            }
        })
    });
    let mut all = Vec::new();
    for request in requests.collect::<Vec<_>>() {
        all.push(request.await.map_err(|error| error.to_string())??);
    }
    Ok(Times::of(all))
}

/// Requests a second that `wrk` gets through over 32 connections.
pub fn throughput(folder: &Path, address: SocketAddr, lasting: Duration) -> Result<f64, String> {
    let script = folder.join("chat.lua");
    let text = format!(
        "wrk.method = 'POST'\nwrk.headers['content-type'] = 'application/json'\nlocal bodies = {{}}\n{}local n = 0\n\
         request = function()\n  n = n + 1\n  return wrk.format(nil, nil, nil, bodies[n % {PROMPTS} + 1])\nend\n",
        (0..PROMPTS).map(|n| format!("bodies[{}] = [==[{}]==]\n", n + 1, body(n, false))).collect::<String>()
    );
    std::fs::write(&script, text).map_err(|error| error.to_string())?;
    let lasting = format!("-d{}", lasting.as_secs());
    let ran = Command::new("wrk")
        .args(["-t1", "-c32", &lasting, "--timeout", "10", "-s"])
        .arg(&script)
        .arg(url(address))
        .output();
    let ran = ran
        .map_err(|error| format!("wrk cannot be run ({error}): install it, for example with `apt-get install wrk`"))?;
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    if text.contains("Non-2xx") || text.contains("Socket errors") {
        return Err(format!("some requests failed:\n{text}"));
    }
    let rate = text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:")?.trim().parse().ok());
    rate.ok_or(format!("wrk said:\n{text}"))
}

/// What streaming clients saw.
#[derive(Debug, Clone, Copy)]
pub struct Streams {
    pub finished: usize,
    pub first_byte: Times,
    /// Of each stream the longest time without a byte.
    pub longest_gap: Times,
}

/// Opens so many streams, a few at a time, and reads each to its end. All are open before the first one ends.
pub async fn streams(address: SocketAddr, count: usize, opening: Duration) -> Result<Streams, String> {
    let client = Arc::new(Client::builder().build().map_err(|error| error.to_string())?);
    let began = tokio::time::Instant::now();
    let all = (0..count).map(|n| {
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            tokio::time::sleep_until(began + opening.mul_f64(n as f64 / count as f64)).await;
            one(&client, address, n).await
        })
    });
    let (mut first, mut gaps) = (Vec::new(), Vec::new());
    for one in all.collect::<Vec<_>>() {
        let (first_ms, gap_ms) = one.await.map_err(|error| error.to_string())??;
        first.push(first_ms);
        gaps.push(gap_ms);
    }
    Ok(Streams { finished: first.len(), first_byte: Times::of(first), longest_gap: Times::of(gaps) })
}

async fn one(client: &Client, address: SocketAddr, n: usize) -> Result<(f64, f64), String> {
    let started = Instant::now();
    let request = client.post(url(address)).header("content-type", "application/json").body(body(n, true));
    let answer = request.send().await.map_err(|error| format!("{error:?}"))?;
    if !answer.status().is_success() {
        return Err(format!("{}: {}", answer.status(), answer.text().await.unwrap_or_default()));
    }
    let mut bytes = answer.bytes_stream();
    let (mut first, mut last, mut gap, mut end) = (None, Instant::now(), 0.0_f64, Vec::new());
    while let Some(piece) = bytes.next().await {
        end = piece.map_err(|error| format!("{error:?}"))?.to_vec();
        match first {
            None => first = Some(started.elapsed().as_secs_f64() * 1e3),
            Some(_) => gap = gap.max(last.elapsed().as_secs_f64() * 1e3),
        }
        last = Instant::now();
    }
    let whole = end.trim_ascii_end().ends_with(b"data: [DONE]");
    if whole {
        Ok((first.unwrap_or(f64::NAN), gap))
    } else {
        Err(format!("a stream ended with {:?}", String::from_utf8_lossy(&end)))
    }
}
