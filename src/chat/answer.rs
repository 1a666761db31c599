//! What an answer says, whatever its protocol: for verification, prices and the journal.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ChatError, Protocol, whole::Whole};

/// An answer's content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The text, or the refusal. Of several choices, the first.
    pub text: String,
    /// The tools that are to be called, in order.
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped, where the worker said so.
    pub finish: Option<Finish>,
    /// The tokens, where the worker counted them in a form that can be believed.
    pub usage: Option<Usage>,
}

impl Answer {
    /// Reads a whole answer that was not streamed.
    pub fn read(protocol: Protocol, bytes: &[u8]) -> Result<Self, ChatError> {
        Whole::read(protocol, bytes).map(|whole| whole.answer())
    }
}

/// A call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The worker's id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// JSON as the worker wrote it; not checked.
    pub arguments: String,
}

/// Why an answer stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It was finished, or met a stop sequence.
    Stop,
    /// It met a limit of tokens.
    Length,
    /// Tools are to be called.
    ToolCalls,
    /// The model or a filter refused.
    Refusal,
}

impl Finish {
    /// Words that are not known count as [`Finish::Stop`]: servers of both protocols have words of their own.
    pub(super) fn from_word(protocol: Protocol, word: &str) -> Self {
        match (protocol, word) {
            (Protocol::OpenAi, "length") => Self::Length,
            (Protocol::OpenAi, "tool_calls" | "function_call") => Self::ToolCalls,
            (Protocol::OpenAi, "content_filter") => Self::Refusal,
            (Protocol::Anthropic, "max_tokens" | "model_context_window_exceeded") => Self::Length,
            (Protocol::Anthropic, "tool_use") => Self::ToolCalls,
            (Protocol::Anthropic, "refusal") => Self::Refusal,
            (Protocol::OpenAi | Protocol::Anthropic, _) => Self::Stop,
        }
    }

    /// The protocol's word for it.
    pub fn word(self, protocol: Protocol) -> &'static str {
        match (protocol, self) {
            (Protocol::OpenAi, Self::Stop) => "stop",
            (Protocol::OpenAi, Self::Length) => "length",
            (Protocol::OpenAi, Self::ToolCalls) => "tool_calls",
            (Protocol::OpenAi, Self::Refusal) => "content_filter",
            (Protocol::Anthropic, Self::Stop) => "end_turn",
            (Protocol::Anthropic, Self::Length) => "max_tokens",
            (Protocol::Anthropic, Self::ToolCalls) => "tool_use",
            (Protocol::Anthropic, Self::Refusal) => "refusal",
        }
    }
}

/// More than any model reads or writes in one call.
const TOKENS_MAX: u64 = 1 << 24;

/// Tokens, as the worker counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read, those from a cache and those put into one included.
    pub input_tokens: u64,
    /// Tokens written, reasoning included.
    pub output_tokens: u64,
    /// Tokens of the input that came from a cache.
    pub cached_tokens: u64,
    /// Tokens of the input that were put into a cache; OpenAI does not say.
    pub cache_written_tokens: u64,
}

#[derive(Deserialize)]
struct OpenAiUsage {
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

/// The counts of one event; a later event's count replaces an earlier one.
#[derive(Default, Deserialize)]
pub(super) struct AnthropicUsage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
}

impl AnthropicUsage {
    pub(super) fn update(&mut self, raw: &RawValue) {
        let Ok(new) = serde_json::from_str::<Self>(raw.get()) else { return };
        self.input_tokens = new.input_tokens.or(self.input_tokens);
        self.output_tokens = new.output_tokens.or(self.output_tokens);
        self.cache_read_input_tokens = new.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens = new.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        let cached_tokens = self.cache_read_input_tokens.unwrap_or_default();
        let cache_written_tokens = self.cache_creation_input_tokens.unwrap_or_default();
        believed(Usage {
            input_tokens: self.input_tokens?.saturating_add(cached_tokens).saturating_add(cache_written_tokens),
            output_tokens: self.output_tokens.unwrap_or_default(),
            cached_tokens,
            cache_written_tokens,
        })
    }
}

/// A worker that is out of its mind must not spend a tenant's budget.
fn believed(usage: Usage) -> Option<Usage> {
    (usage.input_tokens.max(usage.output_tokens) <= TOKENS_MAX).then_some(usage)
}

/// The usage, `None` where it is missing or cannot be believed: no answer is lost for a wrong count.
pub(super) fn read_usage(protocol: Protocol, raw: &RawValue) -> Option<Usage> {
    match protocol {
        Protocol::OpenAi => {
            let usage: OpenAiUsage = serde_json::from_str(raw.get()).ok()?;
            let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or_default();
            believed(Usage {
                input_tokens: usage.prompt_tokens,
                output_tokens: usage.completion_tokens.unwrap_or_default(),
                cached_tokens: cached.min(usage.prompt_tokens),
                cache_written_tokens: 0,
            })
        }
        Protocol::Anthropic => {
            let mut usage = AnthropicUsage::default();
            usage.update(raw);
            usage.usage()
        }
    }
}
