//! A folder of snapshots.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::{
    super::{EntryIterator, Memory, MemoryError, Shape},
    Manifest, SnapshotError, SnapshotFile, write,
};

const SUFFIX: &str = ".zip";
/// Starts the names of files that are being written.
const PART: &str = ".part-";
const NAME_BYTES_MAX: usize = 80;

/// A folder of snapshots; made when the first one comes.
#[derive(Debug, Clone)]
pub struct SnapshotStore {
    folder: PathBuf,
}

/// A snapshot that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The file's size.
    pub bytes: u64,
    /// The SHA-256 of its manifest.
    pub digest: String,
    /// What it says of itself.
    #[serde(flatten)]
    pub manifest: Manifest,
}

impl Snapshot {
    fn of(name: &str, file: &SnapshotFile) -> Self {
        let (bytes, digest, manifest) = (file.bytes(), file.digest().to_owned(), file.manifest().clone());
        Self { name: name.into(), bytes, digest, manifest }
    }
}

/// A snapshot in a list: read, or why it cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ListedSnapshot)]
#[serde(untagged)]
pub enum Listed {
    /// Its manifest was read; [`SnapshotStore::verify`] reads the rest.
    Whole(Snapshot),
    /// It cannot be used.
    Damaged {
        /// Its name.
        name: String,
        /// Why.
        problem: String,
    },
}

impl SnapshotStore {
    /// The snapshots in `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Writes everything a store holds into a new snapshot, named after the next sequence number unless a name is given.
    /// The store must stand still meanwhile.
    pub fn create(
        &self,
        name: Option<&str>,
        memory: &dyn Memory,
        shape: &Shape,
        at_ms: i64,
    ) -> Result<Snapshot, SnapshotError> {
        let name = match name {
            Some(name) => self.free(name)?,
            None => {
                let next_seq = memory.held()?.next_seq;
                let names = (1..).map(|n| match n {
                    1 => format!("memory-{next_seq:09}"),
                    n => format!("memory-{next_seq:09}-{n}"),
                });
                let mut free = names.skip_while(|name| self.file(name).exists());
                free.next().ok_or_else(|| SnapshotError::Exists(format!("memory-{next_seq:09}")))?
            }
        };
        let part = self.part()?;
        let file = part.reopen().map_err(SnapshotError::io(part.path()))?;
        write::write(file, part.path(), memory, shape, at_ms)?;
        self.keep(part, &name)
    }

    /// Takes a file that was written to [`SnapshotStore::part`] into the folder, after reading all of it.
    pub fn adopt(&self, part: NamedTempFile, name: &str) -> Result<Snapshot, SnapshotError> {
        let name = self.free(name)?;
        let named = |error| match error {
            SnapshotError::Damaged { problem, .. } => SnapshotError::Damaged { file: name.clone(), problem },
            other => other,
        };
        let snapshot = SnapshotFile::open(part.path()).map_err(named)?;
        snapshot.verify().map_err(named)?;
        self.keep(part, &name)
    }

    /// An empty file in the folder, deleted again unless it is adopted.
    pub fn part(&self) -> Result<NamedTempFile, SnapshotError> {
        fs::create_dir_all(&self.folder).map_err(SnapshotError::io(&self.folder))?;
        tempfile::Builder::new().prefix(PART).tempfile_in(&self.folder).map_err(SnapshotError::io(&self.folder))
    }

    /// Removes what a killed process left half-written; for the owner of the folder, before it writes any.
    pub fn remove_parts(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(PART)
                && let Err(error) = fs::remove_file(entry.path())
            {
                tracing::warn!(%error, file = %entry.path().display(), "an unfinished snapshot cannot be removed");
            }
        }
    }

    fn keep(&self, part: NamedTempFile, name: &str) -> Result<Snapshot, SnapshotError> {
        let path = self.file(name);
        part.as_file().sync_all().map_err(SnapshotError::io(part.path()))?;
        part.persist_noclobber(&path).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => SnapshotError::Exists(name.into()),
            _ => SnapshotError::io(&path)(error.error),
        })?;
        self.get(name)
    }

    /// All snapshots, by name.
    pub fn list(&self) -> Result<Vec<Listed>, SnapshotError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(SnapshotError::io(&self.folder)(error)),
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(SUFFIX).map(str::to_owned))
            .filter(|name| check(name).is_ok())
            .collect();
        names.sort();
        let listed = names.into_iter().map(|name| match self.get(&name) {
            Ok(snapshot) => Listed::Whole(snapshot),
            Err(error) => Listed::Damaged { name, problem: error.to_string() },
        });
        Ok(listed.collect())
    }

    /// One snapshot; its manifest is read.
    pub fn get(&self, name: &str) -> Result<Snapshot, SnapshotError> {
        Ok(Snapshot::of(name, &self.open(name)?))
    }

    /// Reads all of a snapshot and compares it with its manifest.
    pub fn verify(&self, name: &str) -> Result<Snapshot, SnapshotError> {
        let file = self.open(name)?;
        file.verify()?;
        Ok(Snapshot::of(name, &file))
    }

    /// The same for a snapshot that is to be restored into a memory of `shape`, which it must fit.
    pub fn verify_for(&self, name: &str, shape: &Shape) -> Result<Snapshot, SnapshotError> {
        let file = self.open(name)?;
        file.fits(shape)?;
        file.verify()?;
        Ok(Snapshot::of(name, &file))
    }

    /// A snapshot's file, for reading.
    pub fn open(&self, name: &str) -> Result<SnapshotFile, SnapshotError> {
        check(name)?;
        match SnapshotFile::open(&self.file(name)) {
            Err(SnapshotError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Err(SnapshotError::Unknown(name.into()))
            }
            opened => opened,
        }
    }

    /// Deletes a snapshot, whole or damaged.
    pub fn delete(&self, name: &str) -> Result<(), SnapshotError> {
        check(name)?;
        match fs::remove_file(self.file(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(SnapshotError::Unknown(name.into())),
            removed => removed.map_err(SnapshotError::io(self.file(name))),
        }
    }

    /// Where a snapshot's file is, or would be.
    pub fn path(&self, name: &str) -> Result<PathBuf, SnapshotError> {
        check(name)?;
        Ok(self.file(name))
    }

    /// The entries of the snapshot with this digest. Where it is gone there are none, and the log says so: then memory
    /// goes on with what the journal has.
    pub fn entries_of(&self, name: &str, digest: &str) -> Result<EntryIterator, MemoryError> {
        let problem = match self.open(name) {
            Ok(file) if file.digest() == digest => match file.verify() {
                Ok(()) => return Ok(Box::new(file.entries()?)),
                Err(error) => error.to_string(),
            },
            Ok(_) => "another snapshot has its name".to_owned(),
            // Worth another try.
            Err(error @ SnapshotError::Io { .. }) => return Err(error.into()),
            Err(error) => error.to_string(),
        };
        tracing::error!(
            snapshot = name,
            digest,
            problem,
            "the snapshot that memory was restored from is gone; memory holds only what was learnt after it"
        );
        Ok(Box::new(std::iter::empty()))
    }

    /// The name, if nothing has it.
    fn free(&self, name: &str) -> Result<String, SnapshotError> {
        check(name)?;
        if self.file(name).exists() { Err(SnapshotError::Exists(name.into())) } else { Ok(name.into()) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}{SUFFIX}"))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// A name is part of a path and a URL.
fn check(name: &str) -> Result<(), SnapshotError> {
    checked_name(name).map_err(SnapshotError::Name)
}

/// Refuses what can be no file's name under which people keep something: 1 to 80 of A-Z a-z 0-9 . _ -, and no dot at the start.
/// The error is the name, cut to that length.
pub fn checked_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    if fits && !name.starts_with('.') && name.chars().all(allowed) {
        Ok(())
    } else {
        Err(name.chars().take(NAME_BYTES_MAX).collect())
    }
}
