//! The chat protocols, as far as the router reads and writes them. All else of a request and of a worker's answer goes through as it
//! is, so every object here may hold more than it says.

#![expect(dead_code, reason = "the bodies describe what src/chat reads and writes, and are never made")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{
    IntoResponses, ToSchema,
    openapi::{
        Content, Header, Ref, RefOr, Response, ResponseBuilder,
        schema::{ObjectBuilder, Schema, Type},
    },
};

use super::problems::content;

/// The headers of an answer: name, schema if it has one of its own, and what they say.
const HEADERS: [(&str, Option<&str>, &str); 10] = [
    ("X-Pointsman-Decision", Some("DecisionId"), "For `GET /v1/decisions/{id}` and `POST /v1/feedback`"),
    ("X-Pointsman-Arm", Some("ArmId"), "The arm that answered"),
    ("X-Pointsman-Mode", Some("Mode"), "How it was run"),
    ("X-Pointsman-Domain", Some("Domain"), "The chat's domain, given or found"),
    ("X-Pointsman-Propensity", Some("Propensity"), "The probability with which the arm was drawn"),
    ("X-Pointsman-Cost-Usd", None, "Dollars spent; not of a stream"),
    ("X-Pointsman-Score", Some("Score"), "The verified score, where it was to be explained; not of a stream"),
    ("X-Pointsman-Repeated", None, "`true` where it was stored before"),
    ("X-Pointsman-Instead-Of", Some("DecisionId"), "The decision whose worker gave no answer"),
    (
        "X-Pointsman-Explain",
        None,
        "Why, where it was asked for: JSON of the probabilities, the policy and the masked arms",
    ),
];

/// What a chat of OpenAI's protocol is answered with, besides problems.
pub(in crate::api) struct OpenAiAnswers;

impl IntoResponses for OpenAiAnswers {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        answers("OpenAiAnswer", "OpenAiError")
    }
}

/// The same of Anthropic's.
pub(in crate::api) struct AnthropicAnswers;

impl IntoResponses for AnthropicAnswers {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        answers("AnthropicAnswer", "AnthropicError")
    }
}

fn answers(answer: &str, error: &str) -> BTreeMap<String, RefOr<Response>> {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let whole = ResponseBuilder::new()
        .description("The answer, whole or as server-sent events of the protocol")
        .content("application/json", content(answer))
        .content("text/event-stream", Content::new(None::<Schema>));
    let whole = HEADERS.into_iter().fold(whole, |response, (name, schema, says)| {
        let own = schema.map(|schema| RefOr::<Schema>::Ref(Ref::from_schema_name(schema)));
        let mut header = Header::new(own.unwrap_or_else(|| RefOr::T(text().into())));
        header.description = Some(says.into());
        response.header(name, header)
    });
    let failed =
        |says: &str| ResponseBuilder::new().description(says).content("application/json", content(error)).build();
    BTreeMap::from([
        ("200".to_owned(), whole.build().into()),
        ("4XX".to_owned(), failed("The worker itself refused the request").into()),
        ("504".to_owned(), failed("The worker took too long").into()),
    ])
}

/// A chat in OpenAI's form. Fields that are not described here go to the worker as they are.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"model": "auto", "messages": [{"role": "user", "content": "What is 19 plus 23?"}]}))]
pub(in crate::api) struct OpenAiChat {
    /// `auto`, `auto:DOMAIN`, or an arm's name, which pins it.
    model: String,
    /// The chat so far.
    #[schema(min_items = 1)]
    messages: Vec<OpenAiMessage>,
    /// Whether the answer comes as server-sent events.
    stream: Option<bool>,
    /// About the stream.
    stream_options: Option<StreamOptions>,
    /// The most tokens of the answer.
    #[schema(minimum = 0)]
    max_completion_tokens: Option<u32>,
    /// The same, as older clients say it.
    #[schema(minimum = 0)]
    max_tokens: Option<u32>,
    /// The tools that the model may call. Where there are any, only arms that can do `tools` are candidates.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
}

/// What a stream is to hold.
#[derive(Deserialize, ToSchema)]
pub(in crate::api) struct StreamOptions {
    /// Whether the last chunk is to tell the usage.
    include_usage: Option<bool>,
}

/// A message in OpenAI's form.
#[derive(Deserialize, ToSchema)]
pub(in crate::api) struct OpenAiMessage {
    /// Who speaks.
    role: OpenAiRole,
    /// What is said: a text, or a list of parts. Parts of type `text` and `refusal` hold a string under that name; images and the like
    /// make the request need an arm that can do `vision`.
    content: Option<ChatContent>,
    /// What is said where there is no content.
    refusal: Option<String>,
}

/// Who speaks.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::api) enum OpenAiRole {
    System,
    Developer,
    User,
    Assistant,
    Tool,
    Function,
}

/// A text, or a list of parts.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(in crate::api) enum ChatContent {
    Text(String),
    Parts(Vec<ChatPart>),
}

/// A part of a message: a text, or what goes to the worker as it is.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(in crate::api) enum ChatPart {
    Text(TextPart),
    Other(OtherPart),
}

/// A part that is a text.
#[derive(Deserialize, ToSchema)]
pub(in crate::api) struct TextPart {
    #[serde(rename = "type")]
    kind: TextKind,
    text: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::api) enum TextKind {
    Text,
}

/// A part that is no text: an image, a document, audio, a tool's call or its result.
#[derive(Deserialize, ToSchema)]
pub(in crate::api) struct OtherPart {
    /// Which it is, such as `image_url` or `tool_result`.
    #[schema(pattern = "^(image|image_url|document|file|input_audio|tool_use|thinking|redacted_thinking)$")]
    #[serde(rename = "type")]
    kind: String,
}

/// A chat in Anthropic's form. Fields that are not described here go to the worker as they are.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"model": "auto", "max_tokens": 200, "messages": [{"role": "user", "content": "What is 19 plus 23?"}]}))]
pub(in crate::api) struct AnthropicChat {
    /// `auto`, `auto:DOMAIN`, or an arm's name, which pins it.
    model: String,
    /// The most tokens of the answer.
    #[schema(minimum = 0)]
    max_tokens: Option<u32>,
    /// What the model is told first.
    system: Option<ChatContent>,
    /// The chat so far.
    #[schema(min_items = 1)]
    messages: Vec<AnthropicMessage>,
    /// Whether the answer comes as server-sent events.
    stream: Option<bool>,
    /// The tools that the model may call. Where there are any, only arms that can do `tools` are candidates.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
}

/// A message in Anthropic's form.
#[derive(Deserialize, ToSchema)]
pub(in crate::api) struct AnthropicMessage {
    /// Who speaks.
    role: AnthropicRole,
    /// What is said.
    content: ChatContent,
}

/// Who speaks.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::api) enum AnthropicRole {
    User,
    Assistant,
}

/// An answer in OpenAI's form. Where the worker speaks that protocol, it is the worker's own, byte by byte.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct OpenAiAnswer {
    id: Option<String>,
    #[schema(value_type = Vec<Object>)]
    choices: Vec<Value>,
    #[schema(value_type = Option<Object>)]
    usage: Option<Value>,
}

/// An answer in Anthropic's form. Where the worker speaks that protocol, it is the worker's own, byte by byte.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct AnthropicAnswer {
    id: Option<String>,
    #[schema(value_type = Vec<Object>)]
    content: Vec<Value>,
    stop_reason: Option<String>,
    #[schema(value_type = Option<Object>)]
    usage: Option<Value>,
}

/// An error in OpenAI's form. The header `X-Pointsman-Problem` names the problem.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"error": {"message": "there is no model \"gpt\"", "type": "not_found_error", "param": null, "code": null}}))]
pub(in crate::api) struct OpenAiError {
    error: OpenAiErrorBody,
}

#[derive(Serialize, ToSchema)]
pub(in crate::api) struct OpenAiErrorBody {
    /// What happened and what to do.
    message: String,
    /// The kind that OpenAI's clients know.
    #[serde(rename = "type")]
    kind: String,
}

/// An error in Anthropic's form. The header `X-Pointsman-Problem` names the problem.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "error", "error": {"type": "not_found_error", "message": "there is no model \"claude\""}}))]
pub(in crate::api) struct AnthropicError {
    #[serde(rename = "type")]
    kind: ErrorMark,
    error: AnthropicErrorBody,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::api) enum ErrorMark {
    Error,
}

#[derive(Serialize, ToSchema)]
pub(in crate::api) struct AnthropicErrorBody {
    /// The kind that Anthropic's clients know.
    #[serde(rename = "type")]
    kind: String,
    /// What happened and what to do.
    message: String,
}
