//! Erasing: the texts of a task, or of a tenant's tasks, are taken out of the records; the numbers stay.
//!
//! What was learnt stays as it was, bit for bit: policies are folds over numbers. Of the task's own go its prompt,
//! metadata, answer and verifiers' words, its session, tenant and idempotency keys, and its id wherever other decisions
//! recalled it. Its embedding stays, a number too, although it says something of the text. All records are rewritten in
//! one transaction, and the pages that held them are overwritten.

use std::{collections::HashSet, path::Path};

use sqlx::{ConnectOptions, Connection, Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    Erased, ErasedBy, Event, JournalError, Keeping, NewEvent, Synchronous,
    append::{FEEDBACK, TASK, TENANT_FEEDBACK, TENANT_TASK},
    keeping::forget_trace,
    pack::{self, Columns},
    reader::event_of,
    schema,
    writer::{Row as Record, insert, now_ms},
};
use crate::round::{DecisionId, Kept, TaskId, TenantId};

/// Digits of the hash that takes an id's place.
const DIGITS: usize = 24;

/// Whose texts are erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Erasure {
    /// All decisions of the tasks of this id.
    Task(TaskId),
    /// All tasks of a tenant.
    Tenant(TenantId),
}

/// Erases, in a journal that no daemon has open; durable when it returns. `progress` is told (done, total) places, twice.
pub async fn erase(path: &Path, erasure: &Erasure, progress: impl Fn(u64, u64)) -> Result<Erased, JournalError> {
    let options = schema::options(path, Synchronous::Full).create_if_missing(false).pragma("secure_delete", "ON");
    let mut connection = options.connect().await.map_err(JournalError::opening(path))?;
    schema::prepare(&mut connection, path).await?;
    let key = schema::secret(&mut connection).await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut eraser =
        Eraser { key, keeping: Keeping::new(Kept::Erased, key), decisions: HashSet::new(), tasks: HashSet::new() };
    each(&mut transaction, &progress, |row| {
        let (_, event) = event_of(row)?;
        eraser.find(&event, erasure);
        Ok(None)
    })
    .await?;
    let mut records = 0;
    if !eraser.decisions.is_empty() {
        records = each(&mut transaction, &progress, |row| {
            let (seq, mut event) = event_of(row)?;
            if !eraser.erase(&mut event) {
                return Ok(None);
            }
            Ok(Some(rewritten(row, seq, &event)?))
        })
        .await?;
    }
    let by = match erasure {
        Erasure::Task(_) => ErasedBy::Task,
        Erasure::Tenant(_) => ErasedBy::Tenant,
    };
    let erased = Erased { by, decisions: eraser.decisions.len() as u64, records };
    if records > 0 {
        let last: i64 = sqlx::query_scalar("SELECT max(at_ms) FROM events").fetch_one(&mut *transaction).await?;
        let record = Record::of(&NewEvent::alone(Event::Erased { erased: erased.clone() }))?;
        insert(&mut transaction, &record, now_ms().max(last)).await?;
    }
    transaction.commit().await?;
    // The old pages are in the log until it is cut.
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await?;
    connection.close().await?;
    Ok(erased)
}

/// Goes over all records and writes those anew that `change` gives back; returns how many.
async fn each(
    connection: &mut SqliteConnection,
    progress: &impl Fn(u64, u64),
    mut change: impl FnMut(&SqliteRow) -> Result<Option<Rewritten>, JournalError>,
) -> Result<u64, JournalError> {
    let total = schema::last_place(&mut *connection).await?;
    let (mut seq, mut changed) = (0_i64, 0);
    loop {
        let rows = schema::rows_after(connection, seq).await?;
        let Some(last) = rows.last() else { return Ok(changed) };
        seq = last.try_get("seq")?;
        for row in &rows {
            if let Some(rewritten) = change(row)? {
                rewritten.write(connection).await?;
                changed += 1;
            }
        }
        progress(seq.unsigned_abs(), total.unsigned_abs());
    }
}

struct Eraser {
    key: [u8; 32],
    keeping: Keeping,
    decisions: HashSet<DecisionId>,
    tasks: HashSet<TaskId>,
}

impl Eraser {
    fn find(&mut self, event: &Event, erasure: &Erasure) {
        let Event::Decided { task, decision, .. } = event else { return };
        let wanted = match erasure {
            Erasure::Task(id) => task.id == *id,
            Erasure::Tenant(tenant) => task.tenant.as_ref() == Some(tenant),
        };
        if wanted {
            self.decisions.insert(decision.id);
            self.tasks.insert(task.id.clone());
        }
    }

    /// Whether there was something to erase.
    fn erase(&self, event: &mut Event) -> bool {
        let own = event.decision_id().is_some_and(|id| self.decisions.contains(&id));
        let mut changed = own;
        if own {
            self.keeping.event(event);
        }
        match event {
            Event::Decided { task, context, decision } => {
                if own {
                    task.id = self.nobody(&task.id);
                    decision.task_id = task.id.clone();
                    (task.session, task.tenant, task.idempotency_key) = (None, None, None);
                }
                for neighbour in context.neighbours.iter_mut().filter(|one| self.tasks.contains(&one.task_id)) {
                    neighbour.task_id = self.nobody(&neighbour.task_id);
                    forget_trace(neighbour);
                    changed = true;
                }
            }
            Event::Judged { feedback } | Event::Early { feedback } if own => feedback.idempotency_key = None,
            _ => {}
        }
        changed
    }

    /// What takes the place of an id: the same for the same, so that decisions of one task still belong together.
    fn nobody(&self, id: &TaskId) -> TaskId {
        let hash = blake3::keyed_hash(&self.key, id.as_str().as_bytes()).to_hex();
        TaskId::new(format!("erased-{}", &hash[..DIGITS])).unwrap_or_else(|_| TaskId::generate())
    }
}

/// A record in its new form.
struct Rewritten {
    seq: i64,
    once: Option<String>,
    packed: Vec<u8>,
    sum: i64,
}

fn rewritten(row: &SqliteRow, seq: i64, event: &Event) -> Result<Rewritten, JournalError> {
    let packed = pack::pack_event(event)?;
    // A client's key is text of the client's; the others name decisions.
    let once = row.try_get::<Option<String>, _>("once")?;
    let once = once.map(|once| {
        let of_client = [TASK, TENANT_TASK, FEEDBACK, TENANT_FEEDBACK].iter().any(|start| once.starts_with(start));
        if of_client { format!("erased:{seq}") } else { once }
    });
    let columns = Columns {
        at_ms: row.try_get("at_ms")?,
        decision_id: row.try_get("decision_id")?,
        once: once.as_deref(),
        learns: row.try_get("learns")?,
        kind: row.try_get("kind")?,
        model: row.try_get("model")?,
        packed: &packed,
        embedding: row.try_get("embedding")?,
    };
    let sum = columns.sum();
    Ok(Rewritten { seq, once, packed, sum })
}

impl Rewritten {
    async fn write(&self, connection: &mut SqliteConnection) -> Result<(), JournalError> {
        sqlx::query("UPDATE events SET body = '', packed = ?, sum = ?, once = ? WHERE seq = ?")
            .bind(self.packed.as_slice())
            .bind(self.sum)
            .bind(self.once.as_deref())
            .bind(self.seq)
            .execute(connection)
            .await?;
        Ok(())
    }
}
