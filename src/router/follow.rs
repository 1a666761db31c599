//! For whoever follows the journal beside the loop.

use tokio::sync::watch;

use super::{Router, RouterError, running::Phase};
use crate::{journal::JournalReader, round::DecisionId};

impl Router {
    /// A reader of the journal with connections of its own, so that it takes none from requests. To be closed before the router is.
    pub async fn journal_reader(&self) -> Result<JournalReader, RouterError> {
        Ok(JournalReader::open(self.journal.path(), self.journal.embedding_model()).await?)
    }

    /// The place of the journal's last event, as it moves.
    pub fn last_place(&self) -> watch::Receiver<i64> {
        self.journal.last_place()
    }

    /// Whether a task may get another decision in the place of one that failed. `first` is the task's first decision. What took
    /// a place is in the journal before this turns false.
    pub fn may_be_replaced(&self, first: DecisionId) -> bool {
        self.replacing.phase(first) != Phase::Away
    }
}
