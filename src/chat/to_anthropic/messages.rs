//! The messages: system texts come out of the row, results of tools that were called together come into one turn.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::TO;
use crate::chat::{
    ChatError,
    blocks::{Block, Blocks, Source, base64_of, object_of},
    object::{Fields, Text, parse},
};

#[derive(Serialize)]
pub(super) struct Turn<'a> {
    role: &'static str,
    content: Blocks<'a>,
}

#[derive(Default)]
pub(super) struct Chat<'a> {
    pub(super) system: Vec<Block<'a>>,
    pub(super) turns: Vec<OpenTurn<'a>>,
}

/// A turn to which more may be added.
pub(super) struct OpenTurn<'a> {
    role: &'static str,
    blocks: Vec<Block<'a>>,
    /// Whether it holds tool results, which the protocol wants in one turn with what the user says next.
    results: bool,
}

impl<'a> From<OpenTurn<'a>> for Turn<'a> {
    fn from(turn: OpenTurn<'a>) -> Self {
        Self { role: turn.role, content: turn.blocks.into() }
    }
}

impl<'a> Chat<'a> {
    pub(super) fn message(&mut self, raw: &'a RawValue) -> Result<(), ChatError> {
        let mut fields = Fields::read(raw, "")?;
        fields.ignore(&["name"]);
        match &*fields.need_text("role")? {
            "system" | "developer" => {
                let content = fields.need("content")?;
                self.system.extend(blocks(content, text_part)?);
            }
            "user" => {
                let content = fields.need("content")?;
                self.user(blocks(content, user_part)?, false);
            }
            "assistant" => {
                let blocks = assistant(&mut fields)?;
                // A turn that says nothing is refused there.
                if !blocks.is_empty() {
                    self.turns.push(OpenTurn { role: "assistant", blocks, results: false });
                }
            }
            "tool" => {
                let content = blocks(fields.need("content")?, text_part)?.into();
                let result = Block::ToolResult { tool_use_id: fields.need_text("tool_call_id")?, content };
                self.user(vec![result], true);
            }
            "function" => return Err(ChatError::untranslatable("role", TO, "send tools and role tool instead")),
            _ => return Err(ChatError::invalid("role", "must be one of system, developer, user, assistant, tool")),
        }
        fields.finish(TO)
    }

    fn user(&mut self, blocks: Vec<Block<'a>>, results: bool) {
        match self.turns.last_mut() {
            Some(turn) if turn.role == "user" && turn.results => {
                turn.blocks.extend(blocks);
                turn.results = results;
            }
            _ => self.turns.push(OpenTurn { role: "user", blocks, results }),
        }
    }
}

type Read<'a> = fn(&str, &mut Fields<'a>) -> Result<Block<'a>, ChatError>;

/// A string or a list of parts. Empty texts are left out: they are refused there.
fn blocks<'a>(content: &'a RawValue, read: Read<'a>) -> Result<Vec<Block<'a>>, ChatError> {
    let inside = |error: ChatError| error.inside("content");
    let mut blocks = if content.get().starts_with('"') {
        vec![Block::Text { text: parse::<Text<'_>>(content, "", "a string").map_err(inside)?.0 }]
    } else {
        let parts: Vec<&RawValue> = parse(content, "", "a string or a list of parts").map_err(inside)?;
        let block = |part| {
            let mut fields = Fields::read(part, "")?;
            let block = read(&fields.need_text("type")?, &mut fields)?;
            fields.finish(TO)?;
            Ok(block)
        };
        let parts = parts.into_iter().enumerate();
        let named = |at| move |error: ChatError| error.inside(&format!("content[{at}]"));
        parts.map(|(at, part)| block(part).map_err(named(at))).collect::<Result<Vec<_>, _>>()?
    };
    blocks.retain(|block| !matches!(block, Block::Text { text } if text.is_empty()));
    Ok(blocks)
}

fn text_part<'a>(kind: &str, fields: &mut Fields<'a>) -> Result<Block<'a>, ChatError> {
    match kind {
        "text" => Ok(Block::Text { text: fields.need_text("text")? }),
        _ => Err(ChatError::untranslatable("type", TO, "only text can stand here")),
    }
}

fn assistant_part<'a>(kind: &str, fields: &mut Fields<'a>) -> Result<Block<'a>, ChatError> {
    match kind {
        "refusal" => Ok(Block::Text { text: fields.need_text("refusal")? }),
        _ => text_part(kind, fields),
    }
}

fn user_part<'a>(kind: &str, fields: &mut Fields<'a>) -> Result<Block<'a>, ChatError> {
    match kind {
        "image_url" => {
            let mut image = Fields::read(fields.need("image_url")?, "image_url")?;
            let inside = |error: ChatError| error.inside("image_url");
            let url = image.need_text("url").map_err(inside)?;
            image.ignore(&["detail"]);
            image.finish(TO).map_err(inside)?;
            let form = "must be a base64 data URL of an image, or start with https:// or http://";
            let source = Source::from_url(url).ok_or_else(|| ChatError::invalid("image_url.url", form))?;
            Ok(Block::Image { source })
        }
        "file" => document(fields.need("file")?).map_err(|error| error.inside("file")),
        "text" => text_part(kind, fields),
        "input_audio" => Err(ChatError::untranslatable("type", TO, "audio is not taken there")),
        _ => Err(ChatError::untranslatable("type", TO, "only text, images and files have an equal")),
    }
}

fn document<'a>(raw: &'a RawValue) -> Result<Block<'a>, ChatError> {
    let mut file = Fields::read(raw, "")?;
    let title = file.text("filename")?;
    let Some(data) = file.text("file_data")? else {
        return Err(ChatError::untranslatable(
            "file_id",
            TO,
            "files of another account are unknown there; send file_data",
        ));
    };
    file.finish(TO)?;
    match base64_of(&data) {
        Some(("application/pdf", _)) => {}
        _ => {
            return Err(ChatError::untranslatable(
                "file_data",
                TO,
                "only a base64 data URL of application/pdf has an equal",
            ));
        }
    }
    let source = Source::from_url(data).ok_or_else(|| ChatError::invalid("file_data", "must be a base64 data URL"))?;
    Ok(Block::Document { source, title })
}

fn assistant<'a>(fields: &mut Fields<'a>) -> Result<Vec<Block<'a>>, ChatError> {
    fields.ignore(&["reasoning_content", "reasoning", "annotations"]);
    fields.ignore_if("tool_calls", &["[]"]);
    let mut turn = fields.list("thinking_blocks", thinking)?.unwrap_or_default();
    turn.retain(|block| !matches!(block, Block::Thinking { signature, .. } if signature.is_empty()));
    if let Some(content) = fields.take("content") {
        turn.extend(blocks(content, assistant_part)?);
    }
    let refusal = fields.text("refusal")?.filter(|refusal| !refusal.is_empty());
    turn.extend(refusal.map(|text| Block::Text { text }));
    turn.extend(fields.list("tool_calls", call)?.unwrap_or_default());
    Ok(turn)
}

fn thinking<'a>(raw: &'a RawValue) -> Result<Block<'a>, ChatError> {
    let mut fields = Fields::read(raw, "")?;
    match &*fields.need_text("type")? {
        "thinking" => Ok(Block::Thinking {
            thinking: fields.need_text("thinking")?,
            signature: fields.text("signature")?.unwrap_or(Cow::Borrowed("")),
        }),
        "redacted_thinking" => Ok(Block::RedactedThinking { data: fields.need_text("data")? }),
        _ => Err(ChatError::invalid("type", "must be thinking or redacted_thinking")),
    }
}

fn call<'a>(raw: &'a RawValue) -> Result<Block<'a>, ChatError> {
    let mut fields = Fields::read(raw, "")?;
    fields.ignore(&["index"]);
    let id = fields.need_text("id")?;
    if fields.text("type")?.is_some_and(|kind| kind != "function") {
        return Err(ChatError::untranslatable("type", TO, "only functions have an equal"));
    }
    let mut function = Fields::read(fields.need("function")?, "function")?;
    fields.finish(TO)?;
    let read = || {
        let name = function.need_text("name")?;
        let arguments = function.text("arguments")?.unwrap_or(Cow::Borrowed(""));
        let not_json = || ChatError::untranslatable("arguments", TO, "only a JSON object can be sent there");
        Ok(Block::ToolUse { id, name, input: Cow::Owned(object_of(&arguments).ok_or_else(not_json)?) })
    };
    let block = read().map_err(|error: ChatError| error.inside("function"))?;
    function.finish(TO).map_err(|error| error.inside("function"))?;
    Ok(block)
}
