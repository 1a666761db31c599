//! The two chat protocols, OpenAI chat completions and Anthropic messages: requests, answers and streams.
//!
//! What goes to a worker of the client's own protocol goes byte by byte: a request changes only its `model` (and asks for
//! the usage of an OpenAI stream), an answer changes not at all. Between the protocols everything is translated, and what
//! has no equal is a [`ChatError::Untranslatable`] that names the field, so that a worker of the client's own protocol can
//! be taken instead. Nothing here does I/O, knows the time or draws a number.
//!
//! Left out on the way to the other protocol, because the answer does not depend on it or only a hint is lost:
//!
//! - to Anthropic: `store: false`, `seed` (best effort even there), `metadata`, `prediction`, `prompt_cache_key`,
//!   `prompt_cache_retention`, `stream_options.include_obfuscation`, an image's `detail`, messages' `name`, the assistant's
//!   earlier `reasoning_content`, `reasoning` and `annotations`, a schema's `name` and `description`, and values that say
//!   what is done anyway (`n: 1`, penalties of 0, `service_tier: "auto"` ...);
//! - to OpenAI: `cache_control`, `citations` of earlier texts, `service_tier`, `context_management`, `thinking` (how long a
//!   worker thinks is its own setting, or `output_config.effort`), earlier thinking blocks, `eager_input_streaming`, and
//!   `is_error` of a tool result that says by itself what went wrong;
//! - back to OpenAI: which stop sequence was met; back to Anthropic: `logprobs`, `system_fingerprint`.
//!
//! Changed on the way: a `temperature` above 1 is sent to Anthropic as 1, its highest; a request without a limit gets
//! [`MAX_TOKENS_DEFAULT`] there, where a limit must be; system messages in mid-conversation go to its `system`; images in
//! tool results go to OpenAI in the user message that follows, whose tool messages hold text alone. Thinking comes to
//! OpenAI clients as `reasoning_content`, with `thinking_blocks` that can be sent back; reasoning comes to Anthropic
//! clients as thinking signed [`UNSIGNED`], which is taken out again before an Anthropic worker would refuse it.

mod answer;
mod blocks;
mod error;
mod object;
mod request;
mod sse;
mod stream;
mod to_anthropic;
mod to_openai;
mod whole;

use std::fmt;

pub use answer::{Answer, Finish, ToolCall, Usage};
pub use error::{ChatError, ErrorKind, error_body, error_frame, read_error};
pub use object::RawObject;
pub use request::ChatRequest;
pub use sse::{FRAME_BYTES_MAX, SseEvent, SseParser};
pub use stream::{Observer, StreamTranslator};
pub use to_anthropic::MAX_TOKENS_DEFAULT;
pub use whole::translate_answer;

/// The signature of thinking that an OpenAI-compatible worker did: no Anthropic model signed it.
pub const UNSIGNED: &str = "pointsman-unsigned";

/// A chat protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `POST /v1/chat/completions`.
    OpenAi,
    /// `POST /v1/messages`.
    Anthropic,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenAi => "OpenAI",
            Self::Anthropic => "Anthropic",
        })
    }
}

/// How an answer gets from a worker to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translation {
    /// The worker's protocol.
    pub from: Protocol,
    /// The client's protocol.
    pub to: Protocol,
    /// Whether the client asked for the usage chunk of an OpenAI stream ([`ChatRequest::wants_usage`]).
    pub usage_chunk: bool,
    /// The time in seconds since 1970, for OpenAI's `created` where the worker sends none.
    pub created_s: u64,
}

/// An id of the protocol's own form, made from the worker's, or from the bytes at hand where it sent none.
fn id_of(protocol: Protocol, id: &str, bytes: &[u8]) -> String {
    let prefix = match protocol {
        Protocol::OpenAi => "chatcmpl-",
        Protocol::Anthropic => "msg_",
    };
    let bare = id.strip_prefix("chatcmpl-").or(id.strip_prefix("msg_")).unwrap_or(id);
    if bare.is_empty() { format!("{prefix}{}", &blake3::hash(bytes).to_hex()[..24]) } else { format!("{prefix}{bare}") }
}

#[cfg(test)]
mod tests;
