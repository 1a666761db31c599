//! The toolchains that build verifiers, one file each.
//!
//! Each is pinned, fetched on first use by the package manager that the user has, so that their mirrors, proxies and
//! certificates apply, and kept in a folder of its own in the cache: nothing is installed on the machine, except a
//! target that rustup adds to its own Rust. What can go wrong: that package manager is missing or offline; the error says which, and repeats the tool's own words.

pub(super) mod c;
pub(super) mod javascript;
pub(in crate::cli) mod python;
pub(super) mod rust;
mod rustc_web;
mod tool;
mod venv;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};

/// Hears what is being done, for people.
pub(in crate::cli) type Progress<'a> = &'a dyn Fn(&str);

/// Downloads of up to 400 MB, over slow lines.
const FETCH_MAX: Duration = Duration::from_secs(30 * 60);
/// One project's build; the first of Rust compiles its standard library.
const BUILD_MAX: Duration = Duration::from_secs(20 * 60);

/// The folder of a toolchain, installed unless it is there whole. `key` holds the pinned version, so that another
/// version is another folder.
fn installed(cache: &Path, key: &str, install: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let root = cache.join("toolchains");
    let dir = root.join(key);
    let whole = dir.join("complete");
    fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
    let lock_path = root.join(format!("{key}.lock"));
    let lock = File::create(&lock_path).with_context(|| format!("cannot create {}", lock_path.display()))?;
    // Two builds at once must not install into one folder; the lock ends with the file.
    lock.lock().with_context(|| format!("cannot lock {}", lock_path.display()))?;
    if !whole.exists() {
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot delete {}", dir.display()))?;
        }
        fs::create_dir(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        install(&dir)?;
        fs::write(&whole, "").with_context(|| format!("cannot write {}", whole.display()))?;
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn installs_once_and_again_after_a_failure() {
        let cache = tempfile::tempdir().unwrap();
        let broken = installed(cache.path(), "tool-1", |dir| {
            fs::write(dir.join("half"), "").unwrap();
            bail!("no network")
        });
        assert_eq!(broken.unwrap_err().to_string(), "no network");
        let dir = installed(cache.path(), "tool-1", |dir| {
            assert!(!dir.join("half").exists());
            Ok(fs::write(dir.join("tool"), "")?)
        });
        let again = installed(cache.path(), "tool-1", |_| bail!("installed twice"));
        assert_eq!(dir.unwrap(), again.unwrap());
    }
}
