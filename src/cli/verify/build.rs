//! `pointsman verify build`: a project's component, made by its language's toolchain.

use std::{fs, io::Write, path::PathBuf, time::Instant};

use anyhow::{Context, Result};
use clap::Args;

use super::{
    super::folders::Folders,
    project::{Language, Project},
    toolchain,
};

#[derive(Args)]
pub(super) struct BuildArguments {
    /// The project's folder.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// The component to write [default: DIR/NAME.wasm].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &BuildArguments, folders: &Folders) -> Result<()> {
    let started = Instant::now();
    let project = Project::open(&arguments.dir)?;
    let out = arguments.out.clone().unwrap_or_else(|| arguments.dir.join(format!("{}.wasm", project.name)));
    let progress = |step: &str| eprintln!("{step}");
    let component = match project.language {
        Language::Python => toolchain::python::build(&project, &folders.cache, &progress),
        Language::Rust => toolchain::rust::build(&project, &folders.cache, &progress),
        Language::C => toolchain::c::build(&project, &folders.cache, &progress),
        Language::Javascript => toolchain::javascript::build(&project, &folders.cache, &progress),
    }?;
    // Whole or not at all: a daemon or another command may read it meanwhile.
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(".".as_ref());
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        file.write_all(&component)?;
        file.persist(&out).map_err(|error| error.error)?;
        fs::set_permissions(&out, readable())
    });
    written.with_context(|| format!("cannot write {}", out.display()))?;
    println!("{} is built: {} bytes in {:.1} s", out.display(), component.len(), started.elapsed().as_secs_f64());
    Ok(())
}

/// As an ordinary file; temporary ones are for their owner alone.
fn readable() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}
