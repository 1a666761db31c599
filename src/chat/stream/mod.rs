//! Streams: the worker's events for the client, and what they say.
//!
//! Each event is read once into pieces that belong to no protocol. The observer keeps what they say; where the client
//! speaks the other protocol, a writer makes its frames of them. A client of the same protocol gets the worker's frames as
//! they came.
//!
//! What can go wrong: bytes that are no events, which is an error at once; a stream that carries an error event; and one
//! that stops without its protocol's end, which [`StreamTranslator::end`] tells apart from one that ended.

mod observer;
mod read_anthropic;
mod read_openai;
mod write_anthropic;
mod write_openai;

use std::borrow::Cow;

use tokio_util::bytes::Bytes;

use self::{
    read_anthropic::AnthropicReader, read_openai::OpenAiReader, write_anthropic::AnthropicWriter,
    write_openai::OpenAiWriter,
};
use super::{ChatError, ErrorKind, Finish, Protocol, SseEvent, Translation, Usage};

pub use observer::Observer;

/// Something that a stream said.
enum Piece<'a> {
    Start {
        id: Cow<'a, str>,
        model: Cow<'a, str>,
    },
    Text(Cow<'a, str>),
    Refusal(Cow<'a, str>),
    Thinking(Cow<'a, str>),
    /// Ends a block of thinking.
    Signature(Cow<'a, str>),
    Redacted(Cow<'a, str>),
    /// Tools are counted from 0 in the order in which they start.
    Tool {
        index: usize,
        id: Cow<'a, str>,
        name: Cow<'a, str>,
    },
    Arguments {
        index: usize,
        fragment: Cow<'a, str>,
    },
    Finish(Finish),
    Usage(Usage),
    Ping,
    Error {
        kind: ErrorKind,
        message: String,
    },
    End,
}

/// Takes pieces as they are read.
type Sink<'s> = &'s mut dyn FnMut(Piece<'_>) -> Result<(), ChatError>;

enum Reader {
    OpenAi(OpenAiReader),
    Anthropic(AnthropicReader),
}

enum Writer {
    AsItCame { usage_chunk: bool },
    OpenAi(OpenAiWriter),
    Anthropic(AnthropicWriter),
}

/// Turns a worker's stream into the client's.
pub struct StreamTranslator {
    reader: Reader,
    writer: Writer,
    observer: Observer,
}

impl StreamTranslator {
    /// A translator for one stream.
    pub fn new(translation: Translation) -> Self {
        let Translation { from, to, usage_chunk, created_s } = translation;
        let reader = match from {
            Protocol::OpenAi => Reader::OpenAi(OpenAiReader::default()),
            Protocol::Anthropic => Reader::Anthropic(AnthropicReader::default()),
        };
        let writer = match to {
            _ if from == to => Writer::AsItCame { usage_chunk },
            Protocol::OpenAi => Writer::OpenAi(OpenAiWriter::new(usage_chunk, created_s)),
            Protocol::Anthropic => Writer::Anthropic(AnthropicWriter::default()),
        };
        Self { reader, writer, observer: Observer::default() }
    }

    /// Takes one event and adds the client's frames to `frames`. After the protocol's end or an error event nothing is
    /// taken any more. An error means that the worker does not speak its protocol; what the event said before the error
    /// is lost.
    pub fn push(&mut self, event: &SseEvent, frames: &mut Vec<Bytes>) -> Result<(), ChatError> {
        if self.observer.is_over() {
            return Ok(());
        }
        let Self { reader, writer, observer } = self;
        let mut sink = |piece: Piece<'_>| {
            observer.note(&piece)?;
            match writer {
                Writer::AsItCame { .. } => Ok(()),
                Writer::OpenAi(writer) => writer.write(piece, frames),
                Writer::Anthropic(writer) => writer.write(piece, frames),
            }
        };
        let only_usage = match reader {
            Reader::OpenAi(reader) => reader.read(event, &mut sink)?,
            Reader::Anthropic(reader) => reader.read(event, &mut sink).map(|()| false)?,
        };
        match self.writer {
            Writer::AsItCame { usage_chunk } if usage_chunk || !only_usage => frames.push(event.raw().clone()),
            Writer::AsItCame { .. } | Writer::OpenAi(_) | Writer::Anthropic(_) => {}
        }
        Ok(())
    }

    /// What was said so far.
    pub fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Call it when the worker's bytes have ended: whether the stream ended as its protocol demands.
    pub fn end(&self) -> Result<(), ChatError> {
        match self.observer.failure() {
            Some(_) => Err(ChatError::Broken("it carried an error event")),
            None if self.observer.has_ended() => Ok(()),
            None => Err(ChatError::Broken("the event that ends it is missing")),
        }
    }

    /// What was said, handed over.
    pub fn into_observer(self) -> Observer {
        self.observer
    }
}

/// One frame with a JSON value.
fn frame(head: &str, value: &impl serde::Serialize) -> Result<Bytes, ChatError> {
    let mut bytes = Vec::with_capacity(256);
    bytes.extend_from_slice(head.as_bytes());
    serde_json::to_writer(&mut bytes, value).map_err(|_| ChatError::Broken("an event could not be written"))?;
    bytes.extend_from_slice(b"\n\n");
    Ok(bytes.into())
}
