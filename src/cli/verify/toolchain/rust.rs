//! Rust: cargo with a compiler that knows `wasm32-unknown-unknown`, which has neither clock nor randomness.
//!
//! Looked for in this order: the target of the Rust on the path, Debian's compiler from the cache, the target that
//! rustup adds, Debian's compiler fetched now.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use pointsman::feedback::verifier::componentize;
use serde_json::Value;

use super::{super::project::Project, BUILD_MAX, Progress, rustc_web, tool};

pub(super) const TARGET: &str = "wasm32-unknown-unknown";
/// Offline it must give up soon.
const RUSTUP_MAX: Duration = Duration::from_secs(180);

/// What makes cargo compile for the target; nothing when the Rust on the path does.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Compiler {
    pub arguments: Vec<&'static str>,
    pub environment: Vec<(&'static str, OsString)>,
}

pub(in super::super) fn build(project: &Project, cache: &Path, progress: Progress<'_>) -> Result<Vec<u8>> {
    if tool::probe("cargo", &["--version"]).is_none() {
        bail!("Rust needs cargo on the path: install it from rustup.rs");
    }
    let compiler = compiler(&project.dir, cache, progress)?;
    progress("building with cargo, which takes a minute or more the first time");
    let messages = tool::run(&mut command(&compiler, project, &project.build_dir()?), BUILD_MAX)?;
    let core = artifact(&messages)
        .context("cargo built no WebAssembly module: Cargo.toml must have crate-type = [\"cdylib\"] under [lib]")?;
    let module = fs::read(&core).with_context(|| format!("cannot read {}", core.display()))?;
    componentize(&module).with_context(|| format!("{} makes no verifier", core.display()))
}

fn compiler(dir: &Path, cache: &Path, progress: Progress<'_>) -> Result<Compiler> {
    if has_target(dir) {
        return Ok(Compiler::default());
    }
    if let Some(compiler) = rustc_web::cached(cache)? {
        return Ok(compiler);
    }
    progress(&format!("adding {TARGET} with rustup, once"));
    let added = tool::run(Command::new("rustup").args(["target", "add", TARGET]).current_dir(dir), RUSTUP_MAX);
    if has_target(dir) {
        return Ok(Compiler::default());
    }
    match added {
        Ok(_) => bail!("rustup added {TARGET} to another Rust than the one on the path: call cargo through rustup"),
        Err(error) => rustc_web::fetch(cache, progress).with_context(|| {
            format!("no Rust for {TARGET}: run `rustup target add {TARGET}`, which failed here\n{error:#}")
        }),
    }
}

/// In the project's folder, since a toolchain file may choose another Rust there.
fn has_target(dir: &Path) -> bool {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", TARGET]).current_dir(dir);
    tool::run(&mut command, RUSTUP_MAX).is_ok_and(|path| Path::new(path.trim()).is_dir())
}

fn command(compiler: &Compiler, project: &Project, build_dir: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["build", "--quiet", "--release", "--target", TARGET, "--message-format", "json-render-diagnostics"]);
    command.args(&compiler.arguments).arg("--target-dir").arg(build_dir.join("target"));
    command.envs(compiler.environment.iter().map(|(key, value)| (key, value))).current_dir(&project.dir);
    command
}

/// The module among cargo's messages; the project's own comes last.
fn artifact(messages: &str) -> Option<PathBuf> {
    messages.lines().rev().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let files = message["filenames"].as_array()?;
        files.iter().filter_map(Value::as_str).find(|file| file.ends_with(".wasm")).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::project::{Language, World},
        *,
    };

    #[test]
    fn cargo_builds_below_the_build_folder_with_the_compiler_that_was_found() {
        let project = Project {
            dir: "/p".into(),
            name: "a".parse().unwrap(),
            language: Language::Rust,
            world: World::Verifier,
            entry: "src/lib.rs".into(),
        };
        let compiler = Compiler { arguments: vec!["-Zfirst"], environment: vec![("RUSTC", "/rustc".into())] };
        let command = command(&compiler, &project, "/p/build".as_ref());
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_str().unwrap()).collect();
        assert_eq!(
            arguments.join(" "),
            "build --quiet --release --target wasm32-unknown-unknown --message-format json-render-diagnostics -Zfirst \
             --target-dir /p/build/target"
        );
        assert!(command.get_envs().any(|pair| pair == ("RUSTC".as_ref(), Some("/rustc".as_ref()))));
    }

    #[test]
    fn finds_the_module_that_cargo_built() {
        let messages = r#"{"reason":"compiler-artifact","filenames":["/t/libserde.rlib"]}
{"reason":"compiler-artifact","filenames":["/t/check.wasm"]}
{"reason":"build-finished","success":true}"#;
        assert_eq!(artifact(messages), Some("/t/check.wasm".into()));
        assert_eq!(artifact(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
