//! The shared layout, this crate's own: a folder with `tasks.jsonl`, `results.csv` and `models.json`, each also as .gz.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::{
    builder::{Builder, Listed, NewResult, NewTask},
    costs::Cost,
    error::DatasetError,
    json::parse,
    metadata,
    prices::Tokens,
    source::{Lines, plain_or_gz},
    spot::{Names, Part, Spot, file_name},
    table::Table,
};

#[derive(Deserialize)]
struct Task {
    task_id: String,
    split: String,
    dimension: String,
    #[serde(default)]
    source: String,
    prompt: Option<String>,
    reference: Option<Value>,
    metric: Option<String>,
}

/// Whether a folder is of this layout.
pub(super) fn is_at(folder: &Path) -> bool {
    ["tasks.jsonl", "results.csv"].iter().all(|name| plain_or_gz(&folder.join(name)).is_some())
}

/// A file of the folder that must be there.
pub(super) fn needed(folder: &Path, name: &str) -> Result<PathBuf, DatasetError> {
    let path = folder.join(name);
    plain_or_gz(&path).ok_or(DatasetError::Missing(path))
}

pub(super) fn read(folder: &Path, builder: &mut Builder) -> Result<Listed, DatasetError> {
    builder.models.list(&needed(folder, "models.json")?)?;
    let tasks = needed(folder, "tasks.jsonl")?;
    read_tasks(&tasks, builder)?;
    read_results(&needed(folder, "results.csv")?, &file_name(&tasks), builder)?;
    Ok(Listed::All)
}

fn read_tasks(path: &Path, builder: &mut Builder) -> Result<(), DatasetError> {
    let names = Names::fields(&[(Part::Id, "task_id"), (Part::Prompt, "prompt"), (Part::Domain, "dimension")]);
    let mut lines = Lines::open(path)?;
    while let Some((line, text)) = lines.next()? {
        let task: Task = parse(path, line, text)?;
        let new = NewTask {
            id: &task.task_id,
            split: &task.split,
            domain: &task.dimension,
            source: &task.source,
            prompt: task.prompt,
            metadata: metadata(task.reference, task.metric.as_deref()),
        };
        builder.task(&Spot { path, line, names: &names }, new)?;
    }
    Ok(())
}

fn read_results(path: &Path, tasks: &str, builder: &mut Builder) -> Result<(), DatasetError> {
    let mut table = Table::open(path)?;
    let [id, model, score, cost] = ["task_id", "model", "score", "cost_usd"].map(|name| table.need(&[name]));
    let (id, model, score, cost) = (id?, model?, score?, cost?);
    let [read, written, latency] = ["input_tokens", "output_tokens", "latency_ms"].map(|name| table.column(name));
    let [estimated, measured, applied] = ["cost_estimated", "measured", "apply_ok"].map(|name| table.column(name));
    let parts = [(Part::Id, id), (Part::Model, model), (Part::Score, score), (Part::Cost, cost)];
    let names = Names(parts.map(|(part, column)| (part, table.place(column))).to_vec());
    while table.next()? {
        let spot = Spot { path, line: table.line(), names: &names };
        let task = builder.find(&spot, table.text(id)?, tasks)?;
        let known = builder.models.find(&spot, table.text(model)?)?;
        let (Some(task), Some(known)) = (task, known) else { continue };
        let result = NewResult {
            score: table.number(score)?,
            cost: Cost::Known(table.number(cost)?),
            tokens: tokens(&table, read, written)?,
            measured: flag(&table, measured)?.unwrap_or(true),
            estimated: flag(&table, estimated)?.unwrap_or(false),
            applied: flag(&table, applied)?,
            latency_ms: optional(&table, latency)?,
        };
        builder.result(&spot, task, known, result)?;
    }
    Ok(())
}

/// The tokens of a row that has both.
pub(super) fn tokens(
    table: &Table,
    read: Option<usize>,
    written: Option<usize>,
) -> Result<Option<Tokens>, DatasetError> {
    let (Some(read), Some(written)) = (read, written) else { return Ok(None) };
    Ok(table.count(read)?.zip(table.count(written)?).map(|(read, written)| Tokens { read, written }))
}

/// A number that may be missing or blank: 0 then.
fn optional(table: &Table, column: Option<usize>) -> Result<f64, DatasetError> {
    match column {
        Some(column) if !table.text(column)?.trim().is_empty() => table.number(column),
        Some(_) | None => Ok(0.0),
    }
}

/// A column of 0 and 1 that may be missing or blank.
fn flag(table: &Table, column: Option<usize>) -> Result<Option<bool>, DatasetError> {
    let Some(column) = column else { return Ok(None) };
    match table.count(column)? {
        None => Ok(None),
        Some(0) => Ok(Some(false)),
        Some(1) => Ok(Some(true)),
        Some(_) => Err(table.error(column, "must be 0 or 1")),
    }
}
