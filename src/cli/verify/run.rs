//! `pointsman verify run`: scores a file of tasks with their answers.
//!
//! Lines are scored side by side and written in the order in which they came. A line that cannot be read gets a line that
//! says why, so that input and output can be laid side by side; the command fails at the end.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use futures::{StreamExt, stream};
use pointsman::{
    feedback::verifier::{Compiled, Sandbox},
    round::{Domain, Metadata, Signal, Task, TaskId, VerdictStatus},
};
use serde::{Deserialize, Serialize};

use super::{Limits, compiled};
use crate::cli::{folders::Folders, progress};

#[derive(Args)]
pub(in crate::cli) struct RunArguments {
    /// A component's file, or the name of a first-party verifier.
    verifier: String,
    /// Lines {id, domain, prompt, metadata, response}; metadata may carry reference, tests, schema. `-` is standard input.
    #[arg(long = "in", value_name = "FILE")]
    input: PathBuf,
    /// Lines {id, status, score, signals, trace, fuel, ms}. `-` is standard output.
    #[arg(long = "out", value_name = "FILE")]
    output: PathBuf,
    /// The verifier's configuration, a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    config: String,
    #[command(flatten)]
    limits: Limits,
}

/// One answer to score.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: TaskId,
    #[serde(default = "Domain::unknown")]
    domain: Domain,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    metadata: Metadata,
    response: String,
}

/// What came of one line.
#[derive(Serialize)]
#[serde(untagged)]
enum Scored {
    Verified {
        id: TaskId,
        status: VerdictStatus,
        score: Option<f64>,
        signals: Vec<Signal>,
        trace: Vec<String>,
        fuel: u64,
        ms: f64,
    },
    Unreadable {
        line: usize,
        error: String,
    },
}

pub(super) async fn run(arguments: RunArguments, folders: &Folders) -> Result<()> {
    let (sandbox, compiled) = compiled(&arguments.verifier, &arguments.limits, folders)?;
    let (compiled, config) = (Arc::new(compiled), Arc::from(arguments.config.as_str()));
    let input: Box<dyn BufRead> = if arguments.input.as_os_str() == "-" {
        Box::new(BufReader::new(io::stdin()))
    } else {
        let path = &arguments.input;
        Box::new(BufReader::new(File::open(path).with_context(|| format!("cannot read {}", path.display()))?))
    };
    let mut output: Box<dyn Write> = if arguments.output.as_os_str() == "-" {
        Box::new(BufWriter::new(io::stdout()))
    } else {
        let path = &arguments.output;
        Box::new(BufWriter::new(File::create(path).with_context(|| format!("cannot write {}", path.display()))?))
    };
    let bar = progress::spinner("verifying");
    let lines = input
        .split(b'\n')
        .enumerate()
        .filter(|(_, line)| !line.as_ref().is_ok_and(|line| line.trim_ascii().is_empty()));
    let jobs = lines.map(|(place, line)| {
        let (sandbox, compiled, config) = (Arc::clone(&sandbox), Arc::clone(&compiled), Arc::clone(&config));
        score(sandbox, compiled, config, place + 1, line)
    });
    // Twice as many as run at one time, so that none of them waits for the reading of a line.
    let mut scored = stream::iter(jobs).buffered(arguments.limits.concurrency() * 2);
    let (mut unreadable, mut total, mut sum, mut with_score) = (0_u64, 0_u64, 0.0, 0_u64);
    while let Some(line) = scored.next().await {
        total += 1;
        match &line {
            Scored::Verified { score: Some(score), .. } => {
                sum += score;
                with_score += 1;
            }
            Scored::Verified { score: None, .. } => {}
            Scored::Unreadable { .. } => unreadable += 1,
        }
        serde_json::to_writer(&mut output, &line)?;
        output.write_all(b"\n").context("the output cannot be written")?;
        bar.inc(1);
    }
    output.flush().context("the output cannot be written")?;
    bar.finish_and_clear();
    let mean = if with_score > 0 { format!("{:.4}", sum / with_score as f64) } else { "none".into() };
    eprintln!("{total} answers, {with_score} with a score, mean {mean}");
    if unreadable > 0 {
        bail!("{unreadable} lines could not be read; the output says why");
    }
    Ok(())
}

async fn score(
    sandbox: Arc<Sandbox>,
    compiled: Arc<Compiled>,
    config: Arc<str>,
    line: usize,
    text: io::Result<Vec<u8>>,
) -> Scored {
    let read = text.map_err(|error| error.to_string()).and_then(|text| {
        serde_json::from_slice::<Line>(&text).map_err(|error| format!("{error}; see pointsman verify run --help"))
    });
    let Line { id, domain, prompt, metadata, response } = match read {
        Ok(read) => read,
        Err(error) => return Scored::Unreadable { line, error },
    };
    let task = Task::plain(id.clone(), domain, prompt, metadata);
    let verified = sandbox.verify(&compiled, &task, &response, &config).await;
    Scored::Verified {
        id,
        status: verified.status,
        score: verified.score,
        signals: verified.signals,
        trace: verified.trace,
        fuel: verified.fuel,
        ms: verified.duration_us as f64 / 1e3,
    }
}
