//! LLMRouterBench's results: a JSON file for each benchmark, split and model, under `bench/BENCHMARK/SPLIT/MODEL/`.
//!
//! A file's own `dataset_name`, `split` and `model_name` say what it is; they stand before its `records`. Of several files of
//! the same the one with the latest time in its name counts, and demos do not, as in the benchmark's own loader. A task is
//! (benchmark, split, `index`): its text must be the same for every model, or two versions of a benchmark are mixed. A
//! missing score counts as 0 there; here it is 0 too, and marked as not measured.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    builder::{Builder, Listed, NewResult, NewTask, slug},
    costs::Cost,
    error::{DatasetError, shown},
    json::{Next, elements},
    metadata,
    prices::Tokens,
    source::plain_or_gz,
    spot::{Names, Part, Spot, file_name},
};

/// Folders below the one given: benchmark, split and model, whose names may hold slashes.
const DEPTH_MAX: usize = 8;

const RECORDS: &str = "records";

#[derive(Deserialize)]
struct Record {
    index: u64,
    origin_query: Option<Value>,
    prompt: Option<Value>,
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    cost: Option<f64>,
    score: Option<f64>,
    ground_truth: Option<Value>,
}

/// A file: benchmark, split and model.
type Run = (String, String, String);

/// Whether results lie in a folder.
pub(super) fn is_at(folder: &Path) -> bool {
    ["results/bench", "bench"].iter().any(|name| folder.join(name).is_dir())
        || files(folder).iter().any(|file| matches!(run_of(file), Ok(Some(_))))
}

/// Every JSON file of the results.
fn files(folder: &Path) -> Vec<PathBuf> {
    let inner = ["results/bench", "bench"].into_iter().map(|name| folder.join(name)).find(|folder| folder.is_dir());
    let mut found = Vec::new();
    collect(&inner.unwrap_or_else(|| folder.to_owned()), DEPTH_MAX, &mut found);
    found.sort();
    found
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() && depth > 0 {
            collect(&path, depth - 1, found);
        } else if plain_name(&path).ends_with(".json") && plain_name(&path) != "models.json" {
            found.push(path);
        }
    }
}

fn plain_name(path: &Path) -> String {
    let name = file_name(path);
    name.strip_suffix(".gz").unwrap_or(&name).to_owned()
}

/// The time in a file's name, `20250131_235959`, which sorts as text; empty for files without one, the oldest.
fn time_of(path: &Path) -> String {
    let name = plain_name(path);
    let stem = name.strip_suffix(".json").unwrap_or(&name);
    let tail: String = stem.chars().rev().take(15).collect::<Vec<_>>().into_iter().rev().collect();
    let is_time = tail.len() == 15
        && tail.bytes().enumerate().all(|(place, byte)| if place == 8 { byte == b'_' } else { byte.is_ascii_digit() });
    if is_time { tail } else { String::new() }
}

/// What a file is of; None for a demo.
fn run_of(path: &Path) -> Result<Option<Run>, DatasetError> {
    let mut run = None;
    let wanted = ["dataset_name", "split", "model_name", "demo"];
    elements(
        path,
        RECORDS,
        &wanted,
        &mut |head| {
            run = Some(head_of(path, head)?);
            Ok(Next::Stop)
        },
        &mut |_, _, _: Value| Ok(()),
    )?;
    Ok(run.flatten())
}

fn head_of(path: &Path, head: &Map<String, Value>) -> Result<Option<Run>, DatasetError> {
    let name = |key: &str| match head.get(key).and_then(Value::as_str) {
        Some(name) => Ok(name.to_owned()),
        None => {
            let problem = format!("there is no {key} before the {RECORDS}");
            Err(DatasetError::Layout { path: path.into(), problem })
        }
    };
    let run = (name("dataset_name")?, name("split")?, name("model_name")?);
    Ok(Some(run).filter(|_| head.get("demo") != Some(&Value::Bool(true))))
}

pub(super) fn read(folder: &Path, builder: &mut Builder) -> Result<Listed, DatasetError> {
    if let Some(list) = plain_or_gz(&folder.join("models.json")) {
        builder.models.list(&list)?;
    }
    let mut latest: BTreeMap<Run, (String, PathBuf)> = BTreeMap::new();
    for file in files(folder) {
        let Some(run) = run_of(&file)? else { continue };
        let found = (time_of(&file), file);
        let known = latest.entry(run).or_insert_with(|| found.clone());
        if found.0 >= known.0 {
            *known = found;
        }
    }
    if latest.is_empty() {
        let problem = "no .json file in it has dataset_name, split, model_name and records".into();
        return Err(DatasetError::Layout { path: folder.into(), problem });
    }
    for (run, (_, file)) in latest {
        read_run(&file, &run, builder)?;
    }
    Ok(Listed::Measured)
}

fn read_run(path: &Path, (benchmark, split, model): &Run, builder: &mut Builder) -> Result<(), DatasetError> {
    let names = Names::fields(&[
        (Part::Id, "index"),
        (Part::Prompt, "origin_query"),
        (Part::Domain, "dataset_name"),
        (Part::Model, "model_name"),
        (Part::Score, "score"),
        (Part::Cost, "cost"),
    ]);
    let Some(model) = builder.models.find(&Spot { path, line: 1, names: &names }, model)? else { return Ok(()) };
    elements(path, RECORDS, &[], &mut |_| Ok(Next::Elements), &mut |line, _, record: Record| {
        let spot = Spot { path, line, names: &names };
        let id = format!("{}/{}/{}", slug(benchmark), slug(split), record.index);
        let text = first_text([text_of(record.origin_query), text_of(record.prompt)]);
        let task = match builder.met(&id) {
            Some(met) => met,
            None => {
                let new = NewTask {
                    id: &id,
                    split,
                    domain: &slug(benchmark),
                    source: benchmark,
                    prompt: text.clone(),
                    metadata: metadata(record.ground_truth.filter(|truth| truth != ""), None),
                };
                builder.task(&spot, new)?
            }
        };
        let Some(task) = task else { return Ok(()) };
        let draft = builder.draft(task);
        if draft.task.prompt != text {
            let (file, line) = (file_name(&draft.path), draft.line);
            let problem = format!(
                "the text of {} is another one than in {file}:{line}: the runs are not of one \
                benchmark",
                shown(&id)
            );
            return Err(spot.error(Part::Prompt, problem));
        }
        let tokens = record.prompt_tokens.zip(record.completion_tokens).map(|(read, written)| Tokens { read, written });
        let result = NewResult {
            score: record.score.unwrap_or(0.0),
            cost: record.cost.map_or(if tokens.is_some() { Cost::OfTokens } else { Cost::Unknown }, Cost::Known),
            tokens,
            measured: record.score.is_some(),
            estimated: false,
            applied: None,
            latency_ms: 0.0,
        };
        builder.result(&spot, task, model, result)
    })
}

/// The first that is not blank, or else the first.
fn first_text(texts: [Option<String>; 2]) -> Option<String> {
    let mut texts: Vec<String> = texts.into_iter().flatten().collect();
    let found = texts.iter().position(|text| !text.trim().is_empty()).unwrap_or(0);
    (found < texts.len()).then(|| texts.swap_remove(found))
}

/// A text, or a list of turns as JSON; None for null.
fn text_of(value: Option<Value>) -> Option<String> {
    match value? {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}
