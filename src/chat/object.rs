//! JSON objects whose values are not read until somebody asks.
//!
//! A value that nobody touches goes on byte by byte: numbers keep their digits, unknown fields stay, order is kept. A key
//! that stands twice is refused, because two readers may each take another one.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{ChatError, Protocol};

/// A JSON object as ordered fields with unread values.
#[derive(Clone)]
pub struct RawObject {
    fields: Vec<(String, Box<RawValue>)>,
}

impl RawObject {
    /// Reads one object. Refuses what is not UTF-8, not one JSON object, or names a field twice.
    pub fn parse(bytes: &[u8]) -> Result<Self, ChatError> {
        let Entries(entries) = serde_json::from_slice(bytes)
            .map_err(|error| ChatError::invalid("body", format!("is not a JSON object: {error}")))?;
        let mut fields: Vec<(String, Box<RawValue>)> = Vec::with_capacity(entries.len() + 1);
        for (name, value) in entries {
            if fields.iter().any(|(known, _)| *known == *name) {
                return Err(twice(&name));
            }
            fields.push((name.into_owned(), value.to_owned()));
        }
        Ok(Self { fields })
    }

    /// A field's value; `null` is a value.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Changes a field where it stands, or adds it at the end.
    pub fn set(&mut self, name: &str, value: Box<RawValue>) {
        match self.fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.fields.push((name.to_owned(), value)),
        }
    }

    /// Takes a field out.
    pub fn remove(&mut self, name: &str) -> Option<Box<RawValue>> {
        let place = self.fields.iter().position(|(known, _)| known == name)?;
        Some(self.fields.remove(place).1)
    }

    /// The object without white space between its fields; the values are as they came.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_with(&[])
    }

    /// As [`Self::to_bytes`], with some fields' values replaced or added, and nothing copied but into the result. Each
    /// new value must be JSON.
    pub(super) fn to_bytes_with(&self, changes: &[(&str, &str)]) -> Vec<u8> {
        let length = |name: &str, value: &str| name.len() + value.len() + 4;
        let known: usize = self.fields.iter().map(|(name, value)| length(name, value.get())).sum();
        let new: usize = changes.iter().map(|(name, value)| length(name, value)).sum();
        let mut bytes = Vec::with_capacity(known + new + 2);
        bytes.push(b'{');
        for (name, value) in &self.fields {
            let change = changes.iter().find(|(changed, _)| changed == name);
            field(&mut bytes, name, change.map_or(value.get(), |(_, value)| value));
        }
        for (name, value) in changes.iter().filter(|(name, _)| self.get(name).is_none()) {
            field(&mut bytes, name, value);
        }
        bytes.push(b'}');
        bytes
    }

    /// The same fields, borrowed, to be taken one by one.
    pub(super) fn fields(&self) -> Fields<'_> {
        Fields(self.fields.iter().map(|(name, value)| (Cow::Borrowed(&**name), &**value)).collect())
    }
}

// Values may be prompts.
impl fmt::Debug for RawObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.fields.iter().map(|(name, _)| name)).finish()
    }
}

fn field(bytes: &mut Vec<u8>, name: &str, value: &str) {
    if bytes.len() > 1 {
        bytes.push(b',');
    }
    bytes.extend_from_slice(quoted(name).as_bytes());
    bytes.push(b':');
    bytes.extend_from_slice(value.as_bytes());
}

/// A string as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn twice(name: &str) -> ChatError {
    ChatError::invalid(name, "stands twice; send it once")
}

/// The fields of an object that is being translated. Each is taken by who understands it; what is left at the end has no
/// equal on the other side, so that nothing is dropped unseen. `null` counts as absent.
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    pub(super) fn read(raw: &'a RawValue, name: &str) -> Result<Self, ChatError> {
        let Entries(entries) =
            serde_json::from_str(raw.get()).map_err(|_| ChatError::invalid(name, "must be a JSON object"))?;
        for (place, (known, _)) in entries.iter().enumerate() {
            if entries[..place].iter().any(|(other, _)| other == known) {
                return Err(twice(known).inside(name));
            }
        }
        Ok(Self(entries))
    }

    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let place = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(place).1).filter(|value| value.get() != "null")
    }

    pub(super) fn need(&mut self, name: &str) -> Result<&'a RawValue, ChatError> {
        self.take(name).ok_or_else(|| ChatError::invalid(name, "is missing"))
    }

    /// A field of a stated form; `form` says in words what it must be.
    pub(super) fn parse<T: Deserialize<'a>>(&mut self, name: &str, form: &str) -> Result<Option<T>, ChatError> {
        self.take(name).map(|raw| parse(raw, name, form)).transpose()
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<Cow<'a, str>>, ChatError> {
        Ok(self.parse::<Text<'a>>(name, "a string")?.map(|Text(text)| text))
    }

    pub(super) fn need_text(&mut self, name: &str) -> Result<Cow<'a, str>, ChatError> {
        self.text(name)?.ok_or_else(|| ChatError::invalid(name, "is missing"))
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, ChatError> {
        self.parse(name, "true or false")
    }

    /// A list, each of whose items is read by `read`; its errors name the item.
    pub(super) fn list<T>(
        &mut self,
        name: &str,
        mut read: impl FnMut(&'a RawValue) -> Result<T, ChatError>,
    ) -> Result<Option<Vec<T>>, ChatError> {
        let Some(items) = self.parse::<Vec<&'a RawValue>>(name, "a list")? else { return Ok(None) };
        let items = items.into_iter().enumerate();
        items
            .map(|(at, item)| read(item).map_err(|error| error.inside(&format!("{name}[{at}]"))))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Leaves out what has no effect on the answer.
    pub(super) fn ignore(&mut self, names: &[&str]) {
        self.0.retain(|(name, _)| !names.contains(&&**name));
    }

    /// Leaves out a field whose value is what the other side does anyway.
    pub(super) fn ignore_if(&mut self, name: &str, defaults: &[&str]) {
        self.0.retain(|(known, value)| known != name || !defaults.contains(&value.get()));
    }

    /// Refuses if anything is left that means something.
    pub(super) fn finish(self, to: Protocol) -> Result<(), ChatError> {
        match self.0.into_iter().find(|(_, value)| value.get() != "null") {
            Some((name, _)) => Err(ChatError::untranslatable(&*name, to, "there is no equal there")),
            None => Ok(()),
        }
    }
}

pub(super) fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue, name: &str, form: &str) -> Result<T, ChatError> {
    serde_json::from_str(raw.get()).map_err(|_| ChatError::invalid(name, format!("must be {form}")))
}

/// A string, borrowed where it has no escapes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

struct Entries<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsEntries;
        impl<'de> Visitor<'de> for AsEntries {
            type Value = Entries<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = vec![];
                while let Some((Text(name), value)) = map.next_entry()? {
                    entries.push((name, value));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(AsEntries)
    }
}
