//! JavaScript: componentize-js puts a SpiderMonkey engine and the project's module into one component.
//!
//! All of WASI that it can leave out is left out, so that the component imports nothing.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use super::{super::project::Project, BUILD_MAX, FETCH_MAX, Progress, installed, tool};

const VERSION: &str = "0.23.0";
/// The lock file pins everything below it; an older `jco` brings half as much along.
const PACKAGE: &str = include_str!("npm/package.json");
const PACKAGE_LOCK: &str = include_str!("npm/package-lock.json");
const CLI: &str = "node_modules/@bytecodealliance/componentize-js/src/cli.js";
const NODE_MAJOR_MIN: u32 = 20;
/// What a verifier gets nothing of.
const LEFT_OUT: [&str; 5] = ["http", "fetch-event", "random", "clocks", "stdio"];

pub(in super::super) fn build(project: &Project, cache: &Path, progress: Progress<'_>) -> Result<Vec<u8>> {
    let tools = installed(cache, &format!("componentize-js-{VERSION}"), |dir| install(dir, progress))?;
    let build_dir = project.build_dir()?;
    check_syntax(&project.dir.join(&project.entry), &build_dir)?;
    let out = build_dir.join("component.wasm");
    progress("building with componentize-js, which takes some 20 s");
    tool::run(&mut command(&tools, project, &out), BUILD_MAX)?;
    fs::read(&out).with_context(|| format!("cannot read {}", out.display()))
}

fn install(dir: &Path, progress: Progress<'_>) -> Result<()> {
    let version = tool::probe("node", &["--version"]).unwrap_or_default();
    if major(&version).is_none_or(|major| major < NODE_MAJOR_MIN) || tool::probe("npm", &["--version"]).is_none() {
        bail!("JavaScript needs Node.js {NODE_MAJOR_MIN} or later with npm on the path: install it from nodejs.org");
    }
    progress(&format!("fetching componentize-js {VERSION}, once"));
    for (name, text) in [("package.json", PACKAGE), ("package-lock.json", PACKAGE_LOCK)] {
        fs::write(dir.join(name), text).with_context(|| format!("cannot write {name} in {}", dir.display()))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(dir);
    let fetched = tool::run(&mut npm, FETCH_MAX);
    fetched.map(drop).context("componentize-js cannot be fetched: check the network, or npm's registry setting")
}

/// componentize-js says only how many faults there are, Node.js where. A copy, since its name decides how it is read.
fn check_syntax(entry: &Path, build_dir: &Path) -> Result<()> {
    let copy = build_dir.join("syntax.mjs");
    fs::copy(entry, &copy).with_context(|| format!("cannot copy {}", entry.display()))?;
    let checked = tool::run(Command::new("node").arg("--check").arg(&copy), BUILD_MAX);
    checked.map(drop).with_context(|| format!("{} is no JavaScript module", entry.display()))
}

/// It resolves the module below the folder that it runs in.
fn command(tools: &Path, project: &Project, out: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(tools.join(CLI)).arg(&project.entry).arg("--wit").arg(project.wit());
    command.args(["--world-name", project.world.name()]);
    for feature in LEFT_OUT {
        command.args(["--disable", feature]);
    }
    command.arg("--out").arg(out).current_dir(&project.dir);
    command
}

/// Of `v20.20.2`, 20.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::project::{Language, World},
        *,
    };

    #[test]
    fn leaves_wasi_out_and_runs_in_the_project() {
        let project = Project {
            dir: "/p".into(),
            name: "a".parse().unwrap(),
            language: Language::Javascript,
            world: World::Verifier,
            entry: "check.js".into(),
        };
        let command = command("/tools".as_ref(), &project, "/out.wasm".as_ref());
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_str().unwrap()).collect();
        let expected = format!(
            "/tools/{CLI} check.js --wit /p/wit --world-name verifier --disable http --disable fetch-event \
             --disable random --disable clocks --disable stdio --out /out.wasm"
        );
        assert_eq!(arguments.join(" "), expected);
        assert_eq!(command.get_current_dir(), Some("/p".as_ref()));
    }

    #[test]
    fn reads_the_major_version() {
        assert_eq!(major("v20.20.2\n"), Some(20));
        assert_eq!(major(""), None);
    }

    #[test]
    fn the_lock_file_pins_the_version_that_the_folder_is_named_for() {
        let lock: serde_json::Value = serde_json::from_str(PACKAGE_LOCK).unwrap();
        let package: serde_json::Value = serde_json::from_str(PACKAGE).unwrap();
        let name = "@bytecodealliance/componentize-js";
        assert_eq!(lock["packages"][format!("node_modules/{name}")]["version"], VERSION);
        assert_eq!(package["dependencies"][name], VERSION);
    }
}
