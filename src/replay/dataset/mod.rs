//! Reads an outcome matrix: the score and cost of every model on every task.
//!
//! One reader per published format maps its fields; all are checked in one place (`builder`) and read piece by piece, with
//! prompts and numbers kept and answers of models passed over. An error names its file, line and column. Regret needs the
//! whole row, so a missing result is an error; a prompt that is not known (null) is not: such a task is known by its domain
//! alone, and counted. Results that the source marks as not measured are kept and marked. What was made up, such as costs
//! from tokens, is said in the warnings.

mod builder;
mod coderouterbench;
mod costs;
mod error;
mod format;
mod json;
mod llmrouter;
mod llmrouterbench;
mod models;
mod prices;
mod python;
mod routerbench;
mod shared;
mod source;
mod spot;
mod table;

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;

use crate::round::{ArmId, Domain, Metadata, TaskId};
pub use error::{Column, DatasetError};
pub use format::{Format, UnknownFormat};

/// Output tokens that a live router would expect of an answer before it has seen one.
const EXPECTED_OUTPUT_TOKENS: f64 = 200.0;

/// Characters of a prompt per token, roughly.
const CHARS_PER_TOKEN: f64 = 4.0;

/// An outcome matrix in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// The name of its folder or file.
    pub name: String,
    /// The splits read, joined by commas; None for all.
    pub split: Option<String>,
    /// The models, in the order of their list.
    pub models: Vec<Model>,
    /// The tasks, in the order of their file.
    pub tasks: Vec<DatasetTask>,
    /// Tasks whose prompt is not known: they are known by their domain alone.
    pub without_prompt: usize,
    /// Results that the source marks as not measured.
    pub unmeasured: usize,
    /// What a reader of results should know, such as how costs were made.
    pub warnings: Vec<String>,
}

/// One model, an arm of the replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its name.
    pub arm: ArmId,
    /// Dollars per million tokens read.
    pub input_per_1m: f64,
    /// Dollars per million tokens written.
    pub output_per_1m: f64,
}

/// One task and what every model made of it.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetTask {
    /// Its id in the file.
    pub id: TaskId,
    /// Its split, such as `train`.
    pub split: String,
    /// Its kind of work.
    pub domain: Domain,
    /// The benchmark it comes from.
    pub source: String,
    /// The text to embed, where it is known; never blank.
    pub prompt: Option<String>,
    /// What verifiers may check an answer with: the released `reference`, and `answer` where its kind is known.
    pub metadata: Metadata,
    /// One result per model, in the models' order.
    pub results: Vec<TaskResult>,
}

/// What one model made of one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskResult {
    /// In [0, 1].
    pub score: f64,
    /// Dollars.
    pub cost_usd: f64,
    /// Whether the source measured it; else the numbers were filled in.
    pub measured: bool,
    /// Whether its patch applied, where that was recorded.
    pub applied: Option<bool>,
    /// Tokens that it wrote, where they were recorded.
    pub output_tokens: Option<u64>,
    /// Milliseconds that it took, where they were measured.
    pub latency_ms: Option<f64>,
}

/// How to read a dataset.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadOptions {
    /// Its format; None to tell it by what lies there.
    pub format: Option<Format>,
    /// The splits to read; empty for all.
    pub splits: Vec<String>,
    /// The models to read; empty for all.
    pub models: Vec<String>,
    /// Whether costs that do not follow the price list are taken as they are, with a warning.
    pub allow_mixed_prices: bool,
}

impl ReadOptions {
    /// All of one split, or of all.
    pub fn split(split: Option<&str>) -> Self {
        Self { splits: split.map(Into::into).into_iter().collect(), ..Self::default() }
    }
}

impl Model {
    /// Dollars that a router would expect of a prompt, from its length and the prices.
    pub fn expected_cost_usd(&self, prompt: &str) -> f64 {
        let input_tokens = prompt.chars().count() as f64 / CHARS_PER_TOKEN;
        (input_tokens * self.input_per_1m + EXPECTED_OUTPUT_TOKENS * self.output_per_1m) / 1e6
    }
}

impl DatasetTask {
    /// The prompt, or for a task without one its domain's name.
    pub fn text(&self) -> &str {
        self.prompt.as_deref().unwrap_or(self.domain.as_str())
    }
}

impl Dataset {
    /// Reads a folder or file.
    pub fn read(path: &Path, options: &ReadOptions) -> Result<Self, DatasetError> {
        let format = options.format.map_or_else(|| Format::find(path), Ok)?;
        let mut builder = builder::Builder::new(name_of(path), options);
        let listed = match format {
            Format::Shared => shared::read(path, &mut builder),
            Format::CodeRouterBench => coderouterbench::read(path, &mut builder),
            Format::LlmRouter => llmrouter::read(path, &mut builder),
            Format::LlmRouterBench => llmrouterbench::read(path, &mut builder),
            Format::RouterBench => routerbench::read(path, &mut builder),
        };
        builder.finish(path, listed?)
    }

    /// The tasks of these splits, with the same models; all tasks if no split is named.
    pub fn only(&self, splits: &[String]) -> Result<Self, DatasetError> {
        if splits.is_empty() {
            return Ok(self.clone());
        }
        let known: BTreeSet<&String> = self.tasks.iter().map(|task| &task.split).collect();
        if let Some(wanted) = splits.iter().find(|split| !known.contains(split)) {
            let splits = known.into_iter().cloned().collect();
            return Err(DatasetError::Empty { wanted: wanted.clone(), splits });
        }
        let tasks = self.tasks.iter().filter(|task| splits.contains(&task.split)).cloned().collect();
        let mut only = Self {
            name: self.name.clone(),
            split: Some(splits.join(",")),
            models: self.models.clone(),
            tasks,
            without_prompt: 0,
            unmeasured: 0,
            warnings: self.warnings.clone(),
        };
        only.count();
        Ok(only)
    }

    fn count(&mut self) {
        self.without_prompt = self.tasks.iter().filter(|task| task.prompt.is_none()).count();
        let results = self.tasks.iter().flat_map(|task| &task.results);
        self.unmeasured = results.filter(|result| !result.measured).count();
    }
}

/// The last part of a path without the endings of files.
fn name_of(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut name = spot::file_name(&whole);
    if !whole.is_dir() {
        for ending in [".gz", ".csv", ".jsonl"] {
            name = name.strip_suffix(ending).unwrap_or(&name).to_owned();
        }
    }
    name
}

/// What verifiers may check an answer with.
fn metadata(reference: Option<Value>, metric: Option<&str>) -> Metadata {
    let kind = match metric {
        Some("em_mc") => Some("choice"),
        Some("GSM8K") => Some("number"),
        Some("f1_score") => Some("text"),
        _ => None,
    };
    let entries = [("reference", reference), ("answer", kind.map(Value::from))];
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.filter(|v| !v.is_null())?))).collect()
}

#[cfg(test)]
mod tests;
