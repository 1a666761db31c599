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
mod feed;
mod feedback;
mod keys;
mod memory;
mod models;
mod observe;
mod openapi;
mod ops;
mod origin;
mod overview;
mod policies;
mod problem;
mod regret;
mod reports;
mod request;
mod server;
mod stream;
mod tasks;
mod verifiers;
mod webhooks;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use axum::{
    Extension, Router as Routes,
    extract::DefaultBodyLimit,
    http::{HeaderValue, header},
    middleware,
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tower::util::option_layer;
use tower_http::{catch_panic::CatchPanicLayer, set_header::SetResponseHeaderLayer, timeout::RequestBodyTimeoutLayer};
use utoipa::OpenApi;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt},
    routes,
};

use crate::{
    dashboard,
    replay::saved::Reports,
    router::{COMPONENT_BYTES_MAX, Router},
    webhooks::Webhooks,
};

pub use admin::AdminKey;
pub use caller::Caller;
pub use feed::Feed;
pub use keys::{KeyReport, KeyStatus};
pub use overview::Pulse;
pub use problem::Problem;
pub use server::{Serving, TlsFiles, serve};

/// Limits of the HTTP surface.
#[derive(Debug, Clone, Copy)]
pub struct ApiLimits {
    /// The largest request body, in bytes, streams excepted.
    pub body_bytes_max: usize,
    /// The longest line of a stream, in bytes.
    pub line_bytes_max: usize,
    /// Tasks of one stream in flight.
    pub stream_concurrency: usize,
    /// How long a body may stop between two of its parts, streams excepted.
    pub body_timeout: Duration,
}

/// How far a run of known length is, for the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
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
    /// The origins whose web pages may call from a browser, such as `https://app.example.org`.
    pub cors_origins: Arc<[HeaderValue]>,
    /// Those who are told what was finished.
    pub webhooks: Arc<Webhooks>,
    /// Renders the metrics, where a recorder is installed.
    pub metrics: Option<PrometheusHandle>,
    /// Replays that were saved for the page.
    pub reports: Reports,
    /// What live pages are told.
    pub feed: Arc<Feed>,
    /// Set by a run of known length.
    pub progress: Arc<ArcSwapOption<Progress>>,
    /// Cancelled when the server stops, so that live event streams end.
    pub stopping: CancellationToken,
    /// When the server started.
    pub started: Instant,
}

impl ApiState {
    fn pulse(&self) -> Pulse {
        Pulse { progress: Arc::clone(&self.progress), started: self.started }
    }
}

/// All routes.
pub fn routes(state: ApiState) -> Routes {
    let limit = state.limits.body_bytes_max;
    let (clients, described) = client_routes(limit).split_for_parts();
    let (admins, of_admins) = admin_routes(limit).split_for_parts();
    let (streams, of_streams) = stream_routes().split_for_parts();
    let described = described.merge_from(of_admins).merge_from(of_streams);
    clients
        .merge(admins.route_layer(middleware::from_fn_with_state(state.clone(), caller::require_admin)))
        .layer(RequestBodyTimeoutLayer::new(state.limits.body_timeout))
        .merge(streams)
        .merge(dashboard::routes())
        .merge(openapi::page::routes())
        .fallback(problem::no_such_route)
        .method_not_allowed_fallback(problem::wrong_method)
        .layer(Extension(openapi::Document::of(&described)))
        .layer(middleware::from_fn_with_state(state.clone(), caller::identify))
        .layer(middleware::from_fn_with_state(state.clone(), origin::refuse_foreign))
        .layer(option_layer(origin::cors(&state.cors_origins)))
        .layer(SetResponseHeaderLayer::if_not_present(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ))
        .layer(middleware::from_fn(observe::observe))
        .layer(CatchPanicLayer::custom(problem::panicked))
        .with_state(state)
}

/// The description of all routes but the pages for people: OpenAPI 3.1, as it is served at `/openapi.json`.
pub fn description() -> serde_json::Value {
    let any = usize::MAX;
    let described = client_routes(any).into_openapi().merge_from(admin_routes(any).into_openapi());
    openapi::finished(&described.merge_from(stream_routes().into_openapi()))
}

/// The routes that tasks and those who watch them need.
fn client_routes(body_bytes_max: usize) -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(openapi::Whole::openapi())
        .routes(routes!(tasks::run))
        .routes(routes!(tasks::route))
        .routes(routes!(chat::completions))
        .routes(routes!(chat::messages))
        .routes(routes!(models::list))
        .routes(routes!(feedback::give))
        .routes(routes!(feedback::give_many))
        .routes(routes!(decisions::explain))
        .routes(routes!(regret::report))
        .routes(routes!(overview::overview))
        .routes(routes!(overview::history))
        .routes(routes!(overview::domain))
        .routes(routes!(events::watch))
        .routes(routes!(memory::stats))
        .routes(routes!(memory::search))
        .routes(routes!(memory::map))
        .routes(routes!(reports::list))
        .routes(routes!(reports::read))
        .routes(routes!(memory::entry))
        .routes(routes!(ops::healthz))
        .routes(routes!(ops::readyz))
        .routes(routes!(ops::metrics))
        .routes(routes!(openapi::describe))
        .layer(DefaultBodyLimit::max(body_bytes_max))
}

/// A stream may be of any length; its lines are limited one by one.
fn stream_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::default().routes(routes!(stream::run).layer(DefaultBodyLimit::disable()))
}

/// The routes that change the router.
fn admin_routes(body_bytes_max: usize) -> OpenApiRouter<ApiState> {
    let verifier = routes!(verifiers::show, verifiers::install, verifiers::patch, verifiers::remove);
    OpenApiRouter::default()
        .routes(routes!(memory::list, memory::create))
        .routes(routes!(memory::verify))
        .routes(routes!(memory::restore))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(keys::tenants))
        .routes(routes!(webhooks::list))
        .routes(routes!(webhooks::test))
        .routes(routes!(arms::list, arms::add))
        .routes(routes!(arms::patch, arms::remove))
        .routes(routes!(policies::list))
        .routes(routes!(policies::promote))
        .routes(routes!(policies::shadow))
        .routes(routes!(policies::roll_back))
        .routes(routes!(verifiers::sets))
        .routes(routes!(verifiers::dry_run))
        .routes(routes!(verifiers::list))
        .routes(routes!(verifiers::roll_back))
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .routes(verifier.layer(DefaultBodyLimit::max(COMPONENT_BYTES_MAX)))
        // A snapshot is large; its size is limited while it is read.
        .routes(routes!(memory::download, memory::upload, memory::delete).layer(DefaultBodyLimit::disable()))
}
