//! Taking the journal elsewhere: as lines that an import reads back, as a table of rounds for analysts, as examples for Vowpal
//! Wabbit; and bringing it back.
//!
//! An export reads beside the daemon and ends at the last event that was there when it began. It goes through the journal in
//! pages, so that its memory does not grow with the journal.
//!
//! What can go wrong: a damaged record ends an export with its place. A file that was cut off or changed lacks the right last
//! line, and an import of it never counts as whole.

mod dsjson;
mod import;
mod jsonl;
mod line;
mod rounds;
mod source;
mod table;
mod time;

use std::io;

pub use dsjson::{DsjsonCounts, DsjsonOptions, export_dsjson};
pub use import::{ImportError, Imported, Stopped, import};
pub use jsonl::{JsonlOptions, export_jsonl};
pub use line::Line;
pub use rounds::{Judged, Round, RoundStatus, Rounds};
pub use source::{Selection, Source};
pub use table::export_parquet;
pub use time::{parse_time, timestamp};

use super::JournalError;

/// Why an export ended early.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The file cannot be written.
    #[error("cannot write the export: {0}")]
    Write(#[from] io::Error),
    /// The table cannot be written.
    #[error("cannot write the table: {0}")]
    Table(String),
}

#[cfg(test)]
mod tests;
