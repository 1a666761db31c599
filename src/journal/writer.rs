//! The one writer: takes what is waiting, writes it in one transaction, acknowledges after the commit.
//!
//! While one group is being flushed the next one gathers, so the flush is shared by all who wait and throughput
//! grows with load. A group that fails is rolled back whole and each of its callers is told.

use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{Appended, Committed, Event, JournalError, NewEvent};

/// The most appends in one transaction.
const GROUP_MAX: usize = 512;

/// One caller's events and where its answer goes.
pub(super) struct Append {
    pub events: Vec<NewEvent>,
    pub done: oneshot::Sender<Result<Vec<Appended>, JournalError>>,
}

/// Runs until it is told to close, or every sender is gone; what was queued before is still written.
pub(super) async fn run(
    options: SqliteConnectOptions,
    connection: SqliteConnection,
    mut appends: mpsc::Receiver<Append>,
    committed: mpsc::Sender<Committed>,
    closing: CancellationToken,
) {
    let mut group = Vec::with_capacity(GROUP_MAX);
    let mut connection = Some(connection);
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
        let at_ms = now_ms();
        let written = write_or_reconnect(&options, &mut connection, &group, at_ms).await;
        for (index, append) in group.drain(..).enumerate() {
            let answer = match &written {
                Ok(results) => Ok(results[index].clone()),
                Err(error) => Err(error.clone()),
            };
            if let Ok(results) = &answer {
                hand_on(append.events, results, at_ms, &committed).await;
            }
            // A caller that gave up still has its events stored; there is nobody to tell.
            let _ = append.done.send(answer);
        }
    }
    if let Some(open) = connection
        && let Err(error) = open.close().await
    {
        tracing::warn!(%error, "the journal did not close cleanly");
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
        for new in &append.events {
            let result = insert(&mut transaction, new, at_ms).await?;
            let stop = result == Appended::Duplicate;
            appended.push(result);
            if stop {
                // The events of one append are one unit: what follows a duplicate is a duplicate too.
                appended.resize(append.events.len(), Appended::Duplicate);
                break;
            }
        }
        results.push(appended);
    }
    transaction.commit().await?;
    Ok(results)
}

async fn insert(connection: &mut SqliteConnection, new: &NewEvent, at_ms: i64) -> Result<Appended, JournalError> {
    let once = new.once();
    if let Some(lesson) = new.teaches()
        && let Some(seq) = try_insert(connection, new, at_ms, once.as_deref(), Some(&lesson)).await?
    {
        return Ok(Appended::Stored { seq, learns: true });
    }
    Ok(match try_insert(connection, new, at_ms, once.as_deref(), None).await? {
        Some(seq) => Appended::Stored { seq, learns: false },
        None => Appended::Duplicate,
    })
}

/// The new event's sequence number, or nothing when `once` or `learns` was taken.
async fn try_insert(
    connection: &mut SqliteConnection,
    new: &NewEvent,
    at_ms: i64,
    once: Option<&str>,
    learns: Option<&[u8]>,
) -> Result<Option<i64>, JournalError> {
    let body = serde_json::to_string(&new.event).map_err(|error| JournalError::Other(error.to_string()))?;
    let id = new.event.decision_id();
    let embedding = match &new.event {
        Event::Decided { .. } => new.decided.as_ref().map(|decided| decided.context.embedding.to_bytes()),
        Event::Ran { .. }
        | Event::Judged { .. }
        | Event::MemoryRestored { .. }
        | Event::PolicyChanged { .. }
        | Event::VerifierChanged { .. }
        | Event::ArmChanged { .. } => None,
    };
    let result = sqlx::query(
        "INSERT INTO events(at_ms, decision_id, once, learns, body, embedding) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT DO NOTHING",
    )
    .bind(at_ms)
    .bind(id.as_ref().map_or(&[][..], |id| id.as_bytes().as_slice()))
    .bind(once)
    .bind(learns)
    .bind(body)
    .bind(embedding)
    .execute(connection)
    .await?;
    Ok((result.rows_affected() == 1).then(|| result.last_insert_rowid()))
}

/// The journal's clock: milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
