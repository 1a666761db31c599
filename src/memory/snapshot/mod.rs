//! Snapshots of memory: one file each, for moving memory, keeping a good one, and starting elsewhere with it.
//!
//! A zip file with three members: `manifest.json` (model, dimension, cap, sequence range, count, and the SHA-256 of the
//! others), `entries.jsonl` (one entry a line, in sequence order, without embedding) and `embeddings.f32` (the embeddings
//! in the same order, little-endian, row by row, not compressed). It depends on no store's own format, so that it loads
//! into any of them and for ever; `memory_snapshots/README.md` describes it for other programs. The digest of a snapshot
//! is the SHA-256 of its manifest, which covers everything else.
//!
//! A file is written under a temporary name and renamed when whole. What can go wrong: it is truncated, changed, no
//! snapshot at all, written by a newer version, or of another model; each is found before anything is replaced.

mod manifest;
mod read;
mod store;
mod write;

use std::{io, path::PathBuf, sync::Arc};

use super::MemoryError;

pub use manifest::{FileDigest, Manifest};
pub use read::SnapshotFile;
pub use store::{Listed, Snapshot, SnapshotStore, checked_name};

const MANIFEST: &str = "manifest.json";
const ENTRIES: &str = "entries.jsonl";
const EMBEDDINGS: &str = "embeddings.f32";
/// Entries read from a store at a time.
const PAGE: usize = 512;

/// Why a snapshot cannot be made, read or used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SnapshotError {
    /// A name that could not be a file's.
    #[error("{0:?} is no name for a snapshot: use 1 to 80 letters, digits and . _ -, not starting with a dot")]
    Name(String),
    /// There is no such snapshot.
    #[error("there is no snapshot {0}; `pointsman memory snapshot list` shows what there is")]
    Unknown(String),
    /// The name is taken.
    #[error("there is a snapshot {0} already; choose another name, or delete that one first")]
    Exists(String),
    /// Memory rests on it, so it is needed to rebuild memory.
    #[error(
        "memory was restored from snapshot {0} and would be rebuilt from it; restore another one before deleting it"
    )]
    InUse(String),
    /// The file is not what was written.
    #[error("{file} is damaged or no snapshot: {problem}")]
    Damaged {
        /// The file's name.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// Written by a newer version.
    #[error("{file} has format {found}, this version reads up to {known}; upgrade pointsman")]
    Newer {
        /// The file's name.
        file: String,
        /// Its format.
        found: u32,
        /// The newest known here.
        known: u32,
    },
    /// Its embeddings are another model's.
    #[error(
        "{file} holds embeddings of {found}, this memory holds embeddings of {wanted}: they cannot be compared, and a \
         snapshot has no texts to embed again"
    )]
    OtherModel {
        /// The file's name.
        file: String,
        /// The snapshot's model.
        found: String,
        /// Memory's model.
        wanted: String,
    },
    /// The store failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        source: Arc<io::Error>,
    },
}

impl SnapshotError {
    /// For `map_err` on anything that touches `path`.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source: Arc::new(source) }
    }
}

impl From<SnapshotError> for MemoryError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::Memory(error) => error,
            other => Self::Other(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
