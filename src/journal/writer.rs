//! The one writer: takes what is waiting, writes it in one transaction, acknowledges after the commit.
//!
//! While one group is being flushed the next one gathers, so the flush is shared by all who wait and throughput
//! grows with load. A group that fails is rolled back whole and each of its callers is told.

use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{Appended, Committed, JournalError, NewEvent, pack};

/// The most appends in one transaction.
const GROUP_MAX: usize = 512;
/// A clock that goes back by more than this is worth a word, in milliseconds.
const STEP_MS: i64 = 1_000;

/// One caller's events and where its answer goes.
pub(super) struct Append {
    pub events: Vec<NewEvent>,
    pub rows: Vec<Row>,
    pub done: oneshot::Sender<Result<Vec<Appended>, JournalError>>,
}

/// An event as it is stored, without its place and time.
pub(super) struct Row {
    pub decision_id: Vec<u8>,
    pub once: Option<String>,
    pub lesson: Option<Vec<u8>>,
    pub kind: &'static str,
    pub model: Option<String>,
    pub packed: Vec<u8>,
    pub embedding: Option<Vec<u8>>,
    pub sum: i64,
}

impl Row {
    pub fn of(new: &NewEvent) -> Result<Self, JournalError> {
        let json = serde_json::to_vec(&new.event).map_err(|error| JournalError::Other(error.to_string()))?;
        let packed = pack::pack(&json).map_err(|error| JournalError::Other(error.to_string()))?;
        let decision_id = new.event.decision_id().map(|id| id.as_bytes().to_vec()).unwrap_or_default();
        let (model, embedding) = new.embedded().unzip();
        let once = new.once();
        let parts: [&[u8]; 4] = [
            &decision_id,
            once.as_deref().unwrap_or_default().as_bytes(),
            &packed,
            embedding.as_deref().unwrap_or_default(),
        ];
        let sum = pack::checksum(&parts);
        Ok(Self { decision_id, once, lesson: new.teaches(), kind: new.event.kind(), model, packed, embedding, sum })
    }
}

/// The one who writes.
pub(super) struct Writer {
    options: SqliteConnectOptions,
    connection: Option<SqliteConnection>,
    /// When the last event was appended: the journal's time never goes back, whatever the clock does.
    last_ms: i64,
    stepped_back: bool,
    committed: mpsc::Sender<Committed>,
}

impl Writer {
    pub fn new(
        options: SqliteConnectOptions,
        connection: SqliteConnection,
        last_ms: i64,
        committed: mpsc::Sender<Committed>,
    ) -> Self {
        Self { options, connection: Some(connection), last_ms, stepped_back: false, committed }
    }

    /// Runs until it is told to close, or every sender is gone; what was queued before is still written.
    pub async fn run(mut self, mut appends: mpsc::Receiver<Append>, closing: CancellationToken) {
        let mut group = Vec::with_capacity(GROUP_MAX);
        loop {
            let taken = tokio::select! {
                biased;
                taken = appends.recv_many(&mut group, GROUP_MAX) => taken,
                () = closing.cancelled(), if !appends.is_closed() => {
                    appends.close();
                    continue;
                }
            };
            if taken == 0 {
                break;
            }
            let at_ms = self.now();
            let written = write_or_reconnect(&self.options, &mut self.connection, &group, at_ms).await;
            for (index, append) in group.drain(..).enumerate() {
                let answer = match &written {
                    Ok(results) => Ok(results[index].clone()),
                    Err(error) => Err(error.clone()),
                };
                if let Ok(results) = &answer {
                    hand_on(append.events, results, at_ms, &self.committed).await;
                }
                // A caller that gave up still has its events stored; there is nobody to tell.
                let _ = append.done.send(answer);
            }
        }
        if let Some(open) = self.connection
            && let Err(error) = open.close().await
        {
            tracing::warn!(%error, "the journal did not close cleanly");
        }
    }

    fn now(&mut self) -> i64 {
        let clock = now_ms();
        let behind_ms = self.last_ms - clock;
        if behind_ms > STEP_MS && !self.stepped_back {
            tracing::warn!(behind_ms, "the clock was put back; events are dated as the last one until it catches up");
        }
        self.stepped_back = behind_ms > STEP_MS;
        self.last_ms = clock.max(self.last_ms);
        self.last_ms
    }
}

/// After a failure SQLite may have rolled back by itself (a full disk) while the connection still counts a transaction
/// as open, so the next group gets a new connection.
async fn write_or_reconnect(
    options: &SqliteConnectOptions,
    connection: &mut Option<SqliteConnection>,
    group: &[Append],
    at_ms: i64,
) -> Result<Vec<Vec<Appended>>, JournalError> {
    let mut open = match connection.take() {
        Some(open) => open,
        None => options.connect().await?,
    };
    let written = write(&mut open, group, at_ms).await;
    if written.is_ok() {
        *connection = Some(open);
    }
    written
}

async fn hand_on(events: Vec<NewEvent>, results: &[Appended], at_ms: i64, committed: &mpsc::Sender<Committed>) {
    for (new, result) in events.into_iter().zip(results) {
        if let Appended::Stored { seq, learns } = *result {
            // The learner stops only after the journal, so a closed channel means that nobody learns any more.
            let _ = committed.send(Committed { seq, at_ms, learns, new }).await;
        }
    }
}

async fn write(
    connection: &mut SqliteConnection,
    group: &[Append],
    at_ms: i64,
) -> Result<Vec<Vec<Appended>>, JournalError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut results = Vec::with_capacity(group.len());
    for append in group {
        let mut appended = Vec::with_capacity(append.events.len());
        for (place, row) in append.rows.iter().enumerate() {
            let result = insert(&mut transaction, row, at_ms).await?;
            appended.push(result);
            if place == 0 && result == Appended::Duplicate {
                // The events of one append are one unit, which its first stands for.
                appended.resize(append.events.len(), Appended::Duplicate);
                break;
            }
        }
        results.push(appended);
    }
    transaction.commit().await?;
    Ok(results)
}

pub(super) async fn insert(connection: &mut SqliteConnection, row: &Row, at_ms: i64) -> Result<Appended, JournalError> {
    if row.lesson.is_some()
        && let Some(seq) = try_insert(connection, row, at_ms, row.lesson.as_deref()).await?
    {
        return Ok(Appended::Stored { seq, learns: true });
    }
    Ok(match try_insert(connection, row, at_ms, None).await? {
        Some(seq) => Appended::Stored { seq, learns: false },
        None => Appended::Duplicate,
    })
}

/// The new event's sequence number, or nothing when `once` or `learns` was taken.
async fn try_insert(
    connection: &mut SqliteConnection,
    row: &Row,
    at_ms: i64,
    learns: Option<&[u8]>,
) -> Result<Option<i64>, JournalError> {
    let result = sqlx::query(
        "INSERT INTO events(at_ms, decision_id, once, learns, body, embedding, kind, model, packed, sum)
         VALUES (?, ?, ?, ?, '', ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
    )
    .bind(at_ms)
    .bind(row.decision_id.as_slice())
    .bind(row.once.as_deref())
    .bind(learns)
    .bind(row.embedding.as_deref())
    .bind(row.kind)
    .bind(row.model.as_deref())
    .bind(row.packed.as_slice())
    .bind(row.sum)
    .execute(connection)
    .await?;
    Ok((result.rows_affected() == 1).then(|| result.last_insert_rowid()))
}

/// The journal's clock: milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
