//! What an installed model's folder holds, as its `MANIFEST.json` tells: written last, so that a folder with a manifest
//! was once whole.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{EmbeddingError, Pooling};

pub(super) const MANIFEST: &str = "MANIFEST.json";
pub(super) const ONNX: &str = "model.onnx";
pub(super) const CONFIG: &str = "config.json";
pub(super) const TOKENIZER: &str = "tokenizer.json";
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
pub(super) const SPECIAL_TOKENS: &str = "special_tokens_map.json";
/// Raised when an installed model must be fetched again, such as after a change to the ONNX writer.
pub(super) const FORMAT: u32 = 1;

/// `MANIFEST.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub format: u32,
    pub model: String,
    /// The vectors' length.
    pub dimension: usize,
    /// Tokens that the model can read at most.
    pub tokens_max: usize,
    /// How the vectors of the tokens become one.
    #[serde(default = "mean")]
    pub pooling: Pooling,
    /// The ONNX file's name.
    #[serde(default = "onnx")]
    pub onnx: String,
    /// Names of the files that the ONNX file refers to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<String>,
    /// The file name of the ONNX Runtime library; none for a model that uses that of all-MiniLM-L6-v2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    pub files: BTreeMap<String, FileEntry>,
}

/// Of manifests that state no pooling: those of all-MiniLM-L6-v2.
fn mean() -> Pooling {
    Pooling::Mean
}

fn onnx() -> String {
    ONNX.into()
}

impl Manifest {
    /// Reads a folder's manifest, if there is one, and checks names and sizes.
    pub fn read(dir: &Path) -> Result<Option<Self>, EmbeddingError> {
        let path = dir.join(MANIFEST);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(EmbeddingError::io(path)(error)),
        };
        let read = serde_json::from_slice::<Self>(&text).map_err(|error| format!("{MANIFEST}: {error}"));
        let checked = read.and_then(|manifest| manifest.check(dir).map(|()| manifest));
        checked.map(Some).map_err(|problem| EmbeddingError::Corrupt { dir: dir.into(), problem })
    }

    fn check(&self, dir: &Path) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("its format is {}, this version reads {FORMAT}", self.format));
        }
        let own = [self.onnx.as_str(), CONFIG, TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS];
        let mut needed = own.into_iter().chain(self.runtime.as_deref()).chain(self.data.iter().map(String::as_str));
        if let Some(name) = needed.find(|name| !self.files.contains_key(*name)) {
            return Err(format!("{MANIFEST} does not list {name}"));
        }
        for (name, entry) in &self.files {
            // A manifest is data: it may not send us out of its folder.
            if Path::new(name).file_name() != Some(name.as_ref()) {
                return Err(format!("{MANIFEST} lists {name:?}, which is not a plain file name"));
            }
            match fs::metadata(dir.join(name)) {
                Ok(found) if found.is_file() && found.len() == entry.bytes => {}
                Ok(found) => return Err(format!("{name} has {} bytes instead of {}", found.len(), entry.bytes)),
                Err(error) => return Err(format!("{name}: {error}")),
            }
        }
        Ok(())
    }

    /// SHA-256 of the weights; see [`weights_sha256`].
    pub fn weights(&self) -> String {
        let sha256 = |name: &String| self.files.get(name).map(|entry| entry.sha256.clone()).unwrap_or_default();
        weights_sha256(sha256(&self.onnx), self.data.iter().map(sha256))
    }
}

/// A file's expected size and content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileEntry {
    pub bytes: u64,
    /// Lower-case hexadecimal.
    pub sha256: String,
}

impl FileEntry {
    /// Measures a file.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut hasher = Sha256Writer::default();
        let bytes = io::copy(&mut fs::File::open(path)?, &mut hasher)?;
        Ok(Self { bytes, sha256: hasher.finish() })
    }
}

/// What identifies a model's weights: the ONNX file's SHA-256, or where it refers to other files, the SHA-256 of all
/// their SHA-256.
pub(super) fn weights_sha256(onnx: String, data: impl Iterator<Item = String>) -> String {
    let data: Vec<_> = data.collect();
    if data.is_empty() {
        return onnx;
    }
    let mut hasher = Sha256Writer::default();
    data.iter().chain([&onnx]).for_each(|sha256| hasher.0.update(sha256));
    hasher.finish()
}

/// Takes the SHA-256 of what is written.
#[derive(Default)]
pub(super) struct Sha256Writer(Sha256);

impl Sha256Writer {
    /// Lower-case hexadecimal.
    pub fn finish(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl io::Write for Sha256Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
