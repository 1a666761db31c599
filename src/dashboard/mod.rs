//! The live page: static files inside the binary, fed by `/v1/regret` and `/v1/events`. It needs no network.

use axum::{
    Router as Routes,
    http::header,
    response::{IntoResponse, Redirect},
    routing::get,
};

/// Scripts and connections to this daemon only; inline styles for the chart library's sizes.
const POLICY: &str =
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

/// The page's routes.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Routes<S> {
    let file = |kind: &'static str, body: &'static str| get(move || async move { page(kind, body) });
    Routes::new()
        .route("/", get(|| async { Redirect::temporary("/dashboard") }))
        .route("/dashboard", file("text/html; charset=utf-8", include_str!("page/index.html")))
        .route("/dashboard/app.js", file("text/javascript; charset=utf-8", include_str!("page/app.js")))
        .route("/dashboard/style.css", file("text/css; charset=utf-8", include_str!("page/style.css")))
        .route("/dashboard/uplot.js", file("text/javascript; charset=utf-8", include_str!("page/uplot.iife.min.js")))
        .route("/dashboard/uplot.css", file("text/css; charset=utf-8", include_str!("page/uplot.min.css")))
}

fn page(kind: &'static str, body: &'static str) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // The files change only with the binary, and the daemon is near.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, body)
}
