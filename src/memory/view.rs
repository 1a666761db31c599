//! Looking into memory: what people ask of it, apart from recall.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Filter, Held, Memory, MemoryError, Shape, pages};
use crate::round::{ArmId, Domain, Embedding, TaskId, TriedArm};

const PAGE: usize = 1_024;

/// What memory holds, in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = MemoryStats)]
pub struct Stats {
    /// What it is made for.
    #[serde(flatten)]
    pub shape: Shape,
    /// Entries.
    pub count: u64,
    /// The sequence number of the oldest entry, if there is any.
    pub first_seq: Option<u64>,
    /// The sequence number of the next entry.
    pub next_seq: u64,
    /// The digest of the snapshot that it rests on, if any.
    pub origin: Option<String>,
    /// When the oldest entry was journaled, in milliseconds since 1970.
    pub oldest_at_ms: Option<i64>,
    /// The same of the newest.
    pub newest_at_ms: Option<i64>,
    /// Entries by domain.
    pub domains: BTreeMap<Domain, u64>,
    /// By arm: entries on which it was tried, and its mean score on them.
    pub arms: BTreeMap<ArmId, Tried>,
}

/// How an arm did in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = MemoryTried)]
pub struct Tried {
    /// Entries on which it was tried.
    pub count: u64,
    /// Its mean score on them.
    pub mean_score: f64,
}

impl Eq for Tried {}

/// An entry as shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = MemoryRecord)]
pub struct Record {
    /// Its sequence number.
    pub seq: u64,
    /// The task.
    pub task_id: TaskId,
    /// Its domain.
    pub domain: Domain,
    /// When its outcome was journaled, in milliseconds since 1970.
    pub at_ms: i64,
    /// How alike it is to what was searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f32>,
    /// What each arm tried on it gave.
    pub outcomes: Vec<TriedArm>,
}

/// Counts everything; reads all entries, which takes a second or less at the default cap.
pub fn stats(memory: &dyn Memory, shape: &Shape) -> Result<Stats, MemoryError> {
    let Held { next_seq, count, origin } = memory.held()?;
    let mut stats = Stats {
        shape: shape.clone(),
        count,
        first_seq: None,
        next_seq,
        origin,
        oldest_at_ms: None,
        newest_at_ms: None,
        domains: BTreeMap::new(),
        arms: BTreeMap::new(),
    };
    for entry in pages(0, PAGE, |from, n| memory.scan(from, n)) {
        let (seq, entry) = entry?;
        stats.first_seq.get_or_insert(seq);
        stats.oldest_at_ms.get_or_insert(entry.at_ms);
        stats.newest_at_ms = Some(entry.at_ms);
        *stats.domains.entry(entry.domain).or_default() += 1;
        for TriedArm { arm, score, .. } in entry.outcomes {
            let tried = stats.arms.entry(arm).or_default();
            tried.count += 1;
            tried.mean_score += (score - tried.mean_score) / tried.count as f64;
        }
    }
    Ok(stats)
}

/// The entries most alike, as recall finds them, with their domains and times.
pub fn search(
    memory: &dyn Memory,
    embedding: &Embedding,
    k: usize,
    min_similarity: f32,
    filter: &Filter,
) -> Result<Vec<Record>, MemoryError> {
    let mut found = Vec::new();
    for hit in memory.query(embedding, k, min_similarity, filter)? {
        // Evicted since, where it is not found.
        if let Some(record) = inspect(memory, hit.seq)? {
            found.push(Record { similarity: Some(hit.similarity), ..record });
        }
    }
    Ok(found)
}

/// The entry with this number, if memory still holds it.
pub fn inspect(memory: &dyn Memory, seq: u64) -> Result<Option<Record>, MemoryError> {
    let found = memory.scan(seq, 1)?.into_iter().find(|(found, _)| *found == seq);
    Ok(found.map(|(seq, entry)| Record {
        seq,
        task_id: entry.task_id,
        domain: entry.domain,
        at_ms: entry.at_ms,
        similarity: None,
        outcomes: entry.outcomes,
    }))
}
