//! API keys as the journal holds them: who may ask, and nothing by which one could.

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, schema::Schema},
};

use super::{Invalid, KeyName, TenantId, ids::text_schema};

/// How long a key's id is, in bytes.
const ID_BYTES: usize = 12;

/// A key's public part: 12 lower-case letters and digits. It names the key in lists and logs, and opens nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; ID_BYTES]);

impl KeyId {
    /// How long it is, in bytes.
    pub const BYTES: usize = ID_BYTES;

    /// An id of random bytes, five bits of each.
    pub fn of_random(random: [u8; ID_BYTES]) -> Self {
        const LETTERS: [u8; 32] = *b"abcdefghijklmnopqrstuvwxyz234567";
        Self(random.map(|byte| LETTERS[usize::from(byte % 32)]))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        // The constructors take ASCII only.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for KeyId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let bytes: Option<[u8; ID_BYTES]> = text.as_bytes().try_into().ok();
        let sound = |bytes: &[u8; ID_BYTES]| bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        bytes.filter(sound).map(Self).ok_or_else(|| {
            Invalid::new("key", format!("an id is {ID_BYTES} lower-case letters and digits; see /v1/keys"))
        })
    }
}

impl PartialSchema for KeyId {
    fn schema() -> RefOr<Schema> {
        text_schema("A key's public part, which opens nothing.", ID_BYTES, "^[a-z0-9]{12}$")
    }
}

impl ToSchema for KeyId {
    fn name() -> Cow<'static, str> {
        "KeyId".into()
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for KeyId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for KeyId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(|error: Invalid| serde::de::Error::custom(error.problem))
    }
}

/// A BLAKE3 hash of a key's secret part, compared in constant time and never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHash(blake3::Hash);

impl KeyHash {
    /// The hash of a secret, keyed with the id that it belongs to: equal secrets under two ids have two hashes.
    pub fn of(id: KeyId, secret: &[u8]) -> Self {
        let mut key = *b"pointsman api key v1............";
        key[32 - ID_BYTES..].copy_from_slice(&id.0);
        Self(blake3::keyed_hash(&key, secret))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(..)")
    }
}

impl Serialize for KeyHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_hex())
    }
}

impl<'de> Deserialize<'de> for KeyHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        blake3::Hash::from_hex(text).map(Self).map_err(|_| serde::de::Error::custom("is not a hash in hexadecimal"))
    }
}

/// What a key lets its holder do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyRole {
    /// Send tasks and feedback, and see what became of its tenant's.
    Client,
    /// That for every tenant, and change the router.
    Admin,
}

impl KeyRole {
    /// As written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Admin => "admin",
        }
    }
}

/// A key, its secret part as a hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// Its public part.
    pub id: KeyId,
    /// What people call it.
    pub name: KeyName,
    /// What it lets do.
    pub role: KeyRole,
    /// Whose tasks it sends; none is a space of its own, shared by the keys without tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The hash of its secret part.
    pub hash: KeyHash,
    /// When it was made, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it stops to open anything, in milliseconds since 1970; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    /// When it was revoked, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at_ms: Option<i64>,
}

impl KeyRecord {
    /// Whether it opens anything at a time, in milliseconds since 1970.
    pub fn is_usable(&self, now_ms: i64) -> bool {
        self.revoked_at_ms.is_none() && self.expires_at_ms.is_none_or(|expires| now_ms < expires)
    }
}

/// What became of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyChange {
    /// It was made.
    Created(KeyRecord),
    /// It opens nothing any more.
    Revoked {
        /// Since when, in milliseconds since 1970.
        at_ms: i64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_belongs_to_its_id_and_is_not_shown() {
        let (one, two) = (KeyId::of_random([1; 12]), KeyId::of_random([2; 12]));
        let hash = KeyHash::of(one, b"secret");
        assert_eq!(hash, KeyHash::of(one, b"secret"));
        assert_ne!(hash, KeyHash::of(two, b"secret"));
        assert_ne!(hash, KeyHash::of(one, b"Secret"));
        assert_eq!(format!("{hash:?}"), "KeyHash(..)");
        let json = serde_json::to_string(&hash).unwrap();
        assert_eq!(serde_json::from_str::<KeyHash>(&json).unwrap(), hash);
    }

    #[test]
    fn ids_are_twelve_letters_and_digits() {
        let id = KeyId::of_random([255, 0, 31, 32, 7, 9, 100, 200, 3, 4, 5, 6]);
        assert_eq!(id.to_string().parse::<KeyId>().unwrap(), id);
        for bad in ["", "short", "ABCDEFGHIJKL", "abcdefghijk_", "abcdefghijklm", "abcdefghijä"] {
            assert!(bad.parse::<KeyId>().is_err(), "{bad}");
        }
    }
}
