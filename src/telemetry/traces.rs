//! Traces: spans of the loop by OpenTelemetry's conventions, joined to those of clients and workers by `traceparent`.
//!
//! A round's spans are `embed`, `recall`, `decide`, one `chat MODEL` for each call of a worker (the conventions for generative
//! models), and `verify`, below the request's own. Nobody pays for them where no collector is configured. Texts of tasks are in
//! them only where that was asked for.

use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::{
    global,
    propagation::{Extractor, Injector},
};
use serde_json::json;
use tracing::{Span, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::round::Message;

/// What spans below a request's go under, so that a filter of logs can leave them out.
pub const TRACES: &str = "pointsman::traces";

static MESSAGES: AtomicBool = AtomicBool::new(false);

/// Lets spans hold the texts of tasks and answers from now on.
pub fn trace_messages() {
    MESSAGES.store(true, Ordering::Relaxed);
}

/// Makes a span a child of the one that a client's headers name.
pub fn continue_trace(span: &Span, headers: &HeaderMap) {
    if headers.contains_key("traceparent") {
        let parent = global::get_text_map_propagator(|propagator| propagator.extract(&Read(headers)));
        // Without a collector there is nothing to be joined.
        let _ = span.set_parent(parent);
    }
}

/// The headers that make what a worker does a part of a span; none where nothing is traced.
pub fn trace_headers(span: &Span) -> HeaderMap {
    let mut headers = HeaderMap::new();
    global::get_text_map_propagator(|propagator| {
        propagator.inject_context(&span.context(), &mut Write(&mut headers));
    });
    headers
}

/// The span of a call of a worker.
pub fn call_span(provider: &str, model: &str, address: &str, arm: &str, messages: &[Message]) -> Span {
    let span = tracing::info_span!(
        target: TRACES,
        "call",
        otel.name = format!("chat {model}"),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        server.address = address,
        error.type = Empty,
        pointsman.arm = arm,
        pointsman.cost_usd = Empty,
    );
    if MESSAGES.load(Ordering::Relaxed) && !span.is_disabled() {
        let said = messages.iter().map(|Message { role, content }| message(role, content));
        span.record("gen_ai.input.messages", json!(said.collect::<Vec<_>>()).to_string());
    }
    span
}

/// What a call gave.
pub fn record_call(
    span: &Span,
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: f64,
    output: &str,
    failed: Option<&str>,
) {
    if span.is_disabled() {
        return;
    }
    span.record("gen_ai.usage.input_tokens", input_tokens);
    span.record("gen_ai.usage.output_tokens", output_tokens);
    span.record("pointsman.cost_usd", cost_usd);
    if let Some(kind) = failed {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", kind);
    }
    if MESSAGES.load(Ordering::Relaxed) {
        span.record("gen_ai.output.messages", json!([message("assistant", output)]).to_string());
    }
}

fn message(role: &str, content: &str) -> serde_json::Value {
    json!({"role": role, "parts": [{"type": "text", "content": content}]})
}

struct Read<'a>(&'a HeaderMap);

impl Extractor for Read<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

struct Write<'a>(&'a mut HeaderMap);

impl Injector for Write<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}
