//! Keeps web pages of other sites out: a browser that shows one may reach the loopback interface, and would send what
//! the page wants, though it does not show it the answer. Programs send no `Origin` and are not concerned. The pages of origins
//! that the configuration names may call, and read the answers.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use tower_http::cors::{AllowHeaders, CorsLayer};

use super::{ApiState, Problem, observe::REQUEST_ID};

/// Headers of answers that scripts of listed origins may read, beside those that every script may.
const SHOWN: [&str; 12] = [
    "x-pointsman-decision",
    "x-pointsman-arm",
    "x-pointsman-mode",
    "x-pointsman-domain",
    "x-pointsman-propensity",
    "x-pointsman-cost-usd",
    "x-pointsman-score",
    "x-pointsman-repeated",
    "x-pointsman-instead-of",
    "x-pointsman-explain",
    "x-pointsman-problem",
    "retry-after",
];

/// Answers browsers that ask whether a page may call. Without origins it lets everything pass.
pub(super) fn cors(origins: &[HeaderValue]) -> Option<CorsLayer> {
    let shown = SHOWN.map(HeaderName::from_static).into_iter().chain([REQUEST_ID]);
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(origins.to_vec())
            .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(shown.collect::<Vec<_>>())
    })
}

/// Refuses requests that a page of another origin makes.
pub(super) async fn refuse_foreign(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let listed = request.headers().get(header::ORIGIN).is_some_and(|origin| state.cors_origins.contains(origin));
    if !listed && is_foreign(request.headers(), request.uri()) {
        let detail = "the request comes from a web page of another site; send it from a program, open /dashboard here, or add \
                      the site to server.cors_origins";
        return Problem::new(StatusCode::FORBIDDEN, "cross-origin", "Pages of other sites are refused", detail)
            .into_response();
    }
    next.run(request).await
}

fn is_foreign(headers: &HeaderMap, uri: &Uri) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let host =
        headers.get(header::HOST).and_then(|host| host.to_str().ok()).or(uri.authority().map(|host| host.as_str()));
    let page = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    page.is_none() || page != host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_other_origins_are_foreign() {
        let foreign = |origin: Option<&str>| {
            let mut headers = HeaderMap::from_iter([(header::HOST, "127.0.0.1:7700".parse().unwrap())]);
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            is_foreign(&headers, &Uri::from_static("/v1/tasks"))
        };
        assert!(!foreign(None));
        assert!(!foreign(Some("http://127.0.0.1:7700")));
        assert!(foreign(Some("http://127.0.0.1:8080")));
        assert!(foreign(Some("https://example.org")));
        assert!(foreign(Some("null")));
    }
}
