//! What is kept of a text.

use serde::{Deserialize, Serialize};

/// What the journal keeps of a task's and an answer's texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// All of it.
    #[default]
    Whole,
    /// A hash of it, under a key of the journal: equal texts are found to be equal, and no more.
    Hashed,
    /// Nothing.
    Dropped,
    /// Nothing any more: somebody asked for it to be erased.
    Erased,
}

impl Kept {
    /// Whether the text itself is there.
    pub fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}
