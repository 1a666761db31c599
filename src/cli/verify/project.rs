//! A verifier's project: a folder with a `verifier.toml`, the contract and sources.

use std::{
    fmt, fs,
    path::{Component, Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::Deserialize;

/// What describes a project.
pub(super) const MANIFEST: &str = "verifier.toml";
const NAME_BYTES_MAX: usize = 64;

/// A verifier's name: also a file's, a package's, and a part of an address.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Name(String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
        if starts && text.len() <= NAME_BYTES_MAX && text.chars().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "a name starts with a lower-case letter and has at most {NAME_BYTES_MAX} of a to z, 0 to 9, - and _, \
                 such as my-check"
            ))
        }
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a verifier is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Language {
    Python,
    Rust,
    C,
    Javascript,
}

impl Language {
    /// As people write it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::Rust => "Rust",
            Self::C => "C",
            Self::Javascript => "JavaScript",
        }
    }
}

/// Which of the contract's worlds a verifier is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum World {
    Verifier,
    ExecVerifier,
}

impl World {
    /// Its name in the contract.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Verifier => "verifier",
            Self::ExecVerifier => "exec-verifier",
        }
    }
}

/// The file, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    name: Name,
    language: Language,
    world: World,
    entry: PathBuf,
}

/// A project that can be built.
#[derive(Debug)]
pub(super) struct Project {
    /// Absolute, so that tools may run in any folder.
    pub dir: PathBuf,
    pub name: Name,
    pub language: Language,
    pub world: World,
    /// The source file to start from, below the folder.
    pub entry: PathBuf,
}

impl Project {
    /// Reads and checks the project in a folder.
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let file = dir.join(MANIFEST);
        let text = fs::read_to_string(&file).with_context(|| {
            format!("{} cannot be read: give a project's folder, or start one with `pointsman verify new NAME --language LANGUAGE`", file.display())
        })?;
        let Manifest { name, language, world, entry } = toml::from_str(&text)
            .with_context(|| format!("{} must have the keys name, language, world and entry", file.display()))?;
        if !entry.components().all(|part| matches!(part, Component::Normal(_))) {
            bail!("{}: entry must be a file below the project's folder, such as check.py", file.display());
        }
        let dir = dir.canonicalize().with_context(|| format!("{} cannot be found", dir.display()))?;
        let project = Self { dir, name, language, world, entry };
        for needed in [&project.entry, Path::new("wit/verifier.wit")] {
            ensure!(
                project.dir.join(needed).is_file(),
                "{} is not there; entry in {MANIFEST} names the source, wit/ holds the contract that \
                 `pointsman verify new` writes",
                project.dir.join(needed).display()
            );
        }
        Ok(project)
    }

    /// The contract's folder.
    pub(super) fn wit(&self) -> PathBuf {
        self.dir.join("wit")
    }

    /// Where intermediate files go; can be deleted at any time.
    pub(super) fn build_dir(&self) -> Result<PathBuf> {
        let dir = self.dir.join("build");
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_names_that_are_safe_everywhere() {
        for good in ["a", "my-check", "check_2"] {
            assert_eq!(good.parse::<Name>().unwrap().to_string(), good);
        }
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for bad in ["", "My-check", "2nd", "-a", "a b", "a/b", "../a", "a.b", "é", long.as_str()] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }

    #[test]
    fn says_what_is_wrong_with_a_project() {
        let folder = tempfile::tempdir().unwrap();
        let problem = |toml: &str| {
            fs::write(folder.path().join(MANIFEST), toml).unwrap();
            format!("{:#}", Project::open(folder.path()).unwrap_err())
        };
        assert!(format!("{:#}", Project::open(folder.path()).unwrap_err()).contains("verify new"));
        let fine = "name = \"a\"\nlanguage = \"python\"\nworld = \"verifier\"\n";
        assert!(problem(fine).contains("missing field `entry`"));
        assert!(problem(&format!("{fine}entry = \"../a.py\"")).contains("below the project's folder"));
        assert!(problem(&format!("{fine}entry = \"/a.py\"")).contains("below the project's folder"));
        assert!(problem(&format!("{fine}entry = \"a.py\"")).contains("a.py is not there"));
        assert!(problem(&format!("{fine}entry = \"a.py\"\nmain = 1")).contains("unknown field `main`"));
        assert!(problem(&fine.replace("\"a\"", "\"A\"")).contains("lower-case"));
        assert!(problem(&fine.replace("python", "cobol")).contains("cobol"));
    }
}
