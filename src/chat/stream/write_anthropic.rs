//! Writes the events of a message. Its blocks come one after another, so a change of what is said ends a block.

use serde_json::{Value, json};
use tokio_util::bytes::Bytes;

use super::{Piece, frame};
use crate::chat::{ChatError, Finish, Protocol, UNSIGNED, Usage, error_frame, id_of, whole::usage_json};

#[derive(Default)]
pub(super) struct AnthropicWriter {
    blocks: usize,
    open: Option<Open>,
    finish: Option<Finish>,
    usage: Usage,
    calls: bool,
    refused: bool,
}

/// The block that is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Text,
    Thinking,
    Call(usize),
}

type Frames<'f> = &'f mut Vec<Bytes>;

impl AnthropicWriter {
    pub(super) fn write(&mut self, piece: Piece<'_>, frames: Frames<'_>) -> Result<(), ChatError> {
        match piece {
            Piece::Start { id, model } => {
                let id = id_of(Protocol::Anthropic, &id, model.as_bytes());
                let message = json!({
                    "id": id, "type": "message", "role": "assistant", "model": model, "content": [],
                    "stop_reason": null, "stop_sequence": null, "usage": usage_json(Protocol::Anthropic, self.usage),
                });
                frames.push(event("message_start", json!({"message": message}))?);
            }
            Piece::Text(text) => self.text(&text, frames)?,
            Piece::Refusal(text) => {
                self.refused = true;
                self.text(&text, frames)?;
            }
            Piece::Thinking(text) => {
                self.open(Open::Thinking, json!({"type": "thinking", "thinking": "", "signature": ""}), frames)?;
                self.delta(json!({"type": "thinking_delta", "thinking": text}), frames)?;
            }
            Piece::Tool { index, id, name } => {
                self.calls = true;
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                self.open(Open::Call(index), block, frames)?;
            }
            Piece::Arguments { index, fragment } => {
                if self.open != Some(Open::Call(index)) {
                    let mixed = "the arguments of its tool calls are mixed, which has no equal in this protocol";
                    return Err(ChatError::answer(Protocol::OpenAi, mixed));
                }
                self.delta(json!({"type": "input_json_delta", "partial_json": fragment}), frames)?;
            }
            Piece::Finish(finish) => self.finish = Some(finish),
            Piece::Usage(usage) => self.usage = usage,
            Piece::Ping => frames.push(event("ping", json!({}))?),
            Piece::Error { kind, message } => frames.push(error_frame(Protocol::Anthropic, kind, &message)),
            Piece::End => self.end(frames)?,
            // Only Anthropic workers send these, and their streams are not written anew for Anthropic clients.
            Piece::Signature(_) | Piece::Redacted(_) => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str, frames: Frames<'_>) -> Result<(), ChatError> {
        self.open(Open::Text, json!({"type": "text", "text": ""}), frames)?;
        self.delta(json!({"type": "text_delta", "text": text}), frames)
    }

    /// Opens a block, unless it is open.
    fn open(&mut self, block: Open, start: Value, frames: Frames<'_>) -> Result<(), ChatError> {
        if self.open != Some(block) {
            self.close(frames)?;
            self.open = Some(block);
            frames.push(event("content_block_start", json!({"index": self.blocks, "content_block": start}))?);
        }
        Ok(())
    }

    fn delta(&self, delta: Value, frames: Frames<'_>) -> Result<(), ChatError> {
        frames.push(event("content_block_delta", json!({"index": self.blocks, "delta": delta}))?);
        Ok(())
    }

    fn close(&mut self, frames: Frames<'_>) -> Result<(), ChatError> {
        let Some(block) = self.open.take() else { return Ok(()) };
        if block == Open::Thinking {
            self.delta(json!({"type": "signature_delta", "signature": UNSIGNED}), frames)?;
        }
        frames.push(event("content_block_stop", json!({"index": self.blocks}))?);
        self.blocks += 1;
        Ok(())
    }

    fn end(&mut self, frames: Frames<'_>) -> Result<(), ChatError> {
        self.close(frames)?;
        let finish = match self.finish.unwrap_or(Finish::Stop) {
            _ if self.refused => Finish::Refusal,
            Finish::Stop if self.calls => Finish::ToolCalls,
            finish => finish,
        };
        let delta = json!({"stop_reason": finish.word(Protocol::Anthropic), "stop_sequence": null});
        let usage = usage_json(Protocol::Anthropic, self.usage);
        frames.push(event("message_delta", json!({"delta": delta, "usage": usage}))?);
        frames.push(event("message_stop", json!({}))?);
        Ok(())
    }
}

fn event(name: &str, mut value: Value) -> Result<Bytes, ChatError> {
    value["type"] = name.into();
    frame(&format!("event: {name}\ndata: "), &value)
}
