//! C: Zig's compiler with a WASI libc, and bindings that are generated here.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use pointsman::feedback::verifier::componentize;
use wit_bindgen_core::Files;
use wit_parser::Resolve;

use super::{super::project::Project, BUILD_MAX, Progress, tool, venv};

const PACKAGE: &str = "ziglang";
const VERSION: &str = "0.17.0";

pub(in super::super) fn build(project: &Project, cache: &Path, progress: Progress<'_>) -> Result<Vec<u8>> {
    let programs = venv::with_package(cache, PACKAGE, VERSION, progress)?;
    let build_dir = project.build_dir()?;
    let mut inputs = sources(&project.dir)?;
    inputs.extend(generate(&project.wit(), project.world.name(), &build_dir)?);
    progress("building with zig cc, the first time with its libc");
    let core = build_dir.join("core.wasm");
    tool::run(&mut command(&programs, &cache.join("toolchains/zig-cache"), project, &inputs, &core), BUILD_MAX)?;
    let module = fs::read(&core).with_context(|| format!("cannot read {}", core.display()))?;
    componentize(&module).with_context(|| format!("{} makes no verifier", core.display()))
}

/// Every C file beside the entry.
fn sources(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("c")) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Writes a header, its C file and the object that names the world; gives the two to link.
fn generate(wit: &Path, world: &str, into: &Path) -> Result<Vec<PathBuf>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit).with_context(|| format!("{} is no contract", wit.display()))?;
    let world = resolve.select_world(&[package], Some(world))?;
    let mut files = Files::default();
    wit_bindgen_c::Opts::default().build().generate(&mut resolve, world, &mut files)?;
    let mut inputs = vec![];
    for (name, bytes) in files.iter() {
        let path = into.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        if !name.ends_with(".h") {
            inputs.push(path);
        }
    }
    Ok(inputs)
}

fn command(programs: &Path, zig_cache: &Path, project: &Project, inputs: &[PathBuf], out: &Path) -> Command {
    let mut command = Command::new(programs.join("python"));
    command.args(["-m", PACKAGE, "cc", "-target", "wasm32-wasi", "-mexec-model=reactor", "-Os", "-s", "-Wall"]);
    command.arg("-I").arg(&project.dir).arg("-I").arg(project.dir.join("build"));
    command.args(inputs).arg("-o").arg(out).current_dir(&project.dir);
    command.env("ZIG_GLOBAL_CACHE_DIR", zig_cache).env("ZIG_LOCAL_CACHE_DIR", zig_cache);
    command
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::project::{Language, World},
        *,
    };

    #[test]
    fn generates_bindings_of_both_worlds() {
        let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("verifiers/wit");
        for (world, stem) in [("verifier", "verifier"), ("exec-verifier", "exec_verifier")] {
            let folder = tempfile::tempdir().unwrap();
            let mut inputs = generate(&wit, world, folder.path()).unwrap();
            inputs.sort();
            let expected = [format!("{stem}.c"), format!("{stem}_component_type.o")];
            assert_eq!(inputs, expected.map(|name| folder.path().join(name)));
            assert!(folder.path().join(format!("{stem}.h")).is_file());
        }
    }

    #[test]
    fn compiles_every_c_file_of_the_project() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["check.c", "a.c", "a.h"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let inputs = sources(folder.path()).unwrap();
        assert_eq!(inputs, [folder.path().join("a.c"), folder.path().join("check.c")]);
        let project = Project {
            dir: folder.path().into(),
            name: "a".parse().unwrap(),
            language: Language::C,
            world: World::Verifier,
            entry: "check.c".into(),
        };
        let command = command("/venv/bin".as_ref(), "/cache".as_ref(), &project, &inputs, "/core.wasm".as_ref());
        let arguments: Vec<_> = command.get_args().collect();
        assert!(arguments.ends_with(&[inputs[0].as_ref(), inputs[1].as_ref(), "-o".as_ref(), "/core.wasm".as_ref()]));
        assert!(arguments.contains(&OsStr::new("-mexec-model=reactor")));
    }
}
