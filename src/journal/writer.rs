//! The one writer: takes what is waiting, writes it in one transaction, acknowledges after the commit.
//!
//! While one group is being flushed the next one gathers, so the flush is shared by all who wait and throughput
//! grows with load. A group that fails is rolled back whole and each of its callers is told.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, QueryBuilder, Sqlite, SqliteConnection, query_builder::Separated,
    sqlite::SqliteConnectOptions,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Appended, Committed, Event, JournalError, NewEvent,
    pack::{self, Columns},
};

/// The most appends in one transaction.
const GROUP_MAX: usize = 512;
/// A clock that goes back by more than this is worth a word, in milliseconds.
const STEP_MS: i64 = 1_000;
/// How long after a write the write-ahead log is moved into the file.
const SETTLE_EVERY: Duration = Duration::from_millis(500);
/// How long closing waits for another program that reads, in milliseconds.
const SETTLE_MS: u32 = 1_000;

/// Rows of one statement.
const CHUNKS: [usize; 4] = [64, 16, 4, 1];
/// The most rows that are written by a statement alone; each number of them is a statement of its own.
const ALONE_MAX: usize = 8;
const INSERT: &str = "INSERT INTO events(at_ms, decision_id, once, learns, body, embedding, kind, model, packed, sum) ";

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
}

impl Row {
    pub fn of(new: &NewEvent) -> Result<Self, JournalError> {
        let packed = pack::pack_event(&new.event)?;
        let (model, embedding) = new.embedded().unzip();
        Ok(Self::packed(&new.event, packed, new.once(), new.teaches(), model, embedding))
    }

    /// A packed event with its keys.
    pub fn packed(
        event: &Event,
        packed: Vec<u8>,
        once: Option<String>,
        lesson: Option<Vec<u8>>,
        model: Option<String>,
        embedding: Option<Vec<u8>>,
    ) -> Self {
        let decision_id = event.decision_id().map(|id| id.as_bytes().to_vec()).unwrap_or_default();
        Self { decision_id, once, lesson, kind: event.kind(), model, packed, embedding }
    }

    /// The checksum, with the time and with what is learnt from it.
    pub fn sum(&self, at_ms: i64, learns: Option<&[u8]>) -> i64 {
        let columns = Columns {
            at_ms,
            decision_id: &self.decision_id,
            once: self.once.as_deref(),
            learns,
            kind: Some(self.kind),
            model: self.model.as_deref(),
            packed: &self.packed,
            embedding: self.embedding.as_deref(),
        };
        columns.sum()
    }

    fn bind<'a>(&'a self, values: &mut Separated<'_, Sqlite, &'static str>, at_ms: i64, learns: Option<&'a [u8]>) {
        values
            .push_bind(at_ms)
            .push_bind(self.decision_id.clone())
            .push_bind(self.once.clone())
            .push_bind(learns.map(<[u8]>::to_vec))
            .push("''")
            .push_bind(self.embedding.clone())
            .push_bind(self.kind)
            .push_bind(self.model.clone())
            .push_bind(self.packed.clone())
            .push_bind(self.sum(at_ms, learns));
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
    /// Tells who follows the journal how far it is.
    last_seq: watch::Sender<i64>,
}

impl Writer {
    pub fn new(
        options: SqliteConnectOptions,
        connection: SqliteConnection,
        last_ms: i64,
        committed: mpsc::Sender<Committed>,
        last_seq: watch::Sender<i64>,
    ) -> Self {
        Self { options, connection: Some(connection), last_ms, stepped_back: false, committed, last_seq }
    }

    /// Runs until it is told to close, or every sender is gone; what was queued before is still written. Then waits until
    /// nobody reads, and closes the file.
    pub async fn run(
        mut self,
        mut appends: mpsc::Receiver<Append>,
        closing: CancellationToken,
        nobody_reads: oneshot::Receiver<()>,
    ) {
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
            if let Some(last) = written.ok().and_then(|results| last_stored(&results)) {
                self.last_seq.send_replace(last);
            }
        }
        let Self { options, connection, committed, .. } = self;
        // The learner, who reads, ends once it has learnt the last of them.
        drop(committed);
        let _ = nobody_reads.await;
        if let Err(error) = settle_and_close(&options, connection).await {
            tracing::warn!(%error, "the journal did not close cleanly; what was acknowledged is in it and in its write-ahead log");
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

/// Moves what was committed from the write-ahead log into the file while the writer goes on, which else does it itself and lets
/// everybody wait for the disk meanwhile. Ends when the journal closes.
pub(super) async fn settle(
    options: SqliteConnectOptions,
    mut last_seq: watch::Receiver<i64>,
    closing: CancellationToken,
) {
    let mut connection = None;
    let mut next = async || {
        let wrote = last_seq.changed().await.is_ok();
        tokio::time::sleep(SETTLE_EVERY).await;
        wrote
    };
    while closing.run_until_cancelled(next()).await == Some(true) {
        let settled = async {
            let mut open = match connection.take() {
                Some(open) => open,
                None => options.connect().await?,
            };
            sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut open).await?;
            connection = Some(open);
            Ok::<_, sqlx::Error>(())
        };
        if let Err(error) = settled.await {
            // The writer does it in the end, and says what is wrong with the disk.
            tracing::debug!(%error, "the journal's write-ahead log was not moved into its file");
        }
    }
    if let Some(open) = connection {
        let _ = open.close().await;
    }
}

/// Moves what is in the write-ahead log into the file, so that the file alone is the journal, and closes it.
async fn settle_and_close(
    options: &SqliteConnectOptions,
    connection: Option<SqliteConnection>,
) -> Result<(), JournalError> {
    let mut open = match connection {
        Some(open) => open,
        None => options.connect().await?,
    };
    // Closing does this as well, but not while another program has the file open.
    sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA busy_timeout = {SETTLE_MS}"))).execute(&mut open).await?;
    let is_read: bool = sqlx::query_scalar("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut open).await?;
    if is_read {
        tracing::warn!("another program reads the journal, so its write-ahead log stays: copy both files or none");
    }
    Ok(open.close().await?)
}

/// The place of the last event of a group that was not there before.
fn last_stored(results: &[Vec<Appended>]) -> Option<i64> {
    results.iter().flatten().rev().find_map(|result| match result {
        Appended::Stored { seq, .. } => Some(*seq),
        Appended::Duplicate => None,
    })
}

async fn hand_on(events: Vec<NewEvent>, results: &[Appended], at_ms: i64, committed: &mpsc::Sender<Committed>) {
    for (new, result) in events.into_iter().zip(results) {
        if let Appended::Stored { seq, learns } = *result {
            // The learner stops only after the journal, so a closed channel means that nobody learns any more.
            let _ = committed.send(Committed { seq, at_ms, learns, new }).await;
        }
    }
}

/// Writes a group as one unit: in few statements, as long as nothing in it was there before, which is the rule.
async fn write(
    connection: &mut SqliteConnection,
    group: &[Append],
    at_ms: i64,
) -> Result<Vec<Vec<Appended>>, JournalError> {
    let rows: Vec<&Row> = group.iter().flat_map(|append| &append.rows).collect();
    if let Some(seqs) = insert_all(connection, &rows, at_ms).await? {
        let mut seqs = seqs.into_iter();
        let stored = |(row, seq): (&Row, i64)| Appended::Stored { seq, learns: row.lesson.is_some() };
        return Ok(group.iter().map(|append| append.rows.iter().zip(&mut seqs).map(stored).collect()).collect());
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut results = Vec::with_capacity(group.len());
    for append in group {
        results.push(insert_unit(&mut transaction, append, at_ms).await?);
    }
    transaction.commit().await?;
    Ok(results)
}

/// Inserts rows many at a time; nothing when one of them was there before, and then none is inserted.
async fn insert_all(
    connection: &mut SqliteConnection,
    rows: &[&Row],
    at_ms: i64,
) -> Result<Option<Vec<i64>>, JournalError> {
    // A statement is a unit by itself: the few rows of a moment of little load need no transaction around it.
    if rows.len() <= ALONE_MAX {
        return insert_chunk(connection, rows, at_ms).await;
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut seqs = Vec::with_capacity(rows.len());
    let mut rest = rows;
    while !rest.is_empty() {
        // Statements of few sizes, so that each is prepared once.
        let size = CHUNKS.into_iter().find(|size| *size <= rest.len()).unwrap_or(1);
        let (chunk, after) = rest.split_at(size);
        rest = after;
        let Some(inserted) = insert_chunk(&mut transaction, chunk, at_ms).await? else {
            transaction.rollback().await?;
            return Ok(None);
        };
        seqs.extend(inserted);
    }
    transaction.commit().await?;
    Ok(Some(seqs))
}

/// Inserts rows by one statement, all or, when one of them was there before, none.
async fn insert_chunk(
    connection: &mut SqliteConnection,
    rows: &[&Row],
    at_ms: i64,
) -> Result<Option<Vec<i64>>, JournalError> {
    if rows.is_empty() {
        return Ok(Some(vec![]));
    }
    let mut query = QueryBuilder::new(INSERT);
    query.push_values(rows, |mut values, row| row.bind(&mut values, at_ms, row.lesson.as_deref()));
    // Not `RETURNING`: each row that comes back wakes this task once more.
    match query.build().execute(connection).await {
        Ok(done) => {
            // A statement has the file to itself, so the places of its rows follow each other.
            let last = done.last_insert_rowid();
            Ok(Some((last - done.rows_affected().cast_signed() + 1..=last).collect()))
        }
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Inserts the events of one append, which are one unit that its first stands for.
async fn insert_unit(
    connection: &mut SqliteConnection,
    append: &Append,
    at_ms: i64,
) -> Result<Vec<Appended>, JournalError> {
    let mut appended = Vec::with_capacity(append.rows.len());
    for (place, row) in append.rows.iter().enumerate() {
        let result = insert(connection, row, at_ms).await?;
        appended.push(result);
        if place == 0 && result == Appended::Duplicate {
            appended.resize(append.rows.len(), Appended::Duplicate);
            break;
        }
    }
    Ok(appended)
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
    let mut query = QueryBuilder::new(INSERT);
    query.push_values([row], |mut values, row| row.bind(&mut values, at_ms, learns));
    query.push(" ON CONFLICT DO NOTHING RETURNING seq");
    Ok(query.build_query_scalar().fetch_optional(connection).await?)
}

/// The journal's clock: milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
