//! The parts of messages as they are written, and what both ways of translating share.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

/// A content block of an Anthropic message.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<Cow<'a, str>>,
    },
    Thinking {
        thinking: Cow<'a, str>,
        signature: Cow<'a, str>,
    },
    RedactedThinking {
        data: Cow<'a, str>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: Blocks<'a>,
    },
}

/// One text alone as a string, which every server takes, or a list.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Blocks<'a> {
    Text(Cow<'a, str>),
    List(Vec<Block<'a>>),
}

impl<'a> From<Vec<Block<'a>>> for Blocks<'a> {
    fn from(mut blocks: Vec<Block<'a>>) -> Self {
        match blocks.pop() {
            Some(Block::Text { text }) if blocks.is_empty() => Self::Text(text),
            last => {
                blocks.extend(last);
                Self::List(blocks)
            }
        }
    }
}

/// Where an image or a document is.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Source<'a> {
    Base64 { media_type: Cow<'a, str>, data: Cow<'a, str> },
    Url { url: Cow<'a, str> },
}

impl<'a> Source<'a> {
    /// A data URL of base64, or an address.
    pub(super) fn from_url(url: Cow<'a, str>) -> Option<Self> {
        if let Some((media_type, data)) = base64_of(&url) {
            return Some(Self::Base64 { media_type: media_type.to_owned().into(), data: data.to_owned().into() });
        }
        (url.starts_with("https://") || url.starts_with("http://")).then_some(Self::Url { url })
    }
}

/// The media type and the data of a base64 data URL; parameters such as a charset are left out.
pub(super) fn base64_of(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let head = head.strip_suffix(";base64")?;
    let media_type = head.split(';').next().filter(|media_type| media_type.contains('/'))?;
    Some((media_type, data))
}

/// A content part of an OpenAI message.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
pub(super) struct ImageUrl<'a> {
    pub url: Cow<'a, str>,
}

#[derive(Serialize)]
pub(super) struct File<'a> {
    pub filename: Cow<'a, str>,
    pub file_data: String,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Parts<'a> {
    Text(Cow<'a, str>),
    List(Vec<Part<'a>>),
}

impl<'a> From<Vec<Part<'a>>> for Parts<'a> {
    fn from(mut parts: Vec<Part<'a>>) -> Self {
        match parts.pop() {
            Some(Part::Text { text }) if parts.is_empty() => Self::Text(text),
            last => {
                parts.extend(last);
                Self::List(parts)
            }
        }
    }
}

/// A call of a function, in an OpenAI message.
#[derive(Serialize)]
pub(super) struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "type")]
    pub kind: Option<&'static str>,
    pub function: CalledFunction<'a>,
}

#[derive(Serialize)]
pub(super) struct CalledFunction<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    pub arguments: Cow<'a, str>,
}

impl<'a> Call<'a> {
    pub(super) fn whole(id: Cow<'a, str>, name: Cow<'a, str>, arguments: Cow<'a, str>) -> Self {
        Self {
            index: None,
            id: Some(id),
            kind: Some("function"),
            function: CalledFunction { name: Some(name), arguments },
        }
    }
}

/// Arguments as a JSON object. None at all are an empty object; `None` where they are something else.
pub(super) fn object_of(arguments: &str) -> Option<Box<RawValue>> {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    let raw = RawValue::from_string(arguments.to_owned()).ok()?;
    raw.get().trim_start().starts_with('{').then_some(raw)
}
