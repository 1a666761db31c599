//! `pointsman verify setup`: builds the first-party verifiers that are too large to come with the program, once.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, anyhow};
use pointsman::feedback::verifier::{PYTHON, Sandbox, SandboxLimits, VerifierSpec};

use super::toolchain::{self, Progress};
use crate::cli::folders::Folders;

/// The folder of built components. It is none that the compiler's cache keeps: that one deletes what it does not know.
pub(in crate::cli) fn built(folders: &Folders) -> PathBuf {
    folders.cache.join("components")
}

/// Whether a configured verifier is the first-party one that runs Python.
pub(in crate::cli) fn is_python(spec: &VerifierSpec) -> bool {
    spec.component.is_none() && spec.name.as_str() == PYTHON.name
}

pub(super) fn run(folders: &Folders) -> Result<()> {
    let started = Instant::now();
    let path = python(folders, &|step| eprintln!("{step}"))?;
    // The compiled code goes to the cache, so that nobody waits for it later.
    eprintln!("compiling");
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let sandbox = Sandbox::new(SandboxLimits::default(), Some(&folders.cache.join("verifiers")))?;
    let compiled = sandbox.compile(&bytes).map_err(|refusal| anyhow!("{}: {refusal}", path.display()))?;
    let manifest = &compiled.manifest;
    eprintln!("{} {} is ready after {:.1} s", manifest.name, manifest.version, started.elapsed().as_secs_f64());
    println!("{}", path.display());
    Ok(())
}

/// The component that runs Python; built when it is not there.
pub(in crate::cli) fn python(folders: &Folders, progress: Progress<'_>) -> Result<PathBuf> {
    let folder = built(folders);
    let path = PYTHON.built_in(&folder);
    if path.is_file() {
        return Ok(path);
    }
    progress("The python verifier is not built yet; building it once.");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let scratch = tempfile::tempdir_in(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
    let (modules, wit, out) = (scratch.path().join("app"), scratch.path().join("wit"), scratch.path().join("out.wasm"));
    write_all(&modules, PYTHON.modules)?;
    write_all(&wit, &[PYTHON.contract])?;
    let app = toolchain::python::App { dir: &modules, module: PYTHON.entry, wit: &wit, world: PYTHON.world };
    toolchain::python::componentize(&folders.cache, &app, &out, progress)
        .context("the python verifier cannot be built; without it, take `python` out of the configuration")?;
    // Whole or not at all, whoever else builds it meanwhile.
    fs::rename(&out, &path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn write_all(folder: &Path, files: &[(&str, &str)]) -> Result<()> {
    fs::create_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
