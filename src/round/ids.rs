//! Identifiers as newtypes whose constructors refuse what could not be logged, stored or put in a URL.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, RefOr, SchemaFormat,
        schema::{Schema, Type},
    },
};
use uuid::Uuid;

use super::Invalid;

/// A string newtype: cheap to clone, checked once, (de)serialised as a plain string.
macro_rules! name {
    ($(#[doc = $doc:literal])* $name:ident, $field:literal, $max:literal, $allowed:literal, $class:literal, $ok:expr) => {
        $(#[doc = $doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and wraps. Refuses an empty, too long or oddly spelt name, saying what is allowed.
            pub fn new(text: impl AsRef<str>) -> Result<Self, Invalid> {
                let text = text.as_ref();
                let allowed: fn(char) -> bool = $ok;
                if text.is_empty() || text.len() > $max || !text.chars().all(allowed) {
                    let shown: String = text.chars().take(40).collect();
                    return Err(Invalid::new($field, format!("{shown:?} must be 1 to {} bytes of {}", $max, $allowed)));
                }
                Ok(Self(text.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                text_schema(concat!($($doc, "\n"),*), $max, concat!("^[", $class, "]+$"))
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(text).map_err(|error| serde::de::Error::custom(error.problem))
            }
        }
    };
}

name!(
    /// An arm: one worker (a model behind an API) under a stable name, such as `gpt-5-mini` or `acme/llama-3:70b`.
    ArmId, "arm", 128, "letters, digits and . _ - / : @", "A-Za-z0-9._/:@-", |c| c.is_ascii_alphanumeric() || ".-_/:@".contains(c)
);
name!(
    /// A kind of work with verifiers and statistics of its own, such as `math`.
    Domain, "domain", 64, "lower-case letters, digits and . _ -", "a-z0-9._-",
    |c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c)
);
name!(
    /// The client's name for a task; generated when absent.
    TaskId, "id", 128, "printable ASCII without spaces", "!-~", |c| c.is_ascii_graphic()
);
name!(
    /// The client's promise that two requests with this key are one.
    IdempotencyKey, "idempotency_key", 256, "printable ASCII", " -~", |c| c.is_ascii_graphic() || c == ' '
);

name!(
    /// A conversation or a job of many tasks, whose tasks are better kept on one arm.
    SessionId, "session", 128, "printable ASCII without spaces", "!-~", |c| c.is_ascii_graphic()
);
name!(
    /// Whose task it is, where several parties share a router.
    TenantId, "tenant", 64, "lower-case letters, digits and . _ -", "a-z0-9._-",
    |c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c)
);
name!(
    /// Something that an arm can do and a task may need, such as `vision` or `tools`.
    Capability, "needs", 32, "lower-case letters, digits and . _ -", "a-z0-9._-",
    |c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c)
);

name!(
    /// A verifier of a domain's set, such as `answer` or `must-cite`.
    VerifierName, "verifier", 64, "lower-case letters, digits and . _ -", "a-z0-9._-",
    |c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c)
);

name!(
    /// A webhook, such as `billing`.
    WebhookName, "webhook", 64, "lower-case letters, digits and . _ -", "a-z0-9._-",
    |c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c)
);

name!(
    /// What people call an API key, such as `ci` or `team-search laptop`.
    KeyName, "name", 64, "printable ASCII", " -~", |c| c.is_ascii_graphic() || c == ' '
);

impl ArmId {
    /// The name of a way of running it.
    pub(super) fn prefixed(&self, mode: &str) -> Self {
        Self(format!("{mode}:{}", self.0).into())
    }
}

/// A string of 1 to `max` characters, which are single bytes, of a class of characters.
pub(super) fn text_schema(doc: &str, max: usize, pattern: &str) -> RefOr<Schema> {
    let text = ObjectBuilder::new().schema_type(Type::String).description(Some(doc.trim()));
    text.min_length(Some(1)).max_length(Some(max)).pattern(Some(pattern)).into()
}

impl TaskId {
    /// A fresh, time-ordered id.
    pub fn generate() -> Self {
        Self(Uuid::now_v7().to_string().into())
    }
}

impl Domain {
    /// The domain of a task whose client gave none.
    pub fn unknown() -> Self {
        Self("unknown".into())
    }
}

/// A decision's id: a time-ordered UUID (version 7), given to the client for feedback and explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DecisionId(Uuid);

impl DecisionId {
    /// A fresh, time-ordered id.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// The sixteen bytes, as stored in the journal.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// Reads the sixteen bytes back.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Invalid> {
        Uuid::from_slice(bytes).map(Self).map_err(|error| Invalid::new("decision_id", error.to_string()))
    }

    /// When it was made, in seconds since 1970.
    pub fn created_s(&self) -> u64 {
        self.0.get_timestamp().map_or(0, |time| time.to_unix().0)
    }

    /// The decision's random seed: a hash of its id, so that a replay draws the same.
    pub fn seed(&self) -> u64 {
        let hash = blake3::hash(self.as_bytes());
        let mut seed = [0; 8];
        seed.copy_from_slice(&hash.as_bytes()[..8]);
        u64::from_le_bytes(seed)
    }
}

impl From<u128> for DecisionId {
    /// A chosen id, for seeded replays and tests.
    fn from(number: u128) -> Self {
        Self(Uuid::from_u128(number))
    }
}

impl PartialSchema for DecisionId {
    fn schema() -> RefOr<Schema> {
        let uuid = ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::Custom("uuid".into())));
        uuid.description(Some("A decision's id: a time-ordered UUID (version 7).")).into()
    }
}

impl ToSchema for DecisionId {
    fn name() -> Cow<'static, str> {
        "DecisionId".into()
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for DecisionId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Uuid::try_parse(text)
            .map(Self)
            .map_err(|_| Invalid::new("decision_id", "must be the UUID that /v1/tasks or /v1/route returned"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_refuse_what_a_url_or_log_cannot_hold() {
        for bad in ["", "two words", "naïve", "new\nline", &"x".repeat(129)] {
            assert!(ArmId::new(bad).is_err(), "{bad:?}");
            assert!(TaskId::new(bad).is_err(), "{bad:?}");
        }
        assert!(Domain::new("Math").is_err());
        assert_eq!(ArmId::new("acme/llama-3:70b").unwrap().as_str(), "acme/llama-3:70b");
    }

    #[test]
    fn the_described_patterns_take_what_the_constructors_take() {
        fn agree<T: PartialSchema>(takes: fn(&str) -> bool) {
            let schema = serde_json::to_value(T::schema()).unwrap();
            let class = schema["pattern"].as_str().unwrap().trim_start_matches("^[").trim_end_matches("]+$");
            let class: Vec<char> = class.chars().collect();
            let described = |c: char| {
                let range = |at: usize| class.get(at + 1) == Some(&'-') && at + 2 < class.len();
                let (mut at, mut found) = (0, false);
                while at < class.len() {
                    let last = if range(at) { class[at + 2] } else { class[at] };
                    found |= (class[at]..=last).contains(&c);
                    at += if range(at) { 3 } else { 1 };
                }
                found
            };
            for c in (0..=255_u8).map(char::from) {
                assert_eq!(takes(&c.to_string()), described(c), "{c:?} of {schema}");
            }
            let max = schema["maxLength"].as_u64().unwrap() as usize;
            assert!(takes(&"x".repeat(max)) && !takes(&"x".repeat(max + 1)) && !takes(""), "{schema}");
        }
        agree::<ArmId>(|text| ArmId::new(text).is_ok());
        agree::<Domain>(|text| Domain::new(text).is_ok());
        agree::<TaskId>(|text| TaskId::new(text).is_ok());
        agree::<IdempotencyKey>(|text| IdempotencyKey::new(text).is_ok());
        agree::<SessionId>(|text| SessionId::new(text).is_ok());
        agree::<TenantId>(|text| TenantId::new(text).is_ok());
        agree::<Capability>(|text| Capability::new(text).is_ok());
        agree::<VerifierName>(|text| VerifierName::new(text).is_ok());
        agree::<KeyName>(|text| KeyName::new(text).is_ok());
    }

    #[test]
    fn the_seed_depends_on_the_id_alone() {
        let id = DecisionId::from(7);
        assert_eq!(id.seed(), DecisionId::from_bytes(id.as_bytes()).unwrap().seed());
        assert_ne!(id.seed(), DecisionId::from(8).seed());
    }
}
