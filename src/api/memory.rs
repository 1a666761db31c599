//! `/v1/memory`: what memory holds, and its snapshots.

use std::io::{self, ErrorKind};

use axum::{
    Json,
    body::Body,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use serde::Deserialize;
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncWriteExt},
};

use super::{ApiState, Problem, request::Body as JsonBody};
use crate::{
    round::{ArmId, Domain, Invalid},
    router::{Filter, Listed, MIN_SIMILARITY, MemoryRecord, MemoryStats, RECALL_K, Snapshot, SnapshotError},
};

/// The most entries that one search returns.
const K_MAX: usize = 100;
/// The largest snapshot taken by upload.
const SNAPSHOT_BYTES_MAX: u64 = 8 << 30;
/// Bytes of a download read at a time.
const CHUNK: usize = 1 << 16;

pub(super) async fn stats(State(state): State<ApiState>) -> Result<Json<MemoryStats>, Problem> {
    Ok(Json(state.router.memory_stats().await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    text: String,
    k: Option<usize>,
    min_similarity: Option<f32>,
    domain: Option<Domain>,
    arm: Option<ArmId>,
}

pub(super) async fn search(
    State(state): State<ApiState>,
    query: Result<Query<Search>, QueryRejection>,
) -> Result<Json<Vec<MemoryRecord>>, Problem> {
    let Query(Search { text, k, min_similarity, domain, arm }) =
        query.map_err(|error| Problem::invalid_query(error.body_text()))?;
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

pub(super) async fn entry(
    State(state): State<ApiState>,
    Path(seq): Path<String>,
) -> Result<Json<MemoryRecord>, Problem> {
    let seq = seq.parse().map_err(|_| Invalid::new("seq", "must be a whole number, such as 17"))?;
    let found = state.router.memory_entry(seq).await?;
    found.map(Json).ok_or_else(|| Problem::unknown_entry(seq))
}

pub(super) async fn list(State(state): State<ApiState>) -> Result<Json<Vec<Listed>>, Problem> {
    Ok(Json(state.router.list_snapshots().await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    #[serde(default)]
    name: Option<String>,
}

pub(super) async fn create(
    State(state): State<ApiState>,
    JsonBody(Create { name }): JsonBody<Create>,
) -> Result<(StatusCode, Json<Snapshot>), Problem> {
    Ok((StatusCode::CREATED, Json(state.router.create_snapshot(name).await?)))
}

pub(super) async fn verify(State(state): State<ApiState>, Path(name): Path<String>) -> Result<Json<Snapshot>, Problem> {
    Ok(Json(state.router.verify_snapshot(name).await?))
}

pub(super) async fn restore(
    State(state): State<ApiState>,
    Path(name): Path<String>,
) -> Result<Json<Snapshot>, Problem> {
    Ok(Json(state.router.restore_snapshot(name).await?))
}

pub(super) async fn delete(State(state): State<ApiState>, Path(name): Path<String>) -> Result<StatusCode, Problem> {
    state.router.delete_snapshot(name).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn download(State(state): State<ApiState>, Path(name): Path<String>) -> Result<Response, Problem> {
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

/// Takes a snapshot's file as the body. It is read whole and checked before it is there.
pub(super) async fn upload(
    State(state): State<ApiState>,
    Path(name): Path<String>,
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
