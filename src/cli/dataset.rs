//! `pointsman dataset tasks`: a dataset's tasks as lines for `/v1/tasks/stream`.

use std::{
    io::{self, ErrorKind, Write},
    path::PathBuf,
};

use anyhow::Result;
use clap::{Args, Subcommand};
use pointsman::replay::Dataset;
use serde_json::json;

#[derive(Args)]
pub(super) struct DatasetArguments {
    #[command(subcommand)]
    command: DatasetCommand,
}

#[derive(Subcommand)]
enum DatasetCommand {
    /// Write the tasks, with their references, as NDJSON.
    #[command(after_help = "Example:
  pointsman dataset tasks --dataset llmrouter --split test |
    curl -sN -X POST -T - 'http://127.0.0.1:7700/v1/tasks/stream'")]
    Tasks(TasksArguments),
}

#[derive(Args)]
struct TasksArguments {
    /// The dataset's folder.
    #[arg(long, value_name = "DIR")]
    dataset: PathBuf,
    /// Only this split of it.
    #[arg(long, value_name = "S")]
    split: Option<String>,
    /// At most so many tasks.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub(super) fn run(arguments: &DatasetArguments) -> Result<()> {
    let DatasetCommand::Tasks(TasksArguments { dataset, split, limit }) = &arguments.command;
    let dataset = Dataset::read(dataset, split.as_deref())?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for task in dataset.tasks.iter().take(limit.unwrap_or(usize::MAX)) {
        let line = json!({"id": task.id, "domain": task.domain, "prompt": task.text(), "metadata": task.metadata});
        match writeln!(out, "{line}") {
            // The reader has what it wanted, as with `head`.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
    Ok(out.flush()?)
}
