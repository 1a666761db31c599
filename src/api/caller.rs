//! Who asks: every request's key, and what it opens.
//!
//! Once a key was ever made, or the daemon listens beyond loopback, every route needs one but those that tell nothing. Which
//! routes a client's key opens is listed here; all others, those of the future too, need an admin key. The key comes as
//! `Authorization: Bearer KEY`, as `x-api-key: KEY`, or as the password of `Authorization: Basic`, which is how browsers send
//! it for the page.
//!
//! As long as no key was made, whoever reaches loopback is trusted; where POINTSMAN_ADMIN_KEY is set, changes need that key.

use std::{borrow::Cow, convert::Infallible, sync::Arc};

use axum::{
    extract::{FromRequestParts, MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};

use super::{ApiState, Problem, chat};
use crate::{
    access::{KeyProblem, Rate, Scope},
    round::{KeyRecord, KeyRole, Task, TenantId},
    router::now_ms,
};

/// Routes that tell nothing of tasks, arms or money.
const OPEN: [&str; 6] = ["/healthz", "/readyz", "/openapi.json", "/docs", "/docs/", "/docs/{*file}"];
/// Routes that a client's key opens; what they show is its tenant's.
const CLIENTS: [&str; 10] = [
    "/v1/tasks",
    "/v1/tasks/stream",
    "/v1/route",
    "/v1/feedback",
    "/v1/feedback/batch",
    "/v1/decisions/{id}",
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/models",
    "/v1/models/{*model}",
];

/// Who asks.
#[derive(Debug, Clone)]
pub enum Caller {
    /// Anyone on this machine, as long as there are no keys.
    Anyone,
    /// The holder of an admin key.
    Admin,
    /// The holder of a client's key.
    Client(Arc<KeyRecord>),
}

impl Caller {
    /// Whose tasks the caller may see.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Anyone | Self::Admin => Scope::All,
            Self::Client(key) => Scope::Own(key.tenant.clone()),
        }
    }

    /// The tenant whose key it is.
    pub fn tenant(&self) -> Option<&TenantId> {
        match self {
            Self::Anyone | Self::Admin => None,
            Self::Client(key) => key.tenant.as_ref(),
        }
    }

    /// Makes a task the caller's: its tenant is the key's. Refuses one that names another.
    pub(super) fn own(&self, task: &mut Task) -> Result<(), Problem> {
        let Self::Client(key) = self else { return Ok(()) };
        if task.tenant.is_some() && task.tenant != key.tenant {
            let own = key.tenant.as_ref().map_or("none".into(), |tenant| format!("{tenant}"));
            let detail = format!("the tenant of key {} is {own}: leave `tenant` out, or use another key", key.id);
            return Err(Problem::new(StatusCode::FORBIDDEN, "other-tenant", "The key is another tenant's", detail));
        }
        task.tenant.clone_from(&key.tenant);
        Ok(())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or(Self::Anyone))
    }
}

/// Finds out who asks, and lets through whom the route is for.
pub(super) async fn identify(State(state): State<ApiState>, mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let (open, for_clients, page) =
        (OPEN.contains(&route), CLIENTS.contains(&route), route.starts_with("/dashboard") || route == "/");
    let caller = match who(&state, request.headers()) {
        // Pages hold no data; what they fetch asks for the key that it needs.
        Ok(Caller::Client(key)) if !open && !for_clients && !page => return other_role(&key).into_response(),
        Ok(caller) => caller,
        Err(_) if open => Caller::Anyone,
        Err(problem) => return chat::in_protocol(route, &problem).unwrap_or_else(|| challenge(problem, page)),
    };
    let tenant = caller.tenant().cloned();
    request.extensions_mut().insert(caller);
    let mut response = next.run(request).await;
    if let Some(rate) = tenant.and_then(|tenant| state.router.tenants().rate(&tenant)) {
        show(rate, response.headers_mut());
    }
    response
}

/// The holder of the key that a request shows.
fn who(state: &ApiState, headers: &HeaderMap) -> Result<Caller, Problem> {
    let keys = state.router.keys();
    let guarded = state.exposed || !keys.is_empty();
    let Some(shown) = shown(headers) else {
        return if guarded { Err(needed()) } else { Ok(Caller::Anyone) };
    };
    if state.admin_key.is_some_and(|admin| admin.is(&shown)) {
        return Ok(Caller::Admin);
    }
    match keys.open(&shown, now_ms()) {
        Ok(key) if key.role == KeyRole::Admin => Ok(Caller::Admin),
        Ok(key) => Ok(Caller::Client(key)),
        // SDKs always send some key.
        Err(_) if !guarded => Ok(Caller::Anyone),
        Err(problem) => Err(refused(problem)),
    }
}

fn shown(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let authorization = text(header::AUTHORIZATION).and_then(|value| value.split_once(' '));
    match authorization {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => Some(key.trim().into()),
        Some((scheme, pair)) if scheme.eq_ignore_ascii_case("basic") => {
            let pair = String::from_utf8(STANDARD.decode(pair.trim()).ok()?).ok()?;
            pair.split_once(':').map(|(_, password)| password.to_owned().into())
        }
        Some(_) | None => headers.get("x-api-key").and_then(|value| value.to_str().ok()).map(|key| key.trim().into()),
    }
}

/// Lets only those change the router who may: here where an admin key is set and no other key was made.
pub(super) async fn require_admin(
    State(state): State<ApiState>,
    caller: Caller,
    request: Request,
    next: Next,
) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match caller {
        Caller::Anyone if state.admin_key.is_some() && !reads => challenge(admin_needed(), false),
        Caller::Client(key) => other_role(&key).into_response(),
        Caller::Anyone | Caller::Admin => next.run(request).await,
    }
}

fn admin_needed() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "admin-key-needed",
        "The admin key is needed",
        "send the header `Authorization: Bearer KEY` with the admin key that the daemon was started with; the commands \
         take it from $POINTSMAN_ADMIN_KEY",
    )
}

fn needed() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "key-needed",
        "A key is needed",
        "send the header `Authorization: Bearer KEY` or `x-api-key: KEY`; whoever runs the daemon makes one with `pointsman \
         keys create`; the commands take an admin key from $POINTSMAN_ADMIN_KEY",
    )
}

fn refused(problem: KeyProblem) -> Problem {
    let (name, title, detail) = match problem {
        KeyProblem::Unknown => {
            ("invalid-key", "The key opens nothing", "it is none of this daemon's: look for a letter that is missing")
        }
        KeyProblem::Revoked => ("key-revoked", "The key opens nothing any more", "it was revoked: ask for another one"),
        KeyProblem::Expired => {
            ("key-expired", "The key opens nothing any more", "its time is over: ask for another one")
        }
    };
    Problem::new(StatusCode::UNAUTHORIZED, name, title, detail)
}

fn other_role(key: &KeyRecord) -> Problem {
    let detail =
        format!("key {} ({}) is a client's; what this route shows or changes needs an admin key", key.id, key.name);
    Problem::new(StatusCode::FORBIDDEN, "admin-only", "The route is for admins", detail)
}

/// A refusal with what browsers ask their user for: a key as password on the page, nothing elsewhere.
fn challenge(problem: Problem, page: bool) -> Response {
    let mut response = problem.into_response();
    let scheme = if page { "Basic realm=\"pointsman: any name, and an admin key as password\"" } else { "Bearer" };
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
    response
}

/// In the headers that OpenAI's clients read.
fn show(rate: Rate, headers: &mut HeaderMap) {
    headers.insert("x-ratelimit-limit-requests", rate.limit.into());
    headers.insert("x-ratelimit-remaining-requests", rate.remaining.into());
    let full_in = format!("{}ms", rate.full_in_ns.div_ceil(1_000_000));
    headers.extend(
        HeaderValue::from_str(&full_in)
            .ok()
            .map(|value| (header::HeaderName::from_static("x-ratelimit-reset-requests"), value)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_in_three_ways() {
        let with = |name: &'static str, value: &'static str| {
            let headers =
                HeaderMap::from_iter([(header::HeaderName::from_static(name), HeaderValue::from_static(value))]);
            shown(&headers).map(Cow::into_owned)
        };
        let key = Some("pm_x".to_owned());
        assert_eq!(with("authorization", "Bearer pm_x"), key);
        assert_eq!(with("authorization", "bearer  pm_x"), key);
        assert_eq!(with("x-api-key", "pm_x"), key);
        // me:pm_x
        assert_eq!(with("authorization", "Basic bWU6cG1feA=="), key);
        assert_eq!(with("authorization", "Basic !"), None);
        assert_eq!(with("authorization", "Digest x"), None);
        assert_eq!(with("cookie", "pm_x"), None);
    }
}
