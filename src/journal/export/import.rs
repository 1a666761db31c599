//! Bringing an export back, event by event, with the same places and keys.
//!
//! Events are stored in groups, each in one transaction, so that a journal holds at any moment a beginning of the file, and an
//! import that was interrupted goes on from there: what is there already is compared, not written again.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, Read},
    path::Path,
};

use rayon::prelude::*;
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};

use super::{
    Line,
    line::{BaseLine, Bytes, End, FORMAT, Header, TRAILER, Trailer, VERSION},
};
use crate::{
    journal::{Base, Event, JournalError, Synchronous, pack, schema, writer},
    round::Embedding,
};

/// Events stored in one transaction.
const GROUP: usize = 1_000;
/// The longest line, in bytes: a record with its embeddings is far below it.
const LINE_BYTES_MAX: u64 = 512 << 20;

/// What an import did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// Events that were stored.
    pub stored: u64,
    /// Events that were there already.
    pub skipped: u64,
    /// The place of the last one.
    pub last_seq: i64,
}

/// An import that ended before the file did.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Stopped {
    /// What is in the journal all the same.
    pub imported: Imported,
    /// Why it ended.
    pub reason: ImportError,
}

/// Why an import ended early.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The file cannot be read.
    #[error("line {line} cannot be read: {error}")]
    Read {
        /// Its number, from 1.
        line: u64,
        /// Why.
        error: io::Error,
    },
    /// The first line is not a header.
    #[error("this is no export of a journal: {0}; write one with `pointsman journal export --format jsonl`")]
    NoHeader(String),
    /// The file is of a newer version.
    #[error("the export has version {0}, this version reads up to {VERSION}; upgrade pointsman")]
    Newer(u32),
    /// The file holds one domain alone.
    #[error("the export holds the domain {0} alone, which is no journal; export without --domain")]
    OneDomain(String),
    /// Events before those of the file are missing.
    #[error("the export begins after event {after}, the journal ends with event {last}; import the part before first")]
    Gap {
        /// The place after which the file begins.
        after: i64,
        /// The journal's last place.
        last: i64,
    },
    /// A line is damaged.
    #[error("line {line}: {reason}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// The journal holds another event at this place.
    #[error(
        "event {seq} of the file is not the one that the journal has there ({what} differs): they are of different journals"
    )]
    Differs {
        /// The place.
        seq: i64,
        /// The first thing that differs.
        what: &'static str,
    },
    /// The journal hashes texts under another key than the file.
    #[error(
        "the journal hashes texts that are not kept under another key: import into a new journal, or export without --with-key"
    )]
    OtherKey,
    /// The file ends too early.
    #[error("the file is cut off after line {0}: its last line is missing")]
    CutOff(u64),
    /// The file's hash is not the one that its last line names.
    #[error("the file was changed after it was written: its last line names other lines (a hash or a count differs)")]
    Changed,
}

impl From<sqlx::Error> for ImportError {
    fn from(error: sqlx::Error) -> Self {
        Self::Journal(error.into())
    }
}

/// Stores the events of an export in a journal that nobody has open: a new one, or one that holds a beginning of them.
/// `progress` is told the number of events done.
pub async fn import(file: &mut dyn BufRead, path: &Path, progress: &dyn Fn(u64)) -> Result<Imported, Stopped> {
    let mut imported = Imported::default();
    match run(file, path, progress, &mut imported).await {
        Ok(()) => Ok(imported),
        Err(reason) => Err(Stopped { imported, reason }),
    }
}

async fn run(
    file: &mut dyn BufRead,
    path: &Path,
    progress: &dyn Fn(u64),
    imported: &mut Imported,
) -> Result<(), ImportError> {
    let mut lines = Lines { file, read: 0, hasher: blake3::Hasher::new() };
    let header = header(&mut lines)?;
    let mut into = Into::open(path, header).await?;
    let end = loop {
        let mut texts = Vec::with_capacity(GROUP);
        let first = lines.read + 1;
        let end = lines.group(&mut texts)?;
        let parsed = texts.par_iter().enumerate().map(|(place, text)| Parsed::of(first + place as u64, text));
        // What comes before a damaged line is stored.
        let mut parsed: Vec<_> = parsed.collect();
        let damaged = parsed.iter().position(Result::is_err).map(|place| parsed.drain(place..).next());
        let good = parsed.into_iter().flatten().collect();
        into.store(good, imported).await?;
        progress(imported.stored + imported.skipped);
        if let Some(Some(Err(error))) = damaged {
            return Err(error);
        }
        if let Some(end) = end {
            break end;
        }
    };
    into.connection.close().await?;
    let hash = lines.hasher.finalize().to_hex();
    if end.blake3 != hash.as_str() || end.events != imported.stored + imported.skipped {
        return Err(ImportError::Changed);
    }
    Ok(())
}

fn header(lines: &mut Lines) -> Result<Header, ImportError> {
    let text = lines.next()?.ok_or(ImportError::CutOff(0))?;
    lines.hasher.update(&text);
    let no_header = |error: serde_json::Error| ImportError::NoHeader(error.to_string());
    // The version is read first: a newer header may have other fields.
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(no_header)?;
    if value["format"] != FORMAT {
        return Err(ImportError::NoHeader("its first line is another one".into()));
    }
    match value["version"].as_u64() {
        Some(version) if version > u64::from(VERSION) => {
            return Err(ImportError::Newer(u32::try_from(version).unwrap_or(u32::MAX)));
        }
        Some(_) | None => {}
    }
    let header: Header = serde_json::from_value(value).map_err(no_header)?;
    match &header.domain {
        Some(domain) => Err(ImportError::OneDomain(domain.to_string())),
        None => Ok(header),
    }
}

/// The file's lines, counted and hashed.
struct Lines<'a> {
    file: &'a mut dyn BufRead,
    read: u64,
    hasher: blake3::Hasher,
}

impl Lines<'_> {
    /// The next line with its line break; nothing at the end.
    fn next(&mut self) -> Result<Option<Vec<u8>>, ImportError> {
        let line = self.read + 1;
        let mut text = Vec::new();
        let read = (&mut *self.file).take(LINE_BYTES_MAX).read_until(b'\n', &mut text);
        read.map_err(|error| ImportError::Read { line, error })?;
        if text.is_empty() {
            return Ok(None);
        }
        if text.last() != Some(&b'\n') {
            return Err(ImportError::CutOff(self.read));
        }
        self.read = line;
        Ok(Some(text))
    }

    /// The next lines, at most a group; the last line's content once it is there.
    fn group(&mut self, texts: &mut Vec<Vec<u8>>) -> Result<Option<End>, ImportError> {
        while texts.len() < GROUP {
            let text = match self.next() {
                Ok(Some(text)) => text,
                Ok(None) | Err(ImportError::CutOff(_)) if !texts.is_empty() => return Ok(None),
                Ok(None) => return Err(ImportError::CutOff(self.read)),
                Err(error) => return Err(error),
            };
            if text.starts_with(TRAILER) {
                let line = self.read;
                let trailer: Trailer = serde_json::from_slice(&text)
                    .map_err(|error| ImportError::Line { line, reason: error.to_string() })?;
                return match self.next()? {
                    None => Ok(Some(trailer.end)),
                    Some(_) => Err(ImportError::Line { line: line + 1, reason: "it follows the last line".into() }),
                };
            }
            self.hasher.update(&text);
            texts.push(text);
        }
        Ok(None)
    }
}

/// A line that can be stored.
struct Parsed {
    line: u64,
    seq: i64,
    at_ms: i64,
    json: String,
    row: writer::Row,
    embeddings: BTreeMap<String, Bytes>,
}

impl Parsed {
    fn of(line: u64, text: &[u8]) -> Result<Self, ImportError> {
        let damaged = |reason: String| ImportError::Line { line, reason };
        let Line { seq, at_ms, once, learns, event: json, embedding, embeddings } =
            serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        let json: Box<str> = json.into();
        let event: Event = serde_json::from_str(&json).map_err(|error| damaged(error.to_string()))?;
        let embedding = embedding.map(|Bytes(bytes)| bytes);
        let model = match (&event, &embedding) {
            (Event::Decided { context, .. }, Some(bytes)) => {
                Embedding::from_bytes(bytes).map_err(|error| damaged(error.to_string()))?;
                Some(context.observed.embedding_model.clone())
            }
            (Event::Decided { .. }, None) => return Err(damaged("its embedding is missing".into())),
            (_, Some(_)) => return Err(damaged("it has an embedding but no task".into())),
            (_, None) => None,
        };
        let learns = learns.map(|Bytes(bytes)| bytes);
        let packed = pack::pack(json.as_bytes()).map_err(|error| JournalError::Other(error.to_string()))?;
        let row = writer::Row::packed(&event, packed, once, learns, model, embedding);
        Ok(Self { line, seq, at_ms, json: json.into(), row, embeddings })
    }
}

/// The journal that events go into.
struct Into {
    connection: SqliteConnection,
    /// The last place that it had before.
    had: i64,
    /// The place of the last line.
    last: i64,
}

impl Into {
    async fn open(path: &Path, header: Header) -> Result<Self, ImportError> {
        let mut connection = schema::options(path, Synchronous::Normal).connect().await?;
        schema::prepare(&mut connection, path).await?;
        let sql = "SELECT coalesce((SELECT max(seq) FROM events), 0), coalesce((SELECT seq FROM base), 0)";
        let (had, base): (i64, i64) = sqlx::query_as(sql).fetch_one(&mut connection).await?;
        if had.max(base) < header.after {
            return Err(ImportError::Gap { after: header.after, last: had.max(base) });
        }
        if let Some(Bytes(key)) = &header.key {
            same_key(&mut connection, key, had == 0).await?;
        }
        let mut into = Self { connection, had, last: header.after };
        if let Some(base) = header.base {
            into.rest_on(base).await?;
        }
        Ok(into)
    }

    /// A new journal rests on the file's compacted state. One that goes further back needs none.
    async fn rest_on(&mut self, base: BaseLine) -> Result<(), ImportError> {
        let (there, events): (Option<i64>, i64) =
            sqlx::query_as("SELECT (SELECT seq FROM base), (SELECT count(*) FROM events)")
                .fetch_one(&mut self.connection)
                .await?;
        match there {
            Some(seq) if seq == base.seq => return Ok(()),
            Some(_) => return Err(ImportError::Differs { seq: base.seq, what: "the compacted state" }),
            None if events > 0 && self.had >= base.seq => return Ok(()),
            None if events > 0 => return Err(ImportError::Gap { after: base.seq, last: self.had }),
            None => {}
        }
        let BaseLine { seq, at_ms, state } = base;
        Ok(Base { seq, at_ms, state }.write(&mut self.connection).await?)
    }

    async fn store(&mut self, group: Vec<Parsed>, imported: &mut Imported) -> Result<(), ImportError> {
        let (had, mut last) = (self.had, self.last);
        let mut transaction = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        let mut now = *imported;
        for parsed in group {
            if parsed.seq <= last {
                let reason = format!("event {} does not come after event {last}", parsed.seq);
                return Err(ImportError::Line { line: parsed.line, reason });
            }
            last = parsed.seq;
            if last <= had {
                compare(&mut transaction, &parsed).await?;
                now.skipped += 1;
            } else {
                insert(&mut transaction, &parsed).await?;
                now.stored += 1;
            }
            now.last_seq = last;
            for (model, Bytes(embedding)) in &parsed.embeddings {
                embed(&mut transaction, parsed.seq, model, embedding).await?;
            }
        }
        transaction.commit().await?;
        self.last = last;
        *imported = now;
        Ok(())
    }
}

/// A new journal takes the file's key of hashes; another one must have it.
async fn same_key(connection: &mut SqliteConnection, key: &[u8], is_new: bool) -> Result<(), ImportError> {
    if is_new {
        sqlx::query("UPDATE secret SET key = ?").bind(key).execute(&mut *connection).await?;
    }
    let there: Vec<u8> = sqlx::query_scalar("SELECT key FROM secret").fetch_one(connection).await?;
    if there == key { Ok(()) } else { Err(ImportError::OtherKey) }
}

async fn insert(connection: &mut SqliteConnection, parsed: &Parsed) -> Result<(), ImportError> {
    let row = &parsed.row;
    let inserted = sqlx::query(
        "INSERT INTO events(seq, at_ms, decision_id, once, learns, body, embedding, kind, model, packed, sum)
         VALUES (?, ?, ?, ?, ?, '', ?, ?, ?, ?, ?)",
    )
    .bind(parsed.seq)
    .bind(parsed.at_ms)
    .bind(row.decision_id.as_slice())
    .bind(row.once.as_deref())
    .bind(row.lesson.as_deref())
    .bind(row.embedding.as_deref())
    .bind(row.kind)
    .bind(row.model.as_deref())
    .bind(row.packed.as_slice())
    .bind(row.sum(parsed.at_ms, row.lesson.as_deref()))
    .execute(connection)
    .await;
    match inserted {
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            let reason = format!("its key is that of an earlier event ({error})");
            Err(ImportError::Line { line: parsed.line, reason })
        }
        inserted => Ok(inserted.map(drop)?),
    }
}

async fn compare(connection: &mut SqliteConnection, parsed: &Parsed) -> Result<(), ImportError> {
    let seq = parsed.seq;
    let differs = |what| ImportError::Differs { seq, what };
    let row = sqlx::query("SELECT * FROM events WHERE seq = ?").bind(seq).fetch_optional(connection).await?;
    let there = row.as_ref().map(Line::of).transpose()?.ok_or(differs("whether there is one"))?;
    let bytes = |there: Option<Bytes>| there.map(|Bytes(bytes)| bytes);
    let found = [
        (there.at_ms == parsed.at_ms, "the time"),
        (there.event.get() == parsed.json, "the event"),
        (there.once == parsed.row.once, "the key `once`"),
        (bytes(there.learns) == parsed.row.lesson, "the key `learns`"),
        (bytes(there.embedding) == parsed.row.embedding, "the embedding"),
    ];
    match found.into_iter().find(|(same, _)| !same) {
        Some((_, what)) => Err(differs(what)),
        None => Ok(()),
    }
}

/// An embedding by another model: it may have been made after the event was imported.
async fn embed(connection: &mut SqliteConnection, seq: i64, model: &str, embedding: &[u8]) -> Result<(), ImportError> {
    let sql = "SELECT embedding FROM reembedded WHERE seq = ? AND model = ?";
    let there = sqlx::query(sql).bind(seq).bind(model).fetch_optional(&mut *connection).await?;
    match there.map(|row| row.try_get::<Vec<u8>, _>(0)).transpose()? {
        Some(there) if there == embedding => Ok(()),
        Some(_) => Err(ImportError::Differs { seq, what: "the embedding by another model" }),
        None => {
            let sql = "INSERT INTO reembedded(seq, model, embedding) VALUES (?, ?, ?)";
            sqlx::query(sql).bind(seq).bind(model).bind(embedding).execute(connection).await?;
            Ok(())
        }
    }
}
