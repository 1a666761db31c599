//! Where a model lives and what it is: an installed folder that its manifest describes, or a folder of the user's.
//!
//! Start-up compares an installed model's sizes only (a full SHA-256 of 125 MB would cost more than loading it);
//! [`ModelFiles::verify`] reads everything. The id names the weights: two models of one name whose weights differ have
//! different ids. What can go wrong: nothing is installed ([`EmbeddingError::Missing`],
//! [`EmbeddingError::NotInstalled`]), a file was deleted, cut short or changed since ([`EmbeddingError::Corrupt`]), or
//! the user's folder lacks something ([`EmbeddingError::Folder`]).

use std::{
    fs,
    path::{Path, PathBuf},
};

use fastembed::{OutputKey, QuantizationMode};

use super::{
    EmbeddingError, EmbeddingSettings, KnownModel, Pooling,
    folder::Folder,
    manifest::{FileEntry, Manifest},
};

/// The default model's name, its folder's name and its id in memory and journal.
pub(super) const MODEL_ID: &str = "all-MiniLM-L6-v2";
/// How the name of the ONNX Runtime library starts.
const RUNTIME: &str = "libonnxruntime.";
/// Hexadecimal digits of the weights' SHA-256 in an id: 48 bits, enough for the models of one user.
const SHORT: usize = 12;

/// A model on disk, and all that loading it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    dir: PathBuf,
    id: String,
    dimension: usize,
    tokens_max: usize,
    runtime: PathBuf,
    /// None for a folder of the user's.
    manifest: Option<Manifest>,
    pub(super) onnx: PathBuf,
    pub(super) data: Vec<PathBuf>,
    pub(super) pooling: Pooling,
    pub(super) quantization: QuantizationMode,
    pub(super) output: Option<OutputKey>,
}

impl ModelFiles {
    /// Finds the model of the settings: the configured folder if there is one, else the named model, or
    /// all-MiniLM-L6-v2, in the cache.
    pub fn resolve(settings: &EmbeddingSettings) -> Result<Self, EmbeddingError> {
        let cache = &settings.cache_dir;
        let name = settings.model.as_deref();
        let Some(dir) = &settings.model_dir else {
            let Some(name) = name else { return Self::open(installed_dir(cache, MODEL_ID), MODEL_ID, cache) };
            let known = KnownModel::find(name).ok_or_else(|| EmbeddingError::UnknownModel { name: name.into() })?;
            return Self::open(installed_dir(cache, &known.name()), &known.name(), cache);
        };
        match Manifest::read(dir)? {
            Some(manifest) => {
                let other = name
                    .filter(|name| KnownModel::find(name).map(|known| known.name()) != Some(manifest.model.clone()));
                if let Some(name) = other {
                    let problem =
                        format!("it holds {} and `embedding.model` is {name:?}: leave one of both out", manifest.model);
                    return Err(EmbeddingError::Folder { dir: dir.clone(), problem });
                }
                if settings.pooling.is_some_and(|pooling| pooling != manifest.pooling) {
                    let problem = format!("it pools by {}: leave `embedding.pooling` out", manifest.pooling);
                    return Err(EmbeddingError::Folder { dir: dir.clone(), problem });
                }
                Self::of_manifest(dir.clone(), manifest, cache)
            }
            None => Self::of_folder(dir, name, settings.pooling, cache),
        }
    }

    /// All models in the cache, by folder name; an error for each that is damaged.
    pub fn installed(cache_dir: &Path) -> Result<Vec<Result<Self, EmbeddingError>>, EmbeddingError> {
        let models = models_dir(cache_dir);
        if !models.is_dir() {
            return Ok(vec![]);
        }
        let mut dirs = vec![];
        for entry in fs::read_dir(&models).map_err(EmbeddingError::io(&models))? {
            let entry = entry.map_err(EmbeddingError::io(&models))?;
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if !hidden && entry.path().is_dir() {
                dirs.push(entry.path());
            }
        }
        dirs.sort();
        let open = |dir: PathBuf| {
            let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Self::open(dir, &name, cache_dir)
        };
        Ok(dirs.into_iter().map(open).collect())
    }

    /// Opens the installed folder of a model. Checks names and sizes.
    pub(super) fn open(dir: PathBuf, name: &str, cache_dir: &Path) -> Result<Self, EmbeddingError> {
        match Manifest::read(&dir)? {
            Some(manifest) => Self::of_manifest(dir, manifest, cache_dir),
            None if name == MODEL_ID => Err(EmbeddingError::Missing { dir }),
            None => Err(EmbeddingError::NotInstalled { model: name.into(), dir }),
        }
    }

    fn of_manifest(dir: PathBuf, manifest: Manifest, cache_dir: &Path) -> Result<Self, EmbeddingError> {
        let known = KnownModel::find(&manifest.model);
        // The default model's weights are pinned, so that its name is enough.
        let id = match manifest.model.as_str() {
            MODEL_ID => MODEL_ID.to_owned(),
            name => id(name, &manifest.weights()),
        };
        Ok(Self {
            id,
            dimension: manifest.dimension,
            tokens_max: manifest.tokens_max,
            runtime: match &manifest.runtime {
                Some(name) => dir.join(name),
                None => installed_runtime(cache_dir)?,
            },
            onnx: dir.join(&manifest.onnx),
            data: manifest.data.iter().map(|name| dir.join(name)).collect(),
            pooling: manifest.pooling,
            quantization: known.as_ref().map(KnownModel::quantization).unwrap_or_default(),
            output: known.as_ref().and_then(KnownModel::output),
            manifest: Some(manifest),
            dir,
        })
    }

    fn of_folder(
        dir: &Path,
        name: Option<&str>,
        pooling: Option<Pooling>,
        cache_dir: &Path,
    ) -> Result<Self, EmbeddingError> {
        let known = name.and_then(KnownModel::find);
        let folder = Folder::read(dir, known.as_ref(), pooling)?;
        let name = match (&known, name) {
            (Some(known), _) => known.name(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => {
                let whole = fs::canonicalize(dir).map_err(EmbeddingError::io(dir))?;
                whole.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
        };
        let mut id = id(&name, &folder.weights_sha256);
        // The same weights pooled in another way are another model.
        if known.as_ref().map(KnownModel::pooling) != Some(folder.pooling) {
            id = format!("{id}+{}", folder.pooling);
        }
        Ok(Self {
            dir: dir.into(),
            id,
            dimension: folder.dimension,
            tokens_max: folder.tokens_max,
            runtime: match own_runtime(dir)? {
                Some(runtime) => runtime,
                None => installed_runtime(cache_dir)?,
            },
            manifest: None,
            onnx: folder.onnx,
            data: folder.data,
            pooling: folder.pooling,
            quantization: known.as_ref().map(KnownModel::quantization).unwrap_or_default(),
            output: known.as_ref().and_then(KnownModel::output),
        })
    }

    /// Reads every file of an installed model and compares its SHA-256 with the manifest; some 0.5 GB/s.
    pub fn verify(&self) -> Result<(), EmbeddingError> {
        let Some(manifest) = &self.manifest else {
            let problem = "it has no MANIFEST.json to compare its files with".into();
            return Err(EmbeddingError::Folder { dir: self.dir.clone(), problem });
        };
        for (name, entry) in &manifest.files {
            let path = self.dir.join(name);
            let found = FileEntry::of(&path).map_err(EmbeddingError::io(path))?;
            if found != *entry {
                let problem = format!("{name} has changed since it was installed");
                return Err(EmbeddingError::Corrupt { dir: self.dir.clone(), problem });
            }
        }
        Ok(())
    }

    /// The model's id: `all-MiniLM-L6-v2`, or name and weights of another, such as `bge-small-en-v1.5@828e1496d7fa`.
    pub fn model_id(&self) -> &str {
        &self.id
    }

    /// The vectors' length.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Tokens that the model can read at most.
    pub fn tokens_max(&self) -> usize {
        self.tokens_max
    }

    /// The model's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The ONNX Runtime library.
    pub(super) fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// A file of the model's folder, whole.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, EmbeddingError> {
        let path = self.dir.join(name);
        fs::read(&path).map_err(EmbeddingError::io(path))
    }
}

/// The folder of an installed model in a cache folder.
pub(super) fn installed_dir(cache_dir: &Path, name: &str) -> PathBuf {
    models_dir(cache_dir).join(name)
}

/// The folder of all models in a cache folder.
pub(super) fn models_dir(cache_dir: &Path) -> PathBuf {
    cache_dir.join("models")
}

/// The library that came with the default model.
fn installed_runtime(cache_dir: &Path) -> Result<PathBuf, EmbeddingError> {
    let dir = installed_dir(cache_dir, MODEL_ID);
    let manifest = Manifest::read(&dir)?.ok_or_else(|| EmbeddingError::Missing { dir: dir.clone() })?;
    let runtime = manifest.runtime.map(|name| dir.join(name));
    runtime.ok_or_else(|| EmbeddingError::Corrupt { dir, problem: "its manifest names no runtime".into() })
}

/// A library that the user put into the model's folder.
fn own_runtime(dir: &Path) -> Result<Option<PathBuf>, EmbeddingError> {
    let mut found = vec![];
    for entry in fs::read_dir(dir).map_err(EmbeddingError::io(dir))? {
        let entry = entry.map_err(EmbeddingError::io(dir))?;
        if entry.file_name().to_string_lossy().starts_with(RUNTIME) {
            found.push(entry.path());
        }
    }
    Ok(found.into_iter().max())
}

/// Letters that would be awkward in a log or a file name become `-`.
fn id(name: &str, sha256: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-/".contains(c) { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    format!("{name}@{}", sha256.get(..SHORT).unwrap_or(sha256))
}
