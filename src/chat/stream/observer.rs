//! What a stream has said so far.

use super::Piece;
use crate::chat::{Answer, ChatError, ErrorKind, Finish, ToolCall};

/// The longest answer that is put together, in bytes: a stream without an end is an error, not a full memory.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Puts together an answer from a stream.
#[derive(Debug, Default)]
pub struct Observer {
    answer: Answer,
    bytes: usize,
    has_content: bool,
    refused: bool,
    has_ended: bool,
    failure: Option<(ErrorKind, String)>,
}

impl Observer {
    /// The answer so far.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// The answer, handed over.
    pub fn into_answer(self) -> Answer {
        self.answer
    }

    /// Whether the client would see something: text, thinking, a refusal or a tool call. A role or an empty delta is
    /// nothing.
    pub fn has_content(&self) -> bool {
        self.has_content
    }

    /// Whether the stream ended as its protocol demands: `[DONE]` after a reason to finish, or `message_stop` after one.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The error event that the stream carried.
    pub fn failure(&self) -> Option<(ErrorKind, &str)> {
        self.failure.as_ref().map(|(kind, message)| (*kind, &**message))
    }

    /// Whether nothing more can come.
    pub fn is_over(&self) -> bool {
        self.has_ended || self.failure.is_some()
    }

    pub(super) fn note(&mut self, piece: &Piece<'_>) -> Result<(), ChatError> {
        match piece {
            Piece::Text(text) => self.said(text),
            Piece::Refusal(text) => {
                self.refused = true;
                self.answer.finish = Some(Finish::Refusal);
                self.said(text);
            }
            Piece::Thinking(text) => {
                self.has_content = true;
                self.bytes += text.len();
            }
            Piece::Tool { id, name, .. } => {
                self.has_content = true;
                self.bytes += id.len() + name.len() + size_of::<ToolCall>();
                let (id, name) = (id.to_string(), name.to_string());
                self.answer.tool_calls.push(ToolCall { id, name, arguments: String::new() });
            }
            Piece::Arguments { index, fragment } => {
                self.bytes += fragment.len();
                if let Some(call) = self.answer.tool_calls.get_mut(*index) {
                    call.arguments.push_str(fragment);
                }
            }
            Piece::Redacted(data) => {
                self.has_content = true;
                self.bytes += data.len();
            }
            Piece::Finish(finish) if !self.refused => self.answer.finish = Some(*finish),
            Piece::Usage(usage) => self.answer.usage = Some(*usage),
            Piece::Error { kind, message } => self.failure = Some((*kind, message.clone())),
            Piece::End => self.has_ended = true,
            Piece::Start { .. } | Piece::Signature(_) | Piece::Finish(_) | Piece::Ping => {}
        }
        if self.bytes > ANSWER_BYTES_MAX {
            return Err(ChatError::Broken("the answer is longer than 16 MiB"));
        }
        Ok(())
    }

    fn said(&mut self, text: &str) {
        self.has_content = true;
        self.bytes += text.len();
        self.answer.text.push_str(text);
    }
}
