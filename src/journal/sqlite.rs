//! The embedded journal: one SQLite file.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sqlx::{
    ConnectOptions, Connection, Row, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    Appended, Committed, Decided, Event, JournalError, NewEvent, Stored,
    writer::{self, Append},
};
use crate::round::{DecisionId, Embedding, IdempotencyKey};

/// The newest format that this version reads and the one that it writes.
const FORMAT: i64 = 1;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS events(
    seq         INTEGER PRIMARY KEY,
    at_ms       INTEGER NOT NULL,
    decision_id BLOB NOT NULL,
    once        TEXT UNIQUE,
    learns      BLOB UNIQUE,
    body        TEXT NOT NULL,
    embedding   BLOB
) STRICT;
CREATE INDEX IF NOT EXISTS events_by_decision ON events(decision_id);
";

/// How many appends may wait for the writer before callers wait too.
const QUEUE: usize = 4_096;

/// How the journal keeps its promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    /// What was acknowledged survives a power cut: each group is flushed to the disk.
    #[default]
    Full,
    /// What was acknowledged survives kill -9, but the last moments may be lost with the machine's power.
    Normal,
}

/// Where and how to keep the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalSettings {
    /// The file; created when absent.
    pub path: PathBuf,
    /// What durable means.
    pub synchronous: Synchronous,
}

/// The journal's handle: appends go to the one writer, reads to a small pool.
pub struct Journal {
    queue: mpsc::Sender<Append>,
    reader: SqlitePool,
    path: PathBuf,
    closing: CancellationToken,
    // Guards the writer's handle, which the first `close` takes.
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Journal {
    /// Opens or creates the file and starts the writer, which sends what it committed, in order, to `committed`.
    pub async fn open(settings: &JournalSettings, committed: mpsc::Sender<Committed>) -> Result<Self, JournalError> {
        let path = settings.path.clone();
        let open_error =
            |error: sqlx::Error| JournalError::Open { path: settings.path.clone(), reason: error.to_string() };
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(10))
            .synchronous(match settings.synchronous {
                Synchronous::Full => SqliteSynchronous::Full,
                Synchronous::Normal => SqliteSynchronous::Normal,
            });
        let mut connection = options.connect().await.map_err(open_error)?;
        Self::prepare(&mut connection, &path).await?;
        let reader = SqlitePoolOptions::new()
            .max_connections(2)
            .connect_with(options.clone().read_only(true))
            .await
            .map_err(open_error)?;
        let (queue, appends) = mpsc::channel(QUEUE);
        let closing = CancellationToken::new();
        let writer = tokio::spawn(writer::run(options, connection, appends, committed, closing.clone()));
        Ok(Self { queue, reader, path, closing, writer: Mutex::new(Some(writer)) })
    }

    async fn prepare(connection: &mut SqliteConnection, path: &Path) -> Result<(), JournalError> {
        let unreadable =
            |error: sqlx::Error| JournalError::Open { path: path.to_path_buf(), reason: error.to_string() };
        let found: i64 =
            sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *connection).await.map_err(unreadable)?;
        if found > FORMAT {
            return Err(JournalError::Newer { path: path.to_path_buf(), found, known: FORMAT });
        }
        sqlx::raw_sql(SCHEMA).execute(&mut *connection).await.map_err(unreadable)?;
        sqlx::raw_sql("PRAGMA user_version = 1").execute(&mut *connection).await.map_err(unreadable)?;
        connection.ping().await.map_err(unreadable)
    }

    /// Appends events as one unit and returns what became of each, once durable.
    pub async fn append(&self, events: Vec<NewEvent>) -> Result<Vec<Appended>, JournalError> {
        let (done, answer) = oneshot::channel();
        self.queue.send(Append { events, done }).await.map_err(|_| JournalError::Closed)?;
        answer.await.map_err(|_| JournalError::Closed)?
    }

    /// The events after `after_seq`, oldest first, at most `limit`.
    pub async fn after(&self, after_seq: i64, limit: i64) -> Result<Vec<Stored>, JournalError> {
        let rows = sqlx::query("SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT ?")
            .bind(after_seq)
            .bind(limit)
            .fetch_all(&self.reader)
            .await?;
        rows.iter().map(read).collect()
    }

    /// All events of one decision, oldest first.
    pub async fn of_decision(&self, id: DecisionId) -> Result<Vec<Stored>, JournalError> {
        let rows = sqlx::query("SELECT * FROM events WHERE decision_id = ? ORDER BY seq")
            .bind(id.as_bytes().as_slice())
            .fetch_all(&self.reader)
            .await?;
        rows.iter().map(read).collect()
    }

    /// The decided task of a decision, if there is such a decision.
    pub async fn decided(&self, id: DecisionId) -> Result<Option<Decided>, JournalError> {
        Ok(self.of_decision(id).await?.into_iter().find_map(Stored::into_decided))
    }

    /// The decision that a task with this idempotency key led to.
    pub async fn by_idempotency_key(&self, key: &IdempotencyKey) -> Result<Option<DecisionId>, JournalError> {
        let found: Option<Vec<u8>> = sqlx::query_scalar("SELECT decision_id FROM events WHERE once = ?")
            .bind(format!("task:{key}"))
            .fetch_optional(&self.reader)
            .await?;
        found
            .map(|bytes| DecisionId::from_bytes(&bytes).map_err(|error| JournalError::Other(error.to_string())))
            .transpose()
    }

    /// How many events there are, and how many rounds were learnt from.
    pub async fn counts(&self) -> Result<(u64, u64), JournalError> {
        let row = sqlx::query("SELECT count(*), count(learns) FROM events").fetch_one(&self.reader).await?;
        Ok((row.try_get::<i64, _>(0)?.unsigned_abs(), row.try_get::<i64, _>(1)?.unsigned_abs()))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what was queued, then closes the file. Later appends fail with [`JournalError::Closed`].
    pub async fn close(&self) {
        self.closing.cancel();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer
            && let Err(error) = writer.await
        {
            tracing::error!(%error, "the journal's writer panicked");
        }
        self.reader.close().await;
    }
}

impl Stored {
    /// The decided task, when this event is one.
    pub fn into_decided(self) -> Option<Decided> {
        match (self.event, self.embedding) {
            (Event::Decided { task, context, decision }, Some(embedding)) => {
                Some(Decided::from_parts(task, context, embedding, decision))
            }
            _ => None,
        }
    }
}

fn read(row: &SqliteRow) -> Result<Stored, JournalError> {
    let seq: i64 = row.try_get("seq")?;
    let damaged = |reason: String| JournalError::Damaged { seq, reason };
    let body: &str = row.try_get("body")?;
    let embedding: Option<&[u8]> = row.try_get("embedding")?;
    Ok(Stored {
        seq,
        at_ms: row.try_get("at_ms")?,
        learns: row.try_get::<Option<&[u8]>, _>("learns")?.is_some(),
        event: serde_json::from_str(body).map_err(|error| damaged(error.to_string()))?,
        embedding: embedding.map(Embedding::from_bytes).transpose().map_err(|error| damaged(error.to_string()))?,
    })
}
