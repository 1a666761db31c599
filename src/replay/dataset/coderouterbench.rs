//! CodeRouterBench as it is released with Agent-as-a-Router: `*_results_long.csv`, `*_tasks.jsonl` and `models.json`.
//!
//! The release holds the same in-distribution rows several times, whole and by split, also under the names of older
//! releases: the fewest files that hold all are read. Tasks are those of the tasks file beside the results, where it is
//! there, else those of the rows. In-distribution tasks have no prompts and their source is the middle of their id. Splits
//! are `train`, `val`, `test` (`source_split`) and `ood176`, as in the shared layout. A latency of 0 marks an in-distribution
//! row that was filled in, not measured. Files without token columns state their costs as 0; these are made of the totals.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{
    builder::{Builder, Listed, NewResult, NewTask},
    costs::Cost,
    error::DatasetError,
    json::parse,
    prices::Tokens,
    shared::{needed, tokens},
    source::{Lines, folder_of, plain_or_gz},
    spot::{Names, Part, Spot, file_name},
    table::Table,
};

const RESULTS: &str = "_results_long.csv";

/// What may follow a source's name in a task id and is part of it.
const QUALIFIERS: [&str; 13] =
    ["sup", "v014", "algo2", "ds", "completion", "testgen", "cpp", "go", "java", "js", "python", "rs", "ts"];

#[derive(Deserialize)]
struct Task {
    task_id: String,
    split: Option<String>,
    source_split: Option<String>,
    dimension: String,
    bench: Option<String>,
    prompt: Option<String>,
}

/// Whether a folder or file is of this release.
pub(super) fn is_at(path: &Path) -> bool {
    if path.is_dir() { !results_files(path).is_empty() } else { stem(path).is_some() }
}

/// `id_test` of `id_test_results_long.csv.gz`.
fn stem(path: &Path) -> Option<String> {
    let name = file_name(path);
    name.strip_suffix(".gz").unwrap_or(&name).strip_suffix(RESULTS).map(str::to_owned)
}

/// The fewest results files that hold all rows.
fn results_files(folder: &Path) -> Vec<PathBuf> {
    let file = |stem: &str| plain_or_gz(&folder.join(format!("{stem}{RESULTS}")));
    let mut files: Vec<PathBuf> = match (file("id"), file("id_probing").or_else(|| file("id_trainval"))) {
        (Some(all), _) => vec![all],
        (None, Some(probing)) => [Some(probing), file("id_test")].into_iter().flatten().collect(),
        (None, None) => ["id_train", "id_val", "id_test"].into_iter().filter_map(file).collect(),
    };
    files.extend(file("ood176"));
    files
}

pub(super) fn read(path: &Path, builder: &mut Builder) -> Result<Listed, DatasetError> {
    let (folder, files) = match path.is_dir() {
        true => (path, results_files(path)),
        false => (folder_of(path), vec![path.to_owned()]),
    };
    if files.is_empty() {
        let problem = format!("no file is called id{RESULTS}, id_test{RESULTS} or ood176{RESULTS}");
        return Err(DatasetError::Layout { path: path.into(), problem });
    }
    builder.models.list(&needed(folder, "models.json")?)?;
    for file in files {
        let stem = stem(&file).unwrap_or_default();
        let tasks = plain_or_gz(&folder.join(format!("{stem}_tasks.jsonl")));
        if let Some(tasks) = &tasks {
            read_tasks(tasks, &stem, builder)?;
        }
        read_results(&file, &stem, tasks.as_deref().map(file_name).as_deref(), builder)?;
    }
    Ok(Listed::All)
}

fn read_tasks(path: &Path, stem: &str, builder: &mut Builder) -> Result<(), DatasetError> {
    let names = Names::fields(&[(Part::Id, "task_id"), (Part::Prompt, "prompt"), (Part::Domain, "dimension")]);
    let mut lines = Lines::open(path)?;
    while let Some((line, text)) = lines.next()? {
        let task: Task = parse(path, line, text)?;
        let split = task.source_split.or(task.split).unwrap_or_default();
        let new = NewTask {
            id: &task.task_id,
            split: split_of(stem, &split),
            domain: &task.dimension,
            source: task.bench.as_deref().unwrap_or_else(|| source_of(&task.task_id)),
            prompt: task.prompt,
            metadata: Default::default(),
        };
        builder.task(&Spot { path, line, names: &names }, new)?;
    }
    Ok(())
}

/// The columns of a results file.
struct Columns {
    id: usize,
    dimension: usize,
    model: usize,
    score: usize,
    cost: usize,
    split: Option<usize>,
    bench: Option<usize>,
    read: Option<usize>,
    written: Option<usize>,
    total: Option<usize>,
    latency: Option<usize>,
}

impl Columns {
    fn of(table: &Table) -> Result<Self, DatasetError> {
        let either = |names: [&str; 2]| names.iter().find_map(|name| table.column(name));
        Ok(Self {
            id: table.need(&["task_id"])?,
            dimension: table.need(&["dimension"])?,
            model: table.need(&["model"])?,
            score: table.need(&["score", "resolved"])?,
            cost: table.need(&["cost_usd"])?,
            split: either(["source_split", "split"]),
            bench: table.column("bench"),
            read: either(["input_tokens", "in_tok"]),
            written: either(["output_tokens", "out_tok"]),
            total: table.column("total_tokens"),
            latency: table.column("latency_ms"),
        })
    }
}

fn read_results(path: &Path, stem: &str, tasks: Option<&str>, builder: &mut Builder) -> Result<(), DatasetError> {
    let mut table = Table::open(path)?;
    let columns = Columns::of(&table)?;
    let Columns { id, dimension, model, score, cost, .. } = columns;
    let parts =
        [(Part::Id, id), (Part::Domain, dimension), (Part::Model, model), (Part::Score, score), (Part::Cost, cost)];
    let names = Names(parts.map(|(part, column)| (part, table.place(column))).to_vec());
    while table.next()? {
        let spot = Spot { path, line: table.line(), names: &names };
        let task = match (tasks, builder.met(table.text(id)?)) {
            (_, Some(met)) => met,
            (Some(tasks), None) => builder.find(&spot, table.text(id)?, tasks)?,
            (None, None) => builder.task(&spot, task_of(&table, &columns, stem)?)?,
        };
        let known = builder.models.find(&spot, table.text(model)?)?;
        let (Some(task), Some(known)) = (task, known) else { continue };
        let tokens = tokens(&table, columns.read, columns.written)?;
        let latency = columns.latency.map(|column| table.number(column)).transpose()?;
        let result = NewResult {
            score: table.number(score)?,
            cost: cost_of(&table, &columns, tokens)?,
            tokens,
            measured: latency != Some(0.0),
            estimated: false,
            applied: None,
            latency_ms: latency.unwrap_or_default(),
        };
        builder.result(&spot, task, known, result)?;
    }
    Ok(())
}

fn task_of<'a>(table: &'a Table, columns: &Columns, stem: &'a str) -> Result<NewTask<'a>, DatasetError> {
    let id = table.text(columns.id)?;
    let split = columns.split.map_or(Ok(""), |column| table.text(column))?;
    let bench = columns.bench.map(|column| table.text(column)).transpose()?;
    Ok(NewTask {
        id,
        split: split_of(stem, split),
        domain: table.text(columns.dimension)?,
        source: bench.unwrap_or_else(|| source_of(id)),
        prompt: None,
        metadata: Default::default(),
    })
}

fn cost_of(table: &Table, columns: &Columns, tokens: Option<Tokens>) -> Result<Cost, DatasetError> {
    let stated = columns.read.is_some() && !table.text(columns.cost)?.trim().is_empty();
    if stated {
        return Ok(Cost::Known(table.number(columns.cost)?));
    }
    let total = columns.total.map(|column| table.count(column)).transpose()?.flatten();
    Ok(match (tokens, total) {
        (Some(_), _) => Cost::OfTokens,
        (None, Some(total)) => Cost::OfTotal(total),
        (None, None) => Cost::Unknown,
    })
}

/// The split's name in the shared layout: out-of-distribution files name the batch that a task came in.
fn split_of<'a>(stem: &'a str, split: &'a str) -> &'a str {
    if stem.starts_with("ood") || split.is_empty() { stem } else { split }
}

/// `bcb_v014` of `dim1_bcb_v014_BigCodeBench/4`.
fn source_of(id: &str) -> &str {
    let Some((dimension, rest)) = id.split_once('_').filter(|(dimension, _)| dimension.starts_with("dim")) else {
        return "";
    };
    let mut parts = rest.split('_');
    let mut length = parts.next().unwrap_or_default().len();
    for part in parts.take_while(|part| QUALIFIERS.contains(part)) {
        length += 1 + part.len();
    }
    &id[dimension.len() + 1..][..length]
}

#[cfg(test)]
mod tests {
    use super::source_of;

    #[test]
    fn sources_are_the_middle_of_ids() {
        for (id, source) in [
            ("dim1_bcb_v014_BigCodeBench/4", "bcb_v014"),
            ("dim3_swebench_sphinx-doc__sphinx-8435", "swebench"),
            ("dim7_hex_cpp_CPP/3", "hex_cpp"),
            ("dim8_codexglue_3471", "codexglue"),
            ("dim9_", ""),
            ("old112::astropy", ""),
        ] {
            assert_eq!(source_of(id), source);
        }
    }
}
