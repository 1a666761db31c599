//! `GET /v1/events`: finished rounds as server-sent events, live.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    response::sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, StreamExt, stream};
use serde::Serialize;
use tokio_stream::wrappers::{BroadcastStream, errors::BroadcastStreamRecvError};
use utoipa::ToSchema;

use super::{
    ApiState,
    openapi::problems::{problems, shared},
};

/// What a watcher that is too slow is told.
#[derive(Serialize, ToSchema)]
pub(super) struct Lagged {
    /// How many events it missed.
    missed: u64,
}

problems!(WatchProblems: shared::CLIENT, shared::ADMIN);

/// Finished rounds as server-sent events, the newest 30 first and then live.
///
/// An event `round` holds a `RoundEvent` as its data, an event `lagged` a `Lagged`.
#[utoipa::path(
    get,
    path = "/v1/events",
    operation_id = "watch_events",
    tag = "insight",
    responses((status = 200, description = "An endless stream", content_type = "text/event-stream", body = serde_json::Value), WatchProblems)
)]
pub(super) async fn watch(State(state): State<ApiState>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let stopping = state.stopping.clone();
    let (recent, live) = state.router.events().watch();
    let events = stream::iter(recent.into_iter().map(Ok))
        .chain(BroadcastStream::new(live))
        .map(|received| {
            let event = match received {
                Ok(round) => Event::default().event("round").json_data(round),
                Err(BroadcastStreamRecvError::Lagged(missed)) => {
                    Event::default().event("lagged").json_data(Lagged { missed })
                }
            };
            Ok(event.unwrap_or_else(|error| Event::default().comment(error.to_string())))
        })
        .take_until(stopping.cancelled_owned());
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
}
