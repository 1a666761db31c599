//! Where things are kept, and the lock that gives a data folder one owner.

use std::{
    env,
    fs::{self, File, TryLockError},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use pointsman::{
    memory::snapshot::SnapshotStore,
    replay::saved::{Reports, check},
};

/// The checkpoint's name in a data folder.
pub(super) const CHECKPOINT: &str = "checkpoint.json";
/// What the checkpoint took the place of.
const OUTDATED: &str = "policy.state.json";

/// The user's folders.
pub(super) struct Folders {
    /// Models and compiled verifiers: can be deleted at any time.
    pub cache: PathBuf,
    /// State: the default for `--data-dir`.
    pub data: PathBuf,
}

impl Folders {
    /// Follows the XDG base directory specification, under `pointsman`.
    pub(super) fn find(cache: Option<PathBuf>) -> Result<Self> {
        let base = |variable: &str, fallback: &str| -> Result<PathBuf> {
            let set = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
            match (set, env::home_dir()) {
                (Some(path), _) => Ok(path.join("pointsman")),
                (None, Some(home)) => Ok(home.join(fallback).join("pointsman")),
                (None, None) => bail!("no home folder is known: set {variable}, or give --cache-dir and --data-dir"),
            }
        };
        let cache = cache.map_or_else(|| base("XDG_CACHE_HOME", ".cache"), Ok)?;
        Ok(Self { cache, data: base("XDG_DATA_HOME", ".local/share")? })
    }
}

/// A data folder that belongs to this process until it is dropped.
#[derive(Debug)]
pub(super) struct DataFolder {
    pub path: PathBuf,
    // Held for its lock; a daemon writes its address into it.
    lock: File,
}

/// Replays that were saved beside a data folder's state.
pub(super) fn reports(data: &Path) -> Reports {
    Reports::of(data.join("reports"))
}

/// Checks a report's name before anything is replayed.
pub(super) fn report_name(text: &str) -> Result<String, String> {
    check(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// Whose a data folder is.
pub(super) enum Owner {
    /// This process's.
    Us(DataFolder),
    /// Another process's, which listens there if it is a daemon.
    Other { url: Option<String> },
}

impl DataFolder {
    /// Creates the folder, readable by its owner alone, and locks it.
    pub(super) fn lock(path: &Path) -> Result<Self> {
        create_private(path).with_context(|| {
            format!("cannot create the data folder {}: give a writable one with --data-dir DIR", path.display())
        })?;
        match Self::owner(path)? {
            Owner::Us(folder) => Ok(folder),
            Owner::Other { .. } => bail!(
                "the data folder {} is used by another pointsman: stop it, or give another folder with --data-dir DIR",
                path.display()
            ),
        }
    }

    /// Locks a folder that is there, unless another process has it.
    pub(super) fn owner(path: &Path) -> Result<Owner> {
        let file = path.join("LOCK");
        let lock = File::options().create(true).append(true).open(&file).with_context(|| {
            format!("cannot write to the data folder {}: give a writable one with --data-dir DIR", path.display())
        })?;
        match lock.try_lock() {
            Ok(()) => Ok(Owner::Us(Self { path: path.into(), lock })),
            Err(TryLockError::WouldBlock) => {
                let url = fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'));
                Ok(Owner::Other { url: url.map(|text| text.trim().to_owned()) })
            }
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock the data folder {}", path.display()))
            }
        }
    }

    /// The journal's file.
    pub(super) fn journal(&self) -> PathBuf {
        self.path.join("journal.sqlite")
    }

    /// The embedded memory's folder.
    pub(super) fn memory(&self) -> PathBuf {
        self.path.join("memory")
    }

    /// What was learnt, so that a start is quick.
    pub(super) fn checkpoint(&self) -> PathBuf {
        self.path.join(CHECKPOINT)
    }

    /// Removes what earlier versions kept of what was learnt, once the checkpoint is there instead.
    pub(super) fn remove_outdated(&self) {
        let outdated = self.path.join(OUTDATED);
        if !self.checkpoint().exists() || !outdated.exists() {
            return;
        }
        match fs::remove_file(&outdated) {
            Ok(()) => tracing::info!(file = %outdated.display(), "removed: the checkpoint took its place"),
            Err(error) => tracing::warn!(%error, file = %outdated.display(), "an outdated file cannot be removed"),
        }
    }

    /// The components that were handed in.
    pub(super) fn verifiers(&self) -> PathBuf {
        self.path.join("verifiers")
    }

    /// Where webhooks are in the journal.
    pub(super) fn webhooks(&self) -> PathBuf {
        self.path.join("webhooks")
    }

    /// Memory's snapshots.
    pub(super) fn snapshots(&self) -> SnapshotStore {
        SnapshotStore::new(self.path.join("memory_snapshots"))
    }

    /// Lets other programs on this machine know where the daemon of this folder listens.
    pub(super) fn announce(&self, url: &str) -> std::io::Result<()> {
        self.lock.set_len(0)?;
        (&self.lock).write_all(format!("{url}\n").as_bytes())
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        // Nobody reads a stale address: it counts only while the lock is held.
        let _ = self.lock.set_len(0);
    }
}

/// The folder of cards: the one that was given, or `policies` in a daemon's data folder, beside it or here, if there is one.
pub(super) fn cards(data: &Path, given: Option<&Path>) -> Result<Option<PathBuf>> {
    match given {
        Some(given) if !given.is_dir() => bail!("--cards {}: there is no such folder", given.display()),
        Some(given) => Ok(Some(given.into())),
        None => {
            let places = [data.join("policies"), data.join("../policies"), PathBuf::from("policies")];
            Ok(places.into_iter().find(|folder| folder.is_dir()))
        }
    }
}

fn create_private(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
