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
//! Records are packed JSON with a checksum (`pack`), in a file that older versions' records stay readable in (`schema`).
//! What they hold of texts is the operator's choice (`keeping`), and can be taken out later (`erase`).
//!
//! What can go wrong: a full disk, an unwritable folder or another program's lock fails the append and nothing is
//! acknowledged; a file written by a newer version is refused; a damaged record is named.

mod append;
mod compact;
mod decided;
mod erase;
mod error;
mod event;
pub mod export;
mod keeping;
mod pack;
mod reader;
mod schema;
mod sqlite;
mod verify;
mod writer;

pub use append::{Appended, Committed, NewEvent, Stored};
pub use compact::{Shrunk, compact, compactable, shrink};
pub use decided::{ContextRecord, Decided, Observed};
pub use erase::{Erasure, erase};
pub use error::JournalError;
pub use event::{
    ArmChange, Compacted, Erased, ErasedBy, Event, PolicyChange, PolicyOrigin, PolicyRole, Restored, SnapshotChange,
    Spent,
};
pub use keeping::Keeping;
pub use reader::{JournalReader, Open};
pub use sqlite::{Journal, JournalSettings, Synchronous};
pub use verify::{Verified, verify};
pub use writer::now_ms;

/// What was learnt from records that compaction has taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The place up to which the state was folded.
    pub seq: i64,
    /// When that event was appended, in milliseconds since 1970.
    pub at_ms: i64,
    /// The state, as a checkpoint keeps it.
    pub state: String,
}

#[cfg(test)]
mod tests;
