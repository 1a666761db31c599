//! The admin key of the environment: it opens everything, also before any other key was made.

use std::fmt;

/// The hash of the admin key: the key itself is not kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AdminKey(blake3::Hash);

impl AdminKey {
    /// The hash of a key.
    pub fn of(key: &str) -> Self {
        Self(blake3::hash(key.as_bytes()))
    }

    // Hashes are compared in constant time.
    pub(super) fn is(self, key: &str) -> bool {
        Self::of(key) == self
    }
}

impl fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminKey(..)")
    }
}
