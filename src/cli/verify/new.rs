//! `pointsman verify new`: a project out of compiled-in templates. All languages' templates do the same, so that one
//! golden file fits each.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::project::{Language, MANIFEST, Name, World};

/// A file of a template: its place in the project, and its text with placeholders.
type Template = (&'static str, &'static str);

macro_rules! template {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/verifiers/", $path))
    };
}

const SHARED: [Template; 4] = [
    ("README.md", template!("templates/shared/README.md")),
    (".gitignore", template!("templates/shared/gitignore")),
    ("golden.jsonl", template!("templates/shared/golden.jsonl")),
    ("wit/verifier.wit", template!("wit/verifier.wit")),
];

#[derive(Args)]
pub(super) struct NewArguments {
    /// The verifier's name: a to z, 0 to 9, - and _.
    name: Name,
    /// What to write it in.
    #[arg(long, value_enum)]
    language: Language,
    /// The folder, new or empty [default: the name].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(arguments: &NewArguments) -> Result<()> {
    let NewArguments { name, language, dir } = arguments;
    let dir = dir.clone().unwrap_or_else(|| PathBuf::from(name.to_string()));
    write(name, *language, &dir)?;
    println!(
        "{name} is written to {dir}; {entry} is the verifier. Next:
  pointsman verify build {dir}
  pointsman verify check {dir}/{name}.wasm --golden {dir}/golden.jsonl",
        dir = dir.display(),
        entry = sources(*language)[0].0
    );
    Ok(())
}

fn write(name: &Name, language: Language, dir: &Path) -> Result<()> {
    ensure!(
        is_free(dir).with_context(|| format!("{} cannot be used", dir.display()))?,
        "{} is there and not empty: give another folder with --dir DIR",
        dir.display()
    );
    let sources = sources(language);
    let entry = sources[0].0;
    let manifest = format!(
        "name = \"{name}\"\nlanguage = \"{}\"\nworld = \"{}\"\nentry = \"{entry}\"\n",
        language.title().to_lowercase(),
        World::Verifier.name()
    );
    let fill = |text: &str| {
        text.replace("{{name}}", &name.to_string())
            .replace("{{language}}", language.title())
            .replace("{{entry}}", entry)
    };
    let templates = sources.iter().chain(&SHARED).map(|(path, text)| (*path, fill(text)));
    for (path, text) in templates.chain([(MANIFEST, manifest)]) {
        let file = dir.join(path);
        let written = fs::create_dir_all(file.parent().unwrap_or(dir)).and_then(|()| fs::write(&file, text));
        written.with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// The language's own files; the first is the one to edit.
fn sources(language: Language) -> &'static [Template] {
    match language {
        Language::Python => &[("check.py", template!("templates/python/check.py"))],
        Language::Rust => &[
            ("src/lib.rs", template!("templates/rust/src/lib.rs")),
            ("Cargo.toml", template!("templates/rust/Cargo.toml.in")),
        ],
        Language::C => &[
            ("check.c", template!("templates/c/check.c")),
            ("metadata.c", template!("templates/c/metadata.c")),
            ("metadata.h", template!("templates/c/metadata.h")),
        ],
        Language::Javascript => &[("check.js", template!("templates/javascript/check.js"))],
    }
}

/// Nothing of the user's is ever overwritten.
fn is_free(dir: &Path) -> io::Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::project::Project, *};

    const LANGUAGES: [Language; 4] = [Language::Python, Language::Rust, Language::C, Language::Javascript];

    #[test]
    fn writes_a_project_that_opens_in_every_language() {
        for language in LANGUAGES {
            let folder = tempfile::tempdir().unwrap();
            let dir = folder.path().join("deep/project");
            write(&"my-check".parse().unwrap(), language, &dir).unwrap();
            let project = Project::open(&dir).unwrap();
            assert_eq!((project.name.to_string().as_str(), project.language), ("my-check", language));
            assert_eq!(project.world, World::Verifier);
            let entry = fs::read_to_string(dir.join(&project.entry)).unwrap();
            assert!(entry.contains("my-check"), "{language:?}");
            for (path, _) in sources(language).iter().chain(&SHARED) {
                let text = fs::read_to_string(dir.join(path)).unwrap();
                assert!(!text.contains("{{"), "{path} of {language:?} has a placeholder left");
            }
        }
    }

    #[test]
    fn golden_lines_are_tasks_with_an_expectation() {
        for line in template!("templates/shared/golden.jsonl").lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(line["task"]["metadata"].is_object() && line["response"].is_string());
            assert!(line["expect"]["score"].is_f64() != line["expect"]["error"].is_string());
        }
    }

    #[test]
    fn leaves_a_folder_that_is_not_empty_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine"), "mine").unwrap();
        let error = write(&"a".parse().unwrap(), Language::C, folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains("--dir"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let file = folder.path().join("mine");
        assert!(write(&"a".parse().unwrap(), Language::C, &file).is_err());
    }
}
