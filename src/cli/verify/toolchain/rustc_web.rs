//! Debian's Rust compiler for WebAssembly, for machines that rustup does not serve.
//!
//! Its packages are unpacked into the cache, never installed. It has no built standard library for the target, so cargo
//! builds that from its sources, and no linker, which the Rust on the path lends.

use std::{
    env::consts::ARCH,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{FETCH_MAX, Progress, installed, rust::Compiler, tool};

const KEY: &str = "rustc-web";
const PACKAGES: [&str; 3] = ["rustc-web", "rust-web-src", "libstd-rust-web-dev"];

/// The compiler, if it was fetched before.
pub(super) fn cached(cache: &Path) -> Result<Option<Compiler>> {
    let dir = cache.join("toolchains").join(KEY);
    if dir.join("complete").exists() { compiler(&dir).map(Some) } else { Ok(None) }
}

/// Fetches and unpacks it.
pub(super) fn fetch(cache: &Path, progress: Progress<'_>) -> Result<Compiler> {
    let dir = installed(cache, KEY, |dir| {
        progress("fetching Debian's rustc-web, once");
        unpack(dir).context("nor can Debian's rustc-web be fetched")
    })?;
    compiler(&dir)
}

fn unpack(dir: &Path) -> Result<()> {
    let library = dependency(PACKAGES[2], "libstd-rust-web-")?;
    let llvm = dependency(&library, "libllvm")?;
    let debs = dir.join("debs");
    fs::create_dir(&debs)?;
    let mut download = Command::new("apt-get");
    download.arg("download").args(PACKAGES).args([&library, &llvm]).current_dir(&debs);
    tool::run(&mut download, FETCH_MAX)?;
    for entry in fs::read_dir(&debs)? {
        tool::run(Command::new("dpkg").arg("-x").arg(entry?.path()).arg(dir.join("root")), FETCH_MAX)?;
    }
    Ok(fs::remove_dir_all(&debs)?)
}

/// The package that another one needs and whose name starts so: such names carry versions.
fn dependency(package: &str, prefix: &str) -> Result<String> {
    let listed = tool::run(Command::new("apt-cache").args(["depends", package]), FETCH_MAX)
        .context("this needs Debian's apt-cache with current lists, see `apt-get update`")?;
    find_dependency(&listed, prefix).with_context(|| format!("{package} of this Debian needs no {prefix}*"))
}

fn find_dependency(listed: &str, prefix: &str) -> Option<String> {
    let names = listed.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let versioned =
        |name: &&str| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    names.map(str::trim).find(versioned).map(str::to_owned)
}

fn compiler(dir: &Path) -> Result<Compiler> {
    let usr = dir.join("root/usr");
    let sysroot = tool::run(Command::new("rustc").args(["--print", "sysroot"]), FETCH_MAX)?;
    let linker: PathBuf =
        [sysroot.trim(), "lib/rustlib", &format!("{ARCH}-unknown-linux-gnu"), "bin/rust-lld"].iter().collect();
    Ok(Compiler {
        arguments: vec!["-Zbuild-std=std,panic_abort"],
        environment: vec![
            ("RUSTC", usr.join("bin/rustc").into()),
            // The flag before is for nightly compilers; this lets a stable one take it.
            ("RUSTC_BOOTSTRAP", "1".into()),
            ("LD_LIBRARY_PATH", usr.join(format!("lib/{ARCH}-linux-gnu")).into()),
            ("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker.into()),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_versioned_dependency() {
        let listed =
            "libstd-rust-web-dev\n  Depends: gcc\n  Depends: libstd-rust-web-dev-x\n  Depends: libstd-rust-web-1.96\n";
        assert_eq!(find_dependency(listed, "libstd-rust-web-").as_deref(), Some("libstd-rust-web-1.96"));
        assert_eq!(find_dependency(listed, "libllvm"), None);
    }
}
