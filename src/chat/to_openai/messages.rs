//! The messages: a turn's tool results become messages of their own, before what else the turn says.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::TO;
use crate::chat::{
    ChatError,
    blocks::{Call, File, ImageUrl, Part, Parts},
    object::{Fields, Text, parse},
};

#[derive(Serialize)]
pub(super) struct Message<'a> {
    role: &'static str,
    content: Option<Parts<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
}

#[derive(Default)]
pub(super) struct Chat<'a> {
    pub(super) messages: Vec<Message<'a>>,
}

/// What one turn holds.
#[derive(Default)]
struct Turn<'a> {
    results: Vec<(Cow<'a, str>, Vec<Part<'a>>)>,
    parts: Vec<Part<'a>>,
    calls: Vec<Call<'a>>,
}

impl<'a> Chat<'a> {
    pub(super) fn system(&mut self, system: &'a RawValue) -> Result<(), ChatError> {
        let parts = parts(system, &mut text)?;
        if !parts.is_empty() {
            self.add("system", Some(parts.into()));
        }
        Ok(())
    }

    pub(super) fn message(&mut self, raw: &'a RawValue) -> Result<(), ChatError> {
        let mut fields = Fields::read(raw, "")?;
        let role = fields.need_text("role")?;
        let content = fields.need("content")?;
        fields.finish(TO)?;
        let inside = |error: ChatError| error.inside("content");
        match &*role {
            "user" => self.user(content).map_err(inside),
            "assistant" => self.assistant(content).map_err(inside),
            "system" => self.system(content).map_err(inside),
            _ => Err(ChatError::invalid("role", "must be user or assistant")),
        }
    }

    fn user(&mut self, content: &'a RawValue) -> Result<(), ChatError> {
        let mut turn = Turn::default();
        turn.parts = parts(content, &mut |kind, fields| user_block(kind, fields, &mut turn.results))?;
        let had_results = !turn.results.is_empty();
        // Tool messages hold text alone.
        let mut images = vec![];
        for (id, parts) in turn.results {
            let (texts, others): (Vec<_>, Vec<_>) =
                parts.into_iter().partition(|part| matches!(part, Part::Text { .. }));
            images.extend(others);
            let content = if texts.is_empty() { Parts::Text("".into()) } else { texts.into() };
            self.add("tool", Some(content));
            if let Some(message) = self.messages.last_mut() {
                message.tool_call_id = Some(id);
            }
        }
        images.extend(turn.parts);
        if !images.is_empty() || !had_results {
            let content = if images.is_empty() { Parts::Text("".into()) } else { images.into() };
            self.add("user", Some(content));
        }
        Ok(())
    }

    fn assistant(&mut self, content: &'a RawValue) -> Result<(), ChatError> {
        let mut turn = Turn::default();
        turn.parts = parts(content, &mut |kind, fields| assistant_block(kind, fields, &mut turn.calls))?;
        // An assistant's message without calls must have a content.
        let content = match turn.parts.is_empty() {
            true if turn.calls.is_empty() => Some(Parts::Text("".into())),
            true => None,
            false => Some(turn.parts.into()),
        };
        self.messages.push(Message { role: "assistant", content, tool_calls: turn.calls, tool_call_id: None });
        Ok(())
    }

    fn add(&mut self, role: &'static str, content: Option<Parts<'a>>) {
        self.messages.push(Message { role, content, tool_calls: vec![], tool_call_id: None });
    }
}

type Read<'r, 'a> = &'r mut dyn FnMut(&str, &mut Fields<'a>) -> Result<Option<Part<'a>>, ChatError>;

/// A string or a list of blocks; `read` gives the part that a block becomes, if it becomes one.
fn parts<'a>(content: &'a RawValue, read: Read<'_, 'a>) -> Result<Vec<Part<'a>>, ChatError> {
    if content.get().starts_with('"') {
        return Ok(vec![Part::Text { text: parse::<Text<'_>>(content, "", "a string")?.0 }]);
    }
    let blocks: Vec<&RawValue> = parse(content, "", "a string or a list of blocks")?;
    let mut parts = Vec::with_capacity(blocks.len());
    for (at, block) in blocks.into_iter().enumerate() {
        let mut one = || {
            let mut fields = Fields::read(block, "")?;
            fields.ignore(&["cache_control"]);
            let part = read(&fields.need_text("type")?, &mut fields)?;
            fields.finish(TO)?;
            Ok(part)
        };
        parts.extend(one().map_err(|error: ChatError| error.inside(&format!("[{at}]")))?);
    }
    Ok(parts)
}

fn text<'a>(kind: &str, fields: &mut Fields<'a>) -> Result<Option<Part<'a>>, ChatError> {
    if kind != "text" {
        return Err(ChatError::untranslatable("type", TO, "it has no equal here"));
    }
    fields.ignore(&["citations"]);
    Ok(Some(Part::Text { text: fields.need_text("text")? }))
}

type Results<'a> = Vec<(Cow<'a, str>, Vec<Part<'a>>)>;

fn user_block<'a>(
    kind: &str,
    fields: &mut Fields<'a>,
    results: &mut Results<'a>,
) -> Result<Option<Part<'a>>, ChatError> {
    if kind != "tool_result" {
        return result_block(kind, fields);
    }
    let id = fields.need_text("tool_use_id")?;
    let failed = fields.flag("is_error")?.unwrap_or_default();
    let mut parts = match fields.take("content") {
        Some(content) => parts(content, &mut result_block).map_err(|error| error.inside("content"))?,
        None => vec![],
    };
    if failed && parts.iter().all(|part| matches!(part, Part::Text { text } if text.is_empty())) {
        parts = vec![Part::Text { text: "error".into() }];
    }
    results.push((id, parts));
    Ok(None)
}

fn result_block<'a>(kind: &str, fields: &mut Fields<'a>) -> Result<Option<Part<'a>>, ChatError> {
    match kind {
        "image" => {
            let url = url(fields.need("source")?, "image/").map_err(|error| error.inside("source"))?;
            Ok(Some(Part::ImageUrl { image_url: ImageUrl { url } }))
        }
        "document" => document(fields).map(Some),
        _ => text(kind, fields),
    }
}

fn document<'a>(fields: &mut Fields<'a>) -> Result<Part<'a>, ChatError> {
    let inside = |error: ChatError| error.inside("source");
    let title = fields.text("title")?;
    let raw = fields.need("source")?;
    let mut source = Fields::read(raw, "source")?;
    if source.need_text("type").map_err(inside)? == "text" {
        return Ok(Part::Text { text: source.need_text("data").map_err(inside)? });
    }
    let url = url(raw, "application/pdf").map_err(inside)?;
    if !url.starts_with("data:") {
        return Err(ChatError::untranslatable("source.url", TO, "only a document's data can be sent; send base64"));
    }
    let filename = title.unwrap_or(Cow::Borrowed("document.pdf"));
    Ok(Part::File { file: File { filename, file_data: url.into_owned() } })
}

/// Where a source is, as a URL. Its media type must start as stated.
fn url<'a>(raw: &'a RawValue, media: &str) -> Result<Cow<'a, str>, ChatError> {
    let mut source = Fields::read(raw, "")?;
    let url = match &*source.need_text("type")? {
        "base64" => {
            let media_type = source.need_text("media_type")?;
            if !media_type.starts_with(media) {
                return Err(ChatError::invalid("media_type", format!("must start with {media}")));
            }
            format!("data:{media_type};base64,{}", source.need_text("data")?).into()
        }
        "url" => source.need_text("url")?,
        _ => return Err(ChatError::untranslatable("type", TO, "only base64 and url have an equal")),
    };
    source.finish(TO)?;
    Ok(url)
}

fn assistant_block<'a>(
    kind: &str,
    fields: &mut Fields<'a>,
    calls: &mut Vec<Call<'a>>,
) -> Result<Option<Part<'a>>, ChatError> {
    match kind {
        "thinking" | "redacted_thinking" => {
            fields.ignore(&["thinking", "signature", "data"]);
            Ok(None)
        }
        "tool_use" => {
            let (id, name, input) = (fields.need_text("id")?, fields.need_text("name")?, fields.need("input")?);
            fields.ignore(&["caller"]);
            calls.push(Call::whole(id, name, input.get().into()));
            Ok(None)
        }
        _ => text(kind, fields),
    }
}
