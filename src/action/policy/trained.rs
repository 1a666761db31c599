//! Files that offline training leaves for policies to start from: JSON with a format number and a kind at its top.
//!
//! Nothing in a file is trusted. What is not of the right shape is refused with the command that makes a good one; a
//! damaged arm is left out by the reader of that kind, so that one arm costs itself alone.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The format that is written and read.
const FORMAT: u32 = 1;
/// The largest file that is read: three times what the largest classifier takes.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainedKind {
    /// A model of `classifier`.
    Classifier,
    /// A model of `tfidf_classifier`.
    TfidfClassifier,
    /// A probing set of `domain_prior`.
    Probing,
    /// A checkpoint of `mode_router`.
    ModeRouter,
}

/// Why a trained file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrainedError {
    /// It is not there, cannot be read or is too large.
    #[error("cannot read {path}: {reason}; correct the path, or {}", .wanted.remedy())]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        reason: String,
        /// What was wanted.
        wanted: TrainedKind,
    },
    /// It is of another version.
    #[error("{path} has format {found}, this version reads {FORMAT}: {}", .wanted.remedy())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// What was wanted.
        wanted: TrainedKind,
    },
    /// It is for something else.
    #[error("{path} is a file of kind {found:?}, wanted is {:?}: {}", .wanted.name(), .wanted.remedy())]
    Kind {
        /// The file.
        path: PathBuf,
        /// Its kind.
        found: String,
        /// What was wanted.
        wanted: TrainedKind,
    },
    /// Its content makes no sense.
    #[error("{path} is damaged: {problem}; {}", .wanted.remedy())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// What was wanted.
        wanted: TrainedKind,
    },
}

#[derive(Deserialize)]
struct Head {
    format: u64,
    kind: String,
}

/// A file: its head, then what it holds.
#[derive(Serialize)]
struct Whole<'a, T> {
    format: u32,
    kind: TrainedKind,
    #[serde(flatten)]
    body: &'a T,
}

impl TrainedKind {
    /// The policy, or what it starts from.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classifier => "classifier",
            Self::TfidfClassifier => "tfidf_classifier",
            Self::Probing => "probing",
            Self::ModeRouter => "mode_router",
        }
    }

    /// The card's key that names such a file.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Classifier => "classifier.model",
            Self::TfidfClassifier => "tfidf_classifier.model",
            Self::Probing => "domain_prior.probing",
            Self::ModeRouter => "mode_router.model",
        }
    }

    /// What to do about a file that cannot be used.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::Classifier => "train one with `pointsman train classifier` and name it in the card",
            Self::TfidfClassifier => "train one with `pointsman train classifier --kind tfidf` and name it in the card",
            Self::ModeRouter => "train one with `pointsman train mode-router` and name it in the card",
            Self::Probing => "make one with `pointsman train priors` and name it in the card",
        }
    }
}

/// The text of a file.
pub(super) fn write(kind: TrainedKind, body: &impl Serialize) -> String {
    let whole = Whole { format: FORMAT, kind, body };
    serde_json::to_string(&whole).expect("names and numbers are always JSON")
}

/// Reads a file of the wanted kind; `check` makes it what the policy uses, or says what is wrong with it.
pub(super) fn read<S: DeserializeOwned, T>(
    path: &Path,
    wanted: TrainedKind,
    check: impl FnOnce(S) -> Result<T, String>,
) -> Result<T, TrainedError> {
    let unreadable = |reason| TrainedError::Read { path: path.into(), reason, wanted };
    let bytes = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(unreadable(format!("it has {bytes} bytes, at most {FILE_BYTES_MAX} are read")));
    }
    let text = fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let damaged = |problem| TrainedError::Damaged { path: path.into(), problem, wanted };
    let head: Head = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    if head.kind != wanted.name() {
        return Err(TrainedError::Kind { path: path.into(), found: head.kind, wanted });
    }
    if head.format != u64::from(FORMAT) {
        return Err(TrainedError::Format { path: path.into(), found: head.format, wanted });
    }
    let body = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    check(body).map_err(damaged)
}
