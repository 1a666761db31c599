//! One Qdrant shard in this process (`qdrant-edge`), spoken to in our words.
//!
//! No HNSW: at 20,000 entries a full scan is as quick, exact, and never stalls for an index build. The shard accepts zero
//! and NaN vectors without a word, but [`Embedding`] cannot hold them. It panics where it cannot write, also while it is
//! dropped; here every such panic is an error. On a full disk its memory maps would end the process, so that writes are
//! refused while little room is left.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use qdrant_edge::{
    Condition, CountRequest, CreateIndex, DEFAULT_VECTOR_NAME, Distance, EdgeConfig, EdgeOptimizersConfig, EdgeShard,
    EdgeVectorParams, FieldCondition, FieldIndexOperations, JsonPath, Match, MatchValue, NamedQuery, OperationError,
    PayloadFieldSchema, PayloadSchemaType, PointId, PointInsertOperations, PointOperations, PointStruct, QueryEnum,
    QueryRequest, Record, ScoredPoint, ScoringQuery, UpdateOperation, ValueVariants, VectorStructInternal, WalOptions,
    WithPayloadInterface, WithVector,
};

use super::{Entry, Filter, MemoryError, payload::Payload};
use crate::round::{ArmId, Domain, Embedding, Neighbour};

/// Bytes that must be free before anything is written: more than the shard's next log segment and vector chunk.
const ROOM_BYTES: u64 = 128 << 20;

/// Bytes of a piece of the shard's log. It is mapped into this process's memory; the default is 32 MiB.
const LOG_SEGMENT_BYTES: usize = 8 << 20;

/// A shard in a folder of its own.
pub(super) struct Shard {
    // Taken only when dropped.
    shard: Option<EdgeShard>,
    folder: PathBuf,
    // Set when another shard has taken its place: then the folder goes with the last reader.
    retired: AtomicBool,
}

impl Shard {
    /// An empty shard in a folder that must not exist yet.
    pub fn create(folder: &Path, dimension: usize) -> Result<Self, MemoryError> {
        room(folder.parent().unwrap_or(folder))?;
        fs::create_dir_all(folder).map_err(|error| corrupt(folder, &error))?;
        let shard = Self::guard(folder, || EdgeShard::new(folder, config(dimension)))?;
        for field in ["domain", "arms"] {
            shard
                .update(UpdateOperation::FieldIndexOperation(FieldIndexOperations::CreateIndex(CreateIndex {
                    field_name: path(field)?,
                    field_schema: Some(PayloadFieldSchema::FieldType(PayloadSchemaType::Keyword)),
                })))
                .map_err(|error| other(&error))?;
        }
        Ok(Self::new(shard, folder))
    }

    /// Opens the shard of a folder.
    pub fn load(folder: &Path, dimension: usize) -> Result<Self, MemoryError> {
        let shard = Self::guard(folder, || EdgeShard::load(folder, Some(config(dimension))))?;
        Ok(Self::new(shard, folder))
    }

    fn new(shard: EdgeShard, folder: &Path) -> Self {
        Self { shard: Some(shard), folder: folder.into(), retired: AtomicBool::new(false) }
    }

    /// A damaged folder may be an error or a panic; another owner is an error of its own.
    fn guard(
        folder: &Path,
        open: impl FnOnce() -> Result<EdgeShard, OperationError>,
    ) -> Result<EdgeShard, MemoryError> {
        match catch_unwind(AssertUnwindSafe(open)) {
            Ok(Ok(shard)) => Ok(shard),
            Ok(Err(error)) if error.to_string().contains("WouldBlock") => Err(MemoryError::Locked(folder.into())),
            Ok(Err(error)) => Err(corrupt(folder, &error)),
            Err(_) => Err(corrupt(folder, &"opening it panicked")),
        }
    }

    /// Writes entries to their slots, in one step.
    pub fn upsert<'a>(&self, cap: u64, entries: impl Iterator<Item = (u64, &'a Entry)>) -> Result<(), MemoryError> {
        room(&self.folder)?;
        let points = entries
            .map(|(seq, entry)| {
                let payload = serde_json::to_value(Payload::new(seq, entry))
                    .map_err(|error| MemoryError::Invalid(error.to_string()))?;
                Ok(PointStruct::new(seq % cap, entry.embedding.as_slice().to_vec(), payload).into())
            })
            .collect::<Result<Vec<_>, MemoryError>>()?;
        let points = PointOperations::UpsertPoints(PointInsertOperations::PointsList(points));
        self.writing(|shard| shard.update(UpdateOperation::PointOperation(points)))?.map_err(|error| other(&error))
    }

    /// The `k` entries most alike, scored again from the vectors that came with the payloads.
    pub fn query(&self, embedding: &Embedding, k: usize, filter: &Filter) -> Result<Vec<Neighbour>, MemoryError> {
        let request = QueryRequest {
            prefetches: vec![],
            query: Some(ScoringQuery::Vector(QueryEnum::Nearest(NamedQuery::default_dense(
                embedding.as_slice().to_vec(),
            )))),
            filter: to_shard(filter)?,
            score_threshold: None,
            limit: k,
            offset: 0,
            params: None,
            with_vector: WithVector::Bool(true),
            with_payload: WithPayloadInterface::Bool(true),
        };
        let hits = self.shard()?.query(request).map_err(|error| other(&error))?;
        hits.into_iter()
            .map(|ScoredPoint { payload, vector, .. }| {
                let (stored, payload) = self.read(payload, vector)?;
                Ok(payload.into_neighbour(embedding.cosine(&stored)))
            })
            .collect()
    }

    /// The entries in these slots with their numbers, in the order asked for; empty slots are left out.
    pub fn retrieve(&self, slots: impl Iterator<Item = u64>) -> Result<Vec<(u64, Entry)>, MemoryError> {
        let slots: Vec<_> = slots.map(PointId::NumId).collect();
        let everything = (Some(WithPayloadInterface::Bool(true)), Some(WithVector::Bool(true)));
        let records = self.shard()?.retrieve(&slots, everything.0, everything.1).map_err(|error| other(&error))?;
        records
            .into_iter()
            .map(|Record { payload, vector, .. }| {
                let (embedding, payload) = self.read(payload, vector)?;
                Ok((payload.seq, payload.into_entry(embedding)))
            })
            .collect()
    }

    pub fn count(&self) -> Result<u64, MemoryError> {
        let request = CountRequest { filter: None, exact: true };
        Ok(self.shard()?.count(request).map_err(|error| other(&error))? as u64)
    }

    /// Makes everything written survive a crash of the machine.
    pub fn flush(&self) -> Result<(), MemoryError> {
        room(&self.folder)?;
        self.writing(EdgeShard::flush)
    }

    /// Bytes of the log, which the shard only ever adds to.
    pub fn log_bytes(&self) -> u64 {
        let files = fs::read_dir(self.folder.join("wal")).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }

    /// The folder is to be deleted when the last reader is gone.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    fn shard(&self) -> Result<&EdgeShard, MemoryError> {
        self.shard.as_ref().ok_or_else(|| MemoryError::Other("the shard is closed".into()))
    }

    fn writing<T>(&self, write: impl FnOnce(&EdgeShard) -> T) -> Result<T, MemoryError> {
        let shard = self.shard()?;
        catch_unwind(AssertUnwindSafe(|| write(shard)))
            .map_err(|_| MemoryError::Other(format!("{} could not be written", self.folder.display())))
    }

    fn read(
        &self,
        payload: Option<qdrant_edge::Payload>,
        vector: Option<VectorStructInternal>,
    ) -> Result<(Embedding, Payload), MemoryError> {
        let (Some(VectorStructInternal::Single(vector)), Some(payload)) = (vector, payload) else {
            return Err(corrupt(&self.folder, &"an entry without vector or payload"));
        };
        let payload = serde_json::from_value(serde_json::Value::Object(payload.0.into_iter().collect()))
            .map_err(|error| corrupt(&self.folder, &error))?;
        Ok((Embedding::new(vector).map_err(|error| corrupt(&self.folder, &error))?, payload))
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        // Dropping flushes, which may panic.
        let shard = self.shard.take();
        if catch_unwind(AssertUnwindSafe(move || drop(shard))).is_err() {
            tracing::error!(folder = %self.folder.display(), "a memory shard was not flushed; the journal has its entries");
        }
        if self.retired.load(Ordering::Acquire)
            && let Err(error) = fs::remove_dir_all(&self.folder)
        {
            tracing::warn!(%error, folder = %self.folder.display(), "an old memory shard cannot be removed yet");
        }
    }
}

fn config(dimension: usize) -> EdgeConfig {
    EdgeConfig::builder()
        .vector(DEFAULT_VECTOR_NAME, EdgeVectorParams::builder(dimension, Distance::Cosine).build())
        .optimizers(EdgeOptimizersConfig {
            indexing_threshold: Some(0),
            default_segment_number: Some(1),
            ..Default::default()
        })
        .wal_options(WalOptions { segment_capacity: LOG_SEGMENT_BYTES, ..WalOptions::default() })
        .build()
}

/// An error where the disk has little room left; no error where that cannot be told.
pub(super) fn room(folder: &Path) -> Result<(), MemoryError> {
    #[cfg(unix)]
    if let Ok(disk) = rustix::fs::statvfs(folder)
        && disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM_BYTES
    {
        return Err(MemoryError::DiskFull(folder.into()));
    }
    Ok(())
}

fn to_shard(filter: &Filter) -> Result<Option<qdrant_edge::Filter>, MemoryError> {
    let mut must = Vec::new();
    for (field, value) in
        [("domain", filter.domain.as_ref().map(Domain::as_str)), ("arms", filter.arm.as_ref().map(ArmId::as_str))]
    {
        if let Some(value) = value {
            let value = Match::Value(MatchValue { value: ValueVariants::String(value.to_owned()) });
            must.push(Condition::Field(FieldCondition::new_match(path(field)?, value)));
        }
    }
    let some = !must.is_empty();
    Ok(some.then_some(qdrant_edge::Filter { should: None, min_should: None, must: Some(must), must_not: None }))
}

fn path(field: &str) -> Result<JsonPath, MemoryError> {
    field.parse().map_err(|()| MemoryError::Other(format!("{field} is no payload path")))
}

pub(super) fn corrupt(folder: &Path, reason: &dyn std::fmt::Display) -> MemoryError {
    MemoryError::Corrupt { path: folder.into(), reason: reason.to_string() }
}

fn other(error: &OperationError) -> MemoryError {
    MemoryError::Other(error.to_string())
}
