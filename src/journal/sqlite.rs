//! The embedded journal: one SQLite file.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Row, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    Appended, ArmChange, Committed, Decided, Event, JournalError, NewEvent, PolicyChange, Restored, Stored,
    event::{ARM, FIRST_MODEL, POLICY, RESTORED, VERIFIER},
    writer::{self, Append},
};
use crate::round::{ArmId, DecisionId, Domain, Embedding, IdempotencyKey, Task, VerifierChange, VerifierName};

/// The newest format that this version reads and the one that it writes.
const FORMAT: i64 = 4;

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
CREATE TABLE IF NOT EXISTS reembedded(
    seq         INTEGER NOT NULL,
    model       TEXT NOT NULL,
    embedding   BLOB NOT NULL,
    PRIMARY KEY (seq, model)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 4;
";

/// Events with the embedding of the journal's model, if there is one.
const SELECT: &str = "SELECT events.*, reembedded.embedding AS embedded_again FROM events
    LEFT JOIN reembedded ON reembedded.seq = events.seq AND reembedded.model = ?";

/// The tasks without an embedding of a model; bound are that model, [`FIRST_MODEL`] and that model again.
const UNEMBEDDED: &str = "FROM events LEFT JOIN reembedded ON reembedded.seq = events.seq AND reembedded.model = ?
    WHERE events.embedding IS NOT NULL AND reembedded.seq IS NULL
    AND coalesce(json_extract(body, '$.context.embedding_model'), ?) <> ?";

/// Lessons of the verified channel: a decision's id and no more.
const VERIFIED: &str = "count(*) FILTER (WHERE length(learns) = 16)";

/// How long to wait for another connection's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// The model whose embeddings are read; tasks embedded by another one must have been embedded again.
    pub embedding_model: String,
}

/// The journal's handle: appends go to the one writer, reads to a small pool.
pub struct Journal {
    queue: mpsc::Sender<Append>,
    reader: SqlitePool,
    path: PathBuf,
    embedding_model: String,
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
            .busy_timeout(BUSY_TIMEOUT)
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
        let embedding_model = settings.embedding_model.clone();
        Ok(Self { queue, reader, path, embedding_model, closing, writer: Mutex::new(Some(writer)) })
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
        let rows = sqlx::query(AssertSqlSafe(format!("{SELECT} WHERE events.seq > ? ORDER BY events.seq LIMIT ?")))
            .bind(&self.embedding_model)
            .bind(after_seq)
            .bind(limit)
            .fetch_all(&self.reader)
            .await?;
        rows.iter().map(|row| self.read(row)).collect()
    }

    /// All events of one decision, oldest first.
    pub async fn of_decision(&self, id: DecisionId) -> Result<Vec<Stored>, JournalError> {
        let rows = sqlx::query(AssertSqlSafe(format!("{SELECT} WHERE decision_id = ? ORDER BY events.seq")))
            .bind(&self.embedding_model)
            .bind(id.as_bytes().as_slice())
            .fetch_all(&self.reader)
            .await?;
        rows.iter().map(|row| self.read(row)).collect()
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

    /// How many events there are, and how many decisions were learnt from by verified feedback.
    pub async fn counts(&self) -> Result<(u64, u64), JournalError> {
        let sql = format!("SELECT count(*), {VERIFIED} FROM events");
        let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(&self.reader).await?;
        Ok((row.try_get::<i64, _>(0)?.unsigned_abs(), row.try_get::<i64, _>(1)?.unsigned_abs()))
    }

    /// The last restoration of memory, with its place in the journal and the number of verified rounds learnt after it.
    pub async fn last_restored(&self) -> Result<Option<(i64, Restored, u64)>, JournalError> {
        let row = sqlx::query("SELECT seq, body FROM events WHERE once >= ? AND once < ? ORDER BY seq DESC LIMIT 1")
            .bind(RESTORED)
            .bind(RESTORED.replace(':', ";"))
            .fetch_optional(&self.reader)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let seq: i64 = row.try_get("seq")?;
        let damaged = |reason: String| JournalError::Damaged { seq, reason };
        let event = serde_json::from_str(row.try_get("body")?).map_err(|error| damaged(error.to_string()))?;
        let Event::MemoryRestored { restored } = event else {
            return Err(damaged("it is no restoration of memory".into()));
        };
        let learnt: i64 = sqlx::query_scalar(AssertSqlSafe(format!("SELECT {VERIFIED} FROM events WHERE seq > ?")))
            .bind(seq)
            .fetch_one(&self.reader)
            .await?;
        Ok(Some((seq, restored, learnt.unsigned_abs())))
    }

    /// All changes of policies, oldest first.
    pub async fn policy_changes(&self) -> Result<Vec<PolicyChange>, JournalError> {
        let changes = self.named(POLICY).await?.into_iter();
        Ok(changes
            .filter_map(|event| if let Event::PolicyChanged { change } = event { Some(change) } else { None })
            .collect())
    }

    /// All changes of arms, oldest first.
    pub async fn arm_changes(&self) -> Result<Vec<(ArmId, ArmChange)>, JournalError> {
        let changes = self.named(ARM).await?.into_iter();
        Ok(changes
            .filter_map(|event| if let Event::ArmChanged { arm, change } = event { Some((arm, change)) } else { None })
            .collect())
    }

    /// All changes of verifiers, oldest first.
    pub async fn verifier_changes(&self) -> Result<Vec<(Option<Domain>, VerifierName, VerifierChange)>, JournalError> {
        let changes = self.named(VERIFIER).await?.into_iter();
        Ok(changes
            .filter_map(|event| match event {
                Event::VerifierChanged { domain, verifier, change } => Some((domain, verifier, change)),
                _ => None,
            })
            .collect())
    }

    /// The events whose `once` key starts with a prefix that ends with a colon, oldest first.
    async fn named(&self, prefix: &str) -> Result<Vec<Event>, JournalError> {
        let rows = sqlx::query("SELECT seq, body FROM events WHERE once >= ? AND once < ? ORDER BY seq")
            .bind(prefix)
            .bind(prefix.replace(':', ";"))
            .fetch_all(&self.reader)
            .await?;
        let read = |row: &SqliteRow| {
            let seq: i64 = row.try_get("seq")?;
            let damaged = |error: serde_json::Error| JournalError::Damaged { seq, reason: error.to_string() };
            serde_json::from_str(row.try_get("body")?).map_err(damaged)
        };
        rows.iter().map(read).collect()
    }

    /// The place of the last event; 0 when there is none.
    pub async fn last_seq(&self) -> Result<i64, JournalError> {
        Ok(sqlx::query_scalar("SELECT coalesce(max(seq), 0) FROM events").fetch_one(&self.reader).await?)
    }

    /// How many tasks have no embedding of the journal's model yet.
    pub async fn unembedded(&self) -> Result<u64, JournalError> {
        let sql = format!("SELECT count(*) {UNEMBEDDED}");
        let query = sqlx::query_scalar::<_, i64>(AssertSqlSafe(sql));
        let query = query.bind(&self.embedding_model).bind(FIRST_MODEL).bind(&self.embedding_model);
        Ok(query.fetch_one(&self.reader).await?.unsigned_abs())
    }

    /// The first of them, at most `limit`, with their places in the journal.
    pub async fn first_unembedded(&self, limit: i64) -> Result<Vec<(i64, Task)>, JournalError> {
        let sql = format!("SELECT events.seq, body {UNEMBEDDED} ORDER BY events.seq LIMIT ?");
        let query = sqlx::query(AssertSqlSafe(sql)).bind(&self.embedding_model).bind(FIRST_MODEL);
        let query = query.bind(&self.embedding_model);
        let rows = query.bind(limit).fetch_all(&self.reader).await?;
        rows.iter()
            .map(|row| {
                let seq: i64 = row.try_get("seq")?;
                match serde_json::from_str(row.try_get("body")?) {
                    Ok(Event::Decided { task, .. }) => Ok((seq, task)),
                    Ok(_) => Err(JournalError::Damaged { seq, reason: "it has an embedding but no task".into() }),
                    Err(error) => Err(JournalError::Damaged { seq, reason: error.to_string() }),
                }
            })
            .collect()
    }

    /// Stores embeddings of the journal's model beside the tasks' own, as one unit; durable when this returns. For a
    /// journal that nobody appends to meanwhile.
    pub async fn embed_again(&self, embedded: &[(i64, Embedding)]) -> Result<(), JournalError> {
        let options = SqliteConnectOptions::new().filename(&self.path).busy_timeout(BUSY_TIMEOUT);
        let mut connection = options.connect().await?;
        let mut transaction = connection.begin().await?;
        for (seq, embedding) in embedded {
            sqlx::query("INSERT OR REPLACE INTO reembedded(seq, model, embedding) VALUES (?, ?, ?)")
                .bind(seq)
                .bind(&self.embedding_model)
                .bind(embedding.to_bytes())
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(connection.close().await?)
    }

    fn read(&self, row: &SqliteRow) -> Result<Stored, JournalError> {
        let seq: i64 = row.try_get("seq")?;
        let damaged = |reason: String| JournalError::Damaged { seq, reason };
        let event = serde_json::from_str(row.try_get("body")?).map_err(|error| damaged(error.to_string()))?;
        let column = match &event {
            Event::Decided { context, .. } if context.observed.embedding_model != self.embedding_model => {
                "embedded_again"
            }
            _ => "embedding",
        };
        let embedding: Option<&[u8]> = row.try_get(column)?;
        if let (Event::Decided { context, .. }, None) = (&event, embedding) {
            let found = context.observed.embedding_model.clone();
            return Err(JournalError::OtherModel { seq, found, wanted: self.embedding_model.clone() });
        }
        Ok(Stored {
            seq,
            at_ms: row.try_get("at_ms")?,
            learns: row.try_get::<Option<&[u8]>, _>("learns")?.is_some(),
            event,
            embedding: embedding.map(Embedding::from_bytes).transpose().map_err(|error| damaged(error.to_string()))?,
        })
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
