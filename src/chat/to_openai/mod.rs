//! A request of an Anthropic client for an OpenAI-compatible worker.

mod messages;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use self::messages::{Chat, Message};
use super::{
    ChatError, Protocol, RawObject,
    object::{Fields, Text},
    to_anthropic::number,
};

const TO: Protocol = Protocol::OpenAi;
/// The most stop sequences that the protocol takes.
const STOPS_MAX: usize = 4;

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Cow<'a, str>>,
    parameters: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: Schema<'a>,
}

#[derive(Serialize)]
struct Schema<'a> {
    name: &'static str,
    schema: &'a RawValue,
    strict: bool,
}

pub(super) fn translate(body: &RawObject, model: &str) -> Result<Vec<u8>, ChatError> {
    let mut fields = body.fields();
    fields.take("model");
    let limit: u64 = fields
        .parse("max_tokens", "a whole number of tokens, at least 1")?
        .ok_or_else(|| ChatError::invalid("max_tokens", "is missing"))?;
    let renamed = takes_max_completion_tokens(model);
    let mut chat = Chat::default();
    if let Some(system) = fields.take("system") {
        chat.system(system).map_err(|error| error.inside("system"))?;
    }
    fields.list("messages", |raw| chat.message(raw))?;
    let stream = fields.flag("stream")?;
    let (tool_choice, parallel_tool_calls) = match fields.take("tool_choice") {
        Some(raw) => tool_choice(raw).map_err(|error| error.inside("tool_choice"))?,
        None => (None, None),
    };
    let (reasoning_effort, response_format) = match fields.take("output_config") {
        Some(raw) => output_config(raw).map_err(|error| error.inside("output_config"))?,
        None => (None, None),
    };
    let request = Request {
        model,
        messages: chat.messages,
        max_tokens: Some(limit).filter(|_| !renamed),
        max_completion_tokens: Some(limit).filter(|_| renamed),
        stream,
        stream_options: stream.filter(|stream| *stream).map(|_| StreamOptions { include_usage: true }),
        temperature: number(&mut fields, "temperature", 0.0..=1.0)?,
        top_p: number(&mut fields, "top_p", 0.0..=1.0)?,
        stop: stops(&mut fields)?,
        tools: fields.list("tools", tool)?.unwrap_or_default(),
        tool_choice,
        parallel_tool_calls,
        user: fields.take("metadata").map(user).transpose()?.flatten(),
        reasoning_effort,
        response_format,
    };
    fields.ignore(&["cache_control", "service_tier", "context_management", "thinking"]);
    fields.finish(TO)?;
    serde_json::to_vec(&request).map_err(|error| ChatError::invalid("body", error.to_string()))
}

/// OpenAI's own reasoning models refuse `max_tokens`; many compatible servers know nothing else, and would answer without
/// a limit.
fn takes_max_completion_tokens(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let numbered = name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    numbered || name.starts_with("gpt-5")
}

fn stops<'a>(fields: &mut Fields<'a>) -> Result<Vec<Cow<'a, str>>, ChatError> {
    let stops: Vec<Text<'a>> = fields.parse("stop_sequences", "a list of strings")?.unwrap_or_default();
    if stops.len() > STOPS_MAX {
        return Err(ChatError::untranslatable("stop_sequences", TO, format!("at most {STOPS_MAX} are taken there")));
    }
    Ok(stops.into_iter().map(|Text(stop)| stop).collect())
}

fn user(raw: &RawValue) -> Result<Option<Cow<'_, str>>, ChatError> {
    let inside = |error: ChatError| error.inside("metadata");
    let mut fields = Fields::read(raw, "").map_err(inside)?;
    let user = fields.text("user_id").map_err(inside)?;
    fields.finish(TO).map_err(inside)?;
    Ok(user)
}

fn tool(raw: &RawValue) -> Result<Tool<'_>, ChatError> {
    let mut fields = Fields::read(raw, "")?;
    if fields.text("type")?.is_some_and(|kind| kind != "custom") {
        return Err(ChatError::untranslatable("type", TO, "only tools that the client runs have an equal"));
    }
    fields.ignore(&["cache_control", "eager_input_streaming"]);
    let function = Function {
        name: fields.need_text("name")?,
        description: fields.text("description")?,
        parameters: fields.need("input_schema")?,
        strict: fields.flag("strict")?,
    };
    fields.finish(TO)?;
    Ok(Tool { kind: "function", function })
}

fn tool_choice(raw: &RawValue) -> Result<(Option<Value>, Option<bool>), ChatError> {
    let mut fields = Fields::read(raw, "")?;
    let choice = match &*fields.need_text("type")? {
        "auto" => json!("auto"),
        "any" => json!("required"),
        "none" => json!("none"),
        "tool" => json!({"type": "function", "function": {"name": fields.need_text("name")?}}),
        _ => return Err(ChatError::invalid("type", "must be one of auto, any, tool, none")),
    };
    let one_at_a_time = fields.flag("disable_parallel_tool_use")?;
    fields.finish(TO)?;
    Ok((Some(choice), one_at_a_time.filter(|one| *one).map(|_| false)))
}

type OutputConfig<'a> = (Option<&'static str>, Option<ResponseFormat<'a>>);

fn output_config(raw: &RawValue) -> Result<OutputConfig<'_>, ChatError> {
    let mut fields = Fields::read(raw, "")?;
    let effort = match fields.text("effort")?.as_deref() {
        None => None,
        Some("low") => Some("low"),
        Some("medium") => Some("medium"),
        Some("high") => Some("high"),
        Some("xhigh" | "max") => Some("xhigh"),
        Some(_) => return Err(ChatError::invalid("effort", "must be one of low, medium, high, xhigh, max")),
    };
    let format = fields.take("format").map(format).transpose().map_err(|error| error.inside("format"))?;
    fields.finish(TO)?;
    Ok((effort, format))
}

fn format(raw: &RawValue) -> Result<ResponseFormat<'_>, ChatError> {
    let mut fields = Fields::read(raw, "")?;
    if fields.need_text("type")? != "json_schema" {
        return Err(ChatError::invalid("type", "must be json_schema"));
    }
    let json_schema = Schema { name: "answer", schema: fields.need("schema")?, strict: true };
    fields.finish(TO)?;
    Ok(ResponseFormat { kind: "json_schema", json_schema })
}
