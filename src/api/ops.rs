//! What operators' tools ask for.

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    ApiState, Problem,
    openapi::problems::{problems, shared},
};

problems!(OpenProblems: &["cross-origin", "internal"]);
problems!(MetricsProblems: shared::CLIENT, shared::ADMIN, &["no-metrics"]);

/// The process answers.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "healthz",
    tag = "operations",
    security(()),
    responses((status = 200, description = "It does", content_type = "text/plain", body = String, example = "ok\n"), OpenProblems)
)]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// The daemon takes tasks and learns: the journal is folded, the learner is alive and it is not stopping.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readyz",
    tag = "operations",
    security(()),
    responses(
        (status = 200, description = "It does", content_type = "text/plain", body = String, example = "ready\n"),
        (status = 503, description = "It does not; the text says why", content_type = "text/plain", body = String),
        OpenProblems
    )
)]
pub(super) async fn readyz(State(state): State<ApiState>) -> Response {
    if state.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
    }
    if !state.router.is_learning() {
        let said = "learning has stopped; the log says why; restart the daemon, the journal has every round\n";
        return (StatusCode::SERVICE_UNAVAILABLE, said).into_response();
    }
    "ready\n".into_response()
}

/// Metrics as Prometheus reads them.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "operations",
    responses((status = 200, description = "Prometheus text", content_type = "text/plain", body = String), MetricsProblems)
)]
pub(super) async fn metrics(State(state): State<ApiState>) -> Response {
    match &state.metrics {
        Some(handle) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], handle.render()).into_response(),
        None => Problem::new(
            StatusCode::NOT_FOUND,
            "no-metrics",
            "No metrics are recorded",
            "this process was started without a metrics recorder",
        )
        .into_response(),
    }
}
