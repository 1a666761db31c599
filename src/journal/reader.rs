//! Reading the journal.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use sqlx::{
    AssertSqlSafe, Connection, Row, SqlitePool,
    sqlite::{SqlitePoolOptions, SqliteRow},
};

use super::{
    ArmChange, Base, Decided, Event, JournalError, PolicyChange, Restored, Stored,
    append::{ARM, KEY, POLICY, RESTORED, VERIFIER, by_failed, by_feedback_key, by_task_key},
    decided::FIRST_MODEL,
    event::{ABANDONED, JUDGED, RAN},
    pack::{self, Columns},
    schema,
};
use crate::round::{
    ArmId, DecisionId, Domain, Embedding, IdempotencyKey, KeyChange, KeyId, Task, TenantId, VerifierChange,
    VerifierName,
};

/// Events with the embedding of the journal's model, if there is one.
const SELECT: &str = "SELECT events.*, reembedded.embedding AS embedded_again FROM events
    LEFT JOIN reembedded ON reembedded.seq = events.seq AND reembedded.model = ?";

/// The tasks without an embedding of a model; bound are that model, [`FIRST_MODEL`] and that model again.
const UNEMBEDDED: &str = "FROM events LEFT JOIN reembedded ON reembedded.seq = events.seq AND reembedded.model = ?
    WHERE events.embedding IS NOT NULL AND reembedded.seq IS NULL
    AND coalesce(events.model, json_extract(nullif(body, ''), '$.context.embedding_model'), ?) <> ?";

/// Lessons of the verified channel: a decision's id and no more.
const VERIFIED: &str = "count(*) FROM events WHERE learns IS NOT NULL AND length(learns) = 16";

/// Reads a journal, beside the daemon that writes it or without one.
#[derive(Debug, Clone)]
pub struct JournalReader {
    pool: SqlitePool,
    path: PathBuf,
    embedding_model: String,
}

/// A decision that nobody has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// The place of its decided task.
    pub seq: i64,
    /// The decision.
    pub decision_id: DecisionId,
}

impl JournalReader {
    /// Opens a journal to read the embeddings of a model. One of an older format is brought up to this one first.
    pub async fn open(path: &Path, embedding_model: &str) -> Result<Self, JournalError> {
        let (connection, _) = schema::readable(path).await?;
        connection.close().await?;
        Self::over(path, embedding_model).await
    }

    /// Opens a journal to read the embeddings of the model that embedded its last task.
    pub async fn open_recorded(path: &Path) -> Result<Self, JournalError> {
        let mut reader = Self::open(path, FIRST_MODEL).await?;
        let sql = "SELECT coalesce(model, json_extract(nullif(body, ''), '$.context.embedding_model')) FROM events
                   WHERE embedding IS NOT NULL ORDER BY seq DESC LIMIT 1";
        let last: Option<Option<String>> = sqlx::query_scalar(sql).fetch_optional(&reader.pool).await?;
        if let Some(model) = last.flatten() {
            reader.embedding_model = model;
        }
        Ok(reader)
    }

    /// Reads a file of this format.
    pub(super) async fn over(path: &Path, embedding_model: &str) -> Result<Self, JournalError> {
        let pool = SqlitePoolOptions::new().max_connections(2).connect_with(schema::reading(path)).await;
        let pool = pool.map_err(JournalError::opening(path))?;
        Ok(Self { pool, path: path.into(), embedding_model: embedding_model.into() })
    }

    /// The model whose embeddings are read.
    pub fn embedding_model(&self) -> &str {
        &self.embedding_model
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends reading.
    pub async fn close_reader(&self) {
        self.pool.close().await;
    }

    /// The events after `after_seq`, oldest first, at most `limit`.
    pub async fn after(&self, after_seq: i64, limit: i64) -> Result<Vec<Stored>, JournalError> {
        self.select("WHERE events.seq > ? ORDER BY events.seq LIMIT ?", after_seq, limit).await
    }

    /// The same without outcomes, of which nothing is learnt: what they cost is in the feedback.
    pub async fn lessons_after(&self, after_seq: i64, limit: i64) -> Result<Vec<Stored>, JournalError> {
        let sql = format!("WHERE events.seq > ? AND kind IS NOT '{RAN}' ORDER BY events.seq LIMIT ?");
        self.select(&sql, after_seq, limit).await
    }

    /// What was said of decisions after one place and up to another (their outcomes judged, or the decisions abandoned), oldest
    /// first, at most `limit`.
    pub async fn said_after(&self, after: i64, until: i64, limit: i64) -> Result<Vec<Stored>, JournalError> {
        let sql = format!(
            "{SELECT} WHERE events.seq > ? AND events.seq <= ? AND kind IN ('{JUDGED}', '{ABANDONED}') ORDER BY events.seq LIMIT ?"
        );
        let query = sqlx::query(AssertSqlSafe(sql)).bind(&self.embedding_model);
        let rows = query.bind(after).bind(until).bind(limit).fetch_all(&self.pool).await?;
        rows.iter().map(|row| self.read(row)).collect()
    }

    /// How many places between two are empty because compaction took their records out.
    pub async fn missing(&self, after: i64, until: i64) -> Result<u64, JournalError> {
        let query = sqlx::query_scalar("SELECT count(*) FROM events WHERE seq > ? AND seq <= ?");
        let there: i64 = query.bind(after).bind(until).fetch_one(&self.pool).await?;
        Ok((until - after - there).max(0).unsigned_abs())
    }

    async fn select(&self, condition: &str, after_seq: i64, limit: i64) -> Result<Vec<Stored>, JournalError> {
        let query = sqlx::query(AssertSqlSafe(format!("{SELECT} {condition}"))).bind(&self.embedding_model);
        let rows = query.bind(after_seq).bind(limit).fetch_all(&self.pool).await?;
        rows.iter().map(|row| self.read(row)).collect()
    }

    /// One event.
    pub async fn at(&self, seq: i64) -> Result<Option<Stored>, JournalError> {
        let stored = self.after(seq - 1, 1).await?.pop();
        Ok(stored.filter(|stored| stored.seq == seq))
    }

    /// All events of one decision, oldest first.
    pub async fn of_decision(&self, id: DecisionId) -> Result<Vec<Stored>, JournalError> {
        let rows = sqlx::query(AssertSqlSafe(format!("{SELECT} WHERE decision_id = ? ORDER BY events.seq")))
            .bind(&self.embedding_model)
            .bind(id.as_bytes().as_slice())
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| self.read(row)).collect()
    }

    /// The decided task of a decision, if there is such a decision.
    pub async fn decided(&self, id: DecisionId) -> Result<Option<Decided>, JournalError> {
        let sql = format!("{SELECT} WHERE decision_id = ? AND events.embedding IS NOT NULL LIMIT 1");
        let query = sqlx::query(AssertSqlSafe(sql)).bind(&self.embedding_model).bind(id.as_bytes().as_slice());
        let row = query.fetch_optional(&self.pool).await?;
        Ok(row.map(|row| self.read(&row)).transpose()?.and_then(Stored::into_decided))
    }

    /// The newest decided task.
    pub async fn last_decided(&self) -> Result<Option<Stored>, JournalError> {
        let row = sqlx::query(AssertSqlSafe(format!(
            "{SELECT} WHERE events.embedding IS NOT NULL ORDER BY events.seq DESC LIMIT 1"
        )))
        .bind(&self.embedding_model)
        .fetch_optional(&self.pool)
        .await?;
        row.map(|row| self.read(&row)).transpose()
    }

    /// The decision that a tenant's task with this idempotency key led to.
    pub async fn by_idempotency_key(
        &self,
        tenant: Option<&TenantId>,
        key: &IdempotencyKey,
    ) -> Result<Option<DecisionId>, JournalError> {
        self.by_once(by_task_key(tenant, key)).await
    }

    /// The decision that took the place of one that failed.
    pub async fn instead_of(&self, id: DecisionId) -> Result<Option<DecisionId>, JournalError> {
        self.by_once(by_failed(id)).await
    }

    async fn by_once(&self, key: String) -> Result<Option<DecisionId>, JournalError> {
        let found: Option<Vec<u8>> = sqlx::query_scalar("SELECT decision_id FROM events WHERE once = ?")
            .bind(key)
            .fetch_optional(&self.pool)
            .await?;
        found
            .map(|bytes| DecisionId::from_bytes(&bytes).map_err(|error| JournalError::Other(error.to_string())))
            .transpose()
    }

    /// The feedback that came under this idempotency key.
    pub async fn feedback_by_key(
        &self,
        tenant: Option<&TenantId>,
        key: &IdempotencyKey,
    ) -> Result<Option<Stored>, JournalError> {
        let sql = format!("{SELECT} WHERE once = ?");
        let query = sqlx::query(AssertSqlSafe(sql)).bind(&self.embedding_model).bind(by_feedback_key(tenant, key));
        query.fetch_optional(&self.pool).await?.map(|row| self.read(&row)).transpose()
    }

    /// Decisions between two places that have no outcome, no feedback and were not abandoned, oldest first.
    pub async fn open_decisions(&self, after: i64, until: i64, limit: i64) -> Result<Vec<Open>, JournalError> {
        // The embedding tells a decided task also where the kind was not a column yet.
        let sql = "SELECT seq, decision_id FROM events
                   WHERE seq > ? AND seq <= ? AND embedding IS NOT NULL AND NOT EXISTS (SELECT 1 FROM events AS later
                       WHERE later.decision_id = events.decision_id AND later.seq > events.seq
                       AND later.kind IS NOT 'early')
                   ORDER BY seq LIMIT ?";
        let rows = sqlx::query(sql).bind(after).bind(until).bind(limit).fetch_all(&self.pool).await?;
        let read = |row: &SqliteRow| {
            let seq: i64 = row.try_get("seq")?;
            let decision_id = DecisionId::from_bytes(row.try_get("decision_id")?)
                .map_err(|error| JournalError::Damaged { seq, reason: error.to_string() })?;
            Ok(Open { seq, decision_id })
        };
        rows.iter().map(read).collect()
    }

    /// Decisions that ran after a place and of which nobody said what the answer is worth, oldest first.
    pub async fn unjudged(&self, after: i64) -> Result<Vec<DecisionId>, JournalError> {
        let sql = "SELECT seq, decision_id FROM events WHERE seq > ? AND kind = 'ran' AND NOT EXISTS (SELECT 1 FROM events AS later
                       WHERE later.decision_id = events.decision_id AND later.kind = 'judged')
                   ORDER BY seq";
        let rows = sqlx::query(sql).bind(after).fetch_all(&self.pool).await?;
        let read = |row: &SqliteRow| {
            let seq: i64 = row.try_get("seq")?;
            DecisionId::from_bytes(row.try_get("decision_id")?)
                .map_err(|error| JournalError::Damaged { seq, reason: error.to_string() })
        };
        rows.iter().map(read).collect()
    }

    /// The place of the last event that was appended before a time, in milliseconds since 1970; 0 when there is none. Times
    /// never go back along the journal, so it is found by halving.
    pub async fn last_before(&self, time_ms: i64) -> Result<i64, JournalError> {
        let (mut before, mut after) = (0, self.last_seq().await? + 1);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            let next: Option<(i64, i64)> =
                sqlx::query_as("SELECT seq, at_ms FROM events WHERE seq >= ? ORDER BY seq LIMIT 1")
                    .bind(middle)
                    .fetch_optional(&self.pool)
                    .await?;
            match next {
                Some((seq, at_ms)) if at_ms < time_ms && seq < after => before = seq,
                Some(_) | None => after = middle,
            }
        }
        Ok(before)
    }

    /// How many decisions were learnt from by verified feedback, after one place.
    pub async fn verified_after(&self, seq: i64) -> Result<u64, JournalError> {
        let sql = format!("SELECT {VERIFIED} AND seq > ?");
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).bind(seq).fetch_one(&self.pool).await?;
        Ok(count.unsigned_abs())
    }

    /// The first of the last `n` decisions that were learnt from by verified feedback, up to a place, and how many there are.
    pub async fn verified_back(&self, at: i64, n: u64) -> Result<(i64, u64), JournalError> {
        let sql = "SELECT coalesce(min(seq), 0), count(*) FROM (SELECT seq FROM events
                   WHERE learns IS NOT NULL AND length(learns) = 16 AND seq <= ? ORDER BY seq DESC LIMIT ?)";
        let limit = i64::try_from(n).unwrap_or(i64::MAX);
        let row = sqlx::query(sql).bind(at).bind(limit).fetch_one(&self.pool).await?;
        Ok((row.try_get(0)?, row.try_get::<i64, _>(1)?.unsigned_abs()))
    }

    /// The last restoration of memory and its place in the journal.
    pub async fn last_restored(&self) -> Result<Option<(i64, Restored)>, JournalError> {
        let last = self.named(RESTORED).await?.pop();
        Ok(last.and_then(|stored| match stored.event {
            Event::MemoryRestored { restored } => Some((stored.seq, restored)),
            _ => None,
        }))
    }

    /// All changes of policies with their places, oldest first.
    pub async fn policy_changes(&self) -> Result<Vec<(i64, PolicyChange)>, JournalError> {
        let changes = self.named(POLICY).await?.into_iter();
        Ok(changes
            .filter_map(|stored| match stored.event {
                Event::PolicyChanged { change } => Some((stored.seq, change)),
                _ => None,
            })
            .collect())
    }

    /// All changes of arms, oldest first.
    pub async fn arm_changes(&self) -> Result<Vec<(ArmId, ArmChange)>, JournalError> {
        let changes = self.named(ARM).await?.into_iter();
        Ok(changes
            .filter_map(|stored| match stored.event {
                Event::ArmChanged { arm, change } => Some((arm, change)),
                _ => None,
            })
            .collect())
    }

    /// All changes of verifiers, oldest first.
    pub async fn verifier_changes(&self) -> Result<Vec<(Option<Domain>, VerifierName, VerifierChange)>, JournalError> {
        let changes = self.named(VERIFIER).await?.into_iter();
        Ok(changes
            .filter_map(|stored| match stored.event {
                Event::VerifierChanged { domain, verifier, change } => Some((domain, verifier, change)),
                _ => None,
            })
            .collect())
    }

    /// All changes of API keys, oldest first.
    pub async fn key_changes(&self) -> Result<Vec<(KeyId, KeyChange)>, JournalError> {
        let changes = self.named(KEY).await?.into_iter();
        Ok(changes
            .filter_map(|stored| match stored.event {
                Event::KeyChanged { key, change } => Some((key, change)),
                _ => None,
            })
            .collect())
    }

    /// The events whose `once` key starts with a prefix that ends with a colon, oldest first.
    async fn named(&self, prefix: &str) -> Result<Vec<Stored>, JournalError> {
        let sql = format!("{SELECT} WHERE once >= ? AND once < ? ORDER BY events.seq");
        let query = sqlx::query(AssertSqlSafe(sql)).bind(&self.embedding_model).bind(prefix);
        let rows = query.bind(prefix.replace(':', ";")).fetch_all(&self.pool).await?;
        rows.iter().map(|row| self.read(row)).collect()
    }

    /// The place of the last event; 0 when there is none.
    pub async fn last_seq(&self) -> Result<i64, JournalError> {
        schema::last_place(&self.pool).await
    }

    /// What was learnt from records that compaction has taken out.
    pub async fn base(&self) -> Result<Option<Base>, JournalError> {
        Base::read(&mut *self.pool.acquire().await?).await
    }

    /// The key of the hashes that stand for texts that are not kept.
    pub async fn secret(&self) -> Result<[u8; 32], JournalError> {
        schema::secret(&self.pool).await
    }

    /// How many tasks have no embedding of the journal's model yet.
    pub async fn unembedded(&self) -> Result<u64, JournalError> {
        let sql = format!("SELECT count(*) {UNEMBEDDED}");
        let query = sqlx::query_scalar::<_, i64>(AssertSqlSafe(sql));
        let query = query.bind(&self.embedding_model).bind(FIRST_MODEL).bind(&self.embedding_model);
        Ok(query.fetch_one(&self.pool).await?.unsigned_abs())
    }

    /// The first of them, at most `limit`, with their places in the journal.
    pub async fn first_unembedded(&self, limit: i64) -> Result<Vec<(i64, Task)>, JournalError> {
        let sql = format!("SELECT events.* {UNEMBEDDED} ORDER BY events.seq LIMIT ?");
        let query = sqlx::query(AssertSqlSafe(sql)).bind(&self.embedding_model).bind(FIRST_MODEL);
        let query = query.bind(&self.embedding_model);
        let rows = query.bind(limit).fetch_all(&self.pool).await?;
        rows.iter()
            .map(|row| match event_of(row)? {
                (seq, Event::Decided { task, .. }) => Ok((seq, task)),
                (seq, _) => Err(JournalError::Damaged { seq, reason: "it has an embedding but no task".into() }),
            })
            .collect()
    }

    fn read(&self, row: &SqliteRow) -> Result<Stored, JournalError> {
        let (seq, event) = event_of(row)?;
        let damaged = |reason: String| JournalError::Damaged { seq, reason };
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
}

/// The event of a row and its place, its checksum compared.
pub(super) fn event_of(row: &SqliteRow) -> Result<(i64, Event), JournalError> {
    let (seq, json) = json_of(row)?;
    let event = serde_json::from_slice(&json);
    Ok((seq, event.map_err(|error| JournalError::Damaged { seq, reason: error.to_string() })?))
}

/// The same as the JSON that is stored.
pub(super) fn json_of(row: &SqliteRow) -> Result<(i64, Cow<'_, [u8]>), JournalError> {
    let seq: i64 = row.try_get("seq")?;
    let damaged = |reason: String| JournalError::Damaged { seq, reason };
    let Some(columns) = Columns::of(row)? else {
        return Ok((seq, row.try_get::<&str, _>("body")?.as_bytes().into()));
    };
    if row.try_get::<Option<i64>, _>("sum")? != Some(columns.sum()) {
        return Err(damaged("its checksum is wrong".into()));
    }
    Ok((seq, pack::unpack(columns.packed).map_err(|error| damaged(error.to_string()))?.into()))
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
