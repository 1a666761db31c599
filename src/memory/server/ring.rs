//! The collections behind a memory: making, checking and exchanging them.
//!
//! The memory's name on the server is an alias for one of two collections, `NAME-0` and `NAME-1`. Other content is written
//! to the one that is not in use, and becomes the memory when the alias is moved, which the server does in one step; then
//! the old one is deleted. The new one is sharded and replicated like the old one; the first as the server does by itself.
//! What a ring is made for and what it rests on is kept in its collection's metadata, under one key: the server merges
//! metadata key by key, so that the key's value changes as a whole.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use ::qdrant_client::qdrant::{
    CollectionInfo, CollectionParams, CreateAliasBuilder, CreateCollectionBuilder, CreateFieldIndexCollectionBuilder,
    Distance, FieldType, HnswConfigDiffBuilder, OptimizersConfigDiffBuilder, UpdateCollectionBuilder, VectorParams,
    VectorParamsBuilder, vectors_config::Config,
};
use serde::{Deserialize, Serialize};

use super::{
    super::{MemoryError, Shape},
    failure::Failure,
    link::Link,
};

const METADATA: &str = "pointsman";
const FORMAT: u32 = 1;
/// Of vectors of unit length, as ours are, the dot product is the cosine similarity. For the latter the server would
/// normalise them again by its own measure, and a few would come back changed in their last bits.
const DISTANCE: Distance = Distance::Dot;
/// The origin of a ring that is being filled.
const FILLING: &str = "being filled";
/// The payload fields with an index.
const INDEXES: [(&str, FieldType); 3] =
    [("domain", FieldType::Keyword), ("arms", FieldType::Keyword), ("seq", FieldType::Integer)];
/// The first version with metadata and conditional writes.
const SERVER_MIN: (u64, u64) = (1, 16);
/// A cluster takes its time to agree on a collection.
const MANAGE_LIMIT: Duration = Duration::from_secs(30);

/// A collection's metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    format: u32,
    #[serde(flatten)]
    pub shape: Shape,
    #[serde(default)]
    pub origin: Option<String>,
    /// The next entry's number is not below this.
    #[serde(default)]
    pub next_seq: u64,
}

/// A ring on a server, and what we know of it.
pub(super) struct Ring {
    pub link: Link,
    pub shape: Shape,
    /// One above the number of silences when the collection was last found right; zero for never.
    checked: AtomicU64,
    /// What the next entry's number was when we last knew.
    pub next_seq: AtomicU64,
    /// Whether the ring was found to hold less than we wrote, and nobody was told yet.
    pub lost: AtomicBool,
}

impl Ring {
    pub fn new(link: Link, shape: &Shape) -> Self {
        Self {
            link,
            shape: Shape { cap: shape.cap.max(1), ..shape.clone() },
            checked: AtomicU64::new(0),
            next_seq: AtomicU64::new(0),
            lost: AtomicBool::new(false),
        }
    }

    /// Does something with a collection that is there and right. One that has gone is made anew, and it is done again.
    pub async fn with<T>(&self, request: impl AsyncFn() -> Result<T, Failure>) -> Result<T, Failure> {
        self.ensure().await?;
        match request().await {
            Err(Failure::Missing) => {
                self.checked.store(0, Ordering::Release);
                self.ensure().await?;
                request().await
            }
            // Perhaps another collection has its name by now: then that is the error.
            Err(refused @ Failure::Refused(_)) => {
                self.checked.store(0, Ordering::Release);
                self.ensure().await?;
                Err(refused)
            }
            done => done,
        }
    }

    /// Makes the collection if need be and compares it with what we are for: at first, and after every silence.
    pub async fn ensure(&self) -> Result<(), Failure> {
        let silences = self.link.silences() + 1;
        if self.checked.load(Ordering::Acquire) == silences {
            return Ok(());
        }
        let known = self.next_seq.load(Ordering::Acquire);
        let name = &self.link.place.collection;
        let (marker, info) = match self.describe(name).await {
            Err(Failure::Missing) => {
                self.make_first().await?;
                self.describe(name).await?
            }
            described => described?,
        };
        self.fits(&marker)?;
        self.index(name, &info).await?;
        let found = self.link.newest().await?.map_or(0, |newest| newest + 1).max(marker.next_seq);
        if found < known {
            tracing::error!(place = %self.link.place, known, found, "the memory server lost entries; the journal has them");
            self.next_seq.store(found, Ordering::Release);
            self.lost.store(true, Ordering::Release);
        } else {
            self.next_seq.fetch_max(found, Ordering::AcqRel);
        }
        self.checked.store(silences, Ordering::Release);
        Ok(())
    }

    /// What the memory says of itself.
    pub async fn marker(&self) -> Result<Marker, Failure> {
        Ok(self.describe(&self.link.place.collection).await?.0)
    }

    async fn describe(&self, name: &str) -> Result<(Marker, CollectionInfo), Failure> {
        let answer = self.link.ask(async |client| client.collection_info(name).await).await?;
        let info = answer.result.unwrap_or_default();
        let config = info.config.clone().unwrap_or_default();
        let marker = config.metadata.get(METADATA).cloned().ok_or_else(|| {
            Failure::Other(
                "it is not a Pointsman memory: name another collection (or it was made by a server older than 1.16, \
                 which keeps no metadata: delete it)"
                    .into(),
            )
        })?;
        let marker: Marker = serde_json::from_value(marker.into())
            .map_err(|error| Failure::Other(format!("its metadata cannot be read: {error}")))?;
        match config.params.and_then(|params| params.vectors_config?.config) {
            Some(Config::Params(VectorParams { size, distance, .. }))
                if size == marker.shape.dimension as u64 && distance == DISTANCE as i32 =>
            {
                Ok((marker, info))
            }
            _ => Err(Failure::Other(format!(
                "its vectors are not what its metadata says ({} dimensions, dot product): name another collection",
                marker.shape.dimension
            ))),
        }
    }

    fn fits(&self, marker: &Marker) -> Result<(), Failure> {
        let Marker { format, shape, .. } = marker;
        if *format != FORMAT {
            return Err(Failure::Other(format!(
                "it has format {format}, this version reads {FORMAT}: name another collection or use the version that made it"
            )));
        }
        if !shape.is_comparable(&self.shape) {
            let (found, wanted) = (shape.to_string(), self.shape.to_string());
            return Err(Failure::Said(MemoryError::Mismatch { place: self.link.place.to_string(), found, wanted }));
        }
        if shape.cap != self.shape.cap {
            return Err(Failure::Other(format!(
                "it has {} slots, the settings ask for {}: set memory's cap back, or name another collection and fill it \
                 with `pointsman memory copy`",
                shape.cap, self.shape.cap
            )));
        }
        Ok(())
    }

    /// An empty ring where there is none. Several may do so at once.
    async fn make_first(&self) -> Result<(), Failure> {
        let version = self.link.ask(async |client| client.health_check().await).await?.version;
        let mut numbers = version.split('.').map(|part| part.parse::<u64>());
        if let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next())
            && (major, minor) < SERVER_MIN
        {
            let (major, minor) = SERVER_MIN;
            return Err(Failure::Other(format!(
                "the server is Qdrant {version}, memory needs {major}.{minor} or newer"
            )));
        }
        let first = self.link.place.ring(0);
        let made = self.make(&first, None, 0, None).await;
        // Made by another daemon just now, or left by one that was killed; what is in it is right by its own account.
        if !matches!(made, Err(Failure::Exists)) {
            made?;
        }
        let (marker, info) = self.describe(&first).await?;
        self.fits(&marker)?;
        self.index(&first, &info).await?;
        self.point_to(&first).await?;
        tracing::info!(place = %self.link.place, cap = self.shape.cap, "made an empty memory");
        Ok(())
    }

    /// Makes an empty collection, spread over a cluster like another one or else as the server does by itself.
    async fn make(
        &self,
        name: &str,
        origin: Option<&str>,
        next_seq: u64,
        like: Option<CollectionParams>,
    ) -> Result<(), Failure> {
        let mut request = CreateCollectionBuilder::new(name)
            .vectors_config(VectorParamsBuilder::new(self.shape.dimension as u64, DISTANCE))
            // No graph: a full scan of the ring is exact, quick and never waits for an index build.
            .hnsw_config(HnswConfigDiffBuilder::default().m(0))
            .optimizers_config(OptimizersConfigDiffBuilder::default().indexing_threshold(0))
            .metadata(self.metadata(origin, next_seq)?)
            .build();
        if let Some(like) = like {
            request.shard_number = Some(like.shard_number);
            request.replication_factor = like.replication_factor;
            request.write_consistency_factor = like.write_consistency_factor;
        }
        self.link.ask_within(MANAGE_LIMIT, async |client| client.create_collection(request).await).await?;
        Ok(())
    }

    fn metadata(&self, origin: Option<&str>, next_seq: u64) -> Result<HashMap<String, serde_json::Value>, Failure> {
        let origin = origin.map(Into::into);
        let marker = Marker { format: FORMAT, shape: self.shape.clone(), origin, next_seq };
        let marker = serde_json::to_value(marker).map_err(|error| Failure::Other(error.to_string()))?;
        Ok(HashMap::from([(METADATA.to_owned(), marker)]))
    }

    /// Makes the payload indexes that are not there yet.
    async fn index(&self, name: &str, info: &CollectionInfo) -> Result<(), Failure> {
        for (field, kind) in INDEXES.iter().filter(|(field, _)| !info.payload_schema.contains_key(*field)) {
            let request = CreateFieldIndexCollectionBuilder::new(name, *field, *kind).wait(true);
            self.link.ask_within(MANAGE_LIMIT, async |client| client.create_field_index(request).await).await?;
        }
        Ok(())
    }

    /// Makes an empty ring beside the present one. Returns the names of the present one, if any, and of the new one.
    pub async fn prepare(&self, next_seq: u64) -> Result<(Option<String>, String), Failure> {
        // What was found before may be gone.
        self.checked.store(0, Ordering::Release);
        self.ensure().await?;
        let aliases = self.link.ask(async |client| client.list_aliases().await).await?.aliases;
        let present = aliases.into_iter().find(|alias| alias.alias_name == self.link.place.collection);
        let present = present.map(|alias| alias.collection_name);
        let mut fresh = self.link.place.ring(0);
        if present.as_ref() == Some(&fresh) {
            fresh = self.link.place.ring(1);
        }
        let like = self.describe(&self.link.place.collection).await?.1.config.and_then(|config| config.params);
        // An attempt that failed half-way may have left it.
        self.delete(&fresh).await?;
        self.make(&fresh, Some(FILLING), next_seq, like).await?;
        self.index(&fresh, &CollectionInfo::default()).await?;
        Ok((present, fresh))
    }

    /// Makes a filled ring the memory and deletes the old one.
    pub async fn exchange(
        &self,
        present: Option<&str>,
        fresh: &str,
        origin: Option<&str>,
        next_seq: u64,
    ) -> Result<(), Failure> {
        let request = UpdateCollectionBuilder::new(fresh).metadata(self.metadata(origin, next_seq)?);
        self.link.ask_within(MANAGE_LIMIT, async |client| client.update_collection(request).await).await?;
        // A collection that has the memory's own name, such as one restored on the server, is in the alias's way. While
        // there is neither, whoever asks makes the alias as it is made here.
        if present.is_none() {
            self.delete(&self.link.place.collection).await?;
        }
        self.point_to(fresh).await?;
        self.next_seq.store(next_seq, Ordering::Release);
        self.lost.store(false, Ordering::Release);
        if let Some(old) = present.filter(|old| [0, 1].iter().any(|n| self.link.place.ring(*n) == **old))
            && let Err(failure) = self.delete(old).await
        {
            let error = failure.at(&self.link.place);
            tracing::warn!(%error, collection = old, "an old memory was not deleted; the next replacement will");
        }
        Ok(())
    }

    /// Moves the alias, in one step.
    async fn point_to(&self, ring: &str) -> Result<(), Failure> {
        let request = CreateAliasBuilder::new(ring, &self.link.place.collection);
        let made = self.link.ask_within(MANAGE_LIMIT, async |client| client.create_alias(request).await).await;
        made.map(|_| ()).map_err(Failure::of_a_write)
    }

    /// Deletes a collection, if it is there.
    async fn delete(&self, name: &str) -> Result<(), Failure> {
        match self.link.ask_within(MANAGE_LIMIT, async |client| client.delete_collection(name).await).await {
            Ok(_) | Err(Failure::Missing) => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}
