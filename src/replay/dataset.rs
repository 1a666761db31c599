//! Reads an outcome matrix: the score and cost of every model on every task.
//!
//! A folder holds `tasks.jsonl`, `results.csv` (either may end in .gz) and `models.json`. Lines are read one at a
//! time. An error names its file and line. Tasks without a prompt cannot be embedded: they are left out and counted,
//! as are the results of tasks left out. A task that has a prompt but lacks a model's result is an error, since
//! regret needs the whole row. Rows that the source marks `measured = 0` are kept and counted.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde_json::Value;

use crate::round::{ArmId, Domain, Metadata, TaskId};

/// Output tokens that a live router would expect of an answer before it has seen one.
const EXPECTED_OUTPUT_TOKENS: f64 = 200.0;

/// Characters of a prompt per token, roughly.
const CHARS_PER_TOKEN: f64 = 4.0;

/// An outcome matrix in memory.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// The folder's name.
    pub name: String,
    /// The split read; None for all.
    pub split: Option<String>,
    /// The models, in the order of `models.json`.
    pub models: Vec<Model>,
    /// The tasks, in the order of their file.
    pub tasks: Vec<DatasetTask>,
    /// Tasks whose prompt is not known; they are known by their domain alone.
    pub without_prompt: usize,
    /// Results kept that the source marks as not measured.
    pub unmeasured: usize,
    /// What to know of the data.
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
#[derive(Debug, Clone)]
pub struct DatasetTask {
    /// Its id in the file.
    pub id: TaskId,
    /// Its split, such as `train`.
    pub split: String,
    /// Its `dimension`, in lower case.
    pub domain: Domain,
    /// The benchmark it comes from.
    pub source: String,
    /// What was asked; None where that is not known.
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
    /// Whether the source measured it; else the row was filled in.
    pub measured: bool,
    /// Whether its patch applied, where that was recorded.
    pub applied: Option<bool>,
}

impl DatasetTask {
    /// The prompt, or for a task without one its domain's name.
    pub fn text(&self) -> &str {
        self.prompt.as_deref().unwrap_or(self.domain.as_str())
    }
}

/// Why a dataset cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// A file cannot be opened or read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Neither the plain nor the compressed file is there.
    #[error("{0} is missing, and so is the same name with .gz")]
    Missing(PathBuf),
    /// A line does not say what it should.
    #[error("{path}:{line}: {problem}")]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// `models.json` does not say what it should.
    #[error("{path}: {problem}")]
    Models {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A task has no result of a model.
    #[error("task {task} has no result of {model}: regret needs every model's")]
    Incomplete {
        /// The task.
        task: TaskId,
        /// The model.
        model: ArmId,
    },
    /// Nothing is left to replay.
    #[error("no task is left: the splits with prompts are {}", .0.join(", "))]
    Empty(Vec<String>),
}

impl Model {
    /// Dollars that a router would expect of a prompt, from its length and the prices.
    pub fn expected_cost_usd(&self, prompt: &str) -> f64 {
        let input_tokens = prompt.chars().count() as f64 / CHARS_PER_TOKEN;
        (input_tokens * self.input_per_1m + EXPECTED_OUTPUT_TOKENS * self.output_per_1m) / 1e6
    }
}

#[derive(Deserialize)]
struct ModelsFile {
    models: Vec<ModelRow>,
}

#[derive(Deserialize)]
struct ModelRow {
    model: ArmId,
    input_per_1m: f64,
    output_per_1m: f64,
}

#[derive(Deserialize)]
struct TaskRow {
    task_id: TaskId,
    split: String,
    dimension: String,
    #[serde(default)]
    source: String,
    prompt: Option<String>,
    reference: Option<Value>,
    metric: Option<String>,
}

impl TaskRow {
    fn metadata(&self) -> Metadata {
        let kind = match self.metric.as_deref() {
            Some("em_mc") => Some("choice"),
            Some("GSM8K") => Some("number"),
            Some("f1_score") => Some("text"),
            _ => None,
        };
        let entries = [("reference", self.reference.clone()), ("answer", kind.map(Value::from))];
        entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.filter(|v| !v.is_null())?))).collect()
    }
}

#[derive(Deserialize)]
struct ResultRow {
    task_id: String,
    model: String,
    score: f64,
    cost_usd: f64,
    measured: Option<u8>,
    apply_ok: Option<f64>,
}

impl Dataset {
    /// Reads a folder, or one split of it.
    pub fn read(folder: &Path, split: Option<&str>) -> Result<Self, DatasetError> {
        let name =
            folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into());
        let models = read_models(&folder.join("models.json"))?;
        let mut dataset = Self {
            name,
            split: split.map(Into::into),
            models,
            tasks: Vec::new(),
            without_prompt: 0,
            unmeasured: 0,
            warnings: Vec::new(),
        };
        dataset.read_tasks(&folder.join("tasks.jsonl"))?;
        dataset.read_results(&folder.join("results.csv"))?;
        Ok(dataset)
    }

    /// The tasks of these splits, with the same models.
    pub fn only(&self, splits: &[String]) -> Result<Self, DatasetError> {
        let tasks: Vec<DatasetTask> = self.tasks.iter().filter(|task| splits.contains(&task.split)).cloned().collect();
        if tasks.is_empty() {
            let there: std::collections::BTreeSet<_> = self.tasks.iter().map(|task| task.split.clone()).collect();
            return Err(DatasetError::Empty(there.into_iter().collect()));
        }
        let without_prompt = tasks.iter().filter(|task| task.prompt.is_none()).count();
        let unmeasured = tasks.iter().flat_map(|task| &task.results).filter(|result| !result.measured).count();
        let split = Some(splits.join(","));
        let (name, models, warnings) = (self.name.clone(), self.models.clone(), self.warnings.clone());
        Ok(Self { name, split, models, tasks, without_prompt, unmeasured, warnings })
    }

    fn read_tasks(&mut self, path: &Path) -> Result<(), DatasetError> {
        let (path, reader) = open(path)?;
        let mut splits = BTreeMap::new();
        for (line, text) in (1..).zip(BufReader::new(reader).lines()) {
            let text = text.map_err(|source| DatasetError::Io { path: path.clone(), source })?;
            if text.trim().is_empty() {
                continue;
            }
            let problem = |problem: String| DatasetError::Line { path: path.clone(), line, problem };
            let row: TaskRow = serde_json::from_str(&text).map_err(|error| problem(error.to_string()))?;
            if self.split.as_ref().is_some_and(|split| *split != row.split) {
                splits.insert(row.split, ());
                continue;
            }
            let metadata = row.metadata();
            self.without_prompt += usize::from(row.prompt.is_none());
            let domain = Domain::new(row.dimension.to_lowercase()).map_err(|error| problem(error.to_string()))?;
            let (id, split, source, prompt) = (row.task_id, row.split, row.source, row.prompt);
            self.tasks.push(DatasetTask { id, split, domain, source, prompt, metadata, results: Vec::new() });
        }
        if self.tasks.is_empty() { Err(DatasetError::Empty(splits.into_keys().collect())) } else { Ok(()) }
    }

    fn read_results(&mut self, path: &Path) -> Result<(), DatasetError> {
        let (path, reader) = open(path)?;
        let tasks: HashMap<String, usize> = self.tasks.iter().map(|task| task.id.to_string()).zip(0..).collect();
        let models: HashMap<String, usize> = self.models.iter().map(|model| model.arm.to_string()).zip(0..).collect();
        let mut matrix = vec![None; tasks.len() * models.len()];
        let mut csv = csv::Reader::from_reader(reader);
        let headers = csv.headers().map_err(|error| csv_error(&path, 1, &error))?.clone();
        let mut record = csv::StringRecord::new();
        loop {
            let line = csv.position().line();
            if !csv.read_record(&mut record).map_err(|error| csv_error(&path, line, &error))? {
                break;
            }
            let row: ResultRow = record.deserialize(Some(&headers)).map_err(|error| csv_error(&path, line, &error))?;
            let Some(task) = tasks.get(&row.task_id) else { continue };
            let problem = |problem| DatasetError::Line { path: path.clone(), line, problem };
            let Some(model) = models.get(&row.model) else {
                return Err(problem(format!("model {:?} is not in models.json", row.model)));
            };
            if !(0.0..=1.0).contains(&row.score) || !row.cost_usd.is_finite() || row.cost_usd < 0.0 {
                return Err(problem("score must be from 0 to 1 and cost_usd a number of at least 0".into()));
            }
            self.unmeasured += usize::from(row.measured == Some(0));
            let slot = &mut matrix[task * models.len() + model];
            if slot
                .replace(TaskResult {
                    score: row.score,
                    cost_usd: row.cost_usd,
                    measured: row.measured != Some(0),
                    applied: row.apply_ok.map(|applied| applied > 0.5),
                })
                .is_some()
            {
                return Err(problem(format!("a second result of {} on {}", row.model, row.task_id)));
            }
        }
        for (task, row) in self.tasks.iter_mut().zip(matrix.chunks(models.len().max(1))) {
            for (result, model) in row.iter().zip(&self.models) {
                let missing = || DatasetError::Incomplete { task: task.id.clone(), model: model.arm.clone() };
                task.results.push(result.ok_or_else(missing)?);
            }
        }
        Ok(())
    }
}

fn read_models(path: &Path) -> Result<Vec<Model>, DatasetError> {
    let file = File::open(path).map_err(|source| DatasetError::Io { path: path.into(), source })?;
    let problem = |problem: String| DatasetError::Models { path: path.into(), problem };
    let file: ModelsFile = serde_json::from_reader(BufReader::new(file)).map_err(|error| problem(error.to_string()))?;
    if file.models.is_empty() {
        return Err(problem("names no model".into()));
    }
    for (place, row) in file.models.iter().enumerate() {
        if file.models[..place].iter().any(|other| other.model == row.model) {
            return Err(problem(format!("names {} twice", row.model)));
        }
        if [row.input_per_1m, row.output_per_1m].iter().any(|price| !price.is_finite() || *price < 0.0) {
            return Err(problem(format!("{}: prices must be numbers of at least 0", row.model)));
        }
    }
    let model = |ModelRow { model, input_per_1m, output_per_1m }| Model { arm: model, input_per_1m, output_per_1m };
    Ok(file.models.into_iter().map(model).collect())
}

/// The file, or the same name with .gz, decompressed as it is read.
fn open(plain: &Path) -> Result<(PathBuf, Box<dyn Read>), DatasetError> {
    let mut compressed = plain.as_os_str().to_owned();
    compressed.push(".gz");
    let compressed = PathBuf::from(compressed);
    let (path, gzip) = match (plain.exists(), compressed.exists()) {
        (true, _) => (plain.to_owned(), false),
        (false, true) => (compressed, true),
        (false, false) => return Err(DatasetError::Missing(plain.into())),
    };
    let file = File::open(&path).map_err(|source| DatasetError::Io { path: path.clone(), source })?;
    let reader: Box<dyn Read> = if gzip { Box::new(MultiGzDecoder::new(BufReader::new(file))) } else { Box::new(file) };
    Ok((path, reader))
}

fn csv_error(path: &Path, line: u64, error: &csv::Error) -> DatasetError {
    let line = error.position().map_or(line, csv::Position::line);
    DatasetError::Line { path: path.into(), line, problem: error.to_string() }
}

#[cfg(test)]
mod tests;
