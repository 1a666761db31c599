//! Server-sent events from bytes in any cuts.
//!
//! Follows the WHATWG's event stream: lines end with LF, CRLF or CR, a blank line ends a frame, `:` opens a comment, one
//! byte order mark may come first. Every frame keeps its bytes, comments and unknown fields included, so that it can be
//! passed on as it came; all frames together are the stream. Unlike a browser, the parser takes a last frame that lacks
//! its blank line, because servers leave it out; whether such a frame is whole, its JSON tells.

use tokio_util::bytes::{Bytes, BytesMut};

use super::ChatError;

/// The longest frame taken unless said otherwise, in bytes.
pub const FRAME_BYTES_MAX: usize = 4 << 20;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// One frame of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    raw: Bytes,
    event: Option<Bytes>,
    data: Option<Bytes>,
}

impl SseEvent {
    /// The frame's bytes with the blank line that ends it.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The event's name; empty where there is none.
    pub fn event(&self) -> &[u8] {
        self.event.as_deref().unwrap_or_default()
    }

    /// The data, several lines joined with LF; `None` for a frame of comments.
    pub fn data(&self) -> Option<&[u8]> {
        self.data.as_deref()
    }
}

/// Cuts a stream into frames. Holds at most one unfinished frame and what was pushed after it.
#[derive(Debug)]
pub struct SseParser {
    buffer: BytesMut,
    /// Bytes of the buffer in which no frame ends.
    scanned: usize,
    line_start: usize,
    at_start: bool,
    frame_bytes_max: usize,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::new(FRAME_BYTES_MAX)
    }
}

impl SseParser {
    /// A parser that refuses frames over so many bytes.
    pub fn new(frame_bytes_max: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, line_start: 0, at_start: true, frame_bytes_max }
    }

    /// Adds bytes; [`Self::next_event`] gives what they complete.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, `None` until more bytes come.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, ChatError> {
        let end = self.frame_end();
        if end.unwrap_or(self.buffer.len()) > self.frame_bytes_max {
            return Err(ChatError::FrameTooLong(self.frame_bytes_max));
        }
        Ok(end.map(|end| {
            let frame = self.buffer.split_to(end).freeze();
            (self.scanned, self.line_start) = (0, 0);
            self.read(frame)
        }))
    }

    /// What is left when the bytes end: a last frame without its blank line, which is added. Call it after
    /// [`Self::next_event`] has given `None`.
    pub fn finish(mut self) -> Option<SseEvent> {
        let rest = &self.buffer[..];
        if rest.is_empty() {
            return None;
        }
        // After a blank line of CR alone nothing is missing: it could only have become CRLF.
        let missing: &[u8] = match rest {
            [.., b'\r' | b'\n', b'\r'] => b"",
            [.., b'\n'] => b"\n",
            _ => b"\n\n",
        };
        self.buffer.extend_from_slice(missing);
        let frame = self.buffer.split().freeze();
        Some(self.read(frame))
    }

    /// Where the first frame ends, its blank line included.
    fn frame_end(&mut self) -> Option<usize> {
        let bytes = &self.buffer[..];
        while let Some(offset) = bytes[self.scanned..].iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let at = self.scanned + offset;
            let next = match (bytes[at], bytes.get(at + 1)) {
                (b'\r', Some(b'\n')) => at + 2,
                // The next byte says whether this is CR or CRLF.
                (b'\r', None) => {
                    self.scanned = at;
                    return None;
                }
                _ => at + 1,
            };
            let blank = at == self.line_start || (self.at_start && self.line_start == 0 && &bytes[..at] == BOM);
            self.scanned = next;
            self.line_start = next;
            if blank {
                return Some(next);
            }
        }
        self.scanned = bytes.len();
        None
    }

    fn read(&mut self, raw: Bytes) -> SseEvent {
        let mut event = None;
        let mut data: Option<Bytes> = None;
        let mut lines: Vec<u8> = vec![];
        let mut rest = if self.at_start && raw.starts_with(BOM) { &raw[BOM.len()..] } else { &raw[..] };
        self.at_start = false;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
            let (line, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            let colon = line.iter().position(|byte| *byte == b':');
            let (name, value) = colon.map_or((line, &line[line.len()..]), |at| (&line[..at], &line[at + 1..]));
            let value = raw.slice_ref(value.strip_prefix(b" ").unwrap_or(value));
            match name {
                b"event" => event = Some(value),
                b"data" => match &data {
                    None => data = Some(value),
                    Some(first) => {
                        if lines.is_empty() {
                            lines.extend_from_slice(first);
                        }
                        lines.push(b'\n');
                        lines.extend_from_slice(&value);
                    }
                },
                _ => {}
            }
        }
        if !lines.is_empty() {
            data = Some(lines.into());
        }
        SseEvent { raw, event, data }
    }
}

#[cfg(test)]
mod tests;
