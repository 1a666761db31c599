//! Why a model cannot be read or trained.

/// Why a model cannot be read or trained.
#[derive(Debug, thiserror::Error)]
pub enum BackboneError {
    /// A file cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What went wrong.
        reason: String,
    },
    /// Nothing that a model could be read from.
    #[error("{0} holds no model: give one GGUF file, or a folder with config.json, tokenizer.json and *.safetensors")]
    NoModel(String),
    /// It was made in another way.
    #[error("{path} is a model of the architecture {found:?}, which is not known here: known are {known}")]
    Architecture {
        /// The file.
        path: String,
        /// What it is.
        found: String,
        /// What it may be.
        known: &'static str,
    },
    /// A number that says how it is made is missing or out of range.
    #[error("{path}: {key} {reason}")]
    Config {
        /// The file.
        path: String,
        /// Which number.
        key: String,
        /// What would be right.
        reason: String,
    },
    /// A matrix is missing.
    #[error(
        "{path}: the tensor {name} is missing, so the model is incomplete or of another kind than it says: get it again, whole"
    )]
    Missing {
        /// The file or folder.
        path: String,
        /// Its name there.
        name: String,
    },
    /// A matrix has another size than the model says.
    #[error(
        "{path}: the tensor {name} is of the size {found:?} and must be of {wanted:?}: the files are of different models, or its config is"
    )]
    Size {
        /// The file or folder.
        path: String,
        /// Its name there.
        name: String,
        /// As it is.
        found: Vec<usize>,
        /// As it must be.
        wanted: Vec<usize>,
    },
    /// A matrix has a number that is none.
    #[error("{path}: the tensor {name} has a number that is not finite: the file is broken, get it again")]
    NotFinite {
        /// The file or folder.
        path: String,
        /// Its name there.
        name: String,
    },
    /// No text can be read or written.
    #[error("{path}: {reason}: put the model's own tokenizer.json beside it")]
    Tokenizer {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The arithmetic failed.
    #[error("the network: {0}")]
    Network(#[from] candle_core::Error),
}
