//! The description of the HTTP surface, made from the code that serves it: routes are registered together with what they take and
//! answer, so that one cannot be there without the other. What the macros cannot say is added here.

pub(super) mod chat;
pub(super) mod page;
pub(super) mod parts;
pub(super) mod problems;

use axum::{
    extract::Extension,
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde_json::{Value, json};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        self,
        security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use super::{
    arms::NewArm,
    feed::Lagged,
    problem::Problem,
    stream::{Line, Order},
};
use crate::{round::OnError, telemetry::RoundEvent};

/// What the document says of the whole.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Pointsman",
        description = "An online contextual-bandit router for LLM work: tasks are decided, run, verified and learnt from. Errors are \
                       RFC 9457 problem documents of type `urn:pointsman:problem:NAME`; the chat routes answer them in their \
                       protocol's own form. Whether a key is needed, and which, is said in docs/keys.md: once a key was made every \
                       route needs one but those without a lock here, and routes that answer `admin-only` need an admin's."
    ),
    modifiers(&Keys),
    security(("bearer" = []), ("x_api_key" = []), ("basic" = [])),
    components(schemas(Problem, chat::OpenAiAnswer, chat::OpenAiError, chat::AnthropicAnswer, chat::AnthropicError, NewArm, Line, Order, RoundEvent, Lagged, parts::SetName, parts::SnapshotName, OnError)),
    tags(
        (name = "tasks", description = "Tasks that are run here, decisions that are acted on elsewhere, and what they were worth"),
        (name = "chat", description = "OpenAI's and Anthropic's protocols, for clients that change their base URL and nothing else"),
        (name = "insight", description = "Why it decided so, and how well it does"),
        (name = "memory", description = "What memory holds, and its snapshots"),
        (name = "arms", description = "The workers that can be chosen"),
        (name = "policies", description = "Which policy decides, and which is on trial"),
        (name = "verifiers", description = "Who judges answers"),
        (name = "keys", description = "API keys and tenants"),
        (name = "webhooks", description = "Who is told of what was finished"),
        (name = "operations", description = "What operators' tools ask for")
    )
)]
pub(super) struct Whole;

/// How a key is shown.
struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let said = |scheme, text| HttpBuilder::new().scheme(scheme).description(Some(text)).build();
        let bearer = said(HttpAuthScheme::Bearer, "A key as OpenAI's clients send it: `Authorization: Bearer KEY`.");
        let basic = said(HttpAuthScheme::Basic, "A key as browsers send it: any name, and the key as password.");
        let header = ApiKeyValue::with_description("x-api-key", "A key as Anthropic's clients send it.");
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        components.add_security_scheme("basic", SecurityScheme::Http(basic));
        components.add_security_scheme("x_api_key", SecurityScheme::ApiKey(ApiKey::Header(header)));
    }
}

/// The finished document of the registered routes.
pub(super) fn finished(document: &openapi::OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_else(|error| {
        // It is made of text and numbers, so this cannot happen; if it does, it must be seen.
        tracing::error!(%error, "the description could not be written");
        Value::Null
    });
    plain_paths(&mut document);
    for (schema, either) in [
        ("TaskRequest", [("prompt", "string"), ("messages", "array")]),
        ("FeedbackRequest", [("score", "number"), ("output", "string")]),
    ] {
        let one = either.map(|(name, kind)| json!({"required": [name], "properties": {name: {"type": kind}}}));
        document["components"]["schemas"][schema]["oneOf"] = json!(one);
    }
    document
}

/// A part of a path that takes slashes too is a parameter like the others here; it is sent percent-encoded.
fn plain_paths(document: &mut Value) {
    let Some(paths) = document["paths"].as_object_mut() else { return };
    *paths = std::mem::take(paths).into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
}

/// The document as it is served.
#[derive(Clone)]
pub(super) struct Document(Bytes);

impl Document {
    pub(super) fn of(document: &openapi::OpenApi) -> Self {
        Self(finished(document).to_string().into())
    }
}

/// This description of the HTTP surface, in OpenAPI 3.1.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "describe",
    tag = "operations",
    security(()),
    responses((status = 200, description = "The document", content_type = "application/json", body = Object), Described)
)]
pub(super) async fn describe(Extension(Document(bytes)): Extension<Document>) -> Response {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-cache")], bytes).into_response()
}

problems::problems!(Described: &["cross-origin", "internal"]);
