//! Embedded memory: Qdrant's shard in this process (`qdrant-edge`).
//!
//! The shard's own write-ahead log is not replayed on load, so a marker file remembers up to where everything was
//! flushed; on open `next_seq` starts there and the journal writes the rest again, which is idempotent. No HNSW: at
//! 20,000 entries a full scan is as quick, exact, and never stalls for an index build. The shard accepts zero and NaN
//! vectors without a word, but [`Embedding`] cannot hold them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use qdrant_edge::{
    Condition, CountRequest, CreateIndex, DEFAULT_VECTOR_NAME, Distance, EdgeConfig, EdgeOptimizersConfig, EdgeShard,
    EdgeVectorParams, FieldCondition, FieldIndexOperations, Match, MatchValue, NamedQuery, OperationError,
    PayloadFieldSchema, PayloadSchemaType, PointInsertOperations, PointOperations, PointStruct, QueryEnum,
    QueryRequest, ScoredPoint, ScoringQuery, UpdateOperation, ValueVariants, VectorStructInternal,
    WithPayloadInterface, WithVector,
};
use serde::{Deserialize, Serialize};

use super::{Entry, Filter, Memory, MemoryError};
use crate::round::{ArmId, Domain, Embedding, Neighbour, TaskId, TriedArm};

const MARKER: &str = "ring.json";
const FORMAT: u32 = 1;

/// What the ring in a folder looks like, and how much of it is certainly on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Ring {
    format: u32,
    model: String,
    dimension: usize,
    cap: u64,
    flushed: u64,
}

/// A point's payload.
#[derive(Debug, Serialize, Deserialize)]
struct Payload {
    seq: u64,
    task_id: TaskId,
    domain: Domain,
    arms: Vec<ArmId>,
    outcomes: Vec<TriedArm>,
}

/// A ring of entries in a folder, owned by this process alone.
pub struct EdgeMemory {
    shard: EdgeShard,
    folder: PathBuf,
    ring: Ring,
    next_seq: AtomicU64,
}

impl EdgeMemory {
    /// Opens the ring in `folder`, or makes an empty one of `cap` slots for embeddings of `model`.
    pub fn open(folder: &Path, model: &str, dimension: usize, cap: u64) -> Result<Self, MemoryError> {
        let wanted = Ring { format: FORMAT, model: model.into(), dimension, cap: cap.max(1), flushed: 0 };
        let marker = folder.join(MARKER);
        let found = match fs::read(&marker) {
            Ok(bytes) => Some(serde_json::from_slice::<Ring>(&bytes).map_err(|error| corrupt(folder, &error))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(corrupt(folder, &error)),
        };
        let Some(ring) = found else {
            return Self::create(folder, wanted);
        };
        if (Ring { flushed: 0, ..ring.clone() }) != wanted {
            return Err(corrupt(folder, &format!("it is a ring of {ring:?}, the settings ask for {wanted:?}")));
        }
        let shard = EdgeShard::load(folder, None).map_err(|error| refused(folder, &error))?;
        Ok(Self { shard, folder: folder.into(), next_seq: AtomicU64::new(ring.flushed), ring })
    }

    fn create(folder: &Path, ring: Ring) -> Result<Self, MemoryError> {
        fs::create_dir_all(folder).map_err(|error| corrupt(folder, &error))?;
        let config = EdgeConfig::builder()
            .vector(DEFAULT_VECTOR_NAME, EdgeVectorParams::builder(ring.dimension, Distance::Cosine).build())
            .optimizers(EdgeOptimizersConfig {
                indexing_threshold: Some(0),
                default_segment_number: Some(1),
                ..Default::default()
            })
            .build();
        let shard = EdgeShard::new(folder, config).map_err(|error| refused(folder, &error))?;
        for field in ["domain", "arms"] {
            shard
                .update(UpdateOperation::FieldIndexOperation(FieldIndexOperations::CreateIndex(CreateIndex {
                    field_name: path(field)?,
                    field_schema: Some(PayloadFieldSchema::FieldType(PayloadSchemaType::Keyword)),
                })))
                .map_err(|error| other(&error))?;
        }
        let memory = Self { shard, folder: folder.into(), ring, next_seq: AtomicU64::new(0) };
        memory.sync()?;
        Ok(memory)
    }

    fn read_hit(&self, hit: ScoredPoint, query: &Embedding) -> Result<Neighbour, MemoryError> {
        let unreadable = |what: &str| corrupt(&self.folder, &format!("a hit {what}"));
        let Some(VectorStructInternal::Single(vector)) = hit.vector else {
            return Err(unreadable("without its vector"));
        };
        let payload = hit.payload.ok_or_else(|| unreadable("without payload"))?;
        let payload: Payload = serde_json::from_value(serde_json::Value::Object(payload.0.into_iter().collect()))
            .map_err(|error| corrupt(&self.folder, &error))?;
        let stored = Embedding::new(vector).map_err(|error| corrupt(&self.folder, &error))?;
        Ok(Neighbour {
            seq: payload.seq,
            task_id: payload.task_id,
            similarity: query.cosine(&stored),
            outcomes: payload.outcomes,
        })
    }
}

impl Memory for EdgeMemory {
    fn put(&self, seq: u64, entry: &Entry) -> Result<(), MemoryError> {
        if entry.embedding.as_slice().len() != self.ring.dimension {
            return Err(MemoryError::Invalid(format!(
                "the embedding has {} dimensions, memory holds {}",
                entry.embedding.as_slice().len(),
                self.ring.dimension
            )));
        }
        let payload = serde_json::to_value(Payload {
            seq,
            task_id: entry.task_id.clone(),
            domain: entry.domain.clone(),
            arms: entry.outcomes.iter().map(|tried| tried.arm.clone()).collect(),
            outcomes: entry.outcomes.clone(),
        })
        .map_err(|error| MemoryError::Invalid(error.to_string()))?;
        let point = PointStruct::new(seq % self.ring.cap, entry.embedding.as_slice().to_vec(), payload);
        self.shard
            .update(UpdateOperation::PointOperation(PointOperations::UpsertPoints(PointInsertOperations::PointsList(
                vec![point.into()],
            ))))
            .map_err(|error| other(&error))?;
        self.next_seq.fetch_max(seq + 1, Ordering::AcqRel);
        Ok(())
    }

    fn query(
        &self,
        embedding: &Embedding,
        k: usize,
        min_similarity: f32,
        filter: &Filter,
    ) -> Result<Vec<Neighbour>, MemoryError> {
        if embedding.as_slice().len() != self.ring.dimension {
            return Err(MemoryError::Invalid(format!("memory holds {} dimensions", self.ring.dimension)));
        }
        let request = QueryRequest {
            prefetches: vec![],
            query: Some(ScoringQuery::Vector(QueryEnum::Nearest(NamedQuery::default_dense(
                embedding.as_slice().to_vec(),
            )))),
            filter: filter.to_shard()?,
            score_threshold: None,
            limit: k,
            offset: 0,
            params: None,
            with_vector: WithVector::Bool(true),
            with_payload: WithPayloadInterface::Bool(true),
        };
        let hits = self.shard.query(request).map_err(|error| other(&error))?;
        let mut neighbours =
            hits.into_iter().map(|hit| self.read_hit(hit, embedding)).collect::<Result<Vec<_>, _>>()?;
        neighbours.retain(|neighbour| neighbour.similarity >= min_similarity);
        neighbours.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then(b.seq.cmp(&a.seq)));
        Ok(neighbours)
    }

    fn next_seq(&self) -> Result<u64, MemoryError> {
        Ok(self.next_seq.load(Ordering::Acquire))
    }

    fn count(&self) -> Result<u64, MemoryError> {
        let count = self.shard.count(CountRequest { filter: None, exact: true }).map_err(|error| other(&error))?;
        Ok(count as u64)
    }

    fn sync(&self) -> Result<(), MemoryError> {
        let ring = Ring { flushed: self.next_seq()?, ..self.ring.clone() };
        // The shard panics where it cannot write, such as on a full disk; here that is an error like any other.
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.shard.flush()))
            .map_err(|_| MemoryError::Other(format!("{} could not be flushed", self.folder.display())))?;
        let temporary = self.folder.join("ring.json.part");
        let bytes = serde_json::to_vec(&ring).map_err(|error| MemoryError::Other(error.to_string()))?;
        fs::write(&temporary, bytes)
            .and_then(|()| fs::rename(&temporary, self.folder.join(MARKER)))
            .map_err(|error| MemoryError::Other(format!("cannot write {}: {error}", self.folder.display())))
    }
}

impl Filter {
    fn to_shard(&self) -> Result<Option<qdrant_edge::Filter>, MemoryError> {
        let mut must = Vec::new();
        for (field, value) in
            [("domain", self.domain.as_ref().map(Domain::as_str)), ("arms", self.arm.as_ref().map(ArmId::as_str))]
        {
            if let Some(value) = value {
                let value = Match::Value(MatchValue { value: ValueVariants::String(value.to_owned()) });
                must.push(Condition::Field(FieldCondition::new_match(path(field)?, value)));
            }
        }
        let all = qdrant_edge::Filter { should: None, min_should: None, must: Some(must), must_not: None };
        Ok(all.must.as_ref().is_some_and(|must| !must.is_empty()).then_some(all))
    }
}

fn path(field: &str) -> Result<qdrant_edge::JsonPath, MemoryError> {
    field.parse().map_err(|()| MemoryError::Other(format!("{field} is no payload path")))
}

fn corrupt(folder: &Path, reason: &dyn std::fmt::Display) -> MemoryError {
    MemoryError::Corrupt { path: folder.into(), reason: reason.to_string() }
}

fn refused(folder: &Path, error: &OperationError) -> MemoryError {
    let text = error.to_string();
    if text.contains("WouldBlock") { MemoryError::Locked(folder.into()) } else { corrupt(folder, &text) }
}

fn other(error: &OperationError) -> MemoryError {
    MemoryError::Other(error.to_string())
}
