//! The journal: the append-only truth from which policies, memory and regret are folded.
//!
//! Embedded, it is one SQLite file in WAL mode with one writer that commits appends in groups. An append returns only
//! once its group is durable. What was committed is then handed on in journal order to the one learner, so that
//! live learning and a replay of the journal apply the same rounds in the same order.
//!
//! Exactly-once is a constraint of the database, not a habit of the code: `once` is unique (an idempotency key, or a
//! feedback source of a decision), and `learns` is unique per decision, and channel
//! (verified or weak), so a decision is learnt from once by each, whoever judges first.
//!
//! What can go wrong: a full disk or an unwritable folder fails the append and nothing is acknowledged; a file
//! written by a newer version is refused.

mod event;
mod sqlite;
mod writer;

use std::path::PathBuf;

pub use event::{
    Appended, ArmChange, Committed, ContextRecord, Decided, Event, NewEvent, Observed, PolicyChange, PolicyOrigin,
    PolicyRole, Restored, Stored,
};
pub use sqlite::{Journal, JournalSettings, Synchronous};
pub use writer::now_ms;

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
    /// A stored record cannot be read.
    #[error("journal record {seq} cannot be read: {reason}")]
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

impl From<sqlx::Error> for JournalError {
    fn from(error: sqlx::Error) -> Self {
        // 13 is SQLITE_FULL; extended codes keep the primary code in the low byte.
        let full = error
            .as_database_error()
            .and_then(|db| db.code())
            .and_then(|code| code.parse::<u32>().ok())
            .is_some_and(|code| code & 0xff == 13);
        if full { Self::DiskFull } else { Self::Other(error.to_string()) }
    }
}

#[cfg(test)]
mod tests;
