//! Compaction: records of old rounds are taken out, and what was learnt from them is kept as one state, the base.
//!
//! A round goes when all that happened to its decision is older than the base and it waits for nothing any more. What says
//! how the router was set up (policies, arms, verifiers, restorations) stays for ever: it is small, and later records mean
//! nothing without it. The base and the rounds change places in one transaction, so a crash leaves the one or the other.

use std::path::Path;

use sqlx::{ConnectOptions, Connection, Row as _, SqliteConnection};

use super::{
    Base, Compacted, Event, JournalError, NewEvent, Synchronous, pack, schema,
    writer::{Row, insert, now_ms},
};

/// Rounds of which nothing happened after a place, and which are closed; bound is that place. The embedding tells a
/// decided task also where the kind was not a column yet.
const OLD: &str = "seq <= ?1 AND length(decision_id) > 0
    AND decision_id NOT IN (SELECT decision_id FROM events WHERE seq > ?1 AND length(decision_id) > 0)
    AND decision_id IN (SELECT decision_id FROM events WHERE embedding IS NULL AND kind IS NOT 'early')";

/// How large a journal's file is, and was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shrunk {
    /// Bytes before.
    pub before: u64,
    /// Bytes after.
    pub after: u64,
}

/// How many records compaction up to a place would take out.
pub async fn compactable(path: &Path, up_to: i64) -> Result<u64, JournalError> {
    let (mut connection, _) = schema::readable(path).await?;
    let records = old(&mut connection, up_to).await?;
    connection.close().await?;
    Ok(records)
}

/// Takes the rounds before a base out, in a journal that no daemon has open; durable when it returns. The file keeps its
/// size until it is shrunk.
pub async fn compact(path: &Path, base: &Base) -> Result<Compacted, JournalError> {
    let mut connection = open(path).await?;
    schema::prepare(&mut connection, path).await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let compacted = Compacted { up_to: base.seq, records: old(&mut transaction, base.seq).await? };
    base.write(&mut transaction).await?;
    // First the new record, so that its place is above all that ever were there.
    let last: i64 =
        sqlx::query_scalar("SELECT coalesce(max(at_ms), 0) FROM events").fetch_one(&mut *transaction).await?;
    let record = Row::of(&NewEvent::alone(Event::Compacted { compacted: compacted.clone() }))?;
    insert(&mut transaction, &record, now_ms().max(last)).await?;
    let delete = format!("DELETE FROM events WHERE {OLD}");
    sqlx::query(sqlx::AssertSqlSafe(delete)).bind(base.seq).execute(&mut *transaction).await?;
    let orphans = "DELETE FROM reembedded WHERE seq NOT IN (SELECT seq FROM events)";
    sqlx::query(orphans).execute(&mut *transaction).await?;
    transaction.commit().await?;
    connection.close().await?;
    Ok(compacted)
}

impl Base {
    /// The one of a journal, its checksum compared.
    pub(super) async fn read(connection: &mut SqliteConnection) -> Result<Option<Self>, JournalError> {
        let row = sqlx::query("SELECT seq, at_ms, state, sum FROM base").fetch_optional(connection).await?;
        let Some(row) = row else { return Ok(None) };
        let seq: i64 = row.try_get("seq")?;
        let damaged = |reason: &str| JournalError::Damaged { seq, reason: format!("the compacted state: {reason}") };
        let state: &[u8] = row.try_get("state")?;
        if pack::checksum(&[state]) != row.try_get::<i64, _>("sum")? {
            return Err(damaged("its checksum is wrong"));
        }
        let state = pack::unpack(state).map_err(|error| damaged(&error.to_string()))?;
        let state = String::from_utf8(state).map_err(|error| damaged(&error.to_string()))?;
        Ok(Some(Self { seq, at_ms: row.try_get("at_ms")?, state }))
    }

    /// Stores it in place of the one before.
    pub(super) async fn write(&self, connection: &mut SqliteConnection) -> Result<(), JournalError> {
        let state = pack::pack(self.state.as_bytes()).map_err(|error| JournalError::Other(error.to_string()))?;
        sqlx::query("INSERT OR REPLACE INTO base(id, seq, at_ms, state, sum) VALUES (1, ?, ?, ?, ?)")
            .bind(self.seq)
            .bind(self.at_ms)
            .bind(&state)
            .bind(pack::checksum(&[&state]))
            .execute(connection)
            .await?;
        Ok(())
    }
}

/// Gives the room of what was taken out back to the disk, which needs as much again while it works. Nothing where there is
/// none to give back.
pub async fn shrink(path: &Path) -> Result<Option<Shrunk>, JournalError> {
    let mut connection = open(path).await?;
    let free: i64 = sqlx::query_scalar("PRAGMA freelist_count").fetch_one(&mut connection).await?;
    if free == 0 {
        connection.close().await?;
        return Ok(None);
    }
    let before = bytes(&mut connection).await?;
    sqlx::raw_sql("VACUUM").execute(&mut connection).await?;
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await?;
    let after = bytes(&mut connection).await?;
    connection.close().await?;
    Ok(Some(Shrunk { before, after }))
}

async fn open(path: &Path) -> Result<SqliteConnection, JournalError> {
    let options = schema::options(path, Synchronous::Full).create_if_missing(false);
    options.connect().await.map_err(JournalError::opening(path))
}

async fn old(connection: &mut SqliteConnection, up_to: i64) -> Result<u64, JournalError> {
    let sql = format!("SELECT count(*) FROM events WHERE {OLD}");
    let query = sqlx::query_scalar::<_, i64>(sqlx::AssertSqlSafe(sql)).bind(up_to);
    Ok(query.fetch_one(connection).await?.unsigned_abs())
}

async fn bytes(connection: &mut SqliteConnection) -> Result<u64, JournalError> {
    let sql = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
    Ok(sqlx::query_scalar::<_, i64>(sql).fetch_one(connection).await?.unsigned_abs())
}
