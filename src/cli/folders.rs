//! Where things are kept, and the lock that gives a data folder one owner.

use std::{
    env,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

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
    // Held for its lock.
    _lock: File,
}

impl DataFolder {
    /// Creates the folder, readable by its owner alone, and locks it.
    pub(super) fn lock(path: &Path) -> Result<Self> {
        create_private(path).with_context(|| {
            format!("cannot create the data folder {}: give a writable one with --data-dir DIR", path.display())
        })?;
        let file = path.join("LOCK");
        let lock = File::options().create(true).append(true).open(&file).with_context(|| {
            format!("cannot write to the data folder {}: give a writable one with --data-dir DIR", path.display())
        })?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.into(), _lock: lock }),
            Err(TryLockError::WouldBlock) => bail!(
                "the data folder {} is used by another pointsman: stop it, or give another folder with --data-dir DIR",
                path.display()
            ),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock the data folder {}", path.display()))
            }
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
