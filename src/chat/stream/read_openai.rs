//! Reads the chunks of a chat completion.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Piece, Sink};
use crate::chat::{
    ChatError, ErrorKind, Finish, Protocol, SseEvent,
    answer::read_usage,
    object::Text,
    read_error,
    whole::{CallRead, Content, Message, call_id, text_of},
};

#[derive(Default)]
pub(super) struct OpenAiReader {
    started: bool,
    finished: bool,
    answer_id: String,
    /// The worker's index and id of each call, in order.
    calls: Vec<(usize, String)>,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    model: Option<Text<'a>>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<Message<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<Text<'a>>,
}

impl OpenAiReader {
    /// Says whether the event is the chunk that holds the usage alone.
    pub(super) fn read(&mut self, event: &SseEvent, sink: Sink<'_>) -> Result<bool, ChatError> {
        let Some(data) = event.data().filter(|data| !data.is_empty()) else { return Ok(false) };
        if data == b"[DONE]" {
            if !self.finished {
                return Err(ChatError::Broken("it says [DONE] without a finish_reason"));
            }
            sink(Piece::End)?;
            return Ok(false);
        }
        let chunk: Chunk<'_> = serde_json::from_slice(data).map_err(|e| ChatError::answer(Protocol::OpenAi, e))?;
        if chunk.error.is_some() || event.event() == b"error" {
            let (kind, message) = read_error(data).unwrap_or((ErrorKind::Server, "the worker failed".into()));
            sink(Piece::Error { kind, message })?;
            return Ok(false);
        }
        if !self.started {
            self.started = true;
            let (id, model) = (text_of(chunk.id), text_of(chunk.model));
            self.answer_id = id.clone().into_owned();
            sink(Piece::Start { id, model })?;
        }
        let choices = chunk.choices.unwrap_or_default();
        let only_usage = choices.is_empty() && chunk.usage.is_some();
        for choice in choices {
            if choice.index.unwrap_or_default() == 0 {
                self.choice(choice, sink)?;
            }
        }
        if let Some(usage) = chunk.usage.and_then(|raw| read_usage(Protocol::OpenAi, raw)) {
            sink(Piece::Usage(usage))?;
        }
        Ok(only_usage)
    }

    fn choice(&mut self, choice: Choice<'_>, sink: Sink<'_>) -> Result<(), ChatError> {
        let delta = choice.delta.unwrap_or_default();
        if let Some(thinking) = delta.thinking() {
            sink(Piece::Thinking(thinking))?;
        }
        if let Some(text) = delta.content.map(Content::text).filter(|text| !text.is_empty()) {
            sink(Piece::Text(text))?;
        }
        if let Some(Text(text)) = delta.refusal.filter(|Text(text)| !text.is_empty()) {
            sink(Piece::Refusal(text))?;
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call, sink)?;
        }
        if let Some(Text(word)) = choice.finish_reason {
            self.finished = true;
            sink(Piece::Finish(Finish::from_word(Protocol::OpenAi, &word)))?;
        }
        Ok(())
    }

    // Servers differ: the index may be missing, or be 0 for every call; the id may come once or every time.
    fn call(&mut self, call: CallRead<'_>, sink: Sink<'_>) -> Result<(), ChatError> {
        let id = text_of(call.id);
        let (name, fragment) = call.function.map_or((None, None), |function| (function.name, function.arguments));
        let known = match call.index {
            Some(index) => self.calls.iter().rposition(|(known, _)| *known == index),
            None => self.calls.len().checked_sub(1),
        };
        let known = known.filter(|known| id.is_empty() || self.calls[*known].1 == *id);
        let index = match known {
            Some(known) => known,
            None => {
                let index = self.calls.len();
                let Some(Text(name)) = name.filter(|Text(name)| !name.is_empty()) else {
                    return Err(ChatError::answer(Protocol::OpenAi, "a tool call starts without a name"));
                };
                self.calls.push((call.index.unwrap_or(index), id.clone().into_owned()));
                let id = if id.is_empty() { Cow::Owned(call_id(self.answer_id.as_bytes(), index)) } else { id };
                sink(Piece::Tool { index, id, name })?;
                index
            }
        };
        match text_of(fragment) {
            fragment if fragment.is_empty() => Ok(()),
            fragment => sink(Piece::Arguments { index, fragment }),
        }
    }
}
