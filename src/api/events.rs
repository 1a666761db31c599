//! `GET /v1/events`: finished rounds and the figures of now as server-sent events, live.

use std::convert::Infallible;

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use futures::StreamExt;

use super::{
    ApiState,
    openapi::problems::{problems, shared},
};

problems!(WatchProblems: shared::CLIENT, shared::ADMIN);

/// Finished rounds as server-sent events, in groups every 200 ms: the newest 200 first, or those after the number that the
/// header `Last-Event-ID` gives, and then live.
///
/// An event `round` holds a `RoundEvent` as its data and has its `seq` as id, an event `figures` an `Overview`, about once a second
/// while something happens, an event `lagged` a `Lagged`.
#[utoipa::path(
    get,
    path = "/v1/events",
    operation_id = "watch_events",
    tag = "insight",
    params(("last-event-id" = Option<i64>, Header, description = "The id of the last event that was seen")),
    responses((status = 200, description = "An endless stream", content_type = "text/event-stream", body = serde_json::Value), WatchProblems)
)]
pub(super) async fn watch(State(state): State<ApiState>, headers: HeaderMap) -> Response {
    // A number that makes no sense is none: a watcher that comes again is not to be kept out by it.
    let last =
        headers.get("last-event-id").and_then(|value| value.to_str().ok()).and_then(|text| text.trim().parse().ok());
    let told = state.feed.watch(last).map(Ok::<_, Infallible>).take_until(state.stopping.clone().cancelled_owned());
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(told)).into_response()
}
