//! Whether a journal is sound: the file's structure, each record, and what records say of each other.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};

use sqlx::{Connection, Row, SqliteConnection};

use super::{Base, Event, JournalError, reader::event_of, schema};
use crate::round::{Decision, DecisionId, Embedding};

/// Lines of SQLite's own findings that are kept.
const STRUCTURE_MAX: usize = 20;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verified {
    /// The format that the file had.
    pub format: i64,
    /// Events by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// What SQLite says of the file's structure; empty when it is sound.
    pub structure: Vec<String>,
    /// Records that cannot be read, or contradict others, by their place, and why.
    pub unsound: Vec<(i64, String)>,
}

impl Verified {
    /// Whether nothing was found.
    pub fn is_sound(&self) -> bool {
        self.structure.is_empty() && self.unsound.is_empty()
    }

    /// How many events can be read.
    pub fn events(&self) -> u64 {
        self.kinds.values().sum()
    }
}

/// Reads all of a journal, also while a daemon writes it. `progress` is told (done, total) places.
pub async fn verify(path: &Path, progress: impl Fn(u64, u64)) -> Result<Verified, JournalError> {
    let (mut connection, format) = schema::readable(path).await?;
    let mut verified = Verified { format, structure: structure(&mut connection).await, ..Verified::default() };
    match Base::read(&mut connection).await {
        Ok(_) => {}
        Err(JournalError::Damaged { seq, reason }) => verified.unsound.push((seq, reason)),
        Err(error) => return Err(error),
    }
    let total = schema::last_place(&mut connection).await?;
    let mut known = Known::default();
    let mut seq = 0_i64;
    loop {
        let rows = schema::rows_after(&mut connection, seq).await?;
        let Some(last) = rows.last() else { break };
        seq = last.try_get("seq")?;
        for row in &rows {
            let at: i64 = row.try_get("seq")?;
            let found = match event_of(row) {
                Ok((_, event)) => {
                    *verified.kinds.entry(event.kind()).or_default() += 1;
                    let embedding: Option<&[u8]> = row.try_get("embedding")?;
                    known.admit(&event, embedding, row.try_get("at_ms")?)
                }
                Err(JournalError::Damaged { reason, .. }) => Err(reason),
                Err(error) => return Err(error),
            };
            verified.unsound.extend(found.err().map(|reason| (at, reason)));
        }
        progress(seq.unsigned_abs(), total.unsigned_abs());
    }
    connection.close().await?;
    Ok(verified)
}

/// A damaged file may fail the question itself: that is an answer too.
async fn structure(connection: &mut SqliteConnection) -> Vec<String> {
    match sqlx::query_scalar::<_, String>("PRAGMA integrity_check").fetch_all(connection).await {
        Ok(lines) => lines.into_iter().filter(|line| line != "ok").take(STRUCTURE_MAX).collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// What earlier records said.
#[derive(Default)]
struct Known {
    decisions: HashSet<DecisionId>,
    last_ms: i64,
}

impl Known {
    fn admit(&mut self, event: &Event, embedding: Option<&[u8]>, at_ms: i64) -> Result<(), String> {
        let back = self.last_ms - at_ms;
        self.last_ms = self.last_ms.max(at_ms);
        if let Event::Decided { decision, .. } = event {
            self.decisions.insert(decision.id);
            let bytes = embedding.ok_or("its embedding is missing")?;
            Embedding::from_bytes(bytes).map_err(|error| error.to_string())?;
            drawn(decision)?;
        } else if let Some(id) = event.decision_id()
            && !self.decisions.contains(&id)
        {
            return Err(format!("it is about decision {id}, which is not there"));
        }
        if back > 0 { Err(format!("it is dated {back} ms before an earlier one")) } else { Ok(()) }
    }
}

/// A decision's propensity is the probability of what it drew.
fn drawn(decision: &Decision) -> Result<(), String> {
    let taken = decision.pmf.iter().find(|entry| entry.mode == decision.mode && entry.arm == decision.arm);
    let sum: f64 = decision.pmf.iter().map(|entry| entry.p).sum();
    match taken {
        Some(entry) if entry.p == decision.propensity.get() && (sum - 1.0).abs() < 1e-6 => Ok(()),
        Some(entry) => Err(format!(
            "its propensity is {}, its distribution says {} and sums to {sum}",
            decision.propensity.get(),
            entry.p
        )),
        None => Err("its distribution does not hold what it took".into()),
    }
}
