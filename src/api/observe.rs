//! What is seen of every request: its id, its span and its count.

use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    middleware::Next,
    response::Response,
};
use tracing::{Instrument, Span, field::Empty};
use uuid::Uuid;

use crate::telemetry::{self, Metric};

/// Names a request in logs, traces and answers.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that is taken from a client.
const ID_BYTES_MAX: usize = 128;

/// Gives a request its id, a span that goes on from the client's, and counts it.
pub(super) async fn observe(mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched".into(), |path| path.as_str().to_owned());
    let id = id(request.headers());
    let span = tracing::info_span!(
        "request",
        otel.name = format!("{} {route}", request.method()),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = %request.method(),
        http.route = route,
        http.response.status_code = Empty,
        request_id = id.to_str().unwrap_or_default(),
    );
    telemetry::continue_trace(&span, request.headers());
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let mut response = next.run(request).instrument(span.clone()).await;
    response.headers_mut().insert(REQUEST_ID, id);
    note(&span, &route, &response);
    response
}

fn note(span: &Span, route: &str, response: &Response) {
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    let size = response.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    tracing::debug!(parent: span, status = status.as_u16(), size, "answered");
    let (route, status) = (route.to_owned(), status.as_u16().to_string());
    metrics::counter!(Metric::HttpRequests.name(), "route" => route, "status" => status).increment(1);
}

/// The client's own id, where it is short and printable; else a new one.
fn id(headers: &HeaderMap) -> HeaderValue {
    let own = headers.get(REQUEST_ID).filter(|id| {
        (1..=ID_BYTES_MAX).contains(&id.len()) && id.as_bytes().iter().all(|byte| byte.is_ascii_graphic())
    });
    own.cloned().unwrap_or_else(|| {
        let id = Uuid::now_v7().to_string();
        HeaderValue::try_from(id).unwrap_or_else(|_| HeaderValue::from_static("none"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_id_is_kept_where_it_can_be_logged() {
        let of = |own: &str| {
            let own = HeaderValue::from_bytes(own.as_bytes()).unwrap();
            id(&HeaderMap::from_iter([(REQUEST_ID, own)])).to_str().unwrap().to_owned()
        };
        assert_eq!(of("order-17"), "order-17");
        for odd in ["", "two words", &"a".repeat(129), "caf\u{e9}"] {
            assert!(Uuid::parse_str(&of(odd)).is_ok(), "{odd}");
        }
    }
}
