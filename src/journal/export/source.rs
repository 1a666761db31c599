//! The journal as stored, read in pages.

use std::path::Path;

use rayon::prelude::*;
use sqlx::{ConnectOptions, Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    super::{Event, JournalError, JournalReader, reader, schema},
    Line,
};
use crate::round::{DecisionId, Domain};

/// Which part of the journal is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// From this time on, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Before this time.
    pub until_ms: Option<i64>,
    /// Only decisions of this domain.
    pub domain: Option<Domain>,
}

/// A journal to export from, with the daemon that writes it or without one.
pub struct Source {
    connection: SqliteConnection,
    reader: JournalReader,
}

impl Source {
    /// Opens it to read. One of an older format is brought up to this one first.
    pub async fn open(path: &Path) -> Result<Self, JournalError> {
        // Rows are read as they are, so that it does not matter which model embedded them.
        let reader = JournalReader::open(path, "").await?;
        Ok(Self { connection: schema::reading(path).connect().await?, reader })
    }

    /// The journal's own way of reading.
    pub fn reader(&self) -> &JournalReader {
        &self.reader
    }

    /// The places of a selection: after the first, up to the second.
    pub async fn span(&self, selection: &Selection) -> Result<(i64, i64), JournalError> {
        let after = match selection.from_ms {
            Some(from_ms) => self.reader.last_before(from_ms).await?,
            None => 0,
        };
        let until = match selection.until_ms {
            Some(until_ms) => self.reader.last_before(until_ms).await?,
            None => self.reader.last_seq().await?,
        };
        Ok((after, until))
    }

    /// Events as stored after one place and up to another, oldest first, at most `limit`.
    pub async fn lines(&mut self, after: i64, until: i64, limit: i64) -> Result<Vec<Line>, JournalError> {
        let sql = "SELECT * FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?";
        let query = sqlx::query(sql).bind(after).bind(until).bind(limit);
        let rows = query.fetch_all(&mut self.connection).await?;
        let mut lines = rows.par_iter().map(Line::of).collect::<Result<Vec<_>, _>>()?;
        if let Some(last) = lines.last() {
            let sql = "SELECT seq, model, embedding FROM reembedded WHERE seq > ? AND seq <= ?";
            let query = sqlx::query_as::<_, (i64, String, Vec<u8>)>(sql).bind(after).bind(last.seq);
            for (seq, model, embedding) in query.fetch_all(&mut self.connection).await? {
                if let Ok(place) = lines.binary_search_by_key(&seq, |line| line.seq) {
                    lines[place].embeddings.insert(model, embedding.into());
                }
            }
        }
        Ok(lines)
    }

    /// The place before the last `n` events.
    pub async fn before_last(&mut self, n: i64) -> Result<i64, JournalError> {
        let sql = "SELECT seq FROM events ORDER BY seq DESC LIMIT 1 OFFSET ?";
        let seq: Option<i64> = sqlx::query_scalar(sql).bind(n).fetch_optional(&mut self.connection).await?;
        Ok(seq.unwrap_or(0))
    }

    /// The event that decided a decision, if it is there.
    pub async fn decided(&mut self, id: DecisionId) -> Result<Option<Event>, JournalError> {
        let sql = "SELECT * FROM events WHERE decision_id = ? AND embedding IS NOT NULL LIMIT 1";
        let query = sqlx::query(sql).bind(id.as_bytes().as_slice());
        let row = query.fetch_optional(&mut self.connection).await?;
        Ok(row.as_ref().map(reader::event_of).transpose()?.map(|(_, event)| event))
    }

    /// The decisions after one place and up to another, at most `limit`: the place of the last, and the events of all of them
    /// up to `end`, in journal order.
    pub(super) async fn decisions(
        &mut self,
        after: i64,
        until: i64,
        end: i64,
        limit: i64,
    ) -> Result<Option<(i64, Vec<SqliteRow>)>, JournalError> {
        // The embedding tells a decided task also where the kind was not a column yet.
        let sql = "SELECT max(seq) FROM (SELECT seq FROM events WHERE seq > ? AND seq <= ? AND embedding IS NOT NULL
                   ORDER BY seq LIMIT ?)";
        let query = sqlx::query_scalar(sql).bind(after).bind(until).bind(limit);
        let last: Option<i64> = query.fetch_one(&mut self.connection).await?;
        let Some(last) = last else { return Ok(None) };
        let sql = "SELECT * FROM events WHERE decision_id IN
                   (SELECT decision_id FROM events WHERE seq > ? AND seq <= ? AND embedding IS NOT NULL)
                   AND seq <= ? ORDER BY seq";
        let query = sqlx::query(sql).bind(after).bind(last).bind(end);
        Ok(Some((last, query.fetch_all(&mut self.connection).await?)))
    }
}

/// The decision that a row is about, where it is about one.
pub(super) fn decision_of(row: &SqliteRow) -> Result<Option<DecisionId>, JournalError> {
    let bytes: &[u8] = row.try_get("decision_id")?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let seq = row.try_get("seq")?;
    let id = DecisionId::from_bytes(bytes);
    id.map(Some).map_err(|error| JournalError::Damaged { seq, reason: error.to_string() })
}
