//! Writes the chunks of a chat completion.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use tokio_util::bytes::Bytes;

use super::{Piece, frame};
use crate::chat::{
    ChatError, Finish, Protocol, Usage,
    blocks::{Block, Call, CalledFunction},
    error_frame, id_of,
    whole::usage_json,
};

pub(super) struct OpenAiWriter {
    usage_chunk: bool,
    created_s: u64,
    id: String,
    model: String,
    usage: Usage,
    /// The thinking of the block that is open, to go with its signature.
    thinking: String,
    calls: bool,
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [Choice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u8,
    delta: Delta<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_blocks: Option<[Block<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[Call<'a>; 1]>,
}

impl OpenAiWriter {
    pub(super) fn new(usage_chunk: bool, created_s: u64) -> Self {
        let usage = Usage::default();
        Self {
            usage_chunk,
            created_s,
            id: String::new(),
            model: String::new(),
            usage,
            thinking: String::new(),
            calls: false,
        }
    }

    pub(super) fn write(&mut self, piece: Piece<'_>, frames: &mut Vec<Bytes>) -> Result<(), ChatError> {
        let delta = match piece {
            Piece::Start { id, model } => {
                self.id = id_of(Protocol::OpenAi, &id, model.as_bytes());
                self.model = model.into_owned();
                Delta { role: Some("assistant"), content: Some("".into()), ..Delta::default() }
            }
            Piece::Text(text) | Piece::Refusal(text) => Delta { content: Some(text), ..Delta::default() },
            Piece::Thinking(text) => {
                self.thinking.push_str(&text);
                frames.push(self.delta(Delta { reasoning_content: Some(&text), ..Delta::default() })?);
                return Ok(());
            }
            Piece::Signature(signature) => {
                let thinking = std::mem::take(&mut self.thinking).into();
                Delta { thinking_blocks: Some([Block::Thinking { thinking, signature }]), ..Delta::default() }
            }
            Piece::Redacted(data) => {
                Delta { thinking_blocks: Some([Block::RedactedThinking { data }]), ..Delta::default() }
            }
            Piece::Tool { index, id, name } => {
                self.calls = true;
                let call = Call { index: Some(index), ..Call::whole(id, name, "".into()) };
                Delta { tool_calls: Some([call]), ..Delta::default() }
            }
            Piece::Arguments { index, fragment } => {
                let function = CalledFunction { name: None, arguments: fragment };
                let call = Call { index: Some(index), id: None, kind: None, function };
                Delta { tool_calls: Some([call]), ..Delta::default() }
            }
            other => return self.write_rest(other, frames),
        };
        frames.push(self.delta(delta)?);
        Ok(())
    }

    fn write_rest(&mut self, piece: Piece<'_>, frames: &mut Vec<Bytes>) -> Result<(), ChatError> {
        match piece {
            Piece::Finish(finish) => {
                let finish = if finish == Finish::Stop && self.calls { Finish::ToolCalls } else { finish };
                let finish_reason = Some(finish.word(Protocol::OpenAi));
                let choice = Choice { index: 0, delta: Delta::default(), logprobs: None, finish_reason };
                frames.push(self.chunk(&[choice], None)?);
            }
            Piece::Usage(usage) => self.usage = usage,
            Piece::Ping => frames.push(Bytes::from_static(b": ping\n\n")),
            Piece::Error { kind, message } => frames.push(error_frame(Protocol::OpenAi, kind, &message)),
            Piece::End => {
                if self.usage_chunk {
                    frames.push(self.chunk(&[], Some(usage_json(Protocol::OpenAi, self.usage)))?);
                }
                frames.push(Bytes::from_static(b"data: [DONE]\n\n"));
            }
            Piece::Start { .. }
            | Piece::Text(_)
            | Piece::Refusal(_)
            | Piece::Thinking(_)
            | Piece::Signature(_)
            | Piece::Redacted(_)
            | Piece::Tool { .. }
            | Piece::Arguments { .. } => {}
        }
        Ok(())
    }

    fn delta(&self, delta: Delta<'_>) -> Result<Bytes, ChatError> {
        self.chunk(&[Choice { index: 0, delta, logprobs: None, finish_reason: None }], None)
    }

    fn chunk(&self, choices: &[Choice<'_>], usage: Option<Value>) -> Result<Bytes, ChatError> {
        let object = "chat.completion.chunk";
        let Self { id, model, created_s, .. } = self;
        frame("data: ", &Chunk { id, object, created: *created_s, model, choices, usage })
    }
}
