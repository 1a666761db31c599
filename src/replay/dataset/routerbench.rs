//! RouterBench: a table with a row a task and, for each model, its score (`MODEL`) and cost (`MODEL|total_cost`).
//!
//! It is released as pickled data frames, which only Python can read; what is read here is the CSV or the lines of JSON
//! that pandas writes of one. Answers (`MODEL|model_response`) and the oracle's columns are passed over. There are no splits,
//! tokens or prices.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    builder::{Builder, Listed, NewResult, NewTask, slug},
    costs::Cost,
    error::{Column, DatasetError, shown},
    json::parse,
    python,
    source::{Lines, folder_of, plain_or_gz},
    spot::{Names, Part, Spot, field, file_name},
    table::Table,
};

const COST: &str = "|total_cost";

/// Benchmarks that are released in many parts, such as `mmlu-astronomy`: each is one domain.
const FAMILIES: [&str; 2] = ["mmlu", "mtbench"];

/// The only split.
const SPLIT: &str = "all";

/// Whether such a table is a file, or lies in a folder. A file that is broken at its start is an error.
pub(super) fn is_at(path: &Path) -> Result<bool, DatasetError> {
    if path.is_dir() { Ok(!files(path).is_empty()) } else { is_table(path) }
}

fn is_table(path: &Path) -> Result<bool, DatasetError> {
    let is_cost = |name: &String| name.ends_with(COST);
    match Kind::of(path) {
        Some(Kind::Table) => Ok(Table::open(path)?.headers().iter().any(is_cost)),
        Some(Kind::Lines) => {
            let mut lines = Lines::open(path)?;
            let Some((line, text)) = lines.next()? else { return Ok(false) };
            let row: HashMap<String, Value> = parse(path, line, text)?;
            Ok(row.keys().any(is_cost))
        }
        None => Ok(false),
    }
}

/// The tables in a folder; one that is broken counts, so that it is told.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| path.is_file());
    let mut files: Vec<PathBuf> = files.filter(|path| is_table(path).unwrap_or(true)).collect();
    files.sort();
    files
}

/// How a table is written.
#[derive(Clone, Copy)]
enum Kind {
    Table,
    Lines,
}

impl Kind {
    fn of(path: &Path) -> Option<Self> {
        let name = file_name(path);
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        match plain.rsplit_once('.')?.1 {
            "csv" => Some(Self::Table),
            "jsonl" => Some(Self::Lines),
            _ => None,
        }
    }
}

pub(super) fn read(path: &Path, builder: &mut Builder) -> Result<Listed, DatasetError> {
    let wrong = |problem: String| DatasetError::Layout { path: path.into(), problem };
    let found = if path.is_dir() { files(path) } else { vec![path.to_owned()] };
    let file = match found.as_slice() {
        [file] => file.clone(),
        [] => return Err(wrong(format!("no .csv or .jsonl file in it has columns MODEL{COST}"))),
        files => {
            let names: Vec<String> = files.iter().map(|file| file_name(file)).collect();
            return Err(wrong(format!("several tables hold the same tasks: name one of {}", names.join(", "))));
        }
    };
    if let Some(list) = plain_or_gz(&folder_of(&file).join("models.json")) {
        builder.models.list(&list)?;
    }
    match Kind::of(&file) {
        Some(Kind::Table) => read_table(&file, builder)?,
        Some(Kind::Lines) => read_lines(&file, builder)?,
        None => {
            let problem = "the pickle must be converted: python -c \"import pandas, sys; \
                           pandas.read_pickle(sys.argv[1]).to_csv(sys.argv[2], index=False)\" IN.pkl OUT.csv";
            return Err(wrong(problem.into()));
        }
    }
    Ok(Listed::Measured)
}

/// The names of a model's fields in errors.
fn names(id: Column, prompt: Column, domain: Column, model: Column, cost: Column) -> Names {
    let parts = [(Part::Id, id), (Part::Prompt, prompt), (Part::Domain, domain)];
    let of_model = [(Part::Model, model.clone()), (Part::Score, model), (Part::Cost, cost)];
    Names(parts.into_iter().chain(of_model).collect())
}

fn read_table(path: &Path, builder: &mut Builder) -> Result<(), DatasetError> {
    let mut table = Table::open(path)?;
    let [id, prompt, eval] = ["sample_id", "prompt", "eval_name"].map(|name| table.need(&[name]));
    let (id, prompt, eval) = (id?, prompt?, eval?);
    let places = [id, prompt, eval].map(|column| table.place(column));
    let mut models = vec![];
    for (cost, header) in table.headers().iter().enumerate() {
        let Some((model, score)) = model_of(header).and_then(|model| Some((model, table.column(model)?))) else {
            continue;
        };
        let [id, prompt, eval] = places.clone();
        let names = names(id, prompt, eval, table.place(score), table.place(cost));
        if let Some(known) = builder.models.find(&Spot { path, line: 1, names: &names }, model)? {
            models.push((known, score, cost, names));
        }
    }
    let Some((.., names)) = models.first() else { return Err(no_models(path, 1)) };
    let names = names.clone();
    while table.next()? {
        let spot = Spot { path, line: table.line(), names: &names };
        let text = python::strings(table.text(prompt)?);
        let Some(task) =
            builder.task(&spot, new_task(table.text(id)?, table.text(eval)?, &slugs(&table, eval)?, Some(text)))?
        else {
            continue;
        };
        for (known, score, cost, names) in &models {
            let result = new_result(table.number(*score)?, table.number(*cost)?);
            builder.result(&Spot { path, line: table.line(), names }, task, *known, result)?;
        }
    }
    Ok(())
}

fn slugs(table: &Table, eval: usize) -> Result<String, DatasetError> {
    Ok(domain_of(table.text(eval)?))
}

fn read_lines(path: &Path, builder: &mut Builder) -> Result<(), DatasetError> {
    let mut models: Option<Vec<(usize, String, Names)>> = None;
    let mut lines = Lines::open(path)?;
    while let Some((line, text)) = lines.next()? {
        let row: HashMap<String, Value> = parse(path, line, text)?;
        let error = |name: &str, problem: String| DatasetError::Line {
            path: path.into(),
            line,
            column: Some(field(name)),
            problem,
        };
        if models.is_none() {
            models = Some(models_of(path, line, &row, builder)?);
        }
        let models = models.as_deref().unwrap_or_default();
        let Some((.., names)) = models.first() else { return Err(no_models(path, line)) };
        let spot = Spot { path, line, names };
        let word = |name: &str| match row.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            _ => Err(error(name, "must be a text".into())),
        };
        let prompt = match row.get("prompt") {
            None | Some(Value::Null) => None,
            Some(value) => Some(prompt_of(value)),
        };
        let (id, eval) = (word("sample_id")?, word("eval_name")?);
        let Some(task) = builder.task(&spot, new_task(&id, &eval, &domain_of(&eval), prompt))? else { continue };
        let number = |name: &str| match row.get(name) {
            Some(Value::Number(number)) => Ok(number.as_f64().unwrap_or(f64::NAN)),
            Some(Value::Bool(yes)) => Ok(f64::from(u8::from(*yes))),
            Some(Value::Null) | None => Err(error(name, "is missing".into())),
            Some(value) => Err(error(name, format!("{} is no number", shown(value.to_string())))),
        };
        for (known, model, names) in models {
            let result = new_result(number(model)?, number(&format!("{model}{COST}"))?);
            builder.result(&Spot { path, line, names }, task, *known, result)?;
        }
    }
    Ok(())
}

/// The models of the first line, by name.
fn models_of(
    path: &Path,
    line: u64,
    row: &HashMap<String, Value>,
    builder: &mut Builder,
) -> Result<Vec<(usize, String, Names)>, DatasetError> {
    let mut found: Vec<&str> =
        row.keys().filter_map(|name| model_of(name)).filter(|model| row.contains_key(*model)).collect();
    found.sort_unstable();
    let mut models = vec![];
    for model in found {
        let [id, prompt, eval] = ["sample_id", "prompt", "eval_name"].map(field);
        let names = names(id, prompt, eval, field(model), field(&format!("{model}{COST}")));
        if let Some(known) = builder.models.find(&Spot { path, line, names: &names }, model)? {
            models.push((known, model.to_owned(), names));
        }
    }
    Ok(models)
}

/// The model of a cost's column; routers that were evaluated, and the oracle, have such columns too.
fn model_of(column: &str) -> Option<&str> {
    column.strip_suffix(COST).filter(|model| *model != "oracle" && !model.contains('|'))
}

fn no_models(path: &Path, line: u64) -> DatasetError {
    let problem = format!("no model asked for has columns MODEL and MODEL{COST}");
    DatasetError::Line { path: path.into(), line, column: None, problem }
}

fn new_task<'a>(id: &'a str, eval: &'a str, domain: &'a str, prompt: Option<String>) -> NewTask<'a> {
    NewTask { id, split: SPLIT, domain, source: eval, prompt, metadata: Default::default() }
}

fn new_result(score: f64, cost: f64) -> NewResult {
    let cost = Cost::Known(cost);
    NewResult { score, cost, tokens: None, measured: true, estimated: false, applied: None, latency_ms: 0.0 }
}

fn domain_of(eval: &str) -> String {
    let family = FAMILIES.iter().find(|family| eval.strip_prefix(**family).is_some_and(|rest| rest.starts_with('-')));
    family.map_or_else(|| slug(eval), |family| (*family).to_owned())
}

/// A prompt is a text, a list of turns, or the text that Python makes of such a list.
fn prompt_of(value: &Value) -> String {
    match value {
        Value::String(text) => python::strings(text),
        Value::Array(turns) => {
            let turn = |turn: &Value| turn.as_str().map_or_else(|| turn.to_string(), str::to_owned);
            turns.iter().map(turn).collect::<Vec<_>>().join("\n\n")
        }
        other => other.to_string(),
    }
}
