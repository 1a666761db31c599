//! What is wrong with a dataset, and where: file, line and column.
//!
//! The files are other people's: of what they say at most [`SHOWN_CHARS`] characters are repeated.

use std::{fmt, path::PathBuf};

/// Characters of foreign data that an error repeats at most.
const SHOWN_CHARS: usize = 60;

/// Characters of a list of names that an error repeats at most.
const LIST_CHARS: usize = 200;

/// Characters of a parser's own words, which may quote data, that are kept.
const WORDS_CHARS: usize = 100;

/// Why a dataset cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// A file cannot be opened or read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Neither the plain nor the compressed file is there.
    #[error("{0} is missing, and so is the same name with .gz")]
    Missing(PathBuf),
    /// A compressed file ends too early.
    #[error(
        "{path}:{line}: the file is cut off: its gzip stream ends early, after {} whole lines; fetch the file again",
        .line - 1
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The first line that did not come whole, from 1.
        line: u64,
    },
    /// A line does not say what it should.
    #[error("{path}:{line}: {}{problem}", Column::prefix(.column.as_ref()))]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// Which part of the line, where it is one.
        column: Option<Column>,
        /// What is wrong.
        problem: String,
    },
    /// What lies at the path is no dataset, or not the one that was named.
    #[error("{path}: {problem}")]
    Layout {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// Nothing is left to replay.
    #[error("no task is in split {}; there are: {}", shown(.wanted), listed(.splits))]
    Empty {
        /// The split that was asked for.
        wanted: String,
        /// The splits that have tasks.
        splits: Vec<String>,
    },
    /// A model was asked for that the dataset does not have.
    #[error("there is no model {}; there are: {}", shown(.wanted), listed(.models))]
    NoModel {
        /// The model that was asked for.
        wanted: String,
        /// Those that there are.
        models: Vec<String>,
    },
}

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// A field of a JSON object.
    Field(String),
    /// A column of a table: its number, from 1, and its name.
    Numbered(usize, String),
    /// A character of the line, from 1, and the field that it is in, where that is known.
    Character(usize, Option<String>),
}

impl Column {
    fn prefix(column: Option<&Self>) -> String {
        column.map_or_else(String::new, |column| format!("column {column}: "))
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => f.write_str(&clipped(name, SHOWN_CHARS)),
            Self::Numbered(number, name) => write!(f, "{number} ({})", clipped(name, SHOWN_CHARS)),
            Self::Character(number, None) => write!(f, "{number}"),
            Self::Character(number, Some(name)) => write!(f, "{number} ({})", clipped(name, SHOWN_CHARS)),
        }
    }
}

/// Foreign data in quotes, cut where it is long.
pub(super) fn shown(text: impl AsRef<str>) -> String {
    format!("{:?}", clipped(text.as_ref(), SHOWN_CHARS))
}

/// Names, cut where they are many.
fn listed(names: &[String]) -> String {
    clipped(&names.join(", "), LIST_CHARS)
}

/// A parser's words, cut where they quote much.
pub(super) fn words(error: impl fmt::Display) -> String {
    clipped(&error.to_string(), WORDS_CHARS)
}

fn clipped(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
