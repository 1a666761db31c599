//! `/v1/reports`: replays that were saved for the page.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    ApiState, Problem,
    openapi::{
        parts::SnapshotName,
        problems::{problems, shared},
    },
    request::Segments,
};
use crate::replay::saved::{Listed, Report, SavedError};

problems!(ListProblems: shared::CLIENT, shared::ADMIN);
problems!(ReadProblems: shared::CLIENT, shared::ADMIN, shared::PLACE, &["unknown-report", "damaged-report"]);

/// A report under its name.
#[derive(Serialize, ToSchema)]
pub(super) struct NamedReport {
    /// Its name.
    name: String,
    #[serde(flatten)]
    report: Report,
}

/// Reports of replays that were saved with `pointsman replay --save NAME`.
#[utoipa::path(
    get,
    path = "/v1/reports",
    operation_id = "list_reports",
    tag = "insight",
    responses((status = 200, description = "The newest first; those that cannot be read too", body = Vec<Listed>), ListProblems)
)]
pub(super) async fn list(State(state): State<ApiState>) -> Result<Json<Vec<Listed>>, Problem> {
    let reports = state.reports;
    Ok(Json(blocking(move || reports.list()).await?))
}

/// One report.
#[utoipa::path(
    get,
    path = "/v1/reports/{name}",
    operation_id = "report",
    tag = "insight",
    params(("name" = SnapshotName, Path, description = "Its name")),
    responses((status = 200, description = "As it was saved", body = NamedReport), ReadProblems)
)]
pub(super) async fn read(
    State(state): State<ApiState>,
    Segments(name): Segments<String>,
) -> Result<Json<NamedReport>, Problem> {
    let (reports, wanted) = (state.reports, name.clone());
    let report = blocking(move || reports.read(&wanted)).await?;
    Ok(Json(NamedReport { name, report }))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SavedError> + Send + 'static,
) -> Result<T, Problem> {
    let ran = tokio::task::spawn_blocking(work).await;
    Ok(ran.map_err(|error| Problem::internal(&format!("reading reports did not end: {error}")))??)
}
