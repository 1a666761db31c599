//! `pointsman dataset`: says what is in a dataset, and makes of its tasks lines for `/v1/tasks/stream`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use pointsman::replay::{Dataset, DatasetTask, Format, ReadOptions};
use serde_json::json;

#[derive(Args)]
pub(super) struct DatasetArguments {
    #[command(subcommand)]
    command: DatasetCommand,
}

#[derive(Subcommand)]
enum DatasetCommand {
    /// Read a dataset and say what is in it.
    #[command(after_help = "Examples:
  pointsman dataset check llmrouter
  pointsman dataset check LLMRouterBench/results --models gpt-5,claude-sonnet-4

The exit code is 0 only if the whole dataset can be replayed.")]
    Check(CheckArguments),
    /// Write the tasks, with their references, as NDJSON.
    #[command(after_help = "Example:
  pointsman dataset tasks --dataset llmrouter --split test |
    curl -sN -X POST -T - 'http://127.0.0.1:7700/v1/tasks/stream'")]
    Tasks(TasksArguments),
}

/// How a dataset is read, for every command that reads one.
#[derive(Args)]
pub(super) struct ReadArguments {
    /// The dataset's format [default: told by what lies there].
    #[arg(long, value_name = "F", requires = "dataset", value_parser = PossibleValuesParser::new(Format::ALL.map(Format::name))
        .try_map(|name| name.parse::<Format>()))]
    format: Option<Format>,
    /// Only these of its models, by commas: those that have results on all tasks.
    #[arg(long, value_name = "M,...", requires = "dataset", value_delimiter = ',')]
    models: Vec<String>,
    /// Take costs that do not follow the price list as they are, with a warning.
    #[arg(long, requires = "dataset")]
    allow_mixed_prices: bool,
}

impl ReadArguments {
    /// Reads it; warnings go to standard error.
    pub(super) fn dataset(&self, path: &Path, splits: &[String]) -> Result<Dataset> {
        let dataset = self.quietly(path, splits)?;
        dataset.warnings.iter().for_each(|warning| eprintln!("{}: {warning}", dataset.name));
        Ok(dataset)
    }

    fn quietly(&self, path: &Path, splits: &[String]) -> Result<Dataset> {
        let options = ReadOptions {
            format: self.format,
            splits: splits.to_vec(),
            models: self.models.clone(),
            allow_mixed_prices: self.allow_mixed_prices,
        };
        Ok(Dataset::read(path, &options)?)
    }
}

#[derive(Args)]
struct CheckArguments {
    /// The dataset's folder or file.
    #[arg(value_name = "PATH")]
    dataset: PathBuf,
    /// Only these splits of it, by commas.
    #[arg(long, value_name = "S,...", value_delimiter = ',')]
    split: Vec<String>,
    #[command(flatten)]
    read: ReadArguments,
}

#[derive(Args)]
struct TasksArguments {
    /// The dataset's folder or file.
    #[arg(long, value_name = "PATH")]
    dataset: PathBuf,
    /// Only these splits of it, by commas.
    #[arg(long, value_name = "S,...", value_delimiter = ',')]
    split: Vec<String>,
    #[command(flatten)]
    read: ReadArguments,
    /// At most so many tasks.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub(super) fn run(arguments: &DatasetArguments) -> Result<()> {
    let text = match &arguments.command {
        DatasetCommand::Tasks(arguments) => return tasks(arguments),
        DatasetCommand::Check(CheckArguments { dataset, split, read }) => {
            let format = read.format.map_or_else(|| Format::find(dataset), Ok)?;
            describe(format, &read.quietly(dataset, split)?)
        }
    };
    print!("{text}");
    Ok(())
}

/// Writes the tasks that have a prompt: without one there is nothing to ask a worker.
fn tasks(arguments: &TasksArguments) -> Result<()> {
    let TasksArguments { dataset, split, read, limit } = arguments;
    let dataset = read.dataset(dataset, split)?;
    if dataset.without_prompt > 0 {
        eprintln!("{}: {} tasks without a prompt are left out", dataset.name, dataset.without_prompt);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    let prompted = dataset.tasks.iter().filter_map(|task| Some((task, task.prompt.as_deref()?)));
    for (task, prompt) in prompted.take(limit.unwrap_or(usize::MAX)) {
        let line = json!({"id": task.id, "domain": task.domain, "prompt": prompt, "metadata": task.metadata});
        match writeln!(out, "{line}") {
            // The reader has what it wanted, as with `head`.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
    Ok(out.flush()?)
}

/// What is in a dataset.
fn describe(format: Format, dataset: &Dataset) -> String {
    let (tasks, models) = (dataset.tasks.len(), dataset.models.len());
    let mut text = format!("{}: {format}, {tasks} tasks x {models} models, {} results\n", dataset.name, tasks * models);
    let _ = writeln!(text, "{} tasks without a prompt, known by their domain alone", dataset.without_prompt);
    let _ = writeln!(text, "{} results that were not measured", dataset.unmeasured);
    let mut table = new_table(&["model", "usd / 1M read", "usd / 1M written", "mean score", "cost (usd)"]);
    for (place, model) in dataset.models.iter().enumerate() {
        let results = || dataset.tasks.iter().map(|task| task.results[place]);
        let score: f64 = results().map(|result| result.score).sum();
        let cost: f64 = results().map(|result| result.cost_usd).sum();
        table.add_row([
            model.arm.to_string(),
            format!("{:.4}", model.input_per_1m),
            format!("{:.4}", model.output_per_1m),
            format!("{:.4}", score / tasks.max(1) as f64),
            format!("{cost:.4}"),
        ]);
    }
    let _ = writeln!(text, "{}", right(table, 1));
    let mut table = new_table(&["split", "domain", "source", "tasks", "without prompt", "not measured"]);
    let mut groups: BTreeMap<[&str; 3], [usize; 3]> = BTreeMap::new();
    for task in &dataset.tasks {
        let DatasetTask { split, domain, source, prompt, results, .. } = task;
        let [tasks, without, unmeasured] = groups.entry([split, domain.as_str(), source]).or_default();
        *tasks += 1;
        *without += usize::from(prompt.is_none());
        *unmeasured += results.iter().filter(|result| !result.measured).count();
    }
    for (names, counts) in groups {
        table.add_row(names.map(str::to_owned).into_iter().chain(counts.map(|count| count.to_string())));
    }
    let _ = writeln!(text, "{}", right(table, 3));
    for warning in &dataset.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(header.to_vec());
    table
}

/// Numbers stand from this column on.
fn right(mut table: Table, from: usize) -> Table {
    table.column_iter_mut().skip(from).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}
