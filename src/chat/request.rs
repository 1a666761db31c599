//! A client's request: what the router needs of it, and the bytes that a worker gets.

use serde_json::value::RawValue;

use super::{
    ChatError, Protocol, RawObject, UNSIGNED,
    object::{Fields, Text, parse, quoted},
    to_anthropic, to_openai,
};
use crate::round::{Capability, Message};

/// A request of either protocol, checked as far as routing needs it.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    protocol: Protocol,
    body: RawObject,
    model: String,
    stream: bool,
    wants_usage: bool,
    max_tokens: Option<u64>,
    messages: Vec<Message>,
    needs: Vec<Capability>,
}

impl ChatRequest {
    /// Reads a request's body. Refuses what is not a JSON object, and a model, stream, limit, role or text that is not of
    /// the protocol's form; all else is the worker's to judge.
    pub fn parse(protocol: Protocol, bytes: &[u8]) -> Result<Self, ChatError> {
        let body = RawObject::parse(bytes)?;
        let mut fields = body.fields();
        let model = fields.need_text("model")?.into_owned();
        let stream = fields.flag("stream")?.unwrap_or_default();
        let limit = "a whole number of tokens, at least 0";
        let max_tokens = match protocol {
            Protocol::OpenAi => fields.parse("max_completion_tokens", limit)?.or(fields.parse("max_tokens", limit)?),
            Protocol::Anthropic => fields.parse("max_tokens", limit)?,
        };
        let wants_usage = match (protocol, fields.take("stream_options")) {
            (Protocol::OpenAi, Some(options)) => {
                let mut options = Fields::read(options, "stream_options")?;
                options.flag("include_usage").map_err(|error| error.inside("stream_options"))?.unwrap_or_default()
            }
            (Protocol::OpenAi, None) => false,
            (Protocol::Anthropic, _) => true,
        };
        let mut texts = Texts::default();
        if let (Protocol::Anthropic, Some(system)) = (protocol, fields.take("system")) {
            let mut text = String::new();
            texts.content(system, &mut text, false).map_err(|error| error.inside("system"))?;
            texts.add("system", text);
        }
        fields
            .list("messages", |raw| texts.message(raw))?
            .ok_or_else(|| ChatError::invalid("messages", "is missing"))?;
        let tools = fields.parse::<Vec<&RawValue>>("tools", "a list")?;
        texts.tools |= tools.is_some_and(|tools| !tools.is_empty()) || fields.take("functions").is_some();
        let needs = texts.needs();
        let messages = texts.messages;
        drop(fields);
        Ok(Self { protocol, body, model, stream, wants_usage, max_tokens, messages, needs })
    }

    /// The client's protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The body as it came.
    pub fn body(&self) -> &RawObject {
        &self.body
    }

    /// The model that the client asked for, such as `auto`.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Whether the answer is to be streamed.
    pub fn stream(&self) -> bool {
        self.stream
    }

    /// Whether the client is to get the usage chunk of an OpenAI stream. Workers are always asked for it.
    pub fn wants_usage(&self) -> bool {
        self.wants_usage
    }

    /// The most tokens that the answer may have, if the client said so.
    pub fn max_tokens(&self) -> Option<u64> {
        self.max_tokens
    }

    /// The texts, with the roles `system`, `user`, `assistant` and `tool`. Images and the like are left out.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The texts, handed over; [`Self::messages`] is empty afterwards.
    pub fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }

    /// What a worker must be able to do: `vision` where there are images or documents, `audio`, `tools`.
    pub fn needs(&self) -> &[Capability] {
        &self.needs
    }

    /// The body for a worker of some protocol, under the worker's own name for the model.
    pub fn to_upstream(&self, to: Protocol, model: &str) -> Result<Vec<u8>, ChatError> {
        match (self.protocol, to) {
            (Protocol::OpenAi, Protocol::OpenAi) => self.openai_as_it_came(model),
            (Protocol::Anthropic, Protocol::Anthropic) => self.anthropic_as_it_came(model),
            (Protocol::OpenAi, Protocol::Anthropic) => to_anthropic::translate(&self.body, model),
            (Protocol::Anthropic, Protocol::OpenAi) => to_openai::translate(&self.body, model),
        }
    }

    fn openai_as_it_came(&self, model: &str) -> Result<Vec<u8>, ChatError> {
        let model = quoted(model);
        if !self.stream || self.wants_usage {
            return Ok(self.body.to_bytes_with(&[("model", &model)]));
        }
        let options = self.body.get("stream_options").filter(|options| options.get() != "null");
        let options = match options {
            Some(options) => RawObject::parse(options.get().as_bytes())?.to_bytes_with(&[("include_usage", "true")]),
            None => br#"{"include_usage":true}"#.to_vec(),
        };
        let options = String::from_utf8_lossy(&options);
        Ok(self.body.to_bytes_with(&[("model", &model), ("stream_options", &options)]))
    }

    fn anthropic_as_it_came(&self, model: &str) -> Result<Vec<u8>, ChatError> {
        let model = quoted(model);
        match self.body.get("messages") {
            Some(messages) if messages.get().contains(UNSIGNED) => {
                let messages = without_unsigned(messages)?;
                Ok(self.body.to_bytes_with(&[("model", &model), ("messages", &messages)]))
            }
            _ => Ok(self.body.to_bytes_with(&[("model", &model)])),
        }
    }
}

/// The messages without the thinking that no Anthropic model signed; the rest byte by byte.
fn without_unsigned(messages: &RawValue) -> Result<String, ChatError> {
    let mut kept: Vec<String> = vec![];
    for message in parse::<Vec<&RawValue>>(messages, "messages", "a list")? {
        let mut fields = Fields::read(message, "messages")?;
        let blocks = fields.take("content").and_then(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok());
        let Some(blocks) = blocks.filter(|blocks| blocks.iter().any(|block| is_unsigned(block))) else {
            kept.push(message.get().to_owned());
            continue;
        };
        let blocks: Vec<&str> = blocks.iter().filter(|block| !is_unsigned(block)).map(|block| block.get()).collect();
        if !blocks.is_empty() {
            let content = format!("[{}]", blocks.join(","));
            let message = RawObject::parse(message.get().as_bytes())?.to_bytes_with(&[("content", &content)]);
            kept.push(String::from_utf8_lossy(&message).into_owned());
        }
    }
    Ok(format!("[{}]", kept.join(",")))
}

fn is_unsigned(block: &RawValue) -> bool {
    let signature = Fields::read(block, "").and_then(|mut fields| fields.text("signature"));
    signature.is_ok_and(|signature| signature.is_some_and(|signature| signature == UNSIGNED))
}

/// The texts of a chat, and what else was met.
#[derive(Default)]
struct Texts {
    messages: Vec<Message>,
    vision: bool,
    audio: bool,
    tools: bool,
}

impl Texts {
    fn message(&mut self, raw: &RawValue) -> Result<(), ChatError> {
        let mut fields = Fields::read(raw, "")?;
        let role = match &*fields.need_text("role")? {
            "system" | "developer" => "system",
            "user" => "user",
            "assistant" => "assistant",
            "tool" | "function" => "tool",
            _ => {
                let allowed = "must be one of system, developer, user, assistant, tool";
                return Err(ChatError::invalid("role", allowed));
            }
        };
        let mut text = String::new();
        let before = self.messages.len();
        if let Some(content) = fields.take("content") {
            self.content(content, &mut text, false).map_err(|error| error.inside("content"))?;
        }
        if text.is_empty() {
            text = fields.text("refusal")?.unwrap_or_default().into_owned();
        }
        // A turn of tool results alone is no turn of the user's.
        if !text.is_empty() || self.messages.len() == before {
            self.add(role, text);
        }
        Ok(())
    }

    fn add(&mut self, role: &str, content: String) {
        self.messages.push(Message { role: role.into(), content });
    }

    // A tool's result holds no further results, however deep a client nests them.
    fn content(&mut self, content: &RawValue, text: &mut String, in_result: bool) -> Result<(), ChatError> {
        if content.get().starts_with('"') {
            text.push_str(&parse::<Text<'_>>(content, "", "a string")?.0);
            return Ok(());
        }
        let parts: Vec<&RawValue> = parse(content, "", "a string or a list of parts")?;
        for (at, part) in parts.into_iter().enumerate() {
            self.part(part, text, in_result).map_err(|error| error.inside(&format!("[{at}]")))?;
        }
        Ok(())
    }

    fn part(&mut self, part: &RawValue, text: &mut String, in_result: bool) -> Result<(), ChatError> {
        let mut fields = Fields::read(part, "")?;
        match &*fields.need_text("type")? {
            "text" => join(text, &fields.need_text("text")?),
            "refusal" => join(text, &fields.need_text("refusal")?),
            "image" | "image_url" | "document" | "file" => self.vision = true,
            "input_audio" => self.audio = true,
            "tool_result" if !in_result => {
                let mut result = String::new();
                if let Some(content) = fields.take("content") {
                    self.content(content, &mut result, true).map_err(|error| error.inside("content"))?;
                }
                self.add("tool", result);
            }
            _ => {}
        }
        Ok(())
    }

    fn needs(&self) -> Vec<Capability> {
        let needs = [("vision", self.vision), ("audio", self.audio), ("tools", self.tools)];
        needs.into_iter().filter(|(_, needed)| *needed).filter_map(|(name, _)| Capability::new(name).ok()).collect()
    }
}

fn join(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}
