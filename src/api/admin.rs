//! The admin key: what changes the router needs it, where one is configured.
//!
//! Reading stays open. Without a key the daemon listens on loopback only, and whoever is there may change it.

use std::fmt;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{ApiState, Problem};

/// The hash of the admin key: the key itself is not kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AdminKey(blake3::Hash);

impl AdminKey {
    /// The hash of a key.
    pub fn of(key: &str) -> Self {
        Self(blake3::hash(key.as_bytes()))
    }

    // Hashes are compared in constant time.
    fn opens(self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        given.is_some_and(|(scheme, key)| scheme.eq_ignore_ascii_case("bearer") && Self::of(key.trim()) == self)
    }
}

impl fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminKey(..)")
    }
}

/// Lets only those change something who have the key.
pub(super) async fn require(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match state.admin_key {
        Some(key) if !reads && !key.opens(request.headers()) => refused().into_response(),
        Some(_) | None => next.run(request).await,
    }
}

fn refused() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "admin-key-needed",
        "The admin key is needed",
        "send the header `Authorization: Bearer KEY` with the admin key that the daemon was started with; the commands \
         take it from $POINTSMAN_ADMIN_KEY",
    )
}
