//! What the policy learnt, kept beside the journal, so that a start need not fold all of it again.
//!
//! The file is only a shortcut: lost, damaged, of another card or of another journal it is ignored, and the journal is
//! folded from zero. Rows that make no sense cost their arm its place among the candidates, nothing more.

use std::{fs, io::Write, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cards::Acting;
use crate::{
    action::policy::{Action, Standings},
    round::PolicyRef,
};

/// The format that this version reads and writes.
const FORMAT: u32 = 1;

/// A state of a policy and the place in the journal that it was folded up to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    format: u32,
    policy: PolicyRef,
    /// The place in the journal.
    pub at: i64,
    /// When that event was appended: another journal has another one there.
    pub at_ms: i64,
    standings: Value,
    state: Value,
}

/// A checkpoint put to use.
pub(super) struct Resumed {
    /// Events up to this place are learnt.
    pub at: i64,
    pub standings: Standings,
    /// Actions whose rows made no sense.
    pub poisoned: Vec<Action>,
}

impl Checkpoint {
    pub fn of(acting: &Acting, standings: &Standings, at: i64, at_ms: i64) -> Self {
        let (policy, state) = (acting.reference(), acting.policy.state());
        Self { format: FORMAT, policy, at, at_ms, standings: standings.state(), state }
    }

    /// Writes it in one piece: a crash leaves the old file or the new one.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let part = path.with_extension("part");
        let mut file = fs::File::create(&part)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(part, path)
    }

    /// Reads a file; nothing when there is none, and the reason when it cannot be used.
    pub fn read(path: &Path) -> Result<Option<Self>, String> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let read: Self = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        if read.format == FORMAT { Ok(Some(read)) } else { Err(format!("format {} is not known here", read.format)) }
    }

    /// Gives the state to a policy that learnt nothing yet. A state that does not fit leaves it so.
    pub fn resume(&self, acting: &mut Acting) -> Result<Resumed, String> {
        if self.policy != acting.reference() {
            return Err(format!("it is of {} of {}", self.policy.name, self.policy.card));
        }
        let (standings, mut poisoned) = Standings::from_state(&self.standings).map_err(|error| error.to_string())?;
        match acting.policy.restore(&self.state) {
            Ok(more) => poisoned.extend(more),
            Err(error) => {
                // A part may have been taken over already.
                *acting = Acting::new(std::sync::Arc::clone(&acting.card), &acting.name)
                    .map_err(|error| error.to_string())?;
                return Err(error.to_string());
            }
        }
        poisoned.sort();
        poisoned.dedup();
        Ok(Resumed { at: self.at, standings, poisoned })
    }
}
