//! API keys: `pm_ID_SECRET`. The secret part is shown once, when the key is made; what is kept is its hash.
//!
//! The secret is 256 random bits, so one round of a keyed hash (BLAKE3, O'Connor et al. 2020) is all that guards it at rest:
//! there is nothing to guess. A key is found by its id and compared in constant time. Keys are read on every request:
//! that takes no lock and no memory.

use std::{collections::HashMap, fmt, sync::Arc};

use arc_swap::ArcSwap;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::round::{KeyChange, KeyHash, KeyId, KeyName, KeyRecord, KeyRole, TenantId};

/// Starts every key.
pub const KEY_PREFIX: &str = "pm_";
/// Random bytes that make a key.
pub const RANDOM_BYTES: usize = KeyId::BYTES + SECRET_BYTES;
const SECRET_BYTES: usize = 32;
/// The same in base64url without padding.
const SECRET_LETTERS: usize = 43;
const DAY_MS: i64 = 86_400_000;

/// All keys that were ever made.
#[derive(Debug, Default)]
pub struct Keys(ArcSwap<HashMap<KeyId, Arc<KeyRecord>>>);

/// A key to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// What people call it.
    pub name: KeyName,
    /// What it lets do.
    pub role: KeyRole,
    /// Whose tasks it sends; an admin key has none.
    pub tenant: Option<TenantId>,
    /// Days until it opens nothing any more; never when absent.
    pub expires_in_days: Option<u16>,
}

/// A key that was just made.
#[derive(Debug, Clone)]
pub struct IssuedKey {
    /// What is kept of it.
    pub record: KeyRecord,
    /// All of it, to be shown once.
    pub secret: Secret,
}

/// A whole key; never in a log.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The key itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why a key opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyProblem {
    /// It is none of ours.
    Unknown,
    /// It was revoked.
    Revoked,
    /// Its time is over.
    Expired,
}

/// Makes a key of random bytes, at a time in milliseconds since 1970.
pub fn issue(new: NewKey, random: &[u8; RANDOM_BYTES], now_ms: i64) -> IssuedKey {
    let (for_id, for_secret) = random.split_at(KeyId::BYTES);
    let id = KeyId::of_random(for_id.try_into().expect("split at this length"));
    let secret = URL_SAFE_NO_PAD.encode(for_secret);
    let NewKey { name, role, tenant, expires_in_days } = new;
    let record = KeyRecord {
        id,
        name,
        role,
        tenant,
        hash: KeyHash::of(id, secret.as_bytes()),
        created_at_ms: now_ms,
        expires_at_ms: expires_in_days.map(|days| now_ms + i64::from(days) * DAY_MS),
        revoked_at_ms: None,
    };
    IssuedKey { record, secret: Secret(format!("{KEY_PREFIX}{id}_{secret}")) }
}

impl Keys {
    /// The keys after all changes of a journal, oldest first.
    pub fn of(changes: impl IntoIterator<Item = (KeyId, KeyChange)>) -> Self {
        let mut keys = HashMap::new();
        for (id, change) in changes {
            apply(&mut keys, id, &change);
        }
        Self(ArcSwap::from_pointee(keys))
    }

    /// Makes a change that is in the journal.
    pub fn apply(&self, id: KeyId, change: &KeyChange) {
        self.0.rcu(|keys| {
            let mut keys = HashMap::clone(keys);
            apply(&mut keys, id, change);
            keys
        });
    }

    /// The key that a client shows, if it opens something at a time, in milliseconds since 1970.
    pub fn open(&self, shown: &str, now_ms: i64) -> Result<Arc<KeyRecord>, KeyProblem> {
        let (id, secret) = parts(shown).ok_or(KeyProblem::Unknown)?;
        let keys = self.0.load();
        let key = keys.get(&id).ok_or(KeyProblem::Unknown)?;
        // Only its holder is told that it was good once.
        match key {
            key if KeyHash::of(id, secret.as_bytes()) != key.hash => Err(KeyProblem::Unknown),
            key if key.revoked_at_ms.is_some() => Err(KeyProblem::Revoked),
            key if !key.is_usable(now_ms) => Err(KeyProblem::Expired),
            key => Ok(Arc::clone(key)),
        }
    }

    /// The key of this id.
    pub fn get(&self, id: KeyId) -> Option<Arc<KeyRecord>> {
        self.0.load().get(&id).cloned()
    }

    /// All of them, oldest first.
    pub fn list(&self) -> Vec<Arc<KeyRecord>> {
        let mut all: Vec<_> = self.0.load().values().cloned().collect();
        all.sort_by_key(|key| (key.created_at_ms, key.id));
        all
    }

    /// Whether none was ever made. Revoking the last one does not open the doors again.
    pub fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }

    /// Whether one opens something at a time, in milliseconds since 1970; one of a role, if one is given.
    pub fn any_usable(&self, role: Option<KeyRole>, now_ms: i64) -> bool {
        let fits = |key: &&Arc<KeyRecord>| key.is_usable(now_ms) && role.is_none_or(|role| key.role == role);
        self.0.load().values().any(|key| fits(&key))
    }
}

fn apply(keys: &mut HashMap<KeyId, Arc<KeyRecord>>, id: KeyId, change: &KeyChange) {
    match change {
        KeyChange::Created(record) => {
            keys.insert(id, Arc::new(record.clone()));
        }
        KeyChange::Revoked { at_ms } => {
            if let Some(key) = keys.get_mut(&id) {
                Arc::make_mut(key).revoked_at_ms.get_or_insert(*at_ms);
            }
        }
    }
}

fn parts(shown: &str) -> Option<(KeyId, &str)> {
    let (id, secret) = shown.strip_prefix(KEY_PREFIX)?.split_once('_')?;
    (secret.len() == SECRET_LETTERS).then_some(())?;
    Some((id.parse().ok()?, secret))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn new_key(expires_in_days: Option<u16>) -> NewKey {
        let tenant = Some(TenantId::new("acme").unwrap());
        NewKey { name: KeyName::new("ci").unwrap(), role: KeyRole::Client, tenant, expires_in_days }
    }

    fn random(seed: u8) -> [u8; RANDOM_BYTES] {
        std::array::from_fn(|n| seed.wrapping_mul(31).wrapping_add(n as u8))
    }

    fn made(keys: &Keys, seed: u8, expires_in_days: Option<u16>) -> IssuedKey {
        let issued = issue(new_key(expires_in_days), &random(seed), 1_000);
        keys.apply(issued.record.id, &KeyChange::Created(issued.record.clone()));
        issued
    }

    #[test]
    fn a_key_opens_until_it_is_revoked_or_its_time_is_over() {
        let keys = Keys::default();
        assert!(keys.is_empty());
        let (lasting, short) = (made(&keys, 1, None), made(&keys, 2, Some(1)));
        assert_eq!(*keys.open(lasting.secret.reveal(), i64::MAX).unwrap(), lasting.record);
        assert!(keys.open(short.secret.reveal(), 1_000 + DAY_MS - 1).is_ok());
        assert_eq!(keys.open(short.secret.reveal(), 1_000 + DAY_MS), Err(KeyProblem::Expired));
        keys.apply(lasting.record.id, &KeyChange::Revoked { at_ms: 5 });
        assert_eq!(keys.open(lasting.secret.reveal(), 6), Err(KeyProblem::Revoked));
        assert!(keys.any_usable(None, 6) && !keys.any_usable(Some(KeyRole::Admin), 6));
        assert!(!keys.any_usable(None, 1_000 + DAY_MS));
        assert!(!keys.is_empty(), "revoking all keys does not do away with the need for one");
    }

    #[test]
    fn the_fold_of_the_changes_gives_the_same_keys() {
        let keys = Keys::default();
        let (one, two) = (made(&keys, 1, None).record, made(&keys, 2, None).record);
        let revoked = KeyChange::Revoked { at_ms: 5 };
        keys.apply(one.id, &revoked);
        let changes = vec![
            (one.id, KeyChange::Created(one.clone())),
            (two.id, KeyChange::Created(two.clone())),
            (one.id, revoked),
            (one.id, KeyChange::Revoked { at_ms: 9 }),
        ];
        assert_eq!(Keys::of(changes).list(), keys.list());
        assert_eq!(keys.get(one.id).unwrap().revoked_at_ms, Some(5));
    }

    #[test]
    fn the_secret_is_shown_by_nothing_but_reveal() {
        let issued = issue(new_key(None), &random(3), 1_000);
        let whole = issued.secret.reveal();
        let secret = &whole[whole.len() - SECRET_LETTERS..];
        assert_eq!(whole.len(), 3 + 12 + 1 + 43);
        for shown in [format!("{issued:?}"), serde_json::to_string(&issued.record).unwrap()] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn nothing_but_the_whole_key_opens(seed in any::<u8>(), place in 0usize..59, byte in 0x21u8..0x7f, other in ".{0,80}") {
            let keys = Keys::default();
            let issued = made(&keys, seed, None);
            let whole = issued.secret.reveal();
            prop_assert!(keys.open(whole, 0).is_ok());
            let mut changed = whole.as_bytes().to_vec();
            changed[place] = byte;
            let changed = String::from_utf8(changed).unwrap();
            prop_assert_eq!(keys.open(&changed, 0).is_ok(), changed == whole);
            prop_assert_eq!(keys.open(&whole[..place], 0), Err(KeyProblem::Unknown));
            prop_assert_eq!(keys.open(&other, 0), Err(KeyProblem::Unknown));
        }
    }
}
