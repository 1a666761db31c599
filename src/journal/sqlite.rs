//! The embedded journal: one SQLite file.

use std::{
    ops::Deref,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use sqlx::{ConnectOptions, Connection};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    Appended, Committed, JournalError, JournalReader, NewEvent, schema,
    writer::{self, Append, Row},
};
use crate::round::Embedding;

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

/// The journal's handle: appends go to the one writer; it reads as a [`JournalReader`] does.
pub struct Journal {
    queue: mpsc::Sender<Append>,
    reader: JournalReader,
    last_seq: watch::Receiver<i64>,
    closing: CancellationToken,
    // Guards the writer's handle, which the first `close` takes.
    writer: Mutex<Option<Closing>>,
}

/// The writer, and what tells it that nobody reads any more.
struct Closing {
    writer: JoinHandle<()>,
    settler: JoinHandle<()>,
    unread: oneshot::Sender<()>,
}

impl Deref for Journal {
    type Target = JournalReader;

    fn deref(&self) -> &JournalReader {
        &self.reader
    }
}

impl Journal {
    /// Opens or creates the file and starts the writer, which sends what it committed, in order, to `committed`.
    pub async fn open(settings: &JournalSettings, committed: mpsc::Sender<Committed>) -> Result<Self, JournalError> {
        let path = &settings.path;
        let options = schema::options(path, settings.synchronous);
        let mut connection = options.connect().await.map_err(JournalError::opening(path))?;
        schema::prepare(&mut connection, path).await?;
        let last: Option<(i64, i64)> = sqlx::query_as("SELECT seq, at_ms FROM events ORDER BY seq DESC LIMIT 1")
            .fetch_optional(&mut connection)
            .await?;
        let (last_seq, last_ms) = last.unwrap_or_default();
        let (moved, last_seq) = watch::channel(last_seq);
        let reader = JournalReader::over(path, &settings.embedding_model).await?;
        let (queue, appends) = mpsc::channel(QUEUE);
        let closing = CancellationToken::new();
        let settler = tokio::spawn(writer::settle(options.clone(), last_seq.clone(), closing.clone()));
        let writer = writer::Writer::new(options, connection, last_ms, committed, moved);
        let (unread, nobody_reads) = oneshot::channel();
        let writer = tokio::spawn(writer.run(appends, closing.clone(), nobody_reads));
        Ok(Self { queue, reader, last_seq, closing, writer: Mutex::new(Some(Closing { writer, settler, unread })) })
    }

    /// Appends events as one unit and returns what became of each, once durable.
    pub async fn append(&self, events: Vec<NewEvent>) -> Result<Vec<Appended>, JournalError> {
        // Packed here, by whoever appends, so that the one writer only writes.
        let rows = events.iter().map(Row::of).collect::<Result<_, _>>()?;
        let (done, answer) = oneshot::channel();
        self.queue.send(Append { events, rows, done }).await.map_err(|_| JournalError::Closed)?;
        answer.await.map_err(|_| JournalError::Closed)?
    }

    /// The place of the last event, as it moves: for whoever follows the journal.
    pub fn last_place(&self) -> watch::Receiver<i64> {
        self.last_seq.clone()
    }

    /// Stores embeddings of the journal's model beside the tasks' own, as one unit; durable when this returns. For a
    /// journal that nobody appends to meanwhile.
    pub async fn embed_again(&self, embedded: &[(i64, Embedding)]) -> Result<(), JournalError> {
        let mut connection = schema::options(self.path(), Synchronous::Full).connect().await?;
        let mut transaction = connection.begin().await?;
        for (seq, embedding) in embedded {
            sqlx::query("INSERT OR REPLACE INTO reembedded(seq, model, embedding) VALUES (?, ?, ?)")
                .bind(seq)
                .bind(self.embedding_model())
                .bind(embedding.to_bytes())
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(connection.close().await?)
    }

    /// Takes no more appends: later ones fail with [`JournalError::Closed`]. What was queued is still written and handed
    /// on, and the journal can be read until it is closed.
    pub fn seal(&self) {
        self.closing.cancel();
    }

    /// Seals the journal, ends reading, and closes the file, in which then all of it is.
    pub async fn close(&self) {
        self.seal();
        // Only the last connection of all can take the write-ahead log away, and only one that writes.
        self.reader.close_reader().await;
        let closing = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Closing { writer, settler, unread }) = closing else { return };
        // It only moves what is safe already; a panic of its own has been logged.
        let _ = settler.await;
        let _ = unread.send(());
        if let Err(error) = writer.await {
            tracing::error!(%error, "the journal's writer panicked");
        }
    }
}
