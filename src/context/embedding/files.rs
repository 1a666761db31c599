//! Where a model lives: one folder with everything, described by its manifest.
//!
//! `MANIFEST.json` is written last, inside a temporary folder that is then renamed, so a folder with a manifest was
//! once whole. Start-up compares sizes only (a full SHA-256 of 125 MB would cost more than loading the model);
//! [`ModelFiles::verify`] reads everything. What can go wrong: the folder is absent ([`EmbeddingError::Missing`]), or a
//! file was deleted, cut short or changed since ([`EmbeddingError::Corrupt`]).

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{EmbeddingError, EmbeddingSettings};

/// The model's name, its folder's name and its id in memory and journal.
pub(super) const MODEL_ID: &str = "all-MiniLM-L6-v2";
pub(super) const MANIFEST: &str = "MANIFEST.json";
pub(super) const ONNX: &str = "model.onnx";
pub(super) const CONFIG: &str = "config.json";
pub(super) const TOKENIZER: &str = "tokenizer.json";
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
pub(super) const SPECIAL_TOKENS: &str = "special_tokens_map.json";
/// Raised when an installed model must be fetched again, such as after a change to the ONNX writer.
pub(super) const FORMAT: u32 = 1;

/// A model that is installed, as its manifest tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    dir: PathBuf,
    manifest: Manifest,
}

/// `MANIFEST.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub format: u32,
    pub model: String,
    /// The vectors' length.
    pub dimension: usize,
    /// Tokens that the model can read at most.
    pub tokens_max: usize,
    /// The file name of the ONNX Runtime library.
    pub runtime: String,
    pub files: BTreeMap<String, FileEntry>,
}

/// A file's expected size and content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileEntry {
    pub bytes: u64,
    /// Lower-case hexadecimal.
    pub sha256: String,
}

impl ModelFiles {
    /// Finds the model: the configured folder if there is one, else the cache. Checks names and sizes.
    pub fn resolve(settings: &EmbeddingSettings) -> Result<Self, EmbeddingError> {
        match &settings.model_dir {
            Some(dir) => Self::open(dir.clone()),
            None => Self::open(installed_dir(&settings.cache_dir)),
        }
    }

    /// Opens one folder. Checks names and sizes.
    pub(super) fn open(dir: PathBuf) -> Result<Self, EmbeddingError> {
        let path = dir.join(MANIFEST);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(EmbeddingError::Missing { dir }),
            Err(error) => return Err(EmbeddingError::io(path)(error)),
        };
        let files = match serde_json::from_slice::<Manifest>(&text) {
            Ok(manifest) => Self { dir, manifest },
            Err(error) => return Err(EmbeddingError::Corrupt { dir, problem: format!("{MANIFEST}: {error}") }),
        };
        files.check()?;
        Ok(files)
    }

    /// Reads every file and compares its SHA-256 with the manifest; about half a second.
    pub fn verify(&self) -> Result<(), EmbeddingError> {
        for (name, entry) in &self.manifest.files {
            let path = self.path(name);
            let found = FileEntry::of(&path).map_err(EmbeddingError::io(path))?;
            if found != *entry {
                return Err(self.corrupt(format!("{name} has changed since it was installed")));
            }
        }
        Ok(())
    }

    /// The model's id, such as `all-MiniLM-L6-v2`.
    pub fn model_id(&self) -> &str {
        &self.manifest.model
    }

    /// The vectors' length.
    pub fn dimension(&self) -> usize {
        self.manifest.dimension
    }

    /// Tokens that the model can read at most.
    pub fn tokens_max(&self) -> usize {
        self.manifest.tokens_max
    }

    /// The model's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The ONNX Runtime library.
    pub(super) fn runtime(&self) -> PathBuf {
        self.path(&self.manifest.runtime)
    }

    /// A file of the model, whole.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, EmbeddingError> {
        let path = self.path(name);
        fs::read(&path).map_err(EmbeddingError::io(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn check(&self) -> Result<(), EmbeddingError> {
        let manifest = &self.manifest;
        if manifest.format != FORMAT {
            return Err(self.corrupt(format!("its format is {}, this version reads {FORMAT}", manifest.format)));
        }
        let needed = [ONNX, CONFIG, TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS, manifest.runtime.as_str()];
        if let Some(name) = needed.into_iter().find(|name| !manifest.files.contains_key(*name)) {
            return Err(self.corrupt(format!("{MANIFEST} does not list {name}")));
        }
        for (name, entry) in &manifest.files {
            // A manifest is data: it may not send us out of its folder.
            if Path::new(name).file_name() != Some(name.as_ref()) {
                return Err(self.corrupt(format!("{MANIFEST} lists {name:?}, which is not a plain file name")));
            }
            match fs::metadata(self.path(name)) {
                Ok(found) if found.is_file() && found.len() == entry.bytes => {}
                Ok(found) => {
                    return Err(self.corrupt(format!("{name} has {} bytes instead of {}", found.len(), entry.bytes)));
                }
                Err(error) => return Err(self.corrupt(format!("{name}: {error}"))),
            }
        }
        Ok(())
    }

    fn corrupt(&self, problem: String) -> EmbeddingError {
        EmbeddingError::Corrupt { dir: self.dir.clone(), problem }
    }
}

impl FileEntry {
    /// Measures a file.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut hasher = Hasher(Sha256::new());
        let bytes = io::copy(&mut fs::File::open(path)?, &mut hasher)?;
        Ok(Self { bytes, sha256: hex(&hasher.0.finalize()) })
    }
}

/// The folder of the installed model in a cache folder.
pub(super) fn installed_dir(cache_dir: &Path) -> PathBuf {
    models_dir(cache_dir).join(MODEL_ID)
}

/// The folder of all models in a cache folder.
pub(super) fn models_dir(cache_dir: &Path) -> PathBuf {
    cache_dir.join("models")
}

struct Hasher(Sha256);

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
