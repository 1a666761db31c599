//! What operators' tools ask for.

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{ApiState, Problem};

/// The process answers.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// The daemon takes tasks and learns: the journal is folded, the learner is alive and it is not stopping.
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

/// Prometheus text.
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
