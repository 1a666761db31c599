//! The lines of an export: a header, one line an event, a last line that says that all are there.

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::value::RawValue;
use sqlx::{Row, sqlite::SqliteRow};

use super::super::{Base, Event, JournalError, reader};
use crate::round::Domain;

/// What the header calls the format.
pub(super) const FORMAT: &str = "pointsman-journal";
/// The newest version of the format that is read, and the one that is written.
pub(super) const VERSION: u32 = 1;

/// The first line: what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// The format's version.
    pub version: u32,
    /// The place after which the events begin: an import into a journal needs what comes before.
    pub after: i64,
    /// The one domain whose decisions were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Domain>,
    /// What was learnt from records that compaction has taken out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseLine>,
    /// The key of the hashes that stand for texts that are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Bytes>,
}

/// A compacted state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct BaseLine {
    pub seq: i64,
    pub at_ms: i64,
    pub state: String,
}

impl From<Base> for BaseLine {
    fn from(Base { seq, at_ms, state }: Base) -> Self {
        Self { seq, at_ms, state }
    }
}

/// An event with all that is stored of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Its place in the journal.
    pub seq: i64,
    /// When it was appended, in milliseconds since 1970.
    pub at_ms: i64,
    /// The key under which it exists once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<String>,
    /// The key under which it was learnt from once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learns: Option<Bytes>,
    /// The event, letter by letter.
    pub event: Box<RawValue>,
    /// A decided task's embedding, as little-endian 32-bit numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding: Option<Bytes>,
    /// Its embeddings by other models, by model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub embeddings: BTreeMap<String, Bytes>,
}

impl Line {
    pub(super) fn of(row: &SqliteRow) -> Result<Self, JournalError> {
        let (seq, json) = reader::json_of(row)?;
        let damaged = |reason: String| JournalError::Damaged { seq, reason };
        let event = RawValue::from_string(text(json).map_err(damaged)?).map_err(|error| damaged(error.to_string()))?;
        let bytes = |column| Ok::<_, JournalError>(row.try_get::<Option<Vec<u8>>, _>(column)?.map(Bytes));
        Ok(Self {
            seq,
            at_ms: row.try_get("at_ms")?,
            once: row.try_get("once")?,
            learns: bytes("learns")?,
            event,
            embedding: bytes("embedding")?,
            embeddings: BTreeMap::new(),
        })
    }

    /// The event, read.
    pub fn event(&self) -> Result<Event, JournalError> {
        let damaged = |error: serde_json::Error| JournalError::Damaged { seq: self.seq, reason: error.to_string() };
        serde_json::from_str(self.event.get()).map_err(damaged)
    }
}

/// The journal writes records without line breaks; one with them could not be a line.
fn text(json: Cow<'_, [u8]>) -> Result<String, String> {
    let text = String::from_utf8(json.into_owned()).map_err(|error| error.to_string())?;
    if text.contains('\n') { Err("it has line breaks".into()) } else { Ok(text) }
}

/// The last line: that everything is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Trailer {
    pub end: End,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct End {
    /// How many events there are.
    pub events: u64,
    /// The BLAKE3 hash of all lines before, with their line breaks, in hexadecimal.
    pub blake3: String,
}

/// How the last line starts, and no other.
pub(super) const TRAILER: &[u8] = b"{\"end\":";

/// Bytes, in JSON as base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        BASE64_STANDARD.decode(&*text).map(Self).map_err(|error| D::Error::custom(format!("bad base64: {error}")))
    }
}
