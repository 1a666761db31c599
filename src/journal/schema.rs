//! The SQLite file: its tables, and how files of older formats become files of this one.
//!
//! A journal of any age stays readable for ever: records are never rewritten when the format changes, only columns are
//! added. Those of formats 1 to 4 keep their JSON in `body`; later ones have it packed, with a checksum, and `body` is empty.

use std::{path::Path, time::Duration};

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, SqliteConnection, SqliteExecutor,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous},
};

use super::{JournalError, Synchronous};

/// The newest format that this version reads and the one that it writes.
pub(super) const FORMAT: i64 = 5;

/// How long to wait for another connection's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a page. A round is two to four kilobytes: twice SQLite's own page size wastes the least at their ends.
const PAGE_BYTES: u32 = 8_192;
/// Pages of the write-ahead log, 64 MiB, from which on the writer itself moves them into the file.
const WAL_PAGES_MAX: &str = "8192";

/// Rows read at a time by whoever reads all of them.
const PAGE: i64 = 1_000;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS events(
    seq         INTEGER PRIMARY KEY,
    at_ms       INTEGER NOT NULL,
    decision_id BLOB NOT NULL,
    once        TEXT UNIQUE,
    learns      BLOB UNIQUE,
    body        TEXT NOT NULL,
    embedding   BLOB,
    kind        TEXT,
    model       TEXT,
    packed      BLOB,
    sum         INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS events_by_decision ON events(decision_id);
CREATE TABLE IF NOT EXISTS reembedded(
    seq         INTEGER NOT NULL,
    model       TEXT NOT NULL,
    embedding   BLOB NOT NULL,
    PRIMARY KEY (seq, model)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS base(
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    seq         INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    state       BLOB NOT NULL,
    sum         INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS secret(
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    key         BLOB NOT NULL
) STRICT;
";

/// What format 5 added to `events`.
const ADDED: [&str; 4] = ["kind TEXT", "model TEXT", "packed BLOB", "sum INTEGER"];

/// How connections to a file are opened.
pub(super) fn options(path: &Path, synchronous: Synchronous) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .page_size(PAGE_BYTES)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(BUSY_TIMEOUT)
        // Beside the writer it is done all the time; the writer itself does it only where that is not enough.
        .pragma("wal_autocheckpoint", WAL_PAGES_MAX)
        .synchronous(match synchronous {
            Synchronous::Full => SqliteSynchronous::Full,
            Synchronous::Normal => SqliteSynchronous::Normal,
        })
}

/// How connections that only read are opened.
pub(super) fn reading(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(path).busy_timeout(BUSY_TIMEOUT).read_only(true)
}

/// Opens a file to read, and tells which format it had. One of an older format is brought up to this one first.
pub(super) async fn readable(path: &Path) -> Result<(SqliteConnection, i64), JournalError> {
    let unreadable = JournalError::opening(path);
    let mut connection = reading(path).connect().await.map_err(unreadable)?;
    let found = format(&mut connection).await.map_err(unreadable)?;
    if found == FORMAT {
        return Ok((connection, found));
    }
    connection.close().await.map_err(unreadable)?;
    let mut connection =
        options(path, Synchronous::Full).create_if_missing(false).connect().await.map_err(unreadable)?;
    prepare(&mut connection, path).await?;
    Ok((connection, found))
}

/// The next rows after a place, all columns; none at the end.
pub(super) async fn rows_after(connection: &mut SqliteConnection, seq: i64) -> Result<Vec<SqliteRow>, JournalError> {
    let sql = "SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT ?";
    Ok(sqlx::query(sql).bind(seq).bind(PAGE).fetch_all(connection).await?)
}

/// The place of the last event; 0 when there is none.
pub(super) async fn last_place<'e>(on: impl SqliteExecutor<'e>) -> Result<i64, JournalError> {
    Ok(sqlx::query_scalar("SELECT coalesce(max(seq), 0) FROM events").fetch_one(on).await?)
}

/// The key of the hashes that stand for texts.
pub(super) async fn secret<'e>(on: impl SqliteExecutor<'e>) -> Result<[u8; 32], JournalError> {
    let key: Vec<u8> = sqlx::query_scalar("SELECT key FROM secret").fetch_one(on).await?;
    key.try_into().map_err(|_| JournalError::Corrupt("the key of hashes is not of 32 bytes".into()))
}

/// The format of the file; 0 of a new one.
pub(super) async fn format(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("PRAGMA user_version").fetch_one(connection).await
}

/// Makes the file one of this format, in one transaction. One of a newer format is left alone.
pub(super) async fn prepare(connection: &mut SqliteConnection, path: &Path) -> Result<(), JournalError> {
    let failed = |error: sqlx::Error| match JournalError::from(error) {
        JournalError::Other(reason) => JournalError::Open { path: path.to_path_buf(), reason },
        named => named,
    };
    let found = format(connection).await.map_err(failed)?;
    if found > FORMAT {
        return Err(JournalError::Newer { path: path.to_path_buf(), found, known: FORMAT });
    }
    if found < FORMAT {
        bring_up(connection, found).await.map_err(failed)?;
    }
    Ok(())
}

async fn bring_up(connection: &mut SqliteConnection, found: i64) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    if found > 0 {
        for column in ADDED {
            let sql = format!("ALTER TABLE events ADD COLUMN {column}");
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *transaction).await?;
        }
    }
    sqlx::raw_sql(SCHEMA).execute(&mut *transaction).await?;
    sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA user_version = {FORMAT}"))).execute(&mut *transaction).await?;
    sqlx::query("INSERT OR IGNORE INTO secret(id, key) VALUES (1, randomblob(32))").execute(&mut *transaction).await?;
    transaction.commit().await
}
