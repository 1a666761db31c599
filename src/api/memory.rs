//! `/v1/memory`: what memory holds, and its snapshots.

use std::{
    io::{self, ErrorKind},
    sync::Arc,
};

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use serde::Deserialize;
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncWriteExt},
};
use utoipa::{IntoParams, ToSchema};

use super::{
    ApiState, Problem,
    openapi::{
        parts::{File as SnapshotFile, SnapshotName},
        problems::{problems, shared},
    },
    request::{Body as JsonBody, Object, Parameters, Segments},
};
use crate::{
    round::{ArmId, Domain, Invalid},
    router::{Filter, Listed, MIN_SIMILARITY, MemoryMap, MemoryRecord, MemoryStats, RECALL_K, Snapshot, SnapshotError},
};

/// The most entries that one search returns.
const K_MAX: usize = 100;
/// The largest snapshot taken by upload.
const SNAPSHOT_BYTES_MAX: u64 = 8 << 30;
/// Bytes of a download read at a time.
const CHUNK: usize = 1 << 16;

problems!(ReadProblems: shared::CLIENT, shared::ADMIN, shared::MEMORY);
problems!(MapProblems: shared::CLIENT, shared::ADMIN, shared::MEMORY, shared::PLACE);
problems!(SearchProblems: shared::CLIENT, shared::ADMIN, shared::MEMORY, shared::PLACE, &["overloaded"]);
problems!(EntryProblems: shared::CLIENT, shared::ADMIN, shared::MEMORY, shared::PLACE, &["unknown-entry"]);
problems!(CreateProblems: shared::CLIENT, shared::ADMIN, shared::MEMORY, shared::BODY, &["admin-key-needed", "snapshot-exists"]);
problems!(SnapshotProblems: shared::CLIENT, shared::ADMIN, shared::MEMORY, shared::PLACE,
    &["admin-key-needed", "unknown-snapshot", "damaged-snapshot", "foreign-snapshot", "snapshot-in-use"]);
problems!(UploadProblems: shared::CLIENT, shared::ADMIN, shared::MEMORY, shared::PLACE,
    &["admin-key-needed", "invalid-json", "too-large", "snapshot-exists", "damaged-snapshot", "foreign-snapshot"]);

/// What memory holds, in numbers.
#[utoipa::path(
    get,
    path = "/v1/memory",
    operation_id = "memory_stats",
    tag = "memory",
    responses((status = 200, description = "All entries were counted", body = MemoryStats), ReadProblems)
)]
pub(super) async fn stats(State(state): State<ApiState>) -> Result<Json<MemoryStats>, Problem> {
    Ok(Json(state.router.memory_stats().await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Search {
    /// What past tasks are to be like.
    #[param(min_length = 1, pattern = r"\S")]
    text: String,
    /// The most entries that are wanted.
    #[param(minimum = 1, maximum = 100)]
    k: Option<usize>,
    /// The least cosine similarity.
    #[param(minimum = -1, maximum = 1)]
    min_similarity: Option<f32>,
    /// Only entries of this domain.
    domain: Option<Domain>,
    /// Only entries on which this arm was tried.
    arm: Option<ArmId>,
}

/// The past tasks that are most like a text, as recall finds them.
#[utoipa::path(
    get,
    path = "/v1/memory/search",
    operation_id = "search_memory",
    tag = "memory",
    params(Search),
    responses((status = 200, description = "Most similar first", body = Vec<MemoryRecord>), SearchProblems)
)]
pub(super) async fn search(
    State(state): State<ApiState>,
    Parameters(Search { text, k, min_similarity, domain, arm }): Parameters<Search>,
) -> Result<Json<Vec<MemoryRecord>>, Problem> {
    let k = k.unwrap_or(RECALL_K);
    if !(1..=K_MAX).contains(&k) {
        return Err(Invalid::new("k", format!("must be from 1 to {K_MAX}")).into());
    }
    let min_similarity = min_similarity.unwrap_or(MIN_SIMILARITY);
    if !(-1.0..=1.0).contains(&min_similarity) {
        return Err(Invalid::new("min_similarity", "must be from -1 to 1").into());
    }
    Ok(Json(state.router.memory_search(&text, k, min_similarity, Filter { domain, arm }).await?))
}

/// How many points a map has unless it is said.
const MAP_POINTS: u64 = 2_000;
/// The most points that a map has.
const MAP_POINTS_MAX: u64 = 5_000;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct MapSize {
    /// The most points; 2,000 when absent.
    #[param(minimum = 1, maximum = 5000)]
    points: Option<u64>,
}

/// A map of memory: entries along the two directions in which their embeddings vary most. It is drawn anew every 30 seconds at most.
#[utoipa::path(
    get,
    path = "/v1/memory/map",
    operation_id = "memory_map",
    tag = "memory",
    params(MapSize),
    responses((status = 200, description = "Points, column by column", body = MemoryMap), MapProblems)
)]
pub(super) async fn map(
    State(state): State<ApiState>,
    Parameters(MapSize { points }): Parameters<MapSize>,
) -> Result<Json<Arc<MemoryMap>>, Problem> {
    let points = points.unwrap_or(MAP_POINTS);
    if !(1..=MAP_POINTS_MAX).contains(&points) {
        return Err(Invalid::new("points", format!("must be from 1 to {MAP_POINTS_MAX}")).into());
    }
    Ok(Json(state.router.memory_map(points).await?))
}

/// One entry of memory.
#[utoipa::path(
    get,
    path = "/v1/memory/entries/{seq}",
    operation_id = "memory_entry",
    tag = "memory",
    params(("seq" = u64, Path, description = "Its sequence number")),
    responses((status = 200, description = "The entry", body = MemoryRecord), EntryProblems)
)]
pub(super) async fn entry(
    State(state): State<ApiState>,
    Segments(seq): Segments<String>,
) -> Result<Json<MemoryRecord>, Problem> {
    let seq = seq.parse().map_err(|_| Invalid::new("seq", "must be a whole number, such as 17"))?;
    let found = state.router.memory_entry(seq).await?;
    found.map(Json).ok_or_else(|| Problem::unknown_entry(seq))
}

/// The snapshots of memory that there are.
#[utoipa::path(
    get,
    path = "/v1/memory/snapshots",
    operation_id = "list_snapshots",
    tag = "memory",
    responses((status = 200, description = "By name; those that cannot be read too", body = Vec<Listed>), ReadProblems)
)]
pub(super) async fn list(State(state): State<ApiState>) -> Result<Json<Vec<Listed>>, Problem> {
    Ok(Json(state.router.list_snapshots().await?))
}

/// A snapshot to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WantedSnapshot)]
pub(super) struct Create {
    /// Its name; that of the next sequence number when absent.
    #[serde(default)]
    #[schema(pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length = 80)]
    name: Option<String>,
}

/// Writes all that memory holds into a snapshot.
#[utoipa::path(
    post,
    path = "/v1/memory/snapshots",
    operation_id = "create_snapshot",
    tag = "memory",
    request_body(content = Create, example = json!({"name": "before-upgrade"})),
    responses((status = 201, description = "The snapshot is there", body = Snapshot), CreateProblems)
)]
pub(super) async fn create(
    State(state): State<ApiState>,
    JsonBody(Object(Create { name })): JsonBody<Object<Create>>,
) -> Result<(StatusCode, Json<Snapshot>), Problem> {
    Ok((StatusCode::CREATED, Json(state.router.create_snapshot(name).await?)))
}

/// Reads a snapshot to its end and checks every digest.
#[utoipa::path(
    post,
    path = "/v1/memory/snapshots/{name}/verify",
    operation_id = "verify_snapshot",
    tag = "memory",
    params(("name" = SnapshotName, Path, description = "The snapshot's name")),
    responses((status = 200, description = "It is whole", body = Snapshot), SnapshotProblems)
)]
pub(super) async fn verify(
    State(state): State<ApiState>,
    Segments(name): Segments<String>,
) -> Result<Json<Snapshot>, Problem> {
    Ok(Json(state.router.verify_snapshot(name).await?))
}

/// Makes memory hold what a snapshot holds, while tasks flow.
#[utoipa::path(
    post,
    path = "/v1/memory/snapshots/{name}/restore",
    operation_id = "restore_snapshot",
    tag = "memory",
    params(("name" = SnapshotName, Path, description = "The snapshot's name")),
    responses((status = 200, description = "Memory rests on it", body = Snapshot), SnapshotProblems)
)]
pub(super) async fn restore(
    State(state): State<ApiState>,
    Segments(name): Segments<String>,
) -> Result<Json<Snapshot>, Problem> {
    Ok(Json(state.router.restore_snapshot(name).await?))
}

/// Deletes a snapshot on which memory does not rest.
#[utoipa::path(
    delete,
    path = "/v1/memory/snapshots/{name}",
    operation_id = "delete_snapshot",
    tag = "memory",
    params(("name" = SnapshotName, Path, description = "The snapshot's name")),
    responses((status = 204, description = "It is gone"), SnapshotProblems)
)]
pub(super) async fn delete(
    State(state): State<ApiState>,
    Segments(name): Segments<String>,
) -> Result<StatusCode, Problem> {
    state.router.delete_snapshot(name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A snapshot's file.
#[utoipa::path(
    get,
    path = "/v1/memory/snapshots/{name}",
    operation_id = "download_snapshot",
    tag = "memory",
    params(("name" = SnapshotName, Path, description = "The snapshot's name")),
    responses((status = 200, description = "The file", content_type = "application/zip", body = SnapshotFile), SnapshotProblems)
)]
pub(super) async fn download(
    State(state): State<ApiState>,
    Segments(name): Segments<String>,
) -> Result<Response, Problem> {
    let path = state.router.snapshots().path(&name)?;
    let file = match File::open(&path).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(SnapshotError::Unknown(name).into()),
        opened => opened.map_err(SnapshotError::io(&path))?,
    };
    let bytes = file.metadata().await.map_err(SnapshotError::io(&path))?.len();
    let chunks = stream::try_unfold(file, |mut file| async move {
        let mut chunk = vec![0; CHUNK];
        let read = file.read(&mut chunk).await?;
        chunk.truncate(read);
        Ok::<_, io::Error>((read > 0).then_some((chunk, file)))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/zip".to_owned()),
        (header::CONTENT_LENGTH, bytes.to_string()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.zip\"")),
    ];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

/// Takes a snapshot's file as the body, which is read whole and checked before it is there.
#[utoipa::path(
    put,
    path = "/v1/memory/snapshots/{name}",
    operation_id = "upload_snapshot",
    tag = "memory",
    params(("name" = SnapshotName, Path, description = "The snapshot's name")),
    request_body(content = SnapshotFile, content_type = "application/zip", description = "The file, at most 8 GiB"),
    responses((status = 201, description = "The snapshot is there", body = Snapshot), UploadProblems)
)]
pub(super) async fn upload(
    State(state): State<ApiState>,
    Segments(name): Segments<String>,
    body: Body,
) -> Result<(StatusCode, Json<Snapshot>), Problem> {
    let snapshots = std::sync::Arc::clone(state.router.snapshots());
    snapshots.path(&name)?;
    let part = snapshots.part()?;
    let failed = |error| SnapshotError::io(part.path())(error);
    let mut file = File::from_std(part.reopen().map_err(failed)?);
    let mut chunks = body.into_data_stream();
    let mut bytes = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Problem::invalid_json(format!("the upload broke off: {error}")))?;
        bytes += chunk.len() as u64;
        if bytes > SNAPSHOT_BYTES_MAX {
            return Err(Problem::too_large(format!("a snapshot has at most {SNAPSHOT_BYTES_MAX} bytes")));
        }
        file.write_all(&chunk).await.map_err(failed)?;
    }
    file.sync_all().await.map_err(failed)?;
    let snapshot = tokio::task::spawn_blocking(move || snapshots.adopt(part, &name)).await;
    let snapshot = snapshot.map_err(|error| Problem::internal(&format!("checking the upload failed: {error}")))??;
    Ok((StatusCode::CREATED, Json(snapshot)))
}
