//! `GET /docs`: the description as a page, from files inside the binary. It needs no network, and sends requests to this daemon only.

use std::sync::Arc;

use axum::{
    http::{HeaderValue, Uri, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use utoipa_swagger_ui::{Config, SwaggerFile, serve};

use super::super::{
    ApiState,
    problem::{self, Problem},
};

/// Scripts and connections to this daemon only; inline styles because the page sets sizes with them.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Where the page's files are.
const PREFIX: &str = "/docs/";

/// The page's routes.
pub(in crate::api) fn routes() -> axum::Router<ApiState> {
    // Without a validator the page shows no badge of another site.
    let config = Arc::new(Config::from("/openapi.json").validator_url("none").display_request_duration(true));
    let file = get(move |uri: Uri| file(Arc::clone(&config), uri));
    axum::Router::new()
        .route("/docs", get(async || Redirect::temporary(PREFIX)))
        .route(PREFIX, file.clone())
        .route("/docs/{*file}", file)
}

async fn file(config: Arc<Config<'static>>, uri: Uri) -> Response {
    let name = uri.path().strip_prefix(PREFIX).unwrap_or_default();
    // An error that is not `Send` must not be held across an await.
    match serve(name, config).map_err(|error| error.to_string()) {
        Ok(Some(file)) => page(file),
        Ok(None) => problem::no_such_route(uri).await.into_response(),
        Err(error) => Problem::internal(&format!("the page of the description: {error}")).into_response(),
    }
}

fn page(SwaggerFile { bytes, content_type, gzpipped, .. }: SwaggerFile<'_>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        // The files change only with the binary, and the daemon is near.
        (header::CACHE_CONTROL, "no-cache".to_owned()),
    ];
    let mut response = (headers, bytes.into_owned()).into_response();
    if gzpipped {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}
