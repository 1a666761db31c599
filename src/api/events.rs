//! `GET /v1/events`: finished rounds as server-sent events, live.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    response::sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, StreamExt, stream};
use tokio_stream::wrappers::{BroadcastStream, errors::BroadcastStreamRecvError};

use super::ApiState;

pub(super) async fn watch(State(state): State<ApiState>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let stopping = state.stopping.clone();
    let (recent, live) = state.router.events().watch();
    let events = stream::iter(recent.into_iter().map(Ok))
        .chain(BroadcastStream::new(live))
        .map(|received| {
            let event = match received {
                Ok(round) => Event::default().event("round").json_data(round),
                Err(BroadcastStreamRecvError::Lagged(missed)) => {
                    Event::default().event("lagged").json_data(serde_json::json!({"missed": missed}))
                }
            };
            Ok(event.unwrap_or_else(|error| Event::default().comment(error.to_string())))
        })
        .take_until(stopping.cancelled_owned());
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
}
