//! Answers that are written here: of workers that know texts only, and those that the journal has.

use std::collections::VecDeque;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{Ask, Reply, ReplyStream, WorkerError};
use crate::chat::{
    Answer, ChatError, ChatRequest, Finish, Protocol, SseParser, StreamTranslator, ToolCall, Translation,
    translate_answer,
};

/// Bytes of text in one frame.
const FRAME_BYTES: usize = 24;

/// What an answer that is written here is about.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    /// Its id, without the protocol's prefix.
    pub id: &'a str,
    /// The model that is named.
    pub model: &'a str,
    /// When it was made, in seconds since 1970.
    pub created_s: u64,
}

/// An answer of text alone, in the client's protocol.
pub fn written(chat: &ChatRequest, about: Written<'_>, said: &Answer) -> Result<Bytes, WorkerError> {
    let mut message = json!({"role": "assistant", "content": said.text, "refusal": null});
    if !said.tool_calls.is_empty() {
        message["tool_calls"] = said.tool_calls.iter().map(tool_call).collect();
    }
    let body = json!({
        "id": format!("chatcmpl-{}", about.id),
        "object": "chat.completion",
        "created": about.created_s,
        "model": about.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish(said)}],
        "usage": usage(said),
    });
    translate_answer(translation(chat, about), body.to_string().into()).map_err(defect)
}

/// A whole answer as a stream.
pub(super) fn stream(chat: &ChatRequest, reply: Reply) -> Result<WrittenStream, WorkerError> {
    let about = Written { id: "written", model: chat.model(), created_s: 0 };
    WrittenStream::new(chat, about, reply)
}

/// The reply of a worker that knows texts only.
pub(super) fn reply(ask: &Ask<'_>, text: String, cost_usd: Option<f64>) -> Result<Reply, WorkerError> {
    let said = Answer { text, ..Answer::default() };
    let body = match ask.chat {
        Some(chat) => written(chat, Written { id: ask.task.id.as_str(), model: chat.model(), created_s: 0 }, &said)?,
        None => Bytes::new(),
    };
    Ok(Reply { said, cost_usd, body })
}

fn finish(said: &Answer) -> &'static str {
    let whole = if said.tool_calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    said.finish.unwrap_or(whole).word(Protocol::OpenAi)
}

fn tool_call(call: &ToolCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

fn usage(said: &Answer) -> Value {
    let usage = said.usage.unwrap_or_default();
    let total = usage.input_tokens + usage.output_tokens;
    json!({"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens, "total_tokens": total})
}

fn translation(chat: &ChatRequest, about: Written<'_>) -> Translation {
    Translation {
        from: Protocol::OpenAi,
        to: chat.protocol(),
        usage_chunk: chat.wants_usage(),
        created_s: about.created_s,
    }
}

fn defect(error: ChatError) -> WorkerError {
    WorkerError::Protocol(format!("it could not be written: {error}"))
}

/// An answer whose text is known, as a stream.
pub struct WrittenStream {
    ready: VecDeque<Bytes>,
    last: Bytes,
    reply: Reply,
}

impl WrittenStream {
    /// Writes the frames that a worker would have sent.
    pub fn new(chat: &ChatRequest, about: Written<'_>, reply: Reply) -> Result<Self, WorkerError> {
        let Written { id, model, created_s } = about;
        let chunk = |choices: Value, usage: Value| {
            let chunk = json!({
                "id": format!("chatcmpl-{id}"),
                "object": "chat.completion.chunk",
                "created": created_s,
                "model": model,
                "choices": choices,
                "usage": usage,
            });
            format!("data: {chunk}\n\n")
        };
        let delta = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        let mut text = chunk(delta(json!({"role": "assistant", "content": ""}), Value::Null), Value::Null);
        for piece in pieces(&reply.said.text) {
            text.push_str(&chunk(delta(json!({"content": piece}), Value::Null), Value::Null));
        }
        for (index, call) in reply.said.tool_calls.iter().enumerate() {
            let mut call = tool_call(call);
            call["index"] = index.into();
            text.push_str(&chunk(delta(json!({"tool_calls": [call]}), Value::Null), Value::Null));
        }
        text.push_str(&chunk(delta(json!({}), finish(&reply.said).into()), Value::Null));
        text.push_str(&chunk(json!([]), usage(&reply.said)));
        text.push_str("data: [DONE]\n\n");
        let (mut parser, mut translator) = (SseParser::default(), StreamTranslator::new(translation(chat, about)));
        parser.push(text.as_bytes());
        let (mut ready, mut last, mut new) = (VecDeque::new(), Vec::new(), Vec::new());
        while let Some(event) = parser.next_event().map_err(defect)? {
            translator.push(&event, &mut new).map_err(defect)?;
            if translator.observer().has_ended() {
                last.append(&mut new);
            } else {
                ready.extend(new.drain(..));
            }
        }
        Ok(Self { ready, last: last.concat().into(), reply })
    }
}

impl WrittenStream {
    /// All frames, the last ones included.
    pub fn into_frames(self) -> Bytes {
        let frames: Vec<Bytes> = self.ready.into_iter().chain([self.last]).collect();
        frames.concat().into()
    }
}

/// A text in pieces of whole characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = (FRAME_BYTES.min(rest.len())..=rest.len()).find(|end| rest.is_char_boundary(*end))?;
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

#[async_trait]
impl ReplyStream for WrittenStream {
    async fn next(&mut self) -> Result<Option<Bytes>, WorkerError> {
        Ok(self.ready.pop_front())
    }

    fn last(&mut self) -> Bytes {
        std::mem::take(&mut self.last)
    }

    fn said(&self) -> &Answer {
        &self.reply.said
    }

    fn cost_usd(&self) -> Option<f64> {
        self.reply.cost_usd
    }
}
