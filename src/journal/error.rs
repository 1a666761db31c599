//! Why the journal did not do as asked.

use std::path::{Path, PathBuf};

/// Why the journal did not do as asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened or created.
    #[error("cannot open the journal {path}: {reason}; check that the folder exists and is writable")]
    Open {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
    /// The file was written by a newer version.
    #[error("the journal {path} has format {found}, this version reads up to {known}; upgrade pointsman")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format known here.
        known: i64,
    },
    /// The disk is full.
    #[error("the journal's disk is full; free space, nothing acknowledged was lost")]
    DiskFull,
    /// The file or its folder cannot be written.
    #[error(
        "the journal cannot be written ({0}); make its folder and files writable for this user, nothing acknowledged was lost"
    )]
    ReadOnly(String),
    /// Another program holds the file.
    #[error("another program holds the journal's lock; end it (a backup, a database browser), then try again")]
    Busy,
    /// The file's structure is broken.
    #[error("the journal is damaged ({0}); stop the daemon, run `pointsman journal verify`, then bring a backup back")]
    Corrupt(String),
    /// A stored record cannot be read.
    #[error(
        "journal record {seq} cannot be read: {reason}; run `pointsman journal verify` to see whether there are more, then bring a \
         backup back"
    )]
    Damaged {
        /// Its sequence number.
        seq: i64,
        /// What is wrong.
        reason: String,
    },
    /// A task was embedded by another model than the one in use.
    #[error(
        "journal record {seq} was embedded by {found}, the settings ask for {wanted}: run `pointsman memory rebuild` to \
         embed the journal's tasks again, or set the model back"
    )]
    OtherModel {
        /// Its sequence number.
        seq: i64,
        /// The model that embedded it.
        found: String,
        /// The model in use.
        wanted: String,
    },
    /// The writer has stopped.
    #[error("the journal is closed")]
    Closed,
    /// Anything else that SQLite said.
    #[error("the journal failed: {0}")]
    Other(String),
}

impl JournalError {
    /// What an error means that comes when a file is opened.
    pub(super) fn opening(path: &Path) -> impl Fn(sqlx::Error) -> Self + Copy + '_ {
        move |error| Self::Open { path: path.into(), reason: error.to_string() }
    }
}

impl From<sqlx::Error> for JournalError {
    fn from(error: sqlx::Error) -> Self {
        if matches!(error, sqlx::Error::PoolClosed) {
            return Self::Closed;
        }
        let code = error.as_database_error().and_then(|db| db.code()).and_then(|code| code.parse::<u32>().ok());
        // SQLite's primary result codes; extended ones keep them in the low byte.
        match code.map(|code| code & 0xff) {
            Some(5 | 6) => Self::Busy,
            Some(8) => Self::ReadOnly(error.to_string()),
            Some(11 | 26) => Self::Corrupt(error.to_string()),
            Some(13) => Self::DiskFull,
            _ => Self::Other(error.to_string()),
        }
    }
}
