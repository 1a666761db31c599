//! Answers that are not streamed.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use tokio_util::bytes::Bytes;

use super::{
    Answer, ChatError, Finish, Protocol, ToolCall, Translation, UNSIGNED, Usage,
    answer::read_usage,
    blocks::{Block, Call, object_of},
    id_of,
    object::Text,
};

/// A worker's whole answer for the client. The same protocol's is handed on as it came, unread.
pub fn translate_answer(translation: Translation, bytes: Bytes) -> Result<Bytes, ChatError> {
    let Translation { from, to, created_s, .. } = translation;
    if from == to {
        return Ok(bytes);
    }
    let whole = Whole::read(from, &bytes)?;
    let written = match to {
        Protocol::OpenAi => whole.to_openai(created_s, &bytes),
        Protocol::Anthropic => whole.to_anthropic(&bytes),
    };
    written.map(Bytes::from)
}

/// A whole answer, whatever its protocol.
pub(super) struct Whole<'a> {
    from: Protocol,
    id: Cow<'a, str>,
    model: Cow<'a, str>,
    created_s: Option<u64>,
    parts: Vec<Part<'a>>,
    finish: Option<Finish>,
    usage: Option<Usage>,
}

enum Part<'a> {
    Text(Cow<'a, str>),
    Refusal(Cow<'a, str>),
    Thinking { thinking: Cow<'a, str>, signature: Cow<'a, str> },
    Redacted(Cow<'a, str>),
    Tool { id: Cow<'a, str>, name: Cow<'a, str>, arguments: Cow<'a, str> },
}

#[derive(Deserialize)]
struct Completion<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    model: Option<Text<'a>>,
    #[serde(default)]
    created: Option<u64>,
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: Message<'a>,
    #[serde(borrow, default)]
    finish_reason: Option<Text<'a>>,
}

/// An OpenAI message, or a part of one.
#[derive(Default, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<CallRead<'a>>>,
}

/// A text, or the list of parts that some servers write.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(#[serde(borrow)] Text<'a>),
    Parts(#[serde(borrow)] Vec<ContentPart<'a>>),
}

#[derive(Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CallRead<'a> {
    #[serde(default)]
    pub(super) index: Option<usize>,
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) function: Option<FunctionRead<'a>>,
}

#[derive(Deserialize)]
pub(super) struct FunctionRead<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<Text<'a>>,
}

impl<'a> Content<'a> {
    pub(super) fn text(self) -> Cow<'a, str> {
        match self {
            Self::Text(Text(text)) => text,
            Self::Parts(parts) => {
                Cow::Owned(parts.into_iter().filter_map(|part| part.text).map(|Text(text)| text).collect())
            }
        }
    }
}

impl<'a> Message<'a> {
    /// Reasoning where it is a text: it has two names, and servers put other things into them too.
    pub(super) fn thinking(&self) -> Option<Cow<'a, str>> {
        let text = |raw: &'a RawValue| serde_json::from_str(raw.get()).ok().map(|Text(text)| text);
        let fields = [self.reasoning_content, self.reasoning].into_iter().flatten();
        fields.filter_map(text).find(|text| !text.is_empty())
    }
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<Text<'a>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

/// A block of an Anthropic answer, whole or as a stream starts it.
#[derive(Deserialize)]
pub(super) struct BlockRead<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) data: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

pub(super) fn text_of(text: Option<Text<'_>>) -> Cow<'_, str> {
    text.map_or(Cow::Borrowed(""), |Text(text)| text)
}

impl<'a> Whole<'a> {
    pub(super) fn read(from: Protocol, bytes: &'a [u8]) -> Result<Self, ChatError> {
        match from {
            Protocol::OpenAi => Self::from_openai(bytes),
            Protocol::Anthropic => Self::from_anthropic(bytes),
        }
        .map_err(|problem| ChatError::answer(from, problem))
    }

    fn from_openai(bytes: &'a [u8]) -> Result<Self, String> {
        let read: Completion<'a> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let choice = read.choices.into_iter().next().ok_or("it has no choices")?;
        let mut parts = vec![];
        parts.extend(choice.message.thinking().map(|thinking| Part::Thinking { thinking, signature: "".into() }));
        let Message { content, refusal, tool_calls, .. } = choice.message;
        parts.extend(content.map(Content::text).filter(|text| !text.is_empty()).map(Part::Text));
        parts.extend(refusal.map(|Text(text)| text).filter(|text| !text.is_empty()).map(Part::Refusal));
        for (at, call) in tool_calls.into_iter().flatten().enumerate() {
            let function = call.function.ok_or_else(|| format!("its tool call {at} has no function"))?;
            let Text(name) = function.name.ok_or_else(|| format!("its tool call {at} has no name"))?;
            let id = call.id.map_or_else(|| call_id(text_of(read.id.clone()).as_bytes(), at).into(), |Text(id)| id);
            parts.push(Part::Tool { id, name, arguments: text_of(function.arguments) });
        }
        Ok(Self {
            from: Protocol::OpenAi,
            id: text_of(read.id),
            model: text_of(read.model),
            created_s: read.created,
            parts,
            finish: choice.finish_reason.map(|Text(word)| Finish::from_word(Protocol::OpenAi, &word)),
            usage: read.usage.and_then(|raw| read_usage(Protocol::OpenAi, raw)),
        })
    }

    fn from_anthropic(bytes: &'a [u8]) -> Result<Self, String> {
        let read: Reply<'a> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let mut parts = vec![];
        for raw in read.content {
            let block: BlockRead<'a> = serde_json::from_str(raw.get()).map_err(|error| format!("a block: {error}"))?;
            match &*block.kind.0 {
                "text" => parts.push(Part::Text(text_of(block.text))),
                "thinking" => {
                    let (thinking, signature) = (text_of(block.thinking), text_of(block.signature));
                    parts.push(Part::Thinking { thinking, signature });
                }
                "redacted_thinking" => parts.push(Part::Redacted(text_of(block.data))),
                "tool_use" => parts.push(Part::Tool {
                    id: text_of(block.id),
                    name: block.name.ok_or("a tool_use block has no name")?.0,
                    arguments: block.input.map_or("{}", RawValue::get).into(),
                }),
                // What a server's own tools did; none was asked for by a client of the other protocol.
                _ => {}
            }
        }
        Ok(Self {
            from: Protocol::Anthropic,
            id: text_of(read.id),
            model: text_of(read.model),
            created_s: None,
            parts,
            finish: read.stop_reason.map(|Text(word)| Finish::from_word(Protocol::Anthropic, &word)),
            usage: read.usage.and_then(|raw| read_usage(Protocol::Anthropic, raw)),
        })
    }

    pub(super) fn answer(self) -> Answer {
        let mut answer = Answer { finish: self.finish, usage: self.usage, ..Answer::default() };
        for part in self.parts {
            match part {
                Part::Text(text) => answer.text.push_str(&text),
                Part::Refusal(text) => {
                    answer.text.push_str(&text);
                    answer.finish = Some(Finish::Refusal);
                }
                Part::Tool { id, name, arguments } => answer.tool_calls.push(ToolCall {
                    id: id.into_owned(),
                    name: name.into_owned(),
                    arguments: arguments.into_owned(),
                }),
                Part::Thinking { .. } | Part::Redacted(_) => {}
            }
        }
        answer
    }

    /// The reason to stop that goes with the content: some servers say `stop` where they call tools.
    fn told_finish(&self) -> Finish {
        let finish = self.finish.unwrap_or(Finish::Stop);
        let refused = self.parts.iter().any(|part| matches!(part, Part::Refusal(_)));
        let calls = self.parts.iter().any(|part| matches!(part, Part::Tool { .. }));
        match finish {
            _ if refused => Finish::Refusal,
            Finish::Stop if calls => Finish::ToolCalls,
            finish => finish,
        }
    }

    fn to_anthropic(&self, bytes: &[u8]) -> Result<Vec<u8>, ChatError> {
        #[derive(Serialize)]
        struct Reply<'a> {
            id: String,
            #[serde(rename = "type")]
            kind: &'static str,
            role: &'static str,
            model: &'a str,
            content: Vec<Block<'a>>,
            stop_reason: &'static str,
            stop_sequence: Option<&'static str>,
            usage: Value,
        }
        let content: Result<_, ChatError> = self.parts.iter().map(|part| self.block(part)).collect();
        to_json(
            &Reply {
                id: id_of(Protocol::Anthropic, &self.id, bytes),
                kind: "message",
                role: "assistant",
                model: &self.model,
                content: content?,
                stop_reason: self.told_finish().word(Protocol::Anthropic),
                stop_sequence: None,
                usage: usage_json(Protocol::Anthropic, self.usage.unwrap_or_default()),
            },
            self.from,
        )
    }

    fn block<'s>(&'s self, part: &'s Part<'a>) -> Result<Block<'s>, ChatError> {
        let lent = |text: &'s Cow<'a, str>| Cow::Borrowed(&**text);
        Ok(match part {
            Part::Text(text) | Part::Refusal(text) => Block::Text { text: lent(text) },
            Part::Thinking { thinking, .. } => Block::Thinking { thinking: lent(thinking), signature: UNSIGNED.into() },
            Part::Redacted(data) => Block::RedactedThinking { data: lent(data) },
            Part::Tool { id, name, arguments } => {
                let no_object = || ChatError::answer(self.from, "a tool's arguments are not a JSON object");
                let input = Cow::Owned(object_of(arguments).ok_or_else(no_object)?);
                Block::ToolUse { id: lent(id), name: lent(name), input }
            }
        })
    }

    fn to_openai(&self, created_s: u64, bytes: &[u8]) -> Result<Vec<u8>, ChatError> {
        #[derive(Serialize)]
        struct Message<'a> {
            role: &'static str,
            content: Option<String>,
            refusal: Option<&'static str>,
            #[serde(skip_serializing_if = "String::is_empty")]
            reasoning_content: String,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            thinking_blocks: Vec<Block<'a>>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            tool_calls: Vec<Call<'a>>,
        }
        let mut message = Message {
            role: "assistant",
            content: None,
            refusal: None,
            reasoning_content: String::new(),
            thinking_blocks: vec![],
            tool_calls: vec![],
        };
        for part in &self.parts {
            match part {
                Part::Text(text) | Part::Refusal(text) => message.content.get_or_insert_default().push_str(text),
                Part::Thinking { thinking, signature } => {
                    message.reasoning_content.push_str(thinking);
                    let (thinking, signature) = (Cow::Borrowed(&**thinking), Cow::Borrowed(&**signature));
                    message.thinking_blocks.push(Block::Thinking { thinking, signature });
                }
                Part::Redacted(data) => {
                    message.thinking_blocks.push(Block::RedactedThinking { data: Cow::Borrowed(&**data) });
                }
                Part::Tool { id, name, arguments } => {
                    let call = Call::whole((&**id).into(), (&**name).into(), (&**arguments).into());
                    message.tool_calls.push(call);
                }
            }
        }
        if message.tool_calls.is_empty() {
            message.content.get_or_insert_default();
        }
        #[derive(Serialize)]
        struct Choice<'a> {
            index: u8,
            message: Message<'a>,
            logprobs: Option<()>,
            finish_reason: &'static str,
        }
        #[derive(Serialize)]
        struct Completion<'a> {
            id: String,
            object: &'static str,
            created: u64,
            model: &'a str,
            choices: [Choice<'a>; 1],
            usage: Value,
        }
        let finish_reason = self.told_finish().word(Protocol::OpenAi);
        to_json(
            &Completion {
                id: id_of(Protocol::OpenAi, &self.id, bytes),
                object: "chat.completion",
                created: self.created_s.unwrap_or(created_s),
                model: &self.model,
                choices: [Choice { index: 0, message, logprobs: None, finish_reason }],
                usage: usage_json(Protocol::OpenAi, self.usage.unwrap_or_default()),
            },
            self.from,
        )
    }
}

fn to_json(value: &impl Serialize, from: Protocol) -> Result<Vec<u8>, ChatError> {
    serde_json::to_vec(value).map_err(|error| ChatError::answer(from, error))
}

/// An id for a call whose server gave it none.
pub(super) fn call_id(answer_id: &[u8], index: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(answer_id).update(&index.to_le_bytes());
    format!("call_{}", &hasher.finalize().to_hex()[..24])
}

/// The usage as the protocol's clients read it.
pub(super) fn usage_json(protocol: Protocol, usage: Usage) -> Value {
    let Usage { input_tokens, output_tokens, cached_tokens, cache_written_tokens } = usage;
    match protocol {
        Protocol::OpenAi => json!({
            "prompt_tokens": input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": input_tokens.saturating_add(output_tokens),
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
        }),
        Protocol::Anthropic => json!({
            "input_tokens": input_tokens.saturating_sub(cached_tokens).saturating_sub(cache_written_tokens),
            "cache_read_input_tokens": cached_tokens,
            "cache_creation_input_tokens": cache_written_tokens,
            "output_tokens": output_tokens,
        }),
    }
}
