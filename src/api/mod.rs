//! The HTTP surface: one file per resource, one table of errors.
//!
//! Handlers check and translate; the router does the work. Every error is an RFC 9457 problem document that says
//! what to do.

mod admin;
mod arms;
mod caller;
mod chat;
mod decisions;
mod events;
mod feedback;
mod keys;
mod memory;
mod ops;
mod origin;
mod policies;
mod problem;
mod regret;
mod request;
mod stream;
mod tasks;
mod verifiers;
mod webhooks;

use std::{sync::Arc, time::Instant};

use arc_swap::ArcSwapOption;
use axum::{
    Router as Routes,
    extract::{DefaultBodyLimit, MatchedPath, Request},
    middleware::{self, Next},
    response::Response,
    routing::{self, delete, get, post},
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    dashboard,
    router::{COMPONENT_BYTES_MAX, Router},
    telemetry::Metric,
    webhooks::Webhooks,
};

pub use admin::AdminKey;
pub use caller::Caller;
pub use keys::{KeyReport, KeyStatus};
pub use problem::Problem;

/// Limits of the HTTP surface.
#[derive(Debug, Clone, Copy)]
pub struct ApiLimits {
    /// The largest request body, in bytes, streams excepted.
    pub body_bytes_max: usize,
    /// The longest line of a stream, in bytes.
    pub line_bytes_max: usize,
    /// Tasks of one stream in flight.
    pub stream_concurrency: usize,
}

/// How far a run of known length is, for the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Tasks done.
    pub done: u64,
    /// Tasks in all.
    pub total: u64,
}

/// What handlers share.
#[derive(Clone)]
pub struct ApiState {
    /// The loop.
    pub router: Arc<Router>,
    /// Limits.
    pub limits: ApiLimits,
    /// Opens everything, where there is one.
    pub admin_key: Option<AdminKey>,
    /// Whether others than this machine's programs may reach the daemon: every request needs a key then.
    pub exposed: bool,
    /// Those who are told what was finished.
    pub webhooks: Arc<Webhooks>,
    /// Renders the metrics, where a recorder is installed.
    pub metrics: Option<PrometheusHandle>,
    /// Set by a run of known length.
    pub progress: Arc<ArcSwapOption<Progress>>,
    /// Cancelled when the server stops, so that live event streams end.
    pub stopping: CancellationToken,
    /// When the server started.
    pub started: Instant,
}

/// All routes.
pub fn routes(state: ApiState) -> Routes {
    let limit = state.limits.body_bytes_max;
    Routes::new()
        .route("/v1/tasks", post(tasks::run))
        .route("/v1/route", post(tasks::route))
        .route("/v1/chat/completions", post(chat::completions))
        .route("/v1/messages", post(chat::messages))
        .route("/v1/models", get(chat::models))
        .route("/v1/feedback", post(feedback::give))
        .route("/v1/feedback/batch", post(feedback::give_many))
        .route("/v1/decisions/{id}", get(decisions::explain))
        .route("/v1/regret", get(regret::report))
        .route("/v1/events", get(events::watch))
        .route("/v1/memory", get(memory::stats))
        .route("/v1/memory/search", get(memory::search))
        .route("/v1/memory/entries/{seq}", get(memory::entry))
        .route("/healthz", get(ops::healthz))
        .route("/readyz", get(ops::readyz))
        .route("/metrics", get(ops::metrics))
        .layer(DefaultBodyLimit::max(limit))
        .merge(admin_routes(&state))
        // A stream may be of any length; its lines are limited one by one.
        .route("/v1/tasks/stream", post(stream::run).layer(DefaultBodyLimit::disable()))
        .merge(dashboard::routes())
        .fallback(problem::no_such_route)
        .method_not_allowed_fallback(problem::wrong_method)
        .layer(middleware::from_fn_with_state(state.clone(), caller::identify))
        .layer(middleware::from_fn(origin::refuse_foreign))
        .layer(middleware::from_fn(count))
        .layer(CatchPanicLayer::custom(problem::panicked))
        .with_state(state)
}

/// The routes that change the router.
fn admin_routes(state: &ApiState) -> Routes<ApiState> {
    let verifier = get(verifiers::show).put(verifiers::install).patch(verifiers::patch).delete(verifiers::remove);
    Routes::new()
        .route("/v1/memory/snapshots", get(memory::list).post(memory::create))
        .route("/v1/memory/snapshots/{name}/verify", post(memory::verify))
        .route("/v1/memory/snapshots/{name}/restore", post(memory::restore))
        .route("/v1/keys", get(keys::list).post(keys::create))
        .route("/v1/keys/{id}", delete(keys::revoke))
        .route("/v1/tenants", get(keys::tenants))
        .route("/v1/webhooks", get(webhooks::list))
        .route("/v1/webhooks/{name}/test", post(webhooks::test))
        .route("/v1/arms", get(arms::list).post(arms::add))
        .route("/v1/arms/{*arm}", routing::patch(arms::patch).delete(arms::remove))
        .route("/v1/policies", get(policies::list))
        .route("/v1/policies/promote", post(policies::promote))
        .route("/v1/policies/shadow", post(policies::shadow))
        .route("/v1/policies/rollback", post(policies::roll_back))
        .route("/v1/domains", get(verifiers::sets))
        .route("/v1/domains/{domain}/dry-run", post(verifiers::dry_run))
        .route("/v1/domains/{domain}/verifiers", get(verifiers::list))
        .route("/v1/domains/{domain}/verifiers/{name}/rollback", post(verifiers::roll_back))
        .layer(DefaultBodyLimit::max(state.limits.body_bytes_max))
        .route("/v1/domains/{domain}/verifiers/{name}", verifier.layer(DefaultBodyLimit::max(COMPONENT_BYTES_MAX)))
        // A snapshot is large; its size is limited while it is read.
        .route(
            "/v1/memory/snapshots/{name}",
            get(memory::download).put(memory::upload).delete(memory::delete).layer(DefaultBodyLimit::disable()),
        )
        .route_layer(middleware::from_fn_with_state(state.clone(), caller::require_admin))
}

async fn count(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched".into(), |path| path.as_str().to_owned());
    let response = next.run(request).await;
    let status = response.status().as_u16().to_string();
    metrics::counter!(Metric::HttpRequests.name(), "route" => route, "status" => status).increment(1);
    response
}
