//! `ring.json`: which shard of a memory's folder counts, and what is in it.
//!
//! It is written anew beside itself and renamed into place, so that a crash leaves the old one or the new one. What can go
//! wrong: it is damaged or of another version's format, or the disk is full.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{
    MemoryError, Shape,
    shard::{corrupt, room},
};

const MARKER: &str = "ring.json";
const FORMAT: u32 = 2;

/// `ring.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    pub format: u32,
    #[serde(flatten)]
    pub shape: Shape,
    #[serde(default)]
    pub origin: Option<String>,
    /// The number in the name of the shard's folder.
    pub shard: u64,
    /// Everything below this number is on the disk.
    pub flushed: u64,
}

impl Marker {
    /// That of an empty ring in its first shard.
    pub fn first(shape: Shape) -> Self {
        Self { format: FORMAT, shape, origin: None, shard: 0, flushed: 0 }
    }

    /// The one in a folder; nothing where there is none.
    pub fn read(folder: &Path) -> Result<Option<Self>, MemoryError> {
        let bytes = match fs::read(folder.join(MARKER)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(corrupt(folder, &error)),
        };
        let marker: Self = serde_json::from_slice(&bytes).map_err(|error| corrupt(folder, &error))?;
        if marker.format != FORMAT {
            let reason = format!("{MARKER} has format {}, this version reads {FORMAT}", marker.format);
            return Err(corrupt(folder, &reason));
        }
        Ok(Some(marker))
    }

    /// Renamed into place and flushed, so that a crash leaves the old marker or the new one.
    pub fn write(&self, folder: &Path) -> Result<(), MemoryError> {
        room(folder)?;
        let bytes = serde_json::to_vec(self).map_err(|error| MemoryError::Other(error.to_string()))?;
        let temporary = folder.join("ring.json.part");
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, folder.join(MARKER))?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|error: io::Error| MemoryError::Other(format!("cannot write {}: {error}", folder.display())))
    }
}
