//! Python: componentize-py puts CPython, the project's modules and what they import into one component.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use super::{super::project::Project, BUILD_MAX, Progress, tool, venv};

const PACKAGE: &str = "componentize-py";
const VERSION: &str = "0.25.1";

/// What to make a component of.
pub(in crate::cli) struct App<'a> {
    /// The folder of its modules.
    pub dir: &'a Path,
    /// The module that defines the exports' classes.
    pub module: &'a str,
    /// The contract's folder.
    pub wit: &'a Path,
    pub world: &'a str,
}

pub(in super::super) fn build(project: &Project, cache: &Path, progress: Progress<'_>) -> Result<Vec<u8>> {
    let module = module(&project.entry)?;
    let entry = project.dir.join(&project.entry);
    let dir = entry.parent().unwrap_or(&project.dir);
    let out = project.build_dir()?.join("component.wasm");
    let app = App { dir, module: &module, wit: &project.wit(), world: project.world.name() };
    componentize(cache, &app, &out, progress)?;
    fs::read(&out).with_context(|| format!("cannot read {}", out.display()))
}

/// Writes the component to `out`; fetches componentize-py first if it is not in the cache.
pub(in crate::cli) fn componentize(cache: &Path, app: &App<'_>, out: &Path, progress: Progress<'_>) -> Result<()> {
    let programs = venv::with_package(cache, PACKAGE, VERSION, progress)?;
    let empty = venv::empty(cache)?;
    progress("building with componentize-py, which takes some 20 s");
    tool::run(&mut command(&programs, &empty, app, out), BUILD_MAX)?;
    Ok(())
}

fn command(programs: &Path, empty: &Path, app: &App<'_>, out: &Path) -> Command {
    let mut command = Command::new(programs.join(PACKAGE));
    command.arg("-d").arg(app.wit).args(["-w", app.world, "componentize", app.module, "-p"]).arg(app.dir);
    command.arg("-o").arg(out);
    // A backtrace of the tool would hide the project's own.
    command.env("RUST_BACKTRACE", "0");
    // Without it the packages of the Python on the path would come along.
    command.env("VIRTUAL_ENV", empty).env_remove("PYTHONPATH").env_remove("PYTHONHOME");
    command
}

/// The module's name, which must be one that Python can import.
fn module(entry: &Path) -> Result<String> {
    let stem = entry.file_stem().unwrap_or_default().to_string_lossy();
    let starts = stem.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let python = entry.extension().is_some_and(|extension| extension == "py");
    ensure!(
        python && starts && stem.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
        "entry is {}: it must be a Python module such as check.py",
        entry.display()
    );
    Ok(stem.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_in_an_empty_environment() {
        let app = App { dir: "p".as_ref(), module: "check", wit: "p/wit".as_ref(), world: "verifier" };
        let command = command("/venv/bin".as_ref(), "/empty".as_ref(), &app, "/out.wasm".as_ref());
        assert_eq!(command.get_program(), "/venv/bin/componentize-py");
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(arguments, ["-d", "p/wit", "-w", "verifier", "componentize", "check", "-p", "p", "-o", "/out.wasm"]);
        assert!(command.get_envs().any(|pair| pair == ("VIRTUAL_ENV".as_ref(), Some("/empty".as_ref()))));
    }

    #[test]
    fn takes_entries_that_can_be_imported() {
        assert_eq!(module("src/check_2.py".as_ref()).unwrap(), "check_2");
        for bad in ["check", "my-check.py", "2.py", "check.js"] {
            assert!(module(bad.as_ref()).is_err(), "{bad}");
        }
    }
}
