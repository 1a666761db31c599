//! The sources of the first-party verifiers that are too large to come built.
//!
//! CPython with its library is 27 MB, and its build gives other bytes each time, so the program brings the modules and a
//! builder makes the component once. The file's name holds a digest of all that it was made of.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// What a component is built of.
pub struct Sources {
    /// The verifier's name.
    pub name: &'static str,
    /// The world of the contract that it is built for.
    pub world: &'static str,
    /// The module with the exports.
    pub entry: &'static str,
    /// The modules, file name and text.
    pub modules: &'static [(&'static str, &'static str)],
    /// The contract, file name and text.
    pub contract: (&'static str, &'static str),
    /// The builder and its version.
    pub builder: &'static str,
}

macro_rules! modules {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../../verifiers/python/", $file)))),*]
    };
}

/// Runs the answer's code against tests.
pub const PYTHON: Sources = Sources {
    name: "python",
    world: "exec-verifier",
    entry: "app",
    modules: modules![
        "app.py",
        "assemble.py",
        "compare.py",
        "doctests.py",
        "examples.py",
        "extract.py",
        "find.py",
        "judge.py",
        "prompt.py",
        "proxy.py",
        "run.py",
        "runner.py",
        "samples.py",
        "stdlib.py",
        "steps.py",
        "suite.py",
        "values.py",
        "warm_up.py",
    ],
    contract: ("verifier.wit", include_str!("../../../verifiers/wit/verifier.wit")),
    builder: include_str!("../../../verifiers/python/requirements.txt"),
};

impl Sources {
    /// The component's file in a folder of built ones.
    pub fn built_in(&self, folder: &Path) -> PathBuf {
        let mut hasher = Sha256::new();
        for (name, text) in self.modules.iter().chain([&self.contract, &("builder", self.builder)]) {
            // Lengths keep one text from running into the next.
            hasher.update(format!("{name} {}\n", text.len()));
            hasher.update(text);
        }
        let digest: String = hasher.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        folder.join(format!("{}-{digest}.wasm", self.name))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    #[test]
    fn every_module_of_the_python_verifier_is_brought_along() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("verifiers/python");
        let there = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let apart = |name: &String| name.starts_with("test_") || name == "coverage.py";
        let there: BTreeSet<_> = there.filter(|name| name.ends_with(".py") && !apart(name)).collect();
        let brought: BTreeSet<_> = PYTHON.modules.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(brought, there);
        assert!(PYTHON.builder.starts_with("componentize-py=="), "{}", PYTHON.builder);
    }
}
