//! JSON of a dataset, one value at a time: a value a line, or the elements of one long array.
//!
//! An array is walked with serde's visitors, so that of a file of any length one element is in memory, and fields that
//! nobody asks for (answers of models, mostly) are passed over unread. Errors have the parser's line and column and the
//! field that it was in.

use std::{fmt, marker::PhantomData, path::Path};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor},
};
use serde_json::{Map, Value, error::Category};
use serde_path_to_error::Track;

use super::{
    error::{Column, DatasetError, words},
    source::{Progress, Source, read_error},
};

/// A line as a value.
pub(super) fn parse<T: DeserializeOwned>(path: &Path, line: u64, text: &str) -> Result<T, DatasetError> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let wrong = |error: &serde_json::Error, field| {
        let column = Some(Column::Character(error.column().max(1), field));
        DatasetError::Line { path: path.into(), line, column, problem: what(error) }
    };
    let value = serde_path_to_error::deserialize(&mut parser)
        .map_err(|error| wrong(error.inner(), Some(error.path().to_string()).filter(|field| field != ".")))?;
    parser.end().map_err(|error| wrong(&error, None))?;
    Ok(value)
}

/// The parser's words without the place, which is told apart.
fn what(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    words(text.strip_suffix(&place).unwrap_or(&text))
}

/// What the caller of a walk wants of the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The elements.
    Elements,
    /// Nothing.
    Stop,
}

/// Called before the first element with the wanted fields that stood before the array.
type OnHead<'a> = &'a mut dyn FnMut(&Map<String, Value>) -> Result<Next, DatasetError>;

/// Called with the line that a key or element starts in, the key if it is an object's, and the value.
type OnEach<'a, T> = &'a mut dyn FnMut(u64, &str, T) -> Result<(), DatasetError>;

/// Which values a walk is over.
enum Over<'a> {
    /// The array at the top, or the one under this key of the object at the top; with the fields wanted of the head.
    Array(&'a str, &'a [&'a str]),
    /// The values of the object at the top.
    Entries,
}

/// Walks the array at the top of a file, or the one under the key `array` of the object at the top; `wanted` are the fields
/// before it that `head` gets.
pub(super) fn elements<T: DeserializeOwned>(
    path: &Path,
    array: &str,
    wanted: &[&str],
    head: OnHead<'_>,
    each: OnEach<'_, T>,
) -> Result<(), DatasetError> {
    walk(path, Over::Array(array, wanted), head, each)
}

/// Walks the entries of the object at the top of a file.
pub(super) fn entries<T: DeserializeOwned>(path: &Path, each: OnEach<'_, T>) -> Result<(), DatasetError> {
    walk(path, Over::Entries, &mut |_| Ok(Next::Elements), each)
}

fn walk<T: DeserializeOwned>(
    path: &Path,
    over: Over<'_>,
    head: OnHead<'_>,
    each: OnEach<'_, T>,
) -> Result<(), DatasetError> {
    let source = Source::open(path)?;
    let progress = source.progress();
    let mut parser = serde_json::Deserializer::from_reader(source);
    let mut track = Track::new();
    let mut end = End::Whole;
    let walk = Walk { over, progress: &progress, head, each, end: &mut end };
    let read = walk.deserialize(serde_path_to_error::Deserializer::new(&mut parser, &mut track));
    match (end, read) {
        (End::Stopped, _) => Ok(()),
        (End::Failed(error), _) => Err(error),
        (End::Whole, Ok(())) => parser.end().map_err(|error| failure(path, &progress, error, None)),
        (End::Whole, Err(error)) => {
            let field = Some(track.path().to_string()).filter(|field| field != ".");
            Err(failure(path, &progress, error, field))
        }
    }
}

/// Who ended a walk.
enum End {
    /// The file or the parser.
    Whole,
    /// The caller, which has what it wants.
    Stopped,
    /// The caller, which found something wrong.
    Failed(DatasetError),
}

struct Walk<'a, T> {
    over: Over<'a>,
    progress: &'a Progress,
    head: OnHead<'a>,
    each: OnEach<'a, T>,
    end: &'a mut End,
}

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Walk<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Walk<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.over {
            Over::Array(array, _) => write!(f, "an array, or an object with the array {array:?}"),
            Over::Entries => f.write_str("an object"),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let Over::Array(..) = self.over else { return Err(A::Error::invalid_type(Unexpected::Seq, &self)) };
        let Self { progress, head, each, end, .. } = self;
        started(head(&Map::new()), end)?;
        Elements { progress, each, end }.visit_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Over::Array(array, wanted) = self.over else { return self.entries(map) };
        let (mut found, mut seen) = (Map::new(), false);
        while let Some(key) = map.next_key::<String>()? {
            if key == array {
                if std::mem::replace(&mut seen, true) {
                    return Err(A::Error::custom(format!("a second {array:?}")));
                }
                started((self.head)(&found), self.end)?;
                map.next_value_seed(Elements { progress: self.progress, each: &mut *self.each, end: self.end })?;
            } else if wanted.contains(&key.as_str()) {
                found.insert(key, map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if seen { Ok(()) } else { Err(A::Error::custom(format!("the array {array:?} is missing"))) }
    }
}

impl<T: DeserializeOwned> Walk<'_, T> {
    fn entries<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let line = self.progress.line();
            let value = map.next_value()?;
            self.progress.next_record();
            stopped((self.each)(line, &key, value), self.end)?;
        }
        Ok(())
    }
}

/// Goes on, or makes of the caller's wish an error that ends the parser.
fn started<E: Error>(head: Result<Next, DatasetError>, end: &mut End) -> Result<(), E> {
    match head {
        Ok(Next::Elements) => Ok(()),
        Ok(Next::Stop) => {
            *end = End::Stopped;
            Err(E::custom("stopped"))
        }
        Err(error) => stopped(Err(error), end),
    }
}

fn stopped<E: Error>(each: Result<(), DatasetError>, end: &mut End) -> Result<(), E> {
    each.map_err(|error| {
        *end = End::Failed(error);
        E::custom("stopped")
    })
}

struct Elements<'a, T> {
    progress: &'a Progress,
    each: OnEach<'a, T>,
    end: &'a mut End,
}

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Elements<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Elements<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some((line, value)) = seq.next_element_seed(Element(self.progress, PhantomData))? {
            stopped((self.each)(line, "", value), self.end)?;
        }
        Ok(())
    }
}

/// An element with the line that it starts in: the parser has looked at its first character when it asks for it.
struct Element<'a, T>(&'a Progress, PhantomData<T>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Element<'_, T> {
    type Value = (u64, T);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(u64, T), D::Error> {
        let line = self.0.line();
        self.0.next_record();
        Ok((line, T::deserialize(deserializer)?))
    }
}

fn failure(path: &Path, progress: &Progress, error: serde_json::Error, field: Option<String>) -> DatasetError {
    if error.classify() == Category::Io {
        return read_error(path, progress.line(), error.into());
    }
    let (line, column) = (error.line() as u64, Some(Column::Character(error.column().max(1), field)));
    DatasetError::Line { path: path.into(), line: line.max(1), column, problem: what(&error) }
}
