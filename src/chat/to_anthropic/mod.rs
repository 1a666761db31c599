//! A request of an OpenAI client for an Anthropic worker.

mod messages;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use self::messages::{Chat, Turn};
use super::{
    ChatError, Protocol, RawObject,
    blocks::{Blocks, object_of},
    object::{Fields, Text, parse},
};

/// The limit of an answer where the client gave none, in tokens: what every Anthropic model takes.
pub const MAX_TOKENS_DEFAULT: u64 = 4096;

const TO: Protocol = Protocol::Anthropic;

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Blocks<'a>>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_sequences: Option<Vec<Cow<'a, str>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<Tool<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Typed>,
    #[serde(skip_serializing_if = "OutputConfig::is_empty")]
    output_config: OutputConfig<'a>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Cow<'a, str>>,
    input_schema: Cow<'a, RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
struct ToolChoice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    user_id: Cow<'a, str>,
}

#[derive(Serialize)]
struct Typed {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Default, Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

impl OutputConfig<'_> {
    fn is_empty(&self) -> bool {
        self.effort.is_none() && self.format.is_none()
    }
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a RawValue,
}

pub(super) fn translate(body: &RawObject, model: &str) -> Result<Vec<u8>, ChatError> {
    let mut fields = body.fields();
    fields.take("model");
    let limit = "a whole number of tokens, at least 1";
    let max_tokens = fields.parse("max_completion_tokens", limit)?;
    let max_tokens = max_tokens.or(fields.parse("max_tokens", limit)?).unwrap_or(MAX_TOKENS_DEFAULT);
    let mut chat = Chat::default();
    fields.list("messages", |raw| chat.message(raw))?;
    let tools = fields.list("tools", tool)?.filter(|tools: &Vec<_>| !tools.is_empty());
    let parallel = fields.flag("parallel_tool_calls")?;
    let tool_choice = tool_choice(fields.take("tool_choice"), tools.as_ref().and(parallel))?;
    let (thinking, effort) = effort(&mut fields)?;
    let user = fields.text("safety_identifier")?;
    let user = fields.text("user")?.or(user);
    let request = Request {
        model,
        max_tokens,
        system: (!chat.system.is_empty()).then(|| chat.system.into()),
        messages: chat.turns.into_iter().map(Into::into).collect(),
        stream: fields.flag("stream")?,
        temperature: temperature(&mut fields)?,
        top_p: number(&mut fields, "top_p", 0.0..=1.0)?,
        stop_sequences: fields.take("stop").map(stop).transpose()?,
        tools,
        tool_choice,
        metadata: user.map(|user_id| Metadata { user_id }),
        thinking,
        output_config: OutputConfig {
            effort,
            format: fields.take("response_format").map(format).transpose()?.flatten(),
        },
    };
    harmless(&mut fields)?;
    fields.finish(TO)?;
    serde_json::to_vec(&request).map_err(|error| ChatError::invalid("body", error.to_string()))
}

/// Takes what may be left out; see the module's list.
fn harmless(fields: &mut Fields<'_>) -> Result<(), ChatError> {
    fields.ignore(&["seed", "metadata", "prediction", "prompt_cache_key", "prompt_cache_retention"]);
    fields.ignore_if("store", &["false"]);
    fields.ignore_if("n", &["1"]);
    fields.ignore_if("logprobs", &["false"]);
    fields.ignore_if("top_logprobs", &["0"]);
    fields.ignore_if("frequency_penalty", &["0", "0.0"]);
    fields.ignore_if("presence_penalty", &["0", "0.0"]);
    fields.ignore_if("logit_bias", &["{}"]);
    fields.ignore_if("service_tier", &["\"auto\"", "\"default\""]);
    fields.ignore_if("verbosity", &["\"medium\""]);
    if let Some(options) = fields.take("stream_options") {
        let mut options = Fields::read(options, "stream_options")?;
        options.ignore(&["include_usage", "include_obfuscation"]);
        options.finish(TO).map_err(|error| error.inside("stream_options"))?;
    }
    if let Some(modalities) = fields.parse::<Vec<Text<'_>>>("modalities", "a list of strings")?
        && modalities.iter().any(|Text(modality)| modality != "text")
    {
        return Err(ChatError::untranslatable("modalities", TO, "only text comes out there"));
    }
    Ok(())
}

/// A number in its range, digit by digit as the client wrote it.
pub(super) fn number<'a>(
    fields: &mut Fields<'a>,
    name: &str,
    range: std::ops::RangeInclusive<f64>,
) -> Result<Option<&'a RawValue>, ChatError> {
    let Some(raw) = fields.take(name) else { return Ok(None) };
    let form = format!("a number from {} to {}", range.start(), range.end());
    if range.contains(&parse::<f64>(raw, name, &form)?) {
        return Ok(Some(raw));
    }
    Err(ChatError::invalid(name, format!("must be {form}")))
}

fn temperature<'a>(fields: &mut Fields<'a>) -> Result<Option<Cow<'a, RawValue>>, ChatError> {
    let Some(raw) = number(fields, "temperature", 0.0..=2.0)? else { return Ok(None) };
    if parse::<f64>(raw, "temperature", "a number")? <= 1.0 {
        return Ok(Some(Cow::Borrowed(raw)));
    }
    Ok(RawValue::from_string("1".into()).ok().map(Cow::Owned))
}

fn stop(raw: &RawValue) -> Result<Vec<Cow<'_, str>>, ChatError> {
    let form = "a string or a list of strings";
    let stops = if raw.get().starts_with('[') {
        parse(raw, "stop", form)?
    } else {
        vec![parse::<Text<'_>>(raw, "stop", form)?]
    };
    if stops.iter().any(|Text(stop)| stop.trim().is_empty()) {
        return Err(ChatError::untranslatable("stop", TO, "stop sequences of white space are refused there"));
    }
    Ok(stops.into_iter().map(|Text(stop)| stop).collect())
}

fn effort(fields: &mut Fields<'_>) -> Result<(Option<Typed>, Option<&'static str>), ChatError> {
    Ok(match fields.text("reasoning_effort")?.as_deref() {
        None => (None, None),
        Some("none") => (Some(Typed { kind: "disabled" }), None),
        Some("minimal" | "low") => (None, Some("low")),
        Some("medium") => (None, Some("medium")),
        Some("high") => (None, Some("high")),
        Some("xhigh") => (None, Some("xhigh")),
        Some(_) => {
            let known = "must be one of none, minimal, low, medium, high, xhigh";
            return Err(ChatError::invalid("reasoning_effort", known));
        }
    })
}

fn format(raw: &RawValue) -> Result<Option<Format<'_>>, ChatError> {
    let read = || {
        let mut fields = Fields::read(raw, "")?;
        match &*fields.need_text("type")? {
            "text" => Ok(None),
            "json_schema" => {
                let mut schema = Fields::read(fields.need("json_schema")?, "json_schema")?;
                let schema = schema.need("schema").map_err(|error| error.inside("json_schema"))?;
                Ok(Some(Format { kind: "json_schema", schema }))
            }
            _ => Err(ChatError::untranslatable("type", TO, "only text and json_schema have an equal; send a schema")),
        }
    };
    read().map_err(|error: ChatError| error.inside("response_format"))
}

fn tool(raw: &RawValue) -> Result<Tool<'_>, ChatError> {
    let mut fields = Fields::read(raw, "")?;
    if fields.need_text("type")? != "function" {
        return Err(ChatError::untranslatable("type", TO, "only functions have an equal"));
    }
    let mut function = Fields::read(fields.need("function")?, "function")?;
    fields.finish(TO)?;
    let mut read = || {
        let empty = || object_of(r#"{"type":"object","properties":{}}"#).map(Cow::Owned);
        let schema = function.take("parameters").map(Cow::Borrowed).or_else(empty);
        Ok(Tool {
            name: function.need_text("name")?,
            description: function.text("description")?,
            input_schema: schema.ok_or_else(|| ChatError::invalid("parameters", "is missing"))?,
            strict: function.flag("strict")?.filter(|strict| *strict),
        })
    };
    let tool = read().map_err(|error: ChatError| error.inside("function"))?;
    function.finish(TO).map_err(|error| error.inside("function"))?;
    Ok(tool)
}

fn tool_choice(raw: Option<&RawValue>, parallel: Option<bool>) -> Result<Option<ToolChoice<'_>>, ChatError> {
    let one_at_a_time = parallel.filter(|parallel| !parallel).map(|_| true);
    let mut chosen = match raw {
        None => one_at_a_time.map(|_| choice("auto", None)),
        Some(raw) => Some(chosen(raw).map_err(|error| error.inside("tool_choice"))?),
    };
    if let Some(chosen) = chosen.as_mut().filter(|chosen| chosen.kind != "none") {
        chosen.disable_parallel_tool_use = one_at_a_time;
    }
    Ok(chosen)
}

fn choice<'a>(kind: &'static str, name: Option<Cow<'a, str>>) -> ToolChoice<'a> {
    ToolChoice { kind, name, disable_parallel_tool_use: None }
}

fn chosen(raw: &RawValue) -> Result<ToolChoice<'_>, ChatError> {
    if raw.get().starts_with('{') {
        return Ok(choice("tool", Some(chosen_function(raw)?)));
    }
    let form = "none, auto, required or a function";
    match &*parse::<Text<'_>>(raw, "", form)?.0 {
        "none" => Ok(choice("none", None)),
        "auto" => Ok(choice("auto", None)),
        "required" => Ok(choice("any", None)),
        _ => Err(ChatError::invalid("", format!("must be {form}"))),
    }
}

fn chosen_function(raw: &RawValue) -> Result<Cow<'_, str>, ChatError> {
    let mut fields = Fields::read(raw, "")?;
    if fields.need_text("type")? != "function" {
        return Err(ChatError::untranslatable("type", TO, "only a function can be chosen by name"));
    }
    let mut function = Fields::read(fields.need("function")?, "function")?;
    function.need_text("name").map_err(|error| error.inside("function"))
}
