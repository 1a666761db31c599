//! LLMRouter's routing data: a record a query and model (`*routing*data.jsonl` or `.csv`), or all scores of a query at once
//! (the `train.json` and `test.json` prepared for RouterDC, whose benchmarks are looked up in the query files).
//!
//! Scores are `performance`. The data has no costs: they are made of the candidates' prices (`*llm.json`) and the tokens,
//! where there are any. A record's query is known by `embedding_id` and text, so that one whose records were cut apart
//! between two files is one task, of the first file's split.

mod files;

use std::{collections::HashMap, path::Path};

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

use super::{
    builder::{Builder, Listed, NewResult, NewTask, slug},
    costs::Cost,
    error::DatasetError,
    json::{Next, elements, parse},
    metadata,
    prices::Tokens,
    source::Lines,
    spot::{Names, Part, Spot},
    table::Table,
};
use files::{find, plain_name, split_of};

/// A query and one model's answer.
#[derive(Default, Deserialize)]
struct Record {
    task_name: Option<String>,
    query: String,
    ground_truth: Option<Value>,
    metric: Option<String>,
    model_name: String,
    performance: f64,
    #[serde(default, deserialize_with = "whole")]
    embedding_id: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    token_num: Option<u64>,
}

/// A query and all models' scores.
#[derive(Deserialize)]
struct Scored {
    question: String,
    scores: serde_json::Map<String, Value>,
}

/// What the query files say of a query.
#[derive(Clone, Default, Deserialize)]
struct Query {
    task_name: Option<String>,
    query: String,
    ground_truth: Option<Value>,
    metric: Option<String>,
}

/// A whole number, also one that pandas writes as 59.0.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?;
    match number {
        Some(number) if number < 0.0 || number.fract() != 0.0 || number > 1e15 => {
            Err(D::Error::custom(format!("{number} is no count")))
        }
        number => Ok(number.map(|number| number as u64)),
    }
}

/// Whether a folder or file is of this library.
pub(super) fn is_at(path: &Path) -> bool {
    let files = find(path);
    !files.routing.is_empty() || !files.scored.is_empty()
}

pub(super) fn read(path: &Path, builder: &mut Builder) -> Result<Listed, DatasetError> {
    let files = find(path);
    match &files.candidates {
        Some(candidates) => builder.models.list_by_name(candidates)?,
        None => builder.warnings.push("there is no *llm.json with prices beside the data".into()),
    }
    let mut queries = Queries { by_text: HashMap::new(), met: HashMap::new(), counts: HashMap::new() };
    if !files.routing.is_empty() {
        for file in &files.routing {
            if plain_name(file).ends_with(".csv") {
                read_table(file, &mut queries, builder)?;
            } else {
                read_lines(file, &mut queries, builder)?;
            }
        }
        return Ok(Listed::Measured);
    }
    if files.scored.is_empty() {
        let problem = "no file is called *routing*data.jsonl, train.json or test.json".into();
        return Err(DatasetError::Layout { path: path.into(), problem });
    }
    for file in &files.queries {
        queries.read(file)?;
    }
    for file in &files.scored {
        read_scored(file, &mut queries, builder)?;
    }
    Ok(Listed::Measured)
}

/// A text as a key, and the library's own number for it.
type Key = (Option<u64>, blake3::Hash);

/// The queries met so far.
struct Queries {
    by_text: HashMap<blake3::Hash, Query>,
    met: HashMap<Key, Option<usize>>,
    /// Queries by split.
    counts: HashMap<String, u64>,
}

impl Queries {
    fn read(&mut self, path: &Path) -> Result<(), DatasetError> {
        let mut lines = Lines::open(path)?;
        while let Some((line, text)) = lines.next()? {
            let mut query: Query = parse(path, line, text)?;
            let key = blake3::hash(query.query.as_bytes());
            query.query.clear();
            self.by_text.entry(key).or_insert(query);
        }
        Ok(())
    }

    /// The query's task, taken if it is new; None if it is not asked for.
    fn task(
        &mut self,
        spot: &Spot<'_>,
        key: Key,
        query: Query,
        builder: &mut Builder,
    ) -> Result<Option<usize>, DatasetError> {
        if let Some(met) = self.met.get(&key) {
            return Ok(*met);
        }
        let split = split_of(spot.path);
        let count = self.counts.entry(split.clone()).or_default();
        let id = format!("{split}-{count}");
        *count += 1;
        let source = query.task_name.as_deref().unwrap_or_default();
        let new = NewTask {
            id: &id,
            split: &split,
            domain: &if source.is_empty() { "unknown".into() } else { slug(source) },
            source,
            prompt: Some(query.query),
            metadata: metadata(query.ground_truth, query.metric.as_deref()),
        };
        let place = builder.task(spot, new)?;
        self.met.insert(key, place);
        Ok(place)
    }

    fn record(&mut self, spot: &Spot<'_>, record: Record, builder: &mut Builder) -> Result<(), DatasetError> {
        let key = (record.embedding_id, blake3::hash(record.query.as_bytes()));
        let Record { task_name, query, ground_truth, metric, .. } = record;
        let task = self.task(spot, key, Query { task_name, query, ground_truth, metric }, builder)?;
        let model = builder.models.find(spot, &record.model_name)?;
        let (Some(task), Some(model)) = (task, model) else { return Ok(()) };
        let read = record.prompt_tokens.or(record.input_tokens);
        let both = read.zip(record.completion_tokens.or(record.output_tokens));
        let tokens = both.map(|(read, written)| Tokens { read, written });
        let cost = match (tokens, record.token_num) {
            (Some(_), _) => Cost::OfTokens,
            (None, Some(total)) => Cost::OfTotal(total),
            (None, None) => Cost::Unknown,
        };
        let result = NewResult {
            score: record.performance,
            cost,
            tokens,
            measured: true,
            estimated: false,
            applied: None,
            latency_ms: 0.0,
        };
        builder.result(spot, task, model, result)
    }
}

fn read_lines(path: &Path, queries: &mut Queries, builder: &mut Builder) -> Result<(), DatasetError> {
    let names = Names::fields(&[
        (Part::Id, "query"),
        (Part::Prompt, "query"),
        (Part::Domain, "task_name"),
        (Part::Model, "model_name"),
        (Part::Score, "performance"),
    ]);
    let mut lines = Lines::open(path)?;
    while let Some((line, text)) = lines.next()? {
        let record = parse(path, line, text)?;
        queries.record(&Spot { path, line, names: &names }, record, builder)?;
    }
    Ok(())
}

fn read_table(path: &Path, queries: &mut Queries, builder: &mut Builder) -> Result<(), DatasetError> {
    let mut table = Table::open(path)?;
    let [query, model, score] = ["query", "model_name", "performance"].map(|name| table.need(&[name]));
    let (query, model, score) = (query?, model?, score?);
    let [task, truth, metric, embedding, total] =
        ["task_name", "ground_truth", "metric", "embedding_id", "token_num"].map(|name| table.column(name));
    let [prompt, completion, input, output] =
        ["prompt_tokens", "completion_tokens", "input_tokens", "output_tokens"].map(|name| table.column(name));
    let mut parts = vec![(Part::Id, query), (Part::Prompt, query), (Part::Model, model), (Part::Score, score)];
    parts.extend(task.map(|task| (Part::Domain, task)));
    let names = Names(parts.into_iter().map(|(part, column)| (part, table.place(column))).collect());
    while table.next()? {
        let word = |column: Option<usize>| -> Result<Option<String>, DatasetError> {
            let text = column.map(|column| table.text(column)).transpose()?;
            Ok(text.filter(|text| !text.is_empty()).map(str::to_owned))
        };
        let count = |column: Option<usize>| column.map(|column| table.count(column)).transpose().map(Option::flatten);
        let record = Record {
            task_name: word(task)?,
            query: table.text(query)?.to_owned(),
            ground_truth: word(truth)?.map(Value::from),
            metric: word(metric)?,
            model_name: table.text(model)?.to_owned(),
            performance: table.number(score)?,
            embedding_id: count(embedding)?,
            prompt_tokens: count(prompt)?,
            completion_tokens: count(completion)?,
            input_tokens: count(input)?,
            output_tokens: count(output)?,
            token_num: count(total)?,
        };
        queries.record(&Spot { path, line: table.line(), names: &names }, record, builder)?;
    }
    Ok(())
}

fn read_scored(path: &Path, queries: &mut Queries, builder: &mut Builder) -> Result<(), DatasetError> {
    let names = Names::fields(&[
        (Part::Id, "question"),
        (Part::Prompt, "question"),
        (Part::Domain, "task_name"),
        (Part::Model, "scores"),
        (Part::Score, "scores"),
    ]);
    let mut lines = HashMap::new();
    elements(path, "", &[], &mut |_| Ok(Next::Elements), &mut |line, _, scored: Scored| {
        let spot = Spot { path, line, names: &names };
        let hash = blake3::hash(scored.question.as_bytes());
        let known = queries.by_text.get(&hash).cloned().unwrap_or_default();
        if let Some(first) = lines.insert(hash, line) {
            return Err(spot.error(Part::Id, format!("a second time the question of line {first}")));
        }
        // The same question in two files is two tasks.
        let number = queries.met.len() as u64;
        let task = queries.task(&spot, (Some(number), hash), Query { query: scored.question, ..known }, builder)?;
        for (name, score) in &scored.scores {
            let model = builder.models.find(&spot, name)?;
            let (Some(task), Some(model)) = (task, model) else { continue };
            let score = score.as_f64().ok_or_else(|| spot.error(Part::Score, "a score is no number"))?;
            let result = NewResult {
                score,
                cost: Cost::Unknown,
                tokens: None,
                measured: true,
                estimated: false,
                applied: None,
                latency_ms: 0.0,
            };
            builder.result(&spot, task, model, result)?;
        }
        Ok(())
    })
}
