//! Rounds as a Parquet table: one row a decision, flat columns with types, compressed with zstd.

use std::{io::Write, sync::Arc};

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array,
    UInt64Array,
    builder::{
        Float32Builder, Float64Builder, ListBuilder, PrimitiveBuilder, StringBuilder, StructBuilder, UInt64Builder,
    },
    types::Float32Type,
};
use arrow_schema::{ArrowError, DataType, Field};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::properties::WriterProperties,
    schema::types::ColumnPath,
};
use serde::Serialize;

use super::{ExportError, Judged, Round, Rounds, Selection, Source};
use crate::round::Call;

/// Rows of a row group: what is held in memory, some 20 MB for embeddings of 384 numbers, and as much for texts.
const GROUP_ROWS: usize = 10_000;
/// A row group ends earlier when it holds so many bytes.
const GROUP_BYTES: usize = 64 << 20;

/// Writes the selected rounds, and returns how many there are. `progress` is told (done, total) places of the journal.
pub async fn export_parquet<W: Write + Send>(
    source: &mut Source,
    selection: &Selection,
    out: W,
    progress: &dyn Fn(u64, u64),
) -> Result<u64, ExportError> {
    let mut rounds = Rounds::of(source, selection).await?;
    let total = rounds.left();
    // Numbers of embeddings hardly repeat: a dictionary of them is work for nothing.
    let embedding = ColumnPath::new(["embedding", "list", "item"].map(String::from).to_vec());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .set_column_dictionary_enabled(embedding, false)
        .build();
    let schema = rows(&[])?.schema();
    let mut writer = ArrowWriter::try_new(out, schema, Some(properties))?;
    let mut written = 0;
    while let Some(page) = rounds.page().await? {
        writer.write(&rows(&page)?)?;
        written += page.len() as u64;
        progress(total - rounds.left(), total);
    }
    writer.close()?;
    Ok(written)
}

impl From<ParquetError> for ExportError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
                Ok(cause) => Self::Write(*cause),
                Err(cause) => Self::Table(cause.to_string()),
            },
            error => Self::Table(error.to_string()),
        }
    }
}

impl From<ArrowError> for ExportError {
    fn from(error: ArrowError) -> Self {
        Self::Table(error.to_string())
    }
}

/// The rows of some rounds. The columns' names and types are the same for none.
fn rows(rounds: &[Round]) -> Result<RecordBatch, ExportError> {
    let mut columns: Vec<(&str, ArrayRef, bool)> = decided(rounds);
    columns.extend(seen(rounds));
    columns.extend(became(rounds));
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}

/// What was decided.
fn decided(rounds: &[Round]) -> Vec<(&'static str, ArrayRef, bool)> {
    let at = TimestampMillisecondArray::from_iter_values(rounds.iter().map(|round| round.decided_at_ms));
    let version = UInt32Array::from_iter_values(rounds.iter().map(|round| round.decision.policy.version));
    let learnt = UInt64Array::from_iter_values(rounds.iter().map(|round| round.decision.learnt_rounds));
    let seed = UInt64Array::from_iter_values(rounds.iter().map(|round| round.decision.seed));
    // Old journals do not say it.
    let state_at = rounds.iter().map(|round| Some(round.decision.state_at).filter(|at| *at > 0));
    vec![
        ("seq", Arc::new(Int64Array::from_iter_values(rounds.iter().map(|round| round.seq))), false),
        ("decision_id", texts(rounds, |round| Some(round.decision.id.to_string())), false),
        ("task_id", texts(rounds, |round| Some(round.task.id.to_string())), false),
        ("domain", texts(rounds, |round| Some(round.task.domain.to_string())), false),
        ("tenant", texts(rounds, |round| round.task.tenant.as_ref().map(ToString::to_string)), true),
        ("session", texts(rounds, |round| round.task.session.as_ref().map(ToString::to_string)), true),
        ("decided_at", Arc::new(at.with_timezone("UTC")), false),
        ("mode", texts(rounds, |round| Some(round.decision.mode.to_string())), false),
        ("arm", texts(rounds, |round| Some(round.decision.arm.to_string())), false),
        ("propensity", reals(rounds, |round| Some(round.decision.propensity.get())), false),
        ("policy", texts(rounds, |round| Some(round.decision.policy.name.clone())), false),
        ("policy_version", Arc::new(version), false),
        ("card", texts(rounds, |round| Some(round.decision.policy.card.clone())), false),
        ("reason", texts(rounds, |round| Some(name(&round.decision.reason))), false),
        ("seed", Arc::new(seed), false),
        ("learnt_rounds", Arc::new(learnt), false),
        ("state_at", Arc::new(state_at.collect::<Int64Array>()), true),
    ]
}

/// What the policy saw.
fn seen(rounds: &[Round]) -> Vec<(&'static str, ArrayRef, bool)> {
    let count = UInt32Array::from_iter_values(rounds.iter().map(|round| round.context.candidates.len() as u32));
    let (text, real, real32, whole) = (DataType::Utf8, DataType::Float64, DataType::Float32, DataType::UInt64);
    let fields = [("mode", text.clone()), ("arm", text.clone()), ("p", real.clone()), ("expected", real32.clone())];
    let fields = [&fields[..], &[("cost_usd", real)]].concat();
    let candidates = structs(rounds, &fields, |round, add| {
        for candidate in &round.context.candidates {
            let drawn = round.decision.pmf.iter().find(|p| (p.mode, &p.arm) == (candidate.mode, &candidate.arm));
            add(vec![
                Cell::Text(Some(candidate.mode.to_string())),
                Cell::Text(Some(candidate.arm.to_string())),
                Cell::Real(drawn.map(|drawn| drawn.p)),
                Cell::Real32(drawn.and_then(|drawn| drawn.expected)),
                Cell::Real(Some(candidate.cost_usd)),
            ]);
        }
    });
    let neighbours = structs(rounds, &[("seq", whole), ("task_id", text), ("similarity", real32)], |round, add| {
        for neighbour in &round.context.neighbours {
            add(vec![
                Cell::Whole(neighbour.seq),
                Cell::Text(Some(neighbour.task_id.to_string())),
                Cell::Real32(Some(neighbour.similarity)),
            ]);
        }
    });
    let mut embeddings = ListBuilder::new(PrimitiveBuilder::<Float32Type>::new());
    for round in rounds {
        embeddings.values().append_slice(round.embedding.as_slice());
        embeddings.append(true);
    }
    // Hashes of texts are no texts.
    let prompt = |round: &Round| round.context.observed.kept.is_whole().then(|| round.task.prompt().to_owned());
    vec![
        ("n_candidates", Arc::new(count), false),
        ("candidates", candidates, false),
        ("neighbours", neighbours, false),
        ("embedding", Arc::new(embeddings.finish()), false),
        ("embedding_model", texts(rounds, |round| Some(round.context.observed.embedding_model.clone())), false),
        ("prompt", texts(rounds, prompt), true),
    ]
}

/// What became of it.
fn became(rounds: &[Round]) -> Vec<(&'static str, ArrayRef, bool)> {
    fn verified(round: &Round) -> Option<&Judged> {
        round.verified.as_ref()
    }
    let output = |round: &Round| {
        round.outcome.as_ref().filter(|outcome| outcome.kept.is_whole()).map(|outcome| outcome.output.clone())
    };
    let tokens = |of: fn(&Call) -> u64| -> ArrayRef {
        let sum = |round: &Round| round.outcome.as_ref().map(|outcome| outcome.calls.iter().map(of).sum());
        Arc::new(rounds.iter().map(sum).collect::<UInt64Array>())
    };
    let learnt = rounds.iter().map(|round| Some(verified(round)?.learns)).collect::<BooleanArray>();
    let (text, real) = (DataType::Utf8, DataType::Float64);
    let fields = [("verifier", text.clone()), ("version", text.clone()), ("status", text), ("score", real.clone())];
    let fields = [&fields[..], &[("weight", real)]].concat();
    let verdicts = structs(rounds, &fields, |round, add| {
        for verdict in verified(round).into_iter().flat_map(|judged| &judged.feedback.verdicts) {
            add(vec![
                Cell::Text(Some(verdict.verifier.clone())),
                Cell::Text(Some(verdict.version.clone())),
                Cell::Text(Some(name(&verdict.status))),
                Cell::Real(verdict.score),
                Cell::Real(Some(verdict.weight)),
            ]);
        }
    });
    let score = |judged: Option<&Judged>| judged?.feedback.score.map(|score| score.get());
    vec![
        ("output", texts(rounds, output), true),
        ("status", texts(rounds, |round| Some(round.status().as_str().to_owned())), false),
        ("score", reals(rounds, |round| score(verified(round))), true),
        ("reward", reals(rounds, |round| verified(round)?.feedback.reward), true),
        ("cost_usd", reals(rounds, Round::cost_usd), true),
        ("latency_ms", reals(rounds, |round| round.outcome.as_ref().map(|outcome| outcome.latency_ms)), true),
        ("input_tokens", tokens(|call| call.input_tokens), true),
        ("output_tokens", tokens(|call| call.output_tokens), true),
        ("feedback_source", texts(rounds, |round| Some(verified(round)?.feedback.source.as_str().to_owned())), true),
        ("learnt", Arc::new(learnt), true),
        ("weak_score", reals(rounds, |round| score(round.weak.as_ref())), true),
        ("verdicts", verdicts, false),
    ]
}

/// The name of an enumeration's value as the journal stores it.
fn name<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

fn texts(rounds: &[Round], of: impl Fn(&Round) -> Option<String>) -> ArrayRef {
    Arc::new(rounds.iter().map(of).collect::<StringArray>())
}

fn reals(rounds: &[Round], of: impl Fn(&Round) -> Option<f64>) -> ArrayRef {
    Arc::new(rounds.iter().map(of).collect::<Float64Array>())
}

/// A field's value in a list of structs.
enum Cell {
    Text(Option<String>),
    Real(Option<f64>),
    Real32(Option<f32>),
    Whole(u64),
}

/// A column of lists of structs; `fill` adds the structs of a round, each with one cell a field.
fn structs(
    rounds: &[Round],
    fields: &[(&str, DataType)],
    fill: impl Fn(&Round, &mut dyn FnMut(Vec<Cell>)),
) -> ArrayRef {
    let fields: Vec<_> = fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect();
    let mut lists = ListBuilder::new(StructBuilder::from_fields(fields, 0));
    for round in rounds {
        let builder = lists.values();
        fill(round, &mut |cells| {
            for (place, cell) in cells.into_iter().enumerate() {
                put(builder, place, cell);
            }
            builder.append(true);
        });
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn put(builder: &mut StructBuilder, place: usize, cell: Cell) {
    const MADE: &str = "the builder was made for a field of the cell's type";
    match cell {
        Cell::Text(text) => builder.field_builder::<StringBuilder>(place).expect(MADE).append_option(text),
        Cell::Real(real) => builder.field_builder::<Float64Builder>(place).expect(MADE).append_option(real),
        Cell::Real32(real) => builder.field_builder::<Float32Builder>(place).expect(MADE).append_option(real),
        Cell::Whole(whole) => builder.field_builder::<UInt64Builder>(place).expect(MADE).append_value(whole),
    }
}
