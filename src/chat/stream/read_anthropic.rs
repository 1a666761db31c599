//! Reads the events of a message.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Piece, Sink};
use crate::chat::{
    ChatError, ErrorKind, Finish, Protocol, SseEvent,
    answer::AnthropicUsage,
    object::Text,
    read_error,
    whole::{BlockRead, text_of},
};

#[derive(Default)]
pub(super) struct AnthropicReader {
    finished: bool,
    usage: AnthropicUsage,
    calls: Vec<CallBlock>,
}

/// A `tool_use` block.
struct CallBlock {
    at: u64,
    /// The input that the block started with, until a fragment comes.
    input: Option<String>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    content_block: Option<BlockRead<'a>>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    model: Option<Text<'a>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<Text<'a>>,
    #[serde(borrow, default)]
    stop_reason: Option<Text<'a>>,
}

impl AnthropicReader {
    pub(super) fn read(&mut self, event: &SseEvent, sink: Sink<'_>) -> Result<(), ChatError> {
        let Some(data) = event.data().filter(|data| !data.is_empty()) else { return Ok(()) };
        let event: Event<'_> = serde_json::from_slice(data).map_err(|e| ChatError::answer(Protocol::Anthropic, e))?;
        match &*event.kind.0 {
            "message_start" => {
                let Some(Message { id, model, usage }) = event.message else { return Ok(()) };
                sink(Piece::Start { id: text_of(id), model: text_of(model) })?;
                self.usage(usage, sink)
            }
            "content_block_start" => self.block(event.index, event.content_block, sink),
            "content_block_delta" => self.delta(event.index, event.delta, sink),
            "content_block_stop" => self.block_end(event.index, sink),
            "message_delta" => {
                self.usage(event.usage, sink)?;
                let Some(Text(word)) = event.delta.and_then(|delta| delta.stop_reason) else { return Ok(()) };
                self.finished = true;
                sink(Piece::Finish(Finish::from_word(Protocol::Anthropic, &word)))
            }
            "message_stop" if self.finished => sink(Piece::End),
            "message_stop" => Err(ChatError::Broken("it says message_stop without a stop_reason")),
            "error" => {
                let (kind, message) = read_error(data).unwrap_or((ErrorKind::Server, "the worker failed".into()));
                sink(Piece::Error { kind, message })
            }
            "ping" => sink(Piece::Ping),
            // The protocol may add events, and asks its clients to pass over them.
            _ => Ok(()),
        }
    }

    fn usage(&mut self, usage: Option<&RawValue>, sink: Sink<'_>) -> Result<(), ChatError> {
        if let Some(raw) = usage {
            self.usage.update(raw);
        }
        self.usage.usage().map_or(Ok(()), |usage| sink(Piece::Usage(usage)))
    }

    fn block(&mut self, at: Option<u64>, block: Option<BlockRead<'_>>, sink: Sink<'_>) -> Result<(), ChatError> {
        let Some(block) = block else { return Ok(()) };
        match &*block.kind.0 {
            "text" => say(block.text, Piece::Text, sink),
            "thinking" => {
                say(block.thinking, Piece::Thinking, sink)?;
                say(block.signature, Piece::Signature, sink)
            }
            "redacted_thinking" => say(block.data, Piece::Redacted, sink),
            "tool_use" => {
                let index = self.calls.len();
                let input = block.input.map_or("{}", RawValue::get).to_owned();
                self.calls.push(CallBlock { at: at.unwrap_or_default(), input: Some(input) });
                sink(Piece::Tool { index, id: text_of(block.id), name: text_of(block.name) })
            }
            _ => Ok(()),
        }
    }

    fn delta(&mut self, at: Option<u64>, delta: Option<Delta<'_>>, sink: Sink<'_>) -> Result<(), ChatError> {
        let Some(delta) = delta else { return Ok(()) };
        say(delta.text, Piece::Text, sink)?;
        say(delta.thinking, Piece::Thinking, sink)?;
        say(delta.signature, Piece::Signature, sink)?;
        if let Some(index) = self.call_at(at) {
            return say(delta.partial_json, |fragment| Piece::Arguments { index, fragment }, &mut |piece| {
                self.calls[index].input = None;
                sink(piece)
            });
        }
        Ok(())
    }

    /// A call without fragments has the input that its block started with.
    fn block_end(&mut self, at: Option<u64>, sink: Sink<'_>) -> Result<(), ChatError> {
        let Some(index) = self.call_at(at) else { return Ok(()) };
        match self.calls[index].input.take() {
            Some(input) => sink(Piece::Arguments { index, fragment: input.into() }),
            None => Ok(()),
        }
    }

    fn call_at(&self, at: Option<u64>) -> Option<usize> {
        self.calls.iter().rposition(|call| call.at == at.unwrap_or_default())
    }
}

/// Passes a text on, unless there is none.
fn say<'a>(
    text: Option<Text<'a>>,
    piece: impl FnOnce(std::borrow::Cow<'a, str>) -> Piece<'a>,
    sink: Sink<'_>,
) -> Result<(), ChatError> {
    match text {
        Some(Text(text)) if !text.is_empty() => sink(piece(text)),
        Some(_) | None => Ok(()),
    }
}
