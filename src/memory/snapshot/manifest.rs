//! What a snapshot says of itself.

use std::{collections::BTreeMap, io};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::Shape;

/// Raised when an older version could not read what is written.
pub(super) const FORMAT: u32 = 1;

/// `manifest.json`. Fields are only ever added, with a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = SnapshotManifest)]
pub struct Manifest {
    /// The format.
    pub format: u32,
    /// When it was made, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// The ring it was made from.
    #[serde(flatten)]
    pub shape: Shape,
    /// The sequence number of its first entry; `next_seq` when it is empty.
    pub first_seq: u64,
    /// One above the sequence number of its last entry.
    pub next_seq: u64,
    /// How many entries it holds.
    pub count: u64,
    /// The other members.
    pub files: BTreeMap<String, FileDigest>,
}

/// A member's size and content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FileDigest {
    /// Bytes, not compressed.
    pub bytes: u64,
    /// Lower-case hexadecimal.
    pub sha256: String,
}

/// Hashes and counts what passes through it.
pub(super) struct Digesting<T> {
    inner: T,
    hasher: Sha256,
    bytes: u64,
}

impl<T> Digesting<T> {
    pub fn new(inner: T) -> Self {
        Self { inner, hasher: Sha256::new(), bytes: 0 }
    }

    pub fn finish(self) -> (T, FileDigest) {
        (self.inner, FileDigest { bytes: self.bytes, sha256: hex(&self.hasher.finalize()) })
    }
}

impl<T: io::Write> io::Write for Digesting<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The SHA-256 of some bytes, in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
