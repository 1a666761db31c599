//! Keeps web pages of other sites out: a browser that shows one may reach the loopback interface, and would send what
//! the page wants, though it does not show it the answer. Programs send no `Origin` and are not concerned.

use axum::{
    extract::Request,
    http::{HeaderMap, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::Problem;

/// Refuses requests that a page of another origin makes.
pub(super) async fn refuse_foreign(request: Request, next: Next) -> Response {
    if is_foreign(request.headers(), request.uri()) {
        let detail =
            "the request comes from a web page of another site; send it from a program, or open /dashboard here";
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
